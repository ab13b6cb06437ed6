"""What an object declares as learned is saved, checked and loaded whole, and what does not fit is named."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
import pytest

from zoosim.core.errors import ConfigError
from zoosim.core.limits import FLAGS, covariance_flaws
from zoosim.core.state import Stateful, blank, saved_length
from zoosim.core.types import FloatArray, IntArray


class Sums(NamedTuple):
    """Sums, whose parameter `rate` was not learned."""

    flags: Annotated[IntArray, FLAGS]
    spread: Annotated[FloatArray, covariance_flaws]
    rate: float

    def flaws(self) -> Iterator[str]:
        """Yield what does not fit together."""
        if self.flags.sum() > 1:
            yield f"flags holds {self.flags.sum()} that are set, expected one"


class Row(Stateful):
    """A row that grows, and how often it did."""

    learned = ("values", "_times")
    _times: Annotated[int, FLAGS]

    def __init__(self, length: int) -> None:
        self.values = np.arange(float(length))
        self._times = 0

    def _sized_as(self, saved: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"values": blank(np.float64, saved_length(saved, "values"))}


class Grown(Stateful):
    """A named tuple that is made anew for a saved state, beside an array that is not."""

    learned: ClassVar = {"fixed": "fixed", "sums": "sums"}

    def __init__(self) -> None:
        self.fixed = np.zeros(2)
        self.sums = self._made(1)

    def _made(self, length: int) -> Sums:
        return Sums(np.zeros(length, np.int64), np.eye(2), 0.5)

    def _sized_as(self, saved: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"sums": self._made(saved_length(saved, "sums.flags"))}


class Learner(Stateful):
    """A part of each kind."""

    learned: ClassVar = {
        "made_for": "made_for",
        "sums": "_sums",
        "count": "_count",
        "own": "_own",
        "beside.": "_beside",
        "table": "_table",
        "rng": "rng",
    }
    _table: Annotated[dict[str, Any], {"flag": (FLAGS,)}]

    def __init__(self, seed: int = 0, made_for: str = "shops") -> None:
        self.made_for = made_for
        self._sums = Sums(np.array([0, seed % 2]), (1.0 + seed) * np.eye(2), 0.5)
        self._count = seed
        self._own = Row(2 + seed)
        self._beside = Row(1)
        self._table = {"flag": np.array([seed % 2]), "weight": 0.5 * seed}
        self.rng = np.random.default_rng(seed)

    def _state_flaws(self, values: Mapping[str, Any]) -> Iterator[str]:
        if values["count"] > 100:
            yield f"count is {values['count']}, expected what the table knows"


def test_a_state_is_a_tree_of_copies() -> None:
    learner = Learner(seed=3)
    state = learner.state_dict()
    names = ["made_for", "sums.flags", "sums.spread", "count", "own", "beside.values", "beside.times", "table", "rng"]
    assert list(state) == names
    assert list(state["own"]) == ["values", "times"]
    state["own"]["values"][:] = 9.0
    state["sums.spread"][:] = 9.0
    assert learner._own.values.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert learner._sums.spread[0, 0] == 4.0


def test_a_state_is_loaded_whole() -> None:
    learner, other = Learner(seed=3), Learner(seed=0)
    before = other._sums.spread
    own, rng = other._own, other.rng
    other.load_state_dict(learner.state_dict())
    assert repr(other.state_dict()) == repr(learner.state_dict())
    assert other._sums.rate == 0.5
    assert other._own is own, "others may hold a part, or draw from the same generator"
    assert other.rng is rng
    assert before[0, 0] == 1.0, "arrays that were in use stay as they are"
    assert rng.random() == learner.rng.random()


def test_numbers_may_come_as_lists_and_in_narrower_types() -> None:
    learner = Learner()
    state = Learner(seed=1).state_dict()
    state |= {"sums.spread": [[2.0, 0.0], [0.0, 2.0]], "sums.flags": np.array([0, 1], np.int8), "count": np.int32(7)}
    learner.load_state_dict(state)
    assert learner._sums.flags.dtype == np.int64
    assert type(learner._count) is int
    assert learner._count == 7


@pytest.mark.parametrize(
    ("path", "value", "flaw"),
    [
        ("sums.flags", None, "sums.flags is of shape (), expected (2,)"),
        ("sums.flags", np.zeros(3, int), "sums.flags is of shape (3,), expected (2,)"),
        ("sums.flags", np.array([0.5, 0.0]), "sums.flags holds float64, expected int64"),
        ("sums.flags", np.array([2, 0]), "sums.flags holds 2, expected at most 1"),
        ("sums.flags", np.array([1, 1]), "sums.flags holds 2 that are set, expected one"),
        ("sums.spread", -np.eye(2), "sums.spread is no covariance, expected one that is positive semidefinite"),
        ("sums.spread", np.full((2, 2), np.nan), "sums.spread holds nan, expected at least -1e+45"),
        ("count", 0.5, "count holds float64, expected int64"),
        ("count", 101, "count is 101, expected what the table knows"),
        ("count", "text", "count holds <U4, expected int64"),
        ("made_for", "others", "made_for is 'others', expected 'shops'"),
        ("own", 5, "own is 5, expected fields by name"),
        ("own/times", 2, "own.times holds 2, expected at most 1"),
        ("own/more", 2, "own.more is not expected"),
        ("beside.times", 2, "beside.times holds 2, expected at most 1"),
        ("table", [], "table is [], expected fields by name"),
        ("table/flag", [2], "table.flag holds 2, expected at most 1"),
        ("table/3", [2], "table.3 is not expected"),
        ("rng", {"state": 1}, "rng is {'state': 1}, expected what rng.bit_generator.state gives"),
        ("more", 1, "more is not expected"),
    ],
)
def test_what_does_not_fit_is_named_and_nothing_changes(path: str, value: Any, flaw: str) -> None:
    learner = Learner()
    before = repr(learner.state_dict())
    state = Learner(seed=1).state_dict()
    name, _, inner = path.partition("/")
    state[name] = {**state[name], inner: value} if inner else value
    with pytest.raises(ConfigError) as error:
        learner.load_state_dict(state)
    refused = "Learner: the saved state is of another policy, task or parameters, or broken"
    assert str(error.value) == f"{refused} ({flaw})"
    assert repr(learner.state_dict()) == before


@pytest.mark.parametrize("name", list(Learner().state_dict()))
def test_what_is_missing_is_named(name: str) -> None:
    state = Learner(seed=1).state_dict()
    del state[name]
    with pytest.raises(ConfigError, match=rf"\({name} is missing\)"):
        Learner().load_state_dict(state)


def test_arrays_in_use_are_not_written_to() -> None:
    grown = Grown()
    fixed, spread = grown.fixed, grown.sums.spread
    state = {"fixed": np.ones(2), "sums.flags": np.array([0, 1, 0]), "sums.spread": 2.0 * np.eye(2)}
    for refused in ({**state, "more": 1}, {**state, "sums.flags": np.array([1, 1, 0])}):
        with pytest.raises(ConfigError):
            grown.load_state_dict(refused)
    grown.load_state_dict(state)
    assert (fixed.tolist(), spread.tolist()) == ([0.0, 0.0], [[1.0, 0.0], [0.0, 1.0]])
    assert (grown.fixed.tolist(), grown.sums.flags.tolist(), grown.sums.spread[0, 0]) == ([1.0, 1.0], [0, 1, 0], 2.0)


class Sentinel(Stateful):
    """A user's class: of its own numbers nothing is known but that they are finite, if no limits are declared."""

    learned: ClassVar = ("last", "scores", "rates", "nothing")
    rates: "Annotated[FloatArray, FLAGS]"
    nothing: Any

    def __init__(self) -> None:
        self.last = -1
        self.scores = np.array([-3, 2])
        self.rates = np.zeros(2)
        self.nothing = 0.0


