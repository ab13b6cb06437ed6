"""Two ridge models of different memory: whom they believe, and how sure they are."""

import numpy as np
import pytest

from zoosim.linear.lens import new_lens
from zoosim.linear.rivals import FADING, STEADY, Rivals, bounds, learn, new_rivals

ONE = np.ones(1)
FIRST = np.zeros(1, np.int64)


def bound(rivals: Rivals, alpha: float) -> float:
    """Return the bound of model 0 at its only feature, a constant."""
    lens = new_lens(np.zeros(0), np.zeros(1, np.int64), 1, False)
    return float(bounds(rivals, 0, lens, ONE.reshape(1, 1), alpha)[0])


def after(visits: int, chance: float, rivals: Rivals, seed: int = 0) -> Rivals:
    """Let model 0, a constant, see clicks with a chance."""
    rng = np.random.default_rng(seed)
    for _ in range(visits):
        learn(rivals, 0, ONE, FIRST, float(rng.random() < chance))
    return rivals


def test_by_hand() -> None:
    """After rewards 1 and 0 with lambda 1: theta = 1/3, A^-1 = 1/3; errors 1 and -1/2 move the noise by 1/500 each."""
    rivals = new_rivals(1, 1, 1e12)
    learn(rivals, 0, ONE, FIRST, 1.0)
    learn(rivals, 0, ONE, FIRST, 0.0)
    noise = 0.25 + (1 - 0.25) / 500
    noise += (0.25 - noise) / 500
    assert rivals.noise[0] == pytest.approx(noise)
    assert bound(rivals, 0.0) == pytest.approx(1 / 3)
    assert bound(rivals, 2.0) == pytest.approx(1 / 3 + 2 * np.sqrt(noise / 3))
    first, second = -np.log(0.01), -np.log(0.5)
    assert rivals.losses == pytest.approx([0.999 * first + second] * 2)


def test_where_nothing_moves_nothing_is_forgotten() -> None:
    """20,000 visits, seed 0: all weigh the same in the steady model, some 2,000 in the fading one."""
    rivals = after(20_000, 0.3, new_rivals(1, 1, 2_000.0))
    assert rivals.steady.gram[0, 0, 0] == 20_000
    assert rivals.fading.gram[0, 0, 0] == pytest.approx(2_000, rel=0.05)


def test_after_a_jump_the_past_is_dropped() -> None:
    """5,000 visits with chance .2, then 1,000 with .8, seed 0; with equal memories nothing is dropped."""
    rivals = after(1_000, 0.8, after(5_000, 0.2, new_rivals(1, 1, 500.0)))
    assert rivals.steady.gram[0, 0, 0] < 1_600
    assert rivals.steady.theta[0, 0] > 0.65
    slow = after(1_000, 0.8, after(5_000, 0.2, new_rivals(1, 1, 1e12)))
    assert slow.steady.gram[0, 0, 0] == 6_000
    assert slow.steady.theta[0, 0] < 0.35
    assert slow.losses[STEADY] == pytest.approx(slow.losses[FADING])


def test_certainty_fades_where_the_estimate_does_not() -> None:
    """Model 0 is not seen for 4,000 visits: its estimate stands, its bound widens."""
    rivals = after(500, 0.5, new_rivals(2, 1, 1_000.0))
    before = [bound(rivals, alpha) for alpha in (0.0, 1.0)]
    rng = np.random.default_rng(1)
    for _ in range(4_000):
        learn(rivals, 1, ONE, FIRST, float(rng.random() < 0.5))
    assert bound(rivals, 0.0) == before[0]
    assert bound(rivals, 1.0) > before[1] + 0.1
