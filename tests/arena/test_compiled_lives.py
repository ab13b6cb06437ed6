"""Visitors who come back, compiled: the same rows and the same learning as decision by decision."""

from typing import Any

import numpy as np
import pytest

from zoosim.arena.loop import play
from zoosim.policies.base import Policy
from zoosim.policies.registry import find_class
from zoosim.worlds.sessions.world import Sessions

VISITORS = 120
SHOCKED = {
    "observe": "shop",
    "shocks": [{"name": "loud", "step": 60, "set": {"cat_connoisseur": {"Cat Food": 0.05}}}],
}
HARD = {"observe": "state", "paid": 0.25, "followed": 8, "sold_out": 0.4, "per_kind": 2, "felt_after": 1}


def played(world: Sessions, name: str) -> tuple[Policy, dict[str, np.ndarray]]:
    """Return a policy after a run, and the columns of the run."""
    params = {"rollout": 100, "batch_size": 40} if name == "ppo" else {}
    policy = find_class(name)(world.spec(VISITORS), np.random.default_rng(5), floor=0.1, **params)
    blocks = list(play(world, policy, VISITORS))
    columns = {
        **{name: np.concatenate([getattr(block, name) for block in blocks]) for name in FIGURES},
        **{name: np.concatenate([getattr(block.lives, name) for block in blocks]) for name in LIFE},
    }
    return policy, columns


FIGURES = ("user_ids", "actions", "rewards", "expected_rewards", "best_rewards")
LIFE = ("visitor", "visit", "step", "ended", "censored")


@pytest.mark.parametrize(
    ("name", "params"),
    [
        *(("linucb", SHOCKED), ("q-table", SHOCKED), ("dqn", HARD)),
        *(pytest.param(name, SHOCKED, marks=pytest.mark.slow) for name in ("dqn", "iql", "ppo")),
        *(pytest.param(name, HARD, marks=pytest.mark.slow) for name in ("linucb", "ppo")),
    ],
)
def test_rows_and_what_is_learned_are_those_of_the_plain_loop(
    name: str, params: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    policy, columns = played(Sessions(7, VISITORS, **params), name)
    monkeypatch.setattr(Sessions, "as_compiled", lambda world: None)
    plain, expected = played(Sessions(7, VISITORS, **params), name)
    for key, column in expected.items():
        np.testing.assert_array_equal(columns[key], column, strict=True)
    assert len(columns["rewards"]) > VISITORS
    assert columns["step"].max() == 7 or "followed" not in params
    learned = plain.state_dict()
    for key, value in policy.state_dict().items():
        np.testing.assert_array_equal(value, learned[key], err_msg=key)
