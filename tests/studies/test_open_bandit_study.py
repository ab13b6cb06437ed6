"""The study of the real logs: a small case of our own, and the published answers where the data is."""

import os
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import yaml

from studies.open_bandit import build_page, measure
from studies.open_bandit.thompson import item_probabilities
from zoosim.core.errors import ConfigError, DataError


@pytest.fixture(scope="session")
def real() -> str:
    named = os.environ.get("ZOOSIM_DATA")
    if not named:
        pytest.skip("needs the Open Bandit Dataset: set ZOOSIM_DATA to its folder")
    return named


def write_log(folder: Path, policy: str, propensities: np.ndarray, n: int = 1_200) -> None:
    """Write a log of 4 items at 3 positions, `propensities (4, 3)`; item 3 is clicked half of the time."""
    rng, rows = np.random.default_rng(0), []
    for row in range(n):
        position = row % 3
        item = int(rng.choice(4, p=propensities[:, position]))
        click = int(item == 3 and rng.random() < 0.5)
        time = f"2019-11-24 00:{row // 60:02d}:{row % 60:02d}.5+00:00"
        rows.append([row, time, item, position + 1, click, propensities[item, position], *"abcd"])
    own = folder / policy / "all"
    own.mkdir(parents=True)
    names = ["timestamp", "item_id", "position", "click", "propensity_score"]
    heads = ["", *names, *(f"user_feature_{i}" for i in range(4))]
    pl.DataFrame(rows, schema=heads, orient="row").write_csv(own / "all.csv")
    items = pl.DataFrame({"": range(4), "item_id": range(4), "item_feature_0": [0.0, 0.5, 1.0, 1.5]})
    items.write_csv(own / "item_context.csv")


@pytest.fixture
def own(tmp_path: Path) -> Path:
    prior = {"all": {"alpha": [4.0, 3.0, 2.0, 6.0], "beta": [6.0, 6.0, 6.0, 6.0]}}
    (tmp_path / "prior_bts.yaml").write_text(yaml.safe_dump(prior), encoding="utf-8")
    write_log(tmp_path, "random", np.full((4, 3), 0.25))
    write_log(tmp_path, "bts", item_probabilities(tmp_path, "all", 4))
    return tmp_path


def test_probabilities_are_counts_of_single_draws(tmp_path: Path) -> None:
    """The same draws one at a time, as published; more of them than one block holds."""
    alpha, beta = [0.5, 3.0, 2.0, 6.0], [0.7, 6.0, 1.0, 6.0]
    path = tmp_path / "prior_bts.yaml"
    path.write_text(yaml.safe_dump({"men": {"alpha": alpha, "beta": beta}}), encoding="utf-8")
    rng, counts = np.random.RandomState(12345), np.zeros((4, 3))
    for _ in range(6_000):
        counts[np.argsort(-rng.beta(alpha, beta))[:3], [0, 1, 2]] += 1
    np.testing.assert_array_equal(item_probabilities(tmp_path, "men", 4, draws=6_000), counts / 6_000)
    with pytest.raises(DataError, match=r"men\.alpha: got 4 numbers, expected one above 0 for each of 5 items"):
        item_probabilities(tmp_path, "men", 5)
    with pytest.raises(ConfigError, match=r"no file .*nowhere.*prior_bts\.yaml"):
        item_probabilities(tmp_path / "nowhere", "men", 4)


def test_each_policy_is_judged_by_the_log_of_the_other(own: Path) -> None:
    """What a policy earned where it chose itself lies in the interval of the other's log."""
    rows = measure(data=own)
    assert [(row.log, row.policy) for row in rows[::3]] == [
        ("random/all", "Thompson sampling"),
        ("bts/all", "uniform"),
    ]
    random, bts = rows[0], rows[3]
    assert random.played == bts.logged
    assert bts.played == random.logged
    for row in (random, bts):
        assert row.low is not None
        assert row.high is not None
        assert row.played is not None
        assert row.low < row.played < row.high
        assert abs(row.mean_weight - 1.0) < 0.1
        assert row.ratio == row.value / row.logged
    page = build_page(rows)
    assert f"random/all to Thompson sampling: ratio {random.ratio:.6g}, trust" in page.verdict
    assert len(page.drawings[0].figure.data) == 12


def test_a_log_alone_has_nothing_to_compare_with(tmp_path: Path) -> None:
    write_log(tmp_path, "bts", np.full((4, 3), 0.25))
    rows = measure(data=tmp_path)
    assert [row.played for row in rows] == [None] * 3
    assert build_page(rows).tables[1].rows[0][-1] == ""


def test_without_the_data_it_says_where_to_name_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ZOOSIM_DATA", raising=False)
    with pytest.raises(ConfigError, match="give --data DIR, or set ZOOSIM_DATA"):
        measure()


@pytest.mark.slow
def test_the_published_answers(real: str) -> None:
    rows = {(row.log, row.estimator): row for row in measure(data=real)}
    assert len(rows) == 18
    assert rows["random/all", "ips"].ratio == pytest.approx(1.198126, abs=1e-6)
    women = rows["bts/women", "ips"]
    assert women.mean_weight == pytest.approx(3.134, abs=1e-3)
    assert women.max_weight == pytest.approx(21_739, abs=1)
    assert women.verdict == "do not use"
    assert women.reasons[0].startswith("the mean weight is 3.13, expected 1")
