"""Launches in a folder: kept one by one, taken over as they are, and never mixed with those on other terms."""

from pathlib import Path

import pytest

from tests.rehearsal.launches.test_figures import OUTCOMES
from zoosim.core.errors import ConfigError
from zoosim.rehearsal.launches.store import LAUNCHES, PLAYED, LaunchStore

TERMS = {"log": "a"}


def test_launches_are_taken_over_and_a_line_that_was_cut_is_dropped(tmp_path: Path) -> None:
    store = LaunchStore(tmp_path, TERMS)
    for outcome in OUTCOMES[:3]:
        store.add(outcome)
    kept = LaunchStore(tmp_path, TERMS)
    assert list(kept.outcomes.values()) == OUTCOMES[:3]
    file = tmp_path / PLAYED
    file.write_bytes(file.read_bytes()[:-9])
    cut = LaunchStore(tmp_path, TERMS)
    assert list(cut.outcomes.values()) == OUTCOMES[:2]
    cut.add(OUTCOMES[2])
    assert list(LaunchStore(tmp_path, TERMS).outcomes.values()) == OUTCOMES[:3]


def test_more_launches_are_added_to_all_that_were_asked_for_before(tmp_path: Path) -> None:
    store = LaunchStore(tmp_path, TERMS)
    store.add(OUTCOMES[0])
    store.finish()
    before = (tmp_path / LAUNCHES).read_text()
    more = LaunchStore(tmp_path, TERMS)
    more.add(OUTCOMES[1])
    assert (tmp_path / LAUNCHES).read_text() == before, "what was whole stays until all are played"
    more.finish()
    assert list(LaunchStore(tmp_path, TERMS).outcomes.values()) == OUTCOMES[:2]
    assert not (tmp_path / PLAYED).exists()


def test_launches_on_other_terms_are_kept_apart(tmp_path: Path) -> None:
    LaunchStore(tmp_path, TERMS)
    other = LaunchStore(tmp_path, {"log": "b"})  # none was played yet
    other.add(OUTCOMES[0])
    with pytest.raises(ConfigError, match="name another folder"):
        LaunchStore(tmp_path, TERMS)


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    LaunchStore(tmp_path, TERMS).add(OUTCOMES[0])
    (tmp_path / PLAYED).write_text('{"number": 1}\n')
    with pytest.raises(ConfigError, match="is damaged"):
        LaunchStore(tmp_path, TERMS)
