"""The Python calls about worlds: look at one, and ask for the best that a search shop could do."""

import dataclasses
import math
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoosim.core.calls import automatic_progress, public_call
from zoosim.core.errors import ConfigError
from zoosim.core.extras import needs_extra
from zoosim.core.parameters import shown
from zoosim.core.tabular import TabularResult
from zoosim.policies.files import MODEL, file_and_class

if TYPE_CHECKING:
    import plotly.graph_objects as go
    import polars as pl

    from zoosim.core.tables import Table
    from zoosim.core.types import Progress
    from zoosim.descriptions import RecommendationDescription, SearchDescription, SessionsDescription
    from zoosim.policies.model import Model
    from zoosim.worlds.fitted.shop import FittedShop


@dataclass(frozen=True, repr=False)
class Description(TabularResult):
    """A world or a model in figures: `facts`, `figures` by name, and the `page`.

    `path` is where the page was written, or the file that is described. Of a file `facts` are its model or its world.
    """

    path: Path
    facts: "SearchDescription | RecommendationDescription | SessionsDescription | Model | FittedShop"
    figures: "dict[str, go.Figure]"
    page: str

    def to_polars(self) -> "pl.DataFrame":
        """Return what the file holds as its own `to_polars` does; of another world the figures of its table."""
        return self.facts.to_polars() if isinstance(self.facts, TabularResult) else super().to_polars()

    @property
    def answer(self) -> str:
        """The advice for such a world, in one sentence; empty of a file."""
        return "" if isinstance(self.facts, TabularResult) else self.facts.answer

    def as_dict(self) -> dict[str, Any]:
        """Return the figures as plain data: of a file the rows of its table, of another world its `answer` and facts.

        What is no number, such as the click rate of what is not for sale, is None.
        """
        if isinstance(self.facts, TabularResult):
            return {"table": _plain(self.to_polars().to_dicts())}
        return {"answer": self.answer, **_plain(self.facts)}

    def _headline(self) -> str:
        return self.facts._headline() if isinstance(self.facts, TabularResult) else f"World {self.path.stem}"

    def _tables(self) -> "list[Table]":
        return self.facts._tables() if isinstance(self.facts, TabularResult) else [self.facts.table()]

    def _page(self) -> str:
        return self.page


@public_call
def describe(
    world: str | os.PathLike[str],
    *,
    seed: int = 0,
    visits: int = 4_000,
    config: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    settings: Sequence[str] = (),
    out: str | os.PathLike[str] | None = None,
    progress: "Progress | None" = automatic_progress,
) -> Description:
    """Look at a world, or at what is in the file of a model or of a fitted world.

    Args:
        world: "search", "recommendation", "sessions", "lure" or an experiment's name, whose page is written to `out`;
            or a file that ends in `.zoosim` (of a policy of your own, `FILE.zoosim@FILE.py:Class`) or in `.world`.
        seed: Fills the world.
        visits: How many are simulated in a search world.
        config: Changes to the world: a YAML file, or what it would hold.
        settings: Further changes, each `env.KEY=VALUE`.
        out: A folder; runs/describe-WORLD when left out. Of a file a page is written only if it is named.
        progress: Called with lines about how far it is. By default they are shown on a terminal and in a notebook;
            None shows nothing.

    Returns:
        The figures, and the page.

    Raises:
        ConfigError: an argument is invalid; nothing is written.
        DataError: a file cannot be read.
    """
    needs_extra("describe", "lab")
    assert progress is not None  # `public_call` sees to that
    world = _name_of_world("describe", world)
    source, policy = file_and_class(world)
    from zoosim.worlds.base import WORLD_FILE

    if source.endswith((MODEL, WORLD_FILE)):
        return _describe_file(Path(source), policy, out)

    from zoosim.core.files import make_folder, write_text
    from zoosim.core.yaml_text import write_yaml
    from zoosim.descriptions.plan import read_world

    plan = read_world(world, seed, visits, config, settings)
    for note in plan.notes:
        progress(f"note: {note}")
    folder = Path(f"runs/describe-{world}" if out is None else out)
    make_folder(folder)
    facts = plan.any_world.description(plan.any_world, visits, progress)
    command = _describe_command(world, seed, visits, config, settings)
    kept = {"env": plan.as_dict()["env"], "run": {"steps": plan.steps}}
    figures = facts.draw(facts)
    page = facts.render(facts, figures, world, command, write_yaml(kept))
    write_text(folder / f"{world}.html", page)
    return Description(folder / f"{world}.html", facts, figures, page)


