"""Let q-ensemble learn in trust regions of several sizes around the static best, and behind the guardrail."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from studies.held_out import HeldOut, boosts_reward, draw_held_out, open_shop, spec_of
from studies.shops import ShopChanges, read_shop
from studies.work import rows_by_seed
from zoosim.core.rng import stream
from zoosim.core.search_config import SearchConfig
from zoosim.core.types import FloatArray, IntArray, Progress
from zoosim.experiments.request import parse_seeds
from zoosim.policies.boosts.base import BoostPolicy
from zoosim.policies.boosts.q_boosts import QEnsemble
from zoosim.policies.boosts.rank_guardrail import RankGuardrail
from zoosim.policies.boosts.simple import read_boosts
from zoosim.worlds.search.boosts import context_of
from zoosim.worlds.search.shop import SearchShop, SearchVisit

STATIC = "0 0 0 0 0 1 0 0 0 0"
"""The static best: full weight on the price alone, in units of a_max."""

LIMIT, TOP = 3, 10
RADII = (0.1, 0.2, 0.4, 0.8)
FREE, GUARDED, PLANNED, ADAPTIVE = "no trust region", "guardrail", "planned in the guardrail", "adaptive, .1 to .8"
SETTINGS: dict[str, dict[str, Any]] = {
    FREE: {},
    GUARDED: {},
    PLANNED: {"trust_region": "ranking", "limit": LIMIT},
    **{f"radius {r:g}": {"trust_region": "fixed", "radius": r, "base": STATIC} for r in RADII},
    ADAPTIVE: {"trust_region": "adaptive", "radius": 0.8, "narrow": 0.1, "base": STATIC},
}
LONG, SHORT = (100, 300, 1_000, 5_000), (100, 300, 1_000)
FEW = 6
"""Seeds that the trust regions are measured on: the first ones."""

HELD_OUT_VISITS = 100


@dataclass(frozen=True)
class Stretch:
    """A learner's visits since the last checkpoint up to number `visits`.

    `reward` is what it then recommends, in expected EUR a visit on visits apart, `static` what the static best earns
    there. `earned` EUR a visit on the way. Of its decisions on the way: products that `left` the base ranker's top 10
    and that of the static best, `moved`, on average; how many were `broken`, more than 3 having left the base ranker's
    top 10, and `held` by a guardrail; `decisions` in all.
    """

    setting: str
    seed: int
    visits: int
    reward: float
    static: float
    earned: float
    left: float
    moved: float
    broken: int
    held: int
    decisions: int


def measure(
    *, seeds: Any = "1000:1020", jobs: Any = None, config: ShopChanges = None, progress: Progress = lambda line: None
) -> list[Stretch]:
    """Let learners go through 5,000 visits of each seed, free and guarded, and through 1,000 in trust regions."""
    chosen = parse_seeds(seeds)
    work = partial(_courses, read_shop(config), chosen[:FEW])
    return rows_by_seed(work, chosen, jobs=jobs, progress=progress)


def _courses(config: SearchConfig, few: Sequence[int], seed: int) -> list[Stretch]:
    """Let every learner go through a seed, those in trust regions if it is one of the `few`."""
    rows = []
    for setting in SETTINGS:
        if setting in (FREE, GUARDED):
            rows += course(config, setting, seed, LONG)
        elif seed in few:
            rows += course(config, setting, seed, SHORT)
    return rows


def course(config: SearchConfig, setting: str, seed: int, checkpoints: Sequence[int]) -> list[Stretch]:
    """Let a learner serve the visits of a seed up to the last of `checkpoints`."""
    shop = open_shop(config, seed)
    static = read_boosts("static", STATIC, spec_of(shop, 0))
    held_out = draw_held_out(shop, np.tile(static, (len(shop.world.config.segments), 1)), HELD_OUT_VISITS)
    policy: BoostPolicy = QEnsemble(spec_of(shop, checkpoints[-1]), stream(seed, "policy"), **SETTINGS[setting])
    if setting in (GUARDED, PLANNED):
        policy = RankGuardrail.around(policy, limit=LIMIT, k=TOP)
    rows, start = [], 0
    for end in checkpoints:
        figures = np.array([_served(shop, shop.arrive(step), policy, static) for step in range(start, end)])
        means, broken, held = figures[:, :3].mean(axis=0), int(figures[:, 3].sum()), int(figures[:, 4].sum())
        reward = _reward(shop, held_out, policy)
        baseline = float(held_out.shares @ held_out.baseline.mean(axis=1))
        earned, left, moved = (float(mean) for mean in means)
        rows.append(Stretch(setting, seed, end, reward, baseline, earned, left, moved, broken, held, end - start))
        start = end
    return rows


def _served(shop: SearchShop, visit: SearchVisit, policy: BoostPolicy, static: FloatArray) -> tuple[float, ...]:
    """Serve a visit, and return what it earned, what left and moved, whether the limit broke or the guardrail held."""
    context = context_of(shop, visit)
    action = policy.select_action(context)
    held = isinstance(policy, RankGuardrail) and policy.last is not None and bool(policy.last.why)
    shown = shop.rank(visit, action)
    reward = shop.serve(visit, shown).reward
    policy.update(context, action, reward)
    left = _gone(visit.baseline, shown)
    return reward, left, _gone(shop.rank(visit, static), shown), left > LIMIT, held


def _gone(before: IntArray, after: IntArray) -> int:
    return int(TOP - np.isin(before[:TOP], after[:TOP]).sum())


def _reward(shop: SearchShop, held_out: HeldOut, policy: BoostPolicy) -> float:
    """Return the expected reward of recommendations on held-out visits."""
    worth = [
        [boosts_reward(shop, visit, policy.recommend(context_of(shop, visit))) for visit in part]
        for part in held_out.visits
    ]
    return float(held_out.shares @ np.mean(worth, axis=1))
