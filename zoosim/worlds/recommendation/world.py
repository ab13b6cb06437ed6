"""The recommendation world of a seed: products, users, click table and what changes it."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from zoosim.action_spaces.base import Part
from zoosim.core.config import UNLISTED, Availability, EnvConfig, Shock
from zoosim.core.errors import ConfigError
from zoosim.core.memory import check_memory
from zoosim.core.parameters import unknown
from zoosim.core.rng import stream, stream_key
from zoosim.core.types import BoolArray, FloatArray, IntArray, frozen
from zoosim.worlds.base import numbered
from zoosim.worlds.built import BuiltWorld
from zoosim.worlds.facts import CLICKS, Change, Target, changes_of
from zoosim.worlds.recommendation.shocks import draw_shocks, random_chances
from zoosim.worlds.table import Period, TableWorld

NOISE_SD = 0.5
ITEM_BYTES = 8
TIMES_HELD = 2
"""Features are in memory twice while their columns are put side by side."""


class Recommendation(BuiltWorld):
    """A shop whose visitors see one product each."""

    parameter_record = EnvConfig
    numbered_in_order = ("personas", "categories")
    reward_scale = CLICKS
    has_past = True
    description = Part("zoosim.descriptions.recommendation:describe")

    @cached_property
    def shop(self) -> EnvConfig:
        """The parameters with what follows from the length of the run."""
        return resolve_shocks(self.config, self.steps)

    def for_policy(self, action_space: str, params: Mapping[str, Any]) -> TableWorld:
        """Return the world as every policy sees it."""
        return build_world(self.shop, seed=self.seed)

    @classmethod
    def check_settings(cls, values: Mapping[str, Any], settings: Sequence[tuple[Sequence[str], Any]]) -> None:
        """Refuse cells of a click table that is drawn, and of personas or categories that are not there."""
        parts = [(path[1:], value) for path, value in settings if path[0] == "personas"]
        tables = [value for path, value in parts if not path]
        cells = [path for path, _ in parts if path]
        is_undrawn = any(list(path) == ["random_personas"] and value is None for path, value in settings)
        if cells and not tables and not is_undrawn and values.get("random_personas") is not None:
            raise ConfigError(
                f"--set env.personas.{'.'.join(cells[0])}: this world draws its table at random (env.random_personas); "
                "give a whole one (personas in a YAML file), or take the shop's with --set env.random_personas=null"
            )
        table = (tables or [values.get("personas", cls.default_parameters()["personas"])])[-1]
        rows = {**table} if isinstance(table, Mapping) else {}
        rows |= {path[0]: value for path, value in parts if len(path) == 1}
        categories = {category: 0 for row in rows.values() if isinstance(row, Mapping) for category in row}
        for path in (path for path in cells if len(path) == 2):
            if path[0] not in rows:
                raise ConfigError(unknown("--set env.personas: unknown persona", path[0], rows))
            if path[1] not in categories:
                raise ConfigError(unknown("--set env.personas: unknown category", path[1], categories))

    @classmethod
    def read_parameters(
        cls, values: Mapping[str, Any], changes: Sequence[Any], steps: int, *, finished: bool
    ) -> tuple[EnvConfig, tuple[str, ...]]:
        """Check the parameters of a run, and take the experiment's shocks where none are given."""
        notes: tuple[str, ...] = ()
        config: EnvConfig = cls.checked_parameters(values)
        if "shocks" not in values and "random_shocks" not in values:
            with_shocks, notes = cls.with_changes(values, "shocks", changes, steps)
            config = cls.checked_parameters(with_shocks)
        over = config.random_shocks.over if config.random_shocks else None
        if over is not None and over > steps:
            expected = f"expected at most {steps}, the length of the run"
            advice = "leave it out, or give the run more steps"
            raise ConfigError(f"env.random_shocks.over: got {over}, {expected}; {advice}")
        late = [f"shocks: {shock.name!r} is at step {shock.step}" for shock in config.shocks if shock.step >= steps]
        late += [f"availability: {e.change} is at step {e.step}" for e in config.availability if e.step >= steps]
        if late:
            raise ConfigError(f"env.{late[0]}, beyond the run of {steps} steps")
        env = resolve_shocks(config, steps)
        return env if env.random_shocks is None else config, notes

    def check_seeds(self, seeds: Iterable[int]) -> None:
        """Refuse a shop with nothing for sale at some time; which products a category has depends on the seed."""
        if self.config.availability:
            # Neither users nor shocks move what is for sale; without them a world is cheap to build.
            small = self.config.model_copy(update={"n_users": 1, "random_shocks": None})
            for seed in seeds:
                build_world(small, seed=seed)

    @property
    def yaml_settings(self) -> dict[str, Any]:
        """The parameters without a table that follows from them."""
        left_out = "personas" if self.config.random_personas is not None else ""
        return {name: value for name, value in super().yaml_settings.items() if name != left_out}

    @property
    def run_identity(self) -> dict[str, Any]:
        """The parameters with what follows from the length of the run."""
        return self.identity_of(self.shop)

    @property
    def reported_shocks(self) -> tuple[Change, ...]:
        """The shocks; those that this seed's world draws for itself are numbered."""
        shocks = changes_of(drawn(self.shop, self.seed).shocks)
        if not self.shocks_differ:
            return shocks
        return tuple(Change(shock.step, f"shock {number}") for number, shock in enumerate(shocks, start=1))

    @property
    def reported_targets(self) -> tuple[Target, ...]:
        """For each shock of all seeds and each persona: of the categories that it raises, the one clicked most then.

        None where each seed draws its click table: what a shock raises on one seed it may lower on the next.
        """
        if self.shocks_differ or self.shop.random_personas is not None:
            return ()
        table = {name: dict(row) for name, row in self.shop.personas.items()}
        targets = []
        for shock in sorted(self.shop.shocks, key=lambda shock: shock.step):
            for name, row in shock.set.items():
                raised = {group: chance for group, chance in row.items() if chance > table[name].get(group, UNLISTED)}
                table[name].update(row)
                if raised:
                    targets.append(Target(shock.step, name, max(raised, key=lambda group: raised[group])))
        return tuple(targets)

    @property
    def shocks_differ(self) -> bool:
        """True where they are drawn for each seed."""
        return self.shop.random_shocks is not None


