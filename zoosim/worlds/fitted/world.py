"""A fitted shop as a world: visits of the log drawn anew, and a shop that the log allows, another one for each seed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from zoosim.core.config import Strict
from zoosim.core.errors import ConfigError
from zoosim.core.jit import jit
from zoosim.core.rng import stream, stream_key, uniform
from zoosim.core.types import FloatArray, IntArray, frozen
from zoosim.schema.schema import FittedSchema
from zoosim.worlds.base import ProductList
from zoosim.worlds.built import BuiltWorld
from zoosim.worlds.facts import AMOUNTS, CLICKS, Change
from zoosim.worlds.fitted.file import load_world, world_digest
from zoosim.worlds.fitted.shop import FittedShop, ShopDraw
from zoosim.worlds.table import NO_REWARDS, Period, TableWorld, VisitBatch


class FittedConfig(Strict):
    """The facts of a fitted world that pages tell. Its file says them: they cannot be set."""

    pays: Literal["clicks", "amounts"] = Field("clicks", description="what a visit earns")
    changes: list[int] = Field(default_factory=list, description="the visits at which the shop changes")


class Fitted(BuiltWorld):
    """A shop fitted to a log; its parameters are what pages of a run say of it without the file."""

    file: ClassVar[str]
    """The file that `fit-world` wrote."""

    parameter_record = FittedConfig
    has_past = True

    def __init__(self, seed: int, steps: int, **params: Any) -> None:
        """Prepare the world of a seed.

        Args:
            seed: Seed of all its draws.
            steps: Length of the run, in visits.
            **params: Parameters by name; by default those of the file.

        Raises:
            DataError: the file is none, or broken.
        """
        super().__init__(seed, steps, **(params or facts_of(load_world(self.file), steps)))
        self.reward_scale = CLICKS if self.config.pays == "clicks" else AMOUNTS

    @property
    def shop(self) -> FittedShop:
        """The shop that the file holds; read once in each process."""
        return load_world(self.file)

    @property
    def reward_range(self) -> tuple[float, float]:  # type: ignore[override]
        """The least and the largest reward of a visit."""
        return reward_range(self.shop)

    @classmethod
    def read_parameters(
        cls, values: Mapping[str, Any], changes: Sequence[Any], steps: int, *, finished: bool
    ) -> tuple[FittedConfig, tuple[str, ...]]:
        """Check that the parameters, where some are given, are those of the file."""
        config: FittedConfig = cls.checked_parameters(values)
        if finished:
            return config, ()
        facts = FittedConfig(**facts_of(load_world(cls.file), steps))
        if values and config != facts:
            raise ConfigError(f"env: {cls.file} is another world, or the run has another length; leave env out")
        return facts, ()

    def for_policy(self, action_space: str, params: Mapping[str, Any]) -> "FittedWorld":
        """Return the world as every policy sees it."""
        return build_fitted_world(self.shop, seed=self.seed, steps=self.steps)

    @property
    def run_identity(self) -> dict[str, Any]:
        """Nothing but the file's content."""
        return {}

    @property
    def files_digest(self) -> str:
        """A hash of the content of the file."""
        return world_digest(self.file)[:16]

    @property
    def reported_shocks(self) -> tuple[Change, ...]:
        """The changes of the shop."""
        changes = enumerate(self.config.changes, start=1)
        return tuple(Change(step, f"change {number}") for number, step in changes)


def facts_of(shop: FittedShop, steps: int) -> dict[str, Any]:
    """Return the parameters of a fitted world.

    Args:
        shop: The shop.
        steps: Length of the run, in visits.
    """
    return {"pays": "clicks" if shop.sizes is None else "amounts", "changes": change_steps(shop, steps)}


def world_of_file(file: str, *, finished: bool) -> type[Fitted]:
    """Return the class of the world that a file holds.

    Args:
        file: The file that `fit-world` wrote.
        finished: Whether the run is over, so that the file need not be there any more.

    Raises:
        DataError: the file is none, or broken, and the run is not over.
    """
    members: dict[str, Any] = {"__module__": __name__, "file": file}
    if not finished:
        shop = load_world(file)
        steps = int(shop.facts["steps"])
        about = f"a shop fitted to {shop.facts['log']}"
        members |= {"__doc__": about, "default_steps": steps, "reward_range": reward_range(shop)}
    return type("Fitted", (Fitted,), members)


