"""Certificate of a release: guarantee, unit, mechanism, receipt, hashes and signature, as a record and as text.

It is derived from the file, every byte of which is checked as it is opened. Nothing is added to the file: a record
written into it could contradict it.

Croissant record of a release: a schema.org Dataset as JSON-LD (MLCommons, version 1.1).

The file is a zip of Parquet members, which Croissant can name, hash and read; the meaning of attributes is given in
schema.org's own words. Fields that Croissant requires and a file does not hold (licence, creator, date, address) come
from the curator's facts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import Any

from sfumato.frozen import dataclass
from sfumato.plain_text import aligned, printable, readable
from sfumato.public.certificate.registry import Certified, Facts, missing_fields, registry_record
from sfumato.releases.contents.content import Content
from sfumato.releases.contents.series import SeriesContent
from sfumato.releases.file.artifact import read_artifact
from sfumato.releases.file.linked import LinkedFile
from sfumato.releases.file.manifest import Manifest
from sfumato.releases.file.series import SeriesFile
from sfumato.releases.group_privacy import group_privacy
from sfumato.releases.group_privacy import in_words as families
from sfumato.releases.linked import LinkedContent, linked_in
from sfumato.releases.parts import receipt_in_words
from sfumato.releases.release import Release, read_content
from sfumato.releases.series import series_in
from sfumato.releases.signature import (
    check_signature,
    checked_parts,
    checked_signature,
    read_signature,
    signature_beside,
)
from sfumato.schema.columns import columns_of
from sfumato.schema.discovered import as_receipt, cost_in_words
from sfumato.schema.parts import Budget
from sfumato.version import __version__

CONFORMS = "http://mlcommons.org/croissant/1.1"
# The format's own names, each an alias of its term; "@json" and "@vocab" say how their values are read.
TERMS = (
    *("annotation", "arrayShape", "citeAs", "column", "containedIn", "equivalentProperty", "excludes", "extract"),
    *("field", "fileProperty", "fileObject", "fileSet", "format", "includes", "isArray", "isLiveDataset", "jsonPath"),
    *("key", "md5", "parentField", "path", "recordSet", "references", "regex", "readLines", "repeated", "replace"),
    *("samplingRate", "sdVersion", "separator", "source", "subField", "transform", "unArchive", "value"),
)
CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "sc": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "dct": "http://purl.org/dc/terms/",
    "conformsTo": "dct:conformsTo",
    **{term: f"cr:{term}" for term in TERMS},
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
}


def croissant_record(of: Certified) -> dict[str, Any]:
    """The Dataset, with the file, its members and their columns."""
    promised, facts = of.manifest.guarantee, of.facts
    told = {
        "license": facts.license,
        "url": facts.url,
        "creator": None if facts.curator is None else {"@type": "Organization", "name": facts.curator},
        "datePublished": facts.published,
    }
    return {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "name": printable(of.schema.dataset),
        "description": printable(
            f"{of.schema.dataset}: {of.content.about.extent}, released with differential privacy. {promised.statement}"
        ),
        "conformsTo": CONFORMS,
        "citeAs": printable(f"{of.schema.dataset}, a differentially private release, sha256:{of.digest}"),
        **{name: value for name, value in told.items() if value is not None},
        "version": "1.0.0",
        "isLiveDataset": False,
        "keywords": ["differential privacy", of.manifest.mechanism.name],
        "identifier": f"sha256:{of.digest}",
        "measurementTechnique": printable(f"{promised.definition}; unit: {promised.unit}; {promised.neighbours}"),
        "variableMeasured": [
            {
                "@type": "PropertyValue",
                "name": printable(one.name),
                "description": printable(f"{one.type}: {one.values}"),
            }
            for one in columns_of(of.schema)
        ],
        "distribution": _files(of),
        "recordSet": [_records(member, one.columns) for member, one in of.manifest.members.items()],
    }


def _files(of: Certified) -> list[dict[str, Any]]:
    whole = {
        "@type": "cr:FileObject",
        "@id": "release",
        "name": printable(of.file),
        "contentUrl": printable(of.file)
        if of.facts.url is None
        else f"{of.facts.url.rstrip('/')}/{printable(of.file)}",
        "contentSize": f"{of.bytes} B",
        "encodingFormat": "application/zip",
        "sha256": of.sha256,
    }
    members = [
        {
            "@type": "cr:FileObject",
            "@id": one.file,
            "name": one.file,
            "contentUrl": one.file,
            "containedIn": {"@id": "release"},
            "contentSize": f"{one.bytes} B",
            "encodingFormat": "application/x-parquet",
            "sha256": one.sha256,
        }
        for one in of.manifest.members.values()
    ]
    return [whole, *members]


def _records(member: str, columns: list[str]) -> dict[str, Any]:
    """Croissant RecordSet of a member: its columns, all whole numbers, whose meaning the manifest states."""
    return {
        "@type": "cr:RecordSet",
        "@id": member,
        "name": member,
        "description": "Noisy whole numbers as published; the manifest says of what, and with which noise.",
        "field": [
            {
                "@type": "cr:Field",
                "@id": f"{member}/{place}",
                "name": printable(column),
                "description": printable(f"Column {column} of {member}.parquet."),
                "dataType": "sc:Integer",
                "source": {"fileObject": {"@id": f"{member}.parquet"}, "extract": {"column": column}},
            }
            for place, column in enumerate(columns)
        ],
    }


# -- record

FAMILIES = (1, 2, 3, 4)


@dataclass(frozen=True, eq=False)
class Certificate(Certified):
    """Certificate of a release file, in the forms that people and registries read."""

    def to_dict(self) -> dict[str, Any]:
        """Convert to a record of types that JSON knows; amounts of privacy as exact text."""
        about, unit = self.manifest, self.schema.privacy_unit
        promised, stated = about.guarantee, self.schema.budget
        groups = group_privacy(promised.epsilon, delta=promised.delta, rho=promised.rho, people=FAMILIES)
        total = {"total_epsilon": None if stated is None or stated.epsilon is None else readable(stated.epsilon)}
        if stated is not None and stated.rho is not None:
            total["total_rho"] = readable(stated.rho)
        return {
            "format": "sfumato-certificate",
            "version": 1,
            "registry": registry_record(self),
            "missing": missing_fields(self),
            "guarantee": {
                **promised.record(),
                "unit_column": unit.column,
                "contributions": unit.contributions,
                "groups": [one.record for one in groups],
                "private": about.private,
                **({"exact_counts": [[*names] for names in self.schema.exact_sets]} if self.schema.invariants else {}),
            },
            "mechanism": {
                **self.recipe,
                "options": dict(about.mechanism.options),
                "noise": list(self.noises),
                "publishes": self.content.about.extent,
            },
            "budget": {**total, "receipt": about.receipt, **_bought(self)},
            "software": {
                "written_by": about.written_by,
                "format_version": about.version,
                "certificate_by": f"sfumato {__version__}",
            },
            "hashes": {
                "digest": self.digest,
                "file": {"name": self.file, "sha256": self.sha256, "bytes": self.bytes},
                "members": {
                    member.file: {"sha256": member.sha256, "bytes": member.bytes} for member in about.members.values()
                },
            },
            "signature": self.signature_record,
            **({"parts": _parts(self.content)} if isinstance(self.content, SeriesContent) else {}),
            "limits": about.limits,
        }

    def croissant(self) -> dict[str, Any]:
        """The record as JSON-LD: a schema.org Dataset, in the Croissant format."""
        return croissant_record(self)

    def registry(self) -> dict[str, Any]:
        """The record in the fields of the public registry of deployments."""
        return registry_record(self)

    def __repr__(self) -> str:
        return in_words(self)


def certificate(
    path: str | PathLike[str],
    *,
    facts: Mapping[str, str] | None = None,
    require_signature: str | PathLike[str] | None = None,
    most_cells: int | None = None,
) -> Certificate:
    """Make the certificate of a release file.

    facts: what only the curator knows, by name: curator, published, license, ... (docs/certificate.md).
    require_signature, most_cells: as `sfumato.open` takes them.
    """
    stated = Facts.of(facts or {})
    digest, manifest, content = _certified(path, most_cells)
    if require_signature is None:
        signature = read_signature(signature_beside(path))
    else:
        signature = check_signature(path, digest, require_signature)
    raw = Path(path).read_bytes()
    return Certificate(
        Path(path).name,
        hashlib.sha256(raw).hexdigest(),
        len(raw),
        digest,
        manifest,
        content.schema,
        content,
        stated,
        signature,
        require_signature is not None,
        datetime.fromtimestamp(Path(path).stat().st_mtime, UTC).date().isoformat(),
    )


def _certified(path: str | PathLike[str], most_cells: int | None) -> tuple[str, Manifest, Content]:
    """Digest, manifest and content of a release file.

    Of a series all parts are checked; its manifest is that of the newest part, with the guarantee of all of them. That
    of linked tables is that of the first table, without the receipt and the members, which each table has of its own.
    """
    file = checked_parts(path, most_cells)
    if file is None:
        artifact = read_artifact(path, most_cells)
        return artifact.digest, artifact.manifest, read_content(artifact)
    if isinstance(file, LinkedFile):
        first = file.artifact(file.head.parts[0])
        release: Release = linked_in(file)
        first = replace(first, manifest=replace(first.manifest, members={}))
        receipt = release.receipt
    else:
        assert isinstance(file, SeriesFile)  # noqa: S101 (the other kind)
        first, release, receipt = file.artifact(file.head.parts[-1]), series_in(file), None
    manifest = replace(first.manifest, guarantee=release.guarantee, private=release.private, receipt=receipt)
    return file.digest, manifest, release.content


def _parts(series: SeriesContent) -> list[dict[str, Any]]:
    """Parts of a series, in the order of publication; each one's own signature is checked with the key it names."""
    listed = [] if series.file is None else series.file.head.parts
    return [
        {
            "number": part.number,
            "table" if isinstance(series, LinkedContent) else "period": part.period,
            "sha256": part.sha256,
            "signed_by": None if (signature := checked_signature(part)) is None else signature.by,
        }
        for part in listed
    ]


