"""Open decisions: counted as often as they were made, given up when there is no room, never counted twice."""

import numpy as np

from zoosim.policies.open_decisions import ROOM, hash_decision, no_open_decisions, open_decision, settle_decision


def test_equal_decisions_are_counted_together() -> None:
    decisions = no_open_decisions()
    one, two = (hash_decision(model, np.array([1.0, 0.0])) for model in (1, 2))
    assert one != two
    for key in (one, one, two):
        open_decision(decisions, key)
    assert decisions.total[0] == 3
    assert [settle_decision(decisions, key) for key in (one, two, one, one)] == [True, True, True, False]
    assert decisions.total[0] == 0
    assert not decisions.table.places.any()
    assert not decisions.counts.any()


def test_the_oldest_is_given_up_and_its_reward_is_known_when_it_comes() -> None:
    """2,000 more decisions than there is room for: each of their rewards is taken for one that was counted."""
    decisions = no_open_decisions()
    keys = [hash_decision(0, np.array([float(n)])) for n in range(ROOM + 2_000)]
    for key in keys:
        open_decision(decisions, key)
    assert decisions.total[0] == ROOM - 1
    assert decisions.given_up[0] == 2_001
    assert all(settle_decision(decisions, key) for key in keys)
    assert decisions.total[0] == decisions.given_up[0] == 0
    assert not settle_decision(decisions, keys[0])
