"""The Python calls about worlds: look at one, and ask for the best that a search shop could do."""

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import plotly.graph_objects as go
    import polars as pl

    from zoosim.core.types import Progress
    from zoosim.descriptions import RecommendationDescription, SearchDescription


@dataclass(frozen=True)
class Description:
    """A world in figures: `facts`, plain data, `figures` by name, and the `page` that was written to `path`."""

    path: Path
    facts: "SearchDescription | RecommendationDescription"
    figures: "dict[str, go.Figure]"
    page: str


def describe(
    world: str,
    *,
    seed: int = 0,
    visits: int = 4_000,
    config: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    settings: Sequence[str] = (),
    out: str | os.PathLike[str] | None = None,
    progress: "Progress" = lambda line: None,
) -> Description:
    """Look at a `world`, search, recommendation or an experiment's, as `seed` fills it; write WORLD.html to `out`.

    In a search world `visits` are simulated. `out` is runs/describe-WORLD when left out. Raises `ConfigError` or
    `DataError` before anything is written.
    """
    import yaml

    from zoosim.core.files import make_folder, write_text
    from zoosim.descriptions.plan import describe_plan, read_world
    from zoosim.report.world import render_world, world_figures

    plan = read_world(world, seed, visits, config, settings)
    for note in plan.notes:
        progress(f"note: {note}")
    folder = Path(f"runs/describe-{world}" if out is None else out)
    make_folder(folder)
    facts = describe_plan(plan, visits, progress)
    command = _describe_command(world, seed, visits, config, settings)
    kept = {"env": plan.as_dict()["env"], "run": {"steps": plan.steps}}
    figures = world_figures(facts)
    page = render_world(facts, figures, world, command, yaml.safe_dump(kept, sort_keys=False, allow_unicode=True))
    write_text(folder / f"{world}.html", page)
    return Description(folder / f"{world}.html", facts, figures, page)


def _describe_command(world: str, seed: int, visits: int, config: Any, settings: Sequence[str]) -> str:
    """Say how to draw a page again."""
    file = [] if config is None else ["--config", "config.yaml" if isinstance(config, Mapping) else str(config)]
    changed = [part for text in settings for part in ("--set", text)]
    return shlex.join(["zoosim", "describe", world, "--seed", str(seed), "--visits", str(visits), *file, *changed])


def optimum(
    world: str = "search",
    *,
    seed: int = 0,
    by: str = "segment",
    step: int = 0,
    config: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    settings: Sequence[str] = (),
    progress: "Progress" = lambda line: None,
) -> "pl.DataFrame":
    """Return the best template and the best boosts of each kind of visit to a search shop, a row each.

    `world` is search, or an experiment's; see `zoosim.worlds.search.optimum.search_optimum` for the columns. Raises
    `ConfigError` or `DataError`.
    """
    from zoosim.core.checks import check_whole
    from zoosim.core.errors import ConfigError
    from zoosim.core.search_config import SearchConfig
    from zoosim.descriptions.plan import read_world
    from zoosim.experiments.plan import MAX_STEPS
    from zoosim.worlds.search.optimum import search_optimum

    plan = read_world(world, seed, 1, config, settings, steps=MAX_STEPS)
    for note in plan.notes:
        progress(f"note: {note}")
    if not isinstance(plan.env, SearchConfig):
        raise ConfigError(f"optimum: {world} is no search world; give search, template-bandits or market-shifts")
    check_whole("step", step, 0, MAX_STEPS)
    return search_optimum(plan.env, seed=seed, by=by, step=step, progress=progress)
