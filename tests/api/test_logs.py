"""Judging policies by a log, from Python and from the command line."""

import html
import json
import re
import shlex
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import zoosim
from tests.commands import ROOT, Started, run_zoosim
from tests.waiting import eventually
from zoosim.core.errors import ConfigError, DataError, PolicyError
from zoosim.core.status_line import StatusLine
from zoosim.core.types import FloatArray
from zoosim.terminal.evaluation import print_evaluation
from zoosim.terminal.fitted_world import print_world

OWN = ROOT / "tests" / "logs" / "open_bandit"
N = 2_000


def frame() -> pl.DataFrame:
    """A uniform log of 4 actions, in which action 2 earns .6 and others .2, and a target that favours it."""
    rng = np.random.default_rng(0)
    actions = rng.integers(4, size=N)
    rewards = (rng.random(N) < np.where(actions == 2, 0.6, 0.2)).astype(float)
    favours = np.where(actions == 2, 0.7, 0.1)
    columns = {"action": actions, "propensity": np.full(N, 0.25), "reward": rewards, "p_new": favours}
    return pl.DataFrame({**columns, "decision_id": [f"d{i}" for i in range(N)], "user": np.ones((N, 1))})


class Favours(zoosim.Policy):
    """The same target as a policy."""

    learns = False

    def select_action(self, context: zoosim.Context) -> int:
        return int(self.rng.choice(4, p=[0.1, 0.1, 0.7, 0.1]))

    def update(
        self, context: zoosim.Context, action: int, reward: float, feedback: Any = None, next_context: Any = None
    ) -> None:
        raise AssertionError("learns nothing while it is judged")

    def propensities(self, context: zoosim.Context) -> FloatArray:
        return np.array([0.1, 0.1, 0.7, 0.1])


def log_frame() -> pl.DataFrame:
    return frame().with_columns(pl.col("user").cast(pl.List(pl.Float64)))


def test_frames_files_names_classes_and_columns_are_taken(tmp_path: Path) -> None:
    log_frame().write_parquet(tmp_path / "log.parquet")
    truth = 0.7 * 0.6 + 0.3 * 0.2
    for log in (log_frame(), tmp_path / "log.parquet", str(tmp_path / "log.parquet")):
        found = zoosim.evaluate(log, [Favours, "random", "column:p_new"])
        values = {(row.policy, row.estimator): row for row in found.results}
        assert set(values) == {
            *((name, estimator) for name in ("favours", "random") for estimator in ("ips", "snips", "dr", "dm")),
            *(("p_new", estimator) for estimator in ("ips", "snips")),
        }
        best = values["favours", "snips"]
        assert best.low is not None
        assert best.high is not None
        assert best.low < truth < best.high
        assert best.verdict == "trust"
        assert values["random", "ips"].value == pytest.approx(found.logged.mean, abs=1e-12)
        ahead = next(d for d in found.differences if (d.policy, d.other, d.estimator) == ("favours", "logged", "snips"))
        assert ahead.p < 0.01
        assert ahead.verdict == "trust"
    mapped = zoosim.evaluate(log_frame(), {"new": np.array([0.1, 0.1, 0.7, 0.1])})
    assert mapped.results[0].value == pytest.approx(values["favours", "ips"].value, rel=1e-12)


