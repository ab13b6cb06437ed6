"""A shop you can experiment on: simulate visitors, compare policies, trust the winner."""

from zoosim.api import RunResult, read_run, run
from zoosim.core.errors import ZoosimError
from zoosim.core.parameters import parameter
from zoosim.core.types import Context, PolicySpec
from zoosim.envs import register_envs
from zoosim.logs import evaluate, fit_world, import_log
from zoosim.policies.base import Policy
from zoosim.policies.saved import load_policy, save_policy
from zoosim.worlds import Description, describe, optimum

__version__ = "0.1.0"
__all__ = [
    "Context",
    "Description",
    "Policy",
    "PolicySpec",
    "RunResult",
    "ZoosimError",
    "describe",
    "evaluate",
    "fit_world",
    "import_log",
    "load_policy",
    "optimum",
    "parameter",
    "read_run",
    "run",
    "save_policy",
]

register_envs()
