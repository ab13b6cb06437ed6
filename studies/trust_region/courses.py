"""Let q-ensemble learn in trust regions and behind guardrails, around one point or around what was served last."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from studies.cache import kept_rows
from studies.held_out import HeldOut, boosts_reward, draw_held_out, open_shop, spec_of
from studies.shops import ShopChanges, read_shop
from studies.work import rows_by_task
from zoosim.core.rng import stream
from zoosim.core.search_config import SearchConfig
from zoosim.core.types import Progress
from zoosim.experiments.request import parse_seeds
from zoosim.policies.boosts.base import BoostPolicy
from zoosim.policies.boosts.last_boosts import LastBoosts
from zoosim.policies.boosts.q_boosts import QEnsemble
from zoosim.policies.boosts.rank_guardrail import RankGuardrail
from zoosim.policies.boosts.simple import read_boosts
from zoosim.ranking.stability import rank_change
from zoosim.worlds.search.boosts import context_of
from zoosim.worlds.search.shop import SearchShop, SearchVisit
from zoosim.worlds.search.tables import digest

STATIC = "0 0 0 0 0 1 0 0 0 0"
"""The static best: full weight on the price alone, in units of a_max."""

LIMIT, TOP = 3, 10


class Setting(NamedTuple):
    """Parameters of q-ensemble, and whose ranking a guardrail around it holds against; empty for none."""

    params: dict[str, Any]
    against: str = ""


def _region(around: str, **params: Any) -> Setting:
    return Setting({"base": STATIC, "around": around, **params})


FIXED_SMALL = {"trust_region": "fixed", "radius": 0.1}
FIXED_LARGE = {"trust_region": "fixed", "radius": 0.4}
ADAPTIVE = {"trust_region": "adaptive", "radius": 0.8, "narrow": 0.1}
RANKING = {"trust_region": "ranking", "limit": LIMIT}

FREE = "no trust region"
SMALL_BASE, SMALL_LAST = "radius .1, static best", "radius .1, last boosts"
LARGE_BASE, LARGE_LAST = "radius .4, static best", "radius .4, last boosts"
ADAPTIVE_BASE, ADAPTIVE_LAST = "adaptive, .1 to .8, static best", "adaptive, .1 to .8, last boosts"
GUARD_BASE, GUARD_LAST = "guardrail, base ranker", "guardrail, last ranking"
PLAN_BASE, PLAN_LAST = "planned in it, base ranker", "planned in it, last ranking"

SETTINGS = {
    FREE: Setting({}),
    SMALL_BASE: _region("base", **FIXED_SMALL),
    SMALL_LAST: _region("previous", **FIXED_SMALL),
    LARGE_BASE: _region("base", **FIXED_LARGE),
    LARGE_LAST: _region("previous", **FIXED_LARGE),
    ADAPTIVE_BASE: _region("base", **ADAPTIVE),
    ADAPTIVE_LAST: _region("previous", **ADAPTIVE),
    GUARD_BASE: Setting({}, "base"),
    GUARD_LAST: Setting({}, "previous"),
    PLAN_BASE: Setting({**RANKING, "around": "base"}, "base"),
    PLAN_LAST: Setting({**RANKING, "around": "previous"}, "previous"),
}
LONG, SHORT = (100, 300, 1_000, 5_000), (100, 300, 1_000)
ON_LONG = (FREE, GUARD_BASE, GUARD_LAST)
"""Settings that go through all 5,000 visits."""

HELD_OUT_VISITS = 100


@dataclass(frozen=True)
class Stretch:
    """A learner's visits since the last checkpoint up to number `visits`.

    `reward` is what it then recommends, in expected EUR a visit on visits apart, `static` what the static best earns
    there. `earned` EUR a visit on the way. Of its decisions on the way: products that left the base ranker's top 10,
    `left`, and that under the last boosts of the same segment and query type, `changed`, on average; how many decisions
    took more than 3 out of the former, `broke_base`, and out of the latter, `broke_last`; how many were `held` back by
    a guardrail; `decisions` in all.
    """

    setting: str
    seed: int
    visits: int
    reward: float
    static: float
    earned: float
    left: float
    changed: float
    broke_base: int
    broke_last: int
    held: int
    decisions: int


class Served(NamedTuple):
    """What a visit earned, products that left both tops, and whether a guardrail held back."""

    earned: float
    left: int
    changed: int
    held: bool


def measure(
    *, seeds: Any = "1000:1008", jobs: Any = None, config: ShopChanges = None, progress: Progress = lambda line: None
) -> list[Stretch]:
    """Let learners go through 5,000 visits of each seed, free and guarded, and through 1,000 in trust regions.

    What is finished is kept on disk, so a run that was stopped goes on.
    """
    tasks = [(name, seed) for seed in parse_seeds(seeds) for name in SETTINGS]
    work = partial(_kept_course, read_shop(config))
    return rows_by_task(work, tasks, jobs=jobs, words=lambda task: f"{task[0]}, seed {task[1]}", progress=progress)


def _kept_course(config: SearchConfig, task: tuple[str, int]) -> list[Stretch]:
    name, seed = task
    key = (config.model_dump_json(), digest(config), SETTINGS[name], seed, LONG, SHORT, HELD_OUT_VISITS)
    checkpoints = LONG if name in ON_LONG else SHORT
    return kept_rows("trust-region", key, Stretch, partial(course, config, name, seed, checkpoints))


def course(config: SearchConfig, name: str, seed: int, checkpoints: Sequence[int]) -> list[Stretch]:
    """Let a learner serve the visits of a seed up to the last of `checkpoints`."""
    shop = open_shop(config, seed)
    spec = spec_of(shop, checkpoints[-1])
    static = read_boosts("static", STATIC, spec)
    held_out = draw_held_out(shop, np.tile(static, (len(shop.world.config.segments), 1)), HELD_OUT_VISITS)
    baseline = float(held_out.shares @ held_out.baseline.mean(axis=1))
    setting = SETTINGS[name]
    policy: BoostPolicy = QEnsemble(spec, stream(seed, "policy"), **setting.params)
    if setting.against:
        policy = RankGuardrail.around(policy, limit=LIMIT, k=TOP, against=setting.against)
    # Kept here as well, so that what is counted does not go by what the learner remembers.
    last = LastBoosts(spec, np.zeros(spec.product_dim))
    rows = []
    start = 0
    for end in checkpoints:
        visits = [_served(shop, shop.arrive(step), policy, last) for step in range(start, end)]
        reward = _reward(shop, held_out, policy)
        rows.append(_stretch(name, seed, end, reward, baseline, visits))
        start = end
    return rows


def _stretch(name: str, seed: int, end: int, reward: float, static: float, visits: Sequence[Served]) -> Stretch:
    return Stretch(
        setting=name,
        seed=seed,
        visits=end,
        reward=reward,
        static=static,
        earned=float(np.mean([visit.earned for visit in visits])),
        left=float(np.mean([visit.left for visit in visits])),
        changed=float(np.mean([visit.changed for visit in visits])),
        broke_base=sum(visit.left > LIMIT for visit in visits),
        broke_last=sum(visit.changed > LIMIT for visit in visits),
        held=sum(visit.held for visit in visits),
        decisions=len(visits),
    )


def _served(shop: SearchShop, visit: SearchVisit, policy: BoostPolicy, last: LastBoosts) -> Served:
    """Serve a visit, and return what it earned and how its ranking moved."""
    context = context_of(shop, visit)
    before = shop.rank(visit, last.of(context))
    action = policy.select_action(context)
    held = isinstance(policy, RankGuardrail) and policy.last is not None and bool(policy.last.why)
    last.record(context, action)
    shown = shop.rank(visit, action)
    reward = shop.serve(visit, shown).reward
    policy.update(context, action, reward)
    # Both tops are full, so a product that has left is counted with one that has come.
    left, changed = (rank_change(old, shown, TOP) // 2 for old in (visit.baseline, before))
    return Served(reward, left, changed, held)


def _reward(shop: SearchShop, held_out: HeldOut, policy: BoostPolicy) -> float:
    """Return the expected reward of recommendations on held-out visits."""
    worth = [
        [boosts_reward(shop, visit, policy.recommend(context_of(shop, visit))) for visit in part]
        for part in held_out.visits
    ]
    return float(held_out.shares @ np.mean(worth, axis=1))
