"""Every page of a study that a test builds opens with one short sentence."""

from typing import Any

import pytest

from zoosim.report.sections import Page

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
