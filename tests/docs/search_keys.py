"""Every key of the search configuration, with its default and range as the page of keys writes them."""

from collections.abc import Iterator
from typing import Any, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from zoosim.core.search_config import SearchConfig


def keys_of(model: type[BaseModel] = SearchConfig, prefix: str = "") -> Iterator[tuple[str, str, str]]:
    """Yield each key with default and range; NAME stands for the names of a mapping, N for the place in a list."""
    for name, info in model.model_fields.items():
        key = f"{prefix}{name}"
        inner, step = _inner_model(info.annotation)
        if inner is None:
            yield key, _default(info), _range(info)
        else:
            yield from keys_of(inner, f"{key}{step}.")


def _inner_model(annotation: Any) -> tuple[type[BaseModel] | None, str]:
    """Return the record that a field holds, alone or several times, and how a key steps into it."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation, ""
    arguments = get_args(annotation)
    last = arguments[-1] if arguments else None
    if isinstance(last, type) and issubclass(last, BaseModel) and get_origin(annotation) in (dict, list):
        return last, ".NAME" if get_origin(annotation) is dict else ".N"
    return None, ""


def _default(info: FieldInfo) -> str:
    value = info.get_default(call_default_factory=True)
    if value is PydanticUndefined:
        return "needed"
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float | int):
        return _number(value)
    return str(value).replace("'", "") if value else "empty"


def _range(info: FieldInfo) -> str:
    choices = get_args(info.annotation)
    if choices and all(isinstance(choice, str) for choice in choices):
        return ", ".join(choices)
    limits: dict[str, float] = {}
    for part in _metadata(info):
        names = ("ge", "gt", "le", "min_length", "max_length")
        limits |= {name: getattr(part, name) for name in names if getattr(part, name, None) is not None}
    low = limits.get("ge", limits.get("min_length"))
    high = limits.get("le", limits.get("max_length"))
    if "gt" in limits:
        return f"above {_number(limits['gt'])}, at most {_number(limits['le'])}"
    if low is None or high is None:
        return "any" if low is None else f"at least {_number(low)}"
    return f"{_number(low)} to {_number(high)}"


def _number(value: float) -> str:
    return f"{int(value):,}" if value == int(value) else f"{value:g}"


def _metadata(info: FieldInfo) -> Iterator[Any]:
    for part in info.metadata:
        yield part
        yield from getattr(part, "metadata", ())
