"""CEM: its formulas by hand, the optima that it must find, its contract, and what it refuses."""

from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.optimizers.landscapes import quadratic, rastrigin, rotated, typical
from zoosim.core.errors import ConfigError, ObjectiveError
from zoosim.optimizers import CEMConfig, cem_optimize, cem_optimize_many
from zoosim.optimizers.cem import refit

Floats = NDArray[np.float64]

FIRST = np.eye(1, 10)[0]
BEST = 0.5 * FIRST


def chapter(actions: Floats) -> Floats:
    """Value actions `(n, 10)` by equation 7.11 at x = [1, 0, 0, 0, 0]."""
    return np.asarray(actions @ FIRST - 0.1 * (actions**2).sum(axis=1))


@pytest.mark.parametrize(("own", "deviation"), [(True, 1.0), (False, 5**0.5)])
def test_refit_by_hand(own: bool, deviation: float) -> None:
    """Elites 1 and 3: mean 2, deviation 1 from it, and sqrt((1 + 9) / 2) from the former mean 0.

    With a weight of .25 on the former mean 0 and deviation 2: mean 1.5, deviation .5 + .75 of the elites'.
    """
    mean, std = np.zeros(1), np.full(1, 2.0)
    refit(np.array([[1.0], [9.0], [3.0]]), np.array([0, 2]), 0.25, 0.0, own, mean, std)
    assert mean[0] == pytest.approx(1.5)
    assert std[0] == pytest.approx(0.5 + 0.75 * deviation)


def test_refit_is_numpys_mean_and_deviation() -> None:
    """As the chapter prints it: `elite.mean(axis=0)`, `elite.std(axis=0)`, then the weighted means of old and new."""
    rng = np.random.default_rng(1)
    samples, elites = rng.normal(size=(20, 3)), np.array([4, 7, 11, 2])
    mean, std = rng.normal(size=3), rng.uniform(1, 2, 3)
    expected = 0.3 * mean + 0.7 * samples[elites].mean(axis=0), 0.3 * std + 0.7 * samples[elites].std(axis=0)
    refit(samples, elites, 0.3, 0.0, True, mean, std)
    np.testing.assert_allclose((mean, std), expected, rtol=1e-12)


def test_the_deviation_has_a_floor() -> None:
    mean, std = np.zeros(2), np.ones(2)
    refit(np.zeros((3, 2)), np.array([0, 1]), 0.0, 0.05, True, mean, std)
    assert std.tolist() == [0.05, 0.05]


def test_the_default_finds_the_chapters_optimum() -> None:
    """For 100 seeds that nothing was tuned on, within .01 of [.5, 0, ..., 0]."""
    found = [cem_optimize(chapter, 10, rng=np.random.default_rng(seed)) for seed in range(1000, 1100)]
    errors = [np.linalg.norm(result.action - BEST) for result in found]
    assert max(errors) < 0.01
    assert all(result.converged for result in found)
    assert all(result.value == chapter(result.action[np.newaxis])[0] for result in found)


def test_the_published_search_does_not() -> None:
    """Five iterations of 64 with a smoothing of .7 are an unfinished search: the check above can fail."""
    config = CEMConfig(n_samples=64, n_iters=5, elite_fraction=0.1, init_std=0.25, alpha=0.7, spread="elites")
    result = cem_optimize(chapter, 10, config, rng=np.random.default_rng(1000))
    assert np.linalg.norm(result.action - BEST) > 0.1
    assert not result.converged


@pytest.mark.parametrize("kind", ["quadratic", "rotated"])
@pytest.mark.parametrize("count", [30, pytest.param(100, marks=pytest.mark.slow)])
def test_ten_starts_agree_in_20_dimensions(count: int, kind: str) -> None:
    """On concave functions, from starts anywhere in the box: pairs within .1 of each other in all but one."""
    rng = np.random.default_rng(1000)
    one = quadratic(rng.normal(size=(count, 20))) if kind == "quadratic" else rotated(rng, count, 20)[0]

    def ten_times(actions: Floats) -> Floats:
        return one(actions.reshape(count, -1, 20)).reshape(10 * count, -1)

    starts = rng.uniform(-0.5, 0.5, (10 * count, 20))
    found = cem_optimize_many(ten_times, 10 * count, 20, rng=rng, init_mean=starts)
    ends = found.actions.reshape(count, 10, 20)
    apart = np.linalg.norm(ends[:, :, np.newaxis] - ends[:, np.newaxis], axis=3).max(axis=(1, 2))
    assert (apart < 0.1).sum() >= count - 1


