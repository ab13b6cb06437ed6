"""The action spaces: what one decision chooses. Worlds, logs and policies name theirs by these words."""

from enum import StrEnum


class ActionSpace(StrEnum):
    """What one decision chooses; equal to its word, so that a policy's `chooses` may hold plain strings."""

    PRODUCTS = "products"
    """One of the candidates, by its index."""

    TEMPLATES = "templates"
    """One of the ranking templates of a search shop, by its index."""

    RANKINGS = "rankings"
    """Several of the candidates, from the top."""

    BOOSTS = "boosts"
    """A vector of numbers, each from -a_max to a_max."""
