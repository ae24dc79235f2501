"""The noise of earlier parts: what later parts take back, and what is refused when it is lost, damaged or old."""

from __future__ import annotations

import secrets
import shutil
import stat
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from ledgers import raw, refusal

from sfumato.errors import BudgetError, LedgerError, NewLedgerWarning, PrivacyError, QueryError
from sfumato.kernel.budget import Budget, Cost
from sfumato.kernel.given_counts import over_counts
from sfumato.kernel.ledger.ledger import Ledger
from sfumato.kernel.ledger.past_noise import LARGEST, PastNoise
from sfumato.kernel.opening import Terms, open_curator, rehearse, unit_of
from sfumato.kernel.reading.table import open_table
from sfumato.kernel.sampling.entropy import SystemEntropy, TestingEntropy
from sfumato.kernel.verbs.measuring import running_noises
from sfumato.lab.audit.attacks.exact_values import STORIES, running_loss
from sfumato.queries.ranges import GRID, Running, on_grid, worst_square
from sfumato.schema import Schema

pytestmark = pytest.mark.filterwarnings(f"ignore::{NewLedgerWarning.__module__}.{NewLedgerWarning.__name__}")


def schema(periods=4, **more):
    stated = {
        "dataset": "visits",
        "privacy_unit": {"column": "who", "contributions": 2},
        "budget": {"epsilon": 1000},
        "attributes": {"a": {"type": "category", "values": ["x", "y"]}},
        "series": {"period": "month", "unit": "person in a month", "periods": periods, "running": True},
    }
    return Schema(**{**stated, **more})


STATED = schema()
TABLE = pa.table({"who": ["ann", "bob", "cid"], "a": ["x", "y", "y"]})
COUNTS = np.array([1, 2])


def opened(ledger, period, stated=STATED, step=lambda _: None, rho="0.5"):
    terms = Terms(stated, Cost.stated(None, None, rho), "cells", period=period)
    nonce = secrets.token_hex(16)
    return open_curator(open_table(TABLE), terms, ledger=ledger, entropy=SystemEntropy(), step=step, nonce=nonce)


def part(ledger, period, stated=STATED, rho="0.5"):
    """Errors of a part, in GRID-ths of a row, and the weights of the noises in them."""
    curator = opened(ledger, period, stated, rho=rho).curator
    (measured,), trail = curator.measure_running(Budget.zcdp(rho), [1])
    return measured.answers - GRID * COUNTS, trail


@pytest.fixture
def ledger(tmp_path):
    return Ledger(tmp_path / "ledger.sqlite")


def _past(ledger):
    return PastNoise(ledger, "visits", unit_of(STATED))


def _played(ledger, periods, fresh, planned=8):
    """Errors and trails of parts whose fresh noise is given."""
    stated, found = schema(planned), []
    for period, drawn in zip(periods, fresh, strict=True):
        terms = Terms(stated, Cost.stated(None, None, "0.5"), "cells", period=period)
        receipt = ledger.reserve(terms.wanted, secrets.token_hex(16))
        noise = np.array(drawn, dtype=np.int64)
        found.append(_past(ledger).errors(receipt, period, "design", planned, lambda noise=noise: noise))
    return found


def test_errors_are_fresh_noise_through_the_inverse_of_the_matrix(ledger):
    planned, random = 8, np.random.default_rng(1)
    fresh = random.integers(-(10**6), 10**6, (planned, 5))
    found = _played(ledger, [f"2026-0{1 + m}" for m in range(planned)], fresh, planned)
    row = np.array(on_grid(planned)) / GRID
    matrix = np.array([[row[i - j] if i >= j else 0.0 for j in range(planned)] for i in range(planned)])
    back = np.linalg.inv(matrix)
    errors = np.stack([each for _, each in found])
    assert np.abs(errors - back @ fresh).max() < 2.0  # each is rounded once, by half a step at most
    for number, (trail, _) in enumerate(found):
        assert trail.run == found[0][0].run
        assert np.allclose(trail.weights, back[number, : number + 1], atol=1e-12)
    assert np.sqrt((back**2).sum(axis=1)) * Running(planned).sensitivity == pytest.approx(Running(planned).single())


