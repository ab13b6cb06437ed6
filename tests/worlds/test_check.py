"""The contract of worlds: ours keep it, and each way to break it is found by the check that asks about it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zoosim
from tests.caches import use_cache
from zoosim.core.config import EnvConfig, LabelledConfig, build
from zoosim.core.errors import WorldError
from zoosim.core.search_config import SearchConfig
from zoosim.worlds import check as module
from zoosim.worlds.base import World
from zoosim.worlds.check import CHECKS, check_world, check_worlds_of
from zoosim.worlds.labelled import build_labelled_world, read_table
from zoosim.worlds.recommendation.world import build_world
from zoosim.worlds.registry import find_world
from zoosim.worlds.search import template_arms
from zoosim.worlds.search.template_arms import search_world
from zoosim.worlds.search_shops.config import SearchShopsConfig
from zoosim.worlds.search_shops.draw import draw_search_shop
from zoosim.worlds.shops.config import ShopsConfig
from zoosim.worlds.shops.world import build_shop_world

ROOT = Path(__file__).parents[2]
EXAMPLE = f"{ROOT / 'examples' / 'my_world.py'}:Bookshop"
SMALL = SearchConfig(n_products=60, n_users=40)


def test_the_example_keeps_the_contract() -> None:
    assert [result.message for result in check_world(EXAMPLE) if not result.ok] == []


def _labelled(seed: int) -> World:
    return build_labelled_world(read_table(LabelledConfig()), seed=seed, steps=module.LONG)


WORLDS: dict[str, Callable[[int], World]] = {
    "recommendation": lambda seed: build_world(EnvConfig(n_products=12), seed=seed),
    "turnover": lambda seed: build_world(
        build(EnvConfig, {"n_products": 12, "turnover": {"share": 0.5, "every": 9, "over": 100}}, "env"), seed=seed
    ),
    "labelled": _labelled,
    "shops": lambda seed: build_shop_world(ShopsConfig(), seed=seed, steps=module.LONG),
    "search-shops": lambda seed: search_world(
        draw_search_shop(SearchShopsConfig(products=[60, 60]), seed=seed, steps=100),
        seed=seed,
        steps=100,
        action_space="boosts",
    ),
    "templates": lambda seed: search_world(SMALL, seed=seed, steps=600, action_space="templates"),
    "boosts": lambda seed: search_world(SMALL, seed=seed, steps=100, action_space="boosts"),
}


@pytest.mark.parametrize("name", WORLDS)
def test_our_worlds_keep_the_contract(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use_cache(monkeypatch, tmp_path)
    monkeypatch.setattr(template_arms, "TRUTH_VISITS", 400)
    monkeypatch.setattr(module, "LONG", 600)
    results = check_worlds_of(type(WORLDS[name](0)), WORLDS[name])
    failed = [f"{result.name}: {result.message}" for result in results if not result.ok]
    assert failed == []


Bookshop: Any = find_world(EXAMPLE)


class Moody(Bookshop):  # type: ignore[misc]
    """What happens depends on how often it was asked."""

    def serve(self, visit: Any, action: int) -> zoosim.Outcome:
        """Return another reward each time."""
        self.asked = getattr(self, "asked", 0) + 1
        return zoosim.Outcome(float(self.asked % 3 == 0))


class Generous(Bookshop):  # type: ignore[misc]
    """The truth promises too much."""

    def truth(self, visit: Any) -> zoosim.Truth:
        """Return a truth of which every action is worth .1 more."""
        truth: zoosim.Truth = super().truth(visit)
        return replace(truth, expected_reward=lambda action: truth.expected_reward(action) + 0.1, best_reward=9.0)


class Modest(Bookshop):  # type: ignore[misc]
    """The truth does not know the best book."""

    def truth(self, visit: Any) -> zoosim.Truth:
        """Return half of what the best book is worth as the best."""
        truth: zoosim.Truth = super().truth(visit)
        return replace(truth, best_reward=0.0, best_action=None)


class Deaf(Bookshop):  # type: ignore[misc]
    """Every seed brings the same visits."""

    def rng(self, purpose: str, step: int = 0) -> np.random.Generator:
        """Return a generator that does not depend on the seed."""
        return np.random.default_rng([step, len(purpose)])


class Writable(Bookshop):  # type: ignore[misc]
    """Contexts can be written to."""

    def context(self, visit: Any) -> zoosim.Context:
        """Return copies that can be written to."""
        context: zoosim.Context = super().context(visit)
        return zoosim.Context({**context, "user": context.user.copy()})


class Narrow(Bookshop):  # type: ignore[misc]
    """Visitors have fewer features than the spec says."""

    def context(self, visit: Any) -> zoosim.Context:
        """Leave out a feature."""
        context: zoosim.Context = super().context(visit)
        return zoosim.Context({**context, "user": context.user[1:]})


class Sequential(Bookshop):  # type: ignore[misc]
    """A visit depends on the one that was asked for before."""

    def arrive(self, step: int) -> Any:
        """Return the visit after the last one, whatever its number."""
        self.last = getattr(self, "last", -1) + 1
        return super().arrive(self.last)


class Incomplete(Bookshop):  # type: ignore[misc]
    """Not all products are listed."""

    def all_products(self) -> zoosim.ProductList:
        """Leave out half of the books."""
        listed = super().all_products()
        return zoosim.ProductList(*(column[:30] for column in listed))


class Failing(Bookshop):  # type: ignore[misc]
    """It raises an error."""

    def truth(self, visit: Any) -> zoosim.Truth:
        """Divide by zero."""
        return zoosim.Truth(lambda action: 0.0, 1 / 0)


BROKEN = {
    Moody: "gives an action the same reward whatever was asked before",
    Generous: "rewards average to their expectation",
    Modest: "names the best action and no better one is found",
    Deaf: "brings other visits for another seed",
    Writable: "gives contexts with every field, read-only and of the right shapes",
    Narrow: "gives contexts with every field, read-only and of the right shapes",
    Sequential: "brings the same visits in any order",
    Incomplete: "lists all products, where it lists any",
    Failing: "names the best action and no better one is found",
}


@pytest.mark.parametrize(("cls", "name"), BROKEN.items(), ids=[cls.__name__ for cls in BROKEN])
def test_each_fault_is_found_by_its_check(cls: Any, name: str) -> None:
    assert name in {check.name for check in CHECKS}
    results = {result.name: result for result in check_worlds_of(cls, lambda seed: cls(seed, 4_000))}
    assert not results[name].ok
    assert results[name].asked
    if cls is Failing:
        assert "test_check.py:" in results[name].message
        assert "ZeroDivisionError" in results[name].message


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("class Other:\n    pass\n", "is no zoosim.World"),
        ("import zoosim\nclass Other(zoosim.World):\n    pass\n", "lacks arrive and context and serve"),
        ("1 / 0\n", "own.py:1 does not import: ZeroDivisionError"),
    ],
)
def test_a_file_without_such_a_world_is_refused(code: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(code, encoding="utf-8")
    with pytest.raises(WorldError, match=message):
        check_world(f"{tmp_path / 'own.py'}:Other")
    with pytest.raises(WorldError, match="is not there"):
        check_world(f"{tmp_path / 'no.py'}:Other")
