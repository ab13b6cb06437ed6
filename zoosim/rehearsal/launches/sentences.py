"""What a rehearsal of a launch says in words: whether to launch, the risk, the price, and how long it takes."""

from collections.abc import Sequence
from typing import NamedTuple

from zoosim.core.number_format import in_percent, significant, with_interval
from zoosim.core.statistics import Interval
from zoosim.off_policy.verdict import Verdict
from zoosim.rehearsal.launches.figures import LaunchFigures
from zoosim.rehearsal.launches.price import Price, in_days


class Told(NamedTuple):
    """What sentences speak of: the model, the unit of rewards, the horizon in days, and the bearable part."""

    model: str
    unit: str
    days: float
    bearable: float


def conclusion(figures: LaunchFigures, told: Told, prices: Sequence[Price], believed: Verdict) -> list[str]:
    """Say whether to launch, in the first sentence, then what that rests on."""
    return [
        _answer(figures, told),
        *([] if not believed.reasons else [f"Take this as {believed.word} evidence: {'; '.join(believed.reasons)}."]),
        _ends(figures, told),
        _net(figures, told),
        _asking(figures, told),
        *_dangers(figures),
        *price_sentence(prices, told.unit),
    ]


def _answer(figures: LaunchFigures, told: Told) -> str:
    chance = _chance(figures.regret)
    cost = f"costs over {100.0 * told.bearable:.3g}% of today's {told.unit}"
    if figures.net.mean > 0.0:
        return f"Launch {told.model}: the chance that you regret it, as it {cost}, is {chance}."
    return f"Do not launch {told.model}: it is expected to lose; the chance that it {cost} is {chance}."


def _ends(figures: LaunchFigures, told: Told) -> str:
    ships = f"It ships in {_chance(figures.shipped)} of {figures.n} rehearsed launches"
    if figures.hours_to_ship is not None:
        ships += f", after {in_days(figures.hours_to_ship.mean / 24.0)} in the median"
    return (
        f"{ships}, is taken back in {_chance(figures.taken_back)}, and cannot be told within {told.days:g} days in "
        f"{_chance(figures.untold)}."
    )


def _net(figures: LaunchFigures, told: Told) -> str:
    net = with_interval(*figures.net, signed=True)
    share = in_percent(*figures.net_share, signed=True, suffix="%")
    return (
        f"Over {told.days:g} days expect {net.value} {told.unit} ({net.interval} for 19 launches of 20), "
        f"{share.value} on today's choices."
    )


def _asking(figures: LaunchFigures, told: Told) -> str:
    asking = with_interval(*figures.asking)
    return (
        f"Not to know beforehand which is better costs {asking.value} {told.unit} ({asking.interval}): those of "
        "visitors who meet the worse of both until it is told, and of the holdback."
    )


def _dangers(figures: LaunchFigures) -> list[str]:
    dangers = []
    if figures.shipped_worse.mean > 0.0:
        dangers.append(f"It ships, though it truly earns less, in {_chance(figures.shipped_worse)} of launches.")
    if figures.taken_back_better.mean > 0.0:
        dangers.append(f"It is taken back, though it truly earns more, in {_chance(figures.taken_back_better)}.")
    return dangers


def price_sentence(prices: Sequence[Price], unit: str) -> list[str]:
    """Return the price tag of telling +10% with the smallest share, where there is one."""
    tags = [price for price in prices if price.lift == 0.1]
    if not tags:
        return []
    tag = tags[0]
    return [
        f"To tell +10% takes {in_days(tag.days)} with {tag.share:.0%} of the visitors, and costs "
        f"{significant(tag.a_day, 3)} {unit} a day if the model is 10% worse instead."
    ]


def _chance(share: Interval) -> str:
    """Return a chance with its interval, in whole percents."""
    assert share.low is not None
    assert share.high is not None
    return f"{share.mean:.0%} ({100 * share.low:.0f} to {share.high:.0%})"
