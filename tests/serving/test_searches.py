"""A service that ranks searches by boosts: answers, densities, feedback, and what its log comes to."""

import asyncio
from pathlib import Path

import msgspec
import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import kstest

from tests.serving.shop import make_boost_model, make_model, with_service
from tests.serving.state_digest import state_digest
from tests.serving.test_service import replayed
from zoosim.api.served import forget_visitor
from zoosim.core.errors import PolicyError
from zoosim.policies.boost_model import BoostModel
from zoosim.serving.bodies import DecideBody, FeedbackBody, ProductBody, ScoredProduct, SearchBody, SearchVisitor
from zoosim.serving.events import Kind, Row, SearchDecision, pack_floats, unpack
from zoosim.serving.folder import load_served_model
from zoosim.serving.publishing import News, Publisher, decode, encode
from zoosim.serving.refusals import Conflict
from zoosim.serving.replica import Replica
from zoosim.serving.service import Service
from zoosim.serving.snapshots import newest_replica, write_snapshot
from zoosim.serving.store.address import LOG
from zoosim.serving.store.sqlite import SqliteStore

PRODUCTS = [f"SKU-{number:04}" for number in range(20)]
VISITOR = SearchVisitor("savers", "browse", price_taste=-0.5)
SCORES = {name: float(np.sin(number)) for number, name in enumerate(PRODUCTS)}
BODY = SearchBody(VISITOR, dict(SCORES))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_boost_model(tmp_path_factory.mktemp("shop"))


def boost_model(replica: Replica) -> BoostModel:
    assert isinstance(replica.champion.model, BoostModel)
    return replica.champion.model


def check_density(model: BoostModel, search: SearchDecision) -> None:
    """A logged density is that of the boosts around those that the model recommends; and they make the ranking."""
    scores = np.frombuffer(search.scores)
    request = model.request(search.visitor, dict(zip(search.products, scores.tolist(), strict=True)))
    boosts = np.frombuffer(search.boosts)
    assert search.density == model.distribution(request.context).density(boosts)
    assert search.ranking == model.requests.ranking(request.context, boosts).tolist()


async def visit(service: Service, number: int) -> None:
    """Search, and give feedback on some of what was shown."""
    rng = np.random.default_rng(number)
    products = rng.choice(PRODUCTS, 15, replace=False)
    visitor = SearchVisitor(["savers", "regulars", "gourmets"][number % 3], ["browse", "exact"][number % 2])
    candidates = [ScoredProduct(str(name), float(rng.normal())) for name in products]
    answer = await service.decide(SearchBody(visitor, candidates, decision_id=f"search {number}"))
    for name in rng.choice(answer.ranking, rng.integers(3), replace=False):
        rewards = {"click": 1.0, "purchase": float(rng.integers(2))}
        await service.give_feedback(answer.decision_id, FeedbackBody(rewards, product=str(name)))


def test_the_same_request_gets_the_same_answer_and_another_one_is_refused(tmp_path: Path, model: Path) -> None:
    body = msgspec.structs.replace(BODY, decision_id="search 1")

    async def use(service: Service) -> None:
        both = await asyncio.gather(service.decide(body), service.decide(body))
        assert both[0] == both[1] == await service.decide(body) == await service.answer("search 1")
        assert len(both[0].ranking) == 12
        with pytest.raises(Conflict, match="search 1"):
            await service.decide(msgspec.structs.replace(body, visitor=SearchVisitor("savers", "exact")))
        other = await service.decide(BODY)
        assert other.boosts != both[0].boosts

    with_service(tmp_path, model, use)
    store = SqliteStore(tmp_path / LOG, read_only=True)
    searches = [unpack(row) for row in store.read(0, 100) if row.kind is Kind.SEARCH]
    assert len(searches) == 2
    for search in searches:
        assert isinstance(search, SearchDecision)
        check_density(boost_model(replayed(tmp_path)), search)


def test_boosts_are_drawn_from_the_logged_density(tmp_path: Path, model: Path) -> None:
    """Brought to a uniform distribution by the cut normal's own, the first boosts of 800 searches are uniform."""

    async def use(service: Service) -> None:
        boosts = np.array([(await service.decide(BODY)).boosts for _ in range(800)])
        served = service.model
        assert isinstance(served, BoostModel)
        context = served.request(msgspec.to_builtins(VISITOR), SCORES).context
        centre = served.policy.recommend(context)
        below, drawn, above = (ndtr((end - centre) / served.spread) for end in (-1.0, boosts, 1.0))
        uniform = (drawn - below) / (above - below)
        assert min(kstest(column, "uniform").pvalue for column in uniform.T) > 1e-4
        assert np.abs(np.corrcoef(uniform.T) - np.eye(10)).max() < 5 / np.sqrt(800)

    with_service(tmp_path, model, use)


