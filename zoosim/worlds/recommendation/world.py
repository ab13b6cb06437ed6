"""Build the recommendation world of a seed: products, users, click table and what changes it."""

from collections.abc import Mapping

import numpy as np

from zoosim.core.config import UNLISTED, Availability, EnvConfig, Shock
from zoosim.core.errors import ConfigError
from zoosim.core.memory import check_memory
from zoosim.core.rng import stream, stream_key
from zoosim.core.types import BoolArray, FloatArray, IntArray, frozen
from zoosim.worlds.base import numbered
from zoosim.worlds.recommendation.shocks import draw_shocks, random_chances
from zoosim.worlds.table import Period, TableWorld

NOISE_SD = 0.5
ITEM_BYTES = 8
TIMES_HELD = 2
"""Features are in memory twice while their columns are put side by side."""


def build_world(config: EnvConfig, *, seed: int) -> TableWorld:
    """Return the world that `config` describes, as generator family `seed` fills it."""
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
        shocks=tuple((shock.step, shock.name) for shock in sorted(config.shocks, key=lambda s: s.step)),
        user_columns=(*config.personas, *numbered("visitor noise", config.noise_features.user)),
        product_columns=(*config.categories, *numbered("product noise", config.noise_features.product)),
    )


def resolve_shocks(config: EnvConfig, steps: int) -> EnvConfig:
    """Replace `random_shocks` that are the same for every world by their schedule, for a run of `steps`.

    Those that each world draws for itself are told how long the run is, and so is `turnover`.
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
    """Return what `config` leaves to each world, click table and shocks, as the world of `seed` draws it."""
    if config.random_personas is not None:
        categories = config.categories
        chances = iter(random_chances(stream(seed, "click table"), len(config.personas) * len(categories)))
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
    """Let products come and go: return the category of every product there ever is, and what is offered from when.

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