def test_rastrigins_function() -> None:
    """10 dimensions, 100 optima anywhere: at least 97% of the way from a random action to the best, on the average."""
    centres = np.random.default_rng(1000).uniform(-0.4, 0.4, (100, 10))
    objective = rastrigin(centres)
    found = cem_optimize_many(objective, 100, 10, rng=np.random.default_rng(1000))
    share = 1 - found.values / typical(objective, 100, 10)
    assert share.mean() >= 0.97
    assert share.min() >= 0.93


@pytest.mark.parametrize(
    ("preset", "error", "way"), [("fast", (0.12, 0.16), (0.7, 0.76)), ("default", (0, 0.005), (0.985, 1))]
)
def test_presets_are_as_far_off_as_docs_say(preset: str, error: tuple[float, float], way: tuple[float, float]) -> None:
    config = CEMConfig.fast() if preset == "fast" else CEMConfig()
    found = cem_optimize_many(quadratic(np.tile(FIRST, (100, 1))), 100, 10, config, rng=np.random.default_rng(1000))
    errors = np.linalg.norm(found.actions - BEST, axis=1)
    objective = rastrigin(np.random.default_rng(1000).uniform(-0.4, 0.4, (100, 10)))
    found = cem_optimize_many(objective, 100, 10, config, rng=np.random.default_rng(1000))
    shares = 1 - found.values / typical(objective, 100, 10)
    print(f"{preset}: {errors.mean():.4f} off ({errors.max():.4f} at worst), {shares.mean():.3f} of the way")
    assert error[0] <= errors.mean() <= error[1]
    assert way[0] <= shares.mean() <= way[1]


def alone_at(x: Floats, actions: Floats) -> Floats:
    """Value the actions of one request as `quadratic` does those of many."""
    return np.asarray(quadratic(x[np.newaxis])(actions[np.newaxis])[0])


def test_many_requests_get_what_each_gets_alone() -> None:
    x = np.random.default_rng(0).normal(size=(5, 4))
    together = cem_optimize_many(quadratic(x), 5, 4, rng=np.random.default_rng(7))
    rng = np.random.default_rng(7)
    for i in range(5):
        alone = cem_optimize(partial(alone_at, x[i]), 4, rng=rng)
        assert np.array_equal(alone.action, together.actions[i])
        assert alone.value == together.values[i]
        assert alone.history[-1] == together.histories[i, -1]
        assert alone.n_evaluations == together.n_evaluations[i] == 96 * len(alone.history)


def test_spreads_are_norms_of_the_deviations_after_each_iteration() -> None:
    """Without smoothing they are the root mean squares of the elites' deviations from the mean before, 0 at first."""
    seen: list[Floats] = []

    def record(actions: Floats) -> Floats:
        seen.append(actions.copy())
        return chapter(actions)

    config = CEMConfig(n_samples=40, n_iters=2, elite_fraction=0.25, alpha=0.0)
    result = cem_optimize(record, 10, config, rng=np.random.default_rng(0))
    mean = np.zeros(10)
    for samples, spread in zip(seen, result.spreads, strict=True):
        elites = samples[np.argsort(-chapter(samples))[:10]]
        assert spread == pytest.approx(np.linalg.norm(np.sqrt(np.mean((elites - mean) ** 2, axis=0))))
        mean = elites.mean(axis=0)


def test_spreads_are_those_of_the_widest_start_of_each_request() -> None:
    x = np.random.default_rng(0).normal(size=(3, 4))
    config = CEMConfig(n_starts=2)
    many = cem_optimize_many(quadratic(x), 3, 4, config, rng=np.random.default_rng(7))
    assert many.spreads.shape == many.histories.shape
    assert (many.spreads[:, -1] <= 4**0.5 * 0.002 * 0.5).all()  # the tolerance in each of 4 dimensions
    one = cem_optimize(partial(alone_at, x[0]), 4, config, rng=np.random.default_rng(7))
    assert one.spreads.tolist() == many.spreads[0, : len(one.spreads)].tolist()


def test_a_generator_repeats_and_never_gives_the_same_noise_twice() -> None:
    seen: list[Floats] = []

    def record(actions: Floats) -> Floats:
        seen.append(actions.copy())
        return chapter(actions)

    config, rng = CEMConfig(n_iters=3, n_starts=2), np.random.default_rng(0)
    first, second = (cem_optimize(record, 10, config, rng=rng) for _ in range(2))
    again = cem_optimize(record, 10, config, rng=np.random.default_rng(0))
    assert np.array_equal(first.action, again.action)
    assert not np.array_equal(first.action, second.action)
    noise = np.concatenate([batch[:, 1] for batch in seen[:6]])
    inside = noise[np.abs(noise) < 0.5]
    assert len(np.unique(inside)) == len(inside) - 1  # both calls begin at the same mean


