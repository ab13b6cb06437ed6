"""Checks of logs of rankings, by their top products: faults are named, and sound logs stay as they are."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.quality.fooled.shop import DAY, DAYS, START, Shop, at
from zoosim.core.action_space import RANKINGS
from zoosim.core.rng import stream
from zoosim.core.types import FloatArray
from zoosim.logs.candidate_sets import CandidateSets
from zoosim.logs.log import Log
from zoosim.off_policy.evaluate import evaluate
from zoosim.off_policy.verdict import TRUST

VISITS, LENGTH = 4_000, 3


def ranking_log(rng: np.random.Generator, taste: FloatArray | None = None) -> Log:
    """Draw rankings of 3 of 6 products by even odds, of which each is clicked on its own; `taste (n, 1)` moves all."""
    shop = Shop(rng, n_actions=6)
    features = shop.visitors(VISITS)
    rates = shop.click_rates(features, 0.0 if taste is None else taste)
    actions = np.argsort(rng.random((VISITS, 6)), axis=1)[:, :LENGTH]
    clicks = np.stack([rng.random(VISITS) < at(rates, column) for column in actions.T], axis=1)
    return Log(
        actions,
        np.broadcast_to(1.0 / (6.0 - np.arange(LENGTH)), (VISITS, LENGTH)).copy(),
        clicks.astype(float),
        CandidateSets.everything(6),
        np.zeros(VISITS, np.int64),
        features,
        np.zeros(VISITS, np.int64),
        np.zeros((6, 0)),
        times=START + np.sort(rng.integers(DAYS * DAY, size=VISITS)),
        action_space=RANKINGS,
    )


def copied(rng: np.random.Generator) -> Log:
    log = ranking_log(rng)
    return log.rows(np.repeat(np.arange(len(log)), 2))


def late(rng: np.random.Generator) -> Log:
    log = ranking_log(rng)
    rewards = log.rewards.copy()
    rewards[7 * len(log) // 8 :] = 0.0
    return replace(log, rewards=rewards)


def falling(rng: np.random.Generator) -> Log:
    log = ranking_log(rng)
    kept = rng.random(log.rewards.shape) < np.linspace(1.0, 0.4, len(log))[:, None]
    return replace(log, rewards=log.rewards * kept)


def bursts_of_users(rng: np.random.Generator) -> Log:
    return ranking_log(rng, taste=np.repeat(1.5 * rng.normal(size=VISITS // 40), 40)[:, None])


def reasons_of(log: Log) -> tuple[list[str], list[str]]:
    policy = {"favours two": np.array([0.3, 0.3, 0.1, 0.1, 0.1, 0.1])}
    results = evaluate(log, policy, interval="asymptotic", compare=False).results
    return [row.verdict for row in results], [reason for row in results for reason in row.reasons]


FAULTS: list[tuple[Callable[[np.random.Generator], Log], str]] = [
    (copied, "copies: 50.0% of the rows repeat another row"),
    (late, "they may not have arrived yet"),
    (falling, "drift: over the log rewards fall by"),
    (bursts_of_users, "go together: their sums vary"),
]


@pytest.mark.parametrize(("make", "reason"), FAULTS, ids=[make.__name__ for make, _ in FAULTS])
def test_a_fault_of_a_log_of_rankings_is_named_and_never_trusted(
    make: Callable[[np.random.Generator], Log], reason: str
) -> None:
    verdicts, reasons = reasons_of(make(stream(0, "rankings", make.__name__)))
    assert any(reason in each for each in reasons), reasons
    assert TRUST not in verdicts


@pytest.mark.parametrize("seed", range(5))
def test_sound_logs_of_rankings_are_trusted(seed: int) -> None:
    _, reasons = reasons_of(ranking_log(stream(seed, "rankings", "sound")))
    # The halves of the estimate, which are compared by 3 standard errors, whatever the log is of.
    assert [each for each in reasons if "in the first half of the log" not in each] == []
