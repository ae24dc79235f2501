"""Entry for the Differential Privacy Deployments Registry (OpenDP, Harvard, Oblivious, NIST).

Names, nesting and listed values are those of its schema, `deployments-registry-data`, as of 2026: url_slug, status,
tier and deployment, with its basic, dp_variant, privacy_loss, deployment_model, accounting, implementation and
administrative. An entry is valid whatever is known: what the registry requires and a file cannot tell is said to be
not stated, and listed, so that nobody takes a guess for a statement.

What a certificate rests on: a checked release file, its signature, and the facts that its curator states.

A file holds nothing that its curator did not state in the schema, and no date, so that equal releases are equal files.
Who published it, when and for what comes from `Facts`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field, fields
from datetime import date
from typing import TYPE_CHECKING, Any

from sfumato.errors import QueryError, SfumatoError
from sfumato.frozen import dataclass
from sfumato.measurement import Gaussian
from sfumato.plain_text import printable, readable
from sfumato.releases.contents.content import Content
from sfumato.releases.file.manifest import PARTS
from sfumato.releases.parts import receipt_in_words
from sfumato.releases.signature import Signature
from sfumato.schema.columns import columns_of
from sfumato.schema.schema import what_is_counted

if TYPE_CHECKING:
    from sfumato.releases.file.manifest import Manifest
    from sfumato.schema import Schema

CURATORS = ("Government", "Industry", "Nonprofit")
SECTORS = ("Technology", "Healthcare", "Education", "Government", "Energy", "Finance")  # as the registry lists them
MOST_LENGTH = 2000


@dataclass(frozen=True)
class Facts:
    """Facts that the curator states for a certificate, in the curator's words; None where not stated."""

    curator: str | None = None
    curator_type: str | None = None
    intended_use: str | None = None
    region: str | None = None
    sector: str | None = None
    published: str | None = None
    author: str | None = None
    license: str | None = None
    url: str | None = None

    @classmethod
    def of(cls, stated: Mapping[str, str]) -> Facts:
        """Make facts from names and texts.

        >>> Facts.of({"curator": "Statistics Office"}).curator
        'Statistics Office'
        """
        known = [one.name for one in fields(cls)]
        for name, value in stated.items():
            if name not in known:
                raise QueryError(f"a certificate has no {name!r}; it takes {', '.join(known)}")
            if not value.strip() or len(value) > MOST_LENGTH:
                raise QueryError(f"{name} must have 1 to {MOST_LENGTH:,} letters")
        if (kind := stated.get("curator_type")) is not None and kind not in CURATORS:
            raise QueryError(f"curator_type is {', '.join(CURATORS[:-1])} or {CURATORS[-1]}, not {kind!r}")
        if (sector := stated.get("sector")) is not None and sector not in SECTORS:
            raise QueryError(f"sector is {', '.join(SECTORS[:-1])} or {SECTORS[-1]}, not {sector!r}")
        if (day := stated.get("published")) is not None and not _is_day(day):
            raise QueryError(f"published is a day such as 2026-01-31, not {day!r}")
        if (url := stated.get("url")) is not None and not re.fullmatch(r"https?://[^\s\"'<>]+", url):
            raise QueryError(f"url is an address such as https://example.org/census, not {url!r}")
        return cls(**stated)


