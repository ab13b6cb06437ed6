"""The tables of keys in docs/ are those that the script writes, and every world has one."""

from pathlib import Path

import pytest

from scripts.docs_keys import DOCS, TABLE, with_tables
from zoosim.worlds.registry import world_names

PAGES = [page for page in sorted(DOCS.glob("*.md")) if TABLE.search(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_tables_are_up_to_date(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert with_tables(text) == text, "run python scripts/docs_keys.py"


def test_every_world_has_a_table() -> None:
    worlds = [world for page in PAGES for world in TABLE.findall(page.read_text(encoding="utf-8"))]
    assert sorted(worlds) == sorted(world_names())
