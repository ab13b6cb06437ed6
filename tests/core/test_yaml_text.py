"""What is written as YAML is read as the same."""

import pytest
import yaml

from zoosim.core.yaml_text import parse_yaml, write_yaml


@pytest.mark.parametrize(
    "text", ["07859909853e3133", "12e5", "1e-3", "10:20", "0x1f", "yes", "null", "1_000", "2026-11-24", "é"]
)
def test_text_that_looks_like_something_else_stays_text(text: str) -> None:
    assert parse_yaml(write_yaml({"hash": text, text: [text]})) == {"hash": text, text: [text]}


def test_a_hash_with_a_single_e_is_a_number_when_yaml_writes_it() -> None:
    """The reader takes 12e5 for a number, as its users mean it; so the writer must know that it does."""
    assert parse_yaml(yaml.safe_dump({"hash": "12e5"})) == {"hash": 1_200_000.0}


@pytest.mark.parametrize("value", [1, 0.001, 1e30, True, None, [1, "a"], {"a": {"b": 2.5}}])
def test_values_are_read_as_they_were(value: object) -> None:
    assert parse_yaml(write_yaml({"value": value})) == {"value": value}


@pytest.mark.parametrize("text", ["2026-03-01", "2020-13-45", "9999-12-31T23:59:59-20:00"])
def test_a_date_is_text(text: str) -> None:
    assert parse_yaml(f"a: {text}") == {"a": text}


@pytest.mark.parametrize("tagged", ["!!bool x", "!!timestamp x", '!!int ""', "!!binary x", "!mine [1]", "!!map {a: 1}"])
def test_a_tag_is_refused(tagged: str) -> None:
    with pytest.raises(yaml.YAMLError, match="has the tag '!"):
        parse_yaml(f"a: {tagged}")
