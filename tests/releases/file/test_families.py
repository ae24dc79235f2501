"""Every family of fits keeps its promise to files: what is written is read back, and nothing more or less is taken."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from fitted import KINDS, SCHEMA, SIZE, example, release_with

import sfumato as sf
from sfumato.answers.fit import Arrays, ByModel, Errors, Fit, FitReader, OfOneMeasurement
from sfumato.answers.guaranteed_sums import one_by_one
from sfumato.answers.noise_sum import Find
from sfumato.arrays import Codes, Floats
from sfumato.domain import Domain
from sfumato.errors import QueryError, ReleaseFileError
from sfumato.measurement import Measurement
from sfumato.models.linear.fit import LinearFit
from sfumato.releases.file.fit_records import Arrays as FileArrays
from sfumato.releases.file.fit_records import Reading, WrittenFits, write_fits
from sfumato.releases.file.records import FAMILIES, FitRecord


def read_back(written: WrittenFits, record: FitRecord, estimate: Floats) -> Fit:
    reading = Reading(written.queries, FileArrays(written.arrays.all), SCHEMA.domain)
    fit = reading.fit(record, estimate)
    reading.refuse_leftovers()
    return fit


def test_the_examples_are_of_every_family():
    fits = [example(kind) for kind in KINDS]
    assert {fit.family for fit in fits} == set(FAMILIES)
    assert all(FAMILIES[family].family == family and FAMILIES[family].room >= 1 for family in FAMILIES)
    assert all(type(fit) is FAMILIES[fit.family] for fit in fits)


@pytest.mark.parametrize("kind", KINDS)
def test_a_fit_makes_a_round_trip_and_answers_the_same(kind):
    before = example(kind)
    written = write_fits((before,), SCHEMA.domain)
    (record,) = written.fits
    after = read_back(written, record, before.estimate)
    assert type(after) is type(before) and after.of == before.of
    assert np.array_equal(after.estimate, before.estimate)
    columns = np.column_stack([np.ones(SIZE), np.eye(SIZE)[3], np.arange(SIZE) / 8.0])
    for part in ("weights", "model", "unknown"):
        assert np.array_equal(getattr(after.errors(columns), part), getattr(before.errors(columns), part))
    assert [repr(one.queries) for one in after.measurements] == [repr(one.queries) for one in before.measurements]


@pytest.mark.parametrize("kind", KINDS)
def test_a_fit_takes_no_array_more_or_less(kind):
    fit = example(kind)
    written = write_fits((fit,), SCHEMA.domain)
    (record,) = written.fits
    forgeries = [{key: place for key, place in record.arrays.items() if key != name} for name in record.arrays]
    more, parts = written.arrays.keep(np.zeros(1)), written.arrays.keep(np.zeros(1))
    forgeries += [record.arrays | {"more": more}, record.arrays | {"more": more, "more_parts": parts}]
    for name in record.arrays:
        if f"{name}_parts" not in record.arrays and not name.endswith("_parts"):  # whole numbers with parts
            zeros = written.arrays.keep(np.zeros(len(written.arrays.all[record.arrays[name]])))
            forgeries.append(record.arrays | {f"{name}_parts": zeros})
    for arrays in forgeries:
        with pytest.raises(ReleaseFileError) as caught:
            read_back(written, replace(record, arrays=arrays), fit.estimate)
        assert str(caught.value).isprintable()


@pytest.mark.parametrize("kind", KINDS)
def test_a_fit_takes_no_measurement_more_or_less(kind):
    """One that no estimate leans on may be left out of a fit, but then its queries have no use in the file."""
    fit = example(kind)
    written = write_fits((fit, example("even")), SCHEMA.domain)
    record, other = written.fits
    wrong = [record.measurements[:place] + record.measurements[place + 1 :] for place in range(len(fit.measurements))]
    for measurements in [*wrong, [*record.measurements, *other.measurements[:1] * 2]]:
        with pytest.raises(ReleaseFileError) as caught:
            read_back(written, replace(record, measurements=measurements), fit.estimate)
        assert str(caught.value).isprintable()


@pytest.mark.parametrize("kind", KINDS)
def test_an_estimate_of_another_length_or_from_elsewhere_is_refused(kind):
    fit = example(kind)
    written = write_fits((fit,), SCHEMA.domain)
    (record,) = written.fits
    wrong = [fit.estimate[:-1], fit.estimate[:1]]
    nowhere_else = "linear", "summed", "leaves", "measured", "steadied"
    if kind not in nowhere_else and not {"along", "blocks"} & {*kind.split()}:
        wrong.append(fit.estimate + 1.0)
    for estimate in wrong:
        with pytest.raises(ReleaseFileError):
            read_back(written, record, estimate)


@dataclass(frozen=True, eq=False)
class Doubled(ByModel, OfOneMeasurement):
    """A toy: noisy cells, each counted as often as its weight says, and a doubt beside them."""

    family = "doubled"
    room = 3

    measurement: Measurement
    weights: Codes
    doubt: Floats

    @property
    def estimate(self) -> Floats:
        return self.measurement.answers * self.weights.astype(np.float64)

    def errors(self, columns: Floats) -> Errors:
        weights, sums = self.weights[:, None] * columns, columns.shape[1]
        model = np.diag(((self.doubt[:, None] * columns) ** 2).sum(axis=0))
        return Errors(self.measurement.design, weights, model, np.zeros(sums, dtype=np.bool_))

    def guaranteed(self, domain: Domain, rows: Find | None = None) -> Find:
        cells = one_by_one(self.measurement)
        return lambda low, high, tail: cells(low * self.weights, high * self.weights, tail)

    def record(self, domain: Domain) -> Arrays:
        return {"weights": self.weights, "doubt": self.doubt}

    @classmethod
    def read(cls, file: FitReader) -> Doubled:
        weights, doubt = file.whole("weights"), file.numbers("doubt")
        if not len(weights) == len(doubt) == file.domain.size or weights.min() < 0:
            raise QueryError("every cell has a weight of 0 or more, and a doubt")
        return cls(file.measurement(file.domain.size), weights, doubt)


def doubled() -> Doubled:
    linear = example("linear")
    assert isinstance(linear, LinearFit)
    return Doubled(linear.measurement, np.arange(SIZE) % 3, np.arange(SIZE) / 8.0)


SQL = "SELECT sex, COUNT(*) AS n, SUM(charge) AS s FROM census WHERE age < 4 GROUP BY sex"


def test_a_new_fit_is_one_class_and_one_line(monkeypatch, tmp_path):
    """It is written to a release file, read back, answers the same, and its contradictions are refused."""
    release = release_with(doubled())
    with pytest.raises(ReleaseFileError, match="Doubled"):
        release.save(tmp_path / "r.sfumato")
    with monkeypatch.context() as table:
        table.setitem(FAMILIES, Doubled.family, Doubled)
        path = release.save(tmp_path / "r.sfumato")
        opened = sf.open(path, allow_not_private=True)
        assert type(opened.content.fits[0]) is Doubled
        for kind in ("typical", "guaranteed"):
            assert opened.query(SQL, interval=kind).records() == release.query(SQL, interval=kind).records()
        odd = release_with(replace(doubled(), weights=-np.ones(SIZE, dtype=np.int64))).save(tmp_path / "odd.sfumato")
        with pytest.raises(ReleaseFileError, match="contradicts itself: every cell has a weight of 0 or more"):
            sf.open(odd, allow_not_private=True)
    with pytest.raises(ReleaseFileError, match="does not know"):  # a file of a later version, say
        sf.open(path, allow_not_private=True)
