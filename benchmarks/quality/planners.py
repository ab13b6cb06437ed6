"""Q24: do other searches, and uncertainties that held-out visits mend, make q-ensemble earn more?

Each variant is compared with the policy that differs from it in that alone, in shops of 1,000 products, paired by seed:
what its recommendations earn on visits apart after 500 visits, and what its decisions earned on the way.
"""

from collections.abc import Sequence
from functools import partial
from time import process_time
from typing import Any, NamedTuple

import numpy as np

from studies.held_out import HeldOut, draw_held_out, open_shop, ranking_reward, serve
from studies.work import rows_by_seed
from studies.writing import written
from zoosim.core.rng import stream
from zoosim.core.statistics import mean_interval
from zoosim.policies.boosts.q_boosts import QEnsemble
from zoosim.worlds.search.boosts import BoostWorld

SEEDS, VISITS, HELD_OUT_VISITS = "1000:1016", 500, 60
SLATE = "cem"
BOOSTS = "cem, of boosts"
UCB = "ucb"
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    SLATE: ("", {}),
    "actor": (SLATE, {"planner": "actor"}),
    BOOSTS: ("", {"view": "boosts"}),
    "actor, of boosts": (BOOSTS, {"view": "boosts", "planner": "actor"}),
    "gradient, of boosts": (BOOSTS, {"view": "boosts", "planner": "gradient"}),
    UCB: ("", {"explore": "ucb"}),
    "ucb, recalibrated": (UCB, {"explore": "ucb", "confidence": "recalibrated", "held_out": 200}),
    "ucb, limit at 80%": (UCB, {"explore": "ucb", "confidence": "limit", "level": 0.8, "held_out": 200}),
    "ucb, limit at 95%": (UCB, {"explore": "ucb", "confidence": "limit", "level": 0.95, "held_out": 200}),
}
"""Parameters of each variant, and the one that it is compared with."""


class Row(NamedTuple):
    """A variant on a seed: EUR per held-out visit, EUR per visit on the way, and milliseconds of both.

    `share` is what an actor's boosts are worth to the critic, of what a search's are: 0 for random boosts, 1 for those
    of the search; NaN for other variants.
    """

    variant: str
    seed: int
    recommended: float
    earned: float
    decision_ms: float
    recommend_ms: float
    share: float


def main() -> None:
    """Print a line per variant."""
    rows = rows_by_seed(partial(rows_of, VISITS), SEEDS, jobs=None, progress=lambda line: None)
    print(f"Q24 planners: {VISITS} visits, seeds {SEEDS}, EUR per visit, 95% intervals, ms of one thread")
    for variant, (other, _) in VARIANTS.items():
        print(f"  {variant}: {_line(rows, variant, other)}")


def _line(rows: Sequence[Row], variant: str, other: str) -> str:
    own = [row for row in rows if row.variant == variant]
    recommended = written(mean_interval([row.recommended for row in own]), 1)
    earned = written(mean_interval([row.earned for row in own]), 1)
    decision = np.median([row.decision_ms for row in own])
    recommend = np.median([row.recommend_ms for row in own])
    line = f"recommends {recommended}, earned {earned}; decides in {decision:.2f}, recommends in {recommend:.2f} ms"
    if other:
        line += f"; less {other}: {_paired(rows, variant, other, 1)} and {_paired(rows, variant, other, 2)}"
    shares = [row.share for row in own if np.isfinite(row.share)]
    if shares:
        line += f"; {written(mean_interval(shares), 1, percent=True)} of the search's objective"
    return line


def _paired(rows: Sequence[Row], variant: str, other: str, digits: int) -> str:
    field = "recommended" if digits == 1 else "earned"
    ours, theirs = ({row.seed: getattr(row, field) for row in rows if row.variant == name} for name in (variant, other))
    return written(mean_interval([ours[seed] - theirs[seed] for seed in ours]), 1, sign=True)


def rows_of(visits: int, seed: int) -> list[Row]:
    """Let every variant serve the first visits of a seed."""
    world = BoostWorld(open_shop({"n_products": 1_000, "a_max": 0.5}, seed))
    # The baseline of held-out visits is not looked at.
    held_out = draw_held_out(world.shop, np.zeros((len(world.shop.world.config.segments), 10)), HELD_OUT_VISITS)
    return [_row(world, held_out, variant, seed, visits) for variant in VARIANTS]


def _row(world: BoostWorld, held_out: HeldOut, variant: str, seed: int, visits: int) -> Row:
    policy = QEnsemble(world.spec(visits), stream(seed, "policy"), **VARIANTS[variant][1])
    earned = np.empty(visits)
    seconds = np.empty(visits)
    for step in range(visits):
        visit = world.arrive(step)
        shown, (deciding, _) = serve(world, policy, visit)
        earned[step] = ranking_reward(world.shop, visit, shown)
        seconds[step] = deciding
    start = process_time()
    actions = [[policy.recommend(world.context(visit)) for visit in part] for part in held_out.visits]
    spent = process_time() - start
    worth = [
        [ranking_reward(world.shop, visit, world.rank(visit, action)) for visit, action in zip(*part, strict=True)]
        for part in zip(held_out.visits, actions, strict=True)
    ]
    return Row(
        variant,
        seed,
        float(held_out.shares @ np.mean(worth, axis=1)),
        float(earned.mean()),
        1_000.0 * float(np.mean(seconds[visits // 2 :])),
        1_000.0 * spent / (HELD_OUT_VISITS * len(actions)),
        _share_of_search(world, held_out, policy) if policy.planner == "actor" else np.nan,
    )


def _share_of_search(world: BoostWorld, held_out: HeldOut, policy: QEnsemble) -> float:
    """Return what the actor's boosts are worth to the critic, from 0 for random ones to 1 for those of a search."""
    values = np.zeros(3)
    rng = stream(world.seed, "random boosts")
    for visit in (visit for part in held_out.visits for visit in part[:15]):
        context = world.context(visit)
        learned = policy.recommend(context)
        policy.planner = "cem"
        found = policy.recommend(context)
        policy.planner = "actor"
        values += policy.predict(context, np.array([rng.uniform(-0.5, 0.5, 10), learned, found]))[0]
    random, actor, search = values
    return float((actor - random) / (search - random))