@dataclass(frozen=True, kw_only=True)
class FittedWorld(TableWorld):
    """The world of a seed: `draw` of a `shop`, whose visits come as `schedule` says.

    A block of visits is a table of its own, with a row per visit and a column per product, so that memory is bounded.
    """

    shop: FittedShop
    draw: ShopDraw
    size_key: np.uint64

    @property
    def n_users(self) -> int:
        """Count the visitors who may come."""
        return self.shop.n_users

    def visits(self, start: int, stop: int) -> VisitBatch:
        """Return visits `start` to `stop - 1`."""
        rows = self.visitors(start, stop)
        chances = self.shop.chances(self.draw, rows)
        table = chances
        rewards = NO_REWARDS
        sizes = self.shop.expected_sizes(self.draw, rows)
        if sizes is not None:
            table = chances * sizes
            typical = self.shop.typical_sizes(self.draw, rows)
            rewards = self._settled(start, chances, typical)
        return self.visits_apart(start, rows, self.shop.users[rows], table, rewards)

    def _settled(self, start: int, chances: FloatArray, typical: FloatArray) -> FloatArray:
        """Draw what each product earns at each visit, by common random numbers."""
        assert self.shop.sizes is not None
        keys = (self.click_key, self.size_key)
        return draw_amounts(start, chances, typical, self.shop.sizes.residuals, self.shop.sizes.are_logs, *keys)

    def before(self) -> "FittedWorld":
        """Return the world before its first change, with visits and responses of their own."""
        # Rows before the first change alone: the past must not know what is still to come.
        end = min([change.row for change in self.shop.changes], default=self.shop.n_rows)
        return replace(
            self,
            schedule=_drawn_rows(0, end, len(self.schedule_of_rows), stream(self.seed, "past visits")),
            click_key=stream_key(self.seed, "past clicks"),
            size_key=stream_key(self.seed, "past sizes"),
        )

    @property
    def schedule_of_rows(self) -> IntArray:
        """The row of the log that each visit is."""
        assert self.schedule is not None
        return self.schedule

    def all_products(self) -> ProductList:
        """Return the shop's products, by the names that the shop gives them."""
        groups = tuple(self.shop.category_names[category] for category in self.shop.categories)
        return ProductList(self.product_ids, self.products, groups, self.shop.names)

    def schema(self) -> FittedSchema | None:
        """Return how features were made of the shop's tables, where its log says."""
        return self.shop.fitted or super().schema()


@jit
def draw_amounts(
    start: int,
    chances: FloatArray,
    typical: FloatArray,
    residuals: FloatArray,
    are_logs: bool,
    click_key: np.uint64,
    size_key: np.uint64,
) -> FloatArray:
    """Draw what each product earns at each of n visits, `(n, K)`: nothing, or an amount with a residual.

    Args:
        start: Number of the first visit.
        chances: Chance of a response, `(n, K)`.
        typical: Typical amount, or its logarithm, `(n, K)`.
        residuals: Residuals that one is drawn from, `(m,)`.
        are_logs: Whether amounts and residuals are logarithms.
        click_key, size_key: Keys of the draws of responses, and of residuals, by (visit, place of the product).
    """
    n_visits, n_products = chances.shape
    amounts = np.zeros((n_visits, n_products))
    for i in range(n_visits):
        for k in range(n_products):
            # A product's place is its row, as all products are candidates at every visit.
            if uniform(click_key, start + i, k) < chances[i, k]:
                residual = residuals[int(uniform(size_key, start + i, k) * residuals.shape[0])]
                amounts[i, k] = np.exp(typical[i, k] + residual) if are_logs else typical[i, k] + residual
    return amounts


def build_fitted_world(shop: FittedShop, *, seed: int, steps: int) -> FittedWorld:
    """Return the world of a seed.

    Args:
        shop: The fitted shop.
        seed: Seed of all draws.
        steps: Length of the run, in visits.
    """
    n_products = shop.n_products
    everything = frozen(np.arange(n_products))
    return FittedWorld(
        seed=seed,
        users=shop.features,
        segments=shop.segments,
        products=frozen(np.array(shop.products)),
        groups=everything,
        periods=(Period(0, frozen(np.zeros((0, n_products))), frozen(np.ones(n_products, bool))),),
        segment_names=(),
        group_names=(),
        visit_key=stream_key(seed, "visits"),
        click_key=stream_key(seed, "clicks"),
        size_key=stream_key(seed, "sizes"),
        shocks=tuple(
            Change(step, f"change {number}") for number, step in enumerate(change_steps(shop, steps), start=1)
        ),
        reward_range=reward_range(shop),
        schedule=frozen(visits_in_time(shop, steps, stream(seed, "visits"))),
        ids=frozen(np.array(shop.product_ids)),
        shop=shop,
        draw=shop.draw(seed),
    )


def reward_range(shop: FittedShop) -> tuple[float, float]:
    """Return the least and the largest reward of a visit."""
    if shop.sizes is None:
        return (0.0, 1.0)
    return (0.0 if shop.sizes.are_logs else -np.inf, np.inf)


def change_steps(shop: FittedShop, steps: int) -> list[int]:
    """Return the visit of a run that each change is at: at the same share as in the log.

    Args:
        shop: The fitted shop.
        steps: Length of the run, in visits.
    """
    return [max(1, int(change.row * steps / shop.n_rows)) for change in shop.changes]


def visits_in_time(shop: FittedShop, steps: int, rng: np.random.Generator) -> IntArray:
    """Draw which row of the log each visit of a run is, with replacement and in order of time.

    So visitors come as often, and at the times of the day and of the week, as in the log, and changes at their share.

    Args:
        shop: The fitted shop.
        steps: Length of the run, in visits.
        rng: Source of the draws.
    """
    rows = [0, *(change.row for change in shop.changes), shop.n_rows]
    visits = [0, *change_steps(shop, steps), steps]
    # Between changes: a visit of the run lies on the same side of each change as its row of the log.
    periods = zip(rows[:-1], rows[1:], visits[:-1], visits[1:], strict=True)
    return np.concatenate([_drawn_rows(low, high, stop - start, rng) for low, high, start, stop in periods])


def _drawn_rows(low: int, high: int, count: int, rng: np.random.Generator) -> IntArray:
    return np.sort(rng.integers(low, high, max(0, count)))
