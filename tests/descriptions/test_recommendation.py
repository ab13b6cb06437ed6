"""A described recommendation world: who, what, when, and what could be earned."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zoosim
from zoosim.core.config import EnvConfig, build
from zoosim.descriptions import RecommendationDescription, describe_recommendation
from zoosim.worlds.recommendation.world import build_world

PERSONAS = {"ann": {"dogs": 0.2, "cats": 0.4}, "bob": {"dogs": 0.6, "cats": 0.0}}
SHOCK = {"step": 50, "name": "ann turns", "set": {"ann": {"dogs": 0.9}}}


def described(**config: Any) -> RecommendationDescription:
    values = {"personas": PERSONAS, "n_products": 4, "n_users": 10, "persona_mix": {"ann": 0.5, "bob": 0.5}}
    world = build_world(build(EnvConfig, {**values, **config}, "env"), seed=1)
    return describe_recommendation(world, steps=100)


def test_rates_are_what_each_choice_earns() -> None:
    """With a of 10 users ann: best each .4 a + .6 b; dogs for all .2 a + .6 b; at random half of all four."""
    found = described()
    assert found.categories == {"dogs": 2, "cats": 2}
    a, b = (count / 10 for count in found.personas.values())
    [period] = found.periods
    assert period.oracle == pytest.approx(0.4 * a + 0.6 * b)
    assert period.single == pytest.approx(max(0.2 * a + 0.6 * b, 0.4 * a))
    assert period.random == pytest.approx(0.3 * a + 0.3 * b)
    assert not found.changes


def test_a_shock_starts_a_period_and_lists_its_cells() -> None:
    found = described(shocks=[SHOCK])
    assert [(period.start, period.name) for period in found.periods] == [(0, ""), (50, "ann turns")]
    assert [tuple(change) for change in found.changes] == [(50, "ann turns", "ann", "dogs", 0.2, 0.9)]


def test_what_is_not_for_sale_earns_nothing() -> None:
    found = described(availability=[{"step": 20, "change": "vanish", "category": "cats"}])
    first, second = found.periods
    assert (first.on_sale, second.on_sale) == ((2, 2), (2, 0))
    assert np.isnan(second.table[:, 1]).all()
    assert second.oracle == second.single == pytest.approx(second.random)
    assert not found.changes


def test_no_package_hides_a_public_function() -> None:
    """Importing a package of the name of a function would put it in the function's place."""
    packages = {path.name for path in Path(zoosim.__file__).parent.iterdir() if path.is_dir()}
    assert not packages & set(zoosim.__all__)
