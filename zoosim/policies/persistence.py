"""Learned policies in files: class, parameters and task as JSON, and arrays; nothing in a file is executed.

Models, saved policies and the snapshots of a service hold a policy in the same way, and read it by the same functions.
"""

import inspect
import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np

from zoosim.core.blame import one_line, reason_of
from zoosim.core.checks import check_whole
from zoosim.core.claims import holding
from zoosim.core.config import build
from zoosim.core.errors import ConfigError, DataError, PolicyError, ZoosimError
from zoosim.core.files import resolved
from zoosim.core.packed import Packing, read_packed, write_packed
from zoosim.core.parameters import parameters_of, shown
from zoosim.core.search_config import RewardWeights
from zoosim.core.state import state_in_use
from zoosim.core.types import PolicySpec
from zoosim.policies.base import Policy, policy_name
from zoosim.policies.boosts.base import BoostSpec
from zoosim.policies.registry import BUILT_IN, find_class, without_user_code

FORMAT = 4
SUFFIX = ".npz"
PACKING = Packing(b"", "saved policy", "save it anew with zoosim.save_policy", "give the file that save_policy wrote")
MOST = {"user_dim": 10**7, "product_dim": 10**7, "n_users": 10**15, "steps": 10**15}
"""No file says more of a task."""


def save_policy(policy: Policy, path: str | os.PathLike[str]) -> Path:
    """Write what a policy has learned to a file; see `load_policy`.

    A policy of your own is found again by its file and class, so keep the file where it is.

    Args:
        policy: The policy.
        path: The file; it ends in `.npz`.

    Raises:
        ConfigError: another ending, or a folder that is not there.
        PolicyError: the task is of a class of your own, the state holds something else than arrays and plain values, or
            class, parameters and state do not bring the policy back, as with a guardrail around a policy with
            parameters of its own.
    """
    where = Path(path)
    if where.suffix != SUFFIX or not where.parent.is_dir():
        raise ConfigError(f"saved policy: got {path}, expected a file in a folder that is there, ending in {SUFFIX}")
    header, arrays = packed_policy(policy)
    write_packed(where, PACKING, {"format": FORMAT, **header}, arrays)
    return where


