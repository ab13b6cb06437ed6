"""Rewards that are misplaced, mixed up, too heavy in their tails, or in the hands of those who should not know them."""

from collections.abc import Callable

import numpy as np
from scipy.spatial import cKDTree

from benchmarks.quality.fooled.shop import Case, Rows, Shop, Way, age, at, draw_rows
from zoosim.core.types import FloatArray


def shifted_down(rng: np.random.Generator) -> Case:
    """Each row holds the reward of the row before."""
    return _shifted(rng, 1)


def shifted_up(rng: np.random.Generator) -> Case:
    """Each row holds the reward of the next row."""
    return _shifted(rng, -1)


def shifted_without_times(rng: np.random.Generator) -> Case:
    """Each row holds the reward of the row before, in a log without times."""
    return _shifted(rng, 1, has_times=False)


def leaks_into_a_feature(rng: np.random.Generator) -> Case:
    """A feature is the reward with noise, such as a score that was computed afterwards; the policy goes by others."""
    return _with_feature(rng, lambda rows: rows.rewards + 0.3 * rng.normal(size=len(rows)))


def is_a_feature(rng: np.random.Generator) -> Case:
    """A feature is the reward."""
    return _with_feature(rng, lambda rows: rows.rewards)


def leaks_weakly_into_a_feature(rng: np.random.Generator) -> Case:
    """A feature is the reward with as much noise as there is reward."""
    return _with_feature(rng, lambda rows: rows.rewards + 1.0 * rng.normal(size=len(rows)))


def time_on_page_as_feature(rng: np.random.Generator) -> Case:
    """A feature is how long the visitor stayed, which goes by the click and the product shown."""
    return _with_feature(rng, lambda rows: rng.exponential(1.0 + 4.0 * rows.rewards + 0.2 * rows.actions))


def policy_goes_by_the_leak(rng: np.random.Generator) -> Case:
    """The policy shows its favourite where a feature that leaks the reward is high, and any product elsewhere."""
    rows = draw_rows(Shop(rng))
    leak = rows.rewards + 0.3 * rng.normal(size=len(rows))
    rows.features = np.hstack([rows.features, leak[:, None]])
    even = np.full_like(rows.target, 1.0 / rows.shop.n_actions)
    sharp = rows.target**3 / (rows.target**3).sum(axis=1, keepdims=True)
    # At the decision there is no reward, and the feature is noise: all visitors get any product.
    rows.target = np.where(leak[:, None] > 0.5, sharp, even)
    fresh = rows.shop.visitors(20_000)
    return rows.case(float(rows.shop.click_rates(fresh).mean()))


def chances_with_the_reward_in_hand(rng: np.random.Generator) -> Case:
    """The column of the policy's probabilities was made by a model that had seen the rows' rewards."""
    return _peeking(rng, 2.0)


def chances_with_a_glance_at_the_reward(rng: np.random.Generator) -> Case:
    """The same, but the reward moves them by less."""
    return _peeking(rng, 0.7)


def table_with_the_reward_in_hand(rng: np.random.Generator) -> Case:
    """All of the policy's probabilities were made by a model that had seen the rows' rewards."""
    rows = draw_rows(Shop(rng))
    value = rows.shop.value()
    rows.target = _tilted(rows, 2.0)
    return rows.case(value)


def trained_on_the_same_rows(rng: np.random.Generator) -> Case:
    """The policy shows what earned most in the same rows among the 15 visitors that are most alike."""
    rows = draw_rows(Shop(rng))
    near = cKDTree(rows.features[:, 3:]).query(rows.features[:, 3:], 15)[1]
    earned = np.zeros_like(rows.target)
    seen = np.zeros_like(rows.target)
    for column in near.T:
        np.add.at(earned, (np.arange(len(rows)), rows.actions[column]), rows.rewards[column])
        np.add.at(seen, (np.arange(len(rows)), rows.actions[column]), 1.0)
    best = ((earned + 0.2) / (seen + 1.0)).argmax(axis=1)
    k = rows.shop.n_actions
    rows.target = 0.1 / k + 0.9 * (np.arange(k) == best[:, None])
    # The same visitors, at other visits.
    value = float((rows.target * rows.click_rates).sum(axis=1).mean())
    return rows.case(value)


