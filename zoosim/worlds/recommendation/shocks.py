"""The published market shocks, and shocks drawn at random."""

import numpy as np

from zoosim.core.config import EnvConfig, Shock
from zoosim.core.errors import ConfigError

LOUD = Shock(
    step=10_000,
    name="budget shoppers love fish",
    set={"budget_shopper": {"Fish Supplies": 0.80, "Dog Food": 0.10, "Cat Food": 0.15}},
)
"""The best arm of a persona falls from .40 to .15 while another rises to .80: hard to miss."""

SILENT = Shock(step=25_000, name="cat connoisseurs love dog toys", set={"cat_connoisseur": {"Dog Toy": 0.75}})
"""The best arm keeps its .55 while another goes from .02 to .75: only a policy that keeps looking finds it."""


def draw_shocks(config: EnvConfig, count: int, steps: int, *, rng: np.random.Generator) -> list[Shock]:
    """Draw shocks at uniform times in 5-95% of a run.

    Each redraws 1 to 4 cells of one persona from Beta(.7, 2) cut to [.01, .9]; with probability .7 one of them becomes
    that persona's best, by U(.1, .3).

    Args:
        config: The shop, with the click table that the first shock changes.
        count: Number of shocks.
        steps: Length of the run, in visits.
        rng: Source of the draws.

    Raises:
        ConfigError: the run is too short for so many.
    """
    possible = np.arange(max(1, steps // 20), max(2, steps - steps // 20))
    if count > len(possible) or steps < 2:
        room = len(possible) if steps > 1 else 0
        raise ConfigError(f"env.random_shocks: got {count} shocks, a run of {steps} steps has room for {room}")
    times = np.sort(rng.choice(possible, count, replace=False))
    personas = {name: dict(row) for name, row in config.personas.items()}
    return [_draw(personas, config.categories, number, int(step), rng) for number, step in enumerate(times, start=1)]


def random_chances(rng: np.random.Generator, count: int) -> list[float]:
    """Draw click probabilities from Beta(.7, 2), cut to [.01, .9].

    Args:
        rng: Source of the draws.
        count: Number of probabilities.
    """
    return [round(chance, 4) for chance in np.clip(rng.beta(0.7, 2.0, count), 0.01, 0.9).tolist()]


def _draw(
    personas: dict[str, dict[str, float]], categories: list[str], number: int, step: int, rng: np.random.Generator
) -> Shock:
    """Draw a shock to the click table `personas`, and apply it there."""
    persona = list(personas)[rng.integers(len(personas))]
    size = int(rng.integers(1, min(4, len(categories)) + 1))
    redrawn = [categories[i] for i in rng.choice(len(categories), size, replace=False)]
    row = dict(zip(redrawn, random_chances(rng, size), strict=True))
    if rng.random() < 0.7:
        best = redrawn[0]
        after = {**personas[persona], **row}
        # Among the other cells as they are after this shock, some of which it has just redrawn.
        highest_other = max((chance for category, chance in after.items() if category != best), default=0.0)
        row[best] = _above(highest_other, float(rng.uniform(0.1, 0.3)))
    personas[persona].update(row)
    return Shock(step=step, name=f"shock {number}: {persona}", set={persona: row})


def _above(best: float, lead: float) -> float:
    """Return a probability that exceeds `best` by `lead`, or by what room there is."""
    return round(min(best + lead, max(0.95, (1 + best) / 2)), 4)
