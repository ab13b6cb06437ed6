"""Declare and check the parameters of a policy: `alpha: float = parameter(0.2, low=0, help="...")`."""

import math
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice
from numbers import Real
from typing import Any

from zoosim.core.errors import ConfigError


@dataclass(frozen=True)
class Parameter:
    """One parameter: its default (whose type is the parameter's type), its range (ends included) and its meaning.

    Words may have `choices` in place of a range, or be numbers by name (`by_name`), such as `cm2=1.2, strategic=0.3`.
    """

    default: bool | int | float | str
    low: float | None
    high: float | None
    help: str
    choices: tuple[str, ...] = ()
    by_name: bool = False

    @property
    def range(self) -> str:
        """The allowed values in words, such as `0 to 1`, `at least 1` or `red or green`."""
        if self.choices:
            *others, last = self.choices
            return f"{', '.join(others)} or {last}" if others else last
        if self.low is not None and self.high is not None:
            return f"{written(self.low)} to {written(self.high)}"
        if self.low is not None:
            return f"at least {written(self.low)}"
        return "any" if self.high is None else f"at most {written(self.high)}"

    @property
    def expected(self) -> str:
        """The expected value in words, such as `a whole number, at least 1` or `one of red, green or blue`."""
        if isinstance(self.default, bool):
            return "true or false"
        if isinstance(self.default, str):
            if self.by_name:
                return "numbers by name, such as {a: 1, b: 0.5}"
            if not self.choices:
                return "text"
            return f"one of {self.range}" if len(self.choices) > 1 else self.range
        number = "a whole number" if isinstance(self.default, int) else "a number"
        return number if self.low is None and self.high is None else f"{number}, {self.range}"

    def check(self, label: str, value: Any) -> bool | int | float | str:
        """Return `value` as the parameter's type, or raise `ConfigError`.

        A whole number will do for a number and, since YAML reads 64 as one, for words. Numbers by name come as a
        mapping or as text, and are returned as text.
        """
        if self.by_name:
            return _written_by_name(label, value, self.expected)
        kind = type(self.default)
        if type(value) is int and kind is float:
            value = _as_float(value)
        elif type(value) is int and kind is str and not self.choices:
            value = _as_words(value)
        if type(value) is not kind or (self.choices and value not in self.choices):
            raise ConfigError(f"{label}: got {shown(value)}, expected {self.expected}")
        if isinstance(value, int | float) and not self._in_range(value):
            expected = "a finite number" if self.range == "any" else self.range
            raise ConfigError(f"{label}: got {shown(value)}, expected {expected}")
        checked: bool | int | float | str = value
        return checked

    def _in_range(self, value: float) -> bool:
        low = -math.inf if self.low is None else self.low
        high = math.inf if self.high is None else self.high
        return -math.inf < value < math.inf and low <= value <= high


def parameter(
    default: bool | int | float | str,
    *,
    low: float | None = None,
    high: float | None = None,
    help: str = "",
    choices: Sequence[str] = (),
    by_name: bool = False,
) -> Any:
    """Declare a parameter of a policy class; `Policy.__init__` replaces it by the checked value.

    Numbers have a range, from `low` to `high`; words have `choices`, or are numbers by name, which `numbers_by_name`
    reads.

    Raises:
        ConfigError: an end of the range is no number, or a choice no word.
    """
    for name, end in (("low", low), ("high", high)):
        if end is not None and not isinstance(end, Real):
            raise ConfigError(f"parameter: {name} is {shown(end)}, expected a number")
    for choice in choices:
        if not isinstance(choice, str):
            raise ConfigError(f"parameter: got the choice {shown(choice)}, expected a word")
    return Parameter(default, low, high, help, tuple(choices), by_name)


def numbers_by_name(text: str) -> dict[str, float]:
    """Return the numbers of a checked parameter `by_name`, such as `cm2=1.2, strategic=0.3`."""
    return dict(_pairs_in(text))


def _pairs_in(text: str) -> list[tuple[str, float]]:
    """Return names and numbers as they are written, also a name that comes twice; raises `ValueError`."""
    pairs = []
    for entry in text.split(","):
        if entry.strip():
            name, number = entry.split("=")
            pairs.append((name.strip(), float(number)))
    return pairs


