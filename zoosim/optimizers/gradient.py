"""Projected gradient ascent for continuous actions in a box and a trust region, for one request or for many at once.

From several starts, steps follow the gradient divided by the root of its running mean square (Tieleman & Hinton 2012),
so the scale of the objective does not matter, and shrink to 0 in a straight line. In the box each coordinate is scaled
by itself. In a trust region all are scaled alike: to scale them apart turns the gradient, and where the ball stops the
step that leads to another point of its surface than the best.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from zoosim.core.checks import (
    SMALLEST_RADIUS,
    check_number,
    check_optional,
    check_output,
    check_whole,
    refuse_output,
)
from zoosim.core.errors import ConfigError, ObjectiveError
from zoosim.core.jit import jit
from zoosim.core.parameters import shown
from zoosim.core.types import FloatArray
from zoosim.optimizers.projection import copy, project
from zoosim.optimizers.region import Region, best_starts, make_region

Differentiable = Callable[[FloatArray], tuple[Any, Any]]
"""Takes actions `(n, d)`, or `(m, n, d)`; returns their values `(n,)` or `(m, n)`, and gradients like the actions."""

MEMORY = 0.9
"""The weight of the past in the running mean square."""


@dataclass(frozen=True)
class GradientConfig:
    """How to climb; raises `ConfigError` at construction with the field, its value and its range.

    `n_starts` starts side by side take `n_steps` steps. The first step moves a coordinate by `step_size`, in units of
    the action: where it is left out, by as much as the region is wide (the smaller of `a_max` and the radius). With
    `trust_region_delta` actions stay within that Euclidean distance of a base action.
    """

    n_starts: int = 8
    n_steps: int = 30
    step_size: float | None = None
    a_max: float = 0.5
    trust_region_delta: float | None = None

    def __post_init__(self) -> None:
        check_whole("GradientConfig.n_starts", self.n_starts, 1, 10_000)
        check_whole("GradientConfig.n_steps", self.n_steps, 0, 1_000_000)
        check_optional("GradientConfig.step_size", self.step_size, 0.0, 1e9)
        check_number("GradientConfig.a_max", self.a_max, SMALLEST_RADIUS, 1e9)
        check_optional("GradientConfig.trust_region_delta", self.trust_region_delta, SMALLEST_RADIUS, 1e9)


@dataclass(frozen=True)
class GradientResult:
    """The best `action (d,)` that was met, its `value`, and the best value after each step, `history (t,)`."""

    action: FloatArray
    value: float
    history: FloatArray


@dataclass(frozen=True)
class GradientResults:
    """The same for m requests: `actions (m, d)`, `values (m,)`, `histories (m, t)`."""

    actions: FloatArray
    values: FloatArray
    histories: FloatArray


def gradient_ascent(
    objective: Differentiable,
    action_dim: int,
    config: GradientConfig | None = None,
    *,
    rng: np.random.Generator,
    init_mean: Any = None,
    base_action: Any = None,
    radius: float | None = None,
) -> GradientResult:
    """Search the action in [-a_max, a_max]^d with the highest objective, by projected gradient ascent.

    Args:
        objective: Takes the actions of all starts `(n, d)`, returns values `(n,)` and gradients `(n, d)`; called once
            more than there are steps.
        action_dim: d, at least 1.
        config: How to climb; None for `GradientConfig()`.
        rng: Each start draws one number from it.
        init_mean: Where the first start begins, `(d,)`, such as what an actor proposes; by default the base action, or
            0. Others begin anywhere in the region.
        base_action: Centre `(d,)` of the trust region, inside the box.
        radius: Radius of the trust region in this call, in place of `config.trust_region_delta`.

    Raises:
        ConfigError: An argument does not fit, or of base action and radius only one is known.
        ObjectiveError: The objective returned NaN, infinity or another shape.
    """
    made = _made(config)
    region = make_region(made, None, action_dim, rng, init_mean, base_action, radius)

    def slopes(actions: FloatArray) -> tuple[FloatArray, FloatArray]:
        values, gradients = _both(objective(actions[0]), actions.shape[1:])
        return values.reshape(1, -1), gradients.reshape(actions.shape)

    found = _climb(slopes, region, made)
    return GradientResult(found.actions[0], float(found.values[0]), found.histories[0])


def gradient_ascent_many(
    objective: Differentiable,
    n_requests: int,
    action_dim: int,
    config: GradientConfig | None = None,
    *,
    rng: np.random.Generator,
    init_mean: Any = None,
    base_action: Any = None,
    radius: Any = None,
) -> GradientResults:
    """Search the best actions for m requests at once; each gets what it would get alone.

    Args:
        objective: Takes actions `(m, n, d)`, returns values `(m, n)` and gradients `(m, n, d)`.
        n_requests: m, at least 1.
        action_dim: d, at least 1.
        config: How to climb; None for `GradientConfig()`.
        rng: Each start of each request draws one number from it.
        init_mean: Where first starts begin, `(m, d)`, or `(d,)` for all; by default the base action, or 0.
        base_action: Centres of the trust regions, `(m, d)`, or `(d,)` for all.
        radius: Radii of the trust regions, `(m,)`, or a number for all; by default `config.trust_region_delta`.

    Raises:
        ConfigError: An argument does not fit, or of base action and radius only one is known.
        ObjectiveError: The objective returned NaN, infinity or another shape.
    """
    made = _made(config)
    region = make_region(made, n_requests, action_dim, rng, init_mean, base_action, radius)
    return _climb(lambda actions: _both(objective(actions), actions.shape), region, made)


def _made(config: GradientConfig | None) -> GradientConfig:
    if config is not None and not isinstance(config, GradientConfig):
        raise ConfigError(f"config: got {shown(config)}, expected a GradientConfig")
    return GradientConfig() if config is None else config


def _both(returned: Any, shape: tuple[int, ...]) -> tuple[FloatArray, FloatArray]:
    if not isinstance(returned, tuple) or len(returned) != 2:
        raise ObjectiveError(f"objective: got {shown(returned)}, expected a pair (values, gradients)")
    values, gradients = returned
    return check_output("values", values, shape[:-1]), check_output("gradients", gradients, shape)


class Climb(NamedTuple):
    """Where r starts are, the running mean squares of their gradients, and the best that each has met."""

    actions: FloatArray  # (r, d)
    squares: FloatArray  # (r, d)
    best: FloatArray  # (r, d)
    best_value: FloatArray  # (r,)


def _climb(
    objective: Callable[[FloatArray], tuple[FloatArray, FloatArray]], region: Region, config: GradientConfig
) -> GradientResults:
    rows, d = region.start.shape
    climb = Climb(region.start.copy(), np.zeros((rows, d)), np.empty((rows, d)), np.full(rows, -np.inf))
    sizes = region.scale if config.step_size is None else np.full(rows, float(config.step_size))
    history = []
    for step in range(config.n_steps + 1):
        actions = climb.actions.reshape(-1, config.n_starts, d).copy()
        values, gradients = objective(actions)
        _refuse(values.reshape(-1), gradients.reshape(rows, d), climb.actions)
        left = 1.0 - step / max(1, config.n_steps)
        ascend(values.reshape(-1), gradients.reshape(rows, d), step, left * sizes, region, climb)
        history.append(climb.best_value.copy())
    return GradientResults(*best_starts(climb.best, climb.best_value, history, config.n_starts))


def _refuse(values: FloatArray, gradients: FloatArray, actions: FloatArray) -> None:
    """Refuse values and gradients that are not finite, with the first action that has one."""
    if np.isfinite(values).all() and np.isfinite(gradients).all():
        return
    for value, gradient, action in zip(values, gradients, actions, strict=True):
        if not np.isfinite(value):
            refuse_output("values", float(value), action)
        if not np.isfinite(gradient).all():
            refuse_output("gradients", float(gradient[~np.isfinite(gradient)][0]), action)


@jit
def ascend(
    values: FloatArray, gradients: FloatArray, step: int, sizes: FloatArray, region: Region, climb: Climb
) -> None:
    """Keep what is better than before, and move each of r actions by one step: `values (r,)`, `gradients (r, d)`."""
    for i in range(values.shape[0]):
        if values[i] > climb.best_value[i]:
            climb.best_value[i] = values[i]
            copy(climb.actions[i], climb.best[i])
        add_squares(gradients[i], region.radius[i] < np.inf, climb.squares[i])
        for k in range(gradients.shape[1]):
            square = climb.squares[i, k] / (1.0 - MEMORY ** (step + 1))
            if square > 0.0:
                climb.actions[i, k] += sizes[i] * gradients[i, k] / np.sqrt(square)
        project(climb.actions[i], region.centre[i], region.radius[i], region.a_max)


@jit
def add_squares(gradient: FloatArray, together: bool, squares: FloatArray) -> None:
    """Move the mean `squares (d,)` on by those of a `gradient (d,)`, or by their sum where they go `together`."""
    total = 0.0
    for g in gradient:
        total += g * g
    for k in range(gradient.shape[0]):
        square = total if together else gradient[k] * gradient[k]
        squares[k] = MEMORY * squares[k] + (1.0 - MEMORY) * square
