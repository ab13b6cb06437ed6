"""Policies trained on the earlier part of a log and judged by the later."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zoosim
from tests.off_policy.test_evaluate import drawn
from tests.off_policy.worlds import TableWorld
from zoosim.core.errors import ConfigError, DataError, PolicyError
from zoosim.core.types import Context
from zoosim.logs.log import Log
from zoosim.off_policy.targets.products import spec_of
from zoosim.off_policy.training import earlier_and_later
from zoosim.policies.base import Policy
from zoosim.policies.registry import find_class

N = 4_000


def log_of(n: int = N) -> Log:
    return drawn(TableWorld(0, 0.5), n=n)


class Counts(Policy):
    """Shows what earned most in the mean so far, the first product before it has learned."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.earned, self.shown = np.zeros(10), np.zeros(10)

    def select_action(self, context: Context) -> int:
        return int((self.earned / np.maximum(self.shown, 1)).argmax())

    def update(
        self, context: Context, action: int, reward: float, feedback: Any = None, next_context: Any = None
    ) -> None:
        self.earned[action] += reward
        self.shown[action] += 1


def test_a_log_is_cut_by_time() -> None:
    log = replace(log_of(100), times=np.arange(100)[::-1].copy())
    with pytest.raises(DataError, match="100 rows, too few to learn from some and judge by the others"):
        earlier_and_later(log)
    log = replace(log_of(200), times=np.arange(200)[::-1].copy())
    earlier, later = earlier_and_later(log)
    np.testing.assert_array_equal(earlier.actions, log.actions[::-1][:120])
    np.testing.assert_array_equal(later.actions, log.actions[::-1][120:])


def test_policies_learn_from_the_earlier_part_and_are_judged_by_the_later() -> None:
    log = log_of()
    earlier, later = earlier_and_later(log)
    lines: list[str] = []
    found = zoosim.evaluate(
        log, ["random", "d-linucb", "linear", Counts], train=True, estimators=["snips", "dr"], progress=lines.append
    )
    assert found.n == len(later) == 1_600
    by_name = {(row.policy, row.estimator): row.value for row in found.results}
    assert by_name["linear", "dr"] > 1.3 * by_name["random", "dr"]
    assert by_name["d-linucb", "dr"] > 1.3 * by_name["random", "dr"]
    means = np.bincount(earlier.actions, earlier.rewards, 10) / np.bincount(earlier.actions, minlength=10)
    favourite = np.eye(10)[means.argmax()]
    by_hand = zoosim.evaluate(later, {"counts": favourite}, estimators=["snips"]).results[0].value
    assert by_name["counts", "snips"] == pytest.approx(by_hand, rel=1e-12)
    assert "d-linucb: learned from 2,400 of 2,400 visits" in lines
    assert "d-linucb: judged 1,600 of 1,600 rows" in lines


@pytest.mark.parametrize("given", ["linucb", "linear", Counts])
def test_a_policy_that_has_learned_nothing_is_refused(given: Any) -> None:
    name = given if isinstance(given, str) else "counts"
    with pytest.raises(PolicyError, match=rf"^policy {name}: has learned nothing yet, .*; add --train") as refused:
        zoosim.evaluate(log_of(200), ["random", given])
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("train", [False, True])
def test_what_has_learned_is_judged_as_it_is(train: bool, tmp_path: Path) -> None:
    """An object, and a saved file of the same policy, beside an array that does the same; neither learns any more."""
    log = log_of()
    policy = find_class("greedy")(spec_of(log), np.random.default_rng(0), epsilon=0.0)
    context = Context(user_id=0, user=log.features[0], product_ids=log.product_ids, products=log.products)
    for user in np.eye(4):
        visit = Context(**{**context, "user": user, "available": np.ones(10, bool)})
        policy.update(visit, 3, 1.0)
    given = {"object": policy, "file": str(zoosim.save_policy(policy, tmp_path / "greedy.npz")), "3": np.eye(10)[3]}
    values = [row.value for row in zoosim.evaluate(log, given, train=train, estimators=["snips"]).results]
    assert values[0] == values[1] == values[2]


def test_what_cannot_be_learned_is_refused() -> None:
    log = log_of(200)
    with pytest.raises(ConfigError, match="is now the policy linear; write --policy linear --train"):
        zoosim.evaluate(log, ["learned:linear"])
    with pytest.raises(DataError, match="100 rows, too few to learn from some and judge by the others"):
        zoosim.evaluate(log.rows(np.arange(100)), ["linear"], train=True)
    bare = replace(log, features=np.zeros((200, 0)))
    with pytest.raises(PolicyError, match="policy mlp: cannot learn from the log: rows have no features"):
        zoosim.evaluate(bare, ["mlp"], train=True)
    strange = replace(log, rewards=7.0 * log.rewards)
    with pytest.raises(
        PolicyError, match=r"policy shared-linucb: cannot learn from the log: reward: got 7\.0, expected a num"
    ):
        zoosim.evaluate(strange, ["shared-linucb"], train=True)