def test_of_a_corrected_period_only_the_newest_part_is_taken_back(ledger):
    fresh = [[1000 * 2**20], [0], [0], [0]]
    periods = ["2026-01", "2026-02", "2026-01", "2026-03"]
    weights = [trail.weights for trail, _ in _played(ledger, periods, fresh)]
    c = np.array(on_grid(8)) / GRID
    assert weights[2].tolist() == pytest.approx([c[1] * c[1], -c[1], 1.0])  # the second part alone, and what is in it
    expected = -c[1] * np.append(weights[2], 0) - c[2] * np.append(weights[1], [0, 0])
    assert weights[3].tolist() == pytest.approx((expected + np.eye(4)[3]).tolist())


def test_another_run_begins_when_planned_parts_are_used_up_or_noise_is_another(ledger):
    trails = [part(ledger, f"2026-0{month}")[1] for month in range(1, 6)]
    assert [len(trail.weights) for trail in trails] == [1, 2, 3, 4, 1]
    assert len({trail.run for trail in trails}) == 2
    other = part(ledger, "2026-06", rho="0.25")[1]
    assert len(other.weights) == 1 and other.run not in {trail.run for trail in trails}
    assert part(ledger, "2026-07")[1].run == trails[-1].run  # of this noise the last run goes on


def test_a_part_that_came_to_nothing_keeps_its_number(ledger):
    opened(ledger, "2026-01")  # killed before anything was drawn
    assert len(part(ledger, "2026-01")[1].weights) == 1
    curator = opened(ledger, "2026-02").curator
    curator.measure_running(Budget.zcdp("0.5"), [1])  # killed before anything was published
    assert len(part(ledger, "2026-02")[1].weights) == 3


def test_errors_are_on_disk_and_in_the_ledger_before_a_count_is_used(ledger, monkeypatch):
    curator = opened(ledger, "2026-01").curator
    seen = []

    def looked(of):
        (entry,) = ledger.entries("visits")
        rows = raw(_past(ledger).path, "SELECT seal FROM parts")
        seen.append(rows == [[(entry.registered,)]])
        return COUNTS

    monkeypatch.setattr(curator, "_dense", looked)
    curator.measure_running(Budget.zcdp("0.5"), [1])
    assert seen == [True]


def test_the_file_is_private(ledger):
    part(ledger, "2026-01")
    assert stat.S_IMODE(_past(ledger).path.stat().st_mode) == 0o600


def _refused(ledger, *words):
    """A further part is refused in one line, in a dry run too, and nothing is reserved."""
    before = len(ledger.entries("visits")) if ledger.path.exists() else 0
    terms = Terms(STATED, Cost.stated(None, None, "0.5"), "cells", period="2026-09")
    for attempt in (lambda: opened(ledger, "2026-09"), lambda: rehearse(open_table(TABLE), terms, ledger=ledger)):
        said = refusal(LedgerError, attempt)
        assert all(word in said for word in (*words, "restore")), said
    assert len(ledger.entries("visits")) == before


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE parts SET noise = zeroblob(16) WHERE number = 1",
        "UPDATE parts SET trail = zeroblob(8) WHERE number = 1",
        "UPDATE parts SET period = '2026-07' WHERE number = 1",
        "UPDATE parts SET place = 3 WHERE number = 2",
        "UPDATE parts SET run = 'other' WHERE number = 2",
        "UPDATE parts SET design = 'other' WHERE number = 2",
        "DELETE FROM parts WHERE number = 1",
        "DELETE FROM meta",
        "DROP TABLE parts",
        "PRAGMA application_id = 7",
    ],
)
def test_damaged_past_noise_refuses_and_nothing_is_spent(ledger, statement):
    for period in ("2026-01", "2026-02"):
        part(ledger, period)
    raw(_past(ledger).path, statement)
    _refused(ledger, "noise")


def test_lost_old_and_foreign_past_noise_refuses(ledger, tmp_path):
    part(ledger, "2026-01")
    path = _past(ledger).path
    old = tmp_path / "old"
    shutil.copy(path, old)
    part(ledger, "2026-02")
    new = path.read_bytes()
    shutil.copy(old, path)
    _refused(ledger, "old copy")
    path.unlink()
    _refused(ledger, "is missing")
    other = Ledger(tmp_path / "other.sqlite")
    part(other, "2026-01")
    shutil.copy(_past(other).path, path)
    _refused(ledger, "another ledger")
    path.write_bytes(new)
    assert len(part(ledger, "2026-03")[1].weights) == 3


