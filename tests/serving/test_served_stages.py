"""A served policy that retrieves: candidates, exact probabilities, learning, changes of the catalogue, and its log."""

import asyncio
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from msgspec.structs import replace

import zoosim
from tests.serving.mock_time import MockTime
from tests.serving.process import serving
from tests.serving.shop import running
from tests.serving.state_digest import state_digest
from zoosim.api.served import export_log
from zoosim.core.errors import ConfigError, PolicyError
from zoosim.core.types import POOL, Retrieval
from zoosim.logs.parse import read_log
from zoosim.policies.model import Model, load_model, save_model
from zoosim.policies.products.shared_linear import Greedy
from zoosim.policies.products.two_stage import TwoStage
from zoosim.policies.retrieving import RetrievingPolicy
from zoosim.retrieval import Exact
from zoosim.serving import folder as folder_of_models
from zoosim.serving.bodies import DecideBody, DeploymentBody, FeedbackBody, ProductBody
from zoosim.serving.client import Client
from zoosim.serving.console.influences import what_moved
from zoosim.serving.described import Contents
from zoosim.serving.endpoints.product_pages import page_chances
from zoosim.serving.endpoints.products import ProductEndpoint
from zoosim.serving.events import Kind, ProductDecision, unpack, unpack_floats, unpack_whole
from zoosim.serving.folder import load_served_model
from zoosim.serving.forecasts.scoring import ProductScoring
from zoosim.serving.replica import Replica
from zoosim.serving.served_log import read_served_log
from zoosim.serving.service import Service
from zoosim.serving.shop_rules.settings import ShopRules
from zoosim.serving.snapshots import newest_replica, write_snapshot
from zoosim.serving.store.address import LOG
from zoosim.serving.store.sqlite import SqliteStore

N_PRODUCTS = 60
NAMES = [f"p{number}" for number in range(N_PRODUCTS)]
FEATURES = np.random.default_rng(5).normal(size=(N_PRODUCTS, 3))
WEIGHTS = np.array([[0.4, -0.3, 0.2], [1.0, 0.5, -0.8]])
"""Of the log odds of a click: [1, age] (x) a product's numbers."""

VISITOR: dict[str, Any] = {"age": 0.7}


def click_rates(age: float) -> np.ndarray:
    """Return the click rate of each product."""
    odds = -1.0 + np.array([1.0, age]) @ WEIGHTS @ FEATURES.T
    return np.asarray(1 / (1 + np.exp(-odds)))


@cache
def trained() -> Model:
    """Return a model of the shop, learned from 600 rows of products that were drawn evenly."""
    rng = np.random.default_rng(1)
    shown = rng.integers(N_PRODUCTS, size=600)
    ages = rng.normal(size=600).round(3)
    clicks = [int(rng.random() < click_rates(age)[place]) for age, place in zip(ages, shown, strict=True)]
    table = {"item": np.array(NAMES)[shown], "propensity": 1 / N_PRODUCTS, "age": ages, "click": clicks}
    columns = {f"x{column}": FEATURES[:, column] for column in range(3)}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pl.DataFrame({"item": NAMES, **columns}).write_csv(folder / "items.csv")
        zoosim.import_log(pl.DataFrame(table), None, folder / "log.parquet", products=folder / "items.csv")
        zoosim.train(folder / "log.parquet", ["two-stage"], folder / "model.zoosim", progress=None)
        return load_model(folder / "model.zoosim")


def make_model(folder: Path, **params: Any) -> Path:
    """Write a model of the shop whose policy has other parameters; return its file."""
    source = trained()
    policy = TwoStage(source.policy.spec, np.random.default_rng(0), **{"candidates": 8, "alpha": 1.0, **params})
    policy.load_state_dict(source.policy.state_dict())
    folder.mkdir(exist_ok=True)
    return save_model(Model(policy, source.fitted, source.catalogue, source.facts), folder / "model.zoosim")


def serve(folder: Path, model: Path, use: Callable[[Service], Awaitable[None]], **settings: Any) -> None:
    """Use a service in an event loop of its own, in simulated time."""
    time = MockTime()

    async def run() -> None:
        async with running(folder, model, time.clock(), **settings) as service:
            await use(service)
            time.pass_by(service.settings.wait + 0.05)
            assert await service.upkeep.check_writing() == ""

    asyncio.run(run())