@pytest.mark.parametrize("policy", ["item-critic", "q-ensemble"])
def test_the_state_follows_from_the_log_and_densities_from_the_state(tmp_path: Path, policy: str) -> None:
    """A learner that publishes as it reads, a replay, and one from a snapshot of the middle come to the same."""
    folder = tmp_path / "service"
    live: list[Replica] = []

    async def use(service: Service) -> None:
        store = SqliteStore(folder / LOG, read_only=True)
        publisher = Publisher()
        live.append(Replica(lambda digest: load_served_model(folder, digest), store.rows))
        for number in range(40):
            await visit(service, number)
            if number % 8 == 7:
                await asyncio.sleep(0.15)
                await service.tick()
                learn(live[0], store, publisher, service)
        await asyncio.sleep(0.15)
        await service.tick()
        learn(live[0], store, publisher, service)

    def learn(replica: Replica, store: SqliteStore, publisher: Publisher, service: Service) -> None:
        before = replica.position
        for row in store.read(before, 1_000):
            replica.apply(row)
        assert replica.start is not None
        message = publisher.message(replica.champion.model.policy, News(before, replica.position, replica.start.origin))
        service.current.take(decode(encode(message)))

    with_service(folder, make_boost_model(tmp_path, policy), use, wait=0.1)
    store = SqliteStore(folder / LOG, read_only=True)
    replica = Replica(lambda digest: load_served_model(folder, digest), store.rows)
    rows = {row.seq: row for row in store.read(0, 1_000)}
    at_state = [unpack(row) for row in rows.values() if row.kind is Kind.SEARCH]
    untouched = state_digest(replayed(folder, stop=1))
    for row in rows.values():
        replica.apply(row)
        for search in at_state:
            if isinstance(search, SearchDecision) and search.state == row.seq:
                check_density(boost_model(replica), search)
        if row.seq == len(rows) // 2:
            write_snapshot(folder / "snapshots", replica)
    resumed = newest_replica(
        folder / "snapshots", lambda digest: load_served_model(folder, digest), store.rows, pytest.fail
    )
    for seq in range(resumed.position + 1, len(rows) + 1):
        resumed.apply(rows[seq])
    assert replica.champion.counts == resumed.champion.counts == live[0].champion.counts == {"learned": 40}
    assert state_digest(replica) == state_digest(resumed) == state_digest(live[0]) != untouched
    assert len({search.state for search in at_state if isinstance(search, SearchDecision)}) > 3


def test_what_several_feedbacks_say_is_learned_together_when_the_wait_is_over(tmp_path: Path, model: Path) -> None:
    async def use(service: Service) -> None:
        answer = await service.decide(BODY)
        first, second, third = answer.ranking[:3]
        for rewards, product in (({"click": 1.0}, first), ({"click": 1.0}, second), ({"purchase": 1.0}, third)):
            await service.give_feedback(answer.decision_id, FeedbackBody(rewards, product=product))
            await service.tick()
        await service.give_feedback(answer.decision_id, FeedbackBody({"click": 0.0}, product=answer.ranking[5]))
        await asyncio.sleep(0.5)
        await service.tick()
        late = await service.give_feedback(answer.decision_id, FeedbackBody({"purchase": 1.0}, product=first))
        assert late.status == "late"
        await learn_directly(service, answer.decision_id)

    with_service(tmp_path, model, use, wait=0.5)


async def learn_directly(service: Service, decision_id: str) -> None:
    """What the log comes to is what the model's own `learn` makes of the same clicks and purchases."""
    replica = replayed(service.folder)
    assert replica.champion.counts == {"learned": 1}
    _, search = await service.decision(decision_id)
    assert isinstance(search, SearchDecision)
    model = load_served_model(service.folder, search.model)
    assert isinstance(model, BoostModel)
    candidates = dict(zip(search.products, np.frombuffer(search.scores).tolist(), strict=True))
    shown = search.names_shown
    model.learn(search.visitor, candidates, np.frombuffer(search.boosts), clicked=shown[:3], purchased=shown[2:3])
    expected, learned = model.policy.state_dict(), replica.champion.model.policy.state_dict()
    assert all(np.array_equal(expected[name], learned[name]) for name in expected)


