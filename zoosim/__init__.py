"""A shop you can experiment on: simulate visitors, compare policies, trust the winner."""

import _signal  # type: ignore[import-not-found]  # the module signal takes long enough to import to be interrupted
import sys

_COMMAND = sys.argv[0] if sys.argv else ""
if _COMMAND.endswith("/zoosim") or (_COMMAND == "-m" and "zoosim" in sys.orig_argv):
    # Until the command line answers it, Ctrl-C ends the process without a traceback.
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)

from importlib import import_module  # noqa: E402
from typing import TYPE_CHECKING, Any  # noqa: E402

from zoosim.core.version import VERSION  # noqa: E402
from zoosim.envs import register_envs  # noqa: E402

if TYPE_CHECKING:
    from zoosim.api.deployment import deploy
    from zoosim.api.drift import drift
    from zoosim.api.forecasts import forecasts
    from zoosim.api.launch_report import LaunchResult, launch_report
    from zoosim.api.logs import evaluate
    from zoosim.api.loops import loops
    from zoosim.api.models import load, train
    from zoosim.api.recommend import Recommendation, recommend
    from zoosim.api.rehearse_launch import LaunchRehearsal, rehearse_launch
    from zoosim.api.retrieval import train_retriever
    from zoosim.api.runs import RunResult, read_run, run
    from zoosim.api.served import export_log, forget_visitor
    from zoosim.api.shops import fit_world, import_log
    from zoosim.api.tune import TuneResult, tune
    from zoosim.api.worlds import Description, describe, optimum
    from zoosim.core.errors import ZoosimError
    from zoosim.core.parameters import parameter
    from zoosim.core.types import CandidateSource, Context, Distribution, PolicySpec
    from zoosim.policies.base import Policy
    from zoosim.policies.persistence import load_policy, save_policy
    from zoosim.serving.client import AsyncClient, Client
    from zoosim.serving.openfeature import OpenFeatureProvider
    from zoosim.worlds.base import Outcome, ProductList, Truth, World, truth_of_candidates
    from zoosim.worlds.episodes import Next

__version__ = VERSION
__all__ = [
    "AsyncClient",
    "CandidateSource",
    "Client",
    "Context",
    "Description",
    "Distribution",
    "LaunchRehearsal",
    "LaunchResult",
    "Next",
    "OpenFeatureProvider",
    "Outcome",
    "Policy",
    "PolicySpec",
    "ProductList",
    "Recommendation",
    "RunResult",
    "Truth",
    "TuneResult",
    "World",
    "ZoosimError",
    "deploy",
    "describe",
    "drift",
    "evaluate",
    "export_log",
    "fit_world",
    "forecasts",
    "forget_visitor",
    "import_log",
    "launch_report",
    "load",
    "load_policy",
    "loops",
    "optimum",
    "parameter",
    "read_run",
    "recommend",
    "rehearse_launch",
    "run",
    "save_policy",
    "train",
    "train_retriever",
    "truth_of_candidates",
    "tune",
]

_MODULES = {
    "zoosim.api.runs": ("RunResult", "read_run", "run"),
    "zoosim.core.errors": ("ZoosimError",),
    "zoosim.serving.client": ("AsyncClient", "Client"),
    "zoosim.serving.openfeature": ("OpenFeatureProvider",),
    "zoosim.core.parameters": ("parameter",),
    "zoosim.core.types": ("CandidateSource", "Context", "Distribution", "PolicySpec"),
    "zoosim.api.deployment": ("deploy",),
    "zoosim.api.drift": ("drift",),
    "zoosim.api.forecasts": ("forecasts",),
    "zoosim.api.launch_report": ("LaunchResult", "launch_report"),
    "zoosim.api.logs": ("evaluate",),
    "zoosim.api.loops": ("loops",),
    "zoosim.api.models": ("load", "train"),
    "zoosim.api.recommend": ("Recommendation", "recommend"),
    "zoosim.api.rehearse_launch": ("LaunchRehearsal", "rehearse_launch"),
    "zoosim.api.retrieval": ("train_retriever",),
    "zoosim.api.served": ("export_log", "forget_visitor"),
    "zoosim.api.shops": ("fit_world", "import_log"),
    "zoosim.api.tune": ("TuneResult", "tune"),
    "zoosim.policies.base": ("Policy",),
    "zoosim.policies.persistence": ("load_policy", "save_policy"),
    "zoosim.worlds.base": ("Outcome", "ProductList", "Truth", "World", "truth_of_candidates"),
    "zoosim.worlds.episodes": ("Next",),
    "zoosim.api.worlds": ("Description", "describe", "optimum"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that `zoosim --help` imports none of the modules behind them."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'zoosim' has no attribute {name!r}")
    try:
        value = getattr(import_module(_MODULE_OF[name]), name)
    except ModuleNotFoundError as error:
        from zoosim.core.extras import missing_extra

        raise missing_extra(error) or error from error
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return ["__version__", *__all__]


register_envs()
