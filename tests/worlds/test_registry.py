"""Worlds are found by name, and ours are made as a user's are: a class, a seed, a length, declared parameters."""

from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zoosim
from zoosim.core import registry as core_registry
from zoosim.core.errors import ConfigError, WorldError
from zoosim.experiments.plan import make_plan
from zoosim.experiments.request import RunRequest
from zoosim.worlds import registry
from zoosim.worlds.base import World
from zoosim.worlds.facts import EUROS, Change, Measure
from zoosim.worlds.registry import find_world, register_world, world_names

EXAMPLE = f"{Path(__file__).parents[2] / 'examples' / 'my_world.py'}:Bookshop"
Bookshop: Any = find_world(EXAMPLE)


class Kiosk(Bookshop):  # type: ignore[misc]
    """A bookshop that says of itself what its figures mean."""

    name = "kiosk"
    reward_scale = EUROS._replace(word="takings")
    reported_shocks = (Change(40, "rain"),)
    reported_measures = (
        Measure("sold", "books sold", lambda visits: float(visits["sold"].mean()), (0.0, 1.0), True, "sold, %"),
    )
    reported_segments = ("readers", "browsers")

    def serve(self, visit: Any, action: Any) -> zoosim.Outcome:
        """Return what a book earns, whether it was sold, and to whom."""
        reward = super().serve(visit, action).reward
        return zoosim.Outcome(reward, parts={"sold": float(reward > 0)}, segment=int(self.context(visit).user[0] > 0.5))


@pytest.fixture(autouse=True)
def nothing_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry.REGISTRY, "_registered", {})


@pytest.mark.parametrize("name", ["recommendation", "labelled", "shops"])
def test_a_built_in_world_is_made_as_a_users_is(name: str) -> None:
    world = find_world(name)(seed=3, steps=50)
    assert (world.seed, world.steps, world.name or name) == (3, 50, name)
    visit = world.arrive(7)
    context = world.context(visit)
    best = world.truth(visit)
    assert context.user.shape == (world.spec(50).user_dim,)
    assert best.expected_reward(best.best_action) == best.best_reward
    assert world.serve(visit, best.best_action).reward == world.serve(visit, best.best_action).reward


def test_parameters_are_checked_when_a_world_is_made() -> None:
    recommendation = find_world("recommendation")
    assert recommendation(seed=0, steps=10, n_products=9)._checked.n_products == 9
    with pytest.raises(ConfigError, match=r"^env: unknown key 'n_product' \(did you mean n_products\?\)"):
        recommendation(seed=0, steps=10, n_product=9)


def test_a_name_that_no_world_has_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^world: unknown 'shop' \(did you mean shops\?\)"):
        find_world("shop")


def test_a_program_registers_a_world_which_a_run_then_finds(tmp_path: Path) -> None:
    register_world(Kiosk)
    register_world(Kiosk)  # a module may be imported again
    assert world_names()[-1] == "kiosk"
    result = zoosim.run("kiosk", policies=["random", "linucb"], seeds=2, steps=80, jobs=1, out=tmp_path / "run")
    figures = result.summary["policies"]["random"]
    assert list(figures["recovery_steps"]) == ["rain"]
    assert 0.0 <= figures["sold"]["mean"] <= 1.0
    assert set(figures["segments"]) <= {"readers", "browsers"}
    assert "books sold" in result.page()
    assert zoosim.read_run(tmp_path / "run").summary["policies"] == result.summary["policies"]
    edited = type("Edited", (Kiosk,), {})
    register_world(edited)  # as the cell of a notebook that is run again
    assert find_world("kiosk") is edited
    with pytest.raises(ConfigError, match=r"^world: 'shops' is there already; give yours another name"):
        register_world(type("Other", (Kiosk,), {"name": "shops"}))
    with pytest.raises(ConfigError, match=r"^world: .*World.* lacks arrive and context and serve and spec and truth"):
        register_world(World)  # type: ignore[type-abstract]


KIOSK = Kiosk


def test_an_installed_package_brings_a_world(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [
        EntryPoint("kiosk", f"{__name__}:KIOSK", "zoosim.worlds"),
        EntryPoint("wrong", f"{__name__}:EXAMPLE", "zoosim.worlds"),
    ]
    monkeypatch.setattr(core_registry, "entry_points", lambda group: points)
    vars(registry.REGISTRY).pop("_installed", None)
    try:
        assert find_world("kiosk") is Kiosk
        with pytest.raises(
            ConfigError, match=f"^world: {__name__}:EXAMPLE is no zoosim.World; derive the class from it"
        ):
            find_world("wrong")
    finally:
        vars(registry.REGISTRY).pop("_installed", None)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("    reward_range = (1.0, 0.0)\n", r"has the reward_range \(1.0, 0.0\), expected \(low, high\)"),
        ("    reward_scale = 5\n", "has the reward_scale 5, expected a RewardScale"),
        ("    reported_shocks = 5\n", "has the reported_shocks 5, expected a list, or a property that returns one"),
        ("    price = zoosim.parameter(1, low='x')\n", "parameter: low is 'x', expected a number"),
        ("    price = zoosim.parameter('s', choices=['s', None])\n", "parameter: got the choice None, expected a word"),
        ("    action_space = 'ranking'\n", "has the action_space 'ranking', expected products"),
    ],
)
def test_what_a_users_class_lacks_is_said(code: str, message: str, tmp_path: Path) -> None:
    example = Path(EXAMPLE.rpartition(":")[0]).read_text(encoding="utf-8")
    (tmp_path / "own.py").write_text(f"{example}\n\nclass Own(Bookshop):\n{code}", encoding="utf-8")
    with pytest.raises(WorldError, match=message):
        find_world(f"{tmp_path / 'own.py'}:Own")


@pytest.mark.parametrize("name", ["shops", "search-shops"])
def test_other_parameters_make_another_run(name: str) -> None:
    usual, other = (
        make_plan(RunRequest(name, seeds=[0], policies=["random"], settings=settings))
        for settings in ([], ["env.categories=[4, 9]"])
    )
    assert usual.config_hash != other.config_hash
    assert usual.differences(other) == ("env.categories",)


def test_a_plan_goes_to_other_processes_without_its_worlds() -> None:
    plan = make_plan(RunRequest(EXAMPLE, seeds=[4], policies=["random"]))
    assert plan.any_world.seed == 4
    assert "any_world" not in plan.__getstate__()
    np.testing.assert_array_equal(plan.any_world.genre, plan.world(4).genre)  # type: ignore[attr-defined]
