"""The pictures of docs/tutorials/series.md. `python docs/pictures/series.py` follows the tutorial and draws them anew.

Its noise is new each time, so that pictures differ a little from one time to the next, as releases do.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parent / "tutorials" / "series.md"
BLOCK = re.compile(r"^```(console|python|yaml)\n(.*?)^```$", re.M | re.S)
WIDE, TALL, DIGIT = 720, 230, 8  # pixels of a picture, and of a digit beside its axis
PICTURES = {
    "series-young": (
        "Visits of people under 20, by month",
        "SELECT period, COUNT(*) AS n FROM visits WHERE age < 20 GROUP BY period",
    ),
    "series-change": (
        "Change from the month before (July: from May)",
        "SELECT period, COUNT(*) - LAG(COUNT(*)) OVER (ORDER BY period) AS n FROM visits WHERE age < 20 "
        "GROUP BY period",
    ),
}


def follow(page: str) -> None:
    """Run the blocks of a tutorial in the current folder, up to the report."""
    for found in BLOCK.finditer(page.split("## 6.", maxsplit=1)[0]):
        kind, block = found.groups()
        if kind == "python":
            exec(compile(block, PAGE.name, "exec"), {})  # noqa: S102 (our own page)
        elif kind == "yaml":
            (name,) = re.findall(r"`(\w+\.yaml)`:\s*$", page[: found.start()].rstrip())
            Path(name).write_text(block)
        else:
            for line in block.splitlines():
                subprocess.run(  # noqa: S603
                    [sys.executable, "-m", *shlex.split(line, comments=True)[1:]],
                    check=not line.endswith("# refused"),
                    capture_output=True,
                )


def draw(name: str, title: str, sql: str) -> None:
    """Draw the answer to a question as a line in the band of its intervals."""
    import sfumato as sf
    from sfumato.public.report.pictures import as_file, line

    release = sf.open("visits.sfumato")
    cells = {str(label): cell for cell, label in enumerate(release.domain["period"].labels())}
    labels, counts = zip(*((str(label), one) for label, one in release.query(sql).rows), strict=True)
    drawn = line(name, title, labels, counts, [cells[label] for label in labels], tall=TALL, letter=DIGIT / WIDE)
    subtitle = "epsilon 1 a month; the band: 95 % intervals; June was not published"
    (HERE / f"{name}.svg").write_text(as_file(drawn, title, subtitle, WIDE, TALL), encoding="utf-8")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.environ["SFUMATO_LEDGER"] = str(Path(folder) / "ledger.sqlite")
        follow(PAGE.read_text(encoding="utf-8"))
        for each, (what, asked) in PICTURES.items():
            draw(each, what, asked)
