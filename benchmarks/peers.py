"""Create the environment in which other people's packages run, for yardsticks.py and margins.py to set beside ours.

    python benchmarks/peers.py FOLDER

The last line printed is the Python to give to --peers-python. Versions are pinned, so that figures can be had again.
smartnoise-synth comes without what it asks for: pac-synth has no wheel for every platform, and neither MST nor AIM uses
it or opacus. smartnoise-sql keeps OpenDP to an earlier version than the newest. 1.2 GB, a few minutes.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import venv
from pathlib import Path

ALONE = ["smartnoise-synth==1.0.8"]
WITH_WHAT_THEY_NEED = [
    "smartnoise-sql==1.0.10",
    "mbi==1.1.0",
    "disjoint-set<0.10",
    "pandas<3",
    "Faker",
    "opendp==0.14.2",
    "diffprivlib==0.6.6",
    "scikit-learn<1.6",  # diffprivlib imports a name that later ones have not
    "jax-privacy==2.0.0",
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder.absolute()
    venv.create(folder, with_pip=True)
    python = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    for packages in (["--no-deps", *ALONE], WITH_WHAT_THEY_NEED):
        subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)
    print(python)


if __name__ == "__main__":
    main()
