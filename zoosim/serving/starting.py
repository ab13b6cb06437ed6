"""How a service begins: with the model that it was given, with that of its log, or with none yet."""

import json
import tempfile
from pathlib import Path

from zoosim.policies.model import SUFFIX, save_model
from zoosim.serving.current import SETTINGS, Current
from zoosim.serving.events import Start
from zoosim.serving.folder import keep_model_file
from zoosim.serving.fresh import warm_up_model
from zoosim.serving.settings import Settings, changed_settings


def first_start(current: Current, settings: Settings, model_file: Path | None) -> Start:
    """Return by which model and rules a service goes on, by its settings and by what the log says now.

    Raises:
        DataError: the file is no model.
        ConfigError: the settings do not go with the changes in the log.
    """
    if not current.has_begun:
        return _very_first_start(current.folder, settings, model_file)
    before = current.start
    digest = before.model if model_file is None else keep_model_file(current.folder, model_file)
    changed = changed_settings(settings, current.changes.get(SETTINGS, {}))
    turn = before.turn + (digest != before.model)
    return Start(digest, changed.rules.model_dump_json().encode(), turn, before.number, before.changes)


def _very_first_start(folder: Path, settings: Settings, model_file: Path | None) -> Start:
    """Return the first start of a log; without a model one stands in until there is a schema."""
    if model_file is not None:
        return Start(keep_model_file(folder, model_file), settings.rules.model_dump_json().encode())
    rewards = {} if "lowest" in settings.model_fields_set else {"lowest": -1.0}
    rules = changed_settings(settings, rewards).rules
    with tempfile.TemporaryDirectory() as temporary:
        digest = keep_model_file(folder, save_model(warm_up_model(), Path(temporary) / f"model{SUFFIX}"))
    changes = json.dumps({SETTINGS: rewards}).encode()
    return Start(digest, rules.model_dump_json().encode(), changes=changes)
