"""Who is compared with `adaptive`, and the one parameter of each that is worth trying other values of."""

import math
from pathlib import Path
from typing import Any, NamedTuple

from zoosim.policies.registry import find_class

HERE = Path(__file__).parent


class Rival(NamedTuple):
    """A policy: a built-in `source` or FILE.py:Class of a `library`, and the grid of its parameter of exploration.

    The default is tried in any case; an empty grid leaves nothing else.
    """

    source: str
    parameter: str = ""
    grid: tuple[float, ...] = ()
    library: str = ""

    @property
    def takes_amounts(self) -> bool:
        """Whether it learns from rewards of any size, as those of the experiment `shops` are."""
        most: float = getattr(find_class(self.source), "rewards", (-math.inf, math.inf))[1]
        return self.library != "" or most > 1.0


OURS = {
    "random": Rival("random"),
    "greedy": Rival("greedy"),
    "linucb": Rival("linucb", "alpha", (0.1, 0.3, 3.0)),
    "d-linucb": Rival("d-linucb", "alpha", (0.1, 0.3, 3.0)),
    "shared-linucb": Rival("shared-linucb", "alpha", (0.1, 0.3, 3.0)),
    "shared-lin-ts": Rival("shared-lin-ts"),
    "product-linucb": Rival("product-linucb", "alpha", (0.1, 0.3, 1.0, 3.0)),
    "product-lin-ts": Rival("product-lin-ts"),
    "neural-linear": Rival("neural-linear", "alpha", (0.5, 1.0)),
    "adaptive": Rival("adaptive"),
}

PEERS = {
    "vw-squarecb": Rival(
        f"{HERE / 'vowpal_wabbit.py'}:VWSquareCB", "gamma_scale", (100.0, 1_000.0, 10_000.0), "vowpalwabbit"
    ),
    "vw-epsilon": Rival(f"{HERE / 'vowpal_wabbit.py'}:VWEpsilonGreedy", "epsilon", (0.02, 0.05), "vowpalwabbit"),
    "contextualbandits-linucb": Rival(
        f"{HERE / 'contextualbandits_linucb.py'}:ContextualBanditsLinUCB",
        "alpha",
        (0.03, 0.3, 1.0),
        "contextualbandits",
    ),
    "mabwiser-linucb": Rival(f"{HERE / 'mabwiser_linucb.py'}:MABWiserLinUCB", "alpha", (0.03, 0.1, 0.3), "mabwiser"),
    "bayesianbandits-ts": Rival(
        f"{HERE / 'bayesianbandits_thompson.py'}:BayesianBanditsThompson", "prior", (0.1, 10.0), "bayesianbandits"
    ),
    "river-linucb": Rival(f"{HERE / 'river_linucb.py'}:RiverLinUCB", "beta", (10.0, 100.0), "river"),
}

RIVALS = {**OURS, **PEERS}


def entries(names: list[str], *, tune: bool) -> list[dict[str, Any]]:
    """Return policies as a run's `config` lists them: each at its defaults, and at each value of its grid."""
    listed: list[dict[str, Any]] = []
    for name in names:
        rival = RIVALS[name]
        listed.append({"name": name, "type": rival.source})
        for value in rival.grid if tune else ():
            listed.append({"name": setting(name, value), "type": rival.source, rival.parameter: value})
    return listed


def settings(name: str, *, tune: bool) -> dict[str, str]:
    """Return the names under which the settings of a policy compete, and each setting in words."""
    rival = RIVALS[name]
    tried = {setting(name, value): f"{rival.parameter} {value:g}" for value in (rival.grid if tune else ())}
    return {name: "default", **tried}


def setting(name: str, value: float) -> str:
    """Return the name under which a policy competes with a value of its grid."""
    return f"{name}-{RIVALS[name].parameter}-{value:g}"