def packed_policy(policy: Policy) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a policy's class, parameters, task and state as JSON has them, and its arrays by name, not copied.

    Raises `PolicyError` where they do not bring the policy back.
    """
    name = policy_name(type(policy))
    arrays: dict[str, Any] = {}
    header = {
        "policy": source_of(policy),
        "params": {key: getattr(policy, key) for key in parameters_of(type(policy))},
        "spec": _packed_spec(name, policy.spec),
        "state": _packed(name, state_in_use(policy), arrays),
    }
    try:
        with _named("class, parameters and state do not bring it back"):
            unpacked_policy(json.loads(json.dumps(header)), arrays, type(policy))
    except DataError as error:
        raise PolicyError(f"policy {name}: {error}") from error
    return header, arrays


def packed_state(policy: Policy) -> tuple[Any, dict[str, np.ndarray]]:
    """Return what a policy has learned as JSON has it, and its arrays by name, not copied; raises `PolicyError`."""
    arrays: dict[str, np.ndarray] = {}
    return _packed(policy_name(type(policy)), state_in_use(policy), arrays), arrays


def unpack_state(policy: Policy, packed: Any, arrays: Mapping[str, np.ndarray]) -> None:
    """Give a policy a state; nothing is changed where that fails.

    Args:
        policy: The policy.
        packed, arrays: What `packed_state` returned.

    Raises:
        DataError: the state does not fit the policy.
    """
    with _named(f"state of {policy_name(type(policy))}: does not fit it"):
        policy.load_state_dict(_unpacked(packed, arrays))


def load_policy(path: str | os.PathLike[str], policy: str | type[Policy] | None = None) -> Policy:
    """Return the policy of a file that `save_policy` wrote; it decides as the saved one would have gone on.

    Args:
        path: The file; nothing in it is executed.
        policy: The class, or `FILE.py:Class`, of a policy of your own, which is imported; a built-in policy needs none.

    Raises:
        ConfigError, PolicyError: `policy` names no policy.
        DataError: the file is none, is broken or is of another version; or its policy is your own and `policy` does
            not name it.
    """
    where = Path(path)
    header, arrays = read_packed(where, PACKING)
    if header.get("format") != FORMAT:
        raise DataError(f"{path}: has format {header.get('format')}, expected {FORMAT}; save it anew by this version")
    policy_class = class_of_saved(where, header, policy)
    with _named(f"{path}: is no saved policy, or broken"):
        return unpacked_policy(header, arrays, policy_class)


def class_of_saved(path: Path, header: Mapping[str, Any], policy: str | type[Policy] | None) -> type[Policy]:
    """Return the class of the policy in a file; what the file names is never imported.

    Args:
        path: The file, for messages.
        header: Its header, which names a built-in policy or one of your own.
        policy: The class that the caller names, in place of the file's.

    Raises:
        ConfigError, PolicyError: `policy` names no policy.
        DataError: the policy is no built-in one, and `policy` is None.
    """
    source = header.get("policy")
    is_built_in = isinstance(source, str) and source in BUILT_IN
    if policy is not None:
        return find_class(policy)
    if is_built_in:
        return find_class(str(source))
    raise DataError(
        f"{path}: holds a policy of your own, {shown(source)}; name its FILE.py:Class: {path}@FILE.py:Class to "
        'evaluate it, zoosim.load(..., policy="FILE.py:Class") or zoosim.load_policy(..., policy=...) to use it'
    )


def unpacked_policy(header: Mapping[str, Any], arrays: Mapping[str, np.ndarray], policy_class: type[Policy]) -> Policy:
    """Make the policy of which `packed_policy` returned this, and give it its state; what that raises is passed on.

    Args:
        header: Class, parameters, task and state as JSON has them.
        arrays: The arrays, by name.
        policy_class: The class; what the header names is not looked at.
    """
    spec = _unpacked_spec(header["spec"])
    with without_user_code(), holding(sum(array.size for array in arrays.values())):
        policy = policy_class(spec, np.random.default_rng(0), **header["params"])
    policy.load_state_dict(_unpacked(header["state"], arrays))
    return policy


@contextmanager
def _named(what: str) -> Iterator[None]:
    """Turn whatever a header, an array or a policy's class raises into a `DataError` of one line."""
    try:
        yield
    except (Exception, SystemExit) as error:
        reason = one_line(error) if isinstance(error, ZoosimError) else reason_of(error)
        raise DataError(f"{what}: {reason}") from error


def _packed_spec(name: str, spec: PolicySpec) -> dict[str, Any]:
    """Return a task as JSON has it; that of boosts has weights of the reward."""
    if type(spec) is PolicySpec:
        return asdict(spec)
    if type(spec) is not BoostSpec:
        raise PolicyError(f"policy {name}: is made for a {type(spec).__name__}, expected a PolicySpec or a BoostSpec")
    values = {field.name: getattr(spec, field.name) for field in fields(spec)}
    return {**values, "reward": spec.reward.model_dump()}


def _unpacked_spec(packed: Mapping[str, Any]) -> PolicySpec:
    for name, most in MOST.items():
        check_whole(f"spec: {name}", packed.get(name, 0), 0, most)
    if "reward" not in packed:
        return PolicySpec(**packed)
    reward = build(RewardWeights, packed["reward"], "saved policy: reward")
    return BoostSpec(**{**packed, "reward": reward})


def source_of(policy: Policy) -> str:
    """Return a policy's built-in name, or FILE.py:Class; raises `PolicyError` where no file has the class."""
    cls = type(policy)
    name = policy_name(cls)
    if name in BUILT_IN and find_class(name) is cls:
        return name
    file = inspect.getsourcefile(cls)
    if file is None or "." in cls.__qualname__:
        raise PolicyError(f"policy {name}: cannot be found again, expected a class at the top of a Python file")
    return f"{resolved(file)}:{cls.__name__}"


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
    if isinstance(value, float) and not math.isfinite(value):
        return {"number": str(value)}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise PolicyError(f"policy {name}: its state holds a {type(value).__name__}, expected arrays and plain values")


def _unpacked(packed: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    if not isinstance(packed, dict):
        return packed
    ((kind, content),) = packed.items()
    if kind == "array":
        return arrays[f"array_{content}"]
    if kind == "number":
        return float(content)
    if kind == "items":
        return {key: _unpacked(value, arrays) for key, value in content}
    return {"list": list, "tuple": tuple}[kind](_unpacked(value, arrays) for value in content)
