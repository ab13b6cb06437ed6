"""The second part of S13: shops are drawn and imported, and a line per size is printed; training has its own tests."""

from pathlib import Path

import pytest

from benchmarks.speed import training
from zoosim.logs.parse import read_log


def test_a_line_per_size_says_how_long_training_took(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trained = []

    def run_train(path: Path, policy: str) -> tuple[float, float, float, str]:
        log = read_log(path)
        trained.append((len(log), log.n_actions, log.features.shape[1], policy))
        return 20.0, 31.0, 1.25, "80,000 rows to learn from: about 18 s"

    monkeypatch.setattr(training, "run_train", run_train)
    monkeypatch.setattr(training, "TO_COMPILE", (2_000, 100))
    training.train_large(rows=3_000, products=(100, 200))
    both = ["adaptive", "mixed-effects"]
    assert [(rows, d) for rows, _, d, _ in trained[::2]] == [(2_000, 30), (3_000, 30), (3_000, 30)]
    assert [policy for *_, policy in trained] == both * 3
    assert trained[-1][1] > 150
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    size = "3,000 rows of 200 products, visitors of 30 features, products of 55"
    assert lines[2:] == [
        f"S13 zoosim train --policy {policy}, {size}: 20.0 s (told beforehand: about 18 s; 31.0 s of processor time), "
        "1.25 GB at most"
        for policy in both
    ]
