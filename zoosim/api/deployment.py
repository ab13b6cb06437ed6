"""Change what a running service decides by: launch a model, give it a share, promote it, take it back."""

import getpass
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from zoosim.core.calls import public_call
from zoosim.core.config import build, read_yaml
from zoosim.core.errors import ConfigError, DataError
from zoosim.core.extras import needs_extra
from zoosim.core.files import MOST_BYTES, read_content
from zoosim.core.parameters import shown, unknown

STATUS, LAUNCH, SHADOW, RULES, ANNOTATE = "status", "launch", "shadow", "rules", "annotate"
ACTIONS = (
    *(STATUS, LAUNCH, SHADOW, "share", "promote", "rollback", "pause", "resume", "freeze", "unfreeze", "retire"),
    RULES,
    ANNOTATE,
)
"""What may be done with a service; `status` changes nothing."""

STICKY = ("visitor", "event")
"""What an arm is drawn for."""

URL = "http://127.0.0.1:8100"
TIMEOUT = 60.0
"""Seconds that a change may take: a model is sent, loaded and compiled."""


@public_call
def deploy(
    action: str = STATUS,
    what: str | os.PathLike[str] | None = None,
    *,
    url: str = URL,
    arm: str | None = None,
    share: float | None = None,
    role: str | None = None,
    who: str | None = None,
    why: str | None = None,
    plan: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    sticky: str | None = None,
    time: str | None = None,
) -> dict[str, Any]:
    """Change what a running service decides by. Each change is a row of its log, with who made it and why.

    Args:
        action: "launch" a model as a new arm, let it be a "shadow", which decides for nobody, but it is said what it
            would have earned, give an arm another "share", "promote" it to be the champion, "rollback" to the
            champion of before, or take the share of the challenger that is named, "retire" an arm for good, "pause" and
            "resume" the launch, "freeze" learning and "unfreeze" it, of the arm that is named or of all, or set the
            "rules" of the shop; "annotate" changes nothing, but tells what happened to the shop, and "status" nothing
            at all.
        what: The file of the model to launch, or of the rules, or the name of the shadow, or what happened, else the
            name of the arm.
        url: Where the service listens. Its key is read from the variable `ZOOSIM_SERVE_KEY`.
        arm: The name of a new arm; its role by default.
        share: The share of the visitors for whom the arm decides, from 0 to 1. A challenger that is launched without
            one gets the shares of the plan, as long as the guardrails hold.
        role: "challenger" or "holdback", which never learns.
        who: Who makes the change; the user of this machine by default.
        why: Why.
        plan: The plan of a launch, a YAML file or its fields; see `docs/launch.md`. Default: that of the service.
        sticky: What a new arm is drawn for: a "visitor" (default), who keeps it, or each "event", each decision, anew.
        time: When what is annotated happened, as ISO 8601, in this machine's zone where it names none; now by default.

    Returns:
        What decides then: `arms` by name with their model, policy, share and role, `models` with where each came from,
        and `history`, the newest changes first; `launch` and `shadows` with how they stand.

    Raises:
        ConfigError: the action is unknown, or lacks what it needs.
        DataError: the file cannot be read.
        ServiceError: the service cannot be reached, or refuses the change.
    """
    if action not in ACTIONS:
        raise ConfigError(unknown("action: unknown", action, list(ACTIONS)))
    needs_extra("deploy", "serve")
    from zoosim.serving.client import KEY, Client

    moment = None if time is None else _moment(action, time)

    change: dict[str, Any] = {"share": share, "role": role, "why": why, "who": _user() if who is None else who}
    launches_shadow = action == LAUNCH and _is_name(what)
    if launches_shadow and arm is not None:
        raise ConfigError(f"launch: got {shown(what)}, which is no file, and the name {shown(arm)}; leave one out")
    if action in (LAUNCH, SHADOW):
        # Before the model is sent, which takes its time.
        if sticky not in (None, *STICKY):
            raise ConfigError(unknown("sticky: unknown", str(sticky), list(STICKY)))
        change |= {
            "arm": what if launches_shadow else arm,
            "plan": None if plan is None else _plan(plan),
            "sticky": sticky,
        }
    else:
        _check_alone(action, what, arm, {"plan": plan, "sticky": sticky})
        if action == ANNOTATE:
            _check_annotation(what, share, role)
        elif action == RULES:
            change["rules"] = _rules(what)
        else:
            change["arm"] = arm if what is None else os.fspath(what)
    with Client(url, os.environ.get(KEY, ""), TIMEOUT) as client:
        if action == ANNOTATE:
            client.annotate(str(what), who=change["who"], why=why or "", time=moment)
        elif action != STATUS:
            if action in (LAUNCH, SHADOW) and not launches_shadow:
                change["forecasts"] = _forecasts(what)
                change["model"] = client.keep_model(_content(action, what))
            client.deploy(action, **change)
        return client.deployment()


