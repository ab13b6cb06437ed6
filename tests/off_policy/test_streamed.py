"""An evaluation by rows that are read in blocks is that by the same rows in memory, to the bit."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import zoosim
from zoosim.core import blocks
from zoosim.core.errors import ConfigError, DataError
from zoosim.logs import stream, stream_sets
from zoosim.logs.parse import read_log
from zoosim.logs.stream import stream_log
from zoosim.models import linear_rewards
from zoosim.off_policy.evaluate import evaluate
from zoosim.off_policy.targets.products import spec_of
from zoosim.policies.persistence import save_policy
from zoosim.policies.registry import find_class

N, PRODUCTS, KINDS = 3_000, 6, 20


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK_ROWS", 512)
    monkeypatch.setattr(linear_rewards, "BLOCK_ROWS", 512)
    monkeypatch.setattr(stream, "BLOCK_ROWS", 512)
    monkeypatch.setattr(stream, "LARGEST_WINDOW", 1_024)


def frame(*, timed: bool = True) -> pl.DataFrame:
    rng = np.random.default_rng(7)
    users = rng.integers(N // 3, size=N)
    kind = users % KINDS
    laws = 0.4 / PRODUCTS + 0.6 * rng.dirichlet(np.ones(PRODUCTS), size=KINDS)
    actions = (laws.cumsum(axis=1)[kind] < rng.random((N, 1))).sum(axis=1).clip(max=PRODUCTS - 1)
    columns = {
        "user_id": users,
        "user": rng.normal(size=(KINDS, 2))[kind].tolist(),
        "unavailable": [[] for _ in range(N)],
        "action": actions,
        "propensity": laws[kind, actions],
        "reward": (rng.random(N) < 0.1 + 0.2 * (actions == kind % PRODUCTS)).astype(float),
        "target": rng.dirichlet(np.ones(PRODUCTS), size=KINDS)[kind, actions],
    }
    log = pl.DataFrame(columns)
    time = pl.Series(1_700_000_000_000_000 + np.arange(N)).cast(pl.Datetime("us", "UTC"))
    return log.with_columns(time=time) if timed else log


@pytest.fixture
def path(tmp_path: Path) -> Path:
    out = tmp_path / "log.parquet"
    frame().write_parquet(out, row_group_size=700)
    return out


def assert_same(path: Path, policies: dict[str, Any], **options: Any) -> None:
    """Insist that both ways give the same figures, verdicts, notes and tables of overlap."""
    streamed, whole = stream_log(path, columns=["target"]), read_log(path, columns=["target"])
    by_blocks = evaluate(streamed, policies, overlap=True, **options)
    in_memory = evaluate(whole, policies, overlap=True, **options)
    assert by_blocks.summary == in_memory.summary
    assert repr(by_blocks.overlaps) == repr(in_memory.overlaps)


@pytest.mark.parametrize("interval", ["bootstrap", "asymptotic", "bernstein", "sequence"])
def test_target_probabilities_of_the_log(path: Path, interval: str) -> None:
    names = ["ips", "snips", "clipped-ips"]
    assert_same(path, {"new": "column:target"}, estimators=names, interval=interval, samples=200)


def test_policies_by_all_estimators(path: Path) -> None:
    policy = find_class("linucb")(spec_of(read_log(path)), np.random.default_rng(0))
    policy.fit(read_log(path).rows(np.arange(500)))
    names = ["dm", "ips", "clipped-ips", "snips", "dr", "sndr", "switch-dr", "shrunk-dr"]
    policies = {"learned": policy, "even": np.full(PRODUCTS, 1.0 / PRODUCTS)}
    assert_same(path, policies, estimators=names, samples=200)


@pytest.mark.parametrize("group", [100, 10_000])
def test_row_groups_and_words_for_users_change_nothing(path: Path, group: int) -> None:
    before = evaluate(stream_log(path, columns=["target"]), {"new": "column:target"}, samples=200)
    frame().write_parquet(path, row_group_size=group)
    assert evaluate(stream_log(path, columns=["target"]), {"new": "column:target"}, samples=200) == before
    frame().with_columns(user_id=pl.format("u{}", "user_id")).write_parquet(path, row_group_size=group)
    assert_same(path, {"new": "column:target"}, samples=200)


def test_a_saved_policy_by_the_public_call(path: Path, tmp_path: Path) -> None:
    policy = find_class("linucb")(spec_of(read_log(path)), np.random.default_rng(0))
    policy.fit(read_log(path).rows(np.arange(500)))
    save_policy(policy, tmp_path / "learned.npz")
    lines: list[str] = []
    options: dict[str, Any] = {"estimators": ["ips", "dr"], "samples": 200}
    streamed = zoosim.evaluate(path, [tmp_path / "learned.npz"], stream=True, progress=lines.append, **options)
    assert streamed.summary == zoosim.evaluate(path, [tmp_path / "learned.npz"], progress=None, **options).summary
    assert "checked 3,000 of 3,000 rows" in lines
    assert any(line.startswith("learned: judged 3,000 of 3,000 rows") for line in lines)


@pytest.mark.parametrize("most", [stream_sets.MOST_IN_MEMORY, 0])
def test_candidates_of_a_large_catalogue(path: Path, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """Nearly as many different lists as rows, which stay in a file where there are many of them."""
    monkeypatch.setattr(stream_sets, "MOST_IN_MEMORY", most)
    rng = np.random.default_rng(3)
    listed = [rng.choice(9_000, 5, replace=False).tolist() if row % 50 else [1, 4, 7] for row in range(N)]
    actions = [int(row[rng.integers(len(row))]) for row in listed]
    propensities = [1.0 / len(row) for row in listed]
    columns: dict[str, Any] = {"candidates": listed, "action": actions, "propensity": propensities}
    frame().drop("unavailable").with_columns(
        **{name: pl.Series(values) for name, values in columns.items()}
    ).write_parquet(path)
    policy = find_class("popularity")(spec_of(read_log(path)), np.random.default_rng(0))
    policy.fit(read_log(path).rows(np.arange(300)))
    assert_same(path, {"learned": policy, "column": "column:target"}, estimators=["ips", "dr"], samples=200)


def test_large_files_are_read_in_blocks_by_themselves(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    monkeypatch.setattr(stream, "available_memory", lambda: 1e5)
    zoosim.evaluate(path, ["column:target"], progress=lines.append, samples=200)
    assert "checked 3,000 of 3,000 rows" in lines
    lines.clear()
    monkeypatch.setattr(stream, "available_memory", lambda: 1e9)
    zoosim.evaluate(path, ["column:target"], progress=lines.append, samples=200)
    assert not any(line.startswith("checked") for line in lines)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rankings": True}, "stream: rankings goes with a log in memory alone"),
        ({"propensity_model": "multinomial"}, "stream: propensity_model goes with a log in memory alone"),
    ],
)
def test_what_needs_memory_is_refused_by_name(path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        zoosim.evaluate(path, ["column:target"], stream=True, **options)


def test_distributions_of_the_log_are_refused_by_name(path: Path) -> None:
    with pytest.raises(ConfigError, match="stream: column:candidate_propensities goes with a log in memory alone"):
        zoosim.evaluate(path, ["column:candidate_propensities"], stream=True)


def test_functions_tables_and_data_frames_are_refused(path: Path) -> None:
    for given in (lambda log, start, stop: np.full((stop - start, PRODUCTS), 1.0 / PRODUCTS), np.ones((N, PRODUCTS))):
        with pytest.raises(ConfigError, match="which goes with a log in memory alone; name a column or a saved model"):
            zoosim.evaluate(path, {"new": given}, stream=True)
    with pytest.raises(ConfigError, match=r"stream: got .*, expected a Parquet file of Records"):
        zoosim.evaluate(frame(), ["column:target"], stream=True)


def test_sequences_need_rows_in_order_of_time(path: Path) -> None:
    frame().reverse().write_parquet(path)
    with pytest.raises(DataError, match="its rows are not in order of time, as sequence needs"):
        zoosim.evaluate(path, ["column:target"], stream=True, interval="sequence")


@pytest.mark.parametrize("change", ["rows", "order", "nothing"])
def test_a_file_that_changes_while_it_is_read_is_refused(path: Path, change: str) -> None:
    """Also where the new one could be read as well, and rows of both would be taken together."""
    log = stream_log(path, columns=["target"])
    if change == "nothing":
        path.unlink()
    else:
        other = frame().head(600) if change == "rows" else frame().reverse()
        other.write_parquet(path, row_group_size=700)
    with pytest.raises(DataError, match="was changed while it was read; repeat this when nobody writes to it"):
        evaluate(log, {"new": "column:target"}, estimators=["ips"], samples=200)
