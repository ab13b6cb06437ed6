"""Descriptions of products that come again."""

import pytest

from zoosim.serving import described
from zoosim.serving.described import Contents, Descriptions


def test_whole_numbers_of_more_than_64_bits_have_no_content_and_are_not_kept() -> None:
    contents = Contents(["a", {"id": "b", "size": 2**64}, {"id": "c"}])
    assert contents.described == [1, 2]
    name, content, usual = contents.keys
    assert (name, content) == ("a", None)
    assert usual == Contents([{"id": "c"}]).keys[0]
    descriptions: Descriptions[int] = Descriptions()
    descriptions.note(content, 3)
    assert descriptions.get(content) is None


def test_descriptions_are_forgotten_when_they_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(described, "MOST_BYTES", 10)
    descriptions: Descriptions[int] = Descriptions()
    descriptions.note(b"12345", 1)
    descriptions.note(b"12345", 2)
    descriptions.note(b"67890", 3)
    assert (descriptions.get(b"12345"), descriptions.get(b"67890")) == (2, 3)
    descriptions.note(b"a", 4)
    assert (descriptions.get(b"12345"), descriptions.get(b"a")) == (None, 4)
