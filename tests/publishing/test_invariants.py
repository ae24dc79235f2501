"""Releases with exact counts: refused unless they are meant, told in every place, and right to the last row.

With the testing generator, whose noise is the same every time: no run fails by chance.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import MechanismError, PrivacyError, ReleaseFileError, RepeatedRelease, SchemaError
from sfumato.kernel.budget import Budget, Cost
from sfumato.kernel.ledger.ledger import Ledger
from sfumato.kernel.opening import Terms, open_curator
from sfumato.kernel.reading.table import open_table
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.models import MECHANISMS
from sfumato.planner.marginal_errors import errors_by_kind
from sfumato.public.certificate.record import certificate
from sfumato.public.combination import combine
from sfumato.public.report.report import report
from sfumato.publishing.prepare import Request, already_there
from sfumato.queries import default_workload
from sfumato.releases.file.artifact import read_artifact
from sfumato.releases.file.consistency import check_manifest
from sfumato.releases.file.manifest import guarantee_of
from sfumato.releases.group_privacy import group_privacy
from sfumato.schema import Schema

ROWS = 4000
DRAWN = np.random.default_rng(12)
REGION, SEX, AGE = DRAWN.choice(3, ROWS, p=[0.2, 0.3, 0.5]), DRAWN.choice(2, ROWS), DRAWN.choice(8, ROWS)
TABLE = pa.table({"region": np.array(["a", "b", "c"])[REGION], "sex": np.array(["F", "M"])[SEX], "age": AGE})
BOTH = np.bincount(2 * REGION + SEX, minlength=6).reshape(3, 2)
WHOLE = {
    "dataset": "t",
    "privacy_unit": "row",
    "budget": {"epsilon": 99},
    "attributes": {
        "region": {"type": "category", "values": ["a", "b", "c"]},
        "sex": {"type": "category", "values": ["F", "M"]},
        "age": {"type": "integer", "lower": 0, "upper": 7},
    },
}
NAMED = [[], "region", ["sex", "region"]]


def schema_with(*invariants: object) -> Schema:
    return Schema(**WHOLE, invariants=list(invariants) or None)


def made(folder: Path, mechanism: str = "cells", *invariants: object, **more: object) -> sf.Release:
    how = {"ledger": folder / "ledger", "entropy": TestingEntropy(1), "even_though_exact": True, **more}
    return sf.release(TABLE, schema_with(*(invariants or NAMED)), "0.5", mechanism=mechanism, **how)


def published(folder: Path, *how: object, **more: object) -> sf.Release:
    """A release as it is read from its file."""
    return sf.open(made(folder, *how, **more).save(folder / "r.sfumato"), allow_not_private=True)


def test_without_the_word_nothing_is_read_or_reserved(tmp_path, monkeypatch):
    monkeypatch.setattr("sfumato.kernel.reading.table.Table.read", lambda *_, **__: pytest.fail("a table was read"))
    with pytest.raises(PrivacyError) as caught:
        made(tmp_path, even_though_exact=False)
    said = str(caught.value)
    assert "exact counts of all rows, rows by region, and rows by sex and region, which nothing protects" in said
    assert "--even-though-exact (even_though_exact=True)" in said and "\n" not in said
    assert not (tmp_path / "ledger").exists()


def test_the_kernel_refuses_by_itself_too(tmp_path):
    ledger = Ledger(tmp_path / "ledger")
    for schema, exact in ((schema_with([]), False), (schema_with(), True)):
        with pytest.raises(PrivacyError, match="hands out exact counts"):
            Terms(schema, Cost.stated("1"), "cells", exact=exact)
    assert not ledger.path.exists()


def test_the_word_without_exact_counts_is_refused(tmp_path):
    with pytest.raises(SchemaError, match="is for a schema with invariants"):
        sf.release(TABLE, schema_with(), "0.5", ledger=tmp_path / "ledger", even_though_exact=True)
    assert not (tmp_path / "ledger").exists()


def test_the_entry_names_them_before_a_row_is_read(tmp_path):
    ledger, seen = Ledger(tmp_path / "ledger"), {}
    steps = lambda step: seen.update({step: [one.exact for one in ledger.entries("t")]})  # noqa: E731
    made(tmp_path, step=steps)
    assert seen["reserve"] == [] and seen["read"] == [((), ("region",), ("sex", "region"))]


def test_the_verb_hands_out_what_is_named_and_nothing_else(tmp_path):
    terms = Terms(schema_with([], ["sex", "region"]), Cost.stated("1"), "cells", exact=True)
    how = {"ledger": Ledger(tmp_path / "ledger"), "entropy": TestingEntropy(1), "step": lambda _: None}
    curator = open_curator(open_table(TABLE), terms, nonce="0" * 32, **how).curator
    assert curator.disclose(()).tolist() == [ROWS]
    assert curator.disclose(["sex", "region"]).tolist() == BOTH.reshape(-1).tolist()
    curator.disclose(())[0] = 7
    assert curator.disclose(()).tolist() == [ROWS]  # what is handed out is a copy
    for names in (["region"], ["region", "sex"], ["age"], ["region", "sex", "age"], "region", ["income"], [[]], [()]):
        with pytest.raises(PrivacyError, match="no exact counts are handed out but"):
            curator.disclose(names)
    for below in (curator.margin(["region"]), curator.subset(1, 1), curator.recode({})):
        with pytest.raises(PrivacyError, match="no exact counts are handed out but"):
            below.disclose(())


def fits(name: str) -> bool:
    return MECHANISMS[name].why_not(schema_with(*NAMED)) is None and name != "auto"


@pytest.mark.parametrize("mechanism", [*filter(fits, MECHANISMS), "margins"])
def test_answers_agree_with_them_without_an_error(tmp_path, mechanism):
    named = NAMED if mechanism != "margins" else [[], "sex", "region"]
    release = published(tmp_path, mechanism, *named)
    (total,) = release.query("SELECT COUNT(*) AS n FROM t").rows[0]
    assert (total.value, total.low, total.high) == pytest.approx((ROWS, ROWS, ROWS), abs=1e-3)
    for name, cell in release.query("SELECT region, COUNT(*) AS n FROM t GROUP BY region").rows:
        exact = BOTH.sum(axis=1)["abc".index(name)]
        assert (cell.value, cell.low, cell.high, cell.stderr) == pytest.approx((exact, exact, exact, 0), abs=1e-3)
    if mechanism != "margins":
        for name, sex, cell in release.query("SELECT region, sex, COUNT(*) AS n FROM t GROUP BY region, sex").rows:
            assert cell.value == pytest.approx(BOTH["abc".index(name), "FM".index(sex)], abs=1e-3)


def test_mechanisms_that_cannot_agree_say_so_before_anything_is_reserved(tmp_path):
    with pytest.raises(MechanismError, match="margins cannot agree with `invariants` by several attributes together"):
        made(tmp_path, "margins")
    with pytest.raises(MechanismError, match="cannot agree with `invariants`"):
        made(tmp_path, "sparse-cells", [])
    assert not (tmp_path / "ledger").exists()


def test_the_promise_begins_with_them_everywhere(tmp_path):
    release = published(tmp_path, "cells", entropy=None)
    statement = release.guarantee.statement
    words = "EXACT COUNTS of all rows, rows by region, and rows by sex and region"
    assert statement.startswith(words)
    assert "protected by nothing" in statement and "2.72 times" in statement  # exp(2 * 0.5): a row replaced by another
    assert statement.endswith("if any one row had been replaced by another one with the same region and sex.")
    assert "family left out" not in str(release.describe())
    found = certificate(tmp_path / "r.sfumato")
    assert str(found).splitlines()[2].startswith(words)
    assert found.to_dict()["guarantee"]["exact_counts"] == [[], ["region"], ["sex", "region"]]
    unprotected = found.registry()["deployment"]["dp_variant"]["unprotected_quantities"]
    assert unprotected.startswith("Exact counts of all rows, rows by region, and rows by sex and region")
    page = str(report(tmp_path / "r.sfumato"))
    assert words in page and "Before they see this file" not in page


def test_a_file_that_promises_otherwise_is_refused(tmp_path):
    published(tmp_path, "cells")
    manifest = read_artifact(tmp_path / "r.sfumato").manifest
    check_manifest(manifest)
    for exact in ((), ((),), (("region",), ())):
        told = replace(manifest, guarantee=guarantee_of(manifest.guarantee.epsilon, "any one row", exact=exact))
        with pytest.raises(ReleaseFileError, match="words of its guarantee contradict"):
            check_manifest(told)
    uncounted = manifest.schema | {"invariants": NAMED}
    with pytest.raises(ReleaseFileError, match="names exact counts and lacks them"):
        check_manifest(replace(manifest, schema=uncounted))


def test_a_promise_from_rho_is_that_of_two_rows(tmp_path):
    release = made(tmp_path, "hierarchical", [], delta="1e-6")
    promised = release.guarantee
    (two,) = group_privacy(promised.epsilon, delta=promised.delta, rho=promised.rho, people=[2])
    assert promised.rho is not None and f"{two.factor:.3g} times" in promised.statement


def test_a_schema_of_a_release_is_not_released_again(tmp_path):
    release = made(tmp_path)
    with pytest.raises(SchemaError, match="one of a release, with its exact counts"):
        sf.release(TABLE, release.schema, "0.5", ledger=tmp_path / "ledger", even_though_exact=True)


def test_a_repetition_is_known_and_a_file_that_is_there_is_the_same(tmp_path):
    published(tmp_path)
    with pytest.raises(RepeatedRelease):
        made(tmp_path)
    made(tmp_path, again=True, entropy=None).save(tmp_path / "private.sfumato")
    request = Request(schema_with(*NAMED), "0.5", mechanism="cells", even_though_exact=True)
    assert already_there(tmp_path / "private.sfumato", request) is not None
    with pytest.raises(ReleaseFileError, match="with another schema"):
        already_there(tmp_path / "private.sfumato", Request(schema_with([]), "0.5", mechanism="cells"))


def test_releases_with_them_are_not_combined(tmp_path):
    for number in (1, 2):
        made(tmp_path, again=True, entropy=None).save(tmp_path / f"{number}.sfumato")
    with pytest.raises(ReleaseFileError, match=r"exact counts .* are not combined"):
        combine(tmp_path / "1.sfumato", tmp_path / "2.sfumato")


@pytest.mark.parametrize("named", [[[], "region"], None])
def test_expected_errors_after_a_release_know_what_is_exact(tmp_path, named):
    schema = schema_with(*named) if named else Schema(**WHOLE, facts=[{"count": ROWS, "source": "register"}])
    budget, more = Budget.pure(Fraction(1, 2)), {"even_though_exact": named is not None, "entropy": TestingEntropy(1)}
    release = sf.release(TABLE, schema, "0.5", mechanism="matrix", ledger=tmp_path / "ledger", **more)
    mechanism, workload = MECHANISMS["matrix"], default_workload(schema.domain)
    planned = errors_by_kind(schema_with(), mechanism, workload, budget)
    errors = errors_by_kind(release.schema, mechanism, workload, budget, release.content)
    assert errors["all rows"] < 1e-3 < planned["all rows"]
    assert 0.0 < errors["two attributes"] < planned["two attributes"]
