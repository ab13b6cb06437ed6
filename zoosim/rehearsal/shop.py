"""Facts of the shop that wrote a log, and what they ask of a policy; and what the log cannot tell."""

from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np

from zoosim.core.durations import DAY, MICROSECONDS
from zoosim.core.number_format import counted, plain
from zoosim.core.types import FloatArray
from zoosim.fitting.checks import Checks
from zoosim.fitting.columns import ITSELF, PRODUCTS, VISITORS
from zoosim.logs.log import DAYS_PER_MONTH, Log
from zoosim.worlds.fitted.shop import FittedShop

SHOWN = 2.0
"""Standard errors beyond which a variance is shown to be above 0."""


class Fact(NamedTuple):
    """A fact that a log tells of a shop, and its meaning for policies; `is_known` is False for what it cannot tell."""

    name: str
    found: str
    meaning: str = ""
    is_known: bool = True


class RewardDelay(NamedTuple):
    """The delay of rewards: in the median `seconds` after the decision, and `visits`; of `n` rewards."""

    seconds: float
    visits: int
    n: int


def measure_delay(log: Log, delays: FloatArray) -> RewardDelay | None:
    """Return how late rewards came, by `delays (n,)` in seconds, NaN where no feedback did; None where none did."""
    came = np.flatnonzero(np.isfinite(delays))
    if log.times is None or not len(came):
        return None
    times = np.sort(log.times)
    decided = log.times[came]
    rewarded = decided + delays[came] * MICROSECONDS
    # Visits after the decision, up to the one at whose time the reward came.
    between = np.searchsorted(times, rewarded, "right") - np.searchsorted(times, decided, "right")
    return RewardDelay(float(np.median(delays[came])), int(np.median(between)), len(came))


def visits_a_day(log: Log) -> float | None:
    """Return the visits of a day, None where the log knows no times or covers less than a day."""
    if log.times is None or np.ptp(log.times) < DAY:
        return None
    return log.visits_per_day


def months_visits(log: Log) -> int:
    """Return the visits of a month, or as many as the log has where it knows no times."""
    a_day = visits_a_day(log)
    return len(log) if a_day is None else max(1, round(DAYS_PER_MONTH * a_day))


def describe_horizon(visits: int, a_day: float | None) -> str:
    """Return a number of visits in words, with the time that they take where that is known."""
    if a_day is None:
        return f"the next {visits:,} visits"
    days = visits / a_day
    return f"the next {visits:,} visits ({f'{days:,.0f} days' if days >= 1.5 else f'{24 * days:,.0f} hours'})"


def describe_shop(
    log: Log, shop: FittedShop | None, checks: Checks | None, delay: RewardDelay | None, is_deterministic: bool = False
) -> list[Fact]:
    """Return what a log says of a shop; `shop` and `checks` are None where no world could be fitted."""
    facts = [*_size(log), _propensities(log, is_deterministic), _returning(log, shop)]
    if shop is not None and checks is not None:
        facts += [*_columns(checks), _drift(log, shop)]
    return [*facts, _delay(delay), *_not_in_a_rehearsal(log)]


def _size(log: Log) -> list[Fact]:
    a_day = visits_a_day(log)
    traffic = "" if a_day is None else f", {a_day:,.0f} a day"
    shown = np.bincount(log.actions, minlength=log.n_actions)
    never = int((shown == 0).sum())
    responses = log.rewards != 0.0
    amounts = log.rewards[responses]
    each = "each worth 1" if (amounts == 1.0).all() else f"worth {np.median(amounts):.3g} in the median"
    per_product = responses.sum() / log.n_actions
    share_meaning = f"{per_product:,.1f} rewards per product: "
    share_meaning += "few, so products must learn from those alike" if per_product < 30 else "enough to judge each"
    facts = [
        Fact("visits", f"{len(log):,}{traffic}{_period(log)}"),
        Fact(
            "products",
            f"{log.n_actions:,}, {f'{never:,} of them never shown' if never else 'all of them shown'}",
            share_meaning,
        ),
        Fact(
            "reward", f"{log.objective}: {responses.mean():.2%} of the visits, {each}; {log.rewards.mean():.4g} a visit"
        ),
    ]
    if log.other_rewards:
        facts.append(Fact("other rewards", ", ".join(log.other_rewards), "judged by the log, and not rehearsed"))
    return facts


def _period(log: Log) -> str:
    if log.times is None:
        return ", times unknown"
    first, last = (datetime.fromtimestamp(int(time) / MICROSECONDS, UTC) for time in (log.times.min(), log.times.max()))
    days = dict.fromkeys([f"{first:%Y-%m-%d}", f"{last:%Y-%m-%d}"])
    return f", {' to '.join(days)}"