def test_what_cannot_be_judged_is_refused(tmp_path: Path) -> None:
    log_frame().write_parquet(tmp_path / "log.parquet")
    cases: list[tuple[Any, Any, type[Exception], str]] = [
        (log_frame(), ["linucb"], PolicyError, "policy linucb: has learned nothing yet, .*; add --train"),
        (log_frame(), ["learned:mlp"], ConfigError, "learned:mlp: is now the policy mlp; write --policy mlp --train"),
        (log_frame(), ["random", "random"], ConfigError, "got random twice"),
        (log_frame(), ["randm"], ConfigError, "unknown policy 'randm' .did you mean random"),
        (tmp_path / "log.parquet", ["column:p_nw"], DataError, "no column 'p_nw' .did you mean p_new"),
        (3, ["random"], DataError, "got a int, expected a CSV or Parquet file or a data frame"),
        (tmp_path / "none.parquet", ["random"], DataError, "no such file"),
        ("open-bandit:bts/kids", ["random"], ConfigError, "got policy 'bts' and campaign 'kids'"),
    ]
    for log, policies, kind, words in cases:
        with pytest.raises(kind, match=words):
            zoosim.evaluate(log, policies)
    wrong: list[Any] = [None, 3, {3: "random"}, {"": "random"}]
    for policies in wrong:
        with pytest.raises(ConfigError, match="policies: got"):
            zoosim.evaluate(log_frame(), policies)
    with pytest.raises(ConfigError, match="data: goes with a log open-bandit"):
        zoosim.evaluate(tmp_path / "log.parquet", ["random"], data=tmp_path)


def test_a_table_is_imported_and_judged_on_the_command_line(tmp_path: Path) -> None:
    table = frame().drop("user").rename({"action": "item", "propensity": "p", "reward": "click"})
    table.write_csv(tmp_path / "shop.csv")
    mapping = "columns: {decision_id: decision_id, action: item, propensity: p, reward: click}\nkeep: [p_new]\n"
    (tmp_path / "map.yaml").write_text(mapping, encoding="utf-8")
    done = run_zoosim("import", "shop.csv", "map.yaml", "log.parquet", cwd=tmp_path)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("rows")
    done = run_zoosim("evaluate", "log.parquet", "--policy", "column:p_new", "--json", cwd=tmp_path)
    assert (done.code, done.errors) == (0, [])
    options = ("--interval", "bernstein", "--reward-range", "0:9", "--level", ".999", "--samples", "2000")
    wide = run_zoosim("evaluate", "log.parquet", "--policy", "column:p_new", "--json", *options, cwd=tmp_path)
    assert json.loads(wide.out)["results"][0]["high"] > 1.0
    narrow = run_zoosim("evaluate", "log.parquet", "--policy", "column:p_new", "--reward-range", "0:.5", cwd=tmp_path)
    assert (narrow.code, len(narrow.errors)) == (2, 1)
    assert "expected 0 to 0.5 (reward_range)" in narrow.err
    row = json.loads(done.out)["results"][0]
    assert (row["policy"], row["estimator"], row["verdict"], row["reasons"]) == ("p_new", "ips", "trust", [])
    done = run_zoosim("evaluate", "log.parquet", "--policy", "column:p_new", cwd=tmp_path)
    assert "Differences by snips, on the same rows" in done.out
    assert ["p_new", "logged"] in [line.replace("│", " ").split()[:2] for line in done.out.splitlines()]
    table.with_row_index().with_columns(p=pl.when(pl.col("index") == 5).then(0.0).otherwise(pl.col("p"))).drop(
        "index"
    ).write_csv(tmp_path / "bad.csv")
    done = run_zoosim("import", "bad.csv", "map.yaml", "bad.parquet", cwd=tmp_path)
    assert done.code == 2
    assert done.err.startswith("zoosim: bad.csv: row 5, column p: got '0.0', expected above 0 and at most 1;")
    done = run_zoosim("import", "bad.csv", "map.yaml", "bad.parquet", "--skip-bad", cwd=tmp_path)
    assert (done.code, done.err.startswith("note: skipped 1 row: p: expected above 0")) == (0, True)


