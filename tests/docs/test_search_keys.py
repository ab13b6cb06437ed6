"""The page of keys of the search world names every key, with the default and the range that the code has."""

import re
from pathlib import Path

from tests.docs.search_keys import keys_of

PAGE = Path(__file__).parents[2] / "docs" / "search-keys.md"
ROW = re.compile(r"^\| `([^`]+)` \| (.*?) \| (.*?) \| (.+) \|$", re.MULTILINE)


def test_the_page_has_each_key_once_with_its_default_and_range() -> None:
    rows = [row[:3] for row in ROW.findall(PAGE.read_text(encoding="utf-8"))]
    assert rows == list(keys_of())
    assert len({key for key, _, _ in rows}) == len(rows) > 60
