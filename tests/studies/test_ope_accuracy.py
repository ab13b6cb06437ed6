"""The study of accuracy: errors by hand, places that differ in one setting alone, and runs that go on."""

from pathlib import Path

import numpy as np
import pytest

from studies import search_logs
from studies.ope_accuracy import build_page, measure, measuring
from studies.ope_accuracy.measuring import NAMES, Accuracy, Place, logs_at, rows_of, values_at
from studies.search_logs import SearchLogs
from tests.caches import use_cache


def accuracy(place: Place, seeds: tuple[int, ...]) -> list[Accuracy]:
    shop = search_logs.CONFIG
    return rows_of(shop, place, values_at(shop, [place], seeds, jobs=1)[0])


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    use_cache(monkeypatch, tmp_path)
    return tmp_path


def test_errors_are_shares_of_the_truth(monkeypatch: pytest.MonkeyPatch) -> None:
    """Estimates of .5 and 1.5 times the truth: a root mean squared error of a half, no bias; of 1.5 twice: a half."""
    place = Place("recommendation", "n", 300)
    truth, values = logs_at(search_logs.CONFIG, place).ending, iter(((0.5, 1.5), (1.5, 1.5)))
    monkeypatch.setattr(measuring, "_estimates", lambda *_: [times * truth for times in next(values)])
    monkeypatch.setattr(measuring, "NAMES", ("one", "other"))
    one, other = accuracy(place, (0, 1))
    assert (one.error, one.bias) == pytest.approx((0.5, 0.0))
    assert (other.error, other.bias) == pytest.approx((np.sqrt(0.25), 0.5))


@pytest.mark.usefixtures("small_shop")
def test_places_differ_in_one_setting() -> None:
    for world in measuring.WORLDS:
        plain, few, far, moved = (
            logs_at(search_logs.CONFIG, Place(world, axis, at))
            for axis, at in (("drift", 0.0), ("n", 300), ("distance", 3), ("drift", 1))
        )
        assert few.settings == plain.settings._replace(n=300)
        np.testing.assert_array_equal(few.target, plain.target)
        np.testing.assert_array_equal(far.logging, plain.logging)
        assert few.ending == plain.ending == plain.truth != moved.ending
        assert plain.truth < far.truth  # judged policies are better than what wrote the log
    assert isinstance(plain, SearchLogs)


def test_drift_biases_what_a_log_can_tell() -> None:
    """IPS finds the mean over the log's time, so at full drift it is off by how far that lies from the end."""
    place = Place("recommendation", "drift", 1.0)
    logs, found = logs_at(search_logs.CONFIG, place), accuracy(place, tuple(range(60)))
    ips = found[NAMES.index("ips")]
    assert ips.bias == pytest.approx(logs.truth / logs.ending - 1.0, abs=4.5 * ips.error / np.sqrt(60))
    assert abs(logs.truth / logs.ending - 1.0) > 0.01


def test_what_was_measured_is_kept(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place("recommendation", "n", 300)
    rows = accuracy(place, (3, 4))
    assert [row.estimator for row in rows] == list(NAMES)
    assert len(list((own_cache / "ope-accuracy").glob("*.npz"))) == 1
    monkeypatch.setattr(measuring, "_estimates", None)
    assert accuracy(place, (3, 4)) == rows


def row(axis: str, at: float, estimator: str, error: float) -> Accuracy:
    return Accuracy("shop", axis, at, 100.0, estimator, 50, 0.1, error, -error / 2)


def test_the_page_names_who_is_nearest() -> None:
    errors = {"ips": (0.4, 0.02), "dm": (0.2, 0.05), "logged": (0.1, 0.1)}
    rows = [row("n", at, name, pair[i]) for i, at in enumerate((300, 30_000)) for name, pair in errors.items()]
    page = build_page(rows + [row("drift", 1.0, name, pair[0]) for name, pair in errors.items()])
    assert "with 300 rows dm is nearest (20.0% off, ips 40.0%), with 30,000 rows ips (2.0%" in page.verdict
    assert page.tables[0].rows[0] == ("shop", "300", "100", "40.0%", "20.0%", "10.0%")
    assert [cells[1] for cells in page.tables[-1].rows] == ["rows of the log 30,000", "drift 1"]


@pytest.mark.usefixtures("small_shop")
def test_it_runs_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "AXES", {"n": (100, 200), "drift": (0.0, 1.0)})
    rows = measure(seeds=2, jobs=1)
    assert len(rows) == 3 * 4 * len(NAMES)
    assert build_page(rows).drawings[0].figure.layout.height == 930