def _is_day(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


LAPLACE, GAUSSIAN = "discrete Laplace", "discrete Gaussian"


@dataclass(frozen=True, eq=False)
class Certified:
    """Statements of a release file and of its curator, from which certificates are made.

    verified: whether the signature was checked with a key that was named. file, sha256, bytes: of the release
    file itself, as `sha256sum` says them. written_on: when it was last written, as the file system knows it, which the
    file does not.
    """

    file: str
    sha256: str
    bytes: int
    digest: str
    manifest: Manifest
    schema: Schema
    content: Content
    facts: Facts = field(default_factory=Facts)
    signature: Signature | None = None
    verified: bool = False
    written_on: str = ""

    @property
    def signature_record(self) -> dict[str, Any] | None:
        """Signature beside the file, with the result of its check; None where there is none."""
        if self.signature is None:
            return None
        of_this = self.signature.digest == self.digest
        return {"key": self.signature.by, "of_this_file": of_this, "verified": self.verified}

    @property
    def noises(self) -> tuple[str, ...]:
        """Noise distributions that were drawn, without their scales, which stand in the file."""
        drawn = {isinstance(noise, Gaussian) for one in self.content.about.measured for noise in one.noises}
        return tuple(name for name, gaussian in ((LAPLACE, False), (GAUSSIAN, True)) if gaussian in drawn)

    @property
    def recipe(self) -> dict[str, str]:
        """Mechanism by name, with what this Sfumato knows of it."""
        from sfumato.models import find_mechanism

        name = self.manifest.mechanism.name
        try:
            found = find_mechanism(name)
        except SfumatoError:  # of a newer Sfumato, or somebody's own
            return {"name": name}
        return {"name": name, "summary": found.summary, "from": found.paper, "page": f"docs/{found.docs}"}


# -- registry

# Fields of the registry that a file does not tell, and the fact that does; all but the sector are required.
TOLD_BY = {
    "basic.data_curators": "curator",
    "basic.intended_use": "intended_use",
    "basic.data_product_region": "region",
    "basic.data_product_sector": "sector",
    "basic.publication_date": "published",
    "administrative.registry_authors": "author",
}
OPTIONAL = "basic.data_product_sector"
NOT_STATED = "Not stated by the curator."
BASIC, WHOLE = 1, 3  # tiers: what it is about; everything that the registry asks for


def missing_fields(of: Certified) -> list[str]:
    """List the fields that an entry still needs from its curator."""
    return [f"deployment.{name}" for name, fact in TOLD_BY.items() if getattr(of.facts, fact) is None]


def tier_of(of: Certified) -> int:
    """Highest tier whose fields are all known. The file has those of tiers 2 and 3, the curator those of tier 1."""
    return BASIC if {*missing_fields(of)} - {f"deployment.{OPTIONAL}"} else WHOLE


def registry_record(of: Certified) -> dict[str, Any]:
    """Make the entry, nested as in the registry's YAML."""
    promised = of.manifest.guarantee
    variant = "Zero-concentrated DP" if promised.rho is not None else "Approximate DP" if promised.delta else "Pure DP"
    exact = f"epsilon {readable(promised.epsilon)}"
    parameters = {"epsilon": float(promised.epsilon)}
    if promised.delta:
        exact += f", delta {readable(promised.delta)}"
        parameters["delta"] = float(promised.delta)
    if promised.rho is not None:
        exact += f", both from rho {readable(promised.rho)} of zero-concentrated differential privacy"
        parameters["rho"] = float(promised.rho)
    return {
        "url_slug": _slug(of),
        "status": "Draft",
        "tier": tier_of(of),
        "deployment": {
            "basic": _basic(of),
            "dp_variant": {
                "variant_name": variant,
                "data_domain": f"Tables with the columns {_columns(of)}; any number of rows.",
                "unprotected_quantities": f"{_unprotected(of)} The schema (columns, bounds, listed values, bins) is "
                "stated by the curator before the table is read, and is not protected.",
            },
            "privacy_loss": {
                "privacy_unit": printable(promised.unit),
                "privacy_unit_details": printable(promised.neighbours),
                "privacy_parameters": parameters,
                "privacy_parameters_details": f"Exactly {exact}. {printable(promised.statement)}",
            },
            "deployment_model": {
                "model_name": "Central",
                "model_name_details": "A curator who holds the table measures it once, with noise.",
                "actors": "The curator, who holds the table and is trusted with it. Everybody else, who sees the file "
                "and may know all rows but those of one privacy unit; they are not trusted, and may work together.",
                "release_type": "One release",
                "release_type_details": _receipt(of),
                "data_source_type": "Static",
                "access_type": "Non-interactive",
                "access_type_details": "One file, which anyone may query for ever; that costs no further privacy.",
            },
            "accounting": {
                "post_processing": "Answers follow from the noisy numbers alone: "
                f"{printable(of.content.about.errors)}.",
                "composition": "One charge for the whole release: the sum over everything that was measured, in exact "
                "fractions, cell by cell; a ledger adds up the releases of a dataset.",
            },
            "implementation": _implementation(of),
            "administrative": _administrative(of),
        },
    }


def _unprotected(of: Certified) -> str:
    if not of.schema.invariants:
        return "None."
    return f"Exact counts of {of.schema.exact_counts}, published without noise; the promise is among tables with these."


def _basic(of: Certified) -> dict[str, Any]:
    facts = of.facts
    learned = type(of.content).predict is not Content.predict
    return {
        "name": printable(of.schema.dataset),
        "data_curators": [facts.curator or NOT_STATED],
        "description": printable(f"{of.content.about.extent}, released by {of.manifest.written_by}."),
        "intended_use": facts.intended_use or NOT_STATED,
        "data_product_type": "Machine learning model" if learned else "Summary statistics",
        "data_product_region": facts.region or NOT_STATED,
        "publication_date": facts.published or of.written_on,
        **({} if facts.sector is None else {"data_product_sector": facts.sector}),
    }


def _implementation(of: Certified) -> dict[str, str]:
    recipe = of.recipe
    noise = f" Noise: {' and '.join(of.noises)}." if of.noises else ""
    rules = "; ".join(what_is_counted(of.content.table_schema))
    about = f"{recipe['name']}: {recipe['summary']}." if "summary" in recipe else f"{recipe['name']}."
    source = f" The mechanism follows: {recipe['from']}." if recipe.get("from") else ""
    return {
        "preprocessing_and_hyperparameter_tuning": f"By rules of the public schema alone: {printable(rules)}."
        if rules
        else "None.",
        "mechanisms": f"{about}{noise} Noise is drawn exactly, on whole numbers, from the operating system's "
        "cryptographic source, with no floating-point value between random bits and noise. "
        f"Written by {printable(of.manifest.written_by)}.",
        "justification": f"Bounds, bins and listed values were chosen by the curator, without the table.{source} "
        f"What is proved, what is tested and what is out of scope: {printable(of.manifest.limits)}.",
    }


def _administrative(of: Certified) -> dict[str, Any]:
    facts, unsaid = of.facts, missing_fields(of)
    notes = [f"Digest of the release: {of.digest}."]
    if not of.manifest.private:
        notes.append("NOT PRIVATE: made with a testing generator; it protects nobody.")
    if facts.curator_type is not None:
        notes.append(f"Kind of curator: {facts.curator_type}.")
    if unsaid:
        notes.append(f"To be stated by the curator: {', '.join(unsaid)}.")
    if facts.published is None:
        notes.append("The publication date is the day on which the file was last written.")
    return {
        **({} if facts.url is None else {"sources": facts.url}),
        "notes": " ".join(notes),
        "registry_authors": [facts.author or f"{printable(of.manifest.written_by)}, from the file alone"],
    }


def _receipt(of: Certified) -> str:
    receipt = of.manifest.receipt
    if receipt is None:
        return "No ledger receipt."
    if PARTS in receipt:
        return printable(f"Combined of ledger {receipt_in_words(receipt)}.")
    return printable(f"Entry {receipt.get('entry')} of ledger {receipt.get('ledger')}.")


def _columns(of: Certified) -> str:
    shown = [f"{printable(one.name)} ({one.values})" for one in columns_of(of.schema)]
    few = shown[:30]
    return ", ".join(few) + (f" and {len(shown) - len(few)} more" if len(shown) > len(few) else "")


def _slug(of: Certified) -> str:
    year = [] if of.facts.published is None else [of.facts.published[:4]]
    words = " ".join([of.schema.dataset, of.facts.curator or "", *year]).lower()
    return "-".join(re.findall(r"[a-z0-9]+", words)) or "release"
