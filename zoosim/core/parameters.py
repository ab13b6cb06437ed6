"""Declare and check the parameters of a policy: `alpha: float = parameter(0.2, low=0, help="...")`."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from zoosim.core.errors import ConfigError


@dataclass(frozen=True)
class Parameter:
    """One parameter: its default (whose type is the parameter's type), its range (ends included) and its meaning."""

    default: bool | int | float | str
    low: float | None
    high: float | None
    help: str

    @property
    def range(self) -> str:
        """Say the allowed range in words, such as `0 to 1` or `at least 1`."""
        if self.low is not None and self.high is not None:
            return f"{self.low:g} to {self.high:g}"
        if self.low is not None:
            return f"at least {self.low:g}"
        return "any" if self.high is None else f"at most {self.high:g}"

    def check(self, label: str, value: Any) -> bool | int | float | str:
        """Return `value` as the parameter's type, or raise `ConfigError`."""
        kind = type(self.default)
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if type(value) is not kind:
            raise ConfigError(f"{label}: got {value!r}, expected a {kind.__name__}, {self.range}")
        if isinstance(value, int | float):
            low, high = -math.inf if self.low is None else self.low, math.inf if self.high is None else self.high
            if not math.isfinite(value) or not low <= value <= high:
                raise ConfigError(f"{label}: got {value!r}, expected {self.range}")
        checked: bool | int | float | str = value
        return checked


def parameter(
    default: bool | int | float | str, *, low: float | None = None, high: float | None = None, help: str = ""
) -> Any:
    """Declare a parameter of a policy class; `Policy.__init__` replaces it by the checked value."""
    return Parameter(default, low, high, help)


def parameters_of(cls: type) -> dict[str, Parameter]:
    """Return the parameters that a class and its bases declare, by name."""
    found: dict[str, Parameter] = {}
    for base in reversed(cls.__mro__):
        for name, value in vars(base).items():
            if isinstance(value, Parameter):
                found[name] = value
            else:
                found.pop(name, None)
    return found


def check_parameters(label: str, cls: type, given: Mapping[str, Any]) -> dict[str, bool | int | float | str]:
    """Return every parameter of `cls`, given or by default, or raise `ConfigError` at the first that is wrong."""
    declared = parameters_of(cls)
    for name in given:
        if name not in declared:
            raise ConfigError(unknown(f"{label}: unknown parameter", name, declared))
    return {name: p.check(f"{label}.{name}", given.get(name, p.default)) for name, p in declared.items()}


def unknown(what: str, name: str, known: Mapping[str, Any] | list[str]) -> str:
    """Say that `name` is not known, with the closest known one and the whole list."""
    close = get_close_matches(name, list(known), n=1)
    hint = f" (did you mean {close[0]}?)" if close else ""
    return f"{what} {name!r}{hint}; known: {', '.join(known) or 'none'}"
