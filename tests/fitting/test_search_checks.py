"""Checks of later searches: silent where the fit is right, and naming the part that is not."""

import numpy as np
import pytest

from tests.fitting.search_designs import SIZES, random_design
from zoosim.fitting.search_behaviour import FittedBehaviour, fit_behaviour
from zoosim.fitting.search_checks import LaterSearches, PartCheck, _corrected, check_searches
from zoosim.fitting.search_design import SearchDesign


@pytest.fixture(scope="module")
def fitted() -> FittedBehaviour:
    return fit_behaviour(random_design(3_000, 4, 21), SIZES)


def later(design: SearchDesign) -> LaterSearches:
    users = np.arange(len(design.segment)) // 2
    return LaterSearches(
        3_000, design, np.ones(design.shown.shape), 0.1, users, ("first", "second"), ("broad", "narrow")
    )


def test_nothing_deviates_where_the_fit_is_right(fitted: FittedBehaviour) -> None:
    checks = check_searches(fitted, later(random_design(1_500, 4, 22)))
    assert len(checks.parts) > 20
    assert not any(part.deviates for part in checks.parts)
    assert checks.earned.equivalence.agrees is not False


def test_a_segment_that_clicks_otherwise_is_named(fitted: FittedBehaviour) -> None:
    """A third of the first segment's clicks are gone."""
    design = random_design(1_500, 4, 22)
    gone = (np.random.default_rng(0).random(design.clicks.shape) < 1 / 3) & (design.segment == 0)[:, None]
    changed = design._replace(clicks=design.clicks * ~gone, purchases=design.purchases * ~gone)
    deviating = [part for part in check_searches(fitted, later(changed)).parts if part.deviates]
    assert ("segment", "first") in {(part.kind, part.name) for part in deviating}
    assert ("segment", "second") not in {(part.kind, part.name) for part in deviating}


def test_a_world_that_earns_twice_as_much_does_not_agree(fitted: FittedBehaviour) -> None:
    """Half of the clicks, and all purchases, are gone."""
    design = random_design(1_500, 4, 22)
    gone = np.random.default_rng(0).random(design.clicks.shape) < 1 / 2
    changed = design._replace(clicks=design.clicks * ~gone, purchases=0 * design.purchases)
    assert check_searches(fitted, later(changed)).earned.equivalence.agrees is False


def test_p_values_are_corrected_by_hand() -> None:
    """Holm: .01 * 3, .02 * 2, then no less than before: max(.04, .03)."""
    parts = [PartCheck("segment", str(p), 1, 1, 1.0, 0.0, 2.0, p) for p in (0.03, 0.01, 0.02)]
    assert [part.p for part in _corrected(parts)] == pytest.approx([0.04, 0.03, 0.04])