def decisions_in(folder: Path) -> list[ProductDecision]:
    """Return the decisions in the log of a service."""
    rows = SqliteStore(folder / LOG, read_only=True).read(0, 1_000_000)
    return [unpack(row) for row in rows if row.kind is Kind.DECISION]


def replica_of(folder: Path) -> Replica:
    """Return what the log of a service says, row by row."""
    store = SqliteStore(folder / LOG, read_only=True)
    replica = Replica(lambda digest: load_served_model(folder, digest), store.rows)
    for row in store.read(0, 1_000_000):
        replica.apply(row)
    return replica


def marginals_of(service: Service, body: DecideBody) -> dict[str, float]:
    """Return the probability of each product at the top of a page, arms and sources mixed, by enumeration."""
    endpoint = service._endpoints.current
    assert isinstance(endpoint, ProductEndpoint)
    sources = {name: arm.source for name, arm in service.current.deciding.items()}
    inputs = endpoint._inputs(body, (), Contents(None))
    tasks = endpoint._maker.tasks(sources, body, (), inputs.visitors).tasks
    weights = service.current.assignment.weights(tasks)
    chances = dict.fromkeys(service.catalogue.names(), 0.0)
    for name, task in tasks.items():
        for product in chances:
            (chance, *_) = page_chances(task, [product], endpoint._asked(task.arm))
            chances[product] += weights[name] * chance
    return chances


def test_frequencies_are_the_marginal_propensities_and_these_add_up_to_1(tmp_path: Path) -> None:
    """5,000 draws of one request: chi-square with as many degrees of freedom as products, below its 99.9% quantile."""
    shown = Counter[str]()
    expected: dict[str, float] = {}

    async def use(service: Service) -> None:
        expected.update(marginals_of(service, DecideBody(VISITOR)))
        endpoint = service._endpoints.current
        sources = {"champion": service.current.champion.source}
        assert isinstance(endpoint, ProductEndpoint)
        inputs = endpoint._inputs(DecideBody(VISITOR), (), Contents(None))
        for number in range(5_000):
            record, _ = endpoint._decide_among(sources, (), inputs, DecideBody(VISITOR), b"r", f"d{number}")
            (product,) = record.products
            shown[product] += 1
            assert record.marginals == pytest.approx([expected[product]], abs=1e-12)
            assert record.source is not None
            assert record.source.propensity * record.chances[0] <= expected[product] + 1e-12
            assert len(record.versions) // 8 == (1 if record.source.name == POOL else 8)

    serve(tmp_path / "service", make_model(tmp_path, explore=0.1), use, exploration=0.2)
    assert sum(expected.values()) == pytest.approx(1.0, abs=1e-12)
    assert min(expected.values()) == pytest.approx(0.28 / N_PRODUCTS)
    statistic = sum((shown[name] - 5_000 * chance) ** 2 / (5_000 * chance) for name, chance in expected.items())
    assert statistic < 99.6  # of 59 degrees of freedom
    assert sum(shown.values()) == 5_000


def test_rules_may_leave_a_page_one_place_and_answers_tell_the_whole_probability(tmp_path: Path) -> None:
    """However the top is drawn, from what was retrieved or from all products."""

    async def use(service: Service) -> None:
        for number in range(30):
            body = DecideBody(VISITOR, count=2, forbidden=NAMES[1:], decision_id=f"d{number}")
            assert [each.product for each in (await service.decide(body)).shown] == ["p0"]
        for number in range(30):
            answer = await service.decide(DecideBody(VISITOR, decision_id=f"e{number}"))
            expected = marginals_of(service, DecideBody(VISITOR))
            assert answer.shown[0].propensity == pytest.approx(expected[answer.shown[0].product])

    model = make_model(tmp_path, explore=0.1, candidates=N_PRODUCTS)
    serve(tmp_path / "service", model, use, exploration=0.5, frozen=True)


