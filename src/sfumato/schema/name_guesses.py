"""What the name of a column suggests: a first guess at its type, for the curator to correct. No value is looked at."""

from __future__ import annotations

import re

_PEOPLE = r"(patient|person|people|customer|client|user|member|employee|household|pupil|student|citizen"
_PEOPLE += r"|respondent|participant|subject|worker|resident)"
IDENTIFIER = re.compile(
    r"(?i:id|uu?id|guid|ssn|nino?|pid|e_?mail)|.*_(?i:id|uuid|guid|ssn|email)|(?i:id)_.*|.*[a-z](Id|ID)"
    rf"|(?i:{_PEOPLE}(_?(no|nr|num|number|key|code))?)"
)

_WORDS = {
    "date": r"date|day|datum|birthday|dob|timestamp|datetime|time|arrived|arrival|departed|departure|pickup|dropoff|at"
    r"|hired|joined|admitted|discharged|born|aufnahme|entlassung",
    "boolean": r"is|has|flag|married|urgent|active|alive|smoker|employed",
    "integer": r"age|alter|years?|months?|days|hours?|children|rooms|count|number|num|visits|size|floors?",
    "number": r"income|salary|wages?|pay|price|costs?|charges?|amount|total|weight|height|length|distance|duration|fare"
    r"|tip|score|rate|share|latitude|longitude|lat|lon|lng|temperature|bmi|kosten|gehalt|betrag|preis",
    "category": r"sex|gender|country|region|state|city|town|municipality|county|district|zone|ward|department|unit|type"
    r"|kind|status|category|class|group|race|ethnicity|education|occupation|marital|religion|language|colou?r|role|grade"
    r"|geschlecht|station|abteilung|ort",
}
_EXAMPLES = {
    "integer": "{type: integer, lower: 0, upper: 120}",
    "number": "{type: number, lower: 0, upper: 200000, bins: 100}",
    "category": "{type: category, values: [F, M], other: true}",
    "boolean": "{type: boolean}",
    "date": "{type: date, lower: 2020-01-01, upper: 2024-12-31, by: month}",
}


def kind_from_name(name: str) -> str | None:
    """The kind of attribute that a name suggests by its words, the last one first; None if it suggests none.

    >>> kind_from_name("age"), kind_from_name("AdmissionDate"), kind_from_name("is_smoker"), kind_from_name("notes")
    ('integer', 'date', 'boolean', None)
    """
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)
    parts = [word.lower() for word in re.split(r"[\W_0-9]+", words) if word]
    if parts[:1] in (["is"], ["has"]) or parts[-2:] in (["full", "time"], ["part", "time"]):
        return "boolean"
    for part in reversed(parts):
        for kind, pattern in _WORDS.items():
            if re.fullmatch(pattern, part):
                return kind
    return None


def is_identifier(name: str) -> bool:
    """Whether a name suggests that the column says whom a row is about.

    >>> [is_identifier(name) for name in ("person_id", "Employee ID", "Patient-Nr", "idle")]
    [True, True, True, False]
    """
    return IDENTIFIER.fullmatch(re.sub(r"[\s-]+", "_", name.strip())) is not None


def example(kind: str | None) -> str:
    """An attribute of a kind, written out; one of a category where the kind is not known."""
    return _EXAMPLES[kind or "category"]
