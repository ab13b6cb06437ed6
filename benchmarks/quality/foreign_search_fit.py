"""The second half of Q10: what price does to clicks, found in search shops that no fitted world can express."""

import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import stats

import zoosim
from benchmarks.quality.foreign_search_shops import SEARCHES, SEGMENTS, write_foreign_shop
from zoosim.core.types import BoolArray, FloatArray

SEEDS = range(1000, 1020)


class Response(NamedTuple):
    """By segment, what a price 10% higher does to clicks: the `truth (S,)`, `estimates (S,)` and `intervals (S, 2)`.

    `form` is what was drawn of the shop; `deviating` parts of later searches do not fit.
    """

    form: tuple[str, str, str]
    truth: FloatArray
    estimates: FloatArray
    intervals: FloatArray
    deviating: int

    @property
    def is_in_order(self) -> bool:
        """Whether the segments are in the true order."""
        return bool((np.argsort(self.estimates) == np.argsort(self.truth)).all())

    @property
    def covered(self) -> BoolArray:
        """Whether each interval holds the truth `(S,)`."""
        return np.asarray((self.intervals[:, 0] <= self.truth) & (self.truth <= self.intervals[:, 1]))


def main(seeds: range = SEEDS, searches: int = SEARCHES) -> None:
    """Print how often price responses are in order, and how often their intervals hold the truth."""
    found = []
    for seed in seeds:
        found.append(respond(seed, searches))
        print(f"Q10 shop outside the family {seed}: {len(found)} of {len(seeds)}", file=sys.stderr)
    report(found)


def report(found: list[Response]) -> None:
    """Print the figures of some shops."""
    in_order = sum(row.is_in_order for row in found)
    print(f"Q10 outside the family: price responses of {len(SEGMENTS)} segments in order in {in_order} of {len(found)}")
    held = np.concatenate([row.covered for row in found])
    gaps = np.concatenate([row.estimates - row.truth for row in found])
    spread = np.concatenate([row.truth for row in found])
    halves = np.concatenate([np.ptp(row.intervals, axis=1) / 2.0 for row in found])
    bounds = stats.binomtest(int(held.sum()), len(held)).proportion_ci()
    print(
        f"Q10 outside the family: clicks at a price 10% higher, intervals that hold the truth: {held.mean():.1%} of "
        f"{len(held)} ({bounds.low:.1%} to {bounds.high:.1%})"
    )
    off = f"off by {np.mean(gaps):+.2%} on average, root mean square {np.sqrt((gaps**2).mean()):.2%}"
    print(
        f"Q10 outside the family: {off}, half of an interval {halves.mean():.2%}; "
        f"truths from {spread.min():+.1%} to {spread.max():+.1%}"
    )
    for place, what in enumerate(("link", "price", "looking")):
        for form in sorted({row.form[place] for row in found}):
            rows = [row for row in found if row.form[place] == form]
            held = np.concatenate([row.covered for row in rows])
            parts = np.mean([row.deviating for row in rows])
            line = f"in order {sum(row.is_in_order for row in rows)} of {len(rows)}, covered {held.mean():.0%}"
            print(f"Q10 outside the family, {what} {form}: {line}, parts that do not fit {parts:.1f}")


def respond(seed: int, searches: int = SEARCHES) -> Response:
    """Fit a world to the log of a shop, and compare what price does there with the truth."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shop = write_foreign_shop(folder, seed, searches)
        zoosim.import_log(folder / "searches.csv", shop.schema, folder / "searches.parquet")
        world = zoosim.fit_world(folder / "searches.parquet", folder / "world")
    responses = [world.price_responses[world.segments.index(segment)] for segment in SEGMENTS]
    return Response(
        shop.form,
        shop.price_responses,
        np.array([response.mean for response in responses]),
        np.array([(response.low, response.high) for response in responses], float),
        len(world.deviating),
    )
