"""How a service begins: with the model that it was given, with that of its log, or with none yet."""

import json
from collections.abc import Sequence
from pathlib import Path

from zoosim.serving.clock import Gap
from zoosim.serving.current import SETTINGS, Current
from zoosim.serving.events import Start
from zoosim.serving.folder import keep_model, keep_model_file
from zoosim.serving.fresh import warm_up_model
from zoosim.serving.retention import GAPS, gaps_in, with_gaps
from zoosim.serving.settings import Settings, changed_settings

GIVEN = "given"
"""The part of the changes in a log that says which file a service was started with last."""


def first_start(current: Current, settings: Settings, model_file: Path | None, gaps: Sequence[Gap] = ()) -> Start:
    """Return by which model and rules a service goes on, by its settings and by what the log says now.

    A file that a service of the log was started with before changes nothing, since another model may have followed it.
    The `gaps` before this start are noted among the log's.

    Raises:
        DataError: the file is no model.
        ConfigError: the settings do not go with the changes in the log.
    """
    changes = current.changes
    if model_file is None and not current.has_begun and "lowest" not in settings.model_fields_set:
        changes[SETTINGS] = {"lowest": -1.0}
    rules = changed_settings(settings, changes.get(SETTINGS, {})).rules.model_dump_json().encode()
    digest = _kept_model(current, model_file)  # once nothing can be refused any more
    is_new = model_file is not None and changes.get(GIVEN) != {"model": digest}
    if is_new:
        changes[GIVEN] = {"model": digest}
    if gaps:
        changes[GAPS] = with_gaps(gaps_in(changes), gaps)
    packed = json.dumps(changes, sort_keys=True).encode()
    if not current.has_begun:
        return Start(digest, rules, changes=packed)
    before = current.start
    model = digest if is_new else before.model
    return Start(model, rules, before.turn + (model != before.model), before.number, packed)


def _kept_model(current: Current, model_file: Path | None) -> str:
    """Keep the model that a service is started with, and return its digest."""
    if model_file is not None:
        return keep_model_file(current.folder, model_file)
    if current.has_begun:
        return current.start.model
    return keep_model(current.folder, warm_up_model())  # which stands in until there is a schema
