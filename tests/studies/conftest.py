"""Every page of a study that a test builds opens with one short sentence; and a search shop that is small."""

from typing import Any

import pytest

from studies import search_logs
from zoosim.report.sections import Page
from zoosim.worlds.search import template_arms as template_world
from zoosim.worlds.search.shifts import SAVING

MOST = 130
"""Characters of a page's first line."""


@pytest.fixture(autouse=True)
def first_lines_are_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check the first line of each page when it is built."""
    build = Page.__init__

    def checked(page: Page, *args: Any, **fields: Any) -> None:
        build(page, *args, **fields)
        assert len(page.answer) <= MOST, page.answer
        assert page.answer.endswith("."), page.answer
        assert ". " not in page.answer, page.answer

    monkeypatch.setattr(Page, "__init__", checked)


@pytest.fixture
def small_shop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let search logs come from a shop of 60 products, and from 300 visits before and after its market shifts."""
    shift = SAVING.model_copy(update={"step": 300})
    config = search_logs.CONFIG.model_copy(update={"n_products": 60, "shifts": [shift]})
    monkeypatch.setattr(search_logs, "CONFIG", config)
    monkeypatch.setattr(template_world, "TRUTH_VISITS", 24)
