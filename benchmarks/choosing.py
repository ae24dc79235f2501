"""What `auto` chooses between, over several domains. `python benchmarks/choosing.py [--runs 1]`

For each domain, at epsilon 1 and on what everybody asks: the least exact error and whose it is, the error of `sfumato`
on a table with many rows everywhere by its own estimate, and its simulated error (geometric mean over public shapes)
with few and with many rows per cell. Errors are in rows.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

from sfumato.kernel.budget import Budget
from sfumato.models import MECHANISMS
from sfumato.models.tree.measure import MECHANISM, error_if_full
from sfumato.planner.forecast import Question, outlook
from sfumato.queries import default_workload
from sfumato.schema import Schema

DOMAINS = ((16,), (100,), (1024,), (4096,), (64, 64), (128, 128), (16, 16, 16), (50, 20, 10), ("8", "8", "8", "8"))
ROWS = (0.01, 0.1, 1, 10, 100, 1000)


def schema_of(sides: tuple[int | str, ...], rows: int) -> Schema:
    """Ordered attributes for numbers, categories for numbers in quotes."""
    attributes = {
        f"a{place}": {"type": "category", "values": [f"v{value}" for value in range(int(side))]}
        if isinstance(side, str)
        else {"type": "integer", "lower": 0, "upper": side - 1}
        for place, side in enumerate(sides)
    }
    given = {"dataset": "made_up", "privacy_unit": "row", "attributes": attributes, "expected_rows": rows}
    return Schema.from_dict(given)


def main() -> None:
    parser = argparse.ArgumentParser(description="What auto chooses between.")
    parser.add_argument("--runs", type=int, default=1)
    runs, budget = parser.parse_args().runs, Budget.pure(1)
    print(
        f"{'cells':22}{'best exact':>24}{'if full':>9}" + "".join(f"{rows:>9g}" for rows in ROWS) + "   rows per cell"
    )
    for sides in DOMAINS:
        schema = schema_of(sides, 1)
        asked = default_workload(schema.domain)
        question = Question(schema, (), asked, runs=runs)
        exact = [
            outlook(one, question, budget, bounds=False, patient=False)
            for one in MECHANISMS.values()
            if one.error == "exact" and one.answers == "everything"
        ]
        best = min(exact, key=lambda found: found.overall)
        line = f"{' x '.join(map(str, sides)):22}{f'{best.overall:.3g} ({best.mechanism})':>24}"
        line += f"{error_if_full(schema, asked, budget):9.3g}"
        for rows in ROWS:
            filled = replace(question, schema=schema_of(sides, max(1, round(rows * schema.domain.size))))
            line += f"{outlook(MECHANISM, filled, budget, bounds=False).overall:9.3g}"
        print(line, flush=True)


if __name__ == "__main__":
    main()