def test_the_state_is_the_replay_of_the_log(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)

    async def use(service: Service) -> None:
        for number in range(30):
            age = float(rng.normal())
            candidates: Any = NAMES[:5] if number % 7 == 0 else None
            answer = await service.decide(DecideBody({"age": age}, candidates, count=1 + number % 3))
            if rng.random() < 0.5:
                await service.give_feedback(answer.decision_id, FeedbackBody({"click": 1.0}, answer.shown[-1].product))
        await service.change_product("p3", ProductBody(available=False))

    folder = tmp_path / "service"
    serve(folder, make_model(tmp_path), use, exploration=0.3)
    replica = replica_of(folder)
    assert state_digest(replica_of(folder)) == state_digest(replica)
    expected = load_model(tmp_path / "model.zoosim").policy
    assert isinstance(expected, TwoStage)
    decisions = decisions_in(folder)
    assert int(replica.champion.model.policy.updates[0] - expected.updates[0]) == sum(  # type: ignore[attr-defined]
        decision.parts for decision in decisions
    )
    assert replica.champion.counts["learned"] == sum(decision.parts for decision in decisions)
    # A snapshot holds what changed of the catalogue, and not the products of the model.
    store = SqliteStore(folder / LOG, read_only=True)
    (folder / "kept").mkdir()
    write_snapshot(folder / "kept", replica)
    loaded = newest_replica(folder / "kept", lambda digest: load_served_model(folder, digest), store.rows, print)
    assert state_digest(loaded) == state_digest(replica)
    assert loaded.champion.catalogue.names() == replica.champion.catalogue.names()
    assert loaded.champion.catalogue.hidden() == ["p3"]
    assert loaded.champion.catalogue.state()[0]["names"] == ["p3"]


def test_new_products_are_found_at_the_next_request_and_those_gone_never_again(tmp_path: Path) -> None:
    async def use(service: Service) -> None:
        body = DecideBody(VISITOR)
        likeliest = max(marginals_of(service, body).items(), key=lambda pair: pair[1])[0]
        await service.change_product(likeliest, ProductBody(available=False))
        chances = marginals_of(service, body)
        assert likeliest not in chances
        assert sum(chances.values()) == pytest.approx(1.0)
        like_it: dict[str, Any] = {f"x{column}": float(FEATURES[NAMES.index(likeliest), column]) for column in range(3)}
        await service.change_product("new", ProductBody(features=like_it))
        chances = marginals_of(service, body)
        assert sum(chances.values()) == pytest.approx(1.0)
        assert chances["new"] > 2 * min(chances.values())  # which is that of what nothing retrieves
        for number in range(100):
            answer = await service.decide(DecideBody(VISITOR, decision_id=f"gone {number}"))
            assert likeliest not in answer.propensities
            assert "new" in answer.propensities or len(answer.propensities) == 1
        await service.change_product(likeliest, ProductBody(available=True))
        assert likeliest in marginals_of(service, body)

    serve(tmp_path / "service", make_model(tmp_path), use, exploration=0.3)


def test_a_restarted_service_finds_what_its_log_says(tmp_path: Path) -> None:
    folder = tmp_path / "service"
    model = make_model(tmp_path)
    chances: list[dict[str, float]] = []

    async def change(service: Service) -> None:
        await service.change_product("p0", ProductBody(available=False))
        await service.change_product("new", ProductBody(features={"x0": 1.0, "x1": 0.5, "x2": -0.8}))
        chances.append(marginals_of(service, DecideBody(VISITOR)))

    async def look(service: Service) -> None:
        chances.append(marginals_of(service, DecideBody(VISITOR)))

    serve(folder, model, change)
    serve(folder, model, look)
    assert chances[0] == chances[1]
    assert "new" in chances[1]
    assert "p0" not in chances[1]


