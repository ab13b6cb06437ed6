"""The configuration of the service and of its policy, as Personalizer has it: settings of the service by other names.

What has no counterpart here, such as how often a model is published, is kept and answered, and changes nothing.
"""

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from zoosim.serving.ids import LONGEST_ID, LONGEST_TEXT
from zoosim.serving.personalizer.bodies import PersonalizerBody, PolicyContract
from zoosim.serving.personalizer.durations import duration_of, seconds_of
from zoosim.serving.personalizer.errors import PersonalizerError
from zoosim.serving.service import Service
from zoosim.serving.settings import Settings

PART = "personalizer"
"""The part of a folder's changes that is kept here."""

DEFAULT_POLICY = PolicyContract("app1", "--cb_explore_adf --epsilon 0.2 --power_t 0 -l 0.001 --cb_type mtr -q ::")
SINGLE_SLOT, MULTI_SLOT = "--cb_explore_adf", "--ccb_explore_adf"

AGGREGATIONS = ("earliest", "average", "median", "sum", "min", "max")
MODE_OF = {"Online": "online", "Apprentice": "apprentice", "LoggingOnly": "logging-only"}
LEARNING_MODE_OF = {mode: name for name, mode in MODE_OF.items()}

SHORTEST_WAIT, LONGEST_WAIT = 5.0, 172_800.0
DAY = 86_400.0
MOST_DAYS = 36_500
FOR_EVER = -1

INVALID = "InvalidServiceConfiguration"


class ServiceConfiguration(PersonalizerBody):
    """Configuration of the service, as a client sends it."""

    reward_wait_time: str
    default_reward: float
    reward_aggregation: str
    exploration_percentage: float
    model_export_frequency: str
    log_retention_days: int
    learning_mode: str | None = None
    log_mirror_enabled: bool | None = None
    is_auto_optimization_enabled: bool | None = None


KEPT = {
    "modelExportFrequency": "PT5M",
    "modelRetrainDays": 0,
    "logRetentionDays": None,
    "autoOptimizationFrequency": None,
    "autoOptimizationStartDate": None,
}
"""Fields that are answered as they were sent, and their defaults."""


def service_configuration(service: Service) -> dict[str, Any]:
    """Return the configuration as it is now."""
    settings = service.settings
    client_fields = service.current.changes.get(PART, {}).get("kept", {})
    configuration: dict[str, Any] = {
        "rewardWaitTime": duration_of(settings.wait),
        "defaultReward": settings.default_reward,
        "rewardAggregation": settings.aggregation,
        "explorationPercentage": settings.exploration,
        "learningMode": LEARNING_MODE_OF[settings.mode],
        "logMirrorEnabled": False,
        "isAutoOptimizationEnabled": False,
        "logRetentionDays": settings.keep_days or FOR_EVER,
        "lastConfigurationEditDate": _last_edit(service),
    }
    agreement = service.agreement()
    if agreement:
        configuration["latestApprenticeModeMetrics"] = {
            "numberOfEvents": agreement["decisions"],
            "numberOfImitatedEvents": agreement["agreements"],
        }
    configuration |= {name: default for name, default in KEPT.items() if default is not None}
    return {**configuration, **client_fields}


async def change_service_configuration(service: Service, content: bytes) -> dict[str, Any]:
    """Change the configuration; raises `PersonalizerError` for one that cannot be."""
    configuration = msgspec.json.decode(content, type=ServiceConfiguration)
    changes = _changes(configuration, service.settings)
    _check_learning_mode(changes, service.settings)
    everything = msgspec.json.decode(content)
    client_fields = {name: everything[name] for name in KEPT if everything.get(name) is not None}
    for name, value in client_fields.items():
        if isinstance(value, list | dict) or len(str(value)) > LONGEST_ID:
            raise PersonalizerError(INVALID, f"{name} should be a number or a short text.")
    client_fields["rewardWaitTime"] = configuration.reward_wait_time
    await service.change_settings(changes)
    await _write(service, kept=client_fields)
    return service_configuration(service)


def policy(service: Service) -> PolicyContract:
    """Return the policy that is configured."""
    return PolicyContract(**service.current.changes.get(PART, {}).get("policy", msgspec.structs.asdict(DEFAULT_POLICY)))


