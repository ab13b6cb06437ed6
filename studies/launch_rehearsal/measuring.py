"""Rehearse a launch by the log of each shop, and make it many times in the true one."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import zoosim
from studies.launch_rehearsal.shops import TrueShop, true_launch, true_shop
from studies.work import rows_by_seed
from zoosim.api.logs import new_policy
from zoosim.api.models import SHARE, train_each
from zoosim.core.checks import check_whole
from zoosim.core.config import build
from zoosim.core.errors import DataError
from zoosim.core.rng import stream
from zoosim.core.statistics import Interval
from zoosim.core.types import FloatArray, Progress
from zoosim.logs.log import Log
from zoosim.monitoring.launch_plan import WAIT, Plan
from zoosim.off_policy.targets.products import make_target
from zoosim.off_policy.training import earlier_and_later
from zoosim.policies.base import Policy
from zoosim.policies.persistence import save_policy
from zoosim.rehearsal.launches.outcome import Delays, Outcome, Terms, rehearse_once
from zoosim.rehearsal.launches.prepare import exploring_chances

DAYS = 30
BEARABLE = 0.01
EXPLORATION = 0.05


@dataclass(frozen=True)
class Replayed:
    """What was said of a launch, and what came of it in the true shop.

    Attributes:
        seed, words, policy: The shop, what is special about it, and what is launched.
        believed: How far the rehearsal says that it is to be believed; "refused" where nothing was rehearsed.
        regret: The chance of regret that was printed.
        effect, net, asking, hours: What was printed, with intervals.
        true_effect: By what part the model truly earns more.
        replays: Launches in the true shop.
        regretted: How many of them were regretted.
        shipped: How many shipped.
        net_held, asking_held, hours_held: In how many the interval held.
        mean_net: What they brought on average.
    """

    seed: int
    words: str
    policy: str
    believed: str
    regret: float
    effect: Interval
    net: Interval
    asking: Interval
    hours: Interval
    true_effect: float
    replays: int
    regretted: int
    shipped: int
    net_held: int
    asking_held: int
    hours_held: int
    mean_net: float

    @property
    def was_rehearsed(self) -> bool:
        """True unless the rehearsal refused the log."""
        return self.believed != REFUSED


REFUSED = "refused"
NOTHING = Interval(0.0, 0.0, 0.0)


def measure(
    *,
    seeds: Any = "1000:1022",
    jobs: Any = None,
    launches: int = 100,
    replays: int = 50,
    plan: Any = None,
    progress: Progress = lambda line: None,
) -> list[Replayed]:
    """Return what was said of the launch in each shop, and what came; `plan` is what differs from the default plan."""
    work = partial(
        _at_seed,
        launches=check_whole("launch-rehearsal: launches", launches, 2, 100_000),
        replays=check_whole("launch-rehearsal: replays", replays, 1, 100_000),
        plan=build(Plan, plan or {}, "launch-rehearsal: plan"),
    )
    return rows_by_seed(work, seeds, jobs=jobs, progress=progress)


def _at_seed(seed: int, *, launches: int, replays: int, plan: Plan) -> list[Replayed]:
    shop = true_shop(seed)
    log = shop.log()
    policy = _trained(shop, log)
    chances = _chances_by_segment(shop, log, policy)
    outcomes = [_true_outcome(shop, chances, plan, number) for number in range(replays)]
    with tempfile.TemporaryDirectory() as folder:
        file = save_policy(policy, Path(folder) / "policy.npz")
        try:
            said = zoosim.rehearse_launch(
                log,
                file,
                plan=plan.model_dump(mode="json"),
                days=DAYS,
                launches=launches,
                bearable=BEARABLE,
                exploration=EXPLORATION,
                out=Path(folder) / "launch",
                progress=None,
            )
        except DataError:
            return [_refused(shop, outcomes)]
    return [_compared(shop, outcomes, said)]


def _trained(shop: TrueShop, log: Log) -> Policy:
    name = shop.kind.policy
    earlier, _ = earlier_and_later(log, SHARE)
    made = {name: new_policy(name, name, log, 0)}
    policy: Policy = train_each(made, replace(earlier, user_ids=None), lambda line: None)[0][name]
    return policy


def _chances_by_segment(shop: TrueShop, log: Log, policy: Policy) -> FloatArray:
    """Return how likely the new model shows each product to each segment, exploring `(S, P)`."""
    segments = log.features.argmax(axis=1)
    rows = np.array([int((segments == segment).argmax()) for segment in range(shop.kind.effects.segments)])
    some = replace(log.rows(rows), user_ids=None)
    chosen = make_target(policy, some).distributions(some, 0, len(some)).matrix(some.n_actions)
    return exploring_chances(chosen, np.full(chosen.shape, 1.0 / some.n_actions), EXPLORATION)


def _true_outcome(shop: TrueShop, chances: FloatArray, plan: Plan, number: int) -> Outcome:
    rng = stream(shop.seed, "true launch", str(number))
    earnings, traffic = true_launch(shop, chances, rng)
    terms = Terms(plan, (plan.window or WAIT) / 3_600.0, 24.0 * DAYS, Delays(np.zeros(0)))
    return rehearse_once(number, earnings, traffic, terms, rng)


def _refused(shop: TrueShop, outcomes: Sequence[Outcome]) -> Replayed:
    return Replayed(
        seed=shop.seed,
        words=shop.kind.words,
        policy=shop.kind.policy,
        believed=REFUSED,
        regret=0.0,
        effect=NOTHING,
        net=NOTHING,
        asking=NOTHING,
        hours=NOTHING,
        net_held=0,
        asking_held=0,
        hours_held=0,
        **_came(outcomes),
    )


def _compared(shop: TrueShop, outcomes: Sequence[Outcome], said: zoosim.LaunchRehearsal) -> Replayed:
    figures = said.figures
    return Replayed(
        seed=shop.seed,
        words=shop.kind.words,
        policy=shop.kind.policy,
        believed=said.believed,
        regret=figures.regret.mean,
        effect=figures.effect,
        net=figures.net,
        asking=figures.asking,
        hours=figures.hours,
        net_held=_held(figures.net, [outcome.net for outcome in outcomes]),
        asking_held=_held(figures.asking, [outcome.asking for outcome in outcomes]),
        hours_held=_held(figures.hours, [outcome.hour for outcome in outcomes]),
        **_came(outcomes),
    )


def _came(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    return {
        "true_effect": float(np.mean([outcome.effect for outcome in outcomes])),
        "replays": len(outcomes),
        "regretted": sum(outcome.is_regretted(BEARABLE) for outcome in outcomes),
        "shipped": sum(outcome.has_shipped for outcome in outcomes),
        "mean_net": float(np.mean([outcome.net for outcome in outcomes])),
    }


def _held(interval: Interval, values: Sequence[float]) -> int:
    assert interval.low is not None
    assert interval.high is not None
    low, high = interval.low, interval.high
    return sum(low <= value <= high for value in values)
