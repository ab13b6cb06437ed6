"""Compare the click rates that personas are defined by with those of 100 visits each, one product of each category."""

from typing import Any

import numpy as np

from zoosim.core.statistics import share_intervals
from zoosim.worlds.registry import find_world

TRIALS = 100
VISITS = 1_000


def main() -> None:
    """Print a row per persona and category, and how many 95% intervals hold the expected rate."""
    world: Any = find_world("recommendation")(0, VISITS).as_table()  # without a shock in so few visits
    held = []
    print(f"{'persona':<18}{'category':<15}{'expected':>9}{'observed':>10}   95% interval")
    for segment, persona in enumerate(world.segment_names):
        visits = [visit for visit in map(world.arrive, range(VISITS)) if world.segments[visit.visitor] == segment]
        for group, category in enumerate(world.group_names):
            product = int(np.flatnonzero(world.groups == group)[0])
            expected = float(world.truth(visits[0]).expected_reward(product))
            clicks = sum(int(world.serve(visit, product).reward) for visit in visits[:TRIALS])
            (low,), (high,) = share_intervals(np.array([clicks]), TRIALS)
            held.append(low <= expected <= high)
            print(
                f"{persona:<18}{category:<15}{expected:>9.0%}{clicks / TRIALS:>10.0%}   {low:.0%} to {high:.0%}"
                f"{'' if held[-1] else '   (outside)'}"
            )
    print(f"{sum(held)} of {len(held)} intervals hold the expected click rate.")


if __name__ == "__main__":
    main()
