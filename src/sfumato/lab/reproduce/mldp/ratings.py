"""Figure 2b: similarities of users by their ratings, with one rating as the unit."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from importlib.util import find_spec

import numpy as np

from sfumato.arrays import Floats
from sfumato.kernel.budget import Budget
from sfumato.kernel.given_counts import over_counts
from sfumato.kernel.sampling.entropy import Entropy
from sfumato.lab.papers.mldp.content import profiles_of
from sfumato.lab.papers.mldp.measure import Options, mldp
from sfumato.lab.papers.mldp.training import MODELS, OWN
from sfumato.lab.reproduce.exhibits import Exhibit, digits
from sfumato.lab.reproduce.synthetic import Counts, even_numbers, sampled
from sfumato.schema import Schema

USERS, KINDS, RATINGS = 30, 8, 200  # ratings of a user, on average


def ratings() -> Counts:
    """Ratings of users by kind of film; everybody likes a few kinds most."""
    taste = even_numbers(USERS * KINDS, seed=21).reshape(USERS, KINDS) ** 4 + 0.01
    return sampled(taste / taste.sum(axis=1, keepdims=True), USERS * RATINGS, seed=22)


def cosines(profiles: Floats) -> Floats:
    """The similarity of every two users, each pair once."""
    unit = profiles / np.maximum(np.sqrt((profiles**2).sum(axis=1, keepdims=True)), 1e-9)
    return np.asarray((unit @ unit.T)[np.triu_indices(len(unit), 1)])


def figure_2b(entropy: Entropy, *, quick: bool) -> Exhibit:
    """Every model's error on similarities, at epsilon 1."""
    counts, runs, rows = ratings(), 1 if quick else 10, []
    true = cosines(counts.astype(np.float64))
    for name in (MODELS if find_spec("sklearn") is not None else OWN)[: 2 if quick else None]:
        errors = [float(np.abs(cosines(_released(counts, name, entropy)) - true).mean()) for _ in range(runs)]
        rows.append((name, digits(float(np.mean(errors)))))
    middle = float(np.abs(true - np.median(true)).mean())
    return Exhibit(
        "Figure 2b",
        f"Mean absolute error of the similarity of {USERS} users by {KINDS} kinds of films, epsilon 1 for one rating",
        "The paper trains on noisy similarities themselves and has support vectors ahead. Which of two users is asked "
        "about is all that a query says, so there is nothing to generalise from; here a model learns counts by user "
        "and kind, which has one sensitivity for all pairs, and similarities follow. One rating is protected, not a "
        f"user. The same guess for every pair is off by {digits(middle)}.",
        ("model", "ours"),
        tuple(rows),
    )


def _released(counts: Counts, name: str, entropy: Entropy) -> Floats:
    budget, schema = Budget.pure(Fraction(1)), _schema()
    curator = over_counts(schema, counts, budget, entropy)
    content = mldp(curator, schema, budget, options=Options(queries="similarity", model=name, between="user"))
    return profiles_of(content, "user")


@cache
def _schema() -> Schema:
    values = {"user": [f"user {n}" for n in range(USERS)], "kind": [f"kind {n}" for n in range(KINDS)]}
    attributes = {name: {"type": "category", "values": each} for name, each in values.items()}
    return Schema.from_dict({"dataset": "ratings", "privacy_unit": "row", "attributes": attributes})