@pytest.mark.parametrize("start", [None, [0.1, 0.2, 0.3]])
def test_the_mean_is_the_first_sample_and_starts_at_0(start: list[float] | None) -> None:
    seen: list[Floats] = []

    def record(actions: Floats) -> Floats:
        seen.append(actions.copy())
        return np.asarray(actions.sum(axis=1))

    config = CEMConfig(n_iters=1, n_samples=8)
    cem_optimize(record, 3, config, rng=np.random.default_rng(0), init_mean=start)
    assert seen[0][0].tolist() == (start or [0, 0, 0])
    assert seen[0].shape == (8, 3)


def test_a_warm_start_converges_sooner() -> None:
    cold = cem_optimize(chapter, 10, rng=np.random.default_rng(0))
    config = CEMConfig(init_std=0.05)
    warm = cem_optimize(chapter, 10, config, rng=np.random.default_rng(0), init_mean=BEST)
    assert len(warm.history) < 0.8 * len(cold.history)
    assert warm.value >= 0.475 - 1e-12


def test_restarts_find_a_distant_peak() -> None:
    """A narrow tall peak in a corner beside a broad low one at 0: one start in the middle finds the broad one."""
    corner = np.full(2, 0.45)

    def two_peaks(a: Floats) -> Floats:
        broad = np.exp(-(a**2).sum(axis=1) / 0.02)
        narrow = 2 * np.exp(-((a - corner) ** 2).sum(axis=1) / 0.0005)
        return np.asarray(broad + narrow)

    config: dict[str, Any] = {"n_samples": 16, "init_std": 0.05}
    one = [cem_optimize(two_peaks, 2, CEMConfig(**config), rng=np.random.default_rng(s)).value for s in range(10)]
    many = CEMConfig(**config, n_starts=32)
    best = [cem_optimize(two_peaks, 2, many, rng=np.random.default_rng(s)).value for s in range(10)]
    assert max(one) < 1.01
    assert sum(value > 1.9 for value in best) >= 5


def test_a_flat_objective_ends_at_once() -> None:
    result = cem_optimize(lambda a: np.zeros(len(a)), 3, rng=np.random.default_rng(0))
    assert result.converged
    assert result.history.tolist() == [0.0]
    assert result.action.tolist() == [0, 0, 0]


def test_all_samples_and_the_optimum_lie_in_the_trust_region() -> None:
    """x'a on the ball of radius .2 around a base: the maximum is base + .2 x / |x| where the box does not cut it."""
    x, base = np.array([1.0, -2.0, 2.0]), np.array([0.1, 0.2, -0.2])

    def value(a: Floats) -> Floats:
        assert np.linalg.norm(a - base, axis=1).max() <= 0.2 * (1 + 1e-12)
        assert np.abs(a).max() <= 0.5
        return np.asarray(a @ x)

    config = CEMConfig(trust_region_delta=0.2, n_starts=3)
    result = cem_optimize(value, 3, config, rng=np.random.default_rng(0), base_action=base)
    assert result.action == pytest.approx(base + 0.2 * x / 3, abs=2e-3)
    wide = cem_optimize(lambda a: a @ x, 3, rng=np.random.default_rng(0), base_action=base, radius=3.0)
    assert wide.action == pytest.approx([0.5, -0.5, 0.5], abs=2e-3)


def test_each_request_has_its_own_radius() -> None:
    x, radii = np.array([[3.0, 4.0]] * 3), np.array([0.05, 0.1, 0.5])
    found = cem_optimize_many(
        quadratic(x), 3, 2, rng=np.random.default_rng(0), base_action=np.zeros((3, 2)), radius=radii
    )
    assert np.linalg.norm(found.actions, axis=1) == pytest.approx(radii, abs=1e-3)
    assert found.actions[0] == pytest.approx([0.03, 0.04], abs=1e-3)


