"""The leaderboard: result files, good and bad, interquartile means by hand, and a learner who enters."""

import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from studies import __main__ as command
from studies.axes import build_page as build_axes
from studies.axes import measure as measure_axes
from studies.interquartile import interquartile_interval, interquartile_mean
from studies.leaderboard import build_page, measure
from studies.result_files import read_results
from studies.run import run_study
from studies.session_axes import SHOCK_VISITOR, WORLDS, AxisWorld, Choose, enter
from tests.caches import use_cache
from zoosim.core.errors import ConfigError, DataError
from zoosim.core.types import FloatArray


def result(learner: str, percent: float, worlds: list[str] | None = None) -> dict[str, Any]:
    """Return a made-up result of two seeds, one point apart."""
    of_world = {"percent": [percent, percent + 1.0], "seconds": [1.0, 3.0]}
    return {
        "format": 1,
        "learner": learner,
        "library": "a library",
        "version": "1.0",
        "budget": "10,000 visits",
        "seeds": [1000, 1001],
        "worlds": dict.fromkeys(worlds or list(WORLDS), of_world),
    }


def write(folder: Path, name: str, values: Any) -> None:
    (folder / name).write_text(values if isinstance(values, str) else json.dumps(values), encoding="utf-8")


def test_the_middle_half_counts() -> None:
    """Of 8 scores 2 at each end are left out; of 5, 1; of 3, none."""
    assert interquartile_mean(np.array([0.0, 0.0, 1.0, 2.0, 3.0, 4.0, 90.0, 90.0])) == pytest.approx(2.5)
    assert interquartile_mean(np.array([5.0, 100.0, 1.0, 3.0, 4.0])) == pytest.approx(4.0)
    assert interquartile_mean(np.array([1.0, 3.0, 8.0])) == pytest.approx(4.0)


def test_the_bootstrap_draws_seeds_in_each_world_apart() -> None:
    """Worlds that differ by much do not widen the interval; seeds do, by sqrt(1 / n) of their spread."""
    rng = np.random.default_rng(0)
    steady = interquartile_interval(np.array([[10.0] * 8, [50.0] * 8, [90.0] * 8, [90.0] * 8]), rng=rng)
    assert (steady.low, steady.high) == (steady.mean, steady.mean)
    normal = rng.normal(50.0, 2.0, (20, 20))
    mean, low, high = interquartile_interval(normal, rng=rng)
    assert low is not None
    assert high is not None
    # The middle half of normal numbers has a mean whose variance is some 1.2 times that of the mean of all.
    assert 2 * 1.96 * 2.0 / 20 * 0.8 < high - low < 2 * 1.96 * 2.0 / 20 * 1.5
    assert low < mean < high
    assert interquartile_interval(normal[:, :1], rng=rng).low is None


def test_learners_are_ranked_and_those_without_all_worlds_come_last(tmp_path: Path) -> None:
    write(tmp_path, "a.json", result("good", 90.0))
    write(tmp_path, "b.json", result("better", 95.0))
    write(tmp_path, "c.json", result("one world", 99.0, ["base"]))
    rows = measure(data=tmp_path)
    assert [row.learner for row in rows] == ["better", "good", "one world"]
    assert rows[0].interquartile is not None
    assert rows[0].interquartile.mean == pytest.approx(95.5)
    assert rows[2].interquartile is None
    page = build_page(rows)
    assert page.answer.startswith("better is ahead: 95.5% (95.")
    assert page.tables[0].rows[2][:3] == ("one world", "", "")
    run_study("leaderboard", tmp_path / "out", data=tmp_path)
    assert "one world" in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert build_page(rows[2:]).answer.startswith("Nobody has learned all")


def changed(**fields: Any) -> dict[str, Any]:
    return result("bad", 50.0) | fields


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ("{", "bad.json: is no JSON"),
        ("[" * 100_000, "bad.json: is no JSON"),
        ("[1]", "bad.json: expected an object"),
        (json.dumps(changed()).replace("50.0", "NaN", 1), "bad.json: is no JSON: got NaN, expected a number"),
        (" " * 1_100_000, "bad.json: cannot be read"),
        (changed(learner="<b onclick=evil()>"), "bad.json.learner: got '<b onclick=evil"),
        (changed(learner="x" * 41), "bad.json.learner"),
        (changed(seeds=[1, 1]), "seed is there twice"),
        (changed(seeds=[1, 2, 3]), "got 2 values for 3 seeds"),
        (changed(format=2), "bad.json.format"),
        (changed(surprise=1), "surprise"),
        (changed(worlds={}), "bad.json.worlds"),
        (changed(worlds={"base": {"percent": [101.0, 99.0], "seconds": [1, 1]}}), "less than or equal to 100.01"),
        (changed(worlds={"moon": {"percent": [1.0, 9.0], "seconds": [1, 1]}}), "unknown world 'moon'"),
        (changed(learner="good"), "'good' is in another file, too"),
    ],
)
def test_a_bad_file_is_refused_in_one_line_that_names_it(tmp_path: Path, values: Any, message: str) -> None:
    write(tmp_path, "good.json", result("good", 90.0))
    write(tmp_path, "bad.json", values)
    with pytest.raises(DataError) as error:
        measure(data=tmp_path)
    line = str(error.value)
    assert message in line
    assert "bad" in line or "good.json" in line
    assert "\n" not in line
    assert len(line) < 500


