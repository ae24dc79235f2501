"""Manifest of a release: schema, mechanism, guarantee, statistics and members, with its digest.

It is read from untrusted files: every field is known, so that nothing can hide in it.
"""

from __future__ import annotations

import hashlib
from dataclasses import field
from fractions import Fraction
from math import exp
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import Field, JsonValue, ValidationError

from sfumato.errors import ReleaseFileError, SchemaError
from sfumato.plain_text import printable, readable
from sfumato.releases.file.records import (
    Exact,
    FitRecord,
    Int64,
    MemberName,
    NoiseRecord,
    PositiveExact,
    QueriesRecord,
    Sha256,
    Size,
    Text,
    adapter,
    canonical,
    indented,
    record,
    refusal,
    strict_json,
)
from sfumato.releases.group_privacy import LARGEST, group_privacy
from sfumato.schema import Schema
from sfumato.schema.invariants import ExactSets, tables_in_words
from sfumato.version import __version__

FORMAT_VERSION: Final = 2  # 2 brought fitted cubes, Gaussian noise and guarantees with a delta; 1 is still read
DETAILED_VERSION: Final = 3  # with details, which only contents that need them have
SOLVED_VERSION: Final = 4  # with fits that are kept without their estimates
SCALED_VERSION: Final = 5  # with details, and errors of blocks of cells in a member of their own
BLOCKS: Final = "blocks"
PARTS: Final = "parts"  # the key of a receipt that a combined file has and no other
MOST_MANIFEST_BYTES = 2**24  # some 500,000 listed values; files of older versions have 2^20 at most
MOST_SCHEMA_BYTES = MOST_MANIFEST_BYTES * 9 // 10  # of them, which leaves room for everything else
MOST_QUERY_BYTES = 2**20 * 9 // 10  # of descriptions of queries

Details = TypeVar("Details")

PURE: Final = "pure epsilon-differential privacy"
CONCENTRATED: Final = "(epsilon, delta)-differential privacy, from rho-zCDP"


@record
class MechanismRecord:
    """Mechanism of the release and its options."""

    name: Text
    options: dict[str, str | int | bool] = field(default_factory=dict)


@record
class Guarantee:
    """Privacy guarantee in symbols and in words; delta and rho only where it is not pure epsilon."""

    epsilon: PositiveExact
    unit: Text
    neighbours: Text
    statement: Text
    definition: Literal["pure epsilon-differential privacy", "(epsilon, delta)-differential privacy, from rho-zCDP"] = (
        PURE
    )
    delta: Exact = Fraction(0)
    rho: PositiveExact | None = None

    def __post_init__(self) -> None:
        pure = self.definition == PURE
        if not 0 <= self.delta < 1 or pure != (self.delta == 0) or pure != (self.rho is None):
            raise ValueError("a pure guarantee has neither delta nor rho, and any other has both")

    def record(self) -> dict[str, Any]:
        """JSON-ready mapping of the guarantee; amounts of privacy as exact text, which `--epsilon` takes too."""
        exact = {"epsilon": self.epsilon, "delta": self.delta, "rho": self.rho}
        amounts = {name: None if amount is None else readable(amount) for name, amount in exact.items()}
        words = {"unit": self.unit, "neighbours": self.neighbours, "statement": self.statement}
        return {"definition": self.definition} | amounts | words


LEANS_ON = "prior"  # option under which a file keeps the digest of an earlier release that its estimates lean on
LEANING = " Its estimates lean on an earlier release too, with its own promise: for whoever is in both, they add up."


