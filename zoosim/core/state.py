"""One tree of learned fields for everything that learns: saving, loading and checking follow from what it declares.

    class Counter(Stateful):
        learned = ("_counts", "_rng")
        _counts: Annotated[IntArray, COUNTS]

A field is an attribute. What it holds says of which type and shape a saved one must be, and its annotation, or that
in its named tuple, within which limits (`zoosim.core.limits`). A state is loaded whole: all of it is checked before
anything changes, and what does not fit is said in one line that names the field.
"""

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from zoosim.core.errors import ConfigError
from zoosim.core.limits import FINITE, declared_limits, first_flaw
from zoosim.core.parameters import shown
from zoosim.core.sources import PACKAGE


class Stateful:
    """An object whose learned fields are saved, loaded and checked by what its class declares.

    A field holds an array, a named tuple whose arrays were learned, a number, a generator of random numbers, a mapping
    of arrays, or a part that is `Stateful` itself. Arrays of a named tuple are saved as NAME.FIELD, fields of a part or
    a mapping in a mapping of their own. A text is not learned: a saved one must be the same.
    """

    learned: ClassVar[tuple[str, ...] | Mapping[str, str]] = ()
    """The attributes that were learned, or these by the names of their fields; OWNER.FIELD is one in a named tuple.

    Without a name of its own a field has that of its attribute, less leading underscores. A part whose name is empty,
    or ends in the `joint`, is saved beside the other fields, with its name before its own ones.
    """

    joint: ClassVar[str] = "."
    """Separator between the name of a named tuple and those of its arrays."""

    def state_dict(self) -> dict[str, Any]:
        """Return copies of all that was learned, as arrays and plain values by name."""
        return dict(_copied(self.learned_in_use()))

    def learned_in_use(self) -> dict[str, Any]:
        """Return what the learned fields hold, by their names in `state_dict`: the arrays themselves, not copies."""
        fields = self._learned_fields().items()
        return {key: entry for name, value in fields for key, entry in _entries(name, value, self.joint)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over a `state_dict` of an object of the same class, parameters and task.

        Args:
            state: What was saved, maybe with lists or narrower numbers in the place of arrays.

        Raises:
            ConfigError: something in it does not fit; nothing has changed then.
        """
        try:
            values = self._checked_state(state)
        except ValueError as error:
            broken = "the saved state is of another policy, task or parameters, or broken"
            raise ConfigError(f"{self._state_label()}: {broken} ({error})") from None
        self._set_learned(values)

    def _state_label(self) -> str:
        """Return what the object is called in messages."""
        return type(self).__name__

    def _learned_attributes(self) -> Mapping[str, str]:
        """Return the learned attributes, by the names of their fields."""
        learned = type(self).learned  # an object may use the name for something of its own
        if isinstance(learned, Mapping):
            return learned
        return {attribute.lstrip("_"): attribute for attribute in learned}

    def _learned_fields(self) -> dict[str, Any]:
        """Return what the learned fields hold, by name, and maybe texts that a saved state must have, too."""
        return {name: _attribute(self, path) for name, path in self._learned_attributes().items()}

    def _sized_as(self, saved: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return fields of the sizes that a saved state has, where these may differ from today's; see `blank`.

        Raises:
            ValueError: the saved state cannot be of such an object.
        """
        return {}

    def _state_flaws(self, values: Mapping[str, Any]) -> Iterator[str]:
        """Yield how checked values of fields do not fit together."""
        return iter(())

    def _state_loaded(self) -> None:
        """Compute anew what derives from the learned fields."""

    def _checked_state(self, saved: Any) -> dict[str, Any]:
        """Return the values of all fields that a saved state holds; raises `ValueError` where one does not fit."""
        current = self._learned_fields()
        fields = {**current, **self._sized_as(_mapping("it", saved))}
        own = {name: value for name, value in current.items() if not isinstance(value, Stateful)}
        in_use = {id(array) for name, value in own.items() for _, array in _entries(name, value, self.joint)}
        reading = _Reading(dict(saved), in_use, self.joint)
        paths = self._learned_attributes()
        values = {}
        for name in sorted(fields, key=lambda name: name == ""):  # what has no name takes what is left
            values[name] = reading.take(name, fields[name], self._limits_of(paths.get(name, "")))
        if not saves_by_itself(self):  # else the rest is for the methods of its own, which ask these
            reading.end()
        _refuse(next(self._state_flaws(values), ""))
        return values

    def _limits_of(self, path: str) -> tuple[Any, ...]:
        owner, _, field = path.rpartition(".")
        kind: Any = type(_attribute(self, owner) if owner else self)
        declared = declared_limits(kind, field)
        # Our own numbers have narrower limits, by their type; those of a user's class are anything finite.
        is_ours = type(self).__module__.partition(".")[0] == PACKAGE
        is_number = bool(path) and isinstance(_attribute(self, path), np.ndarray | int | float | np.generic)
        return declared if declared or is_ours or not is_number else (FINITE,)

    def _set_learned(self, values: Mapping[str, Any]) -> None:
        """Set all fields to checked values."""
        # Parts first: only one with methods of its own may yet refuse, and then nothing has changed.
        for value in values.values():
            if isinstance(value, _Part):
                value.take_over()
        for name, path in self._learned_attributes().items():
            owner, _, field = path.rpartition(".")
            value = values[name].part if isinstance(values[name], _Part) else values[name]
            if owner:
                setattr(self, owner, _attribute(self, owner)._replace(**{field: value}))
            elif isinstance(getattr(self, field), np.random.Generator):
                getattr(self, field).bit_generator.state = value
            else:
                setattr(self, field, value)
        self._state_loaded()


def state_in_use(stateful: Stateful) -> dict[str, Any]:
    """Return `state_dict`, but the arrays themselves: for who reads them before anything is learned.

    Args:
        stateful: The object; one with a `state_dict` of its own returns what it will.
    """
    return stateful.state_dict() if saves_by_itself(stateful) else stateful.learned_in_use()


def blank(dtype: type, *sides: int) -> np.ndarray:
    """Return an array that says of which type and shape a saved one must be, and takes no memory."""
    return np.broadcast_to(np.zeros((), dtype), [max(side, 0) for side in sides])


def saved_length(saved: Mapping[str, Any], name: str) -> int:
    """Return how many rows an array of a saved state has, -1 where there is no such array.

    Args:
        saved: The saved state, by name.
        name: Name of the array.
    """
    value = saved.get(name)
    return len(value) if isinstance(value, np.ndarray) and value.ndim else -1


@dataclass
class _Part:
    """State to load into a part: checked values, or the saved state itself for a part with methods of its own."""

    part: Stateful
    values: Any

    def take_over(self) -> None:
        """Set the fields of the part."""
        if saves_by_itself(self.part):
            self.part.load_state_dict(self.values)
        else:
            self.part._set_learned(self.values)


@dataclass
class _Reading:
    """A saved state that is read: the `rest` that was not taken yet; arrays `in_use` stay as they are."""

    rest: dict[Any, Any]
    in_use: Set[int]
    joint: str

    def take(self, name: str, value: Any, limits: tuple[Any, ...]) -> Any:
        """Return what was saved of a field, checked by what it holds and its limits; raises `ValueError`."""
        if isinstance(value, np.ndarray):
            array = _array(name, self._pop(name), value, may_be_filled=id(value) not in self.in_use)
            _refuse(first_flaw(name, array, *limits))
            return array
        if hasattr(value, "_fields"):
            return self._named_tuple(name, value)
        if isinstance(value, Stateful):
            return self._part(name, value)
        saved = self._pop(name)
        if isinstance(value, np.random.Generator):
            return _generator_state(name, value, saved)
        if isinstance(value, Mapping):
            entries = {f"{name}.{key}": entry for key, entry in _mapping(name, saved).items()}
            inner = _Reading(entries, set(map(id, value.values())), self.joint)
            own_limits = limits[0] if limits else {}
            taken = {key: inner.take(f"{name}.{key}", entry, own_limits.get(key, ())) for key, entry in value.items()}
            inner.end()
            return taken
        if isinstance(value, str):
            _refuse("" if saved == value else f"{name} is {shown(saved)}, expected {shown(value)}")
            return value
        if not isinstance(value, bool | int | float | np.generic):
            kinds = "an array, a number, a text, a generator, a mapping of arrays or a part with a state of its own"
            raise ValueError(f"{name} holds {shown(value)} now, expected {kinds}")
        number = _array(name, saved, np.asarray(value))
        _refuse(first_flaw(name, number, *limits))
        return type(value)(number.item())

    def end(self) -> None:
        """Refuse what is left."""
        _refuse(f"{min(map(str, self.rest))} is not expected" if self.rest else "")

    def _pop(self, name: str) -> Any:
        if name not in self.rest:
            raise ValueError(f"{name} is missing")
        return self.rest.pop(name)

    def _named_tuple(self, name: str, value: Any) -> Any:
        prefix = _prefix(name, self.joint)
        kind: Any = type(value)
        taken = {}
        for field, inner in value._asdict().items():
            if isinstance(inner, np.ndarray | tuple):
                taken[field] = self.take(prefix + field, inner, declared_limits(kind, field))
        whole = value._replace(**taken)
        # Only where all numbers are within their limits does anybody ask for more, so `flaws` may rely on them.
        _refuse(next((prefix + flaw for flaw in getattr(whole, "flaws", tuple)()), ""))
        return whole

    def _part(self, name: str, part: Stateful) -> _Part:
        prefix = _prefix(name, self.joint)
        if prefix == name:
            names = [key for key in self.rest if not name or f"{key}".startswith(name)]
            saved: Any = {key.removeprefix(name) if name else key: self.rest.pop(key) for key in names}
        else:
            saved = _mapping(name, self._pop(name))
        if saves_by_itself(part):
            return _Part(part, saved)
        try:
            return _Part(part, part._checked_state(saved))
        except ValueError as error:
            raise ValueError(f"{prefix}{error}") from None


def _refuse(flaw: str) -> None:
    """Raise `ValueError` for a flaw, empty where there is none."""
    if flaw:
        raise ValueError(flaw)


def _prefix(name: str, joint: str) -> str:
    """Return what stands before the names of the fields of a tuple or a part of this name."""
    return name if not name or name.endswith(joint) else name + joint


def saves_by_itself(stateful: Stateful) -> bool:
    """Return whether an object has methods of its own to save or to load."""
    cls = type(stateful)
    return cls.state_dict is not Stateful.state_dict or cls.load_state_dict is not Stateful.load_state_dict


def _attribute(owner: Any, path: str) -> Any:
    for name in path.split("."):
        owner = getattr(owner, name)
    return owner


def _entries(name: str, value: Any, joint: str) -> Iterator[tuple[Any, Any]]:
    """Yield the entries of a state that hold a field."""
    if isinstance(value, np.ndarray):
        yield name, value
    elif hasattr(value, "_fields"):
        prefix = _prefix(name, joint)
        for field, inner in value._asdict().items():
            if isinstance(inner, np.ndarray | tuple):  # numbers in a named tuple are parameters
                yield from _entries(prefix + field, inner, joint)
    elif isinstance(value, Stateful):
        if _prefix(name, joint) == name:
            yield from ((name + key if name else key, entry) for key, entry in state_in_use(value).items())
        else:
            yield name, state_in_use(value)
    else:
        yield name, value.bit_generator.state if isinstance(value, np.random.Generator) else value


def _copied(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.copy()
    return {key: _copied(entry) for key, entry in value.items()} if isinstance(value, Mapping) else value


def _mapping(name: str, saved: Any) -> Mapping[Any, Any]:
    if not isinstance(saved, Mapping):
        raise ValueError(f"{name} is {shown(saved)}, expected fields by name")
    return saved


def _generator_state(name: str, rng: np.random.Generator, saved: Any) -> Any:
    try:
        type(rng.bit_generator)(0).state = saved
    except (TypeError, ValueError, LookupError, OverflowError):
        raise ValueError(f"{name} is {shown(saved)}, expected what rng.bit_generator.state gives") from None
    return saved


def _array(name: str, value: Any, current: np.ndarray, *, may_be_filled: bool = False) -> np.ndarray:
    """Return a saved value as an array like a current one, which is filled where that may be; raises `ValueError`."""
    try:
        saved = np.asarray(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} is {shown(value)}, expected an array") from None
    if not saved.ndim and saved.dtype.kind in "biuf" and current.size == 1:
        # A number fits where it is equal: how a Python number is written says nothing of its type.
        with np.errstate(invalid="ignore"):
            number = saved.astype(current.dtype)
        if number == saved:
            return number.reshape(current.shape)
    if saved.shape != current.shape:
        raise ValueError(f"{name} is of shape {saved.shape}, expected {current.shape}")
    if not np.can_cast(saved.dtype, current.dtype, "safe"):
        raise ValueError(f"{name} holds {saved.dtype}, expected {current.dtype}")
    # Arrays that were made for this state are filled, since a state may be most of the memory.
    if not may_be_filled or not current.flags.c_contiguous or not current.flags.owndata:
        return np.array(saved, current.dtype, order="C")
    current[...] = saved
    return current