def test_policies_are_trained_and_judged_on_the_command_line(tmp_path: Path) -> None:
    clicks = log_frame().with_columns(user=pl.Series(np.random.default_rng(1).normal(size=(N, 2))).arr.to_list())
    clicks.write_parquet(tmp_path / "log.parquet")
    refused = run_zoosim("evaluate", "log.parquet", "--policy", "linear", cwd=tmp_path)
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "policy linear: has learned nothing yet" in refused.err
    line = ("evaluate", "log.parquet", "--train", "--policy", "linear", "--policy", "column:p_new", "--json")
    done = run_zoosim(*line, "--out", "page", cwd=tmp_path)
    assert (done.code, done.errors) == (0, [])
    summary = json.loads(done.out)
    assert summary["rows"] == 0.4 * N
    values = {(row["policy"], row["estimator"]): row["value"] for row in summary["results"]}
    assert values["linear", "snips"] > 0.5  # shows action 2 in 92.5% of the visits: .57
    page = (tmp_path / "page" / "report.html").read_text(encoding="utf-8")
    assert "zoosim evaluate log.parquet --policy linear --policy column:p_new --train --out page" in page


SLOW = """
import time
import numpy as np
from zoosim import Policy

class Slow(Policy):
    learns = False

    def select_action(self, context):
        return 2

    def update(self, context, action, reward, feedback=None, next_context=None):
        pass

    def propensities(self, context):
        open("asked", "w").close()
        time.sleep(0.05)
        return np.eye(4)[2]
"""


@pytest.mark.parametrize("first", ["random", None])
def test_an_interrupted_evaluation_keeps_what_is_finished(first: str | None, tmp_path: Path) -> None:
    """Ctrl-C while a policy is asked that takes 100 s: it ends soon, and the policy before it is there.

    That takes .5 s of processor time, most of it to draw the page; 10 s leave room for tests that share the cores.
    """
    clicks = log_frame().with_columns(user=pl.Series(np.arange(float(N)).reshape(-1, 1)).arr.to_list())
    clicks.write_parquet(tmp_path / "log.parquet")
    (tmp_path / "slow.py").write_text(SLOW, encoding="utf-8")
    policies = [*(["--policy", first] if first else []), "--policy", "slow.py:Slow", "--policy", "column:p_new"]
    line = ["evaluate", "log.parquet", *policies, "--json", "--out", "page"]
    with Started(*line, cwd=tmp_path) as run:
        eventually((tmp_path / "asked").exists)
        run.send_signal(signal.SIGINT)
        began = time.monotonic()
        ended = run.end()
    assert time.monotonic() - began < 10.0
    assert ended.code == 130
    summary_file = tmp_path / "page" / "summary.json"
    if first is None:
        assert ended.err.endswith("zoosim: interrupted; not evaluated: Slow, p_new; nothing was saved\n")
        assert not summary_file.exists()
        return
    assert ended.err.endswith("zoosim: interrupted; not evaluated: Slow, p_new; the others are in page\n")
    for text in (ended.out, summary_file.read_text(encoding="utf-8")):
        assert {row["policy"] for row in json.loads(text)["results"]} == {"random"}
    assert "--policy random --out page" in (tmp_path / "page" / "report.html").read_text(encoding="utf-8")