def _propensities(log: Log, is_deterministic: bool) -> Fact:
    name = "probabilities of what was shown"
    if log.has_propensities:
        return Fact(name, "logged", "the log can judge policies")
    if is_deterministic:
        meaning = "hardly a row says what another product earns: show a share by chance"
        return Fact(name, "not logged; the shop chose without chance", meaning)
    return Fact(name, "not logged, estimated", "weak evidence at best: show a share by chance, and log the probability")


def _returning(log: Log, shop: FittedShop | None) -> Fact:
    name = "returning visitors"
    if log.user_ids is None:
        return Fact(name, "not in the log, which names no visitors", is_known=False)
    counts = np.unique(log.user_ids, return_counts=True)[1]
    found = f"{len(counts):,} visitors; {1.0 - len(counts) / len(log):.0%} of the visits are by one who came before"
    if shop is None:
        return Fact(name, found)
    kinds = [kind for kind in ("visitors", "tastes") if _is_shown(shop, kind)]
    if not kinds:
        return Fact(name, found, "nothing of their own is shown beyond what columns tell")
    return Fact(name, found, "they seem to have tastes of their own: what a visitor did before is worth a column")


def _is_shown(shop: FittedShop, kind: str) -> bool:
    estimate, error = shop.facts["spreads"][kind]
    return bool(error > 0.0 and estimate > SHOWN * error)


def _columns(checks: Checks) -> list[Fact]:
    facts = []
    for of, none in (
        (VISITORS, "nothing shows yet that it matters who comes"),
        (PRODUCTS, "nothing shows yet that it matters which product is shown"),
    ):
        columns = [column for column in checks.held_out.columns if column.of == of]
        columns.sort(key=lambda column: -column.gain.mean)
        telling = [column.name for column in columns if column.tells]
        others = [column.name for column in columns if not column.tells and column.name != ITSELF]
        found = ", ".join(telling) or "none is shown"
        found += f"; not shown: {', '.join(others)}" if others else ""
        facts.append(Fact(f"columns of {of} that tell", found, "" if telling else none))
    if any(column.name == ITSELF and column.tells for column in checks.held_out.columns):
        meaning = "products differ by more than their columns: a policy must learn of each by its id"
        facts[-1] = facts[-1]._replace(meaning=meaning)
    return facts


def _drift(log: Log, shop: FittedShop) -> Fact:
    shown = [kind for kind in ("hours", "days") if _is_shown(shop, kind)]
    also = f"; rewards differ by {' and '.join(shown)}" if shown else ""
    if not shop.changes:
        return Fact("drift", f"no change of what visitors respond to is shown{also}")
    when = ", ".join(_when(log, change.row, shop.n_rows) for change in shop.changes)
    meaning = "a policy must forget; one that was trained once grows old"
    count = counted(len(shop.changes), "change")
    return Fact("drift", f"{count} of what visitors respond to: {when}{also}", meaning)


def _when(log: Log, row: int, n_rows: int) -> str:
    """Say after which share of the log, and on which day, a change is."""
    share = f"after {row / n_rows:.0%} of the rows"
    if log.times is None:
        return share
    # A large shop holds some of the log's rows alone, so its rows are found at the same share of the log.
    time = np.sort(log.times)[min(len(log) - 1, row * len(log) // n_rows)]
    return f"{share} ({datetime.fromtimestamp(int(time) / MICROSECONDS, UTC):%Y-%m-%d})"


def _delay(delay: RewardDelay | None) -> Fact:
    if delay is None:
        found = "not in the log, which does not say when rewards came"
        return Fact("delay of rewards", found, "rehearsed as if they came at once", is_known=False)
    found = f"{plain(delay.seconds)} s in the median ({delay.n:,} rewards), {delay.visits:,} visits"
    return Fact("delay of rewards", found, "rehearsed as late")


def _not_in_a_rehearsal(log: Log) -> list[Fact]:
    facts = []
    if not log.candidates.are_everything and len(log.candidates) > 1:
        found = f"{len(log.candidates):,} different sets of products"
        meaning = "the rehearsal sells all products at all times, so what is to gain is too high"
        facts.append(Fact("candidates", found, meaning))
    missing = "what a visitor saw before, products that are still to come"
    if log.positions.any():
        missing = f"positions, {missing}"
    return [*facts, Fact("not rehearsed", missing, "expect less, or other, in the real shop", is_known=False)]
