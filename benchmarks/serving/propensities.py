"""Are the logged probabilities those that decisions are drawn from, and do they judge other policies rightly?"""

import asyncio
import time
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import numpy as np
from scipy import stats

from tests.serving.process import serving
from tests.serving.shop import COUNTRIES, PRODUCTS, make_model, running
from zoosim import AsyncClient, Client
from zoosim.core.types import FloatArray, IntArray
from zoosim.off_policy.evaluate import evaluate
from zoosim.serving.bodies import DecideBody, FeedbackBody
from zoosim.serving.events import Kind, ProductDecision, unpack, unpack_floats, unpack_whole
from zoosim.serving.loops.learners import LearnerProcess
from zoosim.serving.projection import rows_of
from zoosim.serving.served_log import read_served_log
from zoosim.serving.service import Service
from zoosim.serving.store.address import Address, open_store

OVER_HTTP = 50_000
"""Decisions that are asked for by HTTP, the first ones; the others call what the HTTP handler calls."""

CLIENTS, TOGETHER, CANDIDATES = 8, 200, 5
FEEDBACK_SHARE = 0.02
VISITORS = 1_000
SETTINGS: dict[str, Any] = {"wait": 5.0, "exploration": 0.1, "most_delay": 30.0}
CLICK_RATES = np.random.default_rng(7).uniform(0.05, 0.8, (len(COUNTRIES), len(PRODUCTS)))
"""Of each product, by the visitor's country."""


class Visit(NamedTuple):
    """A visitor, what may be shown, and, where that is told, whether it would be clicked."""

    country: int
    candidates: list[str]
    clicks: dict[str, float] | None

    @property
    def body(self) -> DecideBody:
        return DecideBody({"country": COUNTRIES[self.country]}, candidates=list(self.candidates))


def make_visit(rng: np.random.Generator) -> Visit:
    country = int(rng.integers(len(COUNTRIES)))
    candidates = rng.choice(PRODUCTS, CANDIDATES, replace=False).tolist()
    if rng.random() >= FEEDBACK_SHARE:
        return Visit(country, candidates, None)
    clicked = rng.random(len(PRODUCTS)) < CLICK_RATES[country]
    return Visit(country, candidates, dict(zip(PRODUCTS, clicked.astype(float).tolist(), strict=True)))


def draws(count: int, folder: Path) -> None:
    """Serve decisions while a learner learns; hold what was drawn against the logged distributions."""
    model = make_model(folder)
    over_http = min(count, OVER_HTTP)
    with serving(folder / "service", model, **SETTINGS) as service:
        asyncio.run(visit_over_http(service.url, over_http))
        assert service.stop() == 0
    asyncio.run(visit_in_process(folder / "service", model, count - over_http))
    states, versions, chances, drawn = read_decisions(folder / "service")
    assert len(drawn) == count
    print(
        f"{count:,} decisions, of which {over_http:,} over HTTP and {count - over_http:,} by the method behind its "
        f"handler, by {len(np.unique(states)):,} states; furthest sum of probabilities from 1: "
        f"{np.abs(chances.sum(axis=1) - 1).max():.1e}"
    )
    even = np.full_like(chances, 1 / CANDIDATES)
    by_rank = np.argsort(np.argsort(chances, axis=1), axis=1)
    for what, categories in (("product", versions), ("rank of the probability", by_rank)):
        statistic, p_value = chi_square(chances, categories, drawn)
        print(
            f"drawn against logged, by {what}: chi-square {statistic:.2f}, p = {p_value:.3f}; were all candidates "
            f"equally likely: p = {chi_square(even, categories, drawn)[1]:.1e}"
        )
        assert p_value > 0.001
    assert np.abs(chances.sum(axis=1) - 1).max() < 1e-9


def chi_square(chances: FloatArray, categories: IntArray, drawn: IntArray) -> tuple[float, float]:
    """Return the statistic of how often each category was drawn, and its p-value.

    Each row has a distribution of its own, so the counts' covariance is the sum of those of single draws.

    Args:
        chances: The probability of each candidate `(n, K)`.
        categories: That of each candidate `(n, K)`, no two alike in a row.
        drawn: The place of what was drawn `(n,)`.
    """
    rows = np.arange(len(drawn))
    by_category = np.zeros((len(drawn), categories.max() + 1))
    np.put_along_axis(by_category, categories, chances, axis=1)
    expected = by_category.sum(axis=0)
    observed = np.bincount(categories[rows, drawn], minlength=len(expected))
    covariance = np.diag(expected) - by_category.T @ by_category
    difference = observed - expected
    statistic = float(difference @ np.linalg.pinv(covariance) @ difference)
    return statistic, float(stats.chi2.sf(statistic, len(expected) - 1))


