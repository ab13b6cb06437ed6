"""Change what a running service decides by: launch a model, give it a share, promote it, take it back."""

import getpass
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from zoosim.core.calls import public_call
from zoosim.core.config import read_yaml
from zoosim.core.errors import ConfigError, DataError
from zoosim.core.extras import needs_extra
from zoosim.core.parameters import unknown

STATUS, LAUNCH = "status", "launch"
ACTIONS = (STATUS, LAUNCH, "share", "promote", "rollback", "pause", "resume", "freeze", "unfreeze", "retire")
"""What may be done with a service; `status` changes nothing."""

URL = "http://127.0.0.1:8100"
KEY = "ZOOSIM_SERVE_KEY"
"""The variable of the environment that holds the key of the service."""


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
) -> dict[str, Any]:
    """Change what a running service decides by. Each change is a row of its log, with who made it and why.

    Args:
        action: "launch" a model as a new arm, give an arm another "share", "promote" it to be the champion, "rollback"
            to the champion of before, or take the share of the challenger that is named, "retire" an arm for good,
            "pause" and "resume" the launch, "freeze" learning and "unfreeze" it, of the arm that is named or of all;
            "status" changes nothing.
        what: The file of the model to launch, else the name of the arm.
        url: Where the service listens. Its key is read from the variable `ZOOSIM_SERVE_KEY`.
        arm: The name of a new arm; its role by default.
        share: The share of the visitors for whom the arm decides, from 0 to 1. A challenger that is launched without
            one gets the shares of the plan, as long as the guardrails hold.
        role: "challenger" or "holdback", which never learns.
        who: Who makes the change; the user of this machine by default.
        why: Why.
        plan: The plan of a launch, a YAML file or its fields; see `docs/launch.md`. Default: that of the service.

    Returns:
        What decides then: `arms` by name with their model, policy, share and role, `models` with where each came from,
        and `history`, the newest changes first.

    Raises:
        ConfigError: the action is unknown, or lacks what it needs.
        DataError: the file cannot be read.
        ServiceError: the service cannot be reached, or refuses the change.
    """
    if action not in ACTIONS:
        raise ConfigError(unknown("action: unknown", action, list(ACTIONS)))
    needs_extra("deploy", "serve")
    from zoosim.serving.client import Client

    with Client(url, os.environ.get(KEY, "")) as client:
        if action != STATUS:
            change: dict[str, Any] = {"share": share, "role": role, "why": why, "who": _user() if who is None else who}
            if action == LAUNCH:
                change |= {"arm": arm, "model": client.keep_model(_content(what)), "plan": _plan(plan)}
            else:
                change["arm"] = None if what is None else os.fspath(what)
            client.deploy(action, **change)
        return client.deployment()


def _plan(plan: str | os.PathLike[str] | Mapping[str, Any] | None) -> dict[str, Any] | None:
    if plan is None or isinstance(plan, Mapping):
        return None if plan is None else dict(plan)
    return dict(read_yaml(Path(plan)))


def _content(model: str | os.PathLike[str] | None) -> bytes:
    if model is None:
        raise ConfigError("launch: got no model, expected the file of one, as zoosim train writes it")
    try:
        return Path(model).read_bytes()
    except OSError as error:
        raise DataError(f"{model}: cannot be read ({error.strerror}); name the file of a model") from None


def _user() -> str:
    with suppress(OSError, KeyError):  # nobody whom this machine knows, as in some containers
        return getpass.getuser()
    return ""
