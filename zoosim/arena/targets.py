"""Who was shown what a shock made popular: why one policy recovers and another does not."""

from collections.abc import Sequence

import numpy as np

from zoosim.arena.metrics import recent_sums
from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.worlds.facts import Target
from zoosim.worlds.table import TableWorld


def target_curves(
    world: TableWorld, targets: Sequence[Target], actions: IntArray, at: Sequence[int], window: int
) -> dict[str, FloatArray]:
    """Return for each target how much of a trial's visits got what it is about, and how many products were tried.

    Args:
        world: The world of the trial.
        targets: Segments, and the groups of products that shocks made popular with them.
        actions: The candidate shown at each visit, `(steps,)`.
        at: Numbers of visits done, `(n,)`.
        window: Visits in a moving average.

    Returns:
        By `shown K` and `tried K` for target number K, each `(n,)`: the share of the segment's visits among the last
        `window` that were shown the group, and the number of its products shown to the segment since the shock.
    """
    segments = world.segments[world.visitors(0, len(actions))]
    groups, products = _shown(world, actions)
    curves = {}
    for number, target in enumerate(targets):
        of_segment = segments == world.segment_names.index(target.segment)
        hits = of_segment & (groups == world.group_names.index(target.group))
        curves[f"shown {number}"] = _share(hits, of_segment, at, window)
        curves[f"tried {number}"] = _distinct(products, hits & (np.arange(len(actions)) >= target.step), at)
    return curves


def _shown(world: TableWorld, actions: IntArray) -> tuple[IntArray, IntArray]:
    """Return the group and the product of each action, `(steps,)`, by what was offered at its time."""
    starts = [period.start for period in world.periods if period.start < len(actions)]
    groups = np.empty(len(actions), np.int64)
    products = np.empty(len(actions), np.int64)
    for start, stop in zip(starts, [*starts[1:], len(actions)], strict=True):
        offer = world.offered(start)
        groups[start:stop] = offer.groups[actions[start:stop]]
        products[start:stop] = offer.rows[actions[start:stop]]
    return groups, products


def _share(hits: BoolArray, of_segment: BoolArray, at: Sequence[int], window: int) -> FloatArray:
    n_visits = recent_sums(of_segment, at, window)
    share: FloatArray = np.divide(recent_sums(hits, at, window), n_visits, out=np.zeros(len(at)), where=n_visits > 0)
    return share


def _distinct(products: IntArray, counted: BoolArray, at: Sequence[int]) -> FloatArray:
    """Return how many different products have been counted after each number of visits."""
    places = np.flatnonzero(counted)
    _, first = np.unique(products[places], return_index=True)
    return np.searchsorted(np.sort(places[first]), np.asarray(at), side="left").astype(float)