@pytest.mark.parametrize("count", [1, 3])
def test_arms_are_mixed_over_all_their_sources(tmp_path: Path, count: int) -> None:
    """One arm retrieves and the other ranks all products: marginal probabilities add up to 1 over both."""
    rival = tmp_path / "rival"
    rival.mkdir()
    source = trained()
    save_model(Model(_greedy(source), source.fitted, source.catalogue, source.facts), rival / "model.zoosim")

    async def use(service: Service) -> None:
        expected = marginals_of(service, DecideBody(VISITOR))
        assert sum(expected.values()) == pytest.approx(1.0)
        for number in range(60):
            await service.decide(DecideBody(VISITOR, visitor_id=f"v{number}", count=count))
        for decision in decisions_in(tmp_path / "service"):
            assert decision.mixture[0] == pytest.approx(expected[decision.products[0]])
            assert decision.source is not None
            weight = 0.4 if decision.arm == "rival" else 0.6
            assert decision.source.propensity <= weight + 1e-12
            np.testing.assert_allclose(unpack_floats(decision.propensities).sum(), 1.0)

    model = make_model(tmp_path)
    serve(tmp_path / "service", model, use, arms=[f"rival={rival / 'model.zoosim'}:0.4"])
    decisions = decisions_in(tmp_path / "service")
    assert {decision.arm for decision in decisions} == {"champion", "rival"}
    log = read_served_log(tmp_path / "service").log
    assert log.marginals is not None
    np.testing.assert_allclose(log.marginals, [decision.mixture[0] for decision in decisions])


def _greedy(source: Model) -> Greedy:
    return Greedy(source.policy.spec, np.random.default_rng(0))


def test_rules_hold_for_what_is_retrieved_and_for_what_is_drawn_from_all(tmp_path: Path) -> None:
    async def use(service: Service) -> None:
        free = marginals_of(service, DecideBody(VISITOR))
        likeliest = max(free.items(), key=lambda pair: pair[1])[0]
        body = DecideBody(VISITOR, forbidden=[likeliest, "p1"])
        chances = marginals_of(service, body)
        assert chances[likeliest] == chances["p1"] == 0.0
        assert sum(chances.values()) == pytest.approx(1.0)
        for number in range(60):
            body = DecideBody(VISITOR, count=3, pinned={"2": "p59"}, forbidden=["p1"], decision_id=f"d{number}")
            answer = await service.decide(body)
            products = [shown.product for shown in answer.shown]
            assert products[1] == "p59"
            assert len(set(products)) == 3
            assert "p1" not in products
            assert answer.pinned == [2]

    serve(tmp_path / "service", make_model(tmp_path), use, exploration=0.4)
    decisions = decisions_in(tmp_path / "service")
    from_pool = [decision for decision in decisions if decision.source and decision.source.name == POOL]
    assert 8 <= len(from_pool) <= 40
    for decision in from_pool:
        assert decision.source is not None
        assert decision.source.products == N_PRODUCTS - 2
        assert decision.chances[0] == 1.0
        assert decision.marginals[1:] == decision.chances[1:]


def likeliest(service: Service, count: int) -> list[str]:
    """Return the products that a page is likeliest to begin with."""
    chances = marginals_of(service, DecideBody(VISITOR))
    return sorted(chances, key=lambda name: -chances[name])[:count]


@pytest.mark.parametrize("retrieval", ["mean", "draws"])
def test_other_products_are_retrieved_in_place_of_those_that_rules_bar(tmp_path: Path, retrieval: str) -> None:
    """All that the policy would retrieve is forbidden, and the page is longer than what it retrieves of itself."""

    async def use(service: Service) -> None:
        free = likeliest(service, 20)
        body = DecideBody(VISITOR, count=10, forbidden=free)
        chances = marginals_of(service, body)
        assert sum(chances.values()) == pytest.approx(1.0)
        assert not any(chances[name] for name in free)
        assert max(chances.values()) > 2 * min(chance for chance in chances.values() if chance)
        for number in range(30):
            body = DecideBody(VISITOR, count=10, forbidden=free, decision_id=f"d{number}")
            answer = await service.decide(body)
            products = [shown.product for shown in answer.shown]
            assert len(set(products)) == 10
            assert not set(products) & set(free)
        assert len((await service.decide(DecideBody(VISITOR, count=N_PRODUCTS))).shown) == N_PRODUCTS
        with pytest.raises(PolicyError, match=f"count: got 61, expected at most the {N_PRODUCTS} candidates"):
            await service.decide(DecideBody(VISITOR, count=N_PRODUCTS + 1))
        with pytest.raises(PolicyError, match="candidates: got none, expected at least one product that may be shown"):
            await service.decide(DecideBody(VISITOR, forbidden=NAMES))

    serve(tmp_path / "service", make_model(tmp_path, candidates=4, retrieval=retrieval), use, exploration=0.2)


