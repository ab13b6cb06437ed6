"""The data that the report of a run is drawn from: curves, summary and texts."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from zoosim.core.number_format import VISIT
from zoosim.core.types import FloatArray
from zoosim.worlds.facts import CLICKS, Measure, Reference, RewardScale, Target

Pair = dict[str, Any]
"""Two policies in summary.json."""

CROWD = 24
"""Policies up to which curves, seeds and pairs are drawn."""

FEW_PAIRS = 10
"""Pairs up to which none is folded."""


@dataclass(frozen=True)
class Curve:
    """One measure of one policy over the stream: all arrays `(n,)`.

    `low` and `high` bound a 95% band over seeds; with one seed both equal `mean`.
    """

    steps: FloatArray
    mean: FloatArray
    low: FloatArray
    high: FloatArray


@dataclass(frozen=True)
class ReportData:
    """The results of one run, ready to be drawn.

    `summary` is the content of summary.json. `curves` maps a policy to 'ctr' and 'share' of the oracle (moving averages
    over `window` visits), 'clicks' and 'regret' (both cumulative), and 'shown K' and 'tried K' of number K of the
    `targets`, the products that shocks made popular. `shocks` holds (step, name). `findings` are sentences beside the
    verdict. `references` are drawn as horizontal lines in the figure of moving averages. `reward`, `measures` and
    `oracle` are what the world says of rewards, of what else visits came to, and of what 100% of the oracle is.
    `features` maps policies to their learner and what it sees.
    """

    title: str
    question: str
    command: str
    verdict: str
    notes: tuple[str, ...]
    config_yaml: str
    summary: Mapping[str, Any]
    shocks: tuple[tuple[int, str], ...]
    curves: Mapping[str, Mapping[str, Curve]]
    window: int = 500
    findings: tuple[str, ...] = ()
    targets: tuple[Target, ...] = ()
    references: tuple[Reference, ...] = ()
    reward: RewardScale = CLICKS
    measures: tuple[Measure, ...] = ()
    oracle: str = ""
    features: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    @property
    def unit(self) -> str:
        """Return what visits are called here: "visit", or "visitor" where visitors come back."""
        return str(self.summary.get("unit", VISIT))

    @property
    def crowded(self) -> bool:
        """Return whether there are too many policies to draw curves and pairs of each."""
        return len(self.summary["policies"]) > CROWD


def ranked(summary: Mapping[str, Any]) -> list[str]:
    """List the policies by mean fraction of oracle, best first; those without a result come last."""
    means = {name: policy["oracle_fraction"]["mean"] for name, policy in summary["policies"].items()}
    return sorted(means, key=lambda name: (means[name] is None, -(means[name] or 0.0)))


def shock_names(summary: Mapping[str, Any]) -> list[str]:
    """List the shocks that the summary has recovery times for."""
    return list(dict.fromkeys(name for policy in summary["policies"].values() for name in policy["recovery_steps"]))


def parted(summary: Mapping[str, Any]) -> tuple[list[Pair], list[Pair]]:
    """Return the pairs that matter, and the rest, each turned so that its first policy did better.

    Those that matter have the best policy, from the second place down, or are neighbours in the ranking.
    """
    pairs = oriented(summary["pairs"])
    if len(pairs) <= FEW_PAIRS:
        return pairs, []
    order = ranked(summary)
    # As sets, since a pair is turned by who did better.
    with_best = [frozenset((order[0], name)) for name in order[1:]]
    neighbours = [frozenset(names) for names in itertools.pairwise(order[1:])]
    of_names = {frozenset((pair["a"], pair["b"])): pair for pair in pairs}
    chosen = [names for names in (*with_best, *neighbours) if names in of_names]
    return [of_names[names] for names in chosen], [pair for names, pair in of_names.items() if names not in chosen]


def oriented(pairs: list[Pair]) -> list[Pair]:
    """Turn each pair so that its first policy did better, largest lead first; pairs without a result come last."""
    turned = [_turn(pair) if (pair["difference"] or 0.0) < 0 else pair for pair in pairs]
    return sorted(turned, key=lambda pair: (pair["difference"] is None, -(pair["difference"] or 0.0)))


def _turn(pair: Pair) -> Pair:
    low, high = (None if pair[key] is None else -pair[key] for key in ("high", "low"))
    return {**pair, "a": pair["b"], "b": pair["a"], "difference": -pair["difference"], "low": low, "high": high}
