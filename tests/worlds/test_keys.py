"""Keys of worlds as help and pages show them: defaults, ranges and meanings follow from the declared parameters."""

from typing import Annotated, Any, ClassVar, Literal

import pytest
from pydantic import BaseModel, Field

import zoosim
from zoosim.core.config import Shock
from zoosim.worlds.fitted.world import Fitted
from zoosim.worlds.keys import Key, world_keys
from zoosim.worlds.parameters import Parametrised
from zoosim.worlds.registry import find_world, world_names


class Wave(BaseModel):
    """A part of a record."""

    height: float = Field(1.0, gt=0, lt=2, description="how high")
    period: int = Field(ge=1, description="how long")


class Sea(BaseModel):
    """A record with a field of each kind."""

    salt: float | None = Field(None, ge=0, le=0.5, description="share of salt")
    fish: int = Field(20_000, ge=1, description="fish")
    wind: Literal["none", "strong"] = "none"
    depths: Annotated[list[Annotated[float, Field(gt=0)]], Field(min_length=2, max_length=2)] = [0.5, 2e4]
    coasts: dict[str, Annotated[float, Field(ge=0, le=1)]] = {"sand": 0.25, "rock": 0.75}
    ports: dict[str, dict[str, float]] = Field({"north": {"ships": 3}, "south": {}}, min_length=1)
    is_calm: bool = False
    names: list[str] = []
    swell: Wave = Field(Wave(period=9), description="the swell")
    storm: Wave | None = Field(None, description="a storm")
    tides: list[Wave] = Field([Wave(period=6)], description="the tides")
    winds: Annotated[dict[str, Wave], Field(min_length=1)] = {"east": Wave(period=2)}


class Ocean(Parametrised):
    """A world whose parameters are a record."""

    parameter_record = Sea


class Pond(Parametrised):
    """A world whose parameters are declared one by one."""

    frogs: int = zoosim.parameter(3, low=1, high=2_000, help="frogs in the pond")
    song: str = zoosim.parameter("soft", choices=("soft", "loud"))


ROWS = [
    ("salt", "none", "0 to 0.5", "share of salt"),
    ("fish", "20,000", "at least 1", "fish"),
    ("wind", "none", "none, strong", ""),
    ("depths", "[0.5, 20000]", "length 2, each above 0", ""),
    ("coasts", "{sand: 0.25, rock: 0.75}", "each 0 to 1", ""),
    ("ports", "north, south", "not empty", ""),
    ("is_calm", "false", "any", ""),
    ("names", "empty", "any", ""),
    # What a field says of its record stands before the record's own meanings, and its default is the field's.
    ("swell.height", "1", "above 0, below 2", "the swell: how high"),
    ("swell.period", "9", "at least 1", "the swell: how long"),
    ("storm", "none", "see below", "a storm"),
    ("storm.height", "1", "above 0, below 2", "how high"),
    ("storm.period", "needed", "at least 1", "how long"),
    ("tides", "1 of them", "see below", "the tides"),
    ("tides.N.height", "1", "above 0, below 2", "how high"),
    ("tides.N.period", "needed", "at least 1", "how long"),
    ("winds", "east", "see below", ""),
    ("winds.NAME.height", "1", "above 0, below 2", "how high"),
    ("winds.NAME.period", "needed", "at least 1", "how long"),
]


def test_keys_of_a_record() -> None:
    assert world_keys(Ocean) == [Key(*row) for row in ROWS]


def test_values_take_the_place_of_defaults() -> None:
    values = {"fish": 7, "names": ["a", "b"], "swell": Wave(period=3), "storm": Wave(height=0.5, period=4)}
    changed = {
        "fish": "7",
        "names": "[a, b]",
        "swell.period": "3",
        "storm": "{height: 0.5, period: 4}",
        "storm.height": "0.5",
        "storm.period": "4",
    }
    expected = {name: changed.get(name, default) for name, default, _, _ in ROWS}
    assert {key.name: key.default for key in world_keys(Ocean, values)} == expected
    world: Any = find_world("recommendation")
    shocks = [Shock(step=2, name="rain", set={"cat_connoisseur": {"Dog Toy": 0.5}})]
    assert {key.name: key.default for key in world_keys(world, {"shocks": shocks})}["shocks"] == "1 of them"


def test_keys_of_declared_parameters() -> None:
    frogs = Key("frogs", "3", "1 to 2,000", "frogs in the pond")
    assert world_keys(Pond) == [frogs, Key("song", "soft", "soft or loud", "")]
    assert world_keys(Pond, {"frogs": 5})[0] == frogs._replace(default="5")


class Bare(Parametrised):
    """A world without parameters."""

    nothing: ClassVar[int] = 0


def test_a_world_without_parameters_has_no_keys() -> None:
    assert world_keys(Bare) == []


@pytest.mark.parametrize("world", [*world_names(), "fitted"])
def test_every_key_of_ours_has_a_meaning_and_a_name_of_its_own(world: str) -> None:
    keys = world_keys(Fitted if world == "fitted" else find_world(world))
    assert [key.name for key in keys if not key.meaning] == []
    assert len({key.name for key in keys}) == len(keys) > 0
