"""Combine published releases into one file: of the same table, or of disjoint tables with the same schema.

All of it is work on what was published: no table is read and no budget is spent. Releases of one table hold independent
measurements of the same counts, so they are fused by precision. Disjoint tables add up: estimates are sums, and so are
variances. What the fused file promises follows from its parts (releases/parts.py).

Fuse linear releases: least squares over all measurements of one table, or the sum of fits to disjoint tables.

Of one table: stack the queries of all releases, [A_1; A_2] x + noise, each row with its own noise, and solve by
generalised least squares. Rows are weighted by the inverse of their variance, so that with equal queries and Gaussian
noise two releases of rho are one of 2 rho. Every noise keeps its exact distribution, and intervals are as exact as
those of one release.

Fuse releases by `sfumato` of one table: the counts of both descents in one tree, and then its one posterior.

Where each descent went was decided by its own noise alone, and given that, its counts carry fresh noise; noise of two
releases is independent. So counts of the same node are averaged by the inverse of their variances, all others stand
beside them, and the posterior is that of one tree (models/tree/fit.py), updated with the one-way marginals of all.

What a release measured of its errors is about its own estimate: factors on what its fit claims, by kind of query. A fit
to more counts claims less and misjudges itself as much, so the fused fit takes the mean of the squared factors, by
precision; mean errors in rows are upper bounds, as nobody measured those of the fused estimate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path

import numpy as np

from sfumato.answers.fit import Fit, NoisyCells
from sfumato.arrays import Floats
from sfumato.errors import QueryError, ReleaseFileError
from sfumato.frozen import dataclass
from sfumato.kernel.ledger.book import same_dataset
from sfumato.measurement import Measurement, as_one
from sfumato.models.calibration.adjusted_fit import steadied
from sfumato.models.calibration.fit import Brought, MeasuredTree, Scales
from sfumato.models.linear.fit import LinearFit, SolvedFit, SummedFit
from sfumato.models.tree.fit import TreeFit, fit_tree
from sfumato.publishing.prepare import what_is_released
from sfumato.queries import Queries, Ranges, Stack
from sfumato.releases.contents.content import Content
from sfumato.releases.contents.cube import Cube
from sfumato.releases.file.artifact import is_linked, is_series, read_artifact
from sfumato.releases.file.manifest import LEANS_ON, guarantee_of
from sfumato.releases.file.records import one_line
from sfumato.releases.parts import MOST_PARTS, Part, combined_receipt, cost_of_parts, parts_in
from sfumato.releases.release import Release, read_content

SURE = 1.0 - 1e-6  # that two releases of one table are not taken for those of two


@dataclass(frozen=True, eq=False)
class Source:
    """Release file to combine, with its parts: itself, or the files that it was combined from."""

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
    if any(source.release.schema.invariants for source in sources):
        raise ReleaseFileError(
            "releases with exact counts (invariants) are not combined: each promises something about tables that agree "
            "on its own counts alone; ask each for itself"
        )
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
    from sfumato.public.comparison import compare

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
    from sfumato.models.margins.fusing import fuse_fitted, fuse_unbiased
    from sfumato.models.margins.nested import NestedMargins, SummedMargins
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
    """Name of the content type, which releases to be combined share; None for one that cannot be combined."""
    from sfumato.answers.along_time import RunningCells
    from sfumato.models import MODULES
    from sfumato.models.margins.content import Margins
    from sfumato.models.margins.nested import NestedMargins, SummedMargins
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


# -- linear

CAN = (
    "those by cells, hierarchical, wavelet, matrix and laplace can be, with each other; those by residual, by margins "
    "or by sfumato each among themselves, with --disjoint not by sfumato; any two can be compared (`sfumato compare`)"
)
LINEAR = (NoisyCells, LinearFit, SolvedFit, SummedFit)


def fuse_cubes(cubes: Sequence[Cube], *, disjoint: bool) -> Cube:
    """Cube of all releases together, statistic by statistic."""
    by_statistic = zip(*(cube.fits for cube in cubes), strict=True)
    return Cube(cubes[0].schema, tuple(_sum(fits) if disjoint else _fuse(fits) for fits in by_statistic))


def _fuse(fits: Sequence[Fit]) -> Fit:
    """Least-squares fit to the measurements of one statistic in all releases of one table."""
    return LinearFit.of_answers(stacked([measured for fit in fits for measured in fit.measurements]))


def _sum(fits: Sequence[Fit]) -> Fit:
    """Sum of the fits of one statistic to disjoint tables."""
    return SummedFit.of_answers([measured for fit in fits for measured in fit.measurements])


def stacked(measurements: Sequence[Measurement]) -> Measurement:
    """Stack all measurements of one statistic to one, block after block."""
    blocks: list[Queries] = []
    for measured in measurements:
        blocks += measured.queries.blocks if type(measured.queries) is Stack else [measured.queries]
    return as_one(measurements, Stack(*blocks))


# -- trees

MEASURES = (
    "sums of measures by sfumato lean on one release's counts, and cannot be fused; combine releases of a schema "
    "without measures, or ones by hierarchical"
)


def fuse_trees(cubes: Sequence[Cube]) -> Cube:
    """Cube of all releases by `sfumato` of one table."""
    fits = [fit for cube in cubes for fit in cube.fits if isinstance(fit, MeasuredTree)]
    if any(len(cube.fits) > 1 for cube in cubes):
        raise ReleaseFileError(f"these releases cannot be combined: {MEASURES}")
    if len({type(_tree(fit).measurement.noises[0]) for fit in fits}) > 1:
        raise ReleaseFileError(
            "a pure release by sfumato and one with a delta cannot be fused, as a tree takes noise of one kind; "
            "combine those of either kind"
        )
    fits.sort(
        key=lambda fit: float(_tree(fit).measurement.design.sizes[0])
    )  # guaranteed intervals begin with the first
    return Cube(cubes[0].schema, (_fused_trees(fits),))


def _tree(fit: MeasuredTree) -> TreeFit:
    """Posterior of a tree inside its calibration."""
    if not isinstance(fit.inner, TreeFit):
        raise ReleaseFileError("a release by sfumato holds a tree, and this one does not")
    return fit.inner


def _fused_trees(fits: Sequence[MeasuredTree]) -> MeasuredTree:
    """Posterior from the counts of all releases, with the mean of their factors."""
    descents, tree = [_tree(fit).measurement for fit in fits], _tree(fits[0]).tree
    ranges = [one.queries for one in descents if isinstance(one.queries, Ranges)]
    lows, highs = (np.concatenate([getattr(each, end) for each in ranges]) for end in ("lows", "highs"))
    possible = fits[0].possible
    together = as_one(descents, Ranges(len(tree.order), lows, highs))
    fused = fit_tree(together, tree, descents=descents, possible=possible)
    brought = Brought(fused)
    along = [fit.steadied for fit in fits if fit.steadied is not None]
    if along:
        first = along[0].along
        if len(along) < len(fits) or any((one.along.axes, one.along.runs) != (first.axes, first.runs) for one in along):
            raise ReleaseFileError(
                "these releases counted different attributes beside their trees, and cannot be fused"
            )
        counts = [_repeated([one.measured[number] for one in along]) for number in range(len(first.runs))]
        brought = Brought(*steadied(fused, first, counts))
    weights = np.array([1.0 / float(one.design.sizes[0]) for one in descents])
    scales = mean_scales([fit.scales for fit in fits], weights / weights.sum())
    misfits = tuple(one for fit in fits for one in fit.misfits)
    return MeasuredTree.of_brought(brought, fits[0].domain, scales, misfits, possible)


def _repeated(measured: Sequence[Measurement]) -> Measurement:
    """Concatenate repeated measurements of the same counts, one block per release."""
    return as_one(measured, Stack(*(one.queries for one in measured)))


def mean_scales(every: Sequence[Scales], weights: Floats) -> Scales:
    """Root mean square of the releases' error factors, by weight, for the first one's kinds of query and groups.

    Groups of other releases may end elsewhere: each gives the factor of its group that has the middle of the first's.
    Errors: the largest, stored as an upper bound (`Scales`).
    """
    first = every[0]
    squares, errors = np.zeros(len(first.kinds)), np.zeros(len(first.kinds))
    for place, (kind, end) in enumerate(zip(first.kinds.tolist(), first.ends.tolist(), strict=True)):
        before = first.ends[place - 1] if place and first.kinds[place - 1] == kind else min(0.0, end)
        middle, weight = (before + end) / 2.0, 0.0
        for scales, share in zip(every, weights.tolist(), strict=True):
            own = np.flatnonzero(scales.kinds == kind)
            if len(own):
                at = own[min(int(np.searchsorted(scales.ends[own], middle)), len(own) - 1)]
                squares[place] += share * scales.factors[at] ** 2
                errors[place] = max(errors[place], abs(float(scales.errors[at])))
                weight += share
        squares[place] /= weight
    return Scales(first.kinds, first.ends, np.sqrt(squares), -errors)
