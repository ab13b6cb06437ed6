"""Changes of what a service decides by: models are launched, get larger shares, are promoted, and taken back.

Each is a start in the log that says who made it and why. It changes names and shares alone: the state of an arm, what
is open of it included, goes on with it, so that nothing is loaded, and nothing that was decided is lost.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from zoosim.core.config import build
from zoosim.core.errors import ConfigError
from zoosim.core.parameters import shown, unknown
from zoosim.policies.base import policy_name
from zoosim.policies.model import Model
from zoosim.serving.arm_replica import checked_rules
from zoosim.serving.bodies import DeploymentBody, hash_of
from zoosim.serving.current import SETTINGS
from zoosim.serving.events import CHALLENGER, CHAMPION, HOLDBACK, PREVIOUS, SHADOW, Arm, Start
from zoosim.serving.launches.state import launch_in
from zoosim.serving.refusals import Conflict
from zoosim.serving.shop_rules.settings import ShopRules

MODELS = "models"
"""The part of the changes in a log that says where models came from, by digest."""

FROZEN_SINCE = "frozen since"
"""The part of the changes in a log that says when a check froze learning."""

MADE = "made"
"""The part of the changes in a log that says which changes were made, by their ids: hashes of what they asked for."""

MOST_MADE = 20
"""Changes of which that is kept, the newest."""

MOST_MODELS = 100
"""Models of which that is kept, the newest."""

JUDGED_BY = ("policies", "rows", "first", "last")
"""What is kept of how a model was judged when it was trained."""


def launch(start: Start, body: DeploymentBody) -> Start:
    """Return a start with a new arm."""
    name = body.arm or body.role
    running = launch_in(start)
    if is_launch(body) and running is not None and running.is_running:
        raise ConfigError(f"launch: {running.arm} is running; promote it or roll it back first")
    # A challenger that was taken back makes room for the next one.
    arms = [arm for arm in start.arms if arm.name != name or arm.share]
    if name in (CHAMPION, PREVIOUS) or any(arm.name == name for arm in arms):
        raise ConfigError(f"arm: got {shown(name)}, which is there already; give the new one another name")
    share = 0.0 if body.share is None else body.share
    model = launched_digest(start, body)
    return _with_arms(start, [*arms, Arm(name, model, share, body.role, start.number + 1, body.sticky)])


def launched_digest(start: Start, body: DeploymentBody) -> str:
    """Return the digest of the model that a change brings: of the shadow that it names, where it names no model."""
    if body.model:
        return body.model
    shadow_arm = next((arm for arm in start.arms if arm.role == SHADOW and arm.name == body.arm), None)
    if body.action != "launch" or shadow_arm is None:
        of_shadow = f", and {shown(body.arm)} is no shadow" if body.arm else ""
        raise ConfigError(f"model: got none{of_shadow}, expected the digest of a model that the service keeps")
    return shadow_arm.model


def add_shadow(start: Start, body: DeploymentBody) -> Start:
    """Return a start with a new arm that decides for nobody, and of which it is said what it would have earned."""
    name = body.arm or SHADOW
    if name in (CHAMPION, PREVIOUS) or any(arm.name == name for arm in start.arms):
        raise ConfigError(f"arm: got {shown(name)}, which is there already; give the shadow another name, or retire it")
    if body.share is not None:
        raise ConfigError("shadow: got a share, and a shadow decides for nobody; launch the model, or leave it out")
    return _with_arms(start, [*start.arms, Arm(name, launched_digest(start, body), 0.0, SHADOW, start.number + 1)])


def is_launch(body: DeploymentBody) -> bool:
    """Return whether a change begins a launch, whose share grows by a plan."""
    return body.action == "launch" and body.role == CHALLENGER and body.share is None


def change_share(start: Start, body: DeploymentBody) -> Start:
    """Return a start in which an arm has another share."""
    arm = _deciding_arm(start, body)
    if body.share is None:
        raise ConfigError("share: got none, expected that of the arm, from 0 to 1")
    if arm.role == PREVIOUS and body.share:
        raise ConfigError(f"arm {arm.name}: decided before; roll back to it, or launch its model anew")
    return with_share(start, arm.name, body.share)


def promote(start: Start, body: DeploymentBody) -> Start:
    """Return a start in which an arm is the champion; the champion of before can come back."""
    return promoted(start, _deciding_arm(start, body).name)


def roll_back(start: Start, body: DeploymentBody) -> Start:
    """Return a start in which a challenger decides for nobody; without a name one with the champion of before."""
    if not body.arm or body.arm == CHAMPION:
        previous = next((arm for arm in start.arms if arm.role == PREVIOUS), None)
        if previous is None:
            raise ConfigError("arm: got none, and there is no champion of before; name the challenger to take back")
        return promoted(start, previous.name)
    return with_share(start, _deciding_arm(start, body).name, 0.0)


def retire(start: Start, body: DeploymentBody) -> Start:
    """Return a start without an arm: what it has learned, and what is open of it, is given up."""
    arm = _arm_in(start, body.arm)
    return _with_arms(start, [other for other in start.arms if other.name != arm.name])


def freeze(start: Start, body: DeploymentBody) -> Start:
    """Return a start in which an arm is a holdback, as it is by now; without a name one in which no arm learns."""
    if not body.arm:
        return with_frozen(start, True)
    arm = _deciding_arm(start, body)
    running = launch_in(start)
    if running is not None and running.is_running and running.arm == arm.name:
        # A holdback draws its visitors by another hash, so they would not be those that the launch counts.
        raise ConfigError(f"freeze: {arm.name} is being launched; promote it or roll it back first")
    return _with_arms(start, _replaced(start, msgspec.structs.replace(arm, role=HOLDBACK)))


def unfreeze(start: Start, body: DeploymentBody) -> Start:
    """Return a start in which arms learn again; a holdback that is named becomes a challenger."""
    if not body.arm:
        return with_frozen(start, False)
    arm = _deciding_arm(start, body)
    return _with_arms(start, _replaced(start, msgspec.structs.replace(arm, role=CHALLENGER)))


def set_rules(start: Start, body: DeploymentBody) -> Start:
    """Return a start with other rules of the shop."""
    if body.rules is None:
        raise ConfigError("rules: got none, expected those of the shop, such as {most_shown: 3}; {} for none at all")
    shop_rules: ShopRules = build(ShopRules, body.rules, "rules")
    return _with_setting(start, "shop_rules", shop_rules)


def unchanged(start: Start, body: DeploymentBody) -> Start:
    """Return the start: the launch alone changes."""
    return start


ACTIONS: dict[str, Callable[[Start, DeploymentBody], Start]] = {
    "launch": launch,
    "shadow": add_shadow,
    "share": change_share,
    "promote": promote,
    "rollback": roll_back,
    "retire": retire,
    "freeze": freeze,
    "unfreeze": unfreeze,
    "pause": unchanged,
    "resume": unchanged,
    "rules": set_rules,
}
"""What may be done, by name."""


def deployed(start: Start, body: DeploymentBody) -> Start:
    """Return the start after a change, the same one where it was made before.

    Raises:
        ConfigError: it cannot be made.
        Conflict: another change had its id.
    """
    made: dict[str, str] = dict(json.loads(start.changes).get(MADE, []))
    # A client that lost the answer sends the change again, perhaps after others: to roll back twice would undo it.
    content = hash_of(body).hex()
    if made.get(body.change_id, content) != content:
        raise Conflict(f"change_id: got {shown(body.change_id)}, which another change has; give each its own")
    if body.change_id in made:
        return start
    changed = ACTIONS[body.action](start, body)
    if body.change_id:
        newest = [*made.items(), (body.change_id, content)][-MOST_MADE:]
        changed = msgspec.structs.replace(changed, changes=_packed({**json.loads(changed.changes), MADE: newest}))
    why = body.why or " ".join(filter(None, (body.action, body.arm)))
    return msgspec.structs.replace(changed, who=body.who, why=why)


def registered(start: Start, digest: str, model: Model, who: str, came: float) -> Start:
    """Return a start that says where a model came from.

    Args:
        start: A start before it.
        digest: The digest of the model.
        model: The model.
        who: Who brought it.
        came: When, in seconds since 1970.
    """
    changes = json.loads(start.changes)
    entries = changes.get(MODELS, {})
    facts = model.facts
    judged = dict(facts.get("judged", {}))
    entry = {
        "policy": policy_name(type(model.policy)),
        "schema": model.fitted.fingerprint[:12],
        "rows": model.rows,
        "first": facts.get("first"),
        "last": facts.get("last"),
        "verdict": {name: judged[name] for name in JUDGED_BY if name in judged},
        "parent": start.model,
        "who": who,
        "came": round(came),
    }
    newest = sorted({digest: entry, **entries}.items(), key=lambda item: float(item[1]["came"]))[-MOST_MODELS:]
    changes[MODELS] = dict(newest)
    return msgspec.structs.replace(start, changes=_packed(changes))


def state_of(digest: str, start: Start) -> str:
    """Return what a model of the registry is now: champion, the role of its arm, or retired."""
    if digest == start.model:
        return CHAMPION
    arm = next((arm for arm in start.arms if arm.model == digest), None)
    return "retired" if arm is None else arm.role


def models_in(start: Start) -> dict[str, Any]:
    """Return where the models of a log came from, and what each is now, by digest."""
    entries = json.loads(start.changes).get(MODELS, {})
    return {digest: {**entry, "state": state_of(digest, start)} for digest, entry in entries.items()}


def promoted(start: Start, name: str) -> Start:
    """Return a start in which an arm is the champion, and the champion of before decides for nobody."""
    arm = _arm_in(start, name)
    before = Arm(PREVIOUS, start.model, 0.0, PREVIOUS, start.turn)
    arms = [other for other in start.arms if other.name != arm.name and other.role != PREVIOUS]
    return _with_arms(msgspec.structs.replace(start, model=arm.model, turn=arm.turn), [*arms, before])


def with_frozen(start: Start, is_frozen: bool, since: int = 0) -> Start:
    """Return a start in which no arm learns, or all do again.

    Args:
        start: The start before.
        is_frozen: Whether none learns.
        since: When a check found that, in microseconds since 1970, to end it by itself; 0 where a person ends it.
    """
    changes = json.loads(start.changes)
    changes[FROZEN_SINCE] = since
    return _with_setting(msgspec.structs.replace(start, changes=_packed(changes)), "frozen", is_frozen)


def _with_setting(start: Start, name: str, value: Any) -> Start:
    """Return a start with another value of a setting that is one of its rules."""
    rules = checked_rules(start).model_copy(update={name: value})
    changes = json.loads(start.changes)
    changes[SETTINGS] = {**changes.get(SETTINGS, {}), name: rules.model_dump(mode="json")[name]}
    return msgspec.structs.replace(start, rules=rules.model_dump_json().encode(), changes=_packed(changes))


def frozen_since(start: Start) -> int:
    """Return when a check froze learning, in microseconds since 1970; 0 where none did."""
    return int(json.loads(start.changes).get(FROZEN_SINCE, 0))


def _packed(changes: Mapping[str, Any]) -> bytes:
    return json.dumps(changes, sort_keys=True).encode()


def with_share(start: Start, name: str, share: float) -> Start:
    """Return a start in which an arm has a share."""
    return _with_arms(start, _replaced(start, msgspec.structs.replace(_arm_in(start, name), share=share)))


def _with_arms(start: Start, arms: list[Arm]) -> Start:
    total = sum(arm.share for arm in arms)
    if total > 1.0 + 1e-9:
        raise ConfigError(f"share: got shares that add up to {total:g}, expected at most 1; the champion gets the rest")
    return msgspec.structs.replace(start, arms=arms)


def _replaced(start: Start, arm: Arm) -> list[Arm]:
    return [arm if other.name == arm.name else other for other in start.arms]


def with_holdback(start: Start, model: str, share: float) -> Start:
    """Return a start with a holdback of a model; the same one where it has a holdback."""
    if any(arm.role == HOLDBACK for arm in start.arms):
        return start
    if any(arm.name == HOLDBACK for arm in start.arms):
        raise ConfigError(f"arm: got {HOLDBACK!r}, as the plan names the arm that learns nothing; give another name")
    return _with_arms(start, [Arm(HOLDBACK, model, share, HOLDBACK, start.number + 1), *start.arms])


def _deciding_arm(start: Start, body: DeploymentBody) -> Arm:
    """Return the arm that a change is about; raises `ConfigError` where it is none, or a shadow."""
    arm = _arm_in(start, body.arm)
    if arm.role == SHADOW:
        remedy = f"launch it first (zoosim deploy launch {arm.name}), or retire it"
        raise ConfigError(f"{body.action}: {arm.name} is a shadow, which decides for nobody; {remedy}")
    return arm


def _arm_in(start: Start, name: str) -> Arm:
    """Return an arm of a start; raises `ConfigError` where it has none of this name."""
    for arm in start.arms:
        if arm.name == name:
            return arm
    names = [arm.name for arm in start.arms]
    if not names:
        raise ConfigError(f"arm: got {shown(name)}, and there is none beside the champion; launch a model first")
    raise ConfigError(unknown("arm: unknown", name, names))
