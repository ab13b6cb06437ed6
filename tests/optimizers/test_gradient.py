"""Projected gradient ascent: its steps by hand, known optima, its contract, and what it refuses."""

from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.optimizers.landscapes import quadratic
from zoosim.core.errors import ConfigError, ObjectiveError
from zoosim.optimizers import CEMConfig, cem_optimize
from zoosim.optimizers.gradient import GradientConfig, add_squares, gradient_ascent, gradient_ascent_many

Floats = NDArray[np.float64]
Pair = tuple[Floats, Floats]


def chapter(actions: Floats) -> Pair:
    """Value actions `(..., 10)` by equation 7.11 at x = [1, 0, 0, 0, 0], with gradients x - .2 a."""
    x = np.eye(1, actions.shape[-1])[0]
    return np.asarray(actions @ x - 0.1 * (actions**2).sum(axis=-1)), x - 0.2 * actions


@pytest.mark.parametrize(("together", "expected"), [(False, [0.9, 2.5]), (True, [2.5, 2.5])])
def test_mean_squares_by_hand(together: bool, expected: list[float]) -> None:
    """.9 of 0 and .1 of 3^2 = .9; .1 of 4^2 and .9 of 1 = 2.5; together .1 of 25 in both."""
    squares = np.array([0.0, 1.0 if not together else 0.0])
    add_squares(np.array([3.0, 4.0]), together, squares)
    assert squares == pytest.approx(expected)


def test_a_step_by_hand() -> None:
    """The first step is `step_size` along the sign of each gradient; the second, of two, half of it."""
    seen: list[Floats] = []

    def slope(actions: Floats) -> Pair:
        seen.append(actions[0].copy())
        return np.asarray(actions @ [2.0, -3.0]), np.tile([2.0, -3.0], (len(actions), 1))

    config = GradientConfig(n_starts=1, n_steps=2, step_size=0.1)
    result = gradient_ascent(slope, 2, config, rng=np.random.default_rng(0))
    assert seen[0].tolist() == [0, 0]
    assert seen[1] == pytest.approx([0.1, -0.1])
    assert seen[2] == pytest.approx([0.15, -0.15])
    assert result.action == pytest.approx([0.15, -0.15])
    assert result.history == pytest.approx([0, 0.5, 0.75])


def test_the_default_finds_the_chapters_optimum() -> None:
    best = 0.5 * np.eye(1, 10)[0]
    found = [gradient_ascent(chapter, 10, rng=np.random.default_rng(seed)) for seed in range(1000, 1100)]
    assert max(np.linalg.norm(result.action - best) for result in found) < 0.01


def test_in_a_trust_region_it_ends_where_the_ball_stops_the_gradient() -> None:
    """x'a on the ball of radius .2 around a base: base + .2 x / |x|. Scaling coordinates apart would end elsewhere."""
    x, base = np.array([1.0, -2.0, 2.0]), np.array([0.1, 0.2, -0.2])

    def slope(actions: Floats) -> Pair:
        assert np.linalg.norm(actions - base, axis=1).max() <= 0.2 * (1 + 1e-12)
        return np.asarray(actions @ x), np.tile(x, (len(actions), 1))

    result = gradient_ascent(slope, 3, rng=np.random.default_rng(0), base_action=base, radius=0.2)
    assert result.action == pytest.approx(base + 0.2 * x / 3, abs=1e-5)


def bowl(x: Floats, actions: Floats) -> Pair:
    return bowl_values(x, actions), x - 2 * actions


def bowl_values(x: Floats, actions: Floats) -> Floats:
    return np.asarray(actions @ x - (actions**2).sum(axis=1))


@pytest.mark.parametrize("radius", [0.1, 0.4, 1.0, None])
def test_it_agrees_with_cem_on_concave_functions(radius: float | None) -> None:
    """In boxes and balls alike, to a thousandth of what there is to gain."""
    rng = np.random.default_rng(1000)
    for x in rng.normal(size=(10, 10)):
        base = None if radius is None else rng.uniform(-0.4, 0.4, 10)
        where: dict[str, Any] = {"base_action": base, "radius": radius}

        climbed = gradient_ascent(partial(bowl, x), 10, rng=rng, **where)
        searched = cem_optimize(partial(bowl_values, x), 10, rng=rng, **where)
        start = 0.0 if base is None else bowl_values(x, base[np.newaxis])[0]
        assert climbed.value >= searched.value - 1e-3 * (searched.value - start)


