"""The shop of S17: who comes, what is offered, and who clicks what."""

from collections.abc import Iterator

import msgspec
import numpy as np

PRODUCTS, CANDIDATES, NUMBERS = 300, 50, 60
CATEGORIES = 4
"""Of products; a visitor likes the one whose place is that of the largest of their first numbers."""

LIKED, OTHERS = 0.3, 0.05
"""How likely a product of the category that a visitor likes is clicked, and one of another."""


def product_names() -> list[str]:
    """Return the ids of all products."""
    return [f"SKU-{number}" for number in range(PRODUCTS)]


def category_of(product: str) -> int:
    """Return the number of a product's category."""
    return int(product.removeprefix("SKU-")) % CATEGORIES


def click_chance(liked: int, product: str) -> float:
    """Return how likely somebody who likes a category clicks a product."""
    return LIKED if category_of(product) == liked else OTHERS


def requests(count: int) -> Iterator[tuple[bytes, int]]:
    """Make requests for decisions, each with the category that its visitor likes."""
    rng = np.random.default_rng(1)
    names = product_names()
    for _ in range(count):
        numbers = rng.normal(size=NUMBERS)
        visitor = {f"x{number}": value for number, value in enumerate(numbers.tolist())}
        candidates = [names[k] for k in rng.choice(PRODUCTS, CANDIDATES, replace=False)]
        yield msgspec.json.encode({"visitor": visitor, "candidates": candidates}), int(numbers[:CATEGORIES].argmax())
