"""A small shop, its model, and a service of it in the test's own process."""

import asyncio
import atexit
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import polars as pl
import pytest

import zoosim
from tests.logs.own_searches import write_searches
from zoosim.core.errors import StoreError
from zoosim.serving.clock import Clock
from zoosim.serving.machine import Machine
from zoosim.serving.service import Service
from zoosim.serving.settings import Settings

PRODUCTS = [f"p{number}" for number in range(8)]
COUNTRIES = ("de", "fr", "it")


def make_model(
    folder: Path,
    policy: str = "adaptive",
    names: Sequence[str] = PRODUCTS,
    click_rates: Any = 0.3,
    countries: tuple[str, ...] = COUNTRIES,
) -> Path:
    """Train a policy on a small table, of products with one click rate or with each its own; return its file.

    A process trains each once; the folder gets copies of the table, of its log and of the model.
    """
    trained = _trained(policy, tuple(names), tuple(np.broadcast_to(click_rates, len(names)).tolist()), countries)
    shutil.copytree(trained, folder, dirs_exist_ok=True)
    return folder / "model.zoosim"


@cache
def _trained(policy: str, names: tuple[str, ...], click_rates: tuple[float, ...], countries: tuple[str, ...]) -> Path:
    folder = Path(mkdtemp(prefix="zoosim-test-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    rng = np.random.default_rng(1)
    rows = 400
    shown = rng.integers(len(names), size=rows)
    table = pl.DataFrame(
        {
            "item": np.array(names)[shown],
            "propensity": np.full(rows, 1 / len(names)),
            "click": (rng.random(rows) < np.array(click_rates)[shown]).astype(int),
            "country": rng.choice(countries, rows),
        }
    )
    products = pl.DataFrame({"item": names, "category": [f"c{number % 3}" for number in range(len(names))]})
    products.write_csv(folder / "products.csv")
    schema = folder / "schema.yaml"
    schema.write_text(
        "columns: {action: item, propensity: propensity}\nrewards: {click: click}\n"
        "features: {country: category}\n"
        "products: {table: products.csv, id: item, features: {category: category}}\n"
    )
    zoosim.import_log(table, schema, folder / "log.parquet")
    zoosim.train(folder / "log.parquet", [policy], folder / "model.zoosim")
    return folder


def make_boost_model(folder: Path, policy: str = "item-critic") -> Path:
    """Train a policy of boosts on a few searches, once in a process, and return its file."""
    shutil.copytree(_trained_on_searches(policy), folder, dirs_exist_ok=True)
    return folder / "boosts.zoosim"


@cache
def _trained_on_searches(policy: str) -> Path:
    folder = Path(mkdtemp(prefix="zoosim-test-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    zoosim.train(write_searches(folder, 400), [policy], folder / "boosts.zoosim")
    return folder


@asynccontextmanager
async def running(
    folder: Path, model: Path | None, clock: Clock | None = None, **settings: Any
) -> AsyncIterator[Service]:
    """Run a service without HTTP and without a learner; its log is in SQLite where `store` names no other place."""
    options = {"store": f"sqlite:{folder}", "wait": 1.0, **settings}
    service = Service(Settings(**options), model, asyncio.get_running_loop(), Machine(clock or Clock()))
    try:
        yield service
    finally:
        service.close()


def with_service(
    folder: Path,
    model: Path | None,
    use: Callable[[Service], Awaitable[None]],
    clock: Clock | None = None,
    **settings: Any,
) -> None:
    """Use a service as `running` makes it, in an event loop of its own."""

    async def run() -> None:
        async with running(folder, model, clock, **settings) as service:
            await use(service)

    asyncio.run(run())


@contextmanager
def full_disk(service: Service) -> Iterator[None]:
    """Let nothing be appended to the log of a service."""

    def fail(*_: object) -> None:
        raise StoreError("disk full")

    with pytest.MonkeyPatch.context() as patch:
        for name in ("append", "append_now"):
            patch.setattr(service._store, name, fail)
        yield
