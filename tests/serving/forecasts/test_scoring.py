"""Importance weights take the exploration of a service off its decisions."""

import numpy as np
import pytest

from zoosim.serving.events import AppliedRules, ProductDecision, SearchDecision, pack_floats, pack_whole
from zoosim.serving.forecasts.scoring import ProductScoring, SearchScoring


def decision(chances: list[float], n_candidates: int = 5, **more: object) -> ProductDecision:
    fields = {
        "request": b"r", "model": "m", "state": 0, "visitor_id": "", "visitor": b"",
        "versions": pack_whole(np.arange(n_candidates)), "propensities": b"", "shown": [*range(len(chances))],
        "chances": chances, "deferred": False, **more,
    }  # fmt: skip
    return ProductDecision(**fields)  # type: ignore[arg-type]


def search(density: float | None) -> SearchDecision:
    return SearchDecision(b"r", "m", 0, "", {}, ["a"], pack_floats(np.zeros(1)), b"", density, [0], False)


def test_the_policy_s_own_share_is_what_even_exploration_leaves() -> None:
    # A policy shows one of five candidates with 70%, and a fifth of decisions is even: .8 x .7 + .2 / 5 = .6.
    assert ProductScoring().weight(decision([0.6]), 0.2, False) == pytest.approx(0.7 / 0.6)
    # What the policy never shows counts for nothing, and without exploration everything counts once.
    assert ProductScoring().weight(decision([0.04]), 0.2, False) == 0.0
    assert ProductScoring().weight(decision([0.6]), 0.0, False) == 1.0
    # Two of the five cannot be shown: .8 x .7 + .2 / 3.
    chance = 0.8 * 0.7 + 0.2 / 3
    assert ProductScoring().weight(decision([chance], excluded=[1, 4]), 0.2, False) == pytest.approx(0.7 / chance)


def test_weights_are_one_on_average() -> None:
    rng = np.random.default_rng(0)
    own = rng.dirichlet(np.ones(5))
    served = 0.8 * own + 0.2 / 5
    weights = [ProductScoring().weight(decision([chance]), 0.2, False) for chance in served]
    assert float(served @ np.array(weights)) == pytest.approx(1.0)


def test_of_a_list_each_place_counts_by_what_is_left() -> None:
    chances = [0.8 * 0.5 + 0.2 / 5, 0.8 * 0.25 + 0.2 / 4]
    expected = 0.5 / chances[0] * 0.25 / chances[1]
    assert ProductScoring().weight(decision(chances), 0.2, True) == pytest.approx(expected)
    assert ProductScoring().weight(decision(chances), 0.2, False) == pytest.approx(0.5 / chances[0])


def test_what_nobody_drew_has_no_weight() -> None:
    pinned = AppliedRules(pinned=[1])
    capped = AppliedRules(per_page=["brand"])
    assert ProductScoring().weight(decision([0.6, 0.5], rules=pinned), 0.2, True) is None
    assert ProductScoring().weight(decision([0.6, 0.5], rules=pinned), 0.2, False) is not None
    assert ProductScoring().weight(decision([0.6, 0.5], rules=capped), 0.2, True) is None
    assert ProductScoring().weight(decision([0.6]), 1.0, False) is None
    assert SearchScoring().weight(search(None), 0.2, False) is None
    assert SearchScoring().weight(search(3.0), 0.2, False) == 1.0
