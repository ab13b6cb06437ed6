"""Action spaces are found by name, the built-in ones, those of packages and those that a program registers."""

import inspect
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import zoosim
from zoosim.action_spaces import ActionSpace, action_space_names, find_action_space, register_action_space, registry
from zoosim.action_spaces.base import Part
from zoosim.action_spaces.candidates import Candidates
from zoosim.core import registry as core_registry
from zoosim.core.errors import ConfigError
from zoosim.core.types import Context, PolicySpec
from zoosim.logs.parse import to_log
from zoosim.logs.records import Records
from zoosim.off_policy.actions.base import ActionSpaceEvaluator, evaluator_of
from zoosim.policies.model import Model
from zoosim.policies.registry import BUILT_IN, find_class
from zoosim.serving.endpoints.base import Endpoint
from zoosim.serving.forecasts.scoring import Scoring
from zoosim.serving.learning.base import Learning
from zoosim.worlds.registry import find_world


class Bundles(Candidates):
    """Candidates under another name."""

    name = "bundles"


@pytest.fixture(autouse=True)
def nothing_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry.REGISTRY, "_registered", {})


def parts(space: ActionSpace) -> dict[str, Any]:
    """Return the parts of an action space that are imported when they are asked for."""
    names = {name for cls in type(space).__mro__ for name, value in vars(cls).items() if isinstance(value, Part)}
    return {name: getattr(space, name) for name in names}


@pytest.mark.parametrize("name", ["products", "templates", "rankings", "boosts"])
def test_a_built_in_one_has_all_its_parts(name: str) -> None:
    space = find_action_space(name)
    assert space.name == name
    assert space is find_action_space(name)
    found = parts(space)
    assert issubclass(found.pop("evaluator"), ActionSpaceEvaluator)
    assert issubclass(found.pop("records", Records), Records)
    assert issubclass(found.pop("model", Model), Model)
    assert issubclass(found.pop("endpoint", Endpoint), Endpoint)
    assert issubclass(found.pop("learning", Learning), Learning)
    assert issubclass(found.pop("scoring", Scoring), Scoring)
    assert all(inspect.isfunction(part) for part in found.values())
    for policy in (*space.contenders, *space.contenders_for_clicks):
        assert {name, "products"} & set(find_class(policy).chooses), policy


def test_what_policies_choose_is_an_action_space() -> None:
    chosen = {space for policy in BUILT_IN for space in find_class(policy).chooses}
    assert chosen <= set(action_space_names())


def test_an_unknown_one_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^action_space: unknown 'boost' \(did you mean boosts\?\)"):
        find_action_space("boost")


def test_a_program_registers_one_of_its_own() -> None:
    space = Bundles()
    register_action_space(space)
    assert find_action_space("bundles") is space
    edited = Bundles()
    register_action_space(edited)  # as the cell of a notebook that is run again
    assert find_action_space("bundles") is edited
    assert action_space_names()[-1] == "bundles"
    products = find_action_space("products")
    register_action_space(products)
    edited.name = "products"  # type: ignore[misc]
    with pytest.raises(ConfigError, match=r"^action_space: 'products' is there already; give yours another name"):
        register_action_space(edited)


def test_an_installed_package_brings_one(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [
        EntryPoint("bundles", f"{__name__}:BUNDLES", "zoosim.action_spaces"),
        EntryPoint("wrong", f"{__name__}:Bundles", "zoosim.action_spaces"),
        EntryPoint("gone", "no_such_package:SPACE", "zoosim.action_spaces"),
        EntryPoint("bundle", f"{__name__}:BUNDLES", "zoosim.action_spaces"),
    ]
    monkeypatch.setattr(core_registry, "entry_points", lambda group: points)
    vars(registry.REGISTRY).pop("_installed", None)
    try:
        assert find_action_space("bundles").name == "bundles"
        with pytest.raises(ConfigError, match=r"BUNDLES has the name 'bundles', expected that of .* point, 'bundle'$"):
            find_action_space("bundle")
        with pytest.raises(ConfigError, match=r"Bundles is a ABCMeta, expected an object of a zoosim.action"):
            find_action_space("wrong")
        with pytest.raises(ConfigError, match=r"^action_space: no_such_package:SPACE cannot be imported: .*; mend"):
            find_action_space("gone")
        # Who uses none of them meets no errors of theirs.
        assert len(to_log(pl.DataFrame({"action": [0, 1], "propensity": [0.5, 0.5], "reward": [0.0, 1.0]}))) == 2
        assert find_world(OWN_WORLD).action_space == "products"
    finally:
        vars(registry.REGISTRY).pop("_installed", None)


OWN_WORLD = f"{Path(zoosim.__file__).parents[1] / 'examples' / 'my_world.py'}:Bookshop"
BUNDLES = Bundles()


@pytest.mark.parametrize("name", ["products", "templates"])
def test_any_candidate_that_is_available_can_be_taken(name: str) -> None:
    space, spec = find_action_space(name), PolicySpec(user_dim=1, product_dim=1, steps=1)
    context = Context(available=np.array([False, True, False, True]))
    drawn = {space.any_action(context, spec, rng=np.random.default_rng(seed)) for seed in range(20)}
    assert drawn == {1, 3}
    assert {space.checked(action, context, spec) for action in drawn} == drawn


def test_what_an_action_space_lacks_is_said() -> None:
    register_action_space(Bundles())
    with pytest.raises(ConfigError, match=r"^log: its actions are bundles, on which no policies can be judged"):
        evaluator_of("bundles")
    frame = pl.DataFrame({"action": [0, 1], "propensity": [0.5, 0.5], "reward": [0.0, 1.0]})
    log = replace(to_log(frame), action_space="bundles")
    with pytest.raises(ConfigError, match=r"^log: its actions are bundles, on which no policies can be trained"):
        zoosim.train(log, ["linear"])


@pytest.mark.parametrize("name", ["", " ", "\x1b[31m", 7, None])
def test_one_whose_name_is_no_word_is_refused(name: Any) -> None:
    unnamed = type("Unnamed", (Candidates,), {} if name is None else {"name": name})
    with pytest.raises(ConfigError, match=r"^action_space: the name of Unnamed is .*, expected a word$"):
        register_action_space(unnamed())


@pytest.mark.parametrize("value", [Bundles, "bundles", None])
def test_what_is_no_action_space_is_not_registered(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"^action_space: .* is a \w+, expected an object of "):
        register_action_space(value)


@pytest.mark.parametrize("name", [[], {}, None, 3])
def test_a_name_that_is_no_text_is_refused(name: Any) -> None:
    with pytest.raises(ConfigError, match=r"^action_space: got .*, expected the name of one$"):
        find_action_space(name)


def test_an_installed_one_that_exits_when_imported_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def leave(place: str) -> None:
        raise SystemExit(3)

    monkeypatch.setitem(vars(registry.REGISTRY), "_installed", {"parcels": "parcels:SPACE"})
    monkeypatch.setattr(core_registry, "resolve_name", leave)
    with pytest.raises(ConfigError, match=r"^action_space: parcels:SPACE cannot be imported: .*mend or remove it$"):
        find_action_space("parcels")