def test_caps_of_a_visitor_are_lifted_where_no_product_at_all_is_left(tmp_path: Path) -> None:
    """A visitor goes through all products: those retrieved are others each time, and forecasts weigh by 1 in all."""
    spent: list[str] = []
    chances_before: list[dict[str, float]] = []

    async def use(service: Service) -> None:
        for number in range(N_PRODUCTS):
            body = DecideBody(VISITOR, visitor_id="v", decision_id=f"d{number}")
            chances = marginals_of(service, body)
            assert sum(chances.values()) == pytest.approx(1.0)
            assert not any(chances[name] for name in spent)
            answer = await service.decide(body)
            assert not answer.lifted
            chances_before.append(chances)
            spent.append(answer.shown[0].product)
        assert set(spent) == set(NAMES)
        body = DecideBody(VISITOR, visitor_id="v", decision_id="again")
        free = marginals_of(service, DecideBody(VISITOR, visitor_id="another"))
        assert marginals_of(service, body) == free
        assert (await service.decide(body)).lifted == ["shown"]

    serve(tmp_path / "service", make_model(tmp_path), use, exploration=0.2, shop_rules={"most_shown": 1})
    # Where a product could be retrieved that exploration never draws, its weight would be too low.
    scoring = ProductScoring()
    for decision, chances in zip(decisions_in(tmp_path / "service"), chances_before, strict=False):
        likely = [chance for chance in chances.values() if chance]
        weights = [scoring.weight(replace(decision, marginals=[chance]), 0.2, False) for chance in likely]
        assert np.dot(likely, np.array(weights, float)) == pytest.approx(1.0)


def test_what_is_pinned_takes_no_place_of_what_is_retrieved(tmp_path: Path) -> None:
    async def use(service: Service) -> None:
        best, *others = likeliest(service, N_PRODUCTS)
        body = DecideBody(VISITOR, count=2, pinned={"2": best})
        chances = marginals_of(service, body)
        assert chances[best] == 0.0
        assert sum(chances.values()) == pytest.approx(1.0)
        answer = await service.decide(body)
        assert [shown.product for shown in answer.shown][1] == best
        # Of a page without that place it is a candidate as any other.
        service.current.settings = service.settings.model_copy(update={"shop_rules": ShopRules(pinned={2: best})})
        assert marginals_of(service, DecideBody(VISITOR))[best] == max(
            marginals_of(service, DecideBody(VISITOR)).values()
        )
        # Where few products are left, it stands at the end of the page that they make.
        for number in range(20):
            body = DecideBody(VISITOR, count=9, pinned={"9": best}, forbidden=others[3:], decision_id=f"d{number}")
            answer = await service.decide(body)
            assert ([shown.product for shown in answer.shown][3:], answer.pinned) == ([best], [4])
        alone = DecideBody(VISITOR, count=2, pinned={"2": best}, forbidden=others)
        assert [shown.product for shown in (await service.decide(alone)).shown] == [best]

    serve(tmp_path / "service", make_model(tmp_path, candidates=1), use, exploration=0.2)


def test_a_retrieval_that_fails_or_is_slow_counts_as_a_call_of_its_arm(tmp_path: Path) -> None:
    """A challenger leaves its decisions to the champion; a champion's failing retrieval is the decision's error."""
    model = make_model(tmp_path)
    time = MockTime()

    async def run() -> None:
        async with running(tmp_path / "service", model, time.clock(), arms=[f"rival={model}:0.5"]) as service:
            calls = service.current.calls.by_arm
            rival: Any = service.current.arms["rival"].model.policy
            champion: Any = service.model.policy
            found: Callable[[zoosim.Context], Retrieval] = rival.retrieve

            def retrieve_slowly(context: zoosim.Context) -> Retrieval:
                time.pass_by(2.0)
                return found(context)

            def retrieve_what_is_not_there(context: zoosim.Context) -> Retrieval:
                return found(context)._replace(candidates=np.arange(8))

            def show_what_is_barred(context: zoosim.Context) -> Retrieval:
                context.barred[:] = 0
                return found(context)

            def fail(context: zoosim.Context) -> Retrieval:
                raise ValueError("no connection")

            async def decide(name: str) -> list[str]:
                made = [await service.decide(DecideBody(VISITOR, decision_id=f"{name} {n}")) for n in range(20)]
                return [answer.arm for answer in made]

            rival.retrieve = retrieve_slowly
            n_rival = (await decide("slow")).count("rival")
            assert (calls["rival"].decided, calls["rival"].failed) == (n_rival, 0)
            assert calls["rival"].seconds >= 2.0 * n_rival > 0.0
            for way in (retrieve_what_is_not_there, show_what_is_barred, fail):
                before = calls["rival"].decided
                rival.retrieve = way
                assert set(await decide(way.__name__)) == {"champion"}
                assert calls["rival"].decided > before
                assert calls["rival"].failed == calls["rival"].decided - n_rival
            assert calls["champion"].failed == 0
            rival.retrieve = found
            champion.retrieve = fail
            with pytest.raises(ValueError, match="no connection"):
                await decide("of the champion")
            assert calls["champion"].failed == 1
            assert await service.upkeep.check_writing() == ""

    asyncio.run(run())


