"""Visitors who come back: what policies hear, what rows and logs say, and what is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import zoosim
from zoosim.api.runs import write_log
from zoosim.arena import loop
from zoosim.arena.loop import play
from zoosim.core.errors import ConfigError, WorldError
from zoosim.core.feedback import AT_ONCE, FeedbackTiming
from zoosim.logs.parse import read_log, to_log
from zoosim.logs.schema import LIFE
from zoosim.worlds import check as check_module
from zoosim.worlds.base import World
from zoosim.worlds.check import check_world, check_worlds_of
from zoosim.worlds.registry import find_world

ROOT = Path(__file__).parents[2]
NEWSSTAND = f"{ROOT / 'examples' / 'returning_visitors.py'}:Newsstand"
Newsstand: Any = find_world(NEWSSTAND)


class Listener(zoosim.Policy):
    """Shows the teaser and then the report, and keeps what it is taught."""

    def __init__(self, spec: zoosim.PolicySpec, rng: np.random.Generator, **params: Any) -> None:
        super().__init__(spec, rng, **params)
        self.heard: list[tuple[Any, ...]] = []

    def select_action(self, context: zoosim.Context) -> int:
        self.heard.append(("asked", context.user_id))
        return int(context.user[1] == 0.0)

    def update(
        self, context: zoosim.Context, action: int, reward: float, feedback: Any = None, next_context: Any = None
    ) -> None:
        self.heard.append(("taught", context.user_id, action, feedback, next_context))


def listener(world: World, steps: int, feedback: FeedbackTiming = AT_ONCE) -> list[tuple[Any, ...]]:
    """Return what a policy is asked and taught in a run."""
    policy = Listener(world.spec(steps), np.random.default_rng(0))
    list(play(world, policy, steps, feedback=feedback))
    return policy.heard


def test_the_example_keeps_the_contract() -> None:
    assert [result.message for result in check_world(NEWSSTAND) if not result.ok] == []


def test_rows_tell_whose_they_are_and_figures_are_of_visitors(tmp_path: Path) -> None:
    result = zoosim.run(NEWSSTAND, policies=["random", "linucb"], seeds=3, steps=600, out=tmp_path / "run")
    rows = result.rows
    assert rows.columns[:3] == ["seed", "step", "policy"]
    assert rows.columns[-4:] == ["visitor", "visit", "ended", "censored"]
    assert rows.height == 2 * 3 * 600 * 2
    first = rows.filter(seed=0, policy="random").head(4)
    assert first.select(LIFE).rows() == [
        (0, 0, 0, False, False),
        (0, 1, 1, True, False),
        (1, 0, 0, False, False),
        (1, 1, 1, True, False),
    ]
    # A visitor's kind, and so what the best is worth at the first visit, is the same for both policies.
    arrivals = rows.filter(step=0).pivot("policy", index=["seed", "visitor"], values="best_probability")
    assert (arrivals["random"] == arrivals["linucb"]).all()
    returns = rows.group_by("policy", "seed").agg(pl.col("reward").sum() / 600).sort("policy", "seed")
    for name, figures in result.summary["policies"].items():
        assert figures["reward"]["mean"] == pytest.approx(returns.filter(policy=name)["reward"].mean())
    # Random articles: .45 clicks of one kind of reader and .35 of the other, and .6 of that on the second day. The best
    # is the report on the first day, and then what the reader likes.
    random, best = 1.6 * np.mean([0.45, 0.35]), np.mean([0.3 + 0.6, 0.5 + 0.5])
    fractions = result.summary["policies"]["random"]["oracle_fraction"]
    assert fractions["low"] <= random / best <= fractions["high"]
    assert "per visitor" in str(result)
    assert result.summary["unit"] == "visitor"


def test_a_run_is_read_without_the_file_of_its_world(tmp_path: Path) -> None:
    file = tmp_path / "world.py"
    file.write_text((ROOT / "examples" / "returning_visitors.py").read_text())
    zoosim.run(f"{file}:Newsstand", policies=["random"], seeds=1, steps=50, out=tmp_path / "run")
    file.unlink()
    again = zoosim.read_run(tmp_path / "run")
    assert again.summary["unit"] == "visitor"
    assert "last 500 visitors" in again.page()


def test_where_visitors_come_once_each_is_one_step_that_ends(tmp_path: Path) -> None:
    result = zoosim.run("gauntlet", policies=["random"], seeds=1, steps=30, out=tmp_path / "run")
    expected = [(number, 0, number, True, False) for number in range(30)]
    assert result.rows.select(LIFE).rows() == expected
    assert not set(LIFE) & set(pl.read_parquet(tmp_path / "run" / "cells" / "random" / "0.parquet").columns)
    assert "unit" not in result.summary


def test_a_policy_hears_of_the_next_visit_before_it_decides_there() -> None:
    world = Newsstand(0, 100)
    heard = listener(world, 2)
    assert [event[:2] for event in heard] == [(what, reader) for reader in (0, 1) for what in ("asked", "taught") * 2]
    (_, _, action, feedback, following), (_, _, last_action, last_feedback, nothing) = heard[1], heard[3]
    assert (action, last_action) == (0, 1)
    assert following.user.tolist()[1:] == [0.0, 1.0, 0.0]
    assert feedback == {"visit_ended": True, "ended": False, "censored": False}
    assert nothing is None
    assert last_feedback == {"visit_ended": True, "ended": True, "censored": False}


def test_rewards_are_late_by_visitors() -> None:
    world = Newsstand(0, 100)
    what = [event[:2] for event in listener(world, 4, FeedbackTiming(delay=2))]
    asked, taught = [("asked", reader) for reader in range(4)], [("taught", reader) for reader in range(4)]
    twice = [*[asked[0]] * 2, *[asked[1]] * 2, *[asked[2]] * 2, *[taught[0]] * 2, *[asked[3]] * 2, *[taught[1]] * 2]
    assert what == twice
    what = [event[:2] for event in listener(world, 4, FeedbackTiming(batch=3))]
    assert what == [
        *(event for event in asked[:3] for _ in "12"),
        *(e for e in taught[:3] for _ in "12"),
        *[asked[3]] * 2,
    ]


class CutOff(Newsstand):  # type: ignore[misc]
    """Ends after the first day, though readers would come back."""

    def serve(self, visit: Any, action: int) -> zoosim.Outcome:
        outcome: zoosim.Outcome = super().serve(visit, action)
        assert outcome.next is not None
        return zoosim.Outcome(outcome.reward, {"kind": visit.kind}, next=zoosim.Next(outcome.next.visit, cut_off=True))


def test_where_the_world_is_cut_off_policies_see_what_would_have_come() -> None:
    world = CutOff(0, 100)
    heard = listener(world, 2)
    assert [event[0] for event in heard] == ["asked", "taught"] * 2
    feedback, following = heard[1][3:]
    assert following is not None
    assert (feedback["visit_ended"], feedback["ended"], feedback["censored"]) == (True, False, True)
    assert feedback["kind"] in (0, 1)
    policy = Listener(world.spec(3), np.random.default_rng(0))
    lives = next(play(world, policy, 3)).lives
    assert lives is not None
    assert lives.censored.all()
    assert not lives.ended.any()
    assert failed_checks(CutOff) == []


def failed_checks(cls: type[World]) -> list[str]:
    """Return the checks that a world fails."""
    results = check_worlds_of(cls, lambda seed: cls(seed, check_module.LONG))
    return [result.name for result in results if not result.ok]


class Several(Newsstand):  # type: ignore[misc]
    """Each visit has three steps, and each reader two visits."""

    def arrive(self, step: int) -> Any:
        return super().arrive(step), 0

    def context(self, visit: Any) -> zoosim.Context:
        return zoosim.Context(super().context(visit[0]))

    def serve(self, visit: Any, action: int) -> zoosim.Outcome:
        place, count = visit
        later = zoosim.Next((place, count + 1), same_visit=count != 2) if count < 5 else None
        return zoosim.Outcome(super().serve(place, action).reward, next=later)


def test_a_visit_may_have_several_steps() -> None:
    world = Several(0, 100)
    policy = Listener(world.spec(2), np.random.default_rng(0))
    lives = next(play(world, policy, 2, judged=False)).lives
    assert lives is not None
    assert lives.visit.tolist() == [0, 0, 0, 1, 1, 1] * 2
    assert lives.step.tolist() == [0, 1, 2, 3, 4, 5] * 2
    ends = [event[3]["visit_ended"] for event in policy.heard if event[0] == "taught"]
    assert ends == [False, False, True] * 4


class Undeclared(Newsstand):  # type: ignore[misc]
    """Has visitors who come back, and does not say so."""

    episodic = False


class Bare(Newsstand):  # type: ignore[misc]
    """Gives the next visit as it is."""

    def serve(self, visit: Any, action: int) -> zoosim.Outcome:
        return zoosim.Outcome(0.0, next=(visit.reader, visit.kind))  # type: ignore[arg-type]


class Endless(Newsstand):  # type: ignore[misc]
    """Has readers who never leave."""

    def serve(self, visit: Any, action: int) -> zoosim.Outcome:
        return zoosim.Outcome(0.0, next=zoosim.Next(visit))


@pytest.mark.parametrize(
    ("cls", "message"),
    [
        (Undeclared, "the world is not episodic; set episodic = True in its class"),
        (Bare, r"Outcome.next is \(0, [01]\), expected zoosim.Next"),
        (Endless, "visitor 0 is still there after 50 decisions"),
    ],
)
def test_what_cannot_follow_is_refused(cls: type[World], message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "MOST_STEPS", 50)
    monkeypatch.setattr(check_module, "MOST_STEPS", 50)
    with pytest.raises(WorldError, match=message):
        listener(cls(0, 10), 2)
    assert failed_checks(cls)


def test_a_visitor_who_has_gone_has_no_next_visit() -> None:
    with pytest.raises(ConfigError, match="expected a visit"):
        zoosim.Next(None)


class Shortsighted(Newsstand):  # type: ignore[misc]
    """The truth forgets the second day."""

    def truth(self, visit: Any) -> zoosim.Truth:
        truth: zoosim.Truth = super().truth(visit._replace(before=visit.before or 2))
        return truth


class Wandering(Newsstand):  # type: ignore[misc]
    """Where a reader goes depends on how often the world was asked."""

    def serve(self, visit: Any, action: int) -> zoosim.Outcome:
        self.asked = getattr(self, "asked", 0) + 1
        outcome: zoosim.Outcome = super().serve(visit, action)
        return outcome if self.asked % 3 else zoosim.Outcome(outcome.reward)


def test_the_checks_find_what_breaks_the_contract_of_episodes() -> None:
    assert "rewards average to their expectation" in failed_checks(Shortsighted)
    assert "gives an action the same reward whatever was asked before" in failed_checks(Wandering)


def test_a_log_tells_whose_its_decisions_are_and_is_evaluated_by_visitor(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    written = write_log(path, n=300, policy="random", world=NEWSSTAND)
    assert written.decisions == 600
    log = read_log(path)
    assert log.lives is not None
    assert log.lives.step.tolist() == [0, 1] * 300
    assert log.lives.ended.tolist() == [False, True] * 300
    later = log.rows(log.lives.step == 1)
    assert later.lives is not None
    assert later.lives.ended.all()
    by_visitor = zoosim.evaluate(path, ["random"], estimators=["per-decision"])
    assert (by_visitor.unit, by_visitor.n) == ("visitors", 300)
    assert by_visitor.results[0].value == pytest.approx(float(log.rewards.sum()) / 300)
    alone = to_log(pl.read_parquet(path).drop("visitor"))
    assert alone.lives is None
    by_hand = zoosim.evaluate(pl.read_parquet(path).drop("visitor", "catalogue"), {"even": np.array([0.5, 0.5])})
    assert by_hand.results[0].value == pytest.approx(float(log.rewards.mean()))
