"""Policies learned from the earlier part of a log and judged by the later."""

import numpy as np
import pytest

import zoosim
from tests.evaluation.off_policy.test_evaluate import drawn
from tests.evaluation.off_policy.worlds import TableWorld
from zoosim.core.errors import ConfigError, DataError
from zoosim.evaluation.off_policy.learning import EXPLORE, earlier_and_later, learn_policy


def world() -> TableWorld:
    return TableWorld(0, 0.5)


@pytest.mark.parametrize("kind", ["linear", "mlp"])
def test_a_learned_policy_beats_the_logged_one_and_knows_no_later_row(kind: str) -> None:
    """10,000 rows, seed 0: above 90% of what the best choice with the same exploration earns; logged has about 70%."""
    log = drawn(world(), n=10_000)
    earlier, later = earlier_and_later(log)
    assert (len(earlier), len(later)) == (6_000, 4_000)
    np.testing.assert_array_equal(later.actions, log.actions[6_000:])
    found = learn_policy(earlier, kind).probabilities(log, 0, 4_000)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    assert found.min() == pytest.approx(EXPLORE / 10)
    clicks = world().clicks
    best = (1 - EXPLORE) * clicks.max(axis=1).mean() + EXPLORE * clicks.mean()
    value = float((found * (log.features[:4_000] @ clicks)).sum(axis=1).mean())
    logged = float((world().logging * clicks).sum(axis=1).mean())
    assert logged < 0.8 * best
    assert value > 0.9 * best


def test_by_name_policies_are_learned_earlier_and_judged_later() -> None:
    log = drawn(world(), n=4_000)
    found = zoosim.evaluate(log, ["learned:linear", "random"], estimators=["snips", "dr"])
    assert found.n == 1_600
    by_name = {(row.policy, row.estimator): row.value for row in found.results}
    assert by_name["learned-linear", "dr"] > by_name["random", "dr"]


def test_what_cannot_be_learned_is_refused() -> None:
    log = drawn(world(), n=200)
    with pytest.raises(ConfigError, match=r"unknown learner 'linea' .did you mean linear"):
        zoosim.evaluate(log, ["learned:linea"])
    with pytest.raises(DataError, match="100 rows, too few to learn from some and judge by the others"):
        zoosim.evaluate(log.rows(np.arange(100)), ["learned:linear"])
    bare = log.rows(np.arange(200))
    object.__setattr__(bare, "features", np.zeros((200, 0)))
    with pytest.raises(DataError, match="no features to learn a policy from"):
        learn_policy(bare, "linear")