def in_words(of: Certificate) -> str:
    """Render a certificate as text: the guarantee, its mechanism, its payment, and the bytes it is about."""
    promised, schema = of.manifest.guarantee, of.schema
    groups = group_privacy(promised.epsilon, delta=promised.delta, rho=promised.rho)
    parts = [
        [f"Certificate of {schema.dataset}"],
        [promised.statement, families(groups, exact=bool(schema.invariants))],
        aligned(facts_of(of), left=(0, 1)),
    ]
    return "\n\n".join("\n".join(map(printable, part)) for part in parts)


def _total(stated: Budget) -> str:
    """Total budget of a schema in words."""
    kind, amount = ("epsilon", stated.epsilon) if stated.rho is None else ("rho", stated.rho)
    return "" if amount is None else f"{kind} {readable(amount)}"


def _bought(of: Certificate) -> dict[str, Any]:
    """Receipts of what the schema was filled with, and what they and the release cost together."""
    receipts, promised = of.schema.discovered or (), of.manifest.guarantee
    if not receipts:
        return {}
    together = {
        kind: readable(getattr(promised, kind) + sum(getattr(one, kind) for one in receipts))
        for kind in ("epsilon", "delta")
    }
    return {"discovered": [as_receipt(one) for one in receipts], "with_this_release": together}


