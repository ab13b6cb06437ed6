"""The parameters of a shop whose visitors come back."""

from typing import Annotated, Literal

import numpy as np
from pydantic import Field, model_validator

from zoosim.core.config import (
    PERSONAS,
    UNLISTED,
    ClickTable,
    Probability,
    Shock,
    Strict,
    check_known,
    check_shares,
    check_shocks,
)
from zoosim.core.types import FloatArray

Weight = Annotated[float, Field(ge=-20, le=20)]
MOST_DECISIONS = 2_000
"""The most decisions of a visitor on average: one in 1e21 visitors then comes for `MOST_STEPS`, where runs give up."""

MOST_STATES = 200_000
"""The most states of a visitor, of all personas together: the optimum is computed over all of them."""

MOST_VALUES = 20_000_000
"""The most values of a kind of product in a state, of all shocks together: each takes some 50 bytes, 1 GB in all."""


class SessionConfig(Strict):
    """A shop with visitors who make several visits of several decisions each, one product a decision.

    A visitor has a persona, remembers the category clicked last in this visit, and is satisfied to a level from
    -`levels` to `levels` that lasts from visit to visit, and that the shop never sees. Each category has sound products
    and teasers, which are clicked more readily and disappoint.
    """

    personas: ClickTable = Field(
        PERSONAS, description="persona -> category -> click probability of a sound product; .01 where it is left out"
    )
    persona_mix: dict[str, Probability] | None = Field(
        None, description="persona -> share of the visitors, adding up to 1; one left out has none; none: uniform"
    )
    per_kind: int = Field(5, ge=1, le=1_000, description="sound products of each category, and as many teasers")
    teaser: Weight = Field(1.2, description="added to the logit of a click on a teaser")
    companions: dict[str, str] = Field(
        {"Cat Food": "Cat Toy", "Dog Food": "Dog Toy"},
        description="category -> the category that a click on it leads to",
    )
    intent: Weight = Field(1.5, description="added to the logit of a click on the category that the last click led to")
    boredom: Weight = Field(1.2, description="taken off the logit of a click on the category clicked last")
    levels: int = Field(3, ge=1, le=50, description="levels of satisfaction above the first, and as many below")
    level: float = Field(2.0, gt=0, le=20, description="satisfaction of a level")
    go_on: float = Field(0.85, ge=0, le=0.99, description="probability that a visit goes on after a decision")
    comes_back: float = Field(
        0.35, ge=1e-6, lt=0.99, description="probability that a visitor without any click returns"
    )
    return_by_click: Weight = Field(0.20, description="added to the logit of a return for each click of the visit")
    most_clicks: int = Field(10, ge=1, le=100, description="clicks of a visit that count for a return, at most")
    return_by_satisfaction: Weight = Field(0.15, description="added to the logit of a return for each satisfaction")
    felt_after: int = Field(
        0, ge=0, le=1, description="which satisfaction decides on a return: 0: that of now; 1: of the visit before"
    )
    paid: float = Field(
        1.0, ge=1e-3, le=1, description="probability that a click is paid; it is then worth 1 / paid, else nothing"
    )
    sold_out: float = Field(
        0.0,
        ge=0,
        le=0.99,
        description="probability that a product is sold out at a decision; if all are, all are there",
    )
    followed: int | None = Field(
        None, ge=1, le=100_000, description="decisions after which a visitor is followed no longer; none: to the end"
    )
    observe: Literal["shop", "state", "anonymous", "behaviour"] = Field(
        "shop",
        description="state: all that decides what follows; shop: persona, what a shop counts from clicks; anonymous: "
        "the last clicks in place of the persona; behaviour: the state without it",
    )
    shocks: list[Shock] = Field([], description="changes of the click probabilities, from a visitor on")

    @property
    def categories(self) -> list[str]:
        """List the categories, in the order in which the personas name them first."""
        categories: dict[str, float] = {}
        for row in self.personas.values():
            categories.update(row)
        return list(categories)

    @property
    def shares(self) -> list[float]:
        """The share of the visitors of each persona."""
        if self.persona_mix is None:
            return [1.0 / len(self.personas)] * len(self.personas)
        return [self.persona_mix.get(name, 0.0) for name in self.personas]

    def tables(self) -> dict[int, FloatArray]:
        """Return the click probabilities `(personas, categories)` of sound products, by the visitor they begin with."""
        names, categories = list(self.personas), self.categories
        table = np.array([[row.get(category, UNLISTED) for category in categories] for row in self.personas.values()])
        tables = {0: table}
        for shock in sorted(self.shocks, key=lambda shock: shock.step):
            table = table.copy()
            for persona, row in shock.set.items():
                for category, chance in row.items():
                    table[names.index(persona), categories.index(category)] = chance
            tables[shock.step] = table
        return tables

    @model_validator(mode="after")
    def _fits_together(self) -> "SessionConfig":
        categories = self.categories
        self._check_companions()
        if self.persona_mix is not None:
            check_known("persona_mix: unknown persona", self.persona_mix, self.personas)
            check_shares("persona_mix", self.persona_mix.values())
        check_shocks(self.shocks, self.personas, categories)
        rows = [*self.personas.values(), *(row for shock in self.shocks for row in shock.set.values())]
        extremes = [chance for row in rows for chance in row.values() if not 0.0 < chance < 1.0]
        if extremes:
            raise ValueError(f"got a click probability of {extremes[0]:g}, expected one above 0 and below 1")
        self._check_lives()
        self._check_size()
        return self

    def _check_companions(self) -> None:
        """Refuse categories that no persona has."""
        named = [*self.companions, *self.companions.values()]
        if "companions" not in self.model_fields_set and not set(named) <= set(self.categories):
            raise ValueError(
                "companions: the default ones are of other categories; give them, too, such as {} for none"
            )
        check_known("companions: unknown category", named, self.categories)

    def _check_lives(self) -> None:
        """Refuse visitors who hardly ever leave for good."""
        satisfied = self.level * self.levels * abs(self.return_by_satisfaction)
        logit = np.log(self.comes_back / (1.0 - self.comes_back)) + satisfied
        leaves = 1.0 / (1.0 + np.exp(min(logit + self.most_clicks * max(self.return_by_click, 0.0), 100.0)))
        decisions = 1.0 / ((1.0 - self.go_on) * leaves)
        if decisions > MOST_DECISIONS:
            raise ValueError(
                f"visitors return with a probability of up to {1.0 - leaves:.5f}, and come for up to {decisions:,.0f} "
                f"decisions on average, expected at most {MOST_DECISIONS:,}; lower go_on, comes_back, return_by_click "
                "or return_by_satisfaction"
            )

    def _check_size(self) -> None:
        """Refuse what no machine computes the optimum of."""
        count = len(self.categories)
        satisfactions = (2 * self.levels + 1) ** (1 + self.felt_after)
        states = len(self.personas) * (count + 1) * satisfactions * (self.most_clicks + 1)
        if states > MOST_STATES:
            raise ValueError(
                f"visitors have {states:,} states, expected at most {MOST_STATES:,}; take fewer personas, categories, "
                "levels or most_clicks"
            )
        values = states * 2 * count * len({0, *(shock.step for shock in self.shocks)})
        if values > MOST_VALUES:
            raise ValueError(
                f"{states:,} states, {2 * count:,} kinds of products and {len(self.shocks):,} shocks make {values:,} "
                f"values, expected at most {MOST_VALUES:,}; take fewer categories or shocks"
            )
