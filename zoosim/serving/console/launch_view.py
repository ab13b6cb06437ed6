"""What the console says of a launch: who began it and how it stands or ended, its shares, and a tile per reward."""

from collections.abc import Mapping, Sequence
from typing import Any

from zoosim.monitoring.launch import SPLITTING
from zoosim.monitoring.launch_plan import OBJECTIVE
from zoosim.serving.console.series import Change
from zoosim.serving.console.texts import MISSING, amount, moment, signed
from zoosim.serving.console.tiles import Tile, band_of


def launch_values(launch: Mapping[str, Any] | None, weights: Mapping[str, float], changes: Sequence[Change]) -> Any:
    """Return what the template shows of a launch.

    Args:
        launch: The newest launch, as `Service.deployment` describes it.
        weights: Weights of rewards in the objective.
        changes: The changes of what decides, from the oldest to the newest.
    """
    is_over = launch is not None and launch["state"] not in SPLITTING
    return {
        "launch": launch,
        "launch_heading": launch_heading(launch),
        "launch_story": launch_story(launch, changes),
        "launch_is_over": is_over,
        "steps": _steps(launch),
        "tiles": _tiles(launch, weights),
    }


def launch_heading(launch: Mapping[str, Any] | None) -> str:
    """Say which launch the tiles are of, and how it stands or ended."""
    if launch is None:
        return ""
    if launch["state"] in SPLITTING:
        return f"Rewards and guardrails of the launch of {launch['arm']}"
    return f"The last launch, of {launch['arm']}: {launch['state']}"


def launch_story(launch: Mapping[str, Any] | None, changes: Sequence[Change]) -> str:
    """Say who launched a model, when and why, and when and why the launch ended."""
    if launch is None:
        return ""
    begin = first_of_arm(changes, launch["arm"])
    story = ""
    if begin is not None:
        story = f"{begin.who or 'Somebody'} launched it at {moment(begin.time)}: {begin.why.rstrip('.')}. "
    if launch["state"] not in SPLITTING:
        end = _last_of_arm(changes, launch["arm"])
        when = moment(end.time if end else launch["since"])
        why = f": {launch['reason'].rstrip('.')}" if launch["reason"] else ""
        story += f"It was {launch['state']} at {when}{why}."
    return story.strip()


def first_of_arm(changes: Sequence[Change], name: str) -> Change | None:
    """Return the change by which an arm got its first share of visitors, the last time that it began; None for none."""
    begin = None
    had_share = False
    for change in changes:
        has_share = change.shares.get(name, 0.0) > 0.0
        if has_share and not had_share:
            begin = change
        had_share = has_share
    return begin


def _last_of_arm(changes: Sequence[Change], name: str) -> Change | None:
    """Return the change by which an arm lost its share of visitors; None where it has one, or never had."""
    end = None
    had_share = False
    for change in changes:
        has_share = change.shares.get(name, 0.0) > 0.0
        if has_share:
            end = None
        elif had_share:
            end = change
        had_share = has_share
    return end


def _tiles(launch: Mapping[str, Any] | None, weights: Mapping[str, float]) -> list[Tile]:
    """Return how each reward of a launch stands; one that is a success and a guardrail alike has one tile."""
    report = launch["report"] if launch else None
    if not report or not report["visitors"]:
        return []
    metrics: dict[str, Mapping[str, Any]] = {}
    roles: dict[str, list[str]] = {}
    for metric in report["metrics"]:
        place = f"{metric['reward']} {metric['margin']}"
        metrics.setdefault(place, metric)
        roles.setdefault(place, []).append(metric["role"])
    earned = "earns" if launch and launch["state"] in SPLITTING else "then earned"
    return [_tile(metric, " and ".join(roles[place]), weights, earned) for place, metric in metrics.items()]


def _tile(metric: Mapping[str, Any], role: str, weights: Mapping[str, float], earned: str) -> Tile:
    low, high = metric["low"], metric["high"]
    margin = metric["margin"]
    known = None not in (low, high, metric["difference"], margin)
    reward = metric["reward"]
    return Tile(
        reward=f"{reward} ({_in_words(weights)})" if reward == OBJECTIVE else reward,
        role=role,
        difference=signed(metric["difference"]),
        interval=f"{signed(low)} to {signed(high)}" if known else MISSING,
        confidence="99%",
        margin=amount(margin),
        verdict=_verdict(metric) if known else "no evidence yet",
        note=f"The champion {earned} {amount(metric['champion'])}; the margin is {amount(margin)}.",
        band=band_of(low, high, metric["difference"], margin) if known else None,
    )


def _in_words(weights: Mapping[str, float]) -> str:
    """Return the sum that the policy learns, such as `click + 0.1 revenue`."""
    return " + ".join(name if weight == 1.0 else f"{weight:g} {name}" for name, weight in weights.items())


def _verdict(metric: Mapping[str, Any]) -> str:
    """Say what an interval says, by itself; the launch's own test may know more."""
    if metric["low"] > 0.0:
        return "better"
    if metric["high"] < -metric["margin"]:
        return "worse than the margin allows"
    if metric["low"] > -metric["margin"]:
        return "not worse than the margin allows"
    return "the interval alone does not tell"


def _steps(launch: Mapping[str, Any] | None) -> Sequence[tuple[str, str]]:
    """Return the shares of a launch's plan, and of each whether it is past, current or to come."""
    if launch is None:
        return []
    current = launch["step"]
    states = [
        "past" if step < current else "current" if step == current else "to come"
        for step in range(len(launch["plan"]["steps"]))
    ]
    return [(f"{share:.0%}", state) for share, state in zip(launch["plan"]["steps"], states, strict=True)]
