"""The experiments, by name; the file of one is read when it is asked for."""

import importlib
from collections.abc import Iterator, Mapping

from zoosim.arena.experiment import Experiment

STUDIES = (
    *(
        "action-shaping",
        "asked-logs",
        "axes",
        "boost-curves",
        "bottleneck",
        "broken-pixel",
        "calibration",
        "cem-optima",
        "cem-settings",
    ),
    *("cold-start", "constraints", "devices", "forecast-ledger"),
    *("guardrails", "late-rewards", "latency", "launch-rehearsal", "launches", "leaderboard"),
    *("looking-ahead", "lure"),
    *("offline-sessions", "ope-accuracy"),
    *(
        "ope-coverage",
        "ope-sessions",
        "ope-verdict",
        "open-bandit",
        "optimism",
        "overestimation",
        "own-tastes",
        "parameter-sensitivity",
    ),
    *(
        "product-effects",
        "q-sanity",
        "reward-kinds",
        "search-returns",
        "served-launches",
        "served-values",
        "session-learners",
        "shocks-sessions",
        "swapped-personas",
        "traps",
    ),
    *("trust-region", "ucb-or-thompson"),
)
"""The studies of a checkout (`python -m studies`), which are no part of the package: whoever runs one is told where."""

MODULES = {
    "head-to-head": "head_to_head:HEAD_TO_HEAD",
    "showdown": "showdown:SHOWDOWN",
    "gauntlet": "gauntlet:GAUNTLET",
    "two-stage": "two_stage:TWO_STAGE",
    "labelled": "labelled:LABELLED",
    "long-term": "long_term:LONG_TERM",
    "lure": "lure:LURE",
    "pretrained": "pretrained:PRETRAINED",
    "staleness": "staleness:STALENESS",
    "network-seeds": "network_seeds:NETWORK_SEEDS",
    "robustness": "robustness:ROBUSTNESS",
    "large-world": "robustness:LARGE_WORLD",
    "turnover": "turnover:TURNOVER",
    "shops": "shops:SHOPS",
    "search-shops": "search_shops:SEARCH_SHOPS",
    "template-bandits": "template_bandits:TEMPLATE_BANDITS",
    "market-shifts": "template_bandits:MARKET_SHIFTS",
    "template-widths": "template_widths:TEMPLATE_WIDTHS",
    "continuous-vs-discrete": "continuous_vs_discrete:CONTINUOUS_VS_DISCRETE",
}
"""Module in `zoosim/experiments/suite` of each experiment."""


class _Suite(Mapping[str, Experiment]):
    """The experiments by name, imported one by one: a run needs no other than its own."""

    def __getitem__(self, name: str) -> Experiment:
        module, _, constant = MODULES[name].partition(":")
        experiment: Experiment = getattr(importlib.import_module(f"{__name__}.suite.{module}"), constant)
        return experiment

    def __iter__(self) -> Iterator[str]:
        return iter(MODULES)

    def __len__(self) -> int:
        return len(MODULES)

    def __contains__(self, name: object) -> bool:
        return name in MODULES


EXPERIMENTS = _Suite()

__all__ = ["EXPERIMENTS", "STUDIES", "Experiment"]