def test_progress_is_shown_now_and_then(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    seconds = iter([0.0, 3.0, 11.0, 11.0, 12.0])
    monkeypatch.setattr("zoosim.progress.time.monotonic", lambda: next(seconds))
    with StatusLine() as status:
        for line in ("random: judged 1 of 3 rows", "[2 of 3]", "random: judged 3 of 3 rows"):
            status.show(line)
    assert capsys.readouterr().err == "[2 of 3]\n"


def test_the_command_on_a_page_is_quoted_for_a_shell(tmp_path: Path) -> None:
    out = tmp_path / "a b'c$(touch x)`touch y`\"z;&"
    frame().write_parquet(tmp_path / "log.parquet")
    zoosim.evaluate(tmp_path / "log.parquet", ["random"], out=out)
    [line] = re.findall('<code class="command">(.*?)</code>', (out / "report.html").read_text())
    words = shlex.split(html.unescape(line))
    assert words == ["zoosim", "evaluate", str(tmp_path / "log.parquet"), "--policy", "random", "--out", str(out)]


def test_the_open_bandit_dataset_is_judged_on_the_command_line(tmp_path: Path) -> None:
    line = ("evaluate", "open-bandit:random/all", "--data", str(OWN.parent), "--policy", "random")
    done = run_zoosim(*line, cwd=tmp_path)
    assert done.code == 0
    assert "12 rows" in done.out
    assert re.search(r"random \(dr\): do not use:", done.out)
    assert "Differences" not in done.out  # what is not to be used is not compared


def test_results_of_another_kind_are_never_written_over(tmp_path: Path) -> None:
    clicks = log_frame()
    zoosim.evaluate(clicks, ["random"], out=tmp_path / "judged")
    zoosim.fit_world(clicks, tmp_path / "world")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.*")}
    with pytest.raises(ConfigError, match="judged holds results of another kind, which are kept"):
        zoosim.fit_world(clicks, tmp_path / "judged")
    with pytest.raises(ConfigError, match="world holds results of another kind, which are kept"):
        zoosim.evaluate(clicks, ["random"], out=tmp_path / "world")
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.*")} == before
    zoosim.evaluate(clicks, [Favours], out=tmp_path / "judged")
    zoosim.fit_world(clicks, tmp_path / "world")


def test_what_is_skipped_is_counted_wherever_results_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = log_frame().with_columns(propensity=pl.when(pl.int_range(N) == 7).then(0.0).otherwise(0.25))
    with pytest.raises(DataError, match="row 7, column propensity"):
        zoosim.fit_world(bad, tmp_path / "world")
    fitted = zoosim.fit_world(bad, tmp_path / "world", skip_bad=True)
    print_world(fitted, tmp_path / "world")
    print_evaluation(zoosim.evaluate(bad, ["random"], out=tmp_path / "judged", skip_bad=True))
    assert capsys.readouterr().out.count("note: skipped 1 row: propensity: expected above 0 and at most 1") == 2
    for name in ("world", "judged"):
        page = (tmp_path / name / "report.html").read_text(encoding="utf-8")
        assert "1 bad row: propensity: expected above 0" in page
        summary = json.loads((tmp_path / name / "summary.json").read_text(encoding="utf-8"))
        assert sum(summary["skipped"].values()) == 1


def test_brackets_in_names_are_printed_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    found = zoosim.evaluate(log_frame(), {"a[/b]": np.full(4, 0.25), "[red]c": np.full(4, 0.25)})
    print_evaluation(found)
    printed = capsys.readouterr().out
    assert "a[/b]" in printed
    assert "[red]c" in printed


def test_a_policy_without_a_logged_choice_does_not_stop_the_others(tmp_path: Path) -> None:
    never = log_frame().with_columns(none=pl.lit(0.0))
    found = zoosim.evaluate(never, ["column:none", Favours], estimators=["ips", "snips", "dr"], out=tmp_path)
    told = {row[:2]: row for row in found.results}
    assert list(told) == [("none", "ips"), ("none", "snips"), *(("favours", name) for name in ("ips", "snips", "dr"))]
    assert {told["none", name].verdict for name in ("ips", "snips")} == {"do not use"}
    assert told["none", "snips"].reasons == ("no overlap: the policy never chooses a logged action",)
    assert told["favours", "snips"].verdict == "trust"
    assert not any("none" in pair[:2] for pair in found.differences if pair.estimator == "snips")
    print_evaluation(found)
    with pytest.raises(DataError, match=r"no overlap: none of the policies \(none\) ever chooses a logged action"):
        zoosim.evaluate(never, ["column:none"])
    summary = json.loads((tmp_path / "summary.json").read_text(encoding="utf-8"))
    assert summary["results"][1]["value"] is None
    assert "never chooses a logged action" in (tmp_path / "report.html").read_text(encoding="utf-8")
