"""Checks that a launch is sound, apart from what it earns: pure functions of numbers, each None or a `Finding`.

A check that fails says nothing about the new policy's rewards, and so it does not judge them: most of these hold the
launch where it is until they pass again. Missing rewards freeze learning, since a broken pixel is no bad policy, and
never take a launch back.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from zoosim.monitoring.split import SplitTest


class Action(StrEnum):
    """Action of a launch while a check fails, from the mildest on."""

    WARN = "warn"
    FREEZE = "freeze learning"
    HOLD = "hold"
    ROLL_BACK = "roll back"


@dataclass(frozen=True)
class Finding:
    """A check that fails.

    Attributes:
        check: Name of the check, and of what was checked where there are several; no two findings share it.
        action: What is done about it.
        what: What was seen, a sentence without its full stop.
        cause: What is likely behind it, as a sentence.
        advice: What to do, as a sentence.
        since: When it began, in the words of the caller; empty before `standing` has said so.
    """

    check: str
    action: Action
    what: str
    cause: str
    advice: str
    since: str = ""

    def __str__(self) -> str:
        """Return it in words: what, since when, the likely cause, what to do, and what is done."""
        when = f" since {self.since}" if self.since else ""
        return f"{self.what}{when}. {self.cause}. {self.advice}. Done: {self.action}."


def standing(before: Mapping[str, Finding], found: Iterable[Finding | None], now: str) -> dict[str, Finding]:
    """Return the findings that stand now by check, each with the time since when it has.

    Args:
        before: What stood before, by check.
        found: What the checks found now.
        now: The time, in the words that are shown.
    """
    current = [finding for finding in found if finding is not None]
    return {
        finding.check: replace(finding, since=before[finding.check].since if finding.check in before else now)
        for finding in current
    }


def split_ratio(test: SplitTest, arms: Iterable[str], *, action: Action = Action.HOLD) -> Finding | None:
    """Check that visitors fall to the arms as the shares say (a sample ratio mismatch).

    Args:
        test: The counts of visitors by arm.
        arms: Names of the arms.
        action: What to do about it.
    """
    if not test.is_off:
        return None
    counts = zip(arms, test.counts.tolist(), test.expected.tolist(), strict=True)
    parts = ", ".join(f"{name} {count:,} where {expected:,.0f} are expected" for name, count, expected in counts)
    return Finding(
        "split ratio",
        action,
        f"Visitors are not split by the shares: {parts}",
        "Requests of one arm fail or are sent again, or visitor ids change on the way",
        "Compare requests with decisions by arm; what the arms earned cannot be compared until then",
    )


def no_traffic(arm: str, minutes: float, limit: float, *, action: Action = Action.HOLD) -> Finding | None:
    """Check that an arm with a share decides at all.

    Args:
        arm: Name of the arm.
        minutes: Time since its last decision, in minutes.
        limit: Longest time without one.
        action: What to do about it.
    """
    if minutes <= limit:
        return None
    return Finding(
        f"no traffic: {arm}",
        action,
        f"{arm} has decided nothing for {minutes:,.0f} minutes",
        "Requests do not come in, or the arm leaves them all to another one",
        "Look at the requests of the front, and at `left to the champion` in /metrics",
    )


def double_exposure(both: int, visitors: int, limit: float = 0.01, *, action: Action = Action.HOLD) -> Finding | None:
    """Check that few visitors met both arms: they blur the difference.

    Args:
        both: Visitors who met more than one arm since the shares last changed.
        visitors: Visitors since then.
        limit: Largest part of the visitors.
        action: What to do about it.
    """
    if visitors < 100 or both <= limit * visitors:
        return None
    return Finding(
        "double exposure",
        action,
        f"{both:,} of {visitors:,} visitors ({both / visitors:.1%}) met both arms",
        "Some requests name no visitor, or one visitor has several ids",
        "Send the same visitor_id with all requests of a visitor",
    )


def propensities(wrong: int, decisions: int, *, action: Action = Action.ROLL_BACK) -> Finding | None:
    """Check that the probabilities of each decision are numbers of [0, 1] whose sum is 1.

    Args:
        wrong: Decisions of the new policy whose probabilities are not.
        decisions: Its decisions.
        action: What to do about it.
    """
    if not wrong:
        return None
    return Finding(
        "propensities",
        action,
        f"The probabilities of {wrong:,} of {decisions:,} decisions do not sum to 1",
        "The policy computes them wrongly, or holds numbers that are not finite",
        "Run `zoosim check-policy`; its log cannot be used to evaluate others",
    )


def product_share(
    product: str, shown: int, decisions: int, limit: float, *, action: Action = Action.HOLD
) -> Finding | None:
    """Check that no product has more than its part of the decisions.

    Args:
        product: The product that was shown most.
        shown: How often.
        decisions: Number of the new policy's decisions.
        limit: Largest part.
        action: What to do about it.
    """
    if decisions < 100 or shown <= limit * decisions:
        return None
    return Finding(
        "product share",
        action,
        f"{product} has {shown / decisions:.0%} of {decisions:,} decisions, allowed are {limit:.0%}",
        "The policy has settled on one product, or others are not available",
        "Look at its reward and at the availability of the others; raise the exploration",
    )


def errors(test: SplitTest, newcomer: int = 0, *, action: Action = Action.ROLL_BACK) -> Finding | None:
    """Check that the new policy fails no more often than the holdback.

    Args:
        test: Errors by arm, against the shares of requests.
        newcomer: Place of the new policy among the arms.
        action: What to do about it.
    """
    return _excess(
        "errors", "errors", "The new policy raises errors", "Read the log of the service", test, newcomer, action
    )


def latency(test: SplitTest, limit: float, newcomer: int = 0, *, action: Action = Action.ROLL_BACK) -> Finding | None:
    """Check that the new policy answers slowly no more often than the holdback: a quantile of its latency.

    Args:
        test: Answers slower than the limit by arm, against the shares of requests.
        limit: A quantile of the holdback's latency, such as its 99%, measured beforehand, in milliseconds.
        newcomer: Place of the new policy among the arms.
        action: What to do about it.
    """
    what = f"answers slower than {limit:,.0f} ms"
    cause = "The new policy is larger, or waits for something"
    advice = "Measure it under load before the next start"
    return _excess("latency", what, cause, advice, test, newcomer, action)


def _excess(
    check: str, what: str, cause: str, advice: str, test: SplitTest, newcomer: int, action: Action
) -> Finding | None:
    """Check that the new policy has no more than its share of bad events."""
    count = int(test.counts[newcomer])
    expected = float(test.expected[newcomer])
    if not test.is_off or count <= expected:
        return None
    seen = f"The new policy has {count:,} {what}, where its share of all is {expected:,.0f}"
    return Finding(check, action, seen, cause, advice)


def no_rewards(name: str, minutes: float, limit: float, usual: float) -> Finding | None:
    """Check that rewards come in at all. Their absence freezes learning, and never takes a launch back.

    Args:
        name: Name of the reward.
        minutes: Time since the last one, in minutes.
        limit: Longest time without one.
        usual: How many usually come in such a time; where it is below 20, silence says nothing.
    """
    if minutes <= limit or usual < 20.0:
        return None
    return Finding(
        f"no rewards: {name}",
        Action.FREEZE,
        f"No {name} has come for {minutes:,.0f} minutes, where about {usual:,.0f} are usual",
        "A pixel or the feedback job is broken: a bad policy would still earn a few",
        "Mend the feedback; learning goes on by itself with the first reward",
    )
