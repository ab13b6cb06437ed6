"""Re-order the hits of a shop's search engine by a zoosim service, and tell it what visitors click and buy.

The hits are as Elasticsearch and OpenSearch return them, with `_id` and `_score`. Start the service beside the shop:
zoosim serve boosts.zoosim.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from zoosim import Client
from zoosim.serving.client import ServiceError

Hit = Mapping[str, Any]


class Page(NamedTuple):
    """Hits in the order in which to show them, and the id that clicks name; None where the service did not rank."""

    hits: list[Hit]
    search: str | None


def rescore(shop: Client, response: Mapping[str, Any], segment: str, query_type: str) -> Page:
    """Re-order the hits of a response; they stay as they are where the service cannot be asked.

    Args:
        shop: The service.
        response: What the search engine answered.
        segment: The visitor's segment, one of those that the model was trained on.
        query_type: The type of the query, likewise.
    """
    hits: Sequence[Hit] = response["hits"]["hits"]
    if not hits:
        return Page([], None)
    scores = {hit["_id"]: hit["_score"] for hit in hits}
    try:
        ranking = shop.rank({"segment": segment, "query_type": query_type}, scores)
    except ServiceError:
        return Page(list(hits), None)
    hit_of = {hit["_id"]: hit for hit in hits}
    top = [hit_of[product] for product in ranking.products]
    rest = [hit for hit in hits if hit["_id"] not in ranking.products]  # the model ranks a page, the others follow
    return Page([*top, *rest], ranking.id)


def on_click(shop: Client, page: Page, product: str) -> None:
    """Tell the service that a product of a page was clicked."""
    _tell(shop, page, product, "click")


def on_purchase(shop: Client, page: Page, product: str) -> None:
    """Tell the service that a product of a page was bought."""
    _tell(shop, page, product, "purchase")


def _tell(shop: Client, page: Page, product: str, event: str) -> None:
    if page.search is None:
        return
    try:
        shop.give_feedback(page.search, {event: 1.0}, product=product)
    except ServiceError as error:  # such as for a hit below the page that was ranked
        print(f"{event} on {product}: not counted ({error})")
