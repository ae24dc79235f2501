"""The certificate: what can be checked, by whom, with which bytes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from sfumato.public.certificate.in_words import facts_of
from sfumato.public.report.markup import Markup, code, tag
from sfumato.public.report.sections.pieces import folded, part, table

if TYPE_CHECKING:
    from sfumato.public.certificate.certificate import Certificate


def certified(found: Certificate) -> Markup:
    """All facts, and the record for programs."""
    record = json.dumps(found.to_dict(), indent=2, ensure_ascii=True).split("\n")
    about = [
        "What the file itself says, checked in every byte. ",
        tag("code", "sfumato certificate"),
        " prints it for programs.",
    ]
    rows = [list(fact) for fact in facts_of(found)]
    return part(
        "certificate", "Certificate", about, table(["", ""], rows, kind="hash"), folded("As JSON", code(record))
    )
