"""Hits of a search engine, re-ordered by a running service; and the clients' own calls for searches."""

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from examples.search_rescoring import on_click, on_purchase, rescore
from tests.serving.process import ServiceProcess, serving
from tests.serving.shop import make_boost_model
from tests.waiting import eventually
from zoosim import AsyncClient, Client
from zoosim.serving.client import ServiceError
from zoosim.serving.client_answers import Ranking

HITS = [{"_id": f"SKU-{number:04}", "_score": 2.0 - 0.1 * number, "_source": {"row": number}} for number in range(20)]
RESPONSE: dict[str, Any] = {"hits": {"total": {"value": 20}, "hits": HITS}}
VISITOR = {"segment": "gourmets", "query_type": "browse"}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    folder = tmp_path_factory.mktemp("shop")
    with serving(folder / "service", make_boost_model(folder), wait=0.5) as running:
        yield running
        assert running.stop() == 0


def test_a_search_is_ranked_clicked_and_learned(service: ServiceProcess) -> None:
    with Client(service.url) as shop:
        page = rescore(shop, RESPONSE, "savers", "browse")
        assert page.search is not None
        assert sorted(hit["_id"] for hit in page.hits) == [hit["_id"] for hit in HITS]
        assert page.hits[12:] == [hit for hit in HITS if hit in page.hits[12:]]  # beyond the page in their old order
        on_click(shop, page, page.hits[0]["_id"])
        on_purchase(shop, page, page.hits[0]["_id"])
        on_click(shop, page, page.hits[15]["_id"])
        logged = httpx2.get(f"{service.url}/v1/decisions/{page.search}").json()
        assert logged["ranking"] == [hit["_id"] for hit in page.hits[:12]]
        assert logged["candidates"] == {hit["_id"]: hit["_score"] for hit in HITS}
        assert logged["visitor"] == {"segment": "savers", "query_type": "browse"}
        assert rescore(shop, {"hits": {"hits": []}}, "savers", "browse") == ([], None)

    def learned() -> dict[str, int]:
        return dict(httpx2.get(f"{service.url}/v1/model").json()["learned"])

    eventually(lambda: learned().get("learned"))
    assert learned()["joined"] == 2


def test_hits_stay_as_they_are_without_the_service() -> None:
    with Client("http://127.0.0.1:9", timeout=0.2) as shop:
        page = rescore(shop, RESPONSE, "savers", "browse")
        on_click(shop, page, "SKU-0001")
    assert page == (HITS, None)


def test_from_an_event_loop(service: ServiceProcess) -> None:
    scores = [{"id": hit["_id"], "score": hit["_score"]} for hit in HITS]

    async def use() -> Ranking:
        async with AsyncClient(service.url) as shop:
            ranking = await shop.rank(VISITOR, scores, decision_id="search 1", visitor_id="v1", defer=True)
            assert await shop.activate(ranking.id) == "accepted"
            assert await shop.give_feedback(ranking.id, {"click": 1.0}, product=ranking.products[2]) == "accepted"
            return await shop.rank(VISITOR, scores, decision_id="search 1", visitor_id="v1", defer=True)

    ranking = asyncio.run(use())
    assert (len(ranking.products), len(ranking.boosts)) == (12, 10)
    assert ranking.density is not None


@pytest.mark.parametrize(
    ("visitor", "candidates", "status", "line"),
    [
        (VISITOR, {"SKU-9999": 1.0}, 400, "not in the catalogue"),
        (VISITOR, {"SKU-0001": None}, 400, "candidates"),
        ({"segment": "savers"}, {"SKU-0001": 1.0}, 400, "query_type"),
        ({**VISITOR, "age": 3}, {"SKU-0001": 1.0}, 400, "unknown field `age`"),
        (VISITOR, {"SKU-0001": 1.0}, 409, "another request"),
    ],
)
def test_searches_that_are_refused(
    service: ServiceProcess, visitor: dict[str, Any], candidates: dict[str, Any], status: int, line: str
) -> None:
    with Client(service.url) as shop:
        if status == 409:
            shop.rank(VISITOR, {"SKU-0002": 1.0}, decision_id="refused")
        with pytest.raises(ServiceError, match=line) as refusal:
            shop.rank(visitor, candidates, decision_id="refused")
    assert refusal.value.status == status
    assert "\n" not in str(refusal.value)


def test_searches_are_described(service: ServiceProcess) -> None:
    described = httpx2.get(f"{service.url}/openapi.json").json()
    assert "SearchBody" in described["components"]["schemas"]
    assert "/v1/searches" in described["paths"]
