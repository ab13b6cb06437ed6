"""Write what a simulated world shows and what comes of it as a log: see `zoosim.logs.schema`."""

import hashlib
import json
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import polars as pl

from zoosim.arena.loop import Block
from zoosim.core.files import atomic
from zoosim.core.parquet import META, write_parquet
from zoosim.core.types import IntArray
from zoosim.logs.schema import MICROSECONDS, SCHEMA_VERSION
from zoosim.worlds.world import World

GROUP_BYTES = 100_000_000


def to_records(world: World, block: Block, policy: str, policy_version: str) -> pl.DataFrame:
    """Return the Records of a block of visits."""
    n = len(block.actions)
    steps = np.arange(block.start, block.start + n)
    visitors = world.visitors(block.start, block.start + n)
    offered = world.offered(block.start).rows
    may_be_shown = np.zeros(world.n_products, np.bool_)
    may_be_shown[offered[world.stretch(block.start).available]] = True
    gone = np.flatnonzero(~may_be_shown).tolist()
    actions = offered[block.actions]  # rows of the catalogue beside the log
    return pl.DataFrame(
        {
            "decision_id": [f"{policy}-{world.seed}-{step}" for step in steps],
            "time": pl.Series(steps * MICROSECONDS).cast(pl.Datetime("us", "UTC")),
            "user_id": block.user_ids,
            "user": pl.Series(world.users[visitors]).cast(pl.List(pl.Float64)),
            "catalogue": pl.Series([catalogue_hash(world)] * n),
            "unavailable": pl.Series([gone] * n, dtype=pl.List(pl.Int64)),
            "action": actions,
            "product_id": world.product_ids[actions],
            "position": pl.Series(np.zeros(n, np.int32)),
            "propensity": block.propensities,
            "reward": block.rewards,
            **_reward_parts(world, visitors, block),
            "policy": pl.Series([policy] * n),
            "policy_version": pl.Series([policy_version] * n),
            "seed": pl.Series(np.full(n, world.seed, np.int64)),
            "step": steps,
        }
    )


def _reward_parts(world: World, visitors: IntArray, block: Block) -> dict[str, pl.Series]:
    """Return what rewards are made of: the click, or in a search shop clicks and amounts of each visit."""
    if not world.parts:
        return {"click": pl.Series(block.rewards).cast(pl.Int8)}
    parts = {name: pl.Series(part[visitors, block.actions]) for name, part in world.parts.items()}
    return {"click": parts.pop("clicks").cast(pl.Int32), **parts}


def catalogue_hash(world: World) -> str:
    """Hash the product table."""
    return hashlib.sha256(world.products.tobytes()).hexdigest()[:16]


def write_records(path: Path, world: World, frames: Iterable[pl.DataFrame]) -> None:
    """Write Records to `path`, and the product table beside them as catalogue-HASH.parquet.

    Frames go to files first, and groups of rows are small where lists are long, so that memory stays bounded.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    meta = {META: json.dumps({"schema": "record", "schema_version": SCHEMA_VERSION})}
    with tempfile.TemporaryDirectory(prefix=".records-", dir=path.parent) as folder, atomic(path) as temporary:
        parts, size = [], 1.0
        for number, frame in enumerate(frames):
            frame.write_parquet(Path(folder) / f"{number}.parquet")
            parts.append(pl.scan_parquet(Path(folder) / f"{number}.parquet"))
            size = max(size, frame.estimated_size() / len(frame))
        rows = int(np.clip(GROUP_BYTES / size, 1_000, 200_000))
        pl.concat(parts).sink_parquet(temporary, metadata=meta, row_group_size=rows, maintain_order=True)
    table = path.parent / f"catalogue-{catalogue_hash(world)}.parquet"
    if not table.exists():
        features = pl.Series(world.products).cast(pl.List(pl.Float64))
        names = [world.group_names[group] for group in world.groups]
        frame = pl.DataFrame({"product_id": world.product_ids, "category": names, "product": features})
        write_parquet(frame, table, {"schema": "catalogue", "schema_version": SCHEMA_VERSION})


def record_frames(world: World, blocks: Iterable[Block], policy: str, policy_version: str) -> Iterator[pl.DataFrame]:
    """Turn blocks of visits into Records, one frame a block."""
    for block in blocks:
        yield to_records(world, block, policy, policy_version)
