"""Start of a service: with the models that it was given, with those of its log, or with none yet."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from zoosim.core.action_space import PRODUCTS
from zoosim.core.errors import ConfigError
from zoosim.policies.model import Model
from zoosim.policies.retrieving import RetrievingPolicy
from zoosim.serving.arm_replica import WARM_UP
from zoosim.serving.clock import Gap
from zoosim.serving.current import SETTINGS, Current
from zoosim.serving.events import SHADOW, Arm, Start
from zoosim.serving.folder import keep_model
from zoosim.serving.forecasts.kept import forecasts_of_file, with_forecasts
from zoosim.serving.fresh import warm_up_model
from zoosim.serving.retention import GAPS, gaps_in, with_gaps
from zoosim.serving.settings import Settings, changed_settings
from zoosim.serving.shop_rules.settings import check_shop_rules

SALT_BYTES = 16

GIVEN = "given"
"""The part of the changes in a log that says which file a service was started with last."""


def first_start(
    current: Current,
    settings: Settings,
    model_file: Path | None,
    random_bytes: Callable[[int], bytes],
    gaps: Sequence[Gap] = (),
) -> Start:
    """Return by which models and rules a service goes on, by its settings and by what the log says now.

    Where settings name no arms, those of the log stay. A file that a service of the log was started with before changes
    nothing, since another model may have followed it.
    The `gaps` before this start are noted among the log's.

    Raises:
        DataError: the file is no model, or the forecasts beside it are none.
        ConfigError: the settings do not go with the changes in the log, or an arm not with the champion.
    """
    changes = current.changes
    if model_file is None and not current.has_begun and "lowest" not in settings.model_fields_set:
        changes[SETTINGS] = {"lowest": -1.0}
    rules = changed_settings(settings, changes.get(SETTINGS, {})).rules
    digest = _kept_model(current, model_file)  # once nothing can be refused any more
    is_new = model_file is not None and changes.get(GIVEN) != {"model": digest}
    if is_new:
        changes[GIVEN] = {"model": digest}
    if gaps:
        changes[GAPS] = with_gaps(gaps_in(changes), gaps)
    packed_changes = json.dumps(changes, sort_keys=True).encode()
    packed_rules = rules.model_dump_json().encode()
    before = current.start if current.has_begun else Start(digest, packed_rules, number=0)
    model = digest if is_new else before.model
    arms = _arms(current, settings, before)
    # A shadow of the log stays, whatever has become the champion beside it: it judges what it can.
    stays = before.arms if model == before.model else []
    _check_arms(current, model, [arm for arm in arms if arm.role != SHADOW or arm not in stays])
    if rules.shop_rules.are_set:
        check_shop_rules(rules.shop_rules, current.model_to_look_at(model), settings.keep_days)
    forecasts = [] if model_file is None or not is_new else forecasts_of_file(model_file, digest)
    for setting, arm in zip(settings.arms or (), arms if settings.arms else (), strict=True):
        if arm not in before.arms:
            forecasts += forecasts_of_file(setting.model, arm.model)
    start = msgspec.structs.replace(
        before,
        model=model,
        rules=packed_rules,
        # A model that comes again later has another turn. So it begins from its file, and is not taken for the one that
        # decided before under the same digest.
        turn=before.turn if model == before.model else before.number + 1,
        number=max(before.number, 1),
        changes=packed_changes,
        arms=arms,
        # Made once for all starts of a log: with another salt visitors would not keep theirs.
        salt=before.salt or (random_bytes(SALT_BYTES) if arms else b""),
    )
    start = with_forecasts(start, forecasts)
    return start if start == before else msgspec.structs.replace(start, who="", why="a start of the service")


def _arms(current: Current, settings: Settings, before: Start) -> list[Arm]:
    """Return the arms that settings name, else those of before; one whose model stays goes on from what it learned."""
    if settings.arms is None:
        return before.arms
    by_name = {arm.name: arm for arm in before.arms}
    arms = []
    for setting in settings.arms:
        digest = current.models.keep(Path(setting.model))
        same = setting.name in by_name and by_name[setting.name].model == digest
        turn = by_name[setting.name].turn if same else before.number + 1  # a number that no turn of the arm had before
        arms.append(Arm(setting.name, digest, setting.share, setting.role, turn, setting.sticky))
    return arms


def _check_arms(current: Current, champion: str, arms: Sequence[Arm]) -> None:
    if not arms:
        return
    expected = current.model_to_look_at(champion)
    for arm in arms:
        check_arm(arm.name, arm.role, current.model_to_look_at(arm.model), expected)


def check_arm(name: str, role: str, model: Model, champion: Model) -> None:
    """Refuse a model for an arm of a role beside the champion: `ConfigError`."""
    if role != SHADOW:
        check_alike(name, model, champion)
        return
    for whose, each in (("the shadow's", model), ("the champion's", champion)):
        if each.action_space != PRODUCTS or WARM_UP in each.facts:
            kind = "none yet" if WARM_UP in each.facts else f"one of {each.action_space}"
            raise ConfigError(f"shadow {name}: {whose} model is {kind}, expected one of products; launch it instead")
        if isinstance(each.policy, RetrievingPolicy):
            reason = "would show others than the log's candidates, by which shadows are judged"
            raise ConfigError(f"shadow {name}: {whose} model retrieves and {reason}; launch it, or use zoosim evaluate")


def check_alike(name: str, model: Model, champion: Model) -> None:
    """Refuse a model for an arm whose decisions could not stand in one log with the champion's: `ConfigError`."""
    if WARM_UP in champion.facts:
        raise ConfigError(f"arm {name}: got no model for the champion; give one, or wait until one has grown")
    if model.action_space != champion.action_space:
        spaces = f"got a model of {model.action_space}, expected one of {champion.action_space}"
        raise ConfigError(f"arm {name}: {spaces}, as the champion's is; leave it out")
    if model.fitted.fingerprint != champion.fitted.fingerprint:
        remedy = "train it on the service's own log, or by the same schema on the log of the champion's training"
        raise ConfigError(f"arm {name}: got a model with another schema than the champion's; {remedy}")


def _kept_model(current: Current, model_file: Path | None) -> str:
    """Keep the model that a service is started with, and return its digest."""
    if model_file is not None:
        return current.models.keep(model_file)
    if current.has_begun:
        return current.start.model
    return keep_model(current.folder, warm_up_model())  # which stands in until there is a schema