def mixed_units(rng: np.random.Generator) -> Case:
    """Revenue in euros, and from the middle of the log on in cents."""
    rows = _revenue(rng, rng.lognormal(0.0, 0.5, size=4_000))
    rows.rewards = rows.rewards * np.where(age(rows) > 0.5, 100.0, 1.0)
    return rows.case(rows.shop.value() * float(np.exp(0.125)))


def mixed_units_at_the_end(rng: np.random.Generator) -> Case:
    """Revenue in euros, and in the last tenth of the log in thousands."""
    rows = _revenue(rng, rng.lognormal(0.0, 0.5, size=4_000))
    rows.rewards = rows.rewards / np.where(age(rows) > 0.9, 1_000.0, 1.0)
    return rows.case(rows.shop.value() * float(np.exp(0.125)))


def pareto_1_2(rng: np.random.Generator) -> Case:
    """Revenue with a Pareto tail of index 1.2."""
    return _pareto(rng, 1.2)


def pareto_1_5(rng: np.random.Generator) -> Case:
    """Revenue with a Pareto tail of index 1.5."""
    return _pareto(rng, 1.5)


def pareto_1_8(rng: np.random.Generator) -> Case:
    """Revenue with a Pareto tail of index 1.8."""
    return _pareto(rng, 1.8)


def lognormal_2(rng: np.random.Generator) -> Case:
    """Revenue with a logarithm of standard deviation 2."""
    rows = _revenue(rng, rng.lognormal(0.0, 2.0, size=4_000))
    return rows.case(rows.shop.value() * float(np.exp(2.0)))


def _shifted(rng: np.random.Generator, by: int, has_times: bool = True) -> Case:
    rows = draw_rows(Shop(rng))
    rows.rewards = np.roll(rows.rewards, by)
    rows.has_times = has_times
    return rows.case(rows.shop.value())


def _with_feature(rng: np.random.Generator, make: Callable[[Rows], FloatArray]) -> Case:
    rows = draw_rows(Shop(rng))
    rows.features = np.hstack([rows.features, make(rows)[:, None]])
    return rows.case(rows.shop.value())


def _tilted(rows: Rows, by: float) -> FloatArray:
    """Return the policy's probabilities `(n, K)`, of the logged action higher where it was clicked, lower elsewhere."""
    is_logged = np.arange(rows.shop.n_actions) == rows.actions[:, None]
    centred = rows.rewards - rows.rewards.mean()
    weights = rows.target * np.exp(by * centred[:, None] * is_logged)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _peeking(rng: np.random.Generator, by: float) -> Case:
    rows = draw_rows(Shop(rng))
    return rows.case(rows.shop.value(), policy=False, column=at(_tilted(rows, by), rows.actions))


def _revenue(rng: np.random.Generator, amounts: FloatArray) -> Rows:
    rows = draw_rows(Shop(rng))
    rows.rewards = rows.rewards * amounts
    return rows


def _pareto(rng: np.random.Generator, index: float) -> Case:
    rows = _revenue(rng, 1.0 + rng.pareto(index, size=4_000))
    return rows.case(rows.shop.value() * index / (index - 1.0))


SHIFTED: tuple[Way, ...] = (shifted_down, shifted_up, shifted_without_times)
LEAKS: tuple[Way, ...] = (
    leaks_into_a_feature,
    is_a_feature,
    leaks_weakly_into_a_feature,
    time_on_page_as_feature,
    policy_goes_by_the_leak,
)
PEEKING: tuple[Way, ...] = (
    chances_with_the_reward_in_hand,
    chances_with_a_glance_at_the_reward,
    table_with_the_reward_in_hand,
    trained_on_the_same_rows,
)
UNITS: tuple[Way, ...] = (mixed_units, mixed_units_at_the_end)
TAILS: tuple[Way, ...] = (pareto_1_2, pareto_1_5, pareto_1_8, lognormal_2)
