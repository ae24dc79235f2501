"""Release: a published content with its guarantee, the queries that it answers, and its form in a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from sfumato.arrays import Whole
from sfumato.domain import Domain
from sfumato.errors import PrivacyError, QueryError, ReleaseFileError
from sfumato.frozen import dataclass
from sfumato.plain_text import printable
from sfumato.queries import Queries
from sfumato.releases.contents.content import Content, Written, kind_named
from sfumato.releases.file.artifact import Artifact, is_linked, is_series, read_artifact, write_artifact
from sfumato.releases.file.manifest import (
    BLOCKS,
    DETAILED_VERSION,
    FORMAT_VERSION,
    LEANS_ON,
    SCALED_VERSION,
    SOLVED_VERSION,
    Guarantee,
    Manifest,
    MechanismRecord,
)
from sfumato.releases.file.members import NUMBERS, VALUE, Columns, arrays_in
from sfumato.releases.file.records import leaves_out_estimates
from sfumato.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

    from sfumato.answers.contingency import IndependenceTest
    from sfumato.answers.question import Manner
    from sfumato.answers.regression import Regression
    from sfumato.answers.results import Estimate, Result
    from sfumato.answers.survival import Survival
    from sfumato.releases.contents.content import ContentOfCells
    from sfumato.releases.description import Description
    from sfumato.releases.rows.condition import Lot
    from sfumato.releases.rows.write import Drawn

QUICKLY_ASKED = 2**20  # cells that are laid out and still answer at once


@dataclass(frozen=True, eq=False, repr=False)
class Release:
    """A published content with its guarantee. No private data, no curator and no budget are needed to use it.

    What a method needs is imported when it is called: publishing needs no SQL, and asking needs no noise.
    published: told the digest of the file when it is saved. options: of the mechanism, as they were stated.
    """

    content: Content
    mechanism: str
    guarantee: Guarantee
    private: bool
    receipt: dict[str, Any] | None = None
    published: Callable[[str], None] | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def schema(self) -> Schema:
        return self.content.schema

    @property
    def domain(self) -> Domain:
        return self.content.domain

    @property
    def leans_on(self) -> str | None:
        """Digest of an earlier release that typical estimates lean on; None of most."""
        return self.options.get(LEANS_ON)

    def query(
        self,
        sql: str,
        *,
        confidence: float = 0.95,
        strict: bool = False,
        interval: str = "typical",
        possible: bool = False,
        simultaneous: bool = False,
        selected: bool = True,
        unbiased: bool = False,
        population: bool = False,
        errors: bool = True,
        as_of: str | None = None,
        tables: Mapping[str, object] | None = None,
    ) -> Result:
        """Answer a statement, with an interval for every number; DESCRIBE, with the columns that there are.

        strict: refuse a query whose answer depends on how rows are spread inside a cell. interval: "typical", which
        holds on average over questions; "guaranteed", which holds for every table and every question; or "both".
        possible: no interval reaches beyond what a table can hold. simultaneous: all intervals of the answer hold
        together with the confidence (docs/intervals.md). selected: where noisy values choose which rows are shown
        (LIMIT after ORDER BY a number, HAVING, QUALIFY), intervals are wide enough to hold after that choice. unbiased:
        counts and sums as they were measured, without what a model made of them; refused where they were not.
        population: intervals are about the population that the rows were drawn from: sampling error beside noise.
        errors: whether tables, records and frames of the answer have standard errors and intervals beside the numbers,
        and synthetic rows (SELECT * ... LIMIT 5) the column that says so. as_of: of a series, a period: answer from the
        parts up to it, with estimates that lean on each other; the same as FROM t AS OF '2026-11' (docs/series.md).
        tables: small public tables that the statement may join, by name: a CSV file, a mapping of columns, or a frame.
        """
        from sfumato.answers.question import Manner
        from sfumato.schema.schema import counted_in_short
        from sfumato.sql.reading import is_describe, period_asked

        if is_describe(sql, self.schema):
            from sfumato.releases.description import describe_columns

            made = f"{self.content.about.extent}, mechanism {self.mechanism}"
            found = describe_columns(self.schema, confidence, (self.guarantee.statement, made))
            return replace(found, counted=counted_in_short(self.content.table_schema))
        self._refuse_weights(population)
        manner = Manner(interval, possible, simultaneous, selected, unbiased, population)
        stated = period_asked(sql, self.schema)
        if as_of is not None and stated is not None and as_of != stated:
            raise QueryError(f"the statement says AS OF {stated!r}, and beside it stands {as_of!r}; say it once")
        if (period := as_of or stated) is None:
            result = self._answer(sql, confidence, strict, manner, errors, tables)
        elif unbiased:
            raise QueryError("unbiased answers lean on no other period; ask without AS OF, or without unbiased")
        else:
            leaning = replace(self, content=self.content.as_of(period))
            result = leaning._answer(sql, confidence, strict, manner, errors, tables)
        return replace(result, counted=counted_in_short(self.content.table_schema), errors=errors)

    def routed(self, sql: str) -> tuple[Release, str]:
        """Release that answers a statement (of linked tables, one table's), and the statement rewritten for it."""
        return self, sql

    def _answer(
        self,
        sql: str,
        confidence: float,
        strict: bool,
        manner: Manner,
        errors: bool,
        tables: Mapping[str, object] | None = None,
    ) -> Result:
        """Answer a statement that is no DESCRIBE."""
        from sfumato.answers.question import Manner
        from sfumato.sql.compile import compile_statement, selects_of
        from sfumato.sql.plan import Select, strict_check
        from sfumato.sql.rows import SyntheticRows

        content = self.content
        plain = manner == Manner(selected=manner.selected)
        if tables:
            own = None
            content = content.as_measured() if manner.unbiased else content
        elif plain:
            own = content.answer_text(sql, confidence)
        else:
            from sfumato.answers.statement import text_in_manner

            content = content.as_measured() if manner.unbiased else content
            own = text_in_manner(sql, content, confidence, manner)
        if own is not None:
            return own
        statement = compile_statement(sql, self.schema, tables)
        if isinstance(statement, SyntheticRows):
            from sfumato.releases.rows.selected import synthetic_rows

            return synthetic_rows(statement, self.content.row_model, self.schema, confidence, marked=errors)
        for select in selects_of(statement) if strict else ():
            strict_check(select, self.domain)
        if plain and isinstance(statement, Select) and not statement.chooses:
            return content.select(statement, confidence)
        from sfumato.answers.statement import run_in_manner

        return run_in_manner(statement, content, confidence, manner)

    def describe(self, *, confidence: float = 0.95, with_errors: bool = True) -> Description:
        """Describe content, guarantee, counting rules and typical errors, with example queries.

        with_errors: ask how large errors typically are, which takes seconds where ten million cells were fitted.
        """
        from sfumato.releases.description import (
            Description,
            determines,
            effective_rows,
            example_queries,
            typical_errors,
        )
        from sfumato.schema.schema import what_is_counted

        about, countable = self.content.about, self.content.answers_counts
        typical = typical_errors(self.content.newest, confidence) if with_errors and countable else ()
        examples = about.examples or (example_queries(self.schema) if countable else ())
        if any(one.half_width is None for one in typical):  # it answers what it was made for and perhaps nothing else
            examples = tuple(text for text in examples if determines(self.query(text)))
        leaning = f"; estimates lean on the earlier release with the digest {self.leans_on}" if self.leans_on else ""
        made = (self.schema, self.mechanism, self.guarantee, about.extent, about.errors + leaning)
        rules = what_is_counted(self.content.table_schema)
        found = (*about.findings, *effective_rows(self.schema, self.query))
        return Description(*made, typical, confidence, rules, examples, found)

    def answer(self, queries: Queries, *, confidence: float = 0.95, interval: str = "typical") -> Sequence[Estimate]:
        """Answer linear queries over the cells' counts, one estimate for each. interval: as in `query`."""
        from sfumato.answers.question import Manner

        found = self.content.linear(queries, confidence, Manner(interval).interval)
        return found if self.schema.count_step == 1.0 else [one.times(self.schema.count_step) for one in found]

    def marginal(self, *names: str, confidence: float = 0.95) -> Result:
        """Marginal counts: the count of every combination of values of some attributes, with its interval."""
        listed = ", ".join('"' + name.replace('"', '""') + '"' for name in names)
        return self.query(
            f'SELECT {listed}, COUNT(*) AS "count" FROM release GROUP BY {listed}'
            if names
            else 'SELECT COUNT(*) AS "count" FROM release',
            confidence=confidence,
        )

    def regress(
        self,
        formula: str,
        *,
        where: str | None = None,
        confidence: float = 0.95,
        population: bool = False,
        family: str = "linear",
    ) -> Regression:
        """Least squares, such as "income ~ age + C(region) + age:sex", with intervals of the coefficients.

        where: condition on rows, as in SQL behind WHERE. population: intervals are about the population that the rows
        were drawn from, not about this table. family: "linear", "logistic" or "poisson".
        """
        from sfumato.answers.regression import regress

        self._refuse_weights(population)
        cells = self._of_cells("regress on")
        return regress(cells, formula, where=where, confidence=confidence, population=population, family=family)

    def test(self, first: str, second: str, *, where: str | None = None) -> IndependenceTest:
        """Chi-square test of independence of two attributes; its p-value knows the noise. where: condition on rows.

        The question is about a population from which the rows were drawn. It needs counts as they were measured.
        """
        from sfumato.answers.contingency import independence

        self._refuse_weights(True)
        content = replace(self, content=self.content.as_measured())._of_cells("test")
        return independence(content, first, second, where=where)

    def cramers_v(self, first: str, second: str, *, where: str | None = None, confidence: float = 0.95) -> Estimate:
        """Cramer's V of two attributes of the table, from 0 (independent) to 1, from counts as they were measured."""
        names = ", ".join('"' + name.replace('"', '""') + '"' for name in (first, second))
        text = f"SELECT CRAMERS_V({names}) FROM release" + (f" WHERE {where}" if where is not None else "")
        return self._number(text, confidence=confidence, unbiased=True)

    def odds_ratio(self, exposure: str, outcome: str, *, where: str | None = None, **settings: Any) -> Estimate:
        """Odds of the outcome among those with the exposure over those without it; settings: as of `query`.

        Each is an attribute with two values, of which the second or true counts, or a condition as in SQL.
        """
        from sfumato.answers.contingency import as_ratio, ratio_statement

        text = ratio_statement(exposure, outcome, self.schema, odds=True, where=where)
        return as_ratio(self._number(text, **settings))

    def risk_ratio(self, exposure: str, outcome: str, *, where: str | None = None, **settings: Any) -> Estimate:
        """Share with the outcome among those with the exposure over the share without it; as `odds_ratio`."""
        from sfumato.answers.contingency import as_ratio, ratio_statement

        text = ratio_statement(exposure, outcome, self.schema, odds=False, where=where)
        return as_ratio(self._number(text, **settings))

    def survival(
        self,
        time: str,
        event: str,
        *,
        by: str | None = None,
        where: str | None = None,
        confidence: float = 0.95,
        population: bool = False,
    ) -> Survival:
        """Kaplan-Meier curves: the share still without an event at each time, with intervals.

        time: an attribute with an order, when a row's event came or it was last seen. event: an attribute with two
        values, of which the second or true is the event, or a condition as in SQL. by: attribute of which each value
        has a curve of its own. where, population: as for `regress`.
        """
        from sfumato.answers.survival import survival

        self._refuse_weights(True)
        cells = self._of_cells("follow over time")
        how: dict[str, Any] = {"by": by, "where": where, "confidence": confidence, "population": population}
        return survival(cells, time, event, **how)

    def _number(self, sql: str, **settings: Any) -> Estimate:
        """The one number of an answer."""
        return cast("Estimate", self.query(sql, **settings).rows[0][0])

    def _refuse_weights(self, population: bool) -> None:
        """Refuse questions about a population where rows are weighed."""
        if population and self.schema.weight is not None:
            raise QueryError("how weights vary in a population is not known; ask about this table, without population")

    def _of_cells(self, purpose: str) -> ContentOfCells:
        """Content that shows its cells; refused where there are none."""
        from sfumato.releases.contents.content import ContentOfCells

        if not isinstance(self.content, ContentOfCells):
            raise QueryError(f"this kind of release has no cells to {purpose}; release margins or cells for that")
        return self.content

    def predict(self, rows: Any, *, confidence: float = 0.95) -> pa.Table:
        """Predictions of a published model, one for each row of a path, a pandas, polars or Arrow frame.

        The rows are the caller's own and stay so; it costs no privacy.
        """
        from sfumato.releases.rows.coding import read_rows

        return self.content.predict(read_rows(rows, self.schema), confidence)

    def halfspace(self, weights: Mapping[str, float], threshold: float, *, confidence: float = 0.95) -> Estimate:
        """Number of rows with a weighted sum of attributes above a threshold, where a release counts along lines."""
        return self.content.halfspace(weights, threshold, confidence)

    def sample(
        self,
        rows: int | None = None,
        *,
        where: str | None = None,
        by: str | Sequence[str] = (),
        seed: int | None = None,
        table: int = 1,
    ) -> pa.Table:
        """Draw synthetic rows from the release. It costs nothing: rows are public.

        rows: as many as the release counts if None. where: condition that all rows fulfil, as in SQL behind WHERE. by:
        attributes whose groups get exactly the release's rounded counts, or their parts of `rows`. seed: the same one
        draws the same rows. table: number of one of several independent tables of a seed, from 1.

        An Arrow table, whose metadata says that its rows are synthetic; a notebook shows the first of them.
        """
        import pyarrow as pa

        from sfumato.answers.export import as_synthetic
        from sfumato.releases.rows.coding import column_types

        batches = self.sample_batches(rows, where=where, by=by, seed=seed, table=table)
        return as_synthetic(pa.Table.from_batches(batches, column_types(self.schema)), self.schema.dataset)

    def sample_batches(
        self,
        rows: int | None = None,
        *,
        where: str | None = None,
        by: str | Sequence[str] = (),
        seed: int | None = None,
        table: int = 1,
    ) -> Iterator[pa.RecordBatch]:
        """Draw the rows of `sample` some at a time, for more than fit in memory."""
        from sfumato.releases.rows.coding import draw_batches

        lot = self._lot(rows, where, by)
        return draw_batches(lot, self.schema, lot.rows, seed, table)

    def sample_to(
        self,
        path: str | Path,
        rows: int | None = None,
        *,
        where: str | None = None,
        by: str | Sequence[str] = (),
        seed: int | None = None,
        table: int = 1,
    ) -> Drawn:
        """Draw the rows of `sample` into a .csv or .parquet file, and say how well they agree with the release."""
        from sfumato.releases.rows.write import check_place, draw_to_file

        check_place(Path(path))
        lot = self._lot(rows, where, by)
        return draw_to_file(lot, self.schema, lot.rows, Path(path), seed, table)

    def _lot(self, rows: int | None, where: str | None, by: str | Sequence[str]) -> Lot:
        """Model and number of synthetic rows that are asked for."""
        from sfumato.releases.rows.condition import Wish

        return Wish.by_words(rows, where, by, self.schema).of(self.content.row_model, self.schema)

    def save(self, path: str | Path) -> Path:
        """Write the release to one file. Whoever has the file can query it for ever."""
        copied = self.content.copy_to(Path(path))
        if copied is not None:
            return copied
        contents = contents_of(self)
        digest = write_artifact(Path(path), contents.manifest, contents.members)
        if self.published is not None:
            self.published(digest)
        return Path(path)

    @classmethod
    def load(
        cls, path: str | Path, *, most_cells: int | None = None, require_signature: str | PathLike[str] | None = None
    ) -> Release:
        """Open a release from a file nobody has vouched for; nothing in it is ever executed.

        most_cells: how many numbers it may lay out in memory, where the usual bound is too low for it.
        require_signature: the file of a public key by which it must be signed.
        """
        if is_series(path) or is_linked(path):  # by name, for these are made of releases
            room = import_module(f"sfumato.releases.{'series' if is_series(path) else 'linked'}")
            opened: Callable[[], Release]
            digest, opened = room.opened(path, most_cells)
        else:
            artifact = read_artifact(Path(path), most_cells)
            digest, opened = artifact.digest, partial(release_in, artifact)
        if require_signature is not None:
            from sfumato.releases.signature import check_signature

            check_signature(path, digest, require_signature)
        return opened()

    def refuse_unless_private(self) -> Release:
        """Stop a release made with a testing generator from being served as if it protected anyone."""
        if not self.private:
            raise PrivacyError(
                "this release is marked NOT PRIVATE: it was made with a testing generator and its noise can be "
                "undone; make a real one with `sfumato release`"
            )
        return self

    def __repr__(self) -> str:
        promise = f"epsilon {self.guarantee.epsilon}"
        if self.guarantee.delta:
            promise += f", delta {float(self.guarantee.delta):g}"
        extent = self.content.about.extent
        return printable(f"<Release of {self.schema.dataset}: {self.mechanism}, {extent}, {promise}>")

    def _repr_html_(self) -> str:
        """HTML of `describe` for notebooks, without typical errors where these would take long."""
        quick = not self.content.answers_linear or self.domain.size <= QUICKLY_ASKED
        return self.describe(with_errors=quick)._repr_html_()


@dataclass(frozen=True, eq=False)
class Contents:
    """Manifest and members of a file. Nothing else of a release is written, so the audit of this is one of the file."""

    manifest: Manifest
    members: Mapping[str, Columns]

    @property
    def columns(self) -> dict[str, dict[str, Whole]]:
        """Columns of all members, with concatenated arrays split."""
        by_member = {name: dict(columns) for name, columns in self.members.items()}
        if NUMBERS in by_member and self.manifest.arrays:
            arrays = arrays_in(self.manifest, by_member[NUMBERS].pop(VALUE))
            by_member[NUMBERS] |= {f"array {place}": array for place, array in enumerate(arrays)}
        return by_member


def contents_of(release: Release) -> Contents:
    """File form of a release."""
    written = release.content.write()
    manifest = Manifest(
        kind=written.kind,
        schema=release.content.schema.to_dict(),
        mechanism=MechanismRecord(release.mechanism, dict(release.options)),
        guarantee=release.guarantee,
        private=release.private,
        statistics=written.statistics,
        receipt=release.receipt,
        version=_version(written),
        **written.further,
    )
    return Contents(manifest, written.members)


def _version(written: Written) -> Literal[2, 3, 4, 5]:
    """Least format version that can hold what is written, so that older Sfumatos read what they can."""
    if written.further.get("details"):
        return SCALED_VERSION if BLOCKS in written.members else DETAILED_VERSION
    return SOLVED_VERSION if leaves_out_estimates(written.further.get("fits", ())) else FORMAT_VERSION


def read_content(artifact: Artifact) -> Content:
    """Restore the content of an untrusted, checked file."""
    try:
        return kind_named(artifact.manifest.kind).read(artifact.manifest, artifact.schema, artifact.read)
    except ReleaseFileError as error:
        raise ReleaseFileError(f"cannot open {artifact.path}: {error}", kind=error.kind) from None


def release_in(artifact: Artifact) -> Release:
    """The release in an untrusted, checked file."""
    about = artifact.manifest
    facts = (about.mechanism.name, about.guarantee, about.private, about.receipt)
    options = {name: str(value) for name, value in about.mechanism.options.items()}
    return Release(read_content(artifact), *facts, options=options)


def open_release(
    path: str | Path,
    *,
    most_cells: int | None = None,
    allow_not_private: bool = False,
    require_signature: str | PathLike[str] | None = None,
) -> Release:
    """Open a published release. One made with a testing generator is refused unless asked for by name.

    most_cells: how many numbers the file may lay out in memory, if the usual bound is too low for it.
    require_signature: the file of a public key by which it must be signed (docs/certificate.md).
    """
    found = Release.load(path, most_cells=most_cells, require_signature=require_signature)
    return found if allow_not_private else found.refuse_unless_private()
