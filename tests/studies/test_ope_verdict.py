"""The study of the verdict: cases whose truth is right, counts by hand, and runs that go on."""

from pathlib import Path

import numpy as np
import pytest

from studies.ope_verdict import build_page, measure, measuring
from studies.ope_verdict.cases import TOTAL, Case
from studies.ope_verdict.measuring import Judged
from tests.caches import use_cache
from zoosim.core.errors import ConfigError


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    use_cache(monkeypatch, tmp_path)
    return tmp_path


@pytest.mark.slow
def test_the_truth_is_what_the_target_earns() -> None:
    """Cases 0 to 59, 60 logs each, actions drawn from the target instead: means within 4.5 standard errors."""
    for number in range(60):
        case = Case(number)
        case.logging = case.target
        means = [float(case.log(seed)[0].rewards.mean()) for seed in range(60)]
        error = float(np.std(means, ddof=1)) / np.sqrt(60)
        assert abs(float(np.mean(means)) - case.truth) < 4.5 * error, number


def test_cases_are_fixed_in_advance_and_of_every_kind() -> None:
    assert Case(3).settings == Case(3).settings
    np.testing.assert_array_equal(Case(3).table, Case(3).table)
    settings = [Case(number).settings for number in range(TOTAL)]
    for name, few in (("missing", 40), ("wrong", 50), ("amounts", 30), ("coarse", 30), ("drift", 40), ("taste", 30)):
        assert sum(bool(getattr(each, name)) for each in settings) >= few
    first, second = Case(5).log(1)[0], Case(5).log(1)[0]
    np.testing.assert_array_equal(first.rewards, second.rewards)
    recorded = Case(11)
    log, target = recorded.log(0)
    assert target.shape == (len(log), log.n_actions)
    assert set(np.unique(log.actions)) <= set(np.flatnonzero(recorded.logging.sum(axis=0)))


def test_what_was_measured_is_kept(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = measure(seeds="1000:1003", cases=2, jobs=1)
    assert [(row.case, row.estimator) for row in rows] == [(n, name) for n in (0, 1) for name in ("ips", "snips", "dr")]
    assert all(row.trust + row.weak + row.do_not_use == row.logs == 3 for row in rows)
    assert len(list((own_cache / "ope-verdict").glob("*.npz"))) == 2
    monkeypatch.setattr(Case, "log", None)
    assert measure(seeds="1000:1003", cases=2, jobs=1) == rows


@pytest.mark.slow
def test_any_number_of_jobs_and_logs_at_a_time_finds_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = list[str]()
    rows = measure(seeds=6, cases=2, jobs=2, progress=told.append)
    use_cache(monkeypatch, tmp_path / "another")
    monkeypatch.setattr(measuring, "CHUNK", 4)
    assert measure(seeds=6, cases=2, jobs=1) == rows
    assert [line.partition(":")[0] for line in told] == ["1 of 2", "2 of 2"]


def row(case: int, held: int, trust: int, refused: int) -> Judged:
    head = (case, "10 actions", 300, case % 2 == 1, case == 7, "ips", 100)
    return Judged(*head, held, trust, 100 - trust - refused, refused, min(held, trust), 0.1)


def test_the_page_counts_by_half_and_kind() -> None:
    rows = [row(0, 95, 60, 0), row(1, 95, 50, 5), row(3, 80, 3, 60), row(5, 89, 20, 20), row(7, 60, 1, 99)]
    page = build_page(rows)
    assert "trusts 2.0% of the logs of unsound cases" in page.verdict
    assert "refuses 5.0% of the logs of sound ones" in page.verdict
    table = {cells[:2]: cells[2:] for cells in page.tables[0].rows}
    assert table["held out", "unsound"] == ("2", "200", "2.0%", "18.5%", "79.5%")
    assert table["held out", "between"][:2] == ("1", "100")
    assert table["for tuning", "unsound"] == ("0", "0", "none", "none", "none")
    by_fault = {cells[:3]: cells[4] for cells in page.tables[1].rows}
    assert by_fault["held out", "without fault", "unsound"] == "3.0%"
    assert by_fault["held out", "at fault", "unsound"] == "1.0%"
    assert [cells[0] for cells in page.tables[3].rows] == ["1", "3", "7"]


def test_wrong_numbers_are_refused() -> None:
    with pytest.raises(ConfigError, match="jobs: got 0, expected a whole number, 1 to 1,024"):
        measure(cases=1, jobs=0)
    with pytest.raises(ConfigError, match="cases: got 201, expected a whole number, 1 to 200"):
        measure(cases=201)


def test_it_runs_whole(tmp_path: Path) -> None:
    rows = measure(seeds=2, cases=2, jobs=1)
    assert len(rows) == 6
    assert build_page(rows).drawings[0].figure.layout.height == 420
