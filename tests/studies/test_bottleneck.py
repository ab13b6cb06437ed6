"""The bottleneck study: the published forms agree with each other, and what is measured ends up on the page."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from studies.bottleneck.arithmetic import FORMS, orders_table, resnet18_weights, sizes_table, write_bytes
from studies.bottleneck.page import verdict
from studies.bottleneck.published import REGULARIZATION, Published
from studies.bottleneck.timing import LIMITS, OURS, Timing, _on_card, parameters_of
from studies.cards import card_sentence
from studies.run import run_study
from zoosim.core.devices import find_cards
from zoosim.core.errors import ConfigError


def test_parameters_are_counted_as_published() -> None:
    assert [parameters_of(network) for network in ("64", "128-64")] == [705, 9_601]


def test_the_weights_of_resnet_18_are_counted_as_others_count_them() -> None:
    assert resnet18_weights() == 11_689_512  # as torchvision's documentation has it


def test_the_arithmetic_of_the_orders_is_that_by_hand() -> None:
    # 2e6 x 200^2 x 4 B; 1e6 x 1e5 x 4 B, and 1e5^2 x 4 B more with A; (11e6)^2 x 4 B; 705^3 + 50 x 705^2.
    by_sizes = {tuple(row[:4]): row[4:] for row in sizes_table().rows}
    assert by_sizes["LinUCB", "large shop", "2,000,000", "200"][1] == "320 GB"
    assert by_sizes["Jacobian", "100,000", "1,000,000", "100,000"][1:] == (
        "440 GB",
        "400 GB",
    )
    assert by_sizes["plain loop", "11 million", "50", "11,000,000"][1] == "484 TB"
    assert by_sizes["plain loop", "9-64-1", "50", "705"] == ("3.8e+08", "1.99 MB", "1.99 MB")
    # (10 x 64 + 65 x 32 + 33) x 50 + 32^3 + 50 x 32^2 = 221,618; (2,753 + 32^2 + 50 x 32) x 4 B.
    last_layer = by_sizes["embedding", "9-64-32-1", "50", "2,753"]
    assert last_layer == ("2.2e+05", "21.5 kB", "4.1 kB")
    assert [row[0] for row in orders_table().rows] == list(FORMS)


def test_bytes_are_written_in_the_unit_that_suits_them() -> None:
    assert [write_bytes(count) for count in (4, 999, 1_000, 4e11, 5e17)] == [
        *("4 bytes", "999 bytes", "1 kB", "400 GB", "500 PB")
    ]


def test_the_jacobian_is_the_loop_and_the_bonus_its_formula() -> None:
    made = Published([9, 8, 4, 1], 30, "cpu")
    xs = made.rows(6)
    gradients = made.gradient_loop(xs)
    assert made.size == gradients.shape[1] == 10 * 8 + 9 * 4 + 5
    np.testing.assert_allclose(made.jacobian(xs).numpy(), gradients.numpy(), atol=1e-12)
    g, a = gradients.numpy(), made.A.detach().numpy()
    expected = np.sqrt(np.einsum("ki,ij,kj->k", g, np.linalg.inv(a), g))
    np.testing.assert_allclose(made.bonuses(gradients, made.inverse()).detach().numpy(), expected, rtol=1e-9)
    assert np.linalg.eigvalsh(a).min() >= REGULARIZATION * (1 - 1e-9)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("bottleneck")
    run_study("bottleneck", made, candidates=(3, 50), networks=("8",), updates=20)
    return made


def test_every_method_is_measured_and_written(folder: Path) -> None:
    rows = json.loads((folder / "summary.json").read_text(encoding="utf-8"))["rows"]
    timings = [row for row in rows if row["device"] == "cpu"]
    found = {(timing["method"], timing["candidates"]) for timing in timings}
    assert found == {(method, count) for method in ("inverse", *LIMITS) for count in (3, 50)}
    assert set(OURS) < set(LIMITS)
    for timing in timings:
        assert timing["parameters"] == 89
        assert timing["milliseconds"] > 0
        assert timing["megabytes"] > 0
        assert sum(timing["parts"].values()) == pytest.approx(timing["milliseconds"]) or timing["method"] == "inverse"


def test_memory_counts_what_is_kept_of_candidates_and_repeats_are_counted(folder: Path) -> None:
    """At least 20 visitors with 50 candidates of 9 features and 3 numbers each, and the pool of 5 features."""
    timings = json.loads((folder / "summary.json").read_text(encoding="utf-8"))["rows"]
    [exact] = [t for t in timings if (t["method"], t["candidates"]) == ("exact", 50)]
    assert exact["megabytes"] > 8e-6 * (20 * 50 * 12 + 50 * 5)
    assert all(t["repeats"] > 1 for t in timings if t["method"] == "inverse")


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"candidates": (10, 200)}, "bottleneck: candidates: got (10, 200), expected whole numbers of at least 1, one"),
        ({"candidates": ()}, "bottleneck: candidates: got ()"),
        ({"candidates": 50}, "bottleneck: candidates: got 50"),
        ({"candidates": (0, 50)}, "bottleneck: candidates: got (0, 50)"),
        ({"networks": ()}, "bottleneck: networks: got (), expected sizes of hidden layers, such as 64 or 128-64"),
        ({"networks": ("x",)}, "bottleneck: networks: got ('x',)"),
        ({"networks": "64"}, "bottleneck: networks: got '64'"),
        ({"networks": ("64-0",)}, "bottleneck: networks: got ('64-0',)"),
        ({"networks": (64,)}, "bottleneck: networks: got (64,)"),
        ({"updates": 0}, "bottleneck: updates: got 0, expected a whole number of at least 1"),
        ({"updates": 2.0}, "bottleneck: updates: got 2.0"),
    ],
)
def test_sizes_that_cannot_be_measured_are_refused(tmp_path: Path, sizes: dict[str, Any], message: str) -> None:
    lines: list[str] = []
    with pytest.raises(ConfigError, match=re.escape(message)):
        run_study("bottleneck", tmp_path, progress=lines.append, **sizes)
    assert not lines


def test_the_page_shows_every_figure(folder: Path) -> None:
    page = (folder / "report.html").read_text(encoding="utf-8")
    drawn = ("Time of a decision, 89 parameters", "Memory, 89 parameters", "Where the time goes, 50 candidates")
    for heading in (*drawn, "Orders of time and memory", "Operations and memory by size", "484 TB"):
        assert heading in page
    assert card_sentence(find_cards().values()) in page
    assert "src=" not in page.split("<script>")[0]


def test_a_card_gets_the_jacobian_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("studies.bottleneck.timing.CHUNK", 4)
    timing = _on_card("cpu", "a card", "8", 10, 5)
    assert (timing.candidates, timing.device) == (10, "a card")
    assert timing.megabytes == pytest.approx(8e-6 * (2 * 89**2 + 4 * 89))


def test_the_verdict_compares_like_with_like() -> None:
    def timing(method: str, parameters: int, count: int, ms: float) -> Timing:
        return Timing(method, "n", parameters, count, "cpu", ms, 1.0, 1)

    timings = [timing("plain loop", 705, 50, 90.0), timing("exact", 705, 50, 2.0), timing("exact", 705, 200, 6.0)]
    assert verdict(timings).endswith("705 parameters and 50 candidates 2.00 ms against 90 ms, a factor of 45.")
    assert verdict(timings[1:]) == "No verdict: no size was measured in both forms."


def test_what_it_cannot_do_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("x: 1")
    with pytest.raises(ConfigError, match="holds a run of policies"):
        run_study("bottleneck", tmp_path)
    (tmp_path / "file").write_text("x")
    with pytest.raises(ConfigError, match="cannot be written"):
        run_study("bottleneck", tmp_path / "file" / "inner")
    assert not [path for path in tmp_path.iterdir() if path.name not in ("config.yaml", "file")]