def _bought_in_words(of: Certificate) -> list[tuple[str, str]]:
    found = [
        (
            "bought before",
            f"{cost_in_words([one])} for {', '.join(one.filled)} (ledger {one.ledger}, entry {one.entry})",
        )
        for one in of.schema.discovered or ()
    ]
    if not found:
        return []
    sums = _bought(of)["with_this_release"]
    delta = f", delta {sums['delta']}" if sums["delta"] != "0" else ""
    return [*found, ("with this release", f"epsilon {sums['epsilon']}{delta}")]


def facts_of(of: Certificate) -> list[tuple[str, str]]:
    """List the statements of a certificate as names and texts."""
    about, promised, unit = of.manifest, of.manifest.guarantee, of.schema.privacy_unit
    recipe, stated = of.recipe, of.schema.budget
    amounts = [("epsilon", readable(promised.epsilon))]
    if promised.rho is not None:
        amounts += [("delta", readable(promised.delta)), ("rho", readable(promised.rho))]
    listed = [
        ("definition", promised.definition),
        *amounts,
        ("exact counts", f"{of.schema.exact_counts}: protected by nothing" if of.schema.invariants else ""),
        ("privacy unit", promised.unit),
        ("neighbours", promised.neighbours),
        (
            "rows of each unit",
            of.content.limits if isinstance(of.content, LinkedContent) else f"at most {unit.contributions:,}",
        ),
        ("mechanism", f"{recipe['name']}: {recipe['summary']}" if "summary" in recipe else recipe["name"]),
        *(("option", f"{name} = {value}") for name, value in about.mechanism.options.items()),
        ("noise", ", ".join(of.noises)),
        ("holds", of.content.about.extent),
        ("total budget", "" if stated is None else f"{_total(stated)}, as the schema states it"),
        ("ledger", receipt_in_words(about.receipt)),
        *_bought_in_words(of),
        ("written by", f"{about.written_by}, format {about.version}"),
        ("file", f"{of.file}, {of.bytes:,} bytes"),
        ("sha256 of file", of.sha256),
        ("digest", of.digest),
        *((f"sha256 of {member.file}", member.sha256) for member in about.members.values()),
        ("signature", _signature(of)),
        ("parts", of.content.signed_parts if isinstance(of.content, SeriesContent) else ""),
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
