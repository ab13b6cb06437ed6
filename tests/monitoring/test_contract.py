"""Every detector keeps the same contract, and the checks of alarms and delays find what is broken."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pytest

from tests.monitoring.streams import alarms, check_delays, clicks, false_alarms
from zoosim.core.errors import ConfigError, DataError
from zoosim.core.jit import jit
from zoosim.core.types import FloatArray
from zoosim.monitoring import ADWIN, GLR, Detector, PageHinkley, adwin, glr, page_hinkley


class Subject(NamedTuple):
    cls: type[Detector]
    new: Callable[..., Any]
    observe: Callable[..., bool]
    reset: Callable[..., None]


SUBJECTS = [
    Subject(PageHinkley, page_hinkley.new_page_hinkley, page_hinkley.observe, page_hinkley.reset),
    Subject(ADWIN, adwin.new_adwin, adwin.observe, adwin.reset),
    Subject(GLR, glr.new_glr, glr.observe, glr.reset),
]
every = pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.cls.__name__)


def jumping(seed: int) -> FloatArray:
    """Return 1,500 numbers in [0, 1], clicks and others, whose mean jumps from .2 to .8 to .3."""
    rng = np.random.default_rng(seed)
    p = np.repeat([0.2, 0.8, 0.3], 500)
    return np.asarray(np.where(rng.random(1500) < 0.5, rng.beta(p, 1 - p), rng.random(1500) < p))


def same(one: Detector, other: Detector) -> bool:
    mine, others = one.state_dict(), other.state_dict()
    return mine.keys() == others.keys() and all(mine[name].tobytes() == others[name].tobytes() for name in mine)


@every
def test_it_acts_before_data(subject: Subject) -> None:
    detector = subject.cls()
    assert detector.n_observations == 0
    assert math.isnan(detector.mean)
    assert detector.update(0.5) is False
    assert (detector.n_observations, detector.mean) == (1, 0.5)


@every
def test_people_and_kernels_get_the_same_defaults(subject: Subject) -> None:
    _match(subject.cls()._state, [subject.new(1)])


@every
def test_it_finds_both_jumps_and_holds_what_came_after(subject: Subject) -> None:
    detector = subject.cls()
    found = alarms(detector, jumping(1))
    assert found[0] >= 500
    assert ((found >= 500) & (found < 1000)).any()
    assert (found >= 1000).any()
    assert detector.n_observations < 600
    assert detector.mean == pytest.approx(0.3, abs=0.1)


@every
def test_it_repeats_and_up_is_as_down(subject: Subject) -> None:
    one, other, mirror = subject.cls(), subject.cls(), subject.cls()
    stream = np.round(jumping(2))
    found = alarms(one, stream)
    assert np.array_equal(found, alarms(other, stream))
    assert np.array_equal(found, alarms(mirror, 1 - stream))
    assert same(one, other)


@every
def test_it_saves_and_loads_to_the_bit(subject: Subject) -> None:
    stream = jumping(3)
    for place in (0, 1, 77, 530, 1400):
        one, other = subject.cls(), subject.cls()
        alarms(one, stream[:place])
        alarms(other, stream[700:1100])
        saved = one.state_dict()
        other.load_state_dict(saved)
        before = {name: array.copy() for name, array in saved.items()}
        assert same(one, other)
        assert np.array_equal(alarms(one, stream[place:]), alarms(other, stream[place:]))
        assert same(one, other)
        assert all(np.array_equal(saved[name], before[name]) for name in saved)


@every
def test_a_broken_state_is_refused_and_changes_nothing(subject: Subject) -> None:
    detector = subject.cls()
    alarms(detector, jumping(4)[:700])
    saved = detector.state_dict()
    name = next(iter(saved))
    broken: list[dict[str, Any]] = [
        {},
        {**saved, "more": saved[name]},
        {**saved, name: saved[name][:, :-1]},
        {**saved, name: None},
    ]
    broken += [{**saved, name: saved[name].astype(np.complex128)}, {**saved, name: np.full_like(saved[name], np.nan)}]
    broken += [other.cls().state_dict() for other in SUBJECTS if other.cls is not subject.cls]
    for state in broken:
        with pytest.raises(ConfigError, match="saved state") as error:
            detector.load_state_dict(state)
        assert "\n" not in str(error.value)
        assert all(np.array_equal(saved[name], array) for name, array in detector.state_dict().items())


@pytest.mark.parametrize("rows", [-1, 6, 1])
def test_buckets_that_cannot_be_are_refused(rows: int) -> None:
    detector = ADWIN()
    alarms(detector, clicks(0.5, (100,), 1))
    filled = detector.state_dict()["filled"]
    filled[0, 0] = rows if filled[0, 0] != rows else rows + 1
    with pytest.raises(ConfigError, match="saved state"):
        detector.load_state_dict({**detector.state_dict(), "filled": filled})


@every
@pytest.mark.parametrize("x", [math.nan, math.inf, -math.inf, "0.5", None, 0.5j, 10**400, np.array([0.5])], ids=str)
def test_what_is_no_number_is_refused_and_changes_nothing(subject: Subject, x: Any) -> None:
    _refuses(subject.cls(), x)


@pytest.mark.parametrize("x", [-1e-9, 1 + 1e-9, -1, 2, 1e300])
@pytest.mark.parametrize("cls", [ADWIN, GLR])
def test_what_is_out_of_range_is_refused_and_changes_nothing(cls: type[Detector], x: float) -> None:
    _refuses(cls(), x)


def _refuses(detector: Detector, x: Any) -> None:
    alarms(detector, jumping(5)[:600])
    before = type(detector)()
    before.load_state_dict(detector.state_dict())
    with pytest.raises(DataError, match=f"{type(detector).__name__}: got .*, expected a (finite )?number") as error:
        detector.update(x)
    assert "\n" not in str(error.value)
    assert same(detector, before)


@every
def test_numbers_of_any_kind_are_taken(subject: Subject) -> None:
    one, other = subject.cls(), subject.cls()
    for x in (0, 1, True, np.bool_(False), np.float32(0.5), np.int8(1), Fraction(1, 4)):
        assert one.update(x) == other.update(float(x))  # type: ignore[arg-type]
    assert same(one, other)


@every
@pytest.mark.parametrize("x", [0.0, 1.0, 0.1, 1 / 3, 1 - 2**-53, 2**-53, 5e-324])
def test_a_number_that_never_changes_is_no_change(subject: Subject, x: float) -> None:
    detector = subject.cls(delta=1e-9)
    assert not len(alarms(detector, np.full(3000, x)))
    assert detector.n_observations == 3000
    assert detector.mean == pytest.approx(x, rel=1e-12, abs=0)


@every
def test_ones_up_to_rounding_are_no_change(subject: Subject) -> None:
    for seed in range(3):
        stream = np.random.default_rng(seed).choice([1.0, 1 - 2**-52], 3000)
        assert not len(alarms(subject.cls(), stream))


@every
def test_n_at_once_are_n_single_ones(subject: Subject) -> None:
    rng, state = np.random.default_rng(6), subject.new(4)
    single = [subject.new(1) for _ in range(4)]
    streams, at = [jumping(seed) for seed in range(4)], [0] * 4
    for i in rng.integers(0, 3, 3000).tolist():  # the last one sees nothing
        x = float(streams[i][at[i] % 1500])
        at[i] += 1
        assert subject.observe(state, i, x) == subject.observe(single[i], 0, x)
    _match(state, single)
    for i in (0, 3):
        subject.reset(state, i)
        single[i] = subject.new(1)
    _match(state, single)


def _match(state: Any, single: list[Any]) -> None:
    for i, alone in enumerate(single):
        for array, its in zip(state, alone, strict=True):
            assert array[i].tobytes() == its[0].tobytes() if isinstance(array, np.ndarray) else array == its


@every
@pytest.mark.parametrize("delta", [-0.1, 1e101, math.nan, math.inf, "0.1", True, None])
def test_parameters_out_of_range_are_refused(subject: Subject, delta: Any) -> None:
    with pytest.raises(ConfigError, match=rf"^{subject.cls.__name__}\.delta: got .*, expected .*$"):
        subject.cls(delta=delta)


@every
def test_an_unknown_parameter_is_refused(subject: Subject) -> None:
    with pytest.raises(ConfigError, match=r"unknown parameter 'delat' \(did you mean delta\?\)"):
        subject.cls(delat=0.1)


@jit
def _never(state: Any, i: int, x: float) -> bool:
    return False


@jit
def _hasty(state: Any, i: int, x: float) -> bool:
    """Find a change as soon as four observations in a row are alike."""
    alike = x == state.cells[i, 1]
    state.cells[i, 0] = state.cells[i, 0] + 1 if alike else 0.0
    state.cells[i, 1] = x
    return bool(state.cells[i, 0] >= 4)


def test_the_checks_find_a_detector_that_never_fires_and_one_that_fires_at_once() -> None:
    state = page_hinkley.new_page_hinkley(200)
    with pytest.raises(AssertionError):
        check_delays(_never, state, 0.4, 0.15, 1000)
    assert false_alarms(_hasty, state, 0.5, length=1000).min() > 0
