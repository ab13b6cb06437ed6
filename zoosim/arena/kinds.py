"""The best policies by kind of world: the worlds of a run, grouped by what one may know of them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from zoosim.core.statistics import mean_interval
from zoosim.worlds.facts import Trait


def compare_by_kind(
    traits: Mapping[int, Sequence[Trait]], fractions: Mapping[str, Mapping[int, float]]
) -> list[dict[str, Any]]:
    """Compare policies in each kind of world.

    Args:
        traits: The traits of each seed's world.
        fractions: The fraction of oracle of each policy on each of these seeds.

    Returns:
        One mapping per trait and value, in their order: `trait`, `value`, what it `asks` of a policy, its `seeds`, the
        mean of each of the `policies`, the `best`, the `second`, and the `lead` of the best: the mean of paired
        differences with its 95% interval, not corrected for the number of kinds. Without a second the last two are
        None.
    """
    names = list(dict.fromkeys(trait.name for of_seed in traits.values() for trait in of_seed))
    seeds_of: dict[Trait, list[int]] = {}
    for seed, of_seed in traits.items():
        for trait in of_seed:
            seeds_of.setdefault(trait, []).append(seed)
    ordered = sorted(seeds_of, key=lambda trait: (names.index(trait.name), trait.place))
    return [_compared(trait, seeds_of[trait], fractions) for trait in ordered if fractions]


def _compared(trait: Trait, seeds: Sequence[int], fractions: Mapping[str, Mapping[int, float]]) -> dict[str, Any]:
    means = {name: float(np.mean([of_seed[seed] for seed in seeds])) for name, of_seed in fractions.items()}
    best, *others = sorted(means, key=lambda name: -means[name])
    second = others[0] if others else None
    lead = None
    if second is not None:
        lead = mean_interval([fractions[best][seed] - fractions[second][seed] for seed in seeds])._asdict()
    return {
        "trait": trait.name,
        "value": trait.value,
        "asks": trait.asks,
        "seeds": list(seeds),
        "policies": means,
        "best": best,
        "second": second,
        "lead": lead,
    }
