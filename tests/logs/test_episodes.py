"""Logs of lives as data sets of Minari, read back by Minari."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import zoosim
from zoosim.api.runs import write_log
from zoosim.core.errors import ConfigError, DataError
from zoosim.logs.episodes import write_episodes
from zoosim.logs.load import load_log


@pytest.fixture(scope="module")
def lives(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a log of 20 visitors."""
    path = tmp_path_factory.mktemp("lives") / "lives.parquet"
    write_log(path, n=20, world="sessions")
    return path


def test_minari_reads_what_a_log_of_lives_holds(lives: Path) -> None:
    minari = pytest.importorskip("minari")
    pytest.importorskip("h5py")
    out = lives.with_name("few.minari")
    assert zoosim.export_log(lives, out) == {}
    dataset = minari.MinariDataset(out)
    log = load_log(lives)
    assert log.lives is not None
    assert dataset.total_episodes == 20
    assert dataset.total_steps == len(log)
    assert dataset.action_space.n == len(log.products)
    for visitor, episode in enumerate(dataset.iterate_episodes()):
        rows = np.flatnonzero(log.lives.visitor == np.unique(log.lives.visitor)[visitor])
        rows = rows[np.argsort(log.lives.step[rows])]
        np.testing.assert_array_equal(episode.actions, log.actions[rows])
        np.testing.assert_array_equal(episode.rewards, log.rewards[rows])
        np.testing.assert_array_equal(episode.observations[:-1], log.features[rows].astype(np.float32))
        np.testing.assert_array_equal(episode.terminations, log.lives.ended[rows])
        assert not episode.truncations.any()
        np.testing.assert_array_equal(episode.infos["propensity"], log.propensities[rows])
        np.testing.assert_array_equal(episode.infos["visit"], log.lives.visit[rows])
        assert episode.infos["action_mask"].shape == (len(rows), len(log.products))
    with pytest.raises(ConfigError, match=r"ending in \.minari"):
        zoosim.export_log(lives, out)


def test_a_visitor_who_was_cut_off_is_truncated(lives: Path) -> None:
    minari = pytest.importorskip("minari")
    pytest.importorskip("h5py")
    log = load_log(lives)
    assert log.lives is not None
    nobody = np.zeros_like(log.lives.ended)
    cut = replace(log, lives=log.lives._replace(ended=nobody, censored=log.lives.ended))
    write_episodes(cut, lives.with_name("cut.minari"))
    for episode in minari.MinariDataset(lives.with_name("cut.minari")).iterate_episodes():
        assert not episode.terminations.any()
        np.testing.assert_array_equal(np.flatnonzero(episode.truncations), [len(episode.rewards) - 1])


def test_a_log_without_lives_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("minari")
    pytest.importorskip("h5py")
    write_log(tmp_path / "single.parquet", n=50)
    with pytest.raises(DataError, match="tells no visitors' lives"):
        zoosim.export_log(tmp_path / "single.parquet", tmp_path / "single.minari")
    assert not (tmp_path / "single.minari").exists()


def test_without_minari_one_line_says_what_to_install(lives: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zoosim.core.extras.find_spec", lambda module: None)
    with pytest.raises(ConfigError, match=r"export: needs the package .* pip install 'zoosim\[minari\]'"):
        zoosim.export_log(lives, lives.with_name("none.minari"))