def test_a_name_of_a_file_that_a_terminal_would_obey_is_written_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, "\x1b[31mred.json", "{")
    monkeypatch.setattr(sys, "argv", ["studies", "leaderboard", str(tmp_path)])
    with pytest.raises(SystemExit, match="2"):
        command.main()
    said = capsys.readouterr().err
    assert "\\x1b[31mred.json: is no JSON" in said
    assert said.count("\n") == 1


def test_a_folder_without_results_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="has 0 files"):
        read_results(tmp_path)
    with pytest.raises(DataError, match="has 0 files"):
        read_results(tmp_path / "nowhere")


def test_two_learners_of_this_library_enter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_cache(monkeypatch, tmp_path / "cache")
    enter_own = partial(measure_axes, seeds="3:5", jobs=1, visits=2_500, results=str(tmp_path))
    scores = enter_own(learners=["random", "linucb"], worlds=["base", "shock"])
    assert len(scores) == 8
    page = build_axes(scores)
    assert page.answer.startswith("Best is linucb: ")
    assert [row[0] for row in page.tables[0].rows] == ["random", "linucb"]
    enter_own(learners=["random"], worlds=["control"])
    results = {found.learner: found for found in read_results(tmp_path)}
    assert list(results["random"].worlds) == ["base", "shock", "control"], "worlds that were there stay"
    assert results["random"].worlds["base"].percent == pytest.approx([26.17, 26.17], abs=0.01)
    assert 60.0 < np.mean(results["linucb"].worlds["base"].percent) < 66.7
    assert results["linucb"].budget == "2,500 visits"
    with pytest.raises(ConfigError, match=r"axes: unknown learner 'linucbb' \(did you mean linucb"):
        enter_own(learners=["linucbb"])
    with pytest.raises(ConfigError, match="axes: worlds: got 'base', expected a list"):
        enter_own(worlds="base")
    with pytest.raises(ConfigError, match="axes: got the world 'base' twice"):
        enter_own(worlds=["base", "base"])
    with pytest.raises(ConfigError, match="axes: results: got 5, expected the name of a folder"):
        measure_axes(results=5)  # type: ignore[arg-type]


def always_sound(world: AxisWorld, seed: int) -> Choose:
    """Return what shows the sound product of the persona's number."""
    env = world.make()
    observation, _ = env.reset(seed=seed)
    for _ in range(3):
        observation, *_ = env.step(0)
        assert env.observation_space.contains(observation)
        env.reset()

    def choose(observations: FloatArray) -> Any:
        return 2 * observations[:, :4].argmax(axis=1)

    return choose


def test_a_learner_of_another_library_enters(tmp_path: Path) -> None:
    enter("always sound", "mine", "0.1", always_sound, tmp_path, seeds=[1, 2], progress=lambda line: None)
    rows = measure(data=tmp_path)
    assert [row.learner for row in rows] == ["always sound"]
    assert list(rows[0].percent) == list(WORLDS)
    assert all(1.0 < values[0] == values[1] < 90.0 for values in rows[0].percent.values())


def test_what_no_result_file_may_hold_is_refused_before_anything_is_learned(tmp_path: Path) -> None:
    def never(world: AxisWorld, seed: int) -> Choose:
        raise AssertionError("learned")

    write(tmp_path, "dqn.json", result("DQN", 50.0))
    for names, options, message in (
        (("a <b>", "mine", "1"), {}, "result.learner: got 'a <b>'"),
        (("a", "mine", ""), {}, "result.version"),
        (("a", "mine", "1"), {"seeds": [1, 1]}, "seed is there twice"),
        (("a", "mine", "1"), {"seeds": []}, "result"),
        (("a", "mine", "1"), {"worlds": ["moon"]}, "leaderboard: unknown world 'moon'"),
        (("a", "mine", "1"), {"worlds": ["base", "base"]}, "leaderboard: got the world 'base' twice"),
        (("dqn", "mine", "1"), {}, "dqn.json: is the file of 'DQN', got 'dqn'"),
    ):
        with pytest.raises((ConfigError, DataError), match=message):
            enter(*names, never, tmp_path, **options)
    assert read_results(tmp_path)[0].learner == "DQN"


def test_worlds_that_were_learned_stay_where_a_run_stops(tmp_path: Path) -> None:
    def stops(world: AxisWorld, seed: int) -> Choose:
        if world.name == "control":
            raise KeyboardInterrupt
        return always_sound(world, seed)

    with pytest.raises(KeyboardInterrupt):
        enter("stops", "mine", "0.1", stops, tmp_path, seeds=[1], progress=lambda line: None)
    assert list(read_results(tmp_path)[0].worlds) == ["base"]


def test_worlds_are_what_they_say() -> None:
    assert WORLDS["base"].optimum == pytest.approx(12.19, abs=0.01)
    assert WORLDS["sparse"].optimum == WORLDS["censoring"].optimum == WORLDS["base"].optimum
    assert WORLDS["shock"].optimum == pytest.approx(13.60, abs=0.01), "after both shocks"
    shocks = WORLDS["shock"].environment(shops=10)["config"]["shocks"]
    assert {shock["step"] for shock in shocks} == {SHOCK_VISITOR // 10}
    env = gymnasium.make("zoosim/Sessions-v0", **WORLDS["censoring"].environment())
    steps = []
    for seed in range(40):
        env.reset(seed=seed)
        truncated = terminated = False
        while not (truncated or terminated):
            _, _, terminated, truncated, info = env.step(0)
        steps += [info["step"]] * truncated
    assert set(steps) == {10}