def build_world(config: EnvConfig, *, seed: int) -> TableWorld:
    """Return the world of a seed.

    Args:
        config: The shop; `random_shocks` are settled (see `resolve_shocks`), or say over how many visits they come.
        seed: Seed of all draws.

    Raises:
        ConfigError: `random_shocks` do not say over how many visits they come.
    """
    config = drawn(config, seed)
    groups, offers = _with_newcomers(config, _assign_groups(config, seed), seed)
    segments = _assign_segments(config, seed)
    users = _features(segments, len(config.personas), config.noise_features.user, stream(seed, "user noise"))
    products = _features(groups, len(config.categories), config.noise_features.product, stream(seed, "product noise"))
    return TableWorld(
        seed=seed,
        users=frozen(users),
        segments=frozen(segments),
        products=frozen(products),
        groups=frozen(groups),
        periods=_periods(config, groups, offers),
        segment_names=tuple(config.personas),
        group_names=tuple(config.categories),
        visit_key=stream_key(seed, "visits"),
        click_key=stream_key(seed, "clicks"),
        shocks=changes_of(config.shocks),
        user_columns=(*config.personas, *numbered("visitor noise", config.noise_features.user)),
        product_columns=(*config.categories, *numbered("product noise", config.noise_features.product)),
    )


def resolve_shocks(config: EnvConfig, steps: int) -> EnvConfig:
    """Replace `random_shocks` that are the same for every world by their schedule.

    Those that each world draws for itself are told how long the run is, and so is `turnover`.

    Args:
        config: The shop.
        steps: Length of the run, in visits.

    Raises:
        ConfigError: the run is too short for so many shocks.
    """
    if config.turnover is not None and config.turnover.over is None:
        config = config.model_copy(update={"turnover": config.turnover.model_copy(update={"over": steps})})
    if config.random_shocks is None:
        return config
    drawing = config.random_shocks
    over = drawing.over or steps
    seed = drawing.seed if isinstance(drawing.seed, int) else 0
    shocks = draw_shocks(config, drawing.count, over, rng=stream(seed, "shocks"))  # refuses too many in either case
    if drawing.seed == "each":
        return config.model_copy(update={"random_shocks": drawing.model_copy(update={"over": over})})
    return config.model_copy(update={"shocks": shocks, "random_shocks": None})


def drawn(config: EnvConfig, seed: int) -> EnvConfig:
    """Draw what a configuration leaves to each world: click table and shocks.

    Args:
        config: The shop.
        seed: Seed of the world.

    Raises:
        ConfigError: `random_shocks` do not say over how many visits they come, or are too many.
    """
    if config.random_personas is not None:
        categories = config.categories
        chances = iter(random_chances(stream(seed, "click table"), len(config.personas) * len(categories)))
        # Drawn in the order of personas and categories, which is why that order is part of a run's identity.
        table = {persona: {category: next(chances) for category in categories} for persona in config.personas}
        config = config.model_copy(update={"personas": table, "random_personas": None})
    drawing = config.random_shocks
    if drawing is not None and drawing.seed == "each":
        if drawing.over is None:
            raise ConfigError("env.random_shocks.over: missing; say over how many visits the shocks are spread")
        shocks = draw_shocks(config, drawing.count, drawing.over, rng=stream(seed, "shocks"))
        config = config.model_copy(update={"shocks": shocks, "random_shocks": None})
    return config