def guarantee_of(
    epsilon: Fraction,
    whom: str,
    *,
    delta: Fraction = Fraction(0),
    rho: Fraction | None = None,
    derived: bool = False,
    bought: str = "",
    exact: ExactSets = (),
    leaning: bool = False,
) -> Guarantee:
    """Guarantee in symbols, with the words that follow from them.

    The words are part of the file's format: a file is refused if they are not those of its numbers
    (`sfumato.releases.file.consistency`), so that nobody can read one promise and be given another. whom: the privacy
    unit in words. derived: the promise is about rows that a view gave, not about those behind it. bought: the sentence
    on what of the schema was bought from the table before (`Schema.bought`). exact: tables whose exact counts stand in
    the file; the promise is then about tables that agree on these (docs/privacy.md, theorem 17). leaning: whether
    estimates lean on an earlier release, so that what the file shows follows from two tables.
    """
    if exact:
        return _beside_exact_counts(epsilon, whom, exact, delta=delta, rho=rho, derived=derived)
    factor = exp(min(float(epsilon), LARGEST))
    what, where = ("results of the view", "what the view gave") if derived else ("tables", "the table")
    slack = f", give or take a chance of {readable(delta)}," if delta else ""
    return Guarantee(
        epsilon=epsilon,
        unit=whom,
        neighbours=f"two {what} are neighbours if one has all the rows of one privacy unit and the other has none",
        statement=(
            f"Whatever this file shows would have been shown with at most {factor:.3g} times higher or lower "
            f"probability{slack} if {whom} had been left out of {where}.{bought and f' {bought}'}{LEANING * leaning}"
        ),
        definition=CONCENTRATED if delta else PURE,
        delta=delta,
        rho=rho,
    )


def _beside_exact_counts(
    epsilon: Fraction, whom: str, exact: ExactSets, *, delta: Fraction, rho: Fraction | None, derived: bool
) -> Guarantee:
    """Guarantee of a release with exact counts: among tables that agree on them, by the number of rows that differ."""
    (replaced,) = group_privacy(epsilon, delta=delta, rho=rho, people=(2,))
    slack = f", give or take a chance of {replaced.delta:.2g}," if delta else ""
    same = " and ".join(dict.fromkeys(printable(name) for names in exact for name in names))
    where = "what the view gave" if derived else "the table"
    return Guarantee(
        epsilon=epsilon,
        unit=whom,
        neighbours="epsilon is for each row that one of two tables has and the other has not, and only tables with the "
        "same exact counts are compared",
        statement=(
            f"EXACT COUNTS of {tables_in_words(exact)} in {where} are published in this file and protected by nothing: "
            "they can tell who is in it. The promise is only about tables that agree on these counts: whatever else "
            f"this file shows would have been shown with at most {replaced.factor:.3g} times higher or lower "
            f"probability{slack} if {whom} had been replaced by another one{same and f' with the same {same}'}."
        ),
        definition=CONCENTRATED if delta else PURE,
        delta=delta,
        rho=rho,
    )


@record
class Statistic:
    """Published column of noisy integers, each worth `step`, around `centre` per row.

    of: "count" or the name of a measure. member, column: where its values are kept. noise: none for a fitted cube,
    whose cells are estimates; there the column "parts of " + column adds 1024ths, or, where estimates are left to be
    solved for, member and column are those of the arrays.
    """

    of: Text
    member: MemberName
    column: Text
    noise: NoiseRecord | None
    step: PositiveExact = Fraction(1)
    centre: Exact = Fraction(0)


@record
class Total:
    """Noisy total over all cells, in steps of its statistic, of a sparse cube."""

    of: Text
    value: Int64
    noise: NoiseRecord


@record
class Member:
    """Manifest entry of a Parquet member, detailed enough to refuse it before reading."""

    file: Text
    sha256: Sha256
    bytes: Size
    rows: Size
    columns: Annotated[list[Text], Field(min_length=1)]


@record
class Manifest:
    """Metadata of a release, without its values. `members` is filled in when the file is written.

    fits, queries, arrays: of a fitted cube. The arrays are concatenated in one member; these are their lengths.
    Measurements refer to queries and arrays by index. details: fields of other kinds, checked by them (`details_as`)
    and omitted where empty.
    """

    kind: Text
    schema: dict[str, JsonValue]
    mechanism: MechanismRecord
    guarantee: Guarantee
    private: bool  # False: made with a testing generator and NOT PRIVATE
    statistics: Annotated[list[Statistic], Field(min_length=1)]
    receipt: dict[str, JsonValue] | None = None
    threshold: Int64 | None = None  # sparse: the least noisy count that was published
    totals: list[Total] = field(default_factory=list)
    fits: list[FitRecord] = field(default_factory=list)
    queries: list[QueriesRecord] = field(default_factory=list)
    arrays: list[Size] = field(default_factory=list)
    details: dict[str, JsonValue] = field(default_factory=dict)
    members: dict[MemberName, Member] = field(default_factory=dict)
    format: Literal["sfumato"] = "sfumato"
    version: Literal[1, 2, 3, 4, 5] = FORMAT_VERSION
    written_by: Text = f"sfumato {__version__}"
    limits: Literal["docs/known-limits.md"] = "docs/known-limits.md"