def test_numbers_of_a_users_class_may_be_anything_finite() -> None:
    sentinel = Sentinel()
    sentinel.load_state_dict({**sentinel.state_dict(), "scores": np.array([-9, 1]), "nothing": -1e300})
    assert (sentinel.last, sentinel.scores.tolist(), sentinel.nothing) == (-1, [-9, 1], -1e300)
    for name, value in (("nothing", np.inf), ("nothing", np.nan), ("rates", np.array([5.0, -7.0]))):
        with pytest.raises(ConfigError, match=f"{name} holds"):
            sentinel.load_state_dict({**sentinel.state_dict(), name: value})
    holdings: list[Any] = [None, (1.0, 2.0), [1.0]]
    for sentinel.nothing in holdings:
        with pytest.raises(ConfigError, match=r"nothing (holds|is)") as error:
            sentinel.load_state_dict(sentinel.state_dict())
        assert "\n" not in str(error.value)


class Own(Stateful):
    """An object with methods of its own, as users write them."""

    def __init__(self) -> None:
        self.value = 1

    def state_dict(self) -> dict[str, Any]:
        """Return the value, by a key that is no text."""
        return {5: self.value}  # type: ignore[dict-item]

    def load_state_dict(self, state: Mapping[Any, Any]) -> None:
        """Take over a value."""
        if state[5] < 0:
            raise ConfigError("own: got a number below 0")
        self.value = state[5]


class Around(Stateful):
    """An object around another."""

    learned: ClassVar = {"times": "times", "inside": "inside"}

    def __init__(self) -> None:
        self.times = 0
        self.inside = Own()


class Beside(Around):
    """One whose fields stand beside those of the other."""

    learned: ClassVar = {"": "inside", "times": "times"}


@pytest.mark.parametrize("cls", [Around, Beside])
def test_a_part_with_methods_of_its_own_keeps_them(cls: type[Around]) -> None:
    one, other = cls(), cls()
    one.times, one.inside.value = 3, 4
    other.load_state_dict(one.state_dict())
    assert (other.times, other.inside.value) == (3, 4)
    one.times, one.inside.value = 5, -1
    with pytest.raises(ConfigError, match="own: got a number below 0"):
        other.load_state_dict(one.state_dict())
    assert (other.times, other.inside.value) == (3, 4)
