"""The networks of PPO: advantages along interleaved lives, and slopes against plain numpy."""

import numpy as np
import pytest

from zoosim.models.actor_critic import (
    HELD,
    ActorCritic,
    Improvement,
    Rollout,
    improve,
    new_actor_critic,
    new_rollout,
    write_actor_gradient,
    write_advantages,
    write_chances,
    write_scores,
)
from zoosim.nets.network import new_workspace

DIM, KINDS, HIDDEN, ROWS = 3, 4, 5, 6


def networks(rng: np.random.Generator) -> ActorCritic:
    """Return networks with weights drawn at random."""
    net = new_actor_critic((HIDDEN,), DIM, KINDS, key=np.uint64(1), rng=rng)
    net.value[0] = rng.normal(size=net.value.shape[1])
    net.actor[0] = rng.normal(size=net.actor.shape[1])
    return net


def decisions(rng: np.random.Generator) -> Rollout:
    """Return decisions drawn at random, of which none follows another."""
    rollout = new_rollout(ROWS, DIM, KINDS)
    rollout.states[:] = rng.normal(size=(ROWS, DIM))
    rollout.next_states[:] = rng.normal(size=(ROWS, DIM))
    rollout.kinds[:] = rng.integers(KINDS, size=ROWS)
    rollout.offered[:] = rng.integers(2, size=(ROWS, KINDS))
    rollout.offered[np.arange(ROWS), rollout.kinds] = 1
    rollout.log_chances[:] = np.log(rng.uniform(0.1, 0.9, ROWS))
    rollout.rewards[:] = rng.normal(size=ROWS)
    rollout.following[:] = np.arange(ROWS)
    return rollout


def layers_up(params: np.ndarray, states: np.ndarray, outputs: int) -> np.ndarray:
    """Return what a network puts out, from weights that stand by input: hidden ones, then biases, then the top's."""
    w1, b1, w2, b2 = np.split(params, np.cumsum([DIM * HIDDEN, HIDDEN, HIDDEN * outputs]))
    up: np.ndarray = np.maximum(states @ w1.reshape(DIM, HIDDEN) + b1, 0.0)
    top: np.ndarray = up @ (w2.reshape(HIDDEN, outputs) if outputs > 1 else w2.reshape(1, HIDDEN).T) + b2
    return top


def test_advantages_follow_each_visitor_through_decisions_of_others() -> None:
    rng = np.random.default_rng(0)
    net = networks(rng)
    rollout = decisions(rng)
    # Visitor A decides at 0, 2 and 5, where the rollout ends; B at 1 and 4, and goes; 3 is of somebody else.
    for before, after in ((0, 2), (2, 5), (1, 4)):
        rollout.following[before] = after
        rollout.next_states[before] = rollout.states[after]
    rollout.ends[4] = 1
    goals, advantages = np.empty(ROWS, np.float32), np.empty(ROWS, np.float32)
    work = new_workspace(net.value_layers, 4, net.value)
    write_advantages(net, rollout, 0.9, 0.5, work, 4, goals, advantages)
    values = layers_up(net.value[0], rollout.states, 1)[:, 0]
    ahead = layers_up(net.value[0], rollout.next_states, 1)[:, 0]
    errors = rollout.rewards + 0.9 * np.where(rollout.ends, 0.0, ahead) - values
    expected = errors.copy()
    expected[2] += 0.45 * errors[5]
    expected[0] += 0.45 * errors[2] + 0.45**2 * errors[5]
    expected[1] += 0.45 * errors[4]
    np.testing.assert_allclose(advantages, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(goals, expected + values, rtol=1e-4, atol=1e-5)


def objective(
    net: ActorCritic, params: np.ndarray, rollout: Rollout, advantages: np.ndarray, how: Improvement
) -> float:
    """Return the mean clipped objective with the entropy (Schulman et al. 2017, eq. 9 without the value's part)."""
    scores = layers_up(params, rollout.states.astype(float), KINDS)
    odds = np.exp(scores) * rollout.offered
    chances = odds / odds.sum(axis=1, keepdims=True)
    ratio = chances[np.arange(ROWS), rollout.kinds] / np.exp(rollout.log_chances.astype(float))
    scaled = (advantages - advantages.mean()) / advantages.std()
    clipped = np.minimum(ratio * scaled, np.clip(ratio, 1.0 - how.clip, 1.0 + how.clip) * scaled)
    surprise = np.where(chances > 0.0, -chances * np.log(np.maximum(chances, 1e-300)), 0.0).sum(axis=1)
    return float((clipped + how.entropy * surprise).mean())


@pytest.mark.parametrize("clip", [0.2, 5.0])
def test_a_step_climbs_the_clipped_objective(clip: float) -> None:
    rng = np.random.default_rng(2)
    net = networks(rng)
    rollout = decisions(rng)
    advantages = rng.normal(size=ROWS).astype(np.float32)
    how = Improvement(1.0, 0.95, clip, 0.3, 1, ROWS, 1.0)
    gradient = np.zeros(net.actor.shape[1], np.float32)
    work = new_workspace(net.actor_layers, ROWS, net.actor)
    write_actor_gradient(net, rollout, np.arange(ROWS), work, advantages, how, gradient)
    at = net.actor[0].astype(float)
    steps = 1e-6 * np.eye(len(at))
    slopes = [
        (objective(net, at + step, rollout, advantages, how) - objective(net, at - step, rollout, advantages, how))
        / 2e-6
        for step in steps
    ]
    np.testing.assert_allclose(gradient, -np.array(slopes), rtol=2e-3, atol=2e-4)


def test_probabilities_are_numbers_whatever_the_scores_are() -> None:
    chances = np.empty(3)
    log_chance = write_chances(np.array([1e10, 0.0, -1e10]), np.array([1, 0, 1]), 2, chances)
    np.testing.assert_array_equal(chances, [1.0, 0.0, 0.0])
    assert log_chance == -2e10


def test_a_policy_learns_what_to_show_in_two_states() -> None:
    rng = np.random.default_rng(0)
    net = new_actor_critic((8,), 2, 3, key=np.uint64(3), rng=rng)
    how = Improvement(1.0, 0.95, 0.2, 0.0, 4, 32, 1.0)
    rollout = new_rollout(64, 2, 3)
    rollout.ends[:] = 1
    rollout.offered[:] = 1
    for _ in range(15):
        states = rng.integers(2, size=64)
        rollout.states[:] = np.eye(2)[states]
        odds = np.exp(np.array([scores_of(net, state) for state in range(2)]))
        chances = (odds / odds.sum(axis=1, keepdims=True))[states]
        rollout.kinds[:] = [rng.choice(3, p=row) for row in chances]
        rollout.log_chances[:] = np.log(chances[np.arange(64), rollout.kinds])
        rollout.rewards[:] = rollout.kinds == states + 1
        net.counts[HELD] = 64
        improve(net, rollout, how, 0.02)
        assert net.counts[HELD] == 0
    assert scores_of(net, 0).argmax() == 1
    assert scores_of(net, 1).argmax() == 2


def scores_of(net: ActorCritic, state: int) -> np.ndarray:
    """Return the scores of all kinds in one of two states."""
    scores = np.empty(3)
    write_scores(net, np.eye(2)[state], scores)
    return scores
