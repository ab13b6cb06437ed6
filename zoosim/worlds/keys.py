"""The keys of a world's parameters as help and pages show them: each with its default, its range and its meaning."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from zoosim.core.parameters import parameters_of, written
from zoosim.worlds.parameters import Parametrised

DEFAULTS: Mapping[str, Any] = MappingProxyType({})


class Key(NamedTuple):
    """A key below `env`; NAME stands in it for the names of a mapping, N for the place in a list."""

    name: str
    default: str
    range: str
    meaning: str


def world_keys(cls: type[Parametrised], values: Mapping[str, Any] = DEFAULTS) -> list[Key]:
    """Return the keys of a world's parameters, in the order in which they are declared.

    Args:
        cls: Class of the world; its parameters are the fields of its `parameter_record`, or `zoosim.parameter`s.
        values: Checked parameters by name that take the place of the defaults, such as those of an experiment.
    """
    if cls.parameter_record is not None:
        return list(_record_keys(cls.parameter_record, values))
    return [
        Key(name, written(values.get(name, declared.default)), declared.range, declared.help)
        for name, declared in parameters_of(cls).items()
    ]


def _record_keys(record: type[BaseModel], values: Mapping[str, Any], prefix: str = "", of: str = "") -> Iterator[Key]:
    """Yield the keys of a record; what it is a record `of`, where its field says so, stands before each meaning."""
    for name, info in record.model_fields.items():
        key = f"{prefix}{name}"
        value = values.get(name, info.get_default(call_default_factory=True))
        meaning = info.description or ""
        inner, step = _inner_record(info.annotation)
        # Neither optional nor repeated, so that its keys stand for themselves.
        is_always_there = inner is info.annotation
        if inner is None:
            allowed = _range(info.annotation, info.metadata)
            yield Key(key, _default(value), allowed, f"{of}: {meaning}" if of else meaning)
        elif is_always_there:
            yield from _record_keys(inner, _fields(value), f"{key}.", meaning)
        else:
            yield Key(key, _default(value), "see below", meaning)
            yield from _record_keys(inner, DEFAULTS if step else _fields(value), f"{key}{step}.")


def _inner_record(annotation: Any) -> tuple[type[BaseModel] | None, str]:
    """Return the record that a field holds, perhaps none or several times, and how a key steps into it."""
    kinds = [annotation, *get_args(annotation)]
    records = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)]
    if not records:
        return None, ""
    return records[-1], {dict: ".NAME", list: ".N"}.get(get_origin(annotation), "")


def _fields(value: Any) -> Mapping[str, Any]:
    """Return the fields of a record by name; none where no record is there by default."""
    return dict(value) if isinstance(value, BaseModel) else DEFAULTS


def _default(value: Any) -> str:
    if value is PydanticUndefined:
        return "needed"
    if isinstance(value, dict | list | str) and not value:
        return "empty"
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _number(value)
    return _text(value)


def _text(value: Any) -> str:
    """Write a value as YAML would in one line, but of nested mappings and records the names or the number alone."""
    if isinstance(value, BaseModel):
        value = dict(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return _number(value).replace(",", "")
    if isinstance(value, dict):
        if any(isinstance(each, dict | BaseModel) for each in value.values()):
            return ", ".join(map(str, value))
        return f"{{{', '.join(f'{key}: {_text(each)}' for key, each in value.items())}}}"
    if isinstance(value, list):
        if any(isinstance(each, BaseModel) for each in value):
            return f"{len(value)} of them"
        return f"[{', '.join(map(_text, value))}]"
    return "none" if value is None else str(value)


def _range(annotation: Any, metadata: Any) -> str:
    """Return the allowed values in words, such as `0 to 1`, or `length 2, each above 0`."""
    if get_origin(annotation) is Annotated:
        inner, *more = get_args(annotation)
        return _range(inner, [*more, *metadata])
    if get_origin(annotation) in (Union, UnionType):
        kinds = [kind for kind in get_args(annotation) if kind is not type(None)]
        return _range(kinds[0], metadata) if len(kinds) == 1 else "any"
    if get_origin(annotation) is Literal:
        return ", ".join(map(str, get_args(annotation)))
    limits: dict[str, float] = {}
    for limit in _limits(metadata):
        names = ("ge", "gt", "le", "lt", "min_length", "max_length")
        limits |= {name: getattr(limit, name) for name in names if getattr(limit, name, None) is not None}
    parts = []
    length = _ends(limits.get("min_length"), None, limits.get("max_length"), None)
    if length:
        parts.append("not empty" if length == "at least 1" else f"length {length}")
    values = _ends(limits.get("ge"), limits.get("gt"), limits.get("le"), limits.get("lt"))
    if values:
        parts.append(values)
    if get_origin(annotation) in (dict, list):
        element = _range(get_args(annotation)[-1], ())
        if element != "any":
            parts.append(element if element.startswith("each ") else f"each {element}")
    return ", ".join(parts) or "any"


def _limits(metadata: Any) -> Iterator[Any]:
    """Yield limits; those of a `Field` within `Annotated` are in its own metadata."""
    for part in metadata:
        yield part
        yield from getattr(part, "metadata", ())


def _ends(least: float | None, above: float | None, most: float | None, below: float | None) -> str:
    """Write an interval in words; empty where it has no end."""
    if least is not None and most is not None:
        return _number(least) if least == most else f"{_number(least)} to {_number(most)}"
    ends = {"at least": least, "above": above, "at most": most, "below": below}
    return ", ".join(f"{word} {_number(end)}" for word, end in ends.items() if end is not None)


def _number(value: float) -> str:
    return f"{int(value):,}" if float(value).is_integer() else f"{value:g}"
