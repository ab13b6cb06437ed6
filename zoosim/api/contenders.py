"""The policies of a rehearsal: those trained on the shop's log, as `zoosim train` would deploy them, and others."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from zoosim.core.errors import DataError, PolicyError

if TYPE_CHECKING:
    from zoosim.core.types import Progress
    from zoosim.logs.log import Log
    from zoosim.policies.base import Policy

UNTRAINED_TOO = ("adaptive",)
"""Policies that also compete untrained, so that the rehearsal shows what training on the log is worth."""


class Contenders(NamedTuple):
    """The policies of a rehearsal, by name.

    Args:
        sources: What `zoosim.run` takes of each: a built-in name, a class or the file of a trained policy.
        trained: The trained policies.
        models: The files of trained policies that can be served; none for a log without a schema.
        learners: Those that go on learning from what they show.
        notes: Why policies do not compete, or compete untrained, by name.
        later: The rows of the log that nothing was trained on; None where it has too few to train on any.
    """

    sources: dict[str, Any]
    trained: "dict[str, Policy]"
    models: dict[str, Path]
    learners: frozenset[str]
    notes: dict[str, tuple[str, ...]]
    later: "Log | None"


def train_contenders(log: "Log", line_up: Mapping[str, Any], folder: Path, progress: "Progress") -> Contenders:
    """Train policies on the earliest 80% of a log, as `zoosim train` does, and save each in a folder.

    A policy that cannot be trained or saved competes untrained if it learns online, and else not at all; so does one
    that knows visitors by their id, which nobody tells a model.

    Args:
        log: The shop's log.
        line_up: Built-in names, `FILE.py:Class` or classes, by the policy's name.
        folder: Where files of trained policies are written; it is made when there are any.
        progress: Called with lines about how far it is.
    """
    from zoosim.policies.registry import find_class
    from zoosim.rehearsal.advice import TRAINED

    classes = {name: find_class(source) for name, source in line_up.items()}
    to_train = {name: line_up[name] for name, cls in classes.items() if cls.learns and not cls.needs_user_ids}
    policies, notes, earlier, later = _trained(log, to_train, progress)
    contenders = Contenders({}, {}, {}, frozenset(), notes, later)
    learners = set()
    for name, source in line_up.items():
        saved = None
        if name in policies:
            assert earlier is not None
            saved = _save(policies[name], name, earlier, folder / f"{name}{TRAINED}")
        if saved is not None:
            contenders.sources[saved.stem] = _with_class(saved, policies[name])
            contenders.trained[saved.stem] = policies[name]
            if log.fitted is not None:
                contenders.models[saved.stem] = saved
            if classes[name].learns_online:
                learners.add(saved.stem)
        is_untrained = classes[name].learns_online or not classes[name].learns
        if is_untrained and (saved is None or name in UNTRAINED_TOO):
            contenders.sources[name] = source
            if classes[name].learns_online and classes[name].learns:
                learners.add(name)
        if saved is None and classes[name].learns:
            notes.setdefault(name, (_why_untrained(classes[name]),))
    return contenders._replace(learners=frozenset(learners))


def _trained(
    log: "Log", line_up: Mapping[str, Any], progress: "Progress"
) -> "tuple[dict[str, Policy], dict[str, tuple[str, ...]], Log | None, Log | None]":
    """Return the policies that could be trained, notes on the others, and the rows to train on and those after."""
    from threadpoolctl import threadpool_limits

    from zoosim.api.logs import new_policy
    from zoosim.api.models import SHARE, train_each
    from zoosim.off_policy.training import earlier_and_later

    try:
        earlier, later = earlier_and_later(log, SHARE)
    except DataError as error:
        return {}, dict.fromkeys(line_up, (f"cannot be trained: {error}",)), None, None
    policies: dict[str, Policy] = {}
    notes: dict[str, tuple[str, ...]] = {}
    for name, source in line_up.items():
        try:
            with threadpool_limits(1):  # with more, the last digits depend on how many there are
                made = {name: new_policy(name, source, log, 0)}
                # Without ids of visitors, since a model that decides is told none; and one policy at a time, since
                # `train_each` raises where all that it is given fail.
                policies |= train_each(made, replace(earlier, user_ids=None), progress)[0]
        except PolicyError as error:
            notes[name] = (f"could not be trained: {error}",)
    return policies, notes, earlier, later


def _why_untrained(cls: "type[Policy]") -> str:
    """Return why a policy that learns, and was not left out for another reason, has learned nothing from a log."""
    if cls.needs_user_ids:
        return "knows visitors by their id, which nobody tells a trained model"
    return "cannot be saved"


def _save(policy: "Policy", name: str, earlier: "Log", path: Path) -> Path | None:
    """Write a trained policy to a file, as a model where its log has a schema; None where it cannot be saved."""
    from zoosim.api.models import describe_training, described_shop
    from zoosim.off_policy.training import row_hashes
    from zoosim.policies.model import SUFFIX, Model, save_model
    from zoosim.policies.persistence import SUFFIX as POLICY_SUFFIX
    from zoosim.policies.persistence import save_policy

    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        if earlier.fitted is None or not earlier.names:
            return save_policy(policy, path.with_name(path.name + POLICY_SUFFIX))
        facts = describe_training(earlier, name, 0)
        model = Model(policy, *described_shop(earlier), facts, row_hashes(earlier))
        return save_model(model, path.with_name(path.name + SUFFIX))
    except PolicyError:
        return None


def _with_class(file: Path, policy: "Policy") -> str:
    """Return how a run names the file of a trained policy: with its class behind it, if that is the user's own."""
    from zoosim.policies.files import OF
    from zoosim.policies.persistence import source_of
    from zoosim.policies.registry import BUILT_IN

    source = source_of(policy)
    return str(file) if source in BUILT_IN else f"{file}{OF}{source}"
