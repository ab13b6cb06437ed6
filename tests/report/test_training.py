"""The page of a training: which policy was chosen, why, and what its choices rest on."""

from pathlib import Path

import numpy as np
import pytest

import zoosim
from tests.api.test_models import imported
from tests.logs.own_searches import write_searches
from tests.report.test_report import Shown
from zoosim.core.errors import ConfigError
from zoosim.logs.parse import read_log
from zoosim.off_policy.column_use import column_uses


def page_of(folder: Path, log: Path, policies: list[str]) -> str:
    zoosim.train(log, policies, folder / "m.zoosim", report=folder / "page.html")
    return Shown((folder / "page.html").read_text(encoding="utf-8")).text


def test_the_page_says_which_policy_was_chosen_and_why(tmp_path: Path) -> None:
    text = page_of(tmp_path, imported(tmp_path), ["random", "mlp"])
    assert (
        "mlp was chosen from 2 policies: dm, a mixed model calibrated on later rows, predicts the most reward" in text
    )
    assert "Compared with today's choices: " in text
    assert "Mean squared error of the predicted rewards after each epoch" in text
    for words in ("2,400", "600", "2026-01-01 00:00", "country is de", "the best of 2 policies by these very rows"):
        assert words in text
    assert f"zoosim train {tmp_path / 'log.parquet'} --policy random --policy mlp --out" in text


def test_without_propensities_the_page_has_predictions_alone(tmp_path: Path) -> None:
    text = page_of(tmp_path, imported(tmp_path, n=1_000, drop="p"), ["random", "linear"])
    assert "linear was chosen from 2 policies" in text
    assert "no estimate says how much it would earn" in text
    assert "All estimators" not in text


def test_one_policy_of_boosts_has_a_page(tmp_path: Path) -> None:
    text = page_of(tmp_path, write_searches(tmp_path, 400), ["item-critic"])
    assert "item-critic was trained, and no other policy" in text
    assert "What policies see of a search" in text
    assert "mixed model" not in text


def test_a_page_is_refused_before_training(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"report: got .*, expected a file in a folder that is there, ending in \.html"
    ):
        zoosim.train(imported(tmp_path, n=500), ["linear"], report=tmp_path / "page.pdf")


def test_only_columns_that_tell_change_choices(tmp_path: Path) -> None:
    """Clicks hang on country and brand alone: see `click_rate`. Of the choices, country moves 2 in 3 at most."""
    log = imported(tmp_path)
    model = zoosim.train(log, ["linear"]).model
    uses = column_uses(model.policy, read_log(log))
    assert set(uses["visitors"]) == {"country", "age", "member"}
    assert set(uses["products"]) == {"brand", "price"}
    assert 0.4 < uses["visitors"]["country"] < 0.7
    uniform = zoosim.train(log, ["random"]).model
    unused = column_uses(uniform.policy, read_log(log))
    assert np.array_equal([*unused["visitors"].values(), *unused["products"].values()], np.zeros(5))
