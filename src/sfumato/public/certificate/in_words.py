"""A certificate as a page of text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.kernel.budget import readable
from sfumato.plain_text import aligned, printable
from sfumato.releases.description.group_privacy import group_privacy
from sfumato.releases.description.group_privacy import in_words as families

if TYPE_CHECKING:
    from sfumato.public.certificate.certificate import Certificate


def in_words(of: Certificate) -> str:
    """What is promised, by what, paid from where, and which bytes it is about."""
    promised, schema = of.manifest.guarantee, of.schema
    groups = group_privacy(promised.epsilon, delta=promised.delta, rho=promised.rho)
    parts = [
        [f"Certificate of {schema.dataset}"],
        [promised.statement, families(groups)],
        aligned(facts_of(of), left=(0, 1)),
    ]
    return "\n\n".join("\n".join(map(printable, part)) for part in parts)


def facts_of(of: Certificate) -> list[tuple[str, str]]:
    """What a certificate says, as names and texts."""
    about, promised, unit = of.manifest, of.manifest.guarantee, of.schema.privacy_unit
    recipe, stated = of.recipe, of.schema.budget
    amounts = [("epsilon", readable(promised.epsilon))]
    if promised.rho is not None:
        amounts += [("delta", readable(promised.delta)), ("rho", readable(promised.rho))]
    receipt = about.receipt or {}
    listed = [
        ("definition", promised.definition),
        *amounts,
        ("privacy unit", promised.unit),
        ("neighbours", promised.neighbours),
        ("rows of each unit", f"at most {unit.contributions:,}"),
        ("mechanism", f"{recipe['name']}: {recipe['summary']}" if "summary" in recipe else recipe["name"]),
        *(("option", f"{name} = {value}") for name, value in about.mechanism.options.items()),
        ("noise", ", ".join(of.noises)),
        ("holds", of.content.about.extent),
        ("total budget", "" if stated is None else f"epsilon {readable(stated.epsilon)}, as the schema states it"),
        ("ledger", f"{receipt.get('ledger')}, entry {receipt.get('entry')}" if receipt else "no receipt"),
        ("written by", f"{about.written_by}, format {about.version}"),
        ("file", f"{of.file}, {of.bytes:,} bytes"),
        ("sha256 of file", of.sha256),
        ("digest", of.digest),
        *((f"sha256 of {member.file}", member.sha256) for member in about.members.values()),
        ("signature", _signature(of)),
        ("curator", of.facts.curator or ""),
        ("published", of.facts.published or ""),
        *([] if about.private else [("NOT PRIVATE", "made with a testing generator: it protects nobody")]),
    ]
    return [(name, text) for name, text in listed if text]


def _signature(of: Certificate) -> str:
    if of.signature is None:
        return "none"
    if of.verified:
        return f"by {of.signature.by}, checked"
    of_this = "" if of.signature.digest == of.digest else ", of ANOTHER file"
    return f"says it is by {of.signature.by}{of_this}; not checked: name the key with --require-signature"