def _moment(action: str, text: str) -> datetime:
    """Return when something happened; raises `ConfigError` for what is no time."""
    if action != ANNOTATE:
        raise ConfigError(f"{action}: got a time, which an annotation alone has; leave it out")
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(f"time: got {shown(text)}, expected one such as 2026-11-29T14:05") from None


def _check_annotation(what: Any, share: float | None, role: str | None) -> None:
    """Refuse an annotation that says nothing, or what arms alone have: `ConfigError`."""
    if not isinstance(what, str) or not what.strip():
        raise ConfigError('annotate: got nothing, expected what happened, such as annotate "a campaign began"')
    if share is not None or role is not None:
        raise ConfigError("annotate: got a share or a role, which arms alone have; leave it out")


def _plan(plan: str | os.PathLike[str] | Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a plan; raises `ConfigError` where it cannot be one."""
    from zoosim.monitoring.launch_plan import Plan

    fields = dict(plan) if isinstance(plan, Mapping) else read_yaml(Path(plan))
    build(Plan, fields, "plan" if isinstance(plan, Mapping) else os.fspath(plan))
    return fields


def _rules(path: str | os.PathLike[str] | None) -> dict[str, Any]:
    """Return the rules of a shop in a file; raises `ConfigError` where it holds none."""
    from zoosim.serving.shop_rules.settings import ShopRules

    if path is None:
        raise ConfigError("rules: got no file, expected a YAML file of the rules of the shop")
    values = read_yaml(Path(path))
    # A file that was cut off before its first byte must not end all rules.
    if not values and not os.path.getsize(path):
        raise ConfigError(f"{path}: is empty, expected the rules of the shop, or {{}} to end them all")
    rules: ShopRules = build(ShopRules, values, os.fspath(path))
    return rules.model_dump(mode="json", exclude_defaults=True)


def _check_alone(action: str, what: Any, arm: str | None, of_launches: Mapping[str, Any]) -> None:
    """Refuse what an action on an arm does not take: `ConfigError`."""
    for name, value in of_launches.items():
        if value is not None:
            raise ConfigError(f"{action}: got a value of {name}, which a launch alone has; leave it out")
    if what is not None and (arm is not None or action == STATUS):
        expected = "none" if action == STATUS else "one name of an arm"
        raise ConfigError(
            f"{action}: got {shown(what)}{'' if arm is None else f' and {shown(arm)}'}, expected {expected}"
        )


def _is_name(what: str | os.PathLike[str] | None) -> bool:
    """Return whether what is to be launched is the name of a shadow, and no file."""
    return isinstance(what, str) and re.fullmatch(r"[A-Za-z0-9_-]{1,40}", what) is not None and not Path(what).exists()


def _content(action: str, model: str | os.PathLike[str] | None) -> bytes:
    if model is None:
        raise ConfigError(f"{action}: got no model, expected the file of one, as zoosim train writes it")
    try:
        return read_content(model, MOST_BYTES)
    except OSError as error:
        raise DataError(f"{model}: cannot be read ({error.strerror}); name the file of a model") from None


def _forecasts(model: str | os.PathLike[str] | None) -> list[dict[str, Any]]:
    """Return what the file beside a model forecasts of it; raises `DataError` where it holds something else."""
    if model is None or not os.path.isfile(model):  # which `_content` refuses
        return []
    from zoosim.policies.model import model_digest
    from zoosim.serving.forecasts.kept import forecasts_of_file

    return [forecast.plain for forecast in forecasts_of_file(model, model_digest(model))]


def _user() -> str:
    with suppress(OSError, KeyError):  # nobody whom this machine knows, as in some containers
        return getpass.getuser()
    return ""
