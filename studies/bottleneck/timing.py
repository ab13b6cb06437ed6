"""Time a decision in each form: choosing among K candidates and learning from the answer, the network fixed."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from benchmarks.speed.neural import PRODUCT_DIM, USER_DIM, Shop
from studies.bottleneck.published import Published
from zoosim.core.devices import find_cards
from zoosim.core.errors import ConfigError
from zoosim.core.parameters import shown
from zoosim.core.types import PolicySpec, Progress
from zoosim.policies.products.neural_ucb import NeuralUCB

CANDIDATES = (10, 50, 200, 1_000, 10_000, 50_000)
NETWORKS = ("16", "64", "256", "128-64")
FULL = ("64", "128-64")
"""The networks measured with all candidates; the others with 50."""

UPDATES = 1_000
BUDGET = 1.0
"""Seconds that the repetitions of one measurement may take; there is always one."""

LIMITS = {"plain loop": 2e5, "Jacobian": 8e6, "last layer": 1e7, "exact": 1e7, "exact, fixed pool": 5e7}
"""Largest K p that is measured, by method, if K is more than 50: beyond it time or memory is out of reach."""

FIXED: dict[str, Any] = {"mean": "network", "train_every": 1_000_000_000, "alpha": 1.0, "discount": 1.0}
OURS: dict[str, dict[str, Any]] = {"exact": {}, "exact, fixed pool": {}, "last layer": {"form": "last-layer"}}
CARD_CANDIDATES = (1_000, 50_000, 1_000_000)
CHUNK = 4_096
"""Candidates whose gradients a graphics card holds at once."""


@dataclass(frozen=True)
class Timing:
    """One measurement: milliseconds of a decision, and megabytes of the arrays that it needs or keeps.

    `device` is "cpu" or the name of a graphics card. The shortest of `repeats`; for zoosim's own forms their median,
    since their history grows meanwhile. `parts` holds the milliseconds of each part.
    """

    method: str
    network: str
    parameters: int
    candidates: int
    device: str
    milliseconds: float
    megabytes: float
    repeats: int
    parts: dict[str, float] = field(default_factory=dict)


def measure(
    *,
    candidates: Sequence[int] = CANDIDATES,
    networks: Sequence[str] = NETWORKS,
    updates: int = UPDATES,
    progress: Progress = lambda line: None,
) -> list[Timing]:
    """Measure every method on one thread, after so many `updates`.

    Where torch finds a graphics card (CUDA or MPS), the Jacobian form is measured there too, with up to a million
    candidates. Raises `ConfigError` unless 50 is one of the `candidates`, and the `networks` are sizes of hidden layers
    such as "128-64".
    """
    _check_sizes(candidates, networks, updates)
    timings: list[Timing] = []
    with threadpool_limits(1), _one_torch_thread():
        for network in networks:
            counts = [count for count in candidates if count == 50 or network in FULL or len(networks) == 1]
            progress(f"{network}: {parameters_of(network):,} parameters, as published")
            timings += _published(network, counts, updates)
            for method in OURS:
                for count in (count for count in counts if _measured(method, network, count)):
                    progress(f"{network}: {parameters_of(network):,} parameters, {method}, {count:,} candidates")
                    timings.append(_ours(method, network, count, updates))
    for device, name in find_cards().items():
        progress(f"{FULL[0]}: on the graphics card {name}")
        timings += [_on_card(device, name, FULL[0], count, updates) for count in CARD_CANDIDATES]
    return timings


def _check_sizes(candidates: Sequence[int], networks: Sequence[str], updates: int) -> None:
    """Refuse sizes that cannot be measured, before anything is."""
    checks = [
        ("candidates", candidates, _counts(candidates), "whole numbers of at least 1, one of them 50"),
        ("networks", networks, _layers(networks), "sizes of hidden layers, such as 64 or 128-64"),
        ("updates", updates, _whole(updates), "a whole number of at least 1"),
    ]
    for name, value, right, expected in checks:
        if not right:
            raise ConfigError(f"bottleneck: {name}: got {shown(value)}, expected {expected}")


def _counts(value: Any) -> bool:
    return _listed(value) and all(map(_whole, value)) and 50 in value


def _layers(value: Any) -> bool:
    texts = list(value) if _listed(value) else [""]
    sizes = [size for text in texts for size in (text.split("-") if isinstance(text, str) else [""])]
    return all(size.isascii() and size.isdigit() and int(size) >= 1 for size in sizes)


def _listed(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str) and len(value) > 0


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def parameters_of(network: str) -> int:
    """Count the weights of a network such as "64" or "128-64", over 9 features."""
    return sum((m + 1) * n for m, n in pairwise(_sizes(network)))


def _sizes(network: str) -> list[int]:
    return [USER_DIM + PRODUCT_DIM, *(int(size) for size in network.split("-")), 1]


def _measured(method: str, network: str, count: int) -> bool:
    return count <= 50 or count * parameters_of(network) <= LIMITS[method]


@contextmanager
def _one_torch_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _published(network: str, counts: Sequence[int], updates: int) -> list[Timing]:
    """Time the loop over arms and the Jacobian, each with the inverse that a decision takes, and that alone."""
    made = Published(_sizes(network), updates, "cpu")
    p, gradient = made.size, made.jacobian(made.rows(1))
    inverse_ms, inverses, inverse = _shortest(made.inverse)
    once = {"inverse": inverse_ms, "learning": _shortest(partial(made.updated, gradient))[0]}
    timings = []
    for count in counts:
        timings.append(Timing("inverse", network, p, count, "cpu", once["inverse"], 16e-6 * p * p, inverses))
        for method, make in {"plain loop": made.gradient_loop, "Jacobian": made.jacobian}.items():
            if _measured(method, network, count):
                gradients_ms, repeats, _ = _shortest(partial(make, made.rows(count)))
                bonuses_ms, *_ = _shortest(partial(made.bonuses, made.jacobian(made.rows(count)), inverse))
                parts = {"gradients": gradients_ms, **once, "bonuses": bonuses_ms}
                numbers = 2 * p * p + (p if method == "plain loop" else count * p)
                total = sum(parts.values())
                timings.append(Timing(method, network, p, count, "cpu", total, 8e-6 * numbers, repeats, parts))
    return timings


def _ours(method: str, network: str, count: int, updates: int) -> Timing:
    """Time NeuralUCB of zoosim, with visitors whom it has never seen, or one and a fixed pool."""
    visits = Shop(count, users=1 if method == "exact, fixed pool" else 0).visits(seed=0)
    seconds = list[tuple[float, float]]()
    spec = PolicySpec(user_dim=USER_DIM, product_dim=PRODUCT_DIM)
    policy = NeuralUCB(spec, np.random.default_rng(1), hidden=network, **FIXED, **OURS[method])
    for step in range(updates):
        policy.update(next(visits), step % count, float(step % 10 < 3))
    policy.select_action(next(visits))
    deadline = time.perf_counter() + BUDGET
    while len(seconds) < 3 or (time.perf_counter() < deadline and len(seconds) < 200):
        context, began = next(visits), time.perf_counter()
        action, chosen = policy.select_action(context), time.perf_counter()
        policy.update(context, action, 0.0)
        seconds.append((chosen - began, time.perf_counter() - chosen))
    choosing, learning = (1e3 * float(np.median(part)) for part in zip(*seconds, strict=True))
    held = policy.held_bytes()
    parts = {"choosing": choosing, "learning": learning}
    size = parameters_of(network)
    return Timing(method, network, size, count, "cpu", choosing + learning, 1e-6 * held, len(seconds), parts)


def _on_card(device: str, name: str, network: str, count: int, updates: int) -> Timing:
    """Time the Jacobian form on a graphics card, learning included, so many candidates at once that gradients fit."""
    made = Published(_sizes(network), updates, device)
    xs, gradient = made.rows(count), made.jacobian(made.rows(1))

    def decide() -> None:
        inverse = made.inverse()
        for start in range(0, count, CHUNK):
            made.bonuses(made.jacobian(xs[start : start + CHUNK]), inverse)
        made.updated(gradient)
        made.wait()

    decide()
    milliseconds, repeats, _ = _shortest(decide)
    numbers = 2 * made.size**2 + min(count, CHUNK) * made.size
    megabytes = 1e-6 * made.dtype.itemsize * numbers
    return Timing("Jacobian", network, made.size, count, name, milliseconds, megabytes, repeats)


def _shortest(action: Callable[[], Any]) -> tuple[float, int, Any]:
    """Return the milliseconds of the shortest of some runs, how many there were, and what they return."""
    times: list[float] = []
    deadline, value = time.perf_counter() + BUDGET, None
    while not times or (time.perf_counter() < deadline and len(times) < 20):
        began = time.perf_counter()
        value = action()
        times.append(time.perf_counter() - began)
    return 1e3 * min(times), len(times), value
