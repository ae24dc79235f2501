"""How often a comparison calls something real where nothing differs, by mechanism; 5 % is what was agreed to."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

from curators import curator_of

import sfumato as sf
from sfumato.kernel.budget import Budget
from sfumato.kernel.sampling.entropy import SystemEntropy
from sfumato.models import find_mechanism
from sfumato.public.comparison import compare
from sfumato.publishing.publish import describe_guarantee
from sfumato.releases.release import Release

SCHEMA = sf.Schema.from_dict(
    {
        "dataset": "survey",
        "privacy_unit": "row",
        "attributes": {
            "sex": {"type": "category", "values": ["F", "M"]},
            "age": {"type": "integer", "lower": 0, "upper": 4},
        },
    }
)
TABLE = np.array([[40, 60, 80, 30, 5], [50, 0, 70, 20, 9]])
MECHANISMS = ("cells", "hierarchical", "residual", "margins", "sfumato", "dawa")


def made(mechanism: str, epsilon: int) -> Release:
    budget = Budget.pure(epsilon)
    curator = curator_of(SCHEMA, TABLE, epsilon=epsilon, entropy=SystemEntropy())
    content = find_mechanism(mechanism).run(curator, SCHEMA, budget, None)
    return Release(content, mechanism, describe_guarantee(budget, SCHEMA), private=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=400)
    parser.add_argument("--mechanisms", nargs="+", default=MECHANISMS)
    asked = parser.parse_args()
    print(f"{'mechanism':<14}{'pairs with a false alarm':>26}")
    for mechanism in asked.mechanisms:
        wrong = sum(bool(compare(made(mechanism, 1), made(mechanism, 2)).real) for _ in range(asked.pairs))
        print(f"{mechanism:<14}{wrong:>10} of {asked.pairs} ({wrong / asked.pairs:.1%})")


if __name__ == "__main__":
    main()
