"""What a user states by --with: read by type, refused by name, and written down."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import pytest

from sfumato.errors import MechanismError
from sfumato.models import find_mechanism
from sfumato.models.base.mechanism import Mechanism, as_texts, read_options, stated_options


@dataclass(frozen=True)
class Options:
    target: str | None = None
    rounds: int = 3
    quantiles: tuple[Fraction, ...] = (Fraction(1, 2),)
    names: tuple[str, ...] = ()
    careful: bool = False
    model: Literal["ridge", "svm"] = "ridge"


PLAIN = Options()


def test_values_are_read_by_their_types_whether_texts_or_not():
    stated = {"target": "income", "rounds": "7", "quantiles": "0.1,9/10", "names": "a, b", "careful": "true"}
    found = read_options("toy", Options, stated)
    assert found == Options("income", 7, (Fraction(1, 10), Fraction(9, 10)), ("a", "b"), True)
    assert read_options("toy", Options, {"quantiles": [0.25], "rounds": 2}).quantiles == (Fraction(1, 4),)
    assert as_texts(found) == {
        "target": "income",
        "rounds": "7",
        "quantiles": "1/10,9/10",
        "names": "a,b",
        "careful": "true",
        "model": "ridge",
    }
    assert read_options("toy", Options, as_texts(found)) == found


@pytest.mark.parametrize(
    ("stated", "words"),
    [
        ({"taget": "x"}, "toy has no option 'taget'; there are target, rounds, quantiles, names, careful, model"),
        ({"rounds": "many"}, "toy's option rounds cannot be 'many'; it takes a whole number"),
        ({"quantiles": "0.1,x"}, "it takes a list of these, with commas: a number"),
        ({"quantiles": "1/0"}, "it takes a list of these, with commas: a number"),
        ({"careful": "perhaps"}, "it takes true or false"),
        ({"model": "forest"}, "it takes one of ridge, svm"),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_line(stated, words):
    with pytest.raises(MechanismError, match="toy") as refused:
        read_options("toy", Options, stated)
    assert words in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.parametrize(("given", "words"), [(["a"], "name=value"), (["=3"], "name=value"), (["a=1", "a=2"], "twice")])
def test_options_are_stated_by_name_and_once(given, words):
    with pytest.raises(MechanismError, match=words):
        stated_options(given)


def test_a_mechanism_without_options_takes_none():
    with pytest.raises(MechanismError, match="cells has no option 'rounds'; it takes none"):
        find_mechanism("cells").with_options({"rounds": 3})
    assert find_mechanism("cells").with_options({}) is find_mechanism("cells")


def test_options_reach_the_run_and_the_refusal():
    def run(curator, schema, budget, workload=None, *, options=PLAIN):
        return options

    def refuses(schema, workload, options=PLAIN):
        return None if options.target else "say --with target=NAME"

    toy = Mechanism("toy", "a toy", run, refuses=refuses, options=Options)
    made = toy.with_options({"target": "income"})
    assert made.run(None, None, None).target == "income" and made.chosen["target"] == "income"
    assert toy.refuses(None, None) and made.refuses(None, None) is None
