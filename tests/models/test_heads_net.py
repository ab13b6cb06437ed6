"""The network of many heads against torch's autograd, and what its learner does when."""

from typing import Any

import numpy as np
import pytest
import torch

from zoosim.core.rng import uniform
from zoosim.core.types import FloatArray
from zoosim.models import heads_net
from zoosim.models.heads_net import HeadsLearner, draw_by_weight, draw_mask, hidden_layer_table, learn, new_params
from zoosim.models.row_memory import new_row_memory

DIM, HIDDEN, HEADS = 4, 7, 3
TABLE = hidden_layer_table(DIM, HIDDEN)


def parts(mine: HeadsLearner) -> list[FloatArray]:
    """Return `w1 (d, h)`, `b1 (h,)`, and of each head `w2 (n, h)`, `b2 (n,)`, as views."""
    w1, b1, w2, b2 = np.split(mine.trained[0], np.cumsum([DIM * HIDDEN, HIDDEN, HEADS * HIDDEN]))
    return [w1.reshape(DIM, HIDDEN), b1, w2.reshape(HEADS, HIDDEN), b2]


def learner(**changes: Any) -> HeadsLearner:
    params = new_params(DIM, HIDDEN, HEADS, rng=np.random.default_rng(0))
    made = HeadsLearner(
        trained=np.stack([params, 0 * params, 0 * params]),
        counts=np.zeros(2, np.int64),
        memory=new_row_memory(64, DIM),
        key=np.array([7], np.uint64),
        hidden=HIDDEN,
        rate=0.01,
        batch_size=64,
        train_every=10,
        training_steps=1,
        keep=1.0,
        dropout=0.0,
    )
    return made._replace(**changes)


def visits(n: int) -> list[tuple[FloatArray, int, float]]:
    rng = np.random.default_rng(1)
    pool = rng.normal(size=(4, DIM)) * (rng.random((4, DIM)) < 0.8)
    return [(pool[rng.integers(4)], int(rng.integers(HEADS)), float(rng.random())) for _ in range(n)]


def torch_step(net: list[FloatArray], seen: list[tuple[FloatArray, int, float]]) -> list[FloatArray]:
    """Take a step of torch's Adam on the mean squared distance to each row's mean reward, weighted by its visits."""
    weights = [torch.tensor(np.array(array, np.float64), requires_grad=True) for array in net]
    w1, b1, w2, b2 = weights
    optimizer = torch.optim.Adam(weights, lr=0.01)
    rows: dict[tuple[tuple[float, ...], int], list[float]] = {}
    for x, head, reward in seen:
        rows.setdefault((tuple(x.tolist()), head), []).append(reward)
    loss: Any = torch.tensor(0.0, dtype=torch.float64)
    for (features, head), rewards in rows.items():
        z = torch.relu(torch.tensor(features, dtype=torch.float64) @ w1 + b1)
        estimate = z @ w2[head] + b2[head]
        loss = loss + len(rewards) / len(seen) * (estimate - float(np.mean(rewards))) ** 2
    loss.backward()
    optimizer.step()
    return [array.detach().numpy() for array in weights]


def test_a_full_batch_is_a_step_of_torch() -> None:
    mine, seen = learner(), visits(10)
    expected = torch_step([array.copy() for array in parts(mine)], seen)
    moved = [learn(mine, TABLE, *visit).size for visit in seen]
    assert moved[:9] == [0] * 9
    assert moved[9] == np.count_nonzero(mine.memory.seen) > 5
    assert mine.counts.tolist() == [10, 1]
    for got, wanted in zip(parts(mine), expected, strict=True):
        assert np.allclose(got, wanted, rtol=0, atol=2e-5)  # a step is .01 a weight


def test_the_heads_are_views_of_the_weights_behind_the_layer() -> None:
    mine = learner()
    weights, biases = heads_net.heads(mine)
    for got, wanted in zip((weights, biases), parts(mine)[2:], strict=True):
        assert np.array_equal(got, wanted)
        assert np.shares_memory(got, mine.trained)


def test_dropout_trains_the_units_that_are_left() -> None:
    """One row, one step: exactly the weights of hidden units that are active and not left out move."""
    mine = learner(dropout=0.5, train_every=1)
    before, x = [part.copy() for part in parts(mine)], np.array([1.0, 0.0, 2.0, -1.0])
    active = heads_net.hidden_layer(mine, x) > 0
    learn(mine, TABLE, x, 1, 1.0)
    kept = [uniform(mine.key[0], -1, 1 + unit) >= 0.5 for unit in range(HIDDEN)]
    w1, _, w2, _ = parts(mine)
    moved = w2[1] != before[2][1]
    assert moved.tolist() == (active & kept).tolist()
    assert 0 < moved.sum() < active.sum()
    assert ((w1 != before[0]).any(axis=0) == moved).all()
    assert (w2[[0, 2]] == before[2][[0, 2]]).all()


def test_dropping_out_keeps_the_expectation() -> None:
    """The mean over 4,000 masks is 1 for each unit, within 5 standard errors."""
    masks = np.empty((4_000, 2), np.float32)
    for i, mask in enumerate(masks):
        draw_mask(0.3, np.uint64(3), i, 0, mask)
    assert np.allclose(np.unique(masks), [0, 1 / 0.7])
    assert (np.abs(masks.mean(axis=0) - 1) < 5 * np.sqrt(0.3 / 0.7 / 4_000)).all()


def test_places_are_drawn_by_weight() -> None:
    """Systematic sampling: each place as often as its share, up to one."""
    totals = np.cumsum([1.0, 0.0, 5.0, 2.0, 2.0])
    for i in range(50):
        counts = np.bincount(draw_by_weight(totals, 20, np.uint64(1), i), minlength=5)
        assert (np.abs(counts - np.array([2, 0, 10, 4, 4])) <= 1).all()
        assert counts[1] == 0


def test_a_batch_smaller_than_the_memory_learns_as_well() -> None:
    mine = learner(batch_size=2, train_every=1, training_steps=20)
    rng = np.random.default_rng(0)
    for _ in range(300):
        x = np.eye(DIM)[rng.integers(DIM)]
        learn(mine, TABLE, x, 0, float(x[1]))
    _, _, w2, b2 = parts(mine)
    estimates = [float(heads_net.hidden_layer(mine, x) @ w2[0] + b2[0]) for x in np.eye(DIM)]
    assert estimates == pytest.approx([0, 1, 0, 0], abs=0.05)