def test_the_search_scales_with_the_box() -> None:
    """The same function in a box a thousand times as wide: the same steps, a thousand times as long."""
    small = cem_optimize(lambda a: chapter(a), 10, rng=np.random.default_rng(0))
    large = cem_optimize(lambda a: chapter(a / 1000), 10, CEMConfig(a_max=500.0), rng=np.random.default_rng(0))
    assert large.action / 1000 == pytest.approx(small.action, abs=1e-9)
    assert len(large.history) == len(small.history)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"elite_fraction": 0}, "CEMConfig.elite_fraction: got 0, expected a number above 0 and at most 1"),
        ({"elite_fraction": 1.5}, "CEMConfig.elite_fraction: got 1.5, expected"),
        ({"elite_fraction": 0.01}, "CEMConfig.elite_fraction: got 0.01, one of 96 samples; expected at least 2 elites"),
        ({"n_samples": 1}, "CEMConfig.n_samples: got 1, expected a whole number, 2 to 1,000,000"),
        ({"n_samples": 64.0}, "CEMConfig.n_samples: got 64.0"),
        ({"n_iters": 0}, "CEMConfig.n_iters: got 0, expected"),
        ({"n_starts": True}, "CEMConfig.n_starts: got True"),
        ({"alpha": 1.1}, "CEMConfig.alpha: got 1.1, expected a number, 0 to 1"),
        ({"alpha": float("nan")}, "CEMConfig.alpha: got nan"),
        ({"a_max": -1.0}, "CEMConfig.a_max: got -1.0"),
        ({"init_std": -0.1}, "CEMConfig.init_std: got -0.1"),
        ({"init_std": 0.0}, "CEMConfig.init_std: got 0, expected more than min_std and tolerance, 0: it would end at"),
        ({"init_std": 0.1, "tolerance": 0.2}, "CEMConfig.init_std: got 0.1, expected more than min_std and tolerance"),
        ({"init_std": 0.1, "min_std": 0.1}, "CEMConfig.init_std: got 0.1, expected more than min_std and tolerance"),
        ({"min_std": "small"}, "CEMConfig.min_std: got 'small'"),
        ({"tolerance": float("inf")}, "CEMConfig.tolerance: got inf"),
        ({"trust_region_delta": 0.0}, "CEMConfig.trust_region_delta: got 0.0, expected a number, 1e-09 to 1e"),
        ({"spread": "wide"}, "CEMConfig.spread: got 'wide', expected former or elites"),
    ],
)
def test_a_configuration_that_does_not_fit_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        CEMConfig(**values)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rng": 0}, r"rng: got 0, expected a generator, such as np.random.default_rng\(0\)"),
        ({"config": {}}, r"config: got \{\}, expected a CEMConfig"),
        ({"init_mean": [0.0]}, r"init_mean: got an array of shape \(1,\), expected \(10,\)"),
        ({"init_mean": [0.6] * 10}, "init_mean: got a coordinate of size 0.6, expected at most a_max = 0.5; clip it"),
        ({"init_mean": [float("nan")] * 10}, "init_mean: got array"),
        ({"base_action": [0.0] * 10}, "radius: got none, but base_action; a trust region needs both, or neither"),
        ({"radius": 0.1}, "base_action: got none, but a radius"),
        (
            {"config": CEMConfig(init_std=1e-3)},
            "CEMConfig.init_std: got 0.001, expected more than 0.001, the tolerance",
        ),
        ({"config": CEMConfig.fast(trust_region_delta=0.2)}, "base_action: got none, but a radius"),
        ({"base_action": [0.0] * 10, "radius": -1.0}, "radius: got -1.0, expected finite numbers of at least 1e-09"),
        ({"action_dim": 0}, "action_dim: got 0, expected a whole number, 1"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(arguments: dict[str, Any], message: str) -> None:
    call: dict[str, Any] = {"objective": chapter, "action_dim": 10, "rng": np.random.default_rng(0), **arguments}
    with pytest.raises(ConfigError, match=message):
        cem_optimize(**call)


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (lambda a: np.where(np.arange(len(a)) == 7, np.nan, 0.0), "objective: its values hold nan at action"),
        (lambda a: np.full(len(a), np.inf), "objective: its values hold inf at action"),
        (lambda a: a, r"objective: its values have the shape \(96, 10\), expected \(96,\)"),
        (lambda a: 0.0, r"objective: its values have the shape \(\), expected \(96,\)"),
        (lambda a: None, "objective: its values"),
        (lambda a: ["x"] * len(a), r"objective: its values are \['x'"),
    ],
)
def test_values_that_cannot_be_used_are_refused(returned: Any, message: str) -> None:
    with pytest.raises(ObjectiveError, match=message):
        cem_optimize(returned, 10, rng=np.random.default_rng(0))


def test_the_action_with_the_bad_value_is_told() -> None:
    def value(a: Floats) -> Floats:
        return np.where(a[:, 0] > 0.49, np.nan, a[:, 0])

    with pytest.raises(ObjectiveError, match=r"hold nan at action \[ ?0\.(49|5)"):
        cem_optimize(value, 2, rng=np.random.default_rng(0))


def test_an_objective_may_work_in_place() -> None:
    def objective(actions: np.ndarray) -> np.ndarray:
        actions += 5.0
        return np.asarray(-np.sum((actions - 5.2) ** 2, axis=1))

    found = cem_optimize(objective, 2, CEMConfig(a_max=0.5), rng=np.random.default_rng(0))
    np.testing.assert_allclose(found.action, 0.2, atol=1e-2)