def test_a_file_that_is_newer_than_the_ledger_was_left_by_a_kill_and_goes_on(ledger, monkeypatch):
    part(ledger, "2026-01")
    monkeypatch.setattr(Ledger, "registered", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        part(ledger, "2026-02")
    monkeypatch.undo()
    assert len(part(ledger, "2026-02")[1].weights) == 3


def test_noise_beyond_64_bits_stops_the_part_whatever_is_in_the_table(ledger):
    with pytest.raises(PrivacyError, match="ask again"):
        _played(ledger, ["2026-01"], [[LARGEST + 1]])
    assert raw(_past(ledger).path, "SELECT COUNT(*) FROM parts") == [[(0,)]]


def test_the_verb_needs_the_whole_table_of_such_a_series_and_gaussian_noise(ledger):
    plain = over_counts(STATED, COUNTS, Budget.zcdp("0.5"), TestingEntropy(1))
    with pytest.raises(QueryError, match="running: true"):
        plain.measure_running(Budget.zcdp("0.5"), [1])
    curator = opened(ledger, "2026-01").curator
    with pytest.raises(QueryError, match="running: true"):
        curator.margin(["a"]).measure_running(Budget.zcdp("0.5"), [1])
    with pytest.raises(PrivacyError, match="ask for less"):
        curator.measure_running(Budget.zcdp("0.6"), [1])
    assert not _past(ledger).path.exists()
    pure = over_counts(STATED, COUNTS, Budget.pure(1), TestingEntropy(1))
    with pytest.raises(QueryError, match="give a delta"):
        running_noises({"count": 1}, {"count": Budget.pure(1)}, 4, pure.charge)


def test_noise_and_charge_are_those_of_the_longest_column():
    charge = over_counts(STATED, COUNTS, Budget.zcdp("0.5"), TestingEntropy(1)).charge
    noises, (load,) = running_noises({"count": 1}, {"count": Budget.zcdp("0.5")}, 60, charge)
    assert noises["count"].parameter == 2**2 * worst_square(60)  # two rows of a person; rho of a half
    assert load.amounts * load.unit * 2**2 == Fraction(1, 2)


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name + str(story.old_copy or ""))
def test_the_exact_loss_of_a_person_is_what_is_charged_at_most(story):
    found = running_loss(story)
    if story.old_copy is not None:
        assert found is None  # refused
        return
    loss, charged = found
    assert loss <= float(charged) + 1e-9
    if story.periods[0] == story.inside[0] and len(set(story.periods)) == len(story.periods):
        assert loss == pytest.approx(float(charged), rel=1e-12)  # the first columns: nothing is wasted


def test_a_further_part_of_a_period_has_noise_of_its_own_where_a_person_is_in_several(ledger):
    stated = schema(4, series={"period": "month", "unit": "person in at most 2 months", "periods": 4, "running": True})
    trails = [part(ledger, f"2026-0{month}", stated)[1] for month in (1, 2, 1, 3, 2, 4)]
    assert [len(trail.weights) for trail in trails] == [1, 2, 1, 3, 1, 4]
    assert len({trail.run for trail in trails}) == 3 and trails[5].run == trails[0].run


def test_register_and_noise_are_both_known_to_the_ledger_and_both_needed(ledger):
    stated = schema(4, series={"period": "month", "unit": "person in at most 2 months", "periods": 4, "running": True})
    opened(ledger, "2026-01", stated)  # killed between the two: nobody was counted
    part(ledger, "2026-02", stated)
    first, second = ledger.entries("visits")
    assert len(first.marks) == 1 and len(second.marks) == 2
    for lost in ("register", "noise"):
        path = ledger.path.with_name(f"{ledger.path.name}.{lost}")
        kept = path.read_bytes()
        path.unlink()
        with pytest.raises(LedgerError, match=f"{lost}.* is missing"):
            opened(ledger, "2026-03", stated)
        path.write_bytes(kept)
    assert len(ledger.entries("visits")) == 2
    with pytest.raises(LedgerError, match="nobody yet"):
        receipt = ledger.reserve(
            Terms(stated, Cost.stated(None, None, "0.5"), "cells", period="2026-03").wanted, secrets.token_hex(16)
        )
        ledger.registered(receipt, "0" * 64, 1)


def test_epsilons_add_up_only_where_they_are_larger_than_delta_alone_gives():
    with pytest.raises(BudgetError, match="smaller delta"):
        Terms(STATED, Cost.stated("0.0001", "0.1"), "cells", period="2026-01")


def test_a_ledger_error_names_the_file(ledger):
    part(ledger, "2026-01")
    _past(ledger).path.write_bytes(b"no database")
    with pytest.raises(LedgerError, match=r"ledger\.sqlite\.noise"):
        opened(ledger, "2026-02")
