"""The rules of a shop as settings: caps, pinned products and forbidden ones."""

from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any

import yaml
from pydantic import Field, field_validator, model_validator

from zoosim.action_spaces.registry import find_action_space
from zoosim.core.config import Strict
from zoosim.core.errors import ConfigError
from zoosim.core.parameters import shown, unknown
from zoosim.core.yaml_text import parse_yaml
from zoosim.policies.model import Model, name_of
from zoosim.schema.columns import CategoryColumn
from zoosim.serving.ids import LONGEST_ID

MOST_PLACE = 1_000
"""The lowest place on a page."""

MOST_DAYS = 366

MOST_SHOWN = 100
"""The largest cap on showings: of a visitor the newest `MOST_EVENTS` are kept, all products of a page among them."""

Name = Annotated[str, Field(min_length=1, max_length=LONGEST_ID)]
Place = Annotated[int, Field(ge=1, le=MOST_PLACE)]
Days = Annotated[float, Field(gt=0, le=MOST_DAYS)]


class ShopRules(Strict):
    """Rules that hold for every decision on products, whichever arm makes it.

    Args:
        most_shown: How often a product is shown to a visitor within `shown_days`; 0 for any number of times.
        shown_days: Days in which a showing counts.
        not_bought: The reward that says, where it is above 0, that the visitor bought what was shown: a product that
            was bought within `bought_days` is not shown to them. Empty to show it again.
        bought_days: Days in which a purchase counts.
        per_page: How many products of one brand, or of one level of any other categorical column, stand on a page.
        pinned: Products that always stand at a place, by place, 1 being the top, where they are candidates.
        forbidden: Products that are never shown.
    """

    most_shown: Annotated[int, Field(ge=0, le=MOST_SHOWN)] = 0
    shown_days: Days = 7.0
    not_bought: str = ""
    bought_days: Days = 30.0
    per_page: dict[Name, Annotated[int, Field(ge=1, le=MOST_PLACE)]] = Field(default_factory=dict)
    pinned: Annotated[dict[Place, Name], Field(max_length=100)] = Field(default_factory=dict)
    forbidden: Annotated[list[Name], Field(max_length=10_000)] = Field(default_factory=list)

    @field_validator("pinned", mode="before")
    @classmethod
    def _by_place(cls, value: Any) -> Any:
        """Take places as JSON has them, and ids of products that are numbers."""
        if not isinstance(value, Mapping):
            return value
        pinned = {_place(place): _product(product) for place, product in value.items()}
        if len(pinned) < len(value):
            raise ValueError(f"got {shown(value)}, expected each place once")
        return pinned

    @field_validator("forbidden", mode="before")
    @classmethod
    def _named(cls, value: Any) -> Any:
        return [_product(product) for product in value] if isinstance(value, list) else value

    @model_validator(mode="after")
    def _can_hold(self) -> "ShopRules":
        products = list(self.pinned.values())
        for product in products:
            if products.count(product) > 1:
                raise ValueError(f"pinned: got {shown(product)} at two places, expected each product at one")
            if product in self.forbidden:
                raise ValueError(f"pinned: got {shown(product)}, which is forbidden; leave it out of one of both")
        return self

    @cached_property
    def forbidden_products(self) -> frozenset[str]:
        """What is `forbidden`, to look products up in: each request asks for its candidates."""
        return frozenset(self.forbidden)

    @cached_property
    def are_set(self) -> bool:
        """True if there is any; each request asks."""
        return bool(self.needs_history or self.per_page or self.pinned or self.forbidden)

    @property
    def needs_history(self) -> bool:
        """True if it counts what a visitor was shown, or bought."""
        return bool(self.most_shown or self.not_bought)


def read_shop_rules(value: Any) -> Any:
    """Return rules that are given as text, such as that of a variable, as the text says; others as they are."""
    if not isinstance(value, str):
        return value
    try:
        rules = parse_yaml(value)
    except (yaml.YAMLError, ValueError, RecursionError):
        raise ValueError(f"got {shown(value)}, expected rules by name, such as {{most_shown: 3}}") from None
    return {} if rules is None else rules


def check_shop_rules(rules: ShopRules, model: Model, keep_days: int) -> None:
    """Refuse rules that a service cannot follow: `ConfigError`.

    Args:
        rules: The rules.
        model: The model that decides.
        keep_days: For how many days the log is kept; 0 for ever.
    """
    if not rules.are_set:
        return
    for name, is_set in {"shown_days": rules.most_shown, "bought_days": rules.not_bought}.items():
        days = getattr(rules, name)
        if is_set and keep_days and days > keep_days:
            raise ConfigError(f"shop_rules.{name}: got {days:g}, expected at most keep_days ({keep_days})")
    endpoint = find_action_space(model.action_space).endpoint
    if endpoint is not None and not endpoint.follows_shop_rules:
        raise ConfigError(f"shop_rules: this model {endpoint.what}; they hold for decisions on products alone")
    if rules.not_bought and rules.not_bought not in model.fitted.weights:
        raise ConfigError(
            unknown("shop_rules.not_bought: unknown reward", rules.not_bought, list(model.fitted.weights))
        )
    columns = [column.name for column in model.fitted.products.columns if isinstance(column, CategoryColumn)]
    for name in rules.per_page:
        if name not in columns:
            raise ConfigError(unknown("shop_rules.per_page: unknown categorical column of products", name, columns))


def _place(place: Any) -> Any:
    return int(place) if isinstance(place, str) and place.isdecimal() else place


def _product(product: Any) -> Any:
    """Return the id of a product as the service knows it."""
    return name_of(product) if isinstance(product, int) and not isinstance(product, bool) else product
