"""Combine published releases into one file: of the same table, or of disjoint tables with the same schema.

All of it is work on what was published: no table is read and no budget is spent. Releases of one table hold independent
measurements of the same counts, so they are fused by precision. Disjoint tables add up: estimates are sums, and so are
variances. What the fused file promises follows from its parts (releases/parts.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path

from sfumato.errors import QueryError, ReleaseFileError
from sfumato.frozen import dataclass
from sfumato.kernel.ledger.book import same_dataset
from sfumato.publishing.prepare import what_is_released
from sfumato.releases.contents.content import Content
from sfumato.releases.file.artifact import is_linked, is_series, read_artifact
from sfumato.releases.file.manifest import guarantee_of
from sfumato.releases.file.records import one_line
from sfumato.releases.parts import MOST_PARTS, Part, combined_receipt, cost_of_parts, parts_in
from sfumato.releases.release import LEANS_ON, Release, read_content

SURE = 1.0 - 1e-6  # that two releases of one table are not taken for those of two


@dataclass(frozen=True, eq=False)
class Source:
    """A release file to be combined, with its parts: itself, or those that it was combined of."""

    path: str
    release: Release
    parts: tuple[Part, ...]

    @classmethod
    def read(cls, path: str | PathLike[str], most_cells: int | None) -> Source:
        """Open an untrusted file."""
        if is_series(path):
            raise ReleaseFileError(
                f"{one_line(str(path))} is a series, whose parts are of different periods, and "
                "no tables to be averaged as one; ask the series itself"
            )
        if is_linked(path):
            raise ReleaseFileError(f"{one_line(str(path))} is a file of linked tables; combine files of single tables")
        artifact = read_artifact(path, most_cells)
        about, shown = artifact.manifest, artifact.path
        promised, receipt = about.guarantee, about.receipt
        if not receipt or (not parts_in(receipt) and not {"ledger", "nonce", "entry"} <= {*receipt}):
            raise ReleaseFileError(
                f"{shown} has no receipt of a ledger, so that nobody can tell which table it is of; combine releases "
                "as `sfumato release` wrote them"
            )
        options = {name: str(value) for name, value in about.mechanism.options.items()}
        if LEANS_ON in options:
            raise ReleaseFileError(
                f"{shown} leans on an earlier release (--prior), so that its estimates are of two tables; combine "
                "releases that were made without"
            )
        facts = (about.mechanism.name, promised, about.private, receipt)
        cost = (promised.epsilon, promised.delta, promised.rho)
        alone = Part(0, artifact.digest, about.mechanism.name, *cost, receipt)
        found = Release(read_content(artifact), *facts, options=options)
        return cls(shown, found, parts_in(receipt) or (alone,))

    @property
    def tables(self) -> int:
        """Number of disjoint tables that it is of."""
        return 1 + max(part.table for part in self.parts)


def combine(
    *paths: str | PathLike[str], disjoint: bool = False, most_cells: int | None = None, allow_not_private: bool = False
) -> Release:
    """Fuse release files into one release; `save` writes it. Reads no table and spends nothing.

    disjoint: they are of tables without a common row and with one schema, so that counts add up. Without it they are
    of one table, by the receipts of one ledger. most_cells, allow_not_private: as `sfumato.open` takes them.
    """
    if not 2 <= len(paths) <= MOST_PARTS:
        raise ReleaseFileError(f"combine takes 2 to {MOST_PARTS} release files, not {len(paths):,}; name them at once")
    sources = [Source.read(path, most_cells) for path in paths]
    if not allow_not_private:
        for source in sources:
            source.release.refuse_unless_private()
    _refuse_shared_noise(sources)
    _refuse_other_rules(sources, disjoint=disjoint)
    _refuse_other_tables(sources, disjoint=disjoint)
    content = _fused(sources, disjoint=disjoint)
    return _released(sources, content, disjoint=disjoint)


def _refuse_shared_noise(sources: Sequence[Source]) -> None:
    """Refuse a release that is given twice, or that is a part of another one."""
    known: dict[tuple[object, object], str] = {}
    for source in sources:
        for part in source.parts:
            if part.draw in known:
                raise ReleaseFileError(
                    f"{source.path} and {known[part.draw]} hold the same noise: they are one release, or one is a part "
                    "of the other, and to count it twice would claim too small an error; name each release once"
                )
        known |= {part.draw: source.path for part in source.parts}
    if (number := len(known)) > MOST_PARTS:
        raise ReleaseFileError(f"these files are of {number} releases together, and {MOST_PARTS} can be combined")


def _refuse_other_rules(sources: Sequence[Source], *, disjoint: bool) -> None:
    """Refuse schemas that differ in what a release holds, by the first key that does."""
    first = sources[0]
    ours = what_is_released(first.release.schema)
    for source in sources[1:]:
        theirs = what_is_released(source.release.schema)
        for key in sorted({*ours, *theirs} - ({"dataset"} if disjoint else set())):
            if ours.get(key) == theirs.get(key):
                continue
            where, mine, other = key, ours.get(key), theirs.get(key)
            if isinstance(mine, dict) and isinstance(other, dict):
                odd = next(name for name in {**mine, **other} if mine.get(name) != other.get(name))
                where = f"{key}.{odd}"
            more = "; two tables with one schema but two names are combined with --disjoint" if key == "dataset" else ""
            raise ReleaseFileError(
                f"{first.path} and {source.path} have different schemas: {where} differs; combine releases that were "
                f"made with one schema{more}"
            )


def _refuse_other_tables(sources: Sequence[Source], *, disjoint: bool) -> None:
    """Refuse releases that are not of one table, or with `disjoint` those that are."""
    where = [
        {(part.receipt.get("ledger"), same_dataset(str(part.receipt.get("dataset")))) for part in source.parts}
        for source in sources
    ]
    first = sources[0]
    for source, ledgers in zip(sources[1:], where[1:], strict=True):
        if not disjoint and first.release.schema.series is not None:
            raise ReleaseFileError(
                f"{first.path} and {source.path} are parts of a series, and no file says of which period it is: two "
                "periods are two tables, which must not be averaged as one; ask the series itself"
            )
        if disjoint and ledgers & set().union(*where[: sources.index(source)]):
            raise ReleaseFileError(
                f"{source.path} is of a dataset that another file is of too, by the receipts of their ledger: that is "
                "one table, not two; combine those of one table first, without --disjoint"
            )
        if not disjoint and (source.tables > 1 or first.tables > 1):
            raise ReleaseFileError(
                "a file of disjoint tables cannot be fused with another; combine the releases of each table first, and "
                "then those of all tables with --disjoint"
            )
        if not disjoint and ledgers != where[0]:
            raise ReleaseFileError(
                f"{first.path} and {source.path} have receipts of two ledgers or datasets, so that they are not known "
                "to be of one table; if they are of two tables without a common row, say so: --disjoint"
            )
        if not disjoint:
            _refuse_real_differences(first, source)


def _refuse_real_differences(first: Source, second: Source) -> None:
    """Refuse two releases of one dataset whose counts differ by more than their noise: the table has changed."""
    from sfumato.public.comparison.compare import compare

    try:
        real = compare(first.release, second.release, confidence=SURE, shares=False).real
    except QueryError:  # too many cells to compare, or no counts: the receipts must do
        return
    if real:
        raise ReleaseFileError(
            f"{first.path} and {second.path} differ by more than their noise can explain, so the table has changed "
            "between them; `sfumato compare` shows where. Only releases of one and the same table can be fused"
        )


def _fused(sources: Sequence[Source], *, disjoint: bool) -> Content:
    """Content of all releases together; kinds that cannot be fused are refused by name."""
    from sfumato.models.margins.content import Margins
    from sfumato.models.margins.nested import NestedMargins
    from sfumato.models.margins.summed import SummedMargins
    from sfumato.public.combination.linear import CAN, fuse_cubes
    from sfumato.public.combination.margins import fuse_fitted, fuse_unbiased
    from sfumato.public.combination.trees import fuse_trees
    from sfumato.releases.contents.cube import Cube

    by_source = [(_kind(source.release), source.release.mechanism) for source in sources]
    kinds, names = {kind for kind, _ in by_source}, [*dict.fromkeys(name for _, name in by_source)]
    contents = [source.release.content for source in sources]
    cubes = [content for content in contents if isinstance(content, Cube)]
    margins = [content for content in contents if isinstance(content, Margins)]
    if kinds == {"linear"}:
        return fuse_cubes(cubes, disjoint=disjoint)
    if disjoint and kinds <= {"unbiased", "fitted", "grouped", "summed"}:
        return SummedMargins.of([c for c in contents if isinstance(c, Margins | NestedMargins | SummedMargins)])
    for kind, name in by_source:
        if kind == "running":
            raise ReleaseFileError(
                "a part with running totals has noise in common with other parts of its series, and cannot be "
                "combined; release the table by itself"
            )
        if kind is None or (kind == "trees" and disjoint):
            raise ReleaseFileError(f"a release by {name} cannot be combined{' so' if kind else ''}; {CAN}")
        if kind == "grouped" and not disjoint:
            raise ReleaseFileError(
                "a release by margins with attributes that enter by groups can be added up with --disjoint, and not "
                f"be fused; {CAN}"
            )
    if len(kinds) > 1:
        raise ReleaseFileError(f"releases by {' and '.join(names)} cannot be combined with each other; {CAN}")
    if kinds == {"unbiased"}:
        return fuse_unbiased(margins)
    for source in sources:
        if len(source.parts) > 1:
            raise ReleaseFileError(
                f"{source.path} was combined of releases by {source.release.mechanism}, which are fitted all at once; "
                "name its parts with the others in one command"
            )
    return fuse_trees(cubes) if kinds == {"trees"} else fuse_fitted(margins, [source.path for source in sources])


def _kind(release: Release) -> str | None:
    """Kind of releases that a release can be combined with; None for no kind."""
    from sfumato.answers.along_time import RunningCells
    from sfumato.models import MODULES
    from sfumato.models.calibration.families import MeasuredTree
    from sfumato.models.margins.content import Margins
    from sfumato.models.margins.nested import NestedMargins
    from sfumato.models.margins.summed import SummedMargins
    from sfumato.public.combination.linear import LINEAR
    from sfumato.releases.contents.cube import Cube

    match release.content:
        case Cube(fits=fits):
            every = all(isinstance(fit, LINEAR) for fit in fits)
            spread = any(isinstance(fit, RunningCells) for fit in fits)
            return (
                "linear" if every else "running" if spread else "trees" if isinstance(fits[0], MeasuredTree) else None
            )
        case Margins(unbiased=unbiased):
            return "unbiased" if unbiased else "fitted" if release.mechanism in MODULES else None
        case NestedMargins():
            return "grouped"
        case SummedMargins():
            return "summed"
    return None


def _released(sources: Sequence[Source], content: Content, *, disjoint: bool) -> Release:
    """Release of a fused content, with the guarantee and the receipts of all parts."""
    parts, table = list[Part](), 0
    for source in sources:
        parts += [replace(part, table=part.table + table) for part in source.parts]
        table += source.tables if disjoint else 0
    schema, releases = sources[0].release.schema, [source.release for source in sources]
    epsilon, delta, rho = cost_of_parts(parts, by_row=schema.privacy_unit.column is None)
    views = any("view" in each.guarantee.neighbours for each in releases)
    promise = guarantee_of(
        epsilon, releases[0].guarantee.unit, delta=delta, rho=rho, derived=views, bought=schema.bought
    )
    names = [*dict.fromkeys(part.mechanism for part in parts)]
    private = all(each.private for each in releases)
    receipt = combined_receipt(schema.dataset, parts, epsilon, delta)
    options = releases[0].options if all(each.options == releases[0].options for each in releases) else {}
    return Release(content, " and ".join(names), promise, private, receipt, options=options)


def combine_into(
    paths: Sequence[str | PathLike[str]], out: Path, *, disjoint: bool = False, most_cells: int | None = None
) -> tuple[Release, Path | None]:
    """Combine files into a new one; return the release, and where an earlier file of that name went."""
    from sfumato.publishing.prepare import check_place
    from sfumato.releases.file.artifact import keep_earlier

    check_place(out)
    if out.exists() and any(Path(path).exists() and out.samefile(path) for path in paths):
        raise ReleaseFileError(f"{out} is one of the files to be combined; name another with -o")
    made = combine(*paths, disjoint=disjoint, most_cells=most_cells)
    kept = keep_earlier(out)
    made.save(out)
    return made, kept
