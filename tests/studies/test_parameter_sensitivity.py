"""The study of parameters: which values are tried, that shops are paired, and what the verdict says."""

from pathlib import Path

import pytest

import zoosim
from studies.parameter_sensitivity import build_page, measure
from studies.parameter_sensitivity.page import verdict
from studies.parameter_sensitivity.runs import DEFAULTS, settings_of
from studies.rows import values_where
from tests.caches import use_cache
from zoosim.core.errors import ConfigError


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_cache(monkeypatch, tmp_path / "cache")


def test_every_number_is_halved_and_doubled_within_its_range() -> None:
    assert settings_of("linucb")[0] == (DEFAULTS, 0.0)
    assert {("alpha", 0.5), ("alpha", 2.0)} <= set(settings_of("linucb"))
    discounts = [value for name, value in settings_of("d-linucb") if name == "discount"]
    assert discounts == [0.9, 1.0]  # the ends of its range: half would be below, and twice above
    with pytest.raises(ConfigError, match="has no parameter to halve"):
        settings_of("random")


def test_shops_are_those_of_the_experiment_and_all_settings_meet_them(tmp_path: Path) -> None:
    rows = measure(seeds="3:4", jobs=1, policies="greedy", steps=200)
    run = zoosim.run("shops", policies=["greedy"], seeds=[3], steps=200, jobs=1, out=tmp_path / "run")
    expected = [100 * share for share in run.summary["policies"]["greedy"]["oracle_fraction"]["per_seed"]]
    assert values_where(rows, "percent", parameter=DEFAULTS) == pytest.approx(expected)
    page = build_page(rows)
    assert {row[0] for row in page.tables[0].rows} == {row.parameter for row in rows} - {DEFAULTS}


def test_the_verdict_names_what_matters_and_what_is_open() -> None:
    sure, large, wide = [0.1, -0.1, 0.05, 0.0], [2.0, 1.9, 2.1, 2.0], [3.0, -3.0, 2.0, -2.5]
    none = "No value is better than the default by more than a point, in the mean."
    assert verdict({("a", 1.0): sure}) == none
    assert verdict({("a", 1.0): sure, ("b", 2.0): large}) == "Better by more than a point in the mean: b 2."
    small = [-value for value in large]
    assert verdict({("b", 2.0): small}) == f"{none} Worse by more than a point in the mean: b 2."
    assert verdict({("a", 1.0): sure, ("c", 0.5): wide}).endswith("Intervals reach beyond a point: c 0.5.")
