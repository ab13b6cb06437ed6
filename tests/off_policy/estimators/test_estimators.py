"""Each estimator against a second computation: plain loops over fractions, and worlds whose every outcome is listed."""

import itertools
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from zoosim.core.errors import ConfigError, DataError
from zoosim.core.types import FloatArray
from zoosim.off_policy.estimators import boosts, rankings, single
from zoosim.off_policy.estimators.terms import Terms

TIGHT = 1e-10


def example(seed: int, n: int = 50) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Weights, rewards, predicted, expected, in eighths: exact in both computations."""
    rng = np.random.default_rng(seed)
    weights, rewards = rng.integers(0, 40, n) / 8, rng.integers(-8, 17, n) / 8
    return weights, rewards, rng.integers(0, 9, n) / 8, rng.integers(0, 9, n) / 8


def plain(seed: int) -> dict[str, Fraction]:
    """The same estimators in one loop over fractions, from the formulas; limit 2, threshold 1.5, shrinkage 3."""
    n, sums = 50, dict.fromkeys(("dm", "ips", "clip", "dr", "switch", "shrunk", "w", "wr", "wres"), Fraction(0))
    for w, r, p, e in zip(*[[Fraction(v) for v in array.tolist()] for array in example(seed)], strict=True):
        sums["dm"] += e
        sums["ips"] += w * r
        sums["clip"] += min(w, Fraction(2)) * r
        sums["dr"] += e + w * (r - p)
        sums["switch"] += e + (w * (r - p) if w <= Fraction(3, 2) else 0)
        sums["shrunk"] += e + 3 * w / (w * w + 3) * (r - p)
        sums["w"], sums["wr"], sums["wres"] = sums["w"] + w, sums["wr"] + w * r, sums["wres"] + w * (r - p)
    means = {name: total / n for name, total in sums.items()}
    return {**means, "snips": sums["wr"] / sums["w"], "sndr": means["dm"] + sums["wres"] / sums["w"]}


@pytest.mark.parametrize("seed", range(5))
def test_single_action_estimators_are_those_of_a_plain_loop(seed: int) -> None:
    w, r, p, e = example(seed)
    found = {
        "dm": single.direct_method(e),
        "ips": single.ips(w, r),
        "clip": single.clipped_ips(w, r, 2.0),
        "snips": single.self_normalised_ips(w, r),
        "dr": single.doubly_robust(w, r, p, e),
        "sndr": single.self_normalised_dr(w, r, p, e),
        "switch": single.switch_dr(w, r, p, e, 1.5),
        "shrunk": single.shrunk_dr(w, r, p, e, 3.0),
    }
    expected = plain(seed)
    for name, terms in found.items():
        assert abs(terms.value - float(expected[name])) < TIGHT, name
        assert abs(terms.influence().mean()) < TIGHT, name


def test_influence_is_the_derivative_of_the_estimate_by_a_rows_weight() -> None:
    """Counting row i 1 + h times moves the value by h influence_i / n: against a central difference."""
    w, r, p, e = example(1)
    for terms in (single.self_normalised_dr(w, r, p, e), single.self_normalised_ips(w, r), single.ips(w, r)):
        for i, h in itertools.product((0, 7, 31), (1e-4,)):

            def value(counts: FloatArray, terms: Terms = terms) -> float:
                base = float(counts @ terms.base / counts.sum())
                return (
                    base
                    if terms.top is None or terms.bottom is None
                    else base + float(counts @ terms.top / (counts @ terms.bottom))
                )

            up, down = np.ones(len(w)), np.ones(len(w))
            up[i], down[i] = 1 + h, 1 - h
            slope = (value(up) - value(down)) / (2 * h)
            assert slope == pytest.approx(terms.influence()[i] / len(w), rel=1e-6, abs=1e-9)


def test_limits_and_shrinkage_lead_from_one_estimator_to_the_other() -> None:
    w, r, p, e = example(2)
    direct, robust = single.direct_method(e).value, single.doubly_robust(w, r, p, e).value
    assert single.shrunk_dr(w, r, p, e, 0.0).value == direct
    assert single.shrunk_dr(w, r, p, e, 1e14).value == pytest.approx(robust, abs=1e-10)
    assert single.switch_dr(w, r, p, e, 0.0).value == direct
    assert single.switch_dr(w, r, p, e, 5.0).value == robust
    assert single.clipped_ips(w, r, 5.0).value == single.ips(w, r).value


def test_unbiased_estimators_meet_the_value_over_all_outcomes() -> None:
    """Two contexts, three actions, clicks in quarters: the log in which every outcome stands as often as is likely."""
    pb, pe = np.array([[1, 2, 5], [4, 2, 2]]) / 8, np.array([[0.1, 0.2, 0.7], [0.0, 1.0, 0.0]])
    q, guess = np.array([[1, 3, 2], [0, 2, 4]]) / 4, np.array([[0.3, -1.0, 2.0], [0.7, 0.1, 0.2]])
    cells = [(x, a, r) for x in range(2) for a in range(3) for r in (0, 1)]
    counts = [int(8 * pb[x, a] * 4 * (q[x, a] if r else 1 - q[x, a])) for x, a, r in cells]
    x, a, r = (np.repeat([cell[k] for cell in cells], counts) for k in range(3))
    w, truth = (pe / pb)[x, a], float((pe * q).sum(axis=1).mean())
    expected = (pe * guess).sum(axis=1)[x]
    assert len(r) == 64
    assert abs(single.ips(w, r * 1.0).value - truth) < TIGHT
    assert abs(single.self_normalised_ips(w, r * 1.0).value - truth) < TIGHT
    assert abs(single.doubly_robust(w, r * 1.0, guess[x, a], expected).value - truth) < TIGHT
    assert abs(single.self_normalised_dr(w, r * 1.0, guess[x, a], expected).value - truth) < TIGHT
    assert abs(single.direct_method(expected).value - truth) > 0.05  # a wrong model misleads it


class Rankings:
    """All rankings of 2 of 3 actions with all clicks, by probability: what an estimator comes to on average.

    `depends` says what the click at a position depends on: "own" action, those "above" too, or "all".
    """

    def __init__(self, depends: str) -> None:
        rng = np.random.default_rng(5)
        logging, target = self._policy(rng), self._policy(rng)
        table = rng.random((3, 3, 2))
        rows = []
        for i, j in itertools.permutations(range(3), 2):
            seen = {"own": (table[i, i, 0], table[j, j, 1]), "above": (table[i, i, 0], table[i, j, 1])}
            clicks = seen.get(depends, (table[i, j, 0], table[i, j, 1]))
            for outcome in itertools.product((0, 1), repeat=2):
                chance = math.prod(c if o else 1 - c for c, o in zip(clicks, outcome, strict=True))
                rows.append((i, j, *outcome, logging[i, j] * chance, target[i, j] * chance))
        self.shown = np.array([row[:2] for row in rows])
        self.rewards = np.array([row[2:4] for row in rows]) * np.array([1.0, 0.5])  # a lower click earns half
        self.chance, aimed = np.array([row[4] for row in rows]), np.array([row[5] for row in rows])
        self.truth = float((aimed[:, None] * self.rewards).sum())
        self.target = target
        a, b = self.shown[:, 0], self.shown[:, 1]
        tops = [policy.sum(axis=1) for policy in (target, logging)]
        self.weights = np.stack(
            [(tops[0] / tops[1])[a], (target[a, b] / tops[0][a]) / (logging[a, b] / tops[1][a])], axis=1
        )
        self.marginal = np.stack([(tops[0] / tops[1])[a], (target.sum(axis=0) / logging.sum(axis=0))[b]], axis=1)

    @staticmethod
    def _policy(rng: np.random.Generator) -> FloatArray:
        joint = rng.random((3, 3)) * (1 - np.eye(3))
        return np.asarray(joint / joint.sum())

    def mean(self, terms: Terms) -> float:
        return float(self.chance @ terms.base)


@pytest.mark.parametrize(
    ("estimator", "sound"),
    [("standard", ["own", "above", "all"]), ("cascade", ["own", "above"]), ("independent", ["own"])],
)
@pytest.mark.parametrize("depends", ["own", "above", "all"])
def test_ranking_estimators_are_unbiased_where_they_claim_to_be(estimator: str, sound: list[str], depends: str) -> None:
    world, rng = Rankings(depends), np.random.default_rng(9)
    a, b = world.shown.T
    weights = world.marginal if estimator == "independent" else world.weights
    wanted = pytest.approx(world.truth, abs=TIGHT)
    ips = world.mean(getattr(rankings, f"{estimator}_ips")(weights, world.rewards))
    g1, g2, target = rng.random(3), rng.random((3, 3)), world.target  # any guesses, right or wrong
    top, given = target.sum(axis=1), target / target.sum(axis=1)[:, None]
    guesses = {
        "standard": (g2[a, b], np.full(len(a), (target * g2).sum())),
        "independent": (
            np.stack([g1[a], g2[0, b]], axis=1),
            np.tile([top @ g1, target.sum(axis=0) @ g2[0]], (len(a), 1)),
        ),
        "cascade": (
            np.stack([g1[a], g2[a, b]], axis=1),
            np.stack([np.full(len(a), top @ g1), (given * g2).sum(axis=1)[a]], axis=1),
        ),
    }
    dr = world.mean(getattr(rankings, f"{estimator}_dr")(weights, world.rewards, *guesses[estimator]))
    if depends in sound:
        assert ips == wanted
        assert dr == wanted
    else:
        assert abs(ips - world.truth) > 1e-3  # the assumption is needed
        assert abs(dr - world.truth) > 1e-3


def test_one_position_makes_all_ranking_estimators_the_same() -> None:
    w, r, p, e = (array[:, None] for array in example(3))
    flat = example(3)
    for name in ("standard", "independent", "cascade"):
        assert getattr(rankings, f"{name}_ips")(w, r).value == pytest.approx(single.ips(*flat[:2]).value, abs=TIGHT)
    for dr in (rankings.independent_dr(w, r, p, e), rankings.cascade_dr(w, r, p, e)):
        assert dr.value == pytest.approx(single.doubly_robust(*flat).value, abs=TIGHT)


def quadrature(target: float, h: float, order: int = 12) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Points, weights and densities of U[-1, 1] that integrate polynomials over the kernel's support exactly."""
    low, high = max(-1.0, target - h), min(1.0, target + h)
    nodes, measure = np.polynomial.legendre.leggauss(order)
    points = (low + high) / 2 + (high - low) / 2 * nodes
    return points, measure * (high - low) / 2 * 0.5, np.full(order, 0.5)


