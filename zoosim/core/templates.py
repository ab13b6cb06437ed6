"""Ranking templates, among which policies of a search shop choose: boosts by feature, built-in rules, and mixtures."""

from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from itertools import combinations
from typing import Annotated, Literal, NamedTuple, get_args

import numpy as np
from pydantic import Field, model_validator

from zoosim.core.config import Probability, Strict, check_known, check_shares
from zoosim.core.search_names import FEATURES, TEMPLATES
from zoosim.core.types import FloatArray

Rule = Literal["neutral", "cm2", "private-label", "popularity", "premium", "budget", "discount", "strategic"]
Boost = Annotated[float, Field(ge=-1e6, le=1e6)]


class Template(Strict):
    """One ranking template: boosts by feature, a built-in rule, or a mixture of others; neutral without any of these.

    A template of boosts is a point of the box in which policies of boosts act; a rule adds `a_max` times a value in
    [0, 1] to each product's score. A mixture adds up what its templates add to scores, by their shares.
    """

    boosts: dict[str, Boost] = Field(default_factory=dict, description="boosts by feature, from -a_max to a_max")
    rule: Rule | None = Field(None, description="a built-in rule, which adds up to `a_max` to a product's score")
    mix: dict[str, Probability] = Field(
        default_factory=dict, description="shares of other templates of the library, which add up to 1"
    )

    @model_validator(mode="after")
    def _one_kind(self) -> "Template":
        given = [name for name in ("boosts", "rule", "mix") if getattr(self, name)]
        if len(given) > 1:
            raise ValueError(f"got {' and '.join(given)}, expected one of them, or none for a neutral template")
        check_known("boosts: unknown feature", self.boosts, FEATURES)
        if self.mix:
            check_shares("mix", self.mix.values())
        return self


Library = dict[Annotated[str, Field(min_length=1, max_length=100)], Template]

RULES: Library = {rule: Template(rule=rule) for rule in get_args(Rule)}
VECTORS: Library = {
    "neutral": Template(),
    "cm2": Template(boosts={"cm2": 0.5}),
    "private-label": Template(boosts={"private label": 0.5}),
    "popularity": Template(boosts={"bestseller": 0.5}),
    "premium": Template(boosts={"price": 0.5}),
    "budget": Template(boosts={"discount": 0.5, "price": -0.3}),
    "discount": Template(boosts={"discount": 0.5}),
    "strategic": Template(boosts={"strategic cm2": 0.5}),
}


def _with_pairs(library: Library) -> Library:
    """Return a library with mixtures of 70% and 30% of each two of its templates that are not neutral."""
    names = [name for name in library if name != "neutral"]
    mixed = {
        f"{most}-{least}": Template(mix={most: 0.7, least: 0.3})
        for pair in combinations(names, 2)
        for most, least in (pair, pair[::-1])
    }
    return {**library, **mixed}


LIBRARIES: Mapping[str, Library] = {
    "rules": RULES,
    "rules-50": _with_pairs(RULES),
    "vectors": VECTORS,
    "vectors-50": _with_pairs(VECTORS),
}
"""The libraries that come with zoosim, by name: eight rules or eight vectors, and each with 42 mixtures of two."""


class TemplateArrays(NamedTuple):
    """The parts that T templates add to scores: weights of the built-in `rules (T, 8)`, and `boosts (T, 10)`."""

    rules: FloatArray
    boosts: FloatArray


def check_library(library: Library, a_max: float) -> None:
    """Raise `ValueError` for templates that mix unknown ones or themselves, or lie outside of the box of boosts.

    Args:
        library: Templates by name.
        a_max: The largest boost.
    """
    for name, template in library.items():
        if not name.isprintable() or not name.strip():
            raise ValueError(f"templates: got the name {name!r}, expected characters that can be printed")
        check_known(f"templates.{name}.mix: unknown template", template.mix, library)
        for feature, boost in template.boosts.items():
            if abs(boost) > a_max:
                raise ValueError(
                    f"templates.{name}.boosts.{feature} is {boost:g}, expected {-a_max:g} to {a_max:g}: raise a_max, "
                    "or give templates of your own"
                )
    _in_order(library)


def _in_order(library: Library) -> list[str]:
    """Return the names of templates, each after those that it mixes."""
    try:
        return list(TopologicalSorter({name: template.mix for name, template in library.items()}).static_order())
    except CycleError as error:
        # The circle as graphlib tells it: its first name stands at its end again.
        raise ValueError(f"templates: {' mixes '.join(reversed(error.args[1]))}, expected no circle") from None


def arrays_of(library: Library) -> TemplateArrays:
    """Return what the templates of a checked library add to scores, in their order.

    Args:
        library: Templates by name.
    """
    rules = {name: np.zeros(len(TEMPLATES)) for name in library}
    boosts = {name: np.zeros(len(FEATURES)) for name in library}
    for name in _in_order(library):
        template = library[name]
        if template.rule:
            rules[name][TEMPLATES.index(template.rule)] = 1.0
        for feature, boost in template.boosts.items():
            boosts[name][FEATURES.index(feature)] = boost
        for part, share in template.mix.items():
            rules[name] += share * rules[part]
            boosts[name] += share * boosts[part]
    return TemplateArrays(np.array(list(rules.values())), np.array(list(boosts.values())))
