"""Policies learned from a log alone: show what a model of the rewards favours, and now and then anything."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from zoosim.core.errors import ConfigError, DataError
from zoosim.core.parameters import unknown
from zoosim.core.types import FloatArray
from zoosim.evaluation.off_policy.clusters import make_clusters
from zoosim.evaluation.off_policy.log import Log
from zoosim.evaluation.off_policy.reward_model import fit_reward_model
from zoosim.evaluation.off_policy.targets import Target

EXPLORE = 0.1
EARLIER = 0.6
LEAST_ROWS = 50
MOST_TRAITS = 8
SAME_SIZE = 1e-9
"""Principal components whose sizes differ by less, as a share of the largest, count as of one size."""
HIDDEN, EPOCHS, BATCH, RATE, DECAY = 64, 20, 512, 0.003, 1e-4

Guess = Callable[[FloatArray], FloatArray]
"""Features `(m, d)` to guessed rewards `(m, K)`."""


class Learned(Target):
    """Shows the candidate with the highest guessed reward, with probability `explore` any candidate, all alike."""

    def __init__(self, guess: Guess, explore: float = EXPLORE) -> None:
        self.guess, self.explore = guess, explore

    def probabilities(self, log: Log, start: int, stop: int) -> FloatArray:
        """Return those of rows `start` to `stop - 1`: `(stop - start, K)`."""
        available = log.available(start, stop)
        guessed = np.where(available, self.guess(log.features[start:stop]), -np.inf)
        out = self.explore * available / available.sum(axis=1, keepdims=True)
        out[np.arange(stop - start), guessed.argmax(axis=1)] += 1.0 - self.explore
        return np.asarray(out)


def earlier_and_later(log: Log) -> tuple[Log, Log]:
    """Cut a log in two: the first 60% of its rows in order of time, to learn from, and the rest, to judge by.

    Raises `DataError` where the later part has few rows.
    """
    ordered = log if log.times is None else log.rows(np.argsort(log.times, kind="stable"))
    cut = int(EARLIER * len(log))
    if len(log) - cut < LEAST_ROWS:
        raise DataError(f"{log.source}: {len(log):,} rows, too few to learn from some and judge by the others")
    return ordered.rows(np.arange(cut)), ordered.rows(np.arange(cut, len(log)))


def learn_policy(log: Log, kind: str, *, seed: int = 0) -> Learned:
    """Learn a policy from a log: `linear`, a shrunken linear model for each action, or `mlp`, one network for all.

    Judge it by rows that come later: `earlier_and_later`. Raises `ConfigError` for another kind, `DataError` where the
    log has no features to learn from. Where it describes the products, those alike are learned from together.
    """
    if kind not in LEARNERS:
        raise ConfigError(unknown("unknown learner", kind, list(LEARNERS)))
    if not log.features.shape[1]:
        raise DataError(f"{log.source}: rows have no features to learn a policy from; name some in the mapping")
    return Learned(LEARNERS[kind](log, seed))


def traits_of(products: FloatArray) -> FloatArray | None:
    """Return what products `(K, d_p)` differ in most: their scores on at most 8 principal components, each of
    variance 1 or less; None where nothing is known of them, or all are alike.

    Components of one size, such as those of one-hot features, span a space whose axes are free, and the sign of every
    component is free, too. The first products settle both; rounding would, differently on each processor.
    """
    spread = products.std(axis=0)
    if not (spread > 0.0).any():
        return None
    scaled = (products - products.mean(axis=0))[:, spread > 0.0] / spread[spread > 0.0]
    components, sizes, _ = np.linalg.svd(scaled, full_matrices=False)
    sizes = sizes[sizes > SAME_SIZE * sizes[0]]
    is_last_of_size = np.append(sizes[:-1] - sizes[1:] > SAME_SIZE * sizes[0], True)
    stops = np.flatnonzero(is_last_of_size) + 1
    starts = np.append(0, stops[:-1])
    scores = [
        sizes[start] * _turn_to_first_products(components[:, start:stop])
        for start, stop in zip(starts, stops, strict=True)
        if start < MOST_TRAITS
    ]
    kept = np.hstack(scores)[:, :MOST_TRAITS]
    return np.asarray(kept / kept.std(axis=0).max())


def _turn_to_first_products(basis: FloatArray) -> FloatArray:
    """Rotate an orthonormal basis `(K, g)` so that it depends on nothing but the space that it spans: `(K, min(g, 8))`.

    Gram-Schmidt over products in their order: the first one lies on the first axis, the next one that is not on it lies
    in the plane of the first two, and so on, always on the positive side.
    """
    remaining = basis.copy()
    axes = []
    for _ in range(min(basis.shape[1], MOST_TRAITS)):
        lengths = np.linalg.norm(remaining, axis=1)
        first = int((lengths > 1e-6 * lengths.max()).argmax())  # shorter ones are rounding
        axis = remaining[first] / lengths[first]
        axes.append(axis)
        remaining -= np.outer(remaining @ axis, axis)
    return np.asarray(basis @ np.stack(axes, axis=1))


def _linear(log: Log, seed: int) -> Guess:
    """Fit the reward model of the doubly robust estimators; its coefficients are the mean over its folds."""
    clusters = make_clusters(len(log), log.user_ids)
    alone = replace(log, positions=np.zeros_like(log.positions))
    model = fit_reward_model(alone, clusters, traits=traits_of(log.products))
    own = model.coefficients.mean(axis=0)
    return lambda features: np.asarray(own[0] + ((features - model.centre) * model.scale) @ own[1:])


def _mlp(log: Log, seed: int) -> Guess:
    """Fit a network of one hidden layer with an output an action, by the squared error of the logged ones.

    Where products have traits, an action's output is its own plus its traits times outputs that all actions share.
    """
    import torch

    centre, spread = log.features.mean(axis=0), log.features.std(axis=0)
    scale = np.where(spread > 0.0, 1.0 / np.where(spread > 0.0, spread, 1.0), 0.0)
    traits = traits_of(log.products)
    known = np.zeros((log.n_actions, 0)) if traits is None else traits
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]), threadpool_limits(1):
            torch.manual_seed(seed)
            layers = _trained((log.features - centre) * scale, log, known)
    finally:
        torch.set_num_threads(threads)
    return lambda features: _forward(layers, (features - centre) * scale, known)


def _trained(inputs: FloatArray, log: Log, traits: FloatArray) -> list[FloatArray]:
    import torch
    from torch import nn, optim

    network = nn.Sequential(nn.Linear(inputs.shape[1], HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, sum(traits.shape)))
    optimizer = optim.AdamW(network.parameters(), lr=RATE, weight_decay=DECAY)
    x, actions = torch.from_numpy(inputs.astype(np.float32)), torch.from_numpy(np.array(log.actions))
    rewards, z = (torch.from_numpy(part.astype(np.float32)) for part in (log.rewards, traits))

    def guess(outputs: Any, chosen: Any) -> Any:
        own = outputs.gather(1, chosen[:, None])[:, 0]
        return own + (outputs[:, log.n_actions :] * z[chosen]).sum(dim=1)

    for _ in range(EPOCHS):
        for batch in torch.split(torch.randperm(len(log)), BATCH):
            guessed = guess(network(x[batch]), actions[batch])
            loss = ((guessed - rewards[batch]) ** 2).mean()
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
    return [np.asarray(value.detach().numpy(), float) for value in network.state_dict().values()]


def _forward(layers: list[FloatArray], inputs: FloatArray, traits: FloatArray) -> FloatArray:
    first, shift, last, out = layers
    outputs = np.maximum(inputs @ first.T + shift, 0.0) @ last.T + out
    k = len(traits)
    return np.asarray(outputs[:, :k] + outputs[:, k:] @ traits.T)


LEARNERS: dict[str, Callable[[Log, int], Guess]] = {"linear": _linear, "mlp": _mlp}