def _with_newcomers(config: EnvConfig, groups: IntArray, seed: int) -> tuple[IntArray, dict[int, IntArray]]:
    """Replace products in a run: return the category of every product there ever is, and what is offered from when on.

    A newcomer takes the place of a product of its category. Without turnover nothing is replaced.
    """
    turnover = config.turnover
    if turnover is None:
        return groups, {}
    rng = stream(seed, "turnover")
    offered = np.arange(len(groups))
    offers = {}
    n_newcomers = max(1, round(turnover.share * len(groups)))
    for step in range(turnover.every, turnover.over or 0, turnover.every):
        places = rng.choice(len(offered), n_newcomers, replace=False)
        newcomers = np.arange(len(groups), len(groups) + n_newcomers)
        groups = np.concatenate([groups, groups[offered[places]]])
        offered = offered.copy()
        offered[places] = newcomers
        offers[step] = frozen(offered)
    return groups, offers


def click_table(config: EnvConfig) -> FloatArray:
    """Return click probabilities `(personas, categories)` before any shock."""
    categories = config.categories
    return np.array([[row.get(category, UNLISTED) for category in categories] for row in config.personas.values()])


def _assign_groups(config: EnvConfig, seed: int) -> IntArray:
    """Deal the products to the categories: by their sizes, else as even as can be, the remainder drawn; shuffled."""
    rng = stream(seed, "catalog")
    count = len(config.categories)
    if config.category_sizes is not None:
        sizes = [config.category_sizes.get(category, 0) for category in config.categories]
        return rng.permutation(np.repeat(np.arange(count), sizes))
    even = np.repeat(np.arange(count), config.n_products // count)
    rest = rng.integers(0, count, config.n_products - len(even))
    return rng.permutation(np.concatenate([even, rest]))


def _assign_segments(config: EnvConfig, seed: int) -> IntArray:
    """Draw each user's persona from the mix."""
    shares = None
    if config.persona_mix is not None:
        shares = np.array([config.persona_mix.get(name, 0.0) for name in config.personas])
        shares /= shares.sum()
    return stream(seed, "users").choice(len(config.personas), config.n_users, p=shares)


def _features(labels: IntArray, count: int, noise: int, rng: np.random.Generator) -> FloatArray:
    """Return the one-hot label of each row, with `noise` fixed columns N(0, .25) behind.

    Raises `ConfigError` where they do not fit in memory.
    """
    width = count + noise
    what = f"env: a table of {len(labels):,} users or products with {width:,} features each"
    advice = "lower env.n_users, env.n_products or env.noise_features"
    check_memory(TIMES_HELD * ITEM_BYTES * len(labels) * width, what, advice)
    one_hot = np.eye(count)[labels]
    return np.hstack([one_hot, rng.normal(0, NOISE_SD, (len(labels), noise))])


def _periods(config: EnvConfig, groups: IntArray, offers: Mapping[int, IntArray]) -> tuple[Period, ...]:
    """Begin a period wherever a shock, an availability event or newcomers change the world; `offers` by first visit."""
    ends = [event.until for event in config.availability if event.until is not None]
    starts = {0, *(s.step for s in config.shocks), *(e.step for e in config.availability), *ends, *offers}
    # Events are about the places of the opening's products, which newcomers take over.
    groups = groups[: config.n_products]
    offered = frozen(np.arange(config.n_products)) if offers else None
    personas = list(config.personas)
    categories = config.categories
    table = click_table(config)
    periods = []
    for step in sorted(starts):
        for shock in config.shocks:
            if shock.step == step:
                table = _shocked(table, shock, personas, categories)
        available = _available(config, groups, step)
        if not available.any():
            raise ConfigError(f"env.availability: nothing is for sale from step {step} on; leave at least one product")
        offered = offers.get(step, offered)
        periods.append(Period(step, frozen(table.copy()), frozen(available), offered))
    return tuple(periods)


def _shocked(table: FloatArray, shock: Shock, personas: list[str], categories: list[str]) -> FloatArray:
    table = table.copy()
    for persona, row in shock.set.items():
        for category, chance in row.items():
            table[personas.index(persona), categories.index(category)] = chance
    return table


def _available(config: EnvConfig, groups: IntArray, step: int) -> BoolArray:
    """Return which products may be shown at `step`.

    A product whose first event is `appear` starts off sale, every other on sale; `appear` and `vanish` then put it on
    and off sale, and it may not be shown while any of its run-outs lasts.
    """
    on_sale = np.ones(len(groups), bool)
    run_out = np.zeros(len(groups), bool)
    events = sorted(config.availability, key=lambda event: event.step)
    # Backwards, so that a product's first event is what remains.
    for event in reversed(events):
        on_sale[_members(config, groups, event)] = event.change != "appear"
    for event in (event for event in events if event.step <= step):
        members = _members(config, groups, event)
        if event.until is None:
            on_sale[members] = event.change == "appear"
        else:
            run_out[members] |= step < event.until
    return on_sale & ~run_out


def _members(config: EnvConfig, groups: IntArray, event: Availability) -> IntArray:
    if event.category is None:
        return np.array(event.products)
    return np.flatnonzero(groups == config.categories.index(event.category))
