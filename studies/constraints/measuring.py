"""Let policies with floors serve 2,000 visits, and value what they then recommend by the true model."""

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from studies.cache import kept_rows
from studies.constraints.front import (
    CM2,
    FIT_VISITS,
    PRICES,
    REPLICATES,
    STRATEGIC,
    FrontPoint,
    Means,
    floor_of,
    front_of,
    means_of,
    reward_at,
)
from studies.held_out import HeldOut, draw_held_out, open_shop, serve, spec_of
from studies.shops import ShopChanges, read_shop
from studies.work import rows_by_task
from zoosim.core.errors import ConfigError
from zoosim.core.parameters import shown
from zoosim.core.rng import stream
from zoosim.core.search_config import SearchConfig
from zoosim.core.search_names import FEATURES
from zoosim.core.types import Progress
from zoosim.experiments.request import parse_seeds
from zoosim.policies.boosts.constrained import ConstrainedBoosts
from zoosim.policies.boosts.item_critic import ItemCritic
from zoosim.policies.boosts.q_boosts import QEnsemble
from zoosim.policies.boosts.rank_guardrail import RankGuardrail
from zoosim.worlds.search.boosts import BoostWorld
from zoosim.worlds.search.shop import SearchShop
from zoosim.worlds.search.tables import digest

VISITS = 2_000
HELD_OUT_VISITS = 100
"""Visits of each segment on which recommendations are valued."""


class Setting(NamedTuple):
    """A policy, the quantity that has a floor, empty for none, and whether the fixed guardrail is around it."""

    cls: type[ConstrainedBoosts]
    quantity: str = ""
    is_guarded: bool = False


SETTINGS = {
    "item-critic-cm2": Setting(ItemCritic, CM2),
    "item-critic-strategic": Setting(ItemCritic, STRATEGIC),
    "item-critic-guardrail": Setting(ItemCritic, is_guarded=True),
    "q-ensemble-cm2": Setting(QEnsemble, CM2),
    "q-ensemble-strategic": Setting(QEnsemble, STRATEGIC),
    "item-critic-free": Setting(ItemCritic),
}


@dataclass(frozen=True)
class Course(Means):
    """Expected values of what a policy recommends after its visits, in the shop of a `seed`.

    `floor` of its `quantity`, and the reward that is `possible` at that floor, or without one; `standing` is what the
    policy says of its floor.
    """

    setting: str
    seed: int
    quantity: str
    floor: float
    possible: float
    standing: str

    @property
    def share(self) -> float:
        """The reward as a share of the possible one."""
        return self.reward / self.possible

    @property
    def kept(self) -> float:
        """The quantity as a share of its floor."""
        return float(getattr(self, self.quantity)) / self.floor


def measure(
    *,
    seeds: Any = "1000:1016",
    jobs: Any = None,
    config: ShopChanges = None,
    policies: Any = None,
    progress: Progress = lambda line: None,
) -> list[FrontPoint | Course]:
    """Compute the front of each seed's shop, and let policies learn there; what is finished is kept on disk.

    `policies` lists some of them; all by default.
    """
    shop = read_shop(config)
    names = _names(policies)
    numbers = parse_seeds(seeds)
    fronts = rows_by_task(
        partial(_kept_front, shop), numbers, jobs=jobs, words=lambda seed: f"front, seed {seed}", progress=progress
    )
    tasks = [(name, seed) for name in names for seed in numbers]
    work = partial(_kept_course, shop)
    courses = rows_by_task(work, tasks, jobs=jobs, words=lambda task: f"{task[0]}, seed {task[1]}", progress=progress)
    return [*fronts, *courses]


def _names(policies: Any) -> list[str]:
    if policies is None:
        return list(SETTINGS)
    if not isinstance(policies, list) or not policies or not all(name in tuple(SETTINGS) for name in policies):
        expected = f"expected a list of some of {', '.join(SETTINGS)}"
        raise ConfigError(f"constraints: policies: got {shown(policies)}, {expected}")
    return [name for name in SETTINGS if name in policies]


def _key(config: SearchConfig, seed: int) -> tuple[Any, ...]:
    return (
        config.model_dump_json(),
        digest(config),
        seed,
        HELD_OUT_VISITS,
        REPLICATES,
        FIT_VISITS,
        sorted(PRICES.items()),
    )


def _kept_front(config: SearchConfig, seed: int) -> list[FrontPoint]:
    def make() -> list[FrontPoint]:
        shop = open_shop(config, seed)
        return front_of(shop, _held_out(shop))

    return kept_rows("constraints-front", _key(config, seed), FrontPoint, make)


def _kept_course(config: SearchConfig, task: tuple[str, int]) -> list[Course]:
    name, seed = task
    setting = SETTINGS[name]
    key = (*_key(config, seed), name, setting.cls.name, setting.quantity, VISITS)
    return kept_rows("constraints", key, Course, lambda: [course(config, name, seed)])


def course(config: SearchConfig, name: str, seed: int) -> Course:
    """Let a policy serve the first visits of a seed's shop, and value what it recommends then."""
    setting = SETTINGS[name]
    points = _kept_front(config, seed)
    shop = open_shop(config, seed)
    world = BoostWorld(shop)
    quantity = setting.quantity
    floor = floor_of(points, quantity) if quantity else 0.0
    params: dict[str, Any] = {"floors": {quantity: floor}} if quantity else {}
    learner = setting.cls(spec_of(shop, VISITS), stream(seed, "policy"), **params)
    policy = RankGuardrail.around(learner) if setting.is_guarded else learner
    for step in range(VISITS):
        serve(world, policy, world.arrive(step))
    held_out = _held_out(shop)
    rankings = [
        [shop.rank(visit, policy.recommend(world.context(visit))) for visit in visits] for visits in held_out.visits
    ]
    means = means_of(shop, held_out, rankings)
    return Course(
        **vars(means),
        setting=name,
        seed=seed,
        quantity=quantity,
        floor=floor,
        possible=reward_at(points, quantity, floor) if quantity else points[0].reward,
        standing="".join(report.standing for report in learner.constraints),
    )


def _held_out(shop: SearchShop) -> HeldOut:
    no_boosts = np.zeros((len(shop.world.config.segments), len(FEATURES)))
    return draw_held_out(shop, no_boosts, HELD_OUT_VISITS)
