"""Write what a simulated world shows and what comes of it as a log: see `zoosim.logs.schema`."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from zoosim.action_spaces import find_action_space
from zoosim.arena.block import Block
from zoosim.arena.plan import Plan
from zoosim.core.digests import short_digest
from zoosim.core.durations import MICROSECONDS
from zoosim.core.errors import ConfigError, WorldError
from zoosim.core.files import atomic, temporary_folder
from zoosim.core.parameters import shown
from zoosim.core.parquet import sink_parquet, write_parquet
from zoosim.core.types import CLICK, CandidateSource, IntArray
from zoosim.logs.schema import ACTION_SPACE, LISTED, OWN_MARGINAL, REWARDS, SCHEMA_VERSION, SOURCE, SOURCE_PRODUCTS
from zoosim.policies.base import policy_name
from zoosim.policies.registry import PolicyEntry
from zoosim.policies.requests import places_among
from zoosim.worlds.base import ProductList, World

GROUP_BYTES = 100_000_000


def to_records(world: World, block: Block, policy: str, policy_version: str) -> pl.DataFrame:
    """Return the Records of a block of visits."""
    n = len(block.rewards)
    lives: dict[str, Any] = {"step": np.arange(block.start, block.start + n)}
    numbers = lives["step"]
    times = lives["step"] * MICROSECONDS
    if block.lives is not None:
        lives = block.lives._asdict()
        numbers = [f"{visitor}-{step}" for visitor, step in zip(lives["visitor"], lives["step"], strict=True)]
        # A microsecond per step, so that decisions of a visitor stand in their order.
        times = lives["visitor"] * MICROSECONDS + lives["step"]
    return pl.DataFrame(
        {
            "decision_id": [f"{policy}-{world.seed}-{number}" for number in numbers],
            "time": pl.Series(times).cast(pl.Datetime("us", "UTC")),
            "user_id": block.user_ids,
            **find_action_space(world.action_space).logged_choices(world, block),
            "position": pl.Series(np.zeros(n, np.int32)),
            "propensity": block.propensities,
            "reward": block.rewards,
            **_reward_parts(block),
            "policy": pl.Series([policy] * n),
            "policy_version": pl.Series([policy_version] * n),
            "seed": pl.Series(np.full(n, world.seed, np.int64)),
            **lives,
        }
    )


def boost_choices(world: World, block: Block) -> dict[str, Any]:
    """Return what visits are like, and the boosts that were chosen, a column each."""
    return {
        "user": _lists([context.features for context in block.contexts]),
        "action": _lists(block.actions),
        "a_max": pl.Series(np.full(len(block.rewards), world.spec(0).a_max)),  # type: ignore[attr-defined]
        **world.log_columns(block.start, block.actions),
    }


def candidate_choices(world: World, block: Block) -> dict[str, Any]:
    """Return what visitors are like, what could be shown and what was chosen, a column each."""
    listed = _listed(world)
    table = world.as_table()
    if table is None:
        users = np.array([context.user for context in block.contexts])
        rows = _shown_rows(world, listed, block)
        offered = _offered(world, listed, block)
    else:
        users = table.users[table.visitors(block.start, block.start + len(block.rewards))]
        offer = table.offered(block.start)
        rows = offer.rows[block.actions]
        gone = [_rows_of(listed, offer.ids[table.period(block.start).available], are_shown=False)] * len(rows)
        offered = {"unavailable": pl.Series(gone, dtype=pl.List(pl.Int64))}
    return {
        "user": _lists(users),
        "catalogue": pl.Series([catalogue_hash(listed)] * len(rows)),
        **offered,
        "action": rows,
        "product_id": _labels(listed)[rows],
    }


def _shown_rows(world: World, listed: ProductList, block: Block) -> IntArray:
    """Return the row in the catalogue of each product that was shown; raises `WorldError` for one that has none."""
    pairs = zip(block.contexts, block.actions, strict=True)
    shown = [context["shown"] if "shown" in context else context.product_ids[action] for context, action in pairs]
    products = np.array(shown, np.int64)
    rows = places_among(np.asarray(listed.ids), products)
    if (rows < 0).any():
        stranger = products[rows < 0].min()
        raise WorldError(
            f"world {policy_name(type(world))}: showed product {stranger}, which all_products does not list"
        )
    return rows


def _lists(rows: Any) -> pl.Series:
    """Return rows of numbers as a column of lists."""
    return pl.Series(np.asarray(rows, np.float64)).cast(pl.List(pl.Float64))


def _counts(source: CandidateSource) -> bool:
    """Return whether a source says how many products could be shown, or 0."""
    count = source.products
    return isinstance(count, int | np.integer) and not isinstance(count, bool) and count >= 0


def _offered(world: World, listed: ProductList, block: Block) -> dict[str, Any]:
    """Return what could not be shown; where contexts say where their candidates came from, that and what could."""
    could = [context.product_ids[context.available] for context in block.contexts]
    if not any("source" in context for context in block.contexts):
        gone = [_rows_of(listed, products, are_shown=False) for products in could]
        return {"unavailable": pl.Series(gone, dtype=pl.List(pl.Int64))}
    sources = [context.get("source") for context in block.contexts]
    for source in sources:
        if not isinstance(source, CandidateSource) or not 0.0 < source.propensity <= 1.0 or not _counts(source):
            raise WorldError(
                f"world {policy_name(type(world))}: a context's source is {shown(source)}, expected a "
                "zoosim.CandidateSource with a propensity above 0 and at most 1, and products counted in whole numbers "
                "from 0, in all contexts or none"
            )
    candidates = [_rows_of(listed, products, are_shown=True) for products in could]
    by_column = zip((*SOURCE, SOURCE_PRODUCTS), zip(*sources, strict=True), strict=True)
    columns = {
        "candidates": pl.Series(candidates, dtype=pl.List(pl.Int32)),
        **{name: list(values) for name, values in by_column},
    }
    marginals = [context.get("marginal_propensity") for context in block.contexts]
    return columns if None in marginals else {**columns, OWN_MARGINAL: marginals}


def _rows_of(listed: ProductList, products: IntArray, *, are_shown: bool) -> list[int]:
    """Return the rows of the catalogue with these products, or all others; ascending."""
    rows = places_among(np.asarray(listed.ids), products)
    is_one = np.zeros(len(listed.ids), bool)
    is_one[rows[rows >= 0]] = True
    return np.flatnonzero(is_one == are_shown).tolist()


def _listed(world: World) -> ProductList:
    """Return all products of a world that can be logged."""
    listed = world.all_products()
    whole = isinstance(listed, ProductList) and np.asarray(listed.ids).dtype.kind in "iu"
    if listed is None or not whole or not len(listed.ids) == len(listed.features) == len(listed.group_names):
        raise WorldError(
            f"world {policy_name(type(world))}: all_products returned {type(listed).__name__}, expected a "
            "zoosim.ProductList of whole ids, features and group names, one each per product"
        )
    return listed


def _reward_parts(block: Block) -> dict[str, pl.Series]:
    """Return what rewards are made of: the click, or in a search shop clicks and amounts of each visit."""
    if not block.parts:
        clicked = np.isin(block.rewards, (0.0, 1.0)).all()
        return {CLICK: pl.Series(block.rewards).cast(pl.Int8)} if clicked else {}
    parts = {name: pl.Series(part) for name, part in block.parts.items()}
    clicks = {"click": parts.pop("clicks").cast(pl.Int32)} if "clicks" in parts else {}
    return {**clicks, **parts}


def check_logged(plan: Plan, entry: PolicyEntry) -> None:
    """Refuse, before anything runs, a policy or a world of which no log can be written.

    Raises:
        PolicyError: the policy cannot say how likely its actions are.
        ConfigError: the world does not list its products.
    """
    space = find_action_space(plan.action_space(entry))
    if space.logged_choices is None:
        raise ConfigError(f"--log: the action space {space.name} has no columns for logs (logged_choices)")
    space.refuse_unlogged(entry.name, entry.cls)
    if space.has_catalogue and not plan.any_world.lists_products:
        raise ConfigError(
            f"--log: the world {plan.experiment.title} does not list its products; give it a method all_products"
        )


def _labels(listed: ProductList) -> Any:
    """Return what products are called in logs `(P,)`: the shop's names, where there are some, else their ids."""
    return np.array(listed.names, object) if listed.names else listed.ids