def _plain(value: Any) -> Any:
    """Return facts as mappings, lists, words and numbers; None for what is no number."""
    if dataclasses.is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if hasattr(value, "_asdict"):
        return _plain(value._asdict())
    if hasattr(value, "model_dump"):
        return _plain(value.model_dump())
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _name_of_world(call: str, world: Any) -> str:
    """Return the name of a world or file; raises `ConfigError` for what is none, such as the world's keys."""
    if not isinstance(world, str | os.PathLike):
        raise ConfigError(f"{call}: got {shown(world)} as the world, expected its name; give its keys as config=")
    name: str = os.fspath(world)
    return name


def _describe_file(path: Path, policy: str | None, out: str | os.PathLike[str] | None) -> Description:
    """Describe a model or a fitted world; write a page of it where a folder is named."""
    from zoosim.core.files import make_folder, write_text
    from zoosim.policies.model import load_model
    from zoosim.worlds.fitted.file import load_world

    facts = load_model(path, policy) if path.suffix == MODEL else load_world(path)
    page = facts._page()
    if out is None:
        return Description(path, facts, {}, page)
    where = Path(out) / f"{path.stem}.html"
    make_folder(where.parent)
    write_text(where, page)
    return Description(where, facts, {}, page)


def _describe_command(world: str, seed: int, visits: int, config: Any, settings: Sequence[str]) -> str:
    """Say how to draw a page again."""
    file = [] if config is None else ["--config", "config.yaml" if isinstance(config, Mapping) else str(config)]
    changed = [part for text in settings for part in ("--set", text)]
    return shlex.join(["zoosim", "describe", world, "--seed", str(seed), "--visits", str(visits), *file, *changed])


@public_call
def optimum(
    world: str = "search",
    *,
    seed: int = 0,
    by: str = "segment",
    step: int = 0,
    config: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    settings: Sequence[str] = (),
    progress: "Progress | None" = automatic_progress,
) -> "pl.DataFrame":
    """Return the best template and the best boosts of each kind of visit to a search shop, a row each.

    See `zoosim.worlds.search.optimum.search_optimum` for the columns.

    Args:
        world: "search", or an experiment in a search shop.
        seed: Seed of the shop.
        by: Kinds of visits that are told apart: "all", "segment" or "cell".
        step: Number of a visit, whose market counts.
        config: A YAML file or a mapping with parameters of the shop.
        settings: Further changes, each `PATH=VALUE`, such as "env.n_products=100"; they win over `config`.
        progress: Called with lines about how far it is; None for no lines.

    Raises:
        ConfigError, DataError: an argument or a table of the shop is invalid.
    """
    assert progress is not None  # `public_call` sees to that
    world = _name_of_world("optimum", world)
    from zoosim.core.checks import check_whole
    from zoosim.descriptions.plan import read_world
    from zoosim.experiments.plan import MAX_STEPS

    # The longest run there can be, so that no shift of the market lies beyond its end.
    plan = read_world(world, seed, 1, config, settings, steps=MAX_STEPS)
    for note in plan.notes:
        progress(f"note: {note}")
    if plan.any_world.optimum is None:
        raise ConfigError(f"optimum: {world} is no search world; give search, template-bandits or market-shifts")
    check_whole("step", step, 0, MAX_STEPS)
    best: pl.DataFrame = plan.any_world.optimum(plan.env, seed=seed, by=by, step=step, progress=progress)
    return best
