"""Write a log of boosts from a simulated search shop, as `zoosim log` does for policies of boosts."""

from dataclasses import replace
from pathlib import Path

from zoosim.arena.boost_recording import boost_records
from zoosim.arena.boost_run import open_shop, spec_of
from zoosim.core.errors import ConfigError, PolicyError
from zoosim.core.parquet import write_parquet
from zoosim.core.rng import stream
from zoosim.experiments.plan import make_plan
from zoosim.experiments.request import Request, Settings
from zoosim.logs.schema import SCHEMA_VERSION
from zoosim.policies.base import Policy
from zoosim.policies.boosts.base import BoostPolicy
from zoosim.policies.registry import make_entry

STAND_IN = "template-neutral"
"""In a plan of the search shop, whose experiments compare templates."""


def write_boost_log(path: Path, policy: str | type[Policy], request: Request) -> float:
    """Let a policy of boosts serve the visits of a request to the search shop, write Records; return the mean reward.

    Raises `ConfigError`, `DataError` or `PolicyError`, as for a policy that has no density over boosts.
    """
    own = [text for text in request.settings if text.startswith("policies.")]
    rest = [text for text in request.settings if text not in own]
    plan, changes = make_plan(replace(request, policies=[STAND_IN], settings=rest)), Settings(own)
    entry = make_entry(policy, params=changes.take_parameters(make_entry(policy).name))
    changes.refuse_unused([entry.name])
    shop = open_shop(plan.env.model_dump(), plan.seeds[0])
    made = entry.make(spec_of(shop, plan.steps), stream(plan.seeds[0], "policy", entry.name))
    if not isinstance(made, BoostPolicy):
        raise PolicyError(f"policy {entry.name}: is no BoostPolicy, and says that it is for boosts; derive it from one")
    frame = boost_records(shop, made, entry.name, entry.fingerprint, plan.steps)
    try:
        write_parquet(frame, path, {"schema": "record", "schema_version": SCHEMA_VERSION})
    except OSError as error:
        raise ConfigError(f"log: {path} cannot be written ({error.strerror}); name another file") from None
    return float(frame["reward"].to_numpy().mean())