def _written_by_name(label: str, value: Any, expected: str) -> str:
    """Return numbers by name, a mapping or a text, as text; raises `ConfigError`."""
    try:
        pairs = list(value.items()) if isinstance(value, Mapping) else _pairs_in(value)
        names = [_checked_name(name) for name, _ in pairs]
        numbers = [_finite(number) for _, number in pairs]
        if len(set(names)) < len(names):
            raise ValueError("a name comes twice")
    except (AttributeError, TypeError, ValueError, OverflowError):
        raise ConfigError(f"{label}: got {shown(value)}, expected {expected}") from None
    return ", ".join(f"{name}={number!r}" for name, number in zip(names, numbers, strict=True))


def _checked_name(name: Any) -> str:
    """Return a name that can be read again among others; raises `ValueError` for another one."""
    if not isinstance(name, str) or not name.strip() or set(name) & {",", "="}:
        raise ValueError("a name cannot be written")
    return name.strip()


def _finite(number: Any) -> float:
    """Return a number as a float; raises `ValueError` or `OverflowError` for what is no finite one."""
    if not isinstance(number, int | float) or isinstance(number, bool) or not math.isfinite(number):
        raise ValueError("no finite number")
    return float(number)


def parameters_of(cls: type) -> dict[str, Parameter]:
    """Return the parameters that a class and its bases declare, by name."""
    parameters: dict[str, Parameter] = {}
    for base in reversed(cls.__mro__):
        for name, value in vars(base).items():
            if isinstance(value, Parameter):
                parameters[name] = value
            else:
                parameters.pop(name, None)
    return parameters


def check_parameters(label: str, cls: type, values: Mapping[str, Any]) -> dict[str, bool | int | float | str]:
    """Return every parameter of `cls`, from `values` or by default; raises `ConfigError` at the first wrong one."""
    declared = parameters_of(cls)
    for name in values:
        if name not in declared:
            raise ConfigError(unknown(f"{label}: unknown parameter", str(name), declared))
    return {name: p.check(f"{label}.{name}", values.get(name, p.default)) for name, p in declared.items()}


def unknown(what: str, name: str, known: Mapping[str, Any] | list[str]) -> str:
    """Say that `name` is not known, with the closest known one and the whole list."""
    close = closest(name, list(known))
    hint = "" if close is None else f" (did you mean {close}?)"
    return f"{what} {shown(name)}{hint}; known: {', '.join(known) or 'none'}"


def closest(name: str, known: Sequence[str]) -> str | None:
    """Return the known name that is most like another one, whatever its case and hyphens; None if none is."""
    plain = {_plain(each): each for each in reversed(known)}
    close = get_close_matches(_plain(name), list(plain), n=1)
    return plain[close[0]] if close else None


def _plain(name: str) -> str:
    """Return a name without what is easily typed in another way."""
    return "".join(char for char in name.casefold() if char not in "-_. ")


def written(value: Any) -> str:
    """Write a parameter's value for people: 100,000,000 rather than 1e+08."""
    if type(value) is int:
        return f"{value:,}"
    return f"{value:g}" if isinstance(value, float) else str(value)


class _Short(reprlib.Repr):
    """Writes the beginning of a value, however large it is."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 3
        self.maxdict = self.maxlist = self.maxtuple = self.maxset = self.maxfrozenset = 20
        self.maxstring = self.maxlong = self.maxother = 300

    def repr_dict(self, x: dict[Any, Any], level: int) -> str:
        """Write a mapping in its own order."""
        if level <= 0:
            return "{...}"
        pairs = [f"{self.repr1(key, level - 1)}: {self.repr1(x[key], level - 1)}" for key in islice(x, self.maxdict)]
        return f"{{{', '.join([*pairs, '...'] if len(x) > self.maxdict else pairs)}}}"


def shown(value: Any) -> str:
    """Write a value that came from outside in one line of at most 100 characters."""
    try:
        text = " ".join(_Short().repr(value).split())
    except (ValueError, RecursionError):  # an integer of thousands of digits, a list that holds itself
        return f"a {type(value).__name__} too long to print"
    return text if len(text) <= 100 else f"{text[:97]}..."


def _as_float(value: int) -> float:
    """Return an integer as a float, infinity when it is too large for one."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _as_words(value: int) -> str | int:
    """Return an integer as it is written, or itself when it is too long for that."""
    return str(value) if abs(value) < 10**100 else value