def content_of(manifest: Manifest) -> dict[str, JsonValue]:
    """JSON form of a manifest, without its digest."""
    left_out = None if manifest.details else {"details"}
    content: dict[str, JsonValue] = adapter(Manifest).dump_python(manifest, mode="json", exclude=left_out)
    return content


def details_as(form: type[Details], manifest: Manifest) -> Details:
    """Validate the details of an untrusted manifest as a record type."""
    try:
        found: Details = adapter(form).validate_json(canonical(manifest.details))
    except (ValidationError, ValueError):
        raise refusal("its manifest has details that do not go with its kind") from None
    return found


def check_description(schema: Schema) -> None:
    """Refuse a schema whose lists of values are too long for a release file; reads no data and spends nothing."""
    size = len(indented(schema.to_dict(), "\n  ").encode())
    if size <= MOST_SCHEMA_BYTES:
        return
    longest = max(schema.attributes, key=lambda name: schema.attributes[name].size)
    raise SchemaError(
        f"the schema's lists of values take {size:,} bytes of a release file, and {MOST_SCHEMA_BYTES:,} is the most; "
        f"list fewer values of {longest} ({schema.attributes[longest].size:,} now) and set other: true"
    )


def manifest_bytes(manifest: Manifest) -> tuple[bytes, str]:
    """Canonical bytes of a manifest with its digest, and the digest."""
    try:
        content = content_of(manifest)
        digest = hashlib.sha256(canonical(content)).hexdigest()
        raw = canonical({**content, "digest": digest})
    except (ValueError, TypeError, RecursionError):
        raise ReleaseFileError("the manifest holds something that strict JSON cannot; use text and numbers") from None
    if len(raw) > MOST_MANIFEST_BYTES:
        raise ReleaseFileError(
            f"the manifest would be larger than {MOST_MANIFEST_BYTES:,} bytes; shorten the schema's lists of values"
        )
    parse_manifest(raw)  # what could not be opened again is not written
    return raw, digest


def parse_manifest(raw: bytes) -> tuple[Manifest, str]:
    """Parse an untrusted manifest; refuse everything that `manifest_bytes` would not write."""
    if len(raw) > MOST_MANIFEST_BYTES:
        raise refusal(f"its manifest is larger than {MOST_MANIFEST_BYTES:,} bytes")
    content = strict_json(raw)
    if not isinstance(content, dict) or content.get("format") != "sfumato":
        raise refusal("its manifest does not say that it is a Sfumato release")
    version = content.get("version")
    if type(version) is not int or version < 1:
        raise refusal("its manifest does not name the version of its format")
    if version > SCALED_VERSION:
        raise refusal(f"it was made by a newer Sfumato (format {version})", "upgrade to open it")
    if ("details" in content) != (version in (DETAILED_VERSION, SCALED_VERSION)):
        raise refusal("its manifest has details that do not go with its version, or lacks them")
    digest = content.pop("digest", None)
    try:
        at_once = canonical({**content, "digest": digest}) == raw
        spelled = canonical(content, at_once=at_once)  # files of before had each value of a long list on its own line
        spelled_otherwise = not at_once and canonical({**content, "digest": digest}, at_once=False) != raw
    except ValueError:  # half of a surrogate pair, which UTF-8 cannot hold
        raise refusal("its manifest holds broken text") from None
    if digest != hashlib.sha256(spelled).hexdigest() or spelled_otherwise:
        raise refusal("it was changed after publication: its manifest does not match its digest")
    try:
        return adapter(Manifest).validate_json(spelled), digest
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part)[:60] for part in first["loc"])
        raise refusal(f"its manifest is not well formed at {where!r}: {first['msg']}") from None