def test_requests_with_candidates_are_ranked_among_these(tmp_path: Path) -> None:
    async def use(service: Service) -> None:
        before = marginals_of(service, DecideBody(VISITOR))
        for number in range(20):
            answer = await service.decide(DecideBody(VISITOR, [*NAMES[:5]], decision_id=f"d{number}"))
            assert set(answer.propensities) == set(NAMES[:5])
            assert sum(answer.propensities.values()) == pytest.approx(1.0)
        assert marginals_of(service, DecideBody(VISITOR)) == before
        answer = await service.decide(DecideBody(VISITOR, [{"id": "other", "x0": 1, "x1": 0, "x2": 0}, "p1"]))
        assert set(answer.propensities) == {"other", "p1"}
        assert "other" in marginals_of(service, DecideBody(VISITOR))

    serve(tmp_path / "service", make_model(tmp_path), use)
    assert all(decision.source is None for decision in decisions_in(tmp_path / "service"))


def test_the_exported_log_judges_another_retrieval(tmp_path: Path) -> None:
    """By marginals the value of another two-stage policy is within 3 standard errors of that by enumeration."""
    folder = tmp_path / "service"
    rng = np.random.default_rng(3)
    ages = rng.choice([-1.0, 0.0, 1.0], 1_500)

    async def use(service: Service) -> None:
        for number, age in enumerate(ages.tolist()):
            answer = await service.decide(DecideBody({"age": age}, decision_id=f"d{number}"))
            product = NAMES.index(answer.shown[0].product)
            if rng.random() < click_rates(age)[product]:
                await service.give_feedback(answer.decision_id, FeedbackBody({"click": 1.0}))

    serve(folder, make_model(tmp_path, candidates=4), use, exploration=0.5)
    export_log(folder, tmp_path / "log.parquet")
    frame = pl.read_parquet(tmp_path / "log.parquet")
    assert set(frame["source"]) == {POOL, "posterior-mean"}
    assert frame["candidates"].list.len().max() == 4
    log = read_log(tmp_path / "log.parquet")
    other = make_model(tmp_path / "other", candidates=10, alpha=3.0, explore=0.2)
    policy = load_model(other).policy
    assert isinstance(policy, RetrievingPolicy)
    policy.use_index(Exact(trained().catalogue.ids, trained().catalogue.features))
    truth = 0.0
    for age in (-1.0, 0.0, 1.0):
        features = trained().fitted.visitors.encode_one({"age": age})
        retrieval = policy.retrieve(zoosim.Context(user_id=0, user=features))
        name_of = dict(zip(trained().catalogue.ids.tolist(), trained().catalogue.names, strict=True))
        places = [NAMES.index(name_of[id_]) for id_ in retrieval.candidates.tolist()]
        rates = click_rates(age)
        value = (1 - retrieval.spread) * (retrieval.propensities @ rates[places]) + retrieval.spread * rates.mean()
        truth += float(value) * float((ages == age).mean())
    evaluation = zoosim.evaluate(log, {"other": policy}, estimators=["ips"], progress=None)
    (estimate,) = evaluation.results
    assert estimate.low is not None
    assert estimate.high is not None
    standard_error = (estimate.high - estimate.low) / 3.92
    assert standard_error < 0.1
    assert abs(estimate.value - truth) < 3 * standard_error
    # By the probabilities given the candidates it would be off, as most of what it shows was in none of them.
    assert log.marginals is not None
    assert (log.propensities > 2 * log.marginals).mean() > 0.3


