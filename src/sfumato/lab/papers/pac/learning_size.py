"""How many rows it takes to learn a rule privately, in every direction: rows, error, doubt, rules, epsilon.

Survey, theorem 7, says n = O(ln |H| + ln(1 / beta)) max(1 / (epsilon alpha), 1 / alpha^2), and leaves the constants
open. Here they are, for the score of `pac`, which moves one way. With probability 1 - beta / 2 the rule that is chosen
gets at most ln(2 |H| / beta) / epsilon rows of the table more wrong than the best rule; with probability 1 - beta / 2
the share that every rule gets wrong in the table is within t = sqrt(ln(4 |H| / beta) / (2 n)) of the share in the
population (Hoeffding's inequality for each). Both together, in the population:

    error of the chosen rule  <=  that of the best + alpha,     alpha = ln(2 |H| / beta) / (epsilon n) + 2 t.

epsilon: what is spent on the choice, divided by the rows that a person may have.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, exp, inf, log, sqrt

from sfumato.errors import QueryError

DOUBLINGS, HALVINGS = 200, 200  # steps of a search


def learning_error(rows: float, rules: float, epsilon: float, beta: float) -> float:
    """alpha: by how much more than the best rule, at most, the one that is chosen errs, with confidence 1 - beta.

    >>> round(learning_error(10_000, 200, 0.5, 0.05), 3)
    0.046
    """
    _check(rows=rows, rules=rules, epsilon=epsilon, beta=beta)
    return _error(rows, log(rules), epsilon, log(beta))


def learning_rows(alpha: float, rules: float, epsilon: float, beta: float) -> int:
    """The rows from which the error is at most alpha.

    >>> learning_rows(0.05, 200, 0.5, 0.05)
    8448
    """
    _check(alpha=alpha, rules=rules, epsilon=epsilon, beta=beta)
    return ceil(_crossing(lambda rows: _error(rows, log(rules), epsilon, log(beta)) <= alpha, 1.0))


def learning_epsilon(alpha: float, rows: float, rules: float, beta: float) -> float:
    """The epsilon from which the error is at most alpha; there is none where the table itself has too few rows.

    >>> round(learning_epsilon(0.05, 10_000, 200, 0.05), 3)
    0.15
    """
    _check(alpha=alpha, rows=rows, rules=rules, beta=beta)
    left = alpha - _error(rows, log(rules), inf, log(beta))
    if left <= 0.0:
        enough = learning_rows(alpha, rules, 1e9, beta)
        raise QueryError(f"no epsilon gives that error with {rows:,.0f} rows: without privacy it takes {enough:,}")
    return (log(2.0 * rules) - log(beta)) / (rows * left)


def learning_rules(alpha: float, rows: float, epsilon: float, beta: float) -> int:
    """How many rules there may be for the error to be at most alpha; 0 where not even one.

    >>> learning_rules(0.05, 10_000, 0.5, 0.05)
    1171
    """
    _check(alpha=alpha, rows=rows, epsilon=epsilon, beta=beta)
    if _error(rows, 0.0, epsilon, log(beta)) > alpha:
        return 0
    most = _crossing(lambda spread: _error(rows, spread, epsilon, log(beta)) > alpha, 1.0, least=0.0)
    return int(exp(min(most, 700.0)) * (1.0 + 1e-12))


def learning_doubt(alpha: float, rows: float, rules: float, epsilon: float) -> float:
    """beta: the chance that the error exceeds alpha, at most; 1 where nothing can be said.

    >>> round(learning_doubt(0.05, 10_000, 200, 0.5), 4)
    0.0085
    """
    _check(alpha=alpha, rows=rows, rules=rules, epsilon=epsilon)
    if _error(rows, log(rules), epsilon, 0.0) > alpha:
        return 1.0
    return exp(-_crossing(lambda spread: _error(rows, log(rules), epsilon, -spread) > alpha, 1.0, least=0.0))


def _error(rows: float, log_rules: float, epsilon: float, log_beta: float) -> float:
    of_choice = (log(2.0) + log_rules - log_beta) / (epsilon * rows)
    return of_choice + 2.0 * sqrt((log(4.0) + log_rules - log_beta) / (2.0 * rows))


def _crossing(is_beyond: Callable[[float], bool], start: float, least: float | None = None) -> float:
    """Where a condition begins to hold, upwards from `least`, or from a millionth of the start."""
    high = start
    for _ in range(DOUBLINGS):
        if is_beyond(high):
            break
        high *= 2.0
    else:
        raise QueryError("these numbers ask for more than any table has; allow a larger error")
    low = start / 1e6 if least is None else least
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        low, high = (low, middle) if is_beyond(middle) else (middle, high)
    return high


def _check(**stated: float) -> None:
    for name, value in stated.items():
        most = 1.0 if name in ("alpha", "beta") else inf
        if not 0.0 < value < most or (name == "rules" and value < 1):
            needed = "between 0 and 1" if most == 1.0 else "positive" if name != "rules" else "1 or more"
            raise QueryError(f"{name} must be {needed}, got {value}")
