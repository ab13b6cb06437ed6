"""Policies in a learned model of visitors: exact values, errors that influences tell, and logs that it does not fit."""

import numpy as np
import pytest

from zoosim.core.errors import DataError
from zoosim.core.types import FloatArray, IntArray
from zoosim.logs.lives import Lives
from zoosim.off_policy.estimators.lives import LifeRows, life_rows
from zoosim.off_policy.models.visitor_values import VisitorValues

CHANCES = np.array([0.3, 0.6])
BACK = np.array([0.2, 0.8])
POLICY = np.array([[0.3, 0.7], [0.9, 0.1]])
"""How likely each of two kinds of product is shown to visitors at each of two levels."""


def drawn(visitors: int, rng: np.random.Generator) -> tuple[LifeRows, IntArray, IntArray, IntArray, IntArray]:
    """Return lives, and at each decision the level, the kind that was shown, the click and the visit's number.

    Kind 0 is clicked with .3, kind 1 with .6, and both are shown alike; a click on kind 1 takes a visitor to level 0,
    one on kind 0 to level 1. A visit ends with .5, and a visitor then comes back with .2 from level 0, .8 from level 1.
    """
    rows = []
    for visitor in range(visitors):
        level, visit, step, stays = 1, 0, 0, True
        while stays:
            kind = int(rng.integers(2))
            clicked = int(rng.random() < CHANCES[kind])
            following = 1 - kind if clicked else level
            ends = rng.random() < 0.5
            stays = not ends or rng.random() < BACK[following]
            rows.append((visitor, visit, step, level, kind, clicked, not stays))
            level, visit, step = following, visit + int(ends), step + 1
    visitor, visit, step, level, kind, clicked, ended = np.array(rows).T
    lives = Lives(visitor, visit, step, ended.astype(bool), np.zeros(len(rows), bool))
    return life_rows(lives), level, kind, clicked, visit


def exact(gamma: float) -> float:
    """Return the clicks of a new visitor, who is at level 1, under `POLICY`."""
    values = np.zeros(2)
    for _ in range(2_000):
        onward = gamma * (0.5 + 0.5 * BACK) * values
        by_kind = [CHANCES[k] * (1 + onward[1 - k]) + (1 - CHANCES[k]) * onward for k in range(2)]
        values = (POLICY * np.array(by_kind).T).sum(axis=1)
    return float(values[1])


def fitted(visitors: int, rng: np.random.Generator, gamma: float = 1.0) -> VisitorValues:
    rows, level, kind, clicked, visit = drawn(visitors, rng)
    return VisitorValues(rows._replace(gamma=gamma), np.eye(2)[level], kind, np.eye(2), clicked == 1, visit)


def test_values_are_the_exact_ones_within_errors_that_influences_tell() -> None:
    """Over 20 logs of 300 visitors errors have the size of standard errors, within 2.5 of its own (.16)."""
    rng = np.random.default_rng(0)
    errors = []
    for _ in range(20):
        terms = fitted(300, rng, gamma=0.9).terms(POLICY)
        errors.append((terms.value - exact(0.9)) / (terms.base.std() / np.sqrt(300)))
    assert 0.6 < np.sqrt(np.mean(np.square(errors))) < 1.4
    assert abs(np.mean(errors)) < 0.56


def test_states_are_those_of_the_features() -> None:
    values = fitted(300, np.random.default_rng(0))
    np.testing.assert_array_equal(values.states, np.eye(2))
    assert set(values.of_decisions.tolist()) == {0, 1}


def test_logs_that_such_a_model_does_not_fit_are_refused() -> None:
    rows, level, kind, clicked, visit = drawn(300, np.random.default_rng(0))

    def refuse(users: FloatArray, reason: str, kinds: int = 2) -> None:
        with pytest.raises(DataError, match=reason):
            VisitorValues(rows, users, kind, np.eye(kinds), clicked == 1, visit)

    refuse(np.where(level == 1, 0.5, 0.0)[:, np.newaxis], "no groups of which exactly one is 1")
    refuse(
        np.eye(2)[np.random.default_rng(1).permutation(level)],
        "do not follow from those before, what was shown and the click",
    )
    refuse(np.eye(2)[level], "2 states of visitors and 800 kinds of products are too many", kinds=800)