async def change_policy(service: Service, wanted: PolicyContract) -> PolicyContract:
    """Configure a policy; its arguments choose between one slot and several alone."""
    words = wanted.arguments.split()
    if len(wanted.name) > LONGEST_ID or len(wanted.arguments) > LONGEST_TEXT:
        message = f"Policy should have a name of at most {LONGEST_ID} and arguments of {LONGEST_TEXT:,} characters."
        raise PersonalizerError("InvalidPolicyConfiguration", message)
    if not wanted.name or (SINGLE_SLOT in words) == (MULTI_SLOT in words):
        message = f"Policy should have a name, and either {SINGLE_SLOT} or {MULTI_SLOT} among its arguments."
        raise PersonalizerError("InvalidPolicyConfiguration", message)
    await _write(service, policy=msgspec.structs.asdict(wanted))
    return wanted


def is_multi_slot(service: Service) -> bool:
    """Return whether the policy that is configured fills several slots."""
    return MULTI_SLOT in policy(service).arguments.split()


def _changes(wanted: ServiceConfiguration, settings: Settings) -> dict[str, Any]:
    """Return a configuration as settings; raises `PersonalizerError`."""
    wait = seconds_of(wanted.reward_wait_time)
    if wait is None or not SHORTEST_WAIT <= wait <= LONGEST_WAIT:
        message = f"Reward wait time should be between PT5S and P2D, got {wanted.reward_wait_time!r}."
        raise PersonalizerError("InvalidRewardWaitTime", message)
    least_days = math.ceil(wait / DAY) + 1
    if wanted.log_retention_days != FOR_EVER and wanted.log_retention_days < least_days:
        message = f"Log retention days should be -1, or at least {least_days}: the reward wait time and a day."
        raise PersonalizerError("InvalidLogRetentionDays", message)
    _check_ranges(wanted)
    mode = settings.mode if wanted.learning_mode is None else MODE_OF[wanted.learning_mode]
    days = wanted.log_retention_days
    changes: dict[str, Any] = {
        "wait": wait,
        "default_reward": wanted.default_reward,
        "aggregation": wanted.reward_aggregation,
        "exploration": wanted.exploration_percentage,
        "mode": mode,
        "keep_days": 0 if days == FOR_EVER or days > MOST_DAYS else days,
    }
    if not settings.lowest <= wanted.default_reward <= settings.highest:
        changes |= {"lowest": min(-1.0, settings.lowest), "highest": max(1.0, settings.highest)}
    return changes


def _check_ranges(wanted: ServiceConfiguration) -> None:
    if not -1.0 <= wanted.default_reward <= 1.0:
        raise PersonalizerError(INVALID, f"Default reward should be between -1 and 1, got {wanted.default_reward:g}.")
    if wanted.reward_aggregation not in AGGREGATIONS:
        expected = ", ".join(AGGREGATIONS)
        raise PersonalizerError(INVALID, f"Reward aggregation should be one of {expected}.")
    if not 0.0 <= wanted.exploration_percentage <= 1.0:
        raise PersonalizerError(INVALID, "Exploration percentage should be between 0 and 1.")
    if seconds_of(wanted.model_export_frequency) is None:
        raise PersonalizerError(INVALID, "Model export frequency should be a duration, such as PT5M.")
    if wanted.learning_mode is not None and wanted.learning_mode not in MODE_OF:
        raise PersonalizerError(INVALID, f"Learning mode should be one of {', '.join(MODE_OF)}.")
    if wanted.log_mirror_enabled:
        raise PersonalizerError(INVALID, "Logs are not mirrored here; copy the service's folder instead.")
    if wanted.is_auto_optimization_enabled:
        raise PersonalizerError(INVALID, "There is no automatic optimization here; evaluate, and import a model.")


def _check_learning_mode(changes: Mapping[str, Any], settings: Settings) -> None:
    rewards = ("wait", "default_reward", "aggregation")
    if changes["mode"] != settings.mode and any(changes[name] != getattr(settings, name) for name in rewards):
        message = "Learning mode cannot change together with reward wait time, default reward or aggregation."
        raise PersonalizerError("InvalidLearningModeServiceConfiguration", message)


def _last_edit(service: Service) -> str:
    seconds = service.current.changes.get(PART, {}).get("edited", service.started)
    return timestamp(float(seconds))


async def _write(service: Service, **values: Any) -> None:
    before = service.current.changes.get(PART, {})
    await service.note(PART, {**before, **values, "edited": service.clock.seconds()})


def timestamp(seconds: float) -> str:
    """Return seconds since 1970 as ISO 8601 writes them."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