def catalogue_hash(listed: ProductList) -> str:
    """Hash the product table."""
    version = (listed.version,) if listed.version else ()
    return short_digest(listed.features.tobytes(), "\n".join(listed.names), *version)


def write_records(path: Path, world: World, frames: Iterable[pl.DataFrame]) -> None:
    """Write Records to `path`, and the product table beside them as catalogue-HASH.parquet.

    Frames go to files first, and groups of rows are small where lists are long, so that memory stays bounded.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    space = find_action_space(world.action_space)
    has_catalogue = space.has_catalogue
    meta = {"schema": "record", "schema_version": SCHEMA_VERSION, **world.write_log_tables(path.parent)}
    if space.records is not None:
        meta[ACTION_SPACE] = space.name
    with temporary_folder(path.parent, "records") as folder, atomic(path) as temporary:
        parts = []
        size = 1.0
        candidate_columns = set[str]()
        for number, frame in enumerate(frames):
            columns = {*LISTED, *SOURCE, OWN_MARGINAL} & set(frame.columns)
            if number and columns != candidate_columns:
                raise WorldError(
                    f"world {policy_name(type(world))}: contexts of a part of the run alone have a source, expected "
                    "one in all contexts or none"
                )
            candidate_columns = columns
            # Only once all blocks are there it is known which columns all of them have.
            frame.write_parquet(folder / f"{number}.parquet")
            parts.append(pl.scan_parquet(folder / f"{number}.parquet", glob=False))
            size = max(size, frame.estimated_size() / len(frame))
        rows = int(np.clip(GROUP_BYTES / size, 1_000, 200_000))
        # Rewards of some blocks may all be 0 or 1 by chance: what not every block has is no column of the log.
        schemas = [part.collect_schema() for part in parts]
        common = [name for name in schemas[0] if all(name in schema for schema in schemas)] if schemas else []
        whole = pl.concat([part.select(common) for part in parts])
        if has_catalogue:
            meta |= _schema_of(world, common)
        sink_parquet(whole, temporary, meta, row_group_size=rows, maintain_order=True)
    if not has_catalogue:
        return
    listed = _listed(world)
    digest = catalogue_hash(listed)
    table = path.parent / f"catalogue-{digest}.parquet"
    features = _lists(listed.features)
    labels = pl.Series(_labels(listed).tolist())
    frame = pl.DataFrame({"product_id": labels, "category": list(listed.group_names), "product": features})
    write_parquet(frame, table, {"schema": "catalogue", "catalogue": digest, "schema_version": SCHEMA_VERSION})


def _schema_of(world: World, columns: Sequence[str]) -> dict[str, Any]:
    """Return what a log's metadata says of features and rewards, so that policies can be trained on it."""
    schema = world.schema()
    if schema is None:
        return {}
    pays_clicks = {name for name, weight in schema.weights.items() if weight} == {CLICK}
    rewards = [CLICK] if pays_clicks and CLICK in columns else []
    return {"fitted": schema.model_dump_json(), REWARDS: rewards}


def record_frames(world: World, blocks: Iterable[Block], policy: str, policy_version: str) -> Iterator[pl.DataFrame]:
    """Turn blocks of visits into Records, one frame a block."""
    for block in blocks:
        yield to_records(world, block, policy, policy_version)