@pytest.mark.parametrize("target", [0.0, 0.4, 0.95, -1.0])
def test_kernel_estimators_blur_a_quadratic_as_the_closed_form_says(target: float) -> None:
    """r(a) = 2 + a - 3 a^2, a ~ U[-1, 1], h = .3. Inside the box the blurred value is r(t) + r''/2 h^2 / 5; at the edge
    the kernel's moments over what is left of its support, from the antiderivatives, take the place of 1, 0 and 1/5."""
    h = 0.3
    low, high = max(-1.0, (-1.0 - target) / h), min(1.0, (1.0 - target) / h)
    ends = ((high, 0.75), (low, -0.75))
    moments = [sum(s * (u ** (k + 1) / (k + 1) - u ** (k + 3) / (k + 3)) for u, s in ends) for k in range(3)]
    m1, m2 = moments[1] / moments[0], moments[2] / moments[0]
    truth = 2 + target - 3 * target**2 + (1 - 6 * target) * h * m1 - 3 * h**2 * m2
    if abs(target) < 0.7:
        assert truth == pytest.approx(2 + target - 3 * target**2 - 3 * h**2 / 5, abs=1e-14)
    a, measure, density = quadrature(target, h)
    reward, targets = 2 + a - 3 * a**2, np.full((len(a), 1), target)
    weights = boosts.kernel_weights(a[:, None], density, targets, h, -1.0, 1.0)
    chance = measure  # of each point under the logging policy
    assert chance @ single.ips(weights, reward).base == pytest.approx(truth, abs=TIGHT)
    assert chance @ weights == pytest.approx(1.0, abs=TIGHT)
    guess, at_target = 1 + 0.5 * a, np.full(len(a), 1 + 0.5 * target)
    # the correction's mean is truth less the blurred guess, and `expected` stands for rows beyond the support, too
    dr = chance @ (single.doubly_robust(weights, reward, guess, at_target).base - at_target) + 1 + 0.5 * target
    assert dr == pytest.approx(truth - 0.5 * h * m1, abs=TIGHT)
    ratio = single.self_normalised_ips(weights, reward)
    assert ratio.top is not None
    assert ratio.bottom is not None
    assert (chance @ ratio.top) / (chance @ ratio.bottom) == pytest.approx(truth, abs=TIGHT)