def test_judging_says_where_the_log_does_not_know_what_could_be_shown(tmp_path: Path) -> None:
    """Where a product is hidden nothing in an export says which, and requests with candidates name all there is."""

    async def use(service: Service) -> None:
        for number in range(60):
            if number == 45:
                await service.change_product("p3", ProductBody(available=False))
            candidates: Any = ["p1", "p2"] if number % 3 == 0 else None
            await service.decide(DecideBody({"age": 0.1 * number}, candidates, decision_id=f"d{number}"))

    def notes_on(log: Any) -> tuple[str, ...]:
        policy = load_model(tmp_path / "model.zoosim").policy
        return tuple(zoosim.evaluate(log, {"other": policy}, estimators=["ips"], progress=None).notes["other"])

    serve(tmp_path / "service", make_model(tmp_path), use, exploration=0.5)
    export_log(tmp_path / "service", tmp_path / "log.parquet")
    log = read_log(tmp_path / "log.parquet")
    shown = [log.could_be_shown(visit) for visit in range(60)]
    asked = [[] if mask is None else [int(mask.sum())] for mask in shown]
    assert asked[:45] == [[2], [N_PRODUCTS], [N_PRODUCTS]] * 15
    assert asked[45:] == [[2], [], []] * 5
    assert notes_on(log.rows(np.arange(45))) == ()
    (note,) = notes_on(log)
    assert note == "in 16.7% of the rows it chose among all 60 products: the log does not say which could be shown"


def test_a_start_loads_each_model_and_builds_each_index_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first start, with a file of each arm and rules that are checked against the model, and the next ones."""
    model = make_model(tmp_path)
    other = make_model(tmp_path / "other", alpha=2.0)
    loaded: list[Path] = []
    built: list[int] = []
    load = load_model
    build = Exact.__init__

    def counted_load(path: Path, **more: Any) -> Model:
        loaded.append(path)
        return load(path, **more)

    def counted_build(index: Exact, ids: Any, vectors: Any) -> None:
        built.append(len(ids))
        build(index, ids, vectors)

    async def use(service: Service) -> None:
        await service.decide(DecideBody(VISITOR))

    monkeypatch.setattr(folder_of_models, "load_model", counted_load)
    monkeypatch.setattr(Exact, "__init__", counted_build)
    for _ in range(2):
        loaded.clear()
        built.clear()
        arms = [f"rival={other}:0.5"]
        serve(tmp_path / "service", model, use, arms=arms, shop_rules={"forbidden": ["p1"]})
        assert len(loaded) == 2
        assert built.count(N_PRODUCTS) == 2


def test_what_cannot_be_right_yet_is_refused(tmp_path: Path) -> None:
    model = make_model(tmp_path)

    async def use(service: Service) -> None:
        digest = service.keep_model(model)
        with pytest.raises(ConfigError, match="shadow later: the shadow's model retrieves"):
            await service.deploy(DeploymentBody("shadow", "later", digest))
        row, choice = await service.decision((await service.decide(DecideBody(VISITOR))).decision_id)
        assert what_moved(service.current, choice)
        assert row.seq

    async def first_shown(service: Service) -> None:
        with pytest.raises(PolicyError, match="in the mode apprentice the shop's own choice is shown"):
            await service.decide(DecideBody(VISITOR))

    serve(tmp_path / "service", model, use)
    serve(tmp_path / "other", model, first_shown, mode="apprentice")


def test_over_http_a_retrieved_decision_is_answered_learned_and_exported(tmp_path: Path) -> None:
    with serving(tmp_path / "service", make_model(tmp_path), wait=1.0) as service:
        with Client(service.url) as client:
            for number in range(20):
                answer = client.decide({"age": 0.1 * number}, decision_id=f"d{number}")
                assert answer.products[0] in NAMES
                client.give_feedback(answer.id, {"click": 1.0})
        service.wait_for_learner()
        service.stop()
    decisions = decisions_in(tmp_path / "service")
    assert len(decisions) == 20
    assert all(len(unpack_whole(decision.versions)) in (1, 8) for decision in decisions)
    assert replica_of(tmp_path / "service").champion.counts["learned"] == 20
