"""A search shop that is small, for studies on it."""

import pytest

from studies import search_logs
from zoosim.worlds.search import template_arms as template_world
from zoosim.worlds.search.shifts import SAVING


@pytest.fixture
def small_shop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let search logs come from a shop of 60 products, and from 300 visits before and after its market shifts."""
    shift = SAVING.model_copy(update={"step": 300})
    config = search_logs.CONFIG.model_copy(update={"n_products": 60, "shifts": [shift]})
    monkeypatch.setattr(search_logs, "CONFIG", config)
    monkeypatch.setattr(template_world, "TRUTH_VISITS", 24)
