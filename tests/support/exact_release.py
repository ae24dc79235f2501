"""A small release file that costs nothing to make and has answers that are nearly exact."""

from __future__ import annotations

from pathlib import Path

import sfumato as sf

SCHEMA = {
    "dataset": "census",
    "privacy_unit": "row",
    "budget": {"epsilon": 1000},
    "attributes": {
        "age": {"type": "integer", "lower": 0, "upper": 9},
        "sex": {"type": "category", "values": ["F", "M", "it's"]},
        "income": {"type": "number", "lower": 0, "upper": 1000, "bins": 4},
        "ill": {"type": "boolean"},
    },
    "measures": {"charge": {"lower": 0, "upper": 100}},
}
ROWS = 240


def save_exact_release(folder: Path) -> Path:
    """Rows of which every count is known: ages 0 to 9, F and M by turns, charges of 25 and 75."""
    rows = (
        f"{n % 10},{'FM'[n // 10 % 2]},{n * 4},{'true' if n % 3 else 'false'},{25 + 50 * (n % 2)}" for n in range(ROWS)
    )
    (folder / "t.csv").write_text("age,sex,income,ill,charge\n" + "\n".join(rows) + "\n")
    schema = sf.Schema.from_dict(SCHEMA)
    made = sf.release(folder / "t.csv", schema, 500, mechanism="cells", ledger=folder / "ledger.sqlite")
    return made.save(folder / "r.sfumato")


VISITS = {
    "dataset": "visits",
    "privacy_unit": "row",
    "budget": {"epsilon": 1000},
    "attributes": {
        "day": {"type": "date", "by": "day", "lower": "2024-02-27", "upper": "2024-03-03", "missing": "keep"},
        "at": {"type": "date", "by": "hour", "lower": "2024-02-27", "upper": "2024-02-28"},
        "month": {"type": "date", "by": "month", "lower": "2024-02-01", "upper": "2024-03-31"},
        "code": {"type": "category", "values": ["2024-02-27", "2024-02-28"]},
    },
}


def save_visits(folder: Path) -> Path:
    """Rows by days, hours and months, and with a category whose values look like days."""
    rows = (
        f"{'' if n % 7 == 6 else f'2024-02-{27 + n % 3}'},2024-02-27 {n % 24:02}:00:00,2024-0{2 + n % 2}-15,2024-02-27"
        for n in range(ROWS)
    )
    (folder / "v.csv").write_text("day,at,month,code\n" + "\n".join(rows) + "\n")
    schema = sf.Schema.from_dict(VISITS)
    made = sf.release(folder / "v.csv", schema, 500, mechanism="cells", ledger=folder / "ledger.sqlite")
    return made.save(folder / "v.sfumato")
