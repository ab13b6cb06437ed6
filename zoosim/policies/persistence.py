"""What a policy has learned, in a file: class, parameters and task as JSON, and arrays; nothing is unpickled."""

import inspect
import json
import os
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np

from zoosim.core.blame import one_line
from zoosim.core.config import build
from zoosim.core.errors import ConfigError, DataError, PolicyError, ZoosimError
from zoosim.core.files import atomic
from zoosim.core.parameters import parameters_of
from zoosim.core.search_config import RewardWeights
from zoosim.core.types import PolicySpec
from zoosim.policies.base import Policy, policy_name
from zoosim.policies.boosts.base import BoostSpec
from zoosim.policies.registry import BUILT_IN, find_class

FORMAT = 3
SUFFIX = ".npz"
FIELDS = ("format", "policy", "params", "spec", "state")


def save_policy(policy: Policy, path: str | os.PathLike[str]) -> Path:
    """Write what a policy has learned to a file that ends in `.npz`; see `load_policy`.

    A policy of your own is found again by its file and class, so keep the file where it is. Raises `ConfigError` for
    another ending or a folder that is not there, and `PolicyError` for a task of a class of your own, for a state that
    holds something else than arrays and plain values, and for a policy that its class, parameters and state do not
    bring back, such as a guardrail around a policy with parameters of its own.
    """
    where = Path(path)
    if where.suffix != SUFFIX or not where.parent.is_dir():
        raise ConfigError(f"saved policy: got {path}, expected a file in a folder that is there, ending in {SUFFIX}")
    header, arrays = packed_policy(policy)
    with atomic(where) as temporary, temporary.open("wb") as file:
        np.savez(file, **arrays, header=np.array(json.dumps(header)))
    return where


def packed_policy(policy: Policy) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a policy's class, parameters, task and state as JSON has them, and its arrays by name.

    Raises `PolicyError` where they do not bring the policy back.
    """
    name = policy_name(type(policy))
    arrays: dict[str, Any] = {}
    header = {
        "format": FORMAT,
        "policy": _source_of(policy),
        "params": {key: getattr(policy, key) for key in parameters_of(type(policy))},
        "spec": _packed_spec(name, policy.spec),
        "state": _packed(name, policy.state_dict(), arrays),
    }
    try:
        unpacked_policy(json.loads(json.dumps(header)), arrays)
    except (ZoosimError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise PolicyError(
            f"policy {name}: class, parameters and state do not bring it back: {one_line(error)}"
        ) from error
    return header, arrays


def packed_state(policy: Policy) -> tuple[Any, dict[str, np.ndarray]]:
    """Return what a policy has learned as JSON has it, and its arrays by name; raises `PolicyError`."""
    arrays: dict[str, np.ndarray] = {}
    return _packed(policy_name(type(policy)), policy.state_dict(), arrays), arrays


def unpack_state(policy: Policy, packed: Any, arrays: Mapping[str, np.ndarray]) -> None:
    """Give a policy what `packed_state` returned; raises `DataError`, and then changes nothing, for what it did not."""
    try:
        policy.load_state_dict(_unpacked(packed, arrays))
    except (ZoosimError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(f"state of {policy_name(type(policy))}: does not fit it ({one_line(error)})") from None


def load_policy(path: str | os.PathLike[str]) -> Policy:
    """Return the policy of a file that `save_policy` wrote; it decides as the saved one would have gone on.

    Raises `DataError` for a file that is none, is broken or is of another version.
    """
    header, arrays = _read(Path(path))
    if header["format"] != FORMAT:
        raise DataError(f"{path}: has format {header['format']}, expected {FORMAT}; save it anew by this version")
    try:
        return unpacked_policy(header, arrays)
    except (ZoosimError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(f"{path}: is no saved policy, or broken ({type(error).__name__}: {error})") from error


def unpacked_policy(header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Policy:
    """Make the policy of which `packed_policy` returned this, and give it its state."""
    spec = _unpacked_spec(header["spec"])
    policy = find_class(header["policy"])(spec, np.random.default_rng(0), **header["params"])
    policy.load_state_dict(_unpacked(header["state"], arrays))
    return policy


def _packed_spec(name: str, spec: PolicySpec) -> dict[str, Any]:
    """Return a task as JSON has it; that of boosts has weights of the reward."""
    if type(spec) is PolicySpec:
        return asdict(spec)
    if type(spec) is not BoostSpec:
        raise PolicyError(f"policy {name}: is made for a {type(spec).__name__}, expected a PolicySpec or a BoostSpec")
    values = {field.name: getattr(spec, field.name) for field in fields(spec)}
    return {**values, "reward": spec.reward.model_dump()}


def _unpacked_spec(packed: Mapping[str, Any]) -> PolicySpec:
    if "reward" not in packed:
        return PolicySpec(**packed)
    reward = build(RewardWeights, packed["reward"], "saved policy: reward")
    return BoostSpec(**{**packed, "reward": reward})


def _source_of(policy: Policy) -> str:
    """Return a built-in name, or FILE.py:Class."""
    cls = type(policy)
    name = policy_name(cls)
    if name in BUILT_IN and find_class(name) is cls:
        return name
    file = inspect.getsourcefile(cls)
    if file is None or "." in cls.__qualname__:
        raise PolicyError(f"policy {name}: cannot be found again, expected a class at the top of a Python file")
    return f"{Path(file).resolve()}:{cls.__name__}"


def _packed(name: str, value: Any, arrays: dict[str, np.ndarray]) -> Any:
    """Return a value as JSON has it; its arrays go to `arrays`, as array_0 and so on, and stand there by number."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufU":
        number = len(arrays)
        arrays[f"array_{number}"] = value
        return {"array": number}
    if isinstance(value, np.generic):
        return _packed(name, value.item(), arrays)
    if isinstance(value, Mapping) and all(isinstance(key, str | int) for key in value):
        return {"items": [[key, _packed(name, entry, arrays)] for key, entry in value.items()]}
    if isinstance(value, list | tuple):
        kind = "list" if isinstance(value, list) else "tuple"
        return {kind: [_packed(name, entry, arrays) for entry in value]}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise PolicyError(f"policy {name}: its state holds a {type(value).__name__}, expected arrays and plain values")


def _unpacked(packed: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    if not isinstance(packed, dict):
        return packed
    ((kind, content),) = packed.items()
    if kind == "array":
        return arrays[f"array_{content}"]
    if kind == "items":
        return {key: _unpacked(value, arrays) for key, value in content}
    return {"list": list, "tuple": tuple}[kind](_unpacked(value, arrays) for value in content)


def _read(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        header = json.loads(str(arrays.pop("header")))
        return {field: header[field] for field in FIELDS}, arrays
    except FileNotFoundError:
        raise DataError(f"{path}: is not there; give the file that save_policy wrote") from None
    except (OSError, ValueError, LookupError, EOFError, TypeError, AttributeError, zipfile.BadZipFile) as error:
        raise DataError(f"{path}: is no saved policy, or broken; save it anew with zoosim.save_policy") from error