async def visit_over_http(url: str, count: int) -> None:
    """Let clients visit at the same time."""

    async def visit(seed: int) -> None:
        rng = np.random.default_rng([1_000, seed])
        async with AsyncClient(url, timeout=60.0) as client:
            for _ in range(seed, count, CLIENTS):
                made = make_visit(rng)
                decision = await client.decide(made.body.visitor, made.candidates)
                if made.clicks is not None:
                    await client.give_feedback(decision.id, {"click": made.clicks[decision.product]})

    await asyncio.gather(*(visit(seed) for seed in range(CLIENTS)))


async def visit_in_process(folder: Path, model: Path, count: int) -> None:
    """Ask the service of a folder without HTTP; its learner is a process as ever."""
    rng = np.random.default_rng(1_001)
    async with running(folder, model, **SETTINGS) as service:
        learners = LearnerProcess(asyncio.get_running_loop())
        learners.learn(service)
        ticked = time.monotonic()
        for start in range(0, count, TOGETHER):
            await asyncio.gather(*(visit_once(service, make_visit(rng)) for _ in range(min(TOGETHER, count - start))))
            if time.monotonic() - ticked > service.settings.tick:
                await service.tick()
                ticked = time.monotonic()
            if start % 100_000 == 0:
                print(f"{start:,} decisions without HTTP", flush=True)
        await asyncio.get_running_loop().run_in_executor(None, learners.stop)


async def visit_once(service: Service, visit: Visit) -> None:
    answer = await service.decide(visit.body)
    if visit.clicks is not None:
        await service.give_feedback(answer.decision_id, FeedbackBody({"click": visit.clicks[answer.shown[0].product]}))


def read_decisions(folder: Path) -> tuple[IntArray, IntArray, FloatArray, IntArray]:
    """Return what the log says of decisions: states, versions of candidates, their chances, places drawn."""
    store = open_store(Address(folder), read_only=True)
    states: list[int] = []
    versions: list[IntArray] = []
    chances: list[FloatArray] = []
    drawn: list[int] = []
    for row in rows_of(store):
        if row.kind is not Kind.DECISION:
            continue
        record: ProductDecision = unpack(row)
        states.append(record.state)
        versions.append(unpack_whole(record.versions))
        chances.append(unpack_floats(record.propensities))
        drawn.append(record.shown[0])
        assert record.chances[0] == chances[-1][drawn[-1]]
    return np.array(states), np.array(versions), np.array(chances), np.array(drawn)


def coverage(count: int, folder: Path) -> None:
    """Serve visitors over HTTP by services of one policy; count how often IPS covers another policy's true value."""
    model = make_model(folder)
    target = np.random.default_rng(8).dirichlet(np.ones(len(PRODUCTS)), len(COUNTRIES))
    results = []
    for run in range(count):
        truth, low, high, value = judge(folder / f"{run}", model, target, run)
        results.append((low <= truth <= high, value - truth))
        print(f"run {run}: true value {truth:.4f}, IPS {value:.4f} ({low:.4f} to {high:.4f})", flush=True)
    held = sum(is_held for is_held, _ in results)
    errors = np.array([error for _, error in results])
    standard_error = errors.std(ddof=1) / np.sqrt(count)
    print(
        f"{count} services of {VISITORS:,} visitors over HTTP: the 95% interval of IPS holds the other policy's true "
        f"value in {held}; mean error {errors.mean():+.4f} (standard error {standard_error:.4f})"
    )
    assert held >= stats.binom.ppf(0.001, count, 0.95)


def judge(folder: Path, model: Path, target: FloatArray, run: int) -> tuple[float, float, float, float]:
    """Serve visitors; return a policy's true value for them, the ends of its interval and its value by the log."""
    rng = np.random.default_rng([1_002, run])
    countries = rng.integers(len(COUNTRIES), size=VISITORS)
    with serving(folder, model, wait=1.0, exploration=0.3, most_delay=30.0) as service:
        with Client(service.url, timeout=60.0) as client:
            for country in countries:
                decision = client.decide({"country": COUNTRIES[country]})
                if rng.random() < CLICK_RATES[country, PRODUCTS.index(decision.product)]:
                    client.give_feedback(decision.id, {"click": 1.0})
        time.sleep(1.2)
        assert httpx2.get(f"{service.url}/readyz").status_code == 200  # the log's newest row comes after all waits
        assert service.stop() == 0
    log = read_served_log(folder).log
    assert len(log) == VISITORS
    in_order = target[:, [PRODUCTS.index(name) for name in log.names]]
    (result,) = evaluate(log, {"target": in_order[countries]}, estimators=["ips"]).results
    assert result.low is not None
    assert result.high is not None
    truth = float((target * CLICK_RATES).sum(axis=1)[countries].mean())
    return truth, result.low, result.high, result.value