def test_kernel_weights_in_two_dimensions_are_products() -> None:
    rng = np.random.default_rng(4)
    a, t, density = rng.uniform(-1, 1, (40, 2)), rng.uniform(-1, 1, (40, 2)), np.full(40, 0.25)
    both = boosts.kernel_weights(a, density, t, 0.8, -1.0, 1.0)
    parts = [boosts.kernel_weights(a[:, [k]], np.full(40, 0.5), t[:, [k]], 0.8, -1.0, 1.0) for k in range(2)]
    assert np.allclose(both, parts[0] * parts[1], atol=1e-14)
    assert (both > 0).sum() > 3


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda w, r: single.ips(w[:-1], r), "rewards: got shape .50,., expected .49,."),
        (lambda w, r: single.ips(-w, r), "weights: got -.*, expected 0 or more"),
        (lambda w, r: single.ips(w, np.where(r > 1, np.nan, r)), "rewards: got NaN or infinity in row"),
        (lambda w, r: single.ips(w[:0], r[:0]), "at least one row"),
        (lambda w, r: single.clipped_ips(w, r, 0.0), "limit: got 0.0, expected a finite number above 0"),
        (lambda w, r: single.shrunk_dr(w, r, r, r, float("nan")), "shrinkage: got nan"),
        (lambda w, r: rankings.standard_ips(w, r), "expected .visits, positions."),
        (lambda w, r: boosts.kernel_weights(r[:, None], w, r[:, None], 0.1, -9, 9), "densities: got 0"),
        (lambda w, r: boosts.kernel_weights(r[:, None], w + 1, r[:, None], 0.1, -1, 1), "actions: row .* outside"),
        (lambda w, r: boosts.kernel_weights(r[:, None], w + 1, r[:, None], 0.0, -9, 9), "bandwidth: got 0.0"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(call: Callable[[FloatArray, FloatArray], object], words: str) -> None:
    with pytest.raises((DataError, ConfigError), match=words):
        call(*example(0)[:2])