@pytest.mark.parametrize(
    ("rewards", "product", "line"),
    [
        ({"click": 1.0}, None, "product: got none"),
        ({"click": 1.0}, "SKU-0059", "was not shown 'SKU-0059'"),
        ({"clicks": 1.0}, "top", "unknown 'clicks'"),
        ({"click": 0.5}, "top", "got 0.5 as click, expected 0 or 1"),
    ],
)
def test_feedback_that_is_refused(
    tmp_path: Path, model: Path, rewards: dict[str, float], product: str | None, line: str
) -> None:
    async def use(service: Service) -> None:
        answer = await service.decide(BODY)
        named = answer.ranking[0] if product == "top" else product
        with pytest.raises(PolicyError, match=line):
            await service.give_feedback(answer.decision_id, FeedbackBody(rewards, product=named))

    with_service(tmp_path, model, use)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"candidates": {"SKU-9999": 1.0}}, "'SKU-9999', which is not in the catalogue"),
        ({"candidates": {}}, "expected a finite score for each id"),
        ({"candidates": [ScoredProduct("SKU-0001", 1.0)] * 2}, "expected a finite score for each id"),
        ({"candidates": dict.fromkeys(PRODUCTS, 0.0)}, "got 20, expected at most 19"),
        ({"visitor": SearchVisitor("whales", "browse"), "candidates": {"SKU-0001": 1.0}}, "unknown segment 'whales'"),
    ],
)
def test_searches_that_are_refused(tmp_path: Path, model: Path, changes: dict[str, object], line: str) -> None:
    async def use(service: Service) -> None:
        with pytest.raises(PolicyError, match=line):
            await service.decide(msgspec.structs.replace(BODY, **changes))

    with_service(tmp_path, model, use, most_candidates=19)


def test_each_kind_of_model_has_its_own_requests(tmp_path: Path, model: Path) -> None:
    async def use_boosts(service: Service) -> None:
        with pytest.raises(PolicyError, match="/v1/searches"):
            await service.decide(DecideBody())
        with pytest.raises(PolicyError, match="train it anew"):
            await service.change_product("SKU-0001", ProductBody(available=False))

    async def use_products(service: Service) -> None:
        with pytest.raises(PolicyError, match="/v1/decisions"):
            await service.decide(BODY)

    with_service(tmp_path / "boosts", model, use_boosts)
    with_service(tmp_path / "products", make_model(tmp_path), use_products)


def test_searches_of_a_visitor_are_forgotten(tmp_path: Path, model: Path) -> None:
    """Two searches, one of them somebody's; what came of it before it was forgotten is not learned either."""
    own = SearchVisitor("gourmets", "browse", price_taste=-0.625)
    rows: list[Row] = []

    async def use(service: Service) -> None:
        answer = await service.decide(msgspec.structs.replace(BODY, visitor=own, visitor_id="somebody@example.com"))
        await service.decide(msgspec.structs.replace(BODY, visitor_id="else@example.com"))
        store = SqliteStore(tmp_path / LOG, read_only=True)
        rows.extend(store.read(0, 100))
        store.close()
        assert forget_visitor(tmp_path, "somebody@example.com") == 1
        assert await service.answer(answer.decision_id) == answer
        await service.give_feedback(answer.decision_id, FeedbackBody({"click": 1.0}, product=answer.ranking[0]))
        await asyncio.sleep(0.2)
        await service.tick()

    with_service(tmp_path, model, use, wait=0.2)
    files = b"".join(path.read_bytes() for path in tmp_path.glob(f"{LOG}*"))
    assert [b"somebody" in files, b"gourmets" in files, pack_floats(np.array([-0.625]))[::-1] in files] == [False] * 3
    assert b"else@example.com" in files
    assert replayed(tmp_path).champion.counts == {"learned": 1}
    store = SqliteStore(tmp_path / LOG, read_only=True)
    replica = Replica(lambda digest: load_served_model(tmp_path, digest), store.rows)
    for row in rows:  # as the learner had read them before
        replica.apply(row)
    for row in store.read(replica.position, 100):
        replica.apply(row)
    store.close()
    assert replica.champion.counts == {"learned": 1, "forgotten": 1}


def test_apprentices_show_the_base_ranking_without_a_density(tmp_path: Path, model: Path) -> None:
    async def use(service: Service) -> None:
        answer = await service.decide(BODY)
        assert answer.ranking == sorted(SCORES, key=lambda name: -SCORES[name])[:12]
        assert (answer.density, answer.boosts) == (None, [0.0] * 10)
        await asyncio.sleep(0.1)
        await service.tick()

    with_service(tmp_path, model, use, mode="apprentice", wait=0.1)
    assert replayed(tmp_path).champion.counts == {"learned": 1}


def test_a_deferred_search_counts_once_it_is_activated(tmp_path: Path, model: Path) -> None:
    async def use(service: Service) -> None:
        for is_activated in (True, False):
            answer = await service.decide(msgspec.structs.replace(BODY, defer=True))
            if is_activated:
                await service.activate(answer.decision_id)
        await asyncio.sleep(0.2)
        await service.tick()

    with_service(tmp_path, model, use, wait=0.2)
    replica = replayed(tmp_path)
    assert (replica.champion.counts["learned"], replica.champion.join.counts["never activated"]) == (1, 1)
