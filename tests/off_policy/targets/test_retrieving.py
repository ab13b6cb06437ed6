"""Policies with candidates of their own: weighed over a log's sources, and what a log cannot say of them is counted."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import zoosim
from tests.arena.backends.test_remote import Losing
from zoosim.arena.backends.judging import spread_over
from zoosim.arena.backends.remote import Remote
from zoosim.arena.loop import play
from zoosim.arena.recording import record_frames, write_records
from zoosim.core import blocks
from zoosim.core.errors import PolicyError
from zoosim.core.types import Distribution, FloatArray
from zoosim.logs import stream
from zoosim.logs.log import Log
from zoosim.logs.parse import to_log
from zoosim.logs.stream import stream_log
from zoosim.models import linear_rewards
from zoosim.off_policy import read_log
from zoosim.off_policy.actions.product_weights import weigh_and_predict
from zoosim.off_policy.evaluate import evaluate
from zoosim.off_policy.targets.products import make_target, spec_of
from zoosim.off_policy.targets.retrieving import RetrievingTarget
from zoosim.policies.products.rules import Popularity
from zoosim.policies.products.two_stage import TwoStage
from zoosim.policies.requests import dense_propensities
from zoosim.worlds.catalogue.world import Catalogue

ROWS = 1_500
WORLD = Catalogue(0, ROWS, n_products=60, n_users=200, base=-1.0)


def taught(seed: int, **params: Any) -> TwoStage:
    """Return a policy that has learned a little, from visits of its own."""
    policy = TwoStage(WORLD.spec(ROWS), np.random.default_rng(seed), candidates=8, alpha=1.0, **params)
    rng = np.random.default_rng(seed)
    for _ in range(150):
        visit = WORLD.arrive(int(rng.integers(10**6, 10**7)))
        product = int(rng.integers(60))
        policy.update(WORLD.context(visit), product, WORLD.serve(visit, product).reward)
    return policy


def log_of(policy: TwoStage, folder: Path) -> Log:
    """Return the log of a policy that no longer learns."""
    policy.update = lambda *_: None  # type: ignore[method-assign]
    path = folder / "log.parquet"
    write_records(path, WORLD, record_frames(WORLD, play(WORLD, policy, ROWS, logged=True), "logging", "1"))
    return read_log(path)


def worth(policy: TwoStage) -> float:
    """Return what a policy earns in expectation over the visits of the log."""
    total = 0.0
    for step in range(ROWS):
        visit = WORLD.arrive(step)
        chances = dense_propensities(policy, WORLD.context(visit))
        expected = WORLD.truth(visit).expected_reward
        total += sum(chances[k] * expected(int(k)) for k in np.flatnonzero(chances > 1e-6))
    return total / ROWS


def test_another_retrieval_is_judged_by_a_log_whose_sources_reach_every_product(tmp_path: Path) -> None:
    """Weights with a mean of 1, and the value that is known here, within 4 standard errors each."""
    log = log_of(taught(1, explore=0.3), tmp_path)
    target = taught(2, explore=0.0)
    [weighed] = weigh_and_predict(log, RetrievingTarget(target, log), [])
    assert abs(weighed.weights.mean() - 1.0) < 4 * weighed.weights.std() / np.sqrt(ROWS)
    assert weighed.missed == 0.0
    products = weighed.weights * log.rewards
    assert abs(products.mean() - worth(target)) < 4 * products.std() / np.sqrt(ROWS)
    # Weighed by the probability given the candidates alone, as if there were one source, weights do not add up.
    given = replace(log, marginals=log.propensities)
    weights = weigh_and_predict(given, RetrievingTarget(target, given), [])[0].weights
    assert weights.mean() < 1.0 - 4 * weights.std() / np.sqrt(ROWS)


def test_a_log_that_is_read_in_blocks_gives_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (blocks, linear_rewards, stream):
        monkeypatch.setattr(module, "BLOCK_ROWS", 512)
    monkeypatch.setattr(stream, "LARGEST_WINDOW", 1_024)
    log = log_of(taught(1, explore=0.3), tmp_path)
    path = tmp_path / "log.parquet"
    popularity = Popularity(spec_of(log), np.random.default_rng(0))
    popularity.fit(log.rows(np.arange(300)))
    policies = {"other": taught(2, explore=0.1), "popularity": popularity}
    options: dict[str, Any] = {"estimators": ["ips", "snips", "dr"], "samples": 200}
    streamed, whole = (evaluate(read(path), policies, **options) for read in (stream_log, read_log))
    assert streamed.summary == whole.summary


def test_what_a_log_of_one_retrieval_cannot_show_is_counted(tmp_path: Path) -> None:
    log = log_of(taught(1, explore=0.0), tmp_path)
    target = taught(2, explore=0.0)
    missed = 0.0
    lists = log.candidate_lists(0, ROWS)
    for step in range(ROWS):
        chances = dense_propensities(target, WORLD.context(WORLD.arrive(step)))
        missed += 1.0 - chances[lists.of(step)].sum()
    [weighed] = weigh_and_predict(log, RetrievingTarget(target, log), [])
    assert weighed.missed == pytest.approx(missed / ROWS)
    assert missed / ROWS > 0.2
    [result] = zoosim.evaluate(log, {"other": target}, estimators=["ips"], compare=False).results
    assert result.verdict == "do not use"
    assert any(f"no support for {100 * missed / ROWS:.1f}% of its choices" in reason for reason in result.reasons)
    # The same retrieval with another ranker misses nothing.
    same = taught(1, explore=0.0)
    same.alpha = 0.2
    [weighed] = weigh_and_predict(log, RetrievingTarget(same, log), [])
    assert weighed.missed == pytest.approx(0.0, abs=1e-9)


def test_several_sources_without_marginal_propensities_are_refused(tmp_path: Path) -> None:
    log = log_of(taught(1, explore=0.3), tmp_path)
    assert isinstance(make_target(taught(2), log), RetrievingTarget)
    with pytest.raises(PolicyError, match="has no marginal_propensity to weigh it by"):
        make_target(taught(2), replace(log, marginals=None))


def test_what_workers_miss_is_counted_as_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK_ROWS", 1_024)
    log = log_of(taught(1, explore=0.0), tmp_path)
    target = taught(2, explore=0.0)
    executor = Losing(2)
    away, here = (
        evaluate(log, {"other": target}, estimators=["ips"], spread=spread)
        for spread in (spread_over(Remote(executor)), None)
    )
    assert executor.calls == 7  # 1,500 rows by 256, one of which is lost
    assert away == here
    assert any("no support for" in reason for reason in away.results[0].reasons)


def weights_by(answer: Any) -> FloatArray:
    """Return the weights of a policy that always gives an answer, of a visit that could show 0 and 1 of 3 products."""
    columns = {"candidates": [[0, 1], [2]], "action": [1, 2], "propensity": [0.5, 1.0], "reward": [1.0, 0.0]}
    source = {"source": ["catalogue"] * 2, "source_version": [""] * 2, "source_propensity": [1.0] * 2}
    log = replace(to_log(pl.DataFrame(columns | source)), products=np.eye(3)).rows(slice(0, 1))
    policy = TwoStage(spec_of(log), np.random.default_rng(0))
    policy.propensities = lambda context: answer  # type: ignore[method-assign]
    weights: FloatArray = weigh_and_predict(log, RetrievingTarget(policy, log), [])[0].weights
    return weights


def test_answers_of_policies_are_checked_against_what_could_be_shown() -> None:
    def of(ids: list[int], probabilities: list[float], spread: float = 0.0) -> Distribution:
        return Distribution(np.array(ids), np.array(probabilities), spread)

    assert weights_by(of([1], [0.5], 0.5)) == pytest.approx([1.5])
    assert weights_by(np.array([0.25, 0.75, 0.0])) == pytest.approx([1.5])
    for answer, message in (
        (of([1], [0.5]), "probabilities add up to 0.5, expected 1"),
        (of([0, 1], [0.9, 0.9]), "probabilities add up to 1.8, expected 1"),
        (of([0, 1], [-0.5, 1.5]), "gives a probability below 0, or none"),
        (of([0], [np.nan], 1.0), "gives a probability below 0, or none"),
        (of([1, 2], [0.5, 0.5]), "gives action 2 a probability, which could not be shown"),
        (of([1, 9], [0.5, 0.5]), "got product 9, which is not among the candidates"),
        (of([1, 1], [0.5, 0.5]), "got a product twice"),
        (of([0, 1], [1.0]), "got a distribution of"),
        (np.ones(2) / 2, "got a distribution of"),
        ("high", "ValueError"),
    ):
        with pytest.raises(PolicyError, match=f"^row 0: .*{message}"):
            weights_by(answer)
