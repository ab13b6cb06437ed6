"""What all launches of a rehearsal share: the fitted shop, the model that is launched, and who comes."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from zoosim.core.errors import ConfigError, DataError, PolicyError

if TYPE_CHECKING:
    from zoosim.core.types import FloatArray, Progress
    from zoosim.fitting import Checks
    from zoosim.logs.log import Log
    from zoosim.monitoring.launch_plan import Plan
    from zoosim.policies.base import Policy
    from zoosim.policies.model import Model
    from zoosim.rehearsal.launches.outcome import Delays, Terms
    from zoosim.rehearsal.launches.shop import RehearsedShop
    from zoosim.rehearsal.launches.traffic import Traffic
    from zoosim.worlds.fitted.shop import FittedShop

WORLD, MODELS = "world", "models"
"""In the folder of a rehearsal: the fitted world, and the trained model."""


class Options(NamedTuple):
    """The options of a rehearsal that have been checked."""

    launches: int
    days: float
    visits_a_day: float | None
    bearable: float
    exploration: float
    reward_delay: float


class Prepared(NamedTuple):
    """What all launches of a rehearsal share."""

    log: "Log"
    checks: "Checks"
    policy: str
    model: Path | None
    shop: "RehearsedShop"
    by_chance: "FloatArray"
    traffic: "Traffic"
    terms: "Terms"


def open_shop_log(log: Any, data: Any, skip_bad: bool, reward_delay: float) -> "tuple[Log, Delays]":
    """Return the log, without lives of visitors, and how late its rewards come."""
    import numpy as np

    from zoosim.api.served import open_log
    from zoosim.core.action_space import PRODUCTS
    from zoosim.core.rng import stream
    from zoosim.logs.load import action_space_of
    from zoosim.rehearsal.launches.outcome import Delays
    from zoosim.serving.served_log import read_served_log
    from zoosim.serving.store.address import find_log

    address = find_log(log)
    space = action_space_of(log)
    if space.fit_world is None or space.rehearse_instead:
        reason = space.rehearse_instead or f"is a log of {space.name}, expected one of products"
        raise ConfigError(f"rehearse-launch: {log} {reason}")
    late = np.zeros(0)
    if address is not None and data is None:
        served = read_served_log(address, action_space=PRODUCTS)
        loaded = served.log
        late = served.delays[np.isfinite(served.delays)] / 3_600.0
    else:
        loaded = open_log(log, action_space=PRODUCTS, data=data, skip_bad=skip_bad)
    if reward_delay:
        late = stream(0, "delays").exponential(reward_delay / 3_600.0, 10_000)
    # As if each decision were a visitor's only one: a launch looks at what comes of it within the window.
    return replace(loaded, lives=None), Delays(late)


def identity(log: "Log", source: Any, plan: "Plan", options: Options, delays: "Delays") -> dict[str, Any]:
    """Return what launches rest on, as plain values; how many are played may change."""
    from zoosim.core.digests import content_digest
    from zoosim.core.version import VERSION
    from zoosim.off_policy.forecasts import digest_of

    return {
        "version": VERSION,
        "log": log.source,
        "rows": digest_of(log),
        "policy": source if isinstance(source, str) else source.__qualname__,
        "model": _file_digest(source),
        "plan": plan.model_dump(mode="json"),
        "options": {name: value for name, value in options._asdict().items() if name not in ("launches", "bearable")},
        "delays": content_digest(delays.hours.tobytes())[:16],
    }


def _file_digest(source: Any) -> str:
    """Return a digest of the file that a model or policy is given as; empty for what is to be trained."""
    from zoosim.core.digests import content_digest
    from zoosim.core.files import read_content
    from zoosim.policies.files import file_and_class, is_file

    if not isinstance(source, str) or not is_file(source):
        return ""
    file, _ = file_and_class(source)
    try:
        return content_digest(read_content(file))[:16]
    except OSError as error:
        raise DataError(f"{file}: cannot be read ({error.strerror}); name the file of a model") from None


def prepare(
    log: "Log", source: Any, plan: "Plan", options: Options, delays: "Delays", path: Path, progress: "Progress"
) -> Prepared:
    """Fit a shop, train the model, and compute what it would show at each visit."""
    from zoosim.api.shops import fit_world
    from zoosim.monitoring.launch_plan import WAIT
    from zoosim.off_policy.verdict import DO_NOT_USE
    from zoosim.rehearsal.launches.outcome import Terms
    from zoosim.rehearsal.launches.prepare import in_order_of_shop, rehearsed_rows, traffic_of_log
    from zoosim.rehearsal.launches.shop import RehearsedShop

    # Before minutes of work that would be lost where nobody says how many come a day.
    traffic_of_log(log, _users_of(log), _all_rows(log), options.visits_a_day)
    shop: FittedShop
    shop, checks = fit_world(log, path / WORLD, progress=progress)
    if checks.verdict.word == DO_NOT_USE:
        reasons = "; ".join(checks.verdict.reasons)
        raise DataError(
            f"{log.source}: the shop fitted to it tells nothing ({reasons}), so a launch cannot be rehearsed; "
            f"{path / WORLD / 'report.html'} says more"
        )
    name, challenger, model = _challenger(log, source, path / MODELS, progress)
    of_shop = in_order_of_shop(log, shop.n_rows)
    rows = rehearsed_rows(shop.users, shop.n_products)
    chances, by_chance = _chances(of_shop.rows(rows), challenger, options.exploration, progress)
    return Prepared(
        log=log,
        checks=checks,
        policy=name,
        model=model,
        shop=RehearsedShop(shop, rows, of_shop.actions[rows], chances),
        by_chance=by_chance,
        traffic=traffic_of_log(of_shop, shop.users, rows, options.visits_a_day),
        terms=Terms(plan, (plan.window or WAIT) / 3_600.0, 24.0 * options.days, delays),
    )


def _users_of(log: "Log") -> Any:
    import numpy as np

    return np.arange(len(log)) if log.user_ids is None else log.user_ids


def _all_rows(log: "Log") -> Any:
    import numpy as np

    return np.arange(len(log))


def _challenger(
    log: "Log", source: Any, folder: Path, progress: "Progress"
) -> "tuple[str, Policy | Model, Path | None]":
    """Return what is launched: what it is called, the policy or model, and its file; raises `PolicyError`."""
    from zoosim.api.contenders import train_contenders
    from zoosim.api.logs import new_policy
    from zoosim.api.models import untrained
    from zoosim.policies.files import MODEL, file_and_class, is_file
    from zoosim.policies.model import load_model
    from zoosim.policies.registry import find_class
    from zoosim.rehearsal.advice import label

    if isinstance(source, str) and is_file(source):
        file, own = file_and_class(source)
        is_model = file.endswith(MODEL)
        loaded = new_policy(source, load_model(file, own) if is_model else source, log, 0)
        return Path(file).stem, loaded, Path(file) if is_model else None
    line_up = untrained([source])
    contenders = train_contenders(log, line_up, folder, progress)
    for name, policy in contenders.trained.items():
        return label(name), policy, contenders.models.get(name)
    name = next(iter(line_up))
    if find_class(line_up[name]).learns:
        reason = "; ".join(contenders.notes.get(name, ("cannot be trained on this log",)))
        raise PolicyError(f"policy {name}: {reason}; a launch needs a model that knows the shop")
    return name, new_policy(name, line_up[name], log, 0), None


def _chances(
    log: "Log", challenger: "Policy | Model", exploration: float, progress: "Progress"
) -> "tuple[FloatArray, FloatArray]":
    """Return how likely the new model shows each product at each row, exploring, and the same by chance alone."""
    import numpy as np

    from zoosim.off_policy.targets.products import make_target
    from zoosim.rehearsal.launches.prepare import exploring_chances, without_users

    anonymous = without_users(log)
    target = make_target(challenger, anonymous, progress)
    chosen = target.distributions(anonymous, 0, len(anonymous)).matrix(anonymous.n_actions)
    available = np.asarray(anonymous.available(0, len(anonymous)), float)
    by_chance = available / available.sum(axis=1, keepdims=True)
    return exploring_chances(chosen, by_chance, exploration), by_chance
