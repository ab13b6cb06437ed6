"""The region of a search: a box and a trust region, starting points, and keys for random draws."""

from typing import Any, NamedTuple, Protocol

import numpy as np

from zoosim.core.checks import check_base, check_radius, check_rng, check_whole
from zoosim.core.errors import ConfigError
from zoosim.core.jit import jit
from zoosim.core.rng import uniform
from zoosim.core.types import FloatArray
from zoosim.optimizers.projection import project

STARTS = -1
"""The place of a key's draws that starts are made from; iterations have the numbers from 0 on."""


class Bounds(Protocol):
    """The fields that configurations of optimizers share."""

    @property
    def a_max(self) -> float: ...
    @property
    def trust_region_delta(self) -> float | None: ...
    @property
    def n_starts(self) -> int: ...


class Region(NamedTuple):
    """Starting point, ball and box of r starts; starts of a request stand next to each other."""

    keys: np.ndarray  # (r,) of the draws of each start
    start: FloatArray  # (r, d)
    centre: FloatArray  # (r, d)
    radius: FloatArray  # (r,) infinity without a trust region
    scale: FloatArray  # (r,) the smaller of a_max and the radius
    a_max: float


def make_region(
    config: Bounds, n_requests: int | None, d: int, rng: np.random.Generator, init: Any, base: Any, radius: Any
) -> Region:
    """Check the arguments of a search, and draw a key for each start.

    Args:
        config: Half the width of the box, the radius where a call gives none, and the number of starts per request.
        n_requests: Number m of requests; None for a single one, whose arrays have no axis of requests.
        d: Length of an action.
        rng: Each start draws one number from it.
        init: Where first starts begin, `(m, d)` or `(d,)`, inside the box; None for `base`, or 0 without it.
        base: Centres of the trust regions, `(m, d)` or `(d,)`, inside the box; None for no trust region.
        radius: Radii of the trust regions, `(m,)` or a number; None for `config.trust_region_delta`.

    Raises:
        ConfigError: An argument is out of range or of another shape, or of base and radius only one is known.
    """
    requests = 1 if n_requests is None else n_requests
    check_whole("n_requests", requests, 1, 10_000_000)
    check_whole("action_dim", d, 1, 100_000)
    check_rng(rng)
    a_max = float(config.a_max)
    n_starts = config.n_starts
    shape = (d,) if n_requests is None else (n_requests, d)
    radii = np.broadcast_to(_radii(config, shape[:-1], base, radius), (requests,))
    centre = np.zeros(shape) if base is None else check_base("base_action", base, shape, a_max)
    first = centre if init is None else check_base("init_mean", init, shape, a_max)
    # From one row per request to one row per start.
    centres = np.repeat(centre.reshape(requests, d), n_starts, axis=0)
    starts = np.repeat(first.reshape(requests, d), n_starts, axis=0)
    radii = np.repeat(radii, n_starts)
    # One number per start in one call, row by row: m requests at once draw what m calls in turn would.
    keys = rng.integers(0, 2**64, size=len(starts), dtype=np.uint64)
    _place_starts(keys, n_starts, starts, centres, radii, a_max)
    return Region(keys, starts, centres, radii, np.minimum(radii, a_max), a_max)


def _radii(config: Bounds, shape: tuple[int, ...], base: Any, radius: Any) -> FloatArray:
    radius = config.trust_region_delta if radius is None else radius
    if (radius is None) != (base is None):
        present, missing = ("a radius", "base_action") if base is None else ("base_action", "radius")
        raise ConfigError(f"{missing}: got none, but {present}; a trust region needs both, or neither")
    if radius is None:
        return np.full(shape, np.inf)
    return check_radius("radius", radius, shape)


@jit
def _place_starts(
    keys: np.ndarray, starts: int, begin: FloatArray, centre: FloatArray, radius: FloatArray, a_max: float
) -> None:
    """Put the first start of each request into the region, and draw the others uniformly in the box around it."""
    rows, d = begin.shape
    for i in range(rows):
        if i % starts > 0:
            for k in range(d):
                # Draws are numbered by (start, coordinate), so other starts do not change them.
                reach = min(a_max, radius[i])
                begin[i, k] = centre[i, k] + reach * (2.0 * uniform(keys[i], STARTS, k) - 1.0)
        project(begin[i], centre[i], radius[i], a_max)


def best_starts(
    best: FloatArray, best_value: FloatArray, history: list[FloatArray], starts: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Take for each of m requests its best start, the first of those that tie.

    Args:
        best: The best action of each of the r starts, `(r, d)`.
        best_value: Its value, `(r,)`.
        history: The best values so far, t times `(r,)`.
        starts: Starts per request, r / m.

    Returns:
        Actions `(m, d)`, values `(m,)`, and the best value of any start at each time, `(m, t)`.
    """
    chosen = best_value.reshape(-1, starts).argmax(axis=1) + np.arange(0, len(best), starts)
    best_yet = np.array(history).reshape(len(history), -1, starts).max(axis=2)
    return best[chosen], best_value[chosen], np.ascontiguousarray(best_yet.T)
