"""Training by a log whose rows are read in blocks makes the model of the same log in memory, to the bit."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import zoosim
from tests.api.test_models import imported
from tests.off_policy.test_streamed import _small_blocks  # noqa: F401  (a fixture)
from zoosim.api import streaming
from zoosim.core.errors import ConfigError, DataError
from zoosim.core.parquet import read_meta, write_parquet
from zoosim.core.types import PastLog, Progress
from zoosim.logs import stream
from zoosim.off_policy.training import Training
from zoosim.policies.from_log.linear import Linear
from zoosim.policies.model import model_digest

POLICIES = ["linear", "linucb", "popularity"]


def trained(log: Path, out: Path, policies: list[str], **options: Any) -> Training:
    return zoosim.train(log, policies, out, progress=None, **options)


def test_a_model_is_the_same(tmp_path: Path) -> None:
    """And so is what later rows say of it, on workers, too."""
    log = imported(tmp_path)
    blocks = trained(log, tmp_path / "blocks.zoosim", POLICIES, stream=True, report=tmp_path / "page.html")
    whole = trained(log, tmp_path / "whole.zoosim", POLICIES, stream=False)
    assert "--stream" in (tmp_path / "page.html").read_text()
    assert blocks.evaluation is not None
    assert whole.evaluation is not None
    assert blocks.evaluation.summary == whole.evaluation.summary
    assert model_digest(tmp_path / "blocks.zoosim") == model_digest(tmp_path / "whole.zoosim")

    judged = [tmp_path / "whole.zoosim"]
    with ThreadPoolExecutor(1) as executor:
        by_blocks = zoosim.evaluate(log, judged, stream=True, executor=executor, progress=None)
    assert by_blocks.notes["whole"][0].startswith("2,400 of 3,000 rows were set aside, as it was trained on them")
    assert by_blocks.summary == zoosim.evaluate(log, judged, stream=False, progress=None).summary


def test_a_model_without_times_knows_its_rows_again(tmp_path: Path) -> None:
    """Of equal rows as many as it was trained on, wherever a block ends."""
    log = imported(tmp_path, n=1_000, drop="at")
    trained(log, tmp_path / "m.zoosim", ["linear"])
    options: dict[str, Any] = {"progress": None, "estimators": ["ips"], "samples": 200}
    by_blocks = zoosim.evaluate(log, [tmp_path / "m.zoosim"], stream=True, **options)
    assert by_blocks.notes["m"][0].startswith("800 of 1,000 rows were set aside")
    assert by_blocks.summary == zoosim.evaluate(log, [tmp_path / "m.zoosim"], stream=False, **options).summary


def test_bad_rows_are_left_out(tmp_path: Path) -> None:
    log = imported(tmp_path)
    rows = pl.read_parquet(log)
    bad = rows.with_columns(reward=pl.when(pl.int_range(pl.len()) % 7 == 0).then(None).otherwise("reward"))
    write_parquet(bad, log, read_meta(log))
    models = [tmp_path / "blocks.zoosim", tmp_path / "whole.zoosim"]
    for path, by_blocks in zip(models, (True, False), strict=True):
        trained(log, path, ["popularity"], stream=by_blocks, skip_bad=True)
    assert model_digest(models[0]) == model_digest(models[1])


def test_evaluate_trains_on_the_earlier_rows(tmp_path: Path) -> None:
    log = imported(tmp_path)
    options: dict[str, Any] = {"train": True, "progress": None, "estimators": ["ips", "dr"], "samples": 200}
    by_blocks = zoosim.evaluate(log, ["linucb", "linear"], stream=True, **options)
    assert by_blocks.summary == zoosim.evaluate(log, ["linucb", "linear"], stream=False, **options).summary


def test_what_learns_from_all_rows_at_once_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And where nobody asked for blocks, it takes the log in memory."""
    log = imported(tmp_path, n=300)
    with pytest.raises(ConfigError, match="stream: what policy mlp learns by goes with a log in memory alone"):
        trained(log, tmp_path / "m.zoosim", ["linucb", "mlp"], stream=True)
    with pytest.raises(ConfigError, match="stream: propensity_model goes with a log in memory alone"):
        trained(log, tmp_path / "m.zoosim", ["linucb"], stream=True, propensity_model="multinomial")
    monkeypatch.setattr(stream, "available_memory", lambda: 1e3)
    assert streaming.is_streamed(log, None, {}, {}, {"linucb": "linucb"})
    assert not streaming.is_streamed(log, None, {}, {}, {"linucb": "linucb", "mlp": "mlp"})


def test_what_learns_from_all_rows_at_once_is_no_less_refused_where_its_parent_reads_blocks(tmp_path: Path) -> None:
    log = imported(tmp_path, n=300)

    class Own(Linear):
        """Fits its model in a way of its own."""

        def _fit_model(self, log: PastLog, progress: Progress) -> Any:
            return super()._fit_model(log, progress)

    assert streaming.is_streamed(log, True, {}, {}, {"linear": Linear})
    with pytest.raises(ConfigError, match="stream: what policy own learns by goes with a log in memory alone"):
        streaming.is_streamed(log, True, {}, {}, {"own": Own})


def test_rows_have_to_be_in_order_of_time(tmp_path: Path) -> None:
    log = imported(tmp_path, n=300)
    write_parquet(pl.read_parquet(log).reverse(), log, read_meta(log))
    with pytest.raises(DataError, match="its rows are not in order of time, as training needs where rows are read in"):
        trained(log, tmp_path / "m.zoosim", ["linucb"], stream=True)


def with_action_space(log: Path, action_space: str) -> Path:
    """Name the action space in the file of a log; return that."""
    write_parquet(pl.read_parquet(log), log, {**read_meta(log), "action_space": action_space})
    return log


@pytest.mark.parametrize("action_space", ["rankings", "boosts"])
def test_logs_of_other_actions_are_refused_by_name(tmp_path: Path, action_space: str) -> None:
    log = with_action_space(imported(tmp_path, n=300), action_space)
    refused = rf"log\.parquet: is a log of {action_space}, and in blocks logs of products alone are read; leave out"
    with pytest.raises(DataError, match=refused):
        zoosim.evaluate(log, ["linucb"], train=True, stream=True, progress=None)
    with pytest.raises(DataError, match=refused):
        trained(log, tmp_path / "m.zoosim", ["linucb"], stream=True)


def test_a_world_is_fitted_in_memory_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = imported(tmp_path, n=300)
    monkeypatch.setattr("zoosim.core.memory.available_memory", lambda: 2e5)
    with pytest.raises(ConfigError, match=r"a fit to 300 rows: needs 0\.0 GB of memory, 0\.0 GB are left; fit it"):
        zoosim.fit_world(log, progress=None)
    monkeypatch.setattr(stream, "available_memory", lambda: 1e3)
    with pytest.raises(DataError, match=r"log\.parquet: takes more memory than is left, and fit-world goes over all"):
        zoosim.fit_world(log, progress=None)