def test_many_requests_get_what_each_gets_alone() -> None:
    x = np.random.default_rng(0).normal(size=(5, 4))

    def many(a: Floats) -> Pair:
        return quadratic(x)(a), x[:, np.newaxis] - 0.2 * a

    together = gradient_ascent_many(many, 5, 4, rng=np.random.default_rng(7))
    rng = np.random.default_rng(7)
    for i in range(5):

        def one(a: Floats, i: int = i) -> Pair:
            return quadratic(x[i : i + 1])(a[np.newaxis])[0], x[i] - 0.2 * a

        alone = gradient_ascent(one, 4, rng=rng)
        assert np.array_equal(alone.action, together.actions[i])
        assert np.array_equal(alone.history, together.histories[i])


def test_several_starts_leave_a_local_optimum() -> None:
    """sin(20a) + a: peaks where cos(20a) = -1/20, a tenth of pi apart. From -.2 the climb ends at -.23."""

    def waves(a: Floats) -> Pair:
        return np.asarray(np.sin(20 * a[:, 0]) + a[:, 0]), 20 * np.cos(20 * a) + 1

    single = GradientConfig(n_starts=1, step_size=0.02)
    low = gradient_ascent(waves, 1, single, rng=np.random.default_rng(0), init_mean=[-0.2])
    high = gradient_ascent(waves, 1, GradientConfig(), rng=np.random.default_rng(0), init_mean=[-0.2])
    assert low.action[0] == pytest.approx(np.arccos(-0.05) / 20 - np.pi / 10, abs=1e-3)
    assert high.action[0] == pytest.approx(np.arccos(-0.05) / 20 + np.pi / 10, abs=1e-3)


def test_an_actors_proposal_is_improved_or_kept() -> None:
    config, proposal = GradientConfig(n_starts=1, n_steps=3, step_size=0.05), np.full(10, 0.1)
    result = gradient_ascent(chapter, 10, config, rng=np.random.default_rng(0), init_mean=proposal)
    assert result.value > chapter(proposal[np.newaxis])[0][0]
    none = gradient_ascent(chapter, 10, GradientConfig(n_starts=1, n_steps=0), rng=np.random.default_rng(0))
    assert none.action.tolist() == [0.0] * 10


def test_no_slope_means_no_step() -> None:
    config = GradientConfig(n_starts=1)
    flat = gradient_ascent(lambda a: (np.zeros(len(a)), np.zeros(a.shape)), 2, config, rng=np.random.default_rng(0))
    assert flat.action.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"n_starts": 0}, "GradientConfig.n_starts: got 0, expected a whole number, 1"),
        ({"n_steps": -1}, "GradientConfig.n_steps: got -1"),
        ({"step_size": -0.1}, "GradientConfig.step_size: got -0.1"),
        ({"a_max": 0}, "GradientConfig.a_max: got 0, expected"),
        ({"trust_region_delta": float("nan")}, "GradientConfig.trust_region_delta: got nan"),
    ],
)
def test_a_configuration_that_does_not_fit_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        GradientConfig(**values)


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (lambda a: a.sum(axis=1), r"objective: got array.*, expected a pair \(values, gradients\)"),
        (lambda a: (a.sum(axis=1), a[:, :1]), r"its gradients have the shape \(8, 1\), expected \(8, 3\)"),
        (lambda a: (a, a), r"its values have the shape \(8, 3\), expected \(8,\)"),
        (lambda a: (np.full(len(a), np.nan), a), r"its values hold nan at action \[0"),
        (lambda a: (a.sum(axis=1), np.full(a.shape, np.inf)), r"its gradients hold inf at action \[0"),
    ],
)
def test_what_cannot_be_used_is_refused(returned: Any, message: str) -> None:
    with pytest.raises(ObjectiveError, match=message):
        gradient_ascent(returned, 3, rng=np.random.default_rng(0))


def test_a_wrong_config_is_refused() -> None:
    config: Any = CEMConfig()
    with pytest.raises(ConfigError, match=r"config: got CEMConfig.*, expected a GradientConfig"):
        gradient_ascent(chapter, 10, config, rng=np.random.default_rng(0))
