"""A launch: when a new policy is shipped, held or taken back, as one rule and one table.

The rule (Spotify's "Risk-Aware Product Decisions", 2024): ship if one success metric is shown to improve and every
guardrail is shown not to be worse than its margin; take back if a guardrail is shown to be worse than that. Whatever
lies between cannot be told yet, and never ships. A *signal* that falls holds the launch where it is, until its evidence
is gone. Health checks (`zoosim.monitoring.health`) hold, freeze or take back apart from all metrics.

Nothing here reads a clock or changes traffic: a ramp asks `next_event` and obeys `next_state`.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from zoosim.core.errors import ConfigError
from zoosim.monitoring.difference import BETTER, HARM, NOT_WORSE, DifferenceTest, Reward
from zoosim.monitoring.health import Action
from zoosim.monitoring.sample_size import events_needed

HOURS_PER_YEAR = 8_760.0
"""Hours beyond which no day is told."""

MOST_TOLD = 1e12
"""Events from which on no number is told: no shop has them."""


class Role(StrEnum):
    """Role of a metric: what it decides."""

    SUCCESS = "success"
    GUARDRAIL = "guardrail"
    SIGNAL = "signal"


@dataclass(frozen=True)
class Metric:
    """A reward and what it decides; a reward that is a success and must not fall either is two metrics."""

    reward: Reward
    role: Role


class State(StrEnum):
    """Where a launch is."""

    PENDING = "pending"
    READY = "ready"
    RUNNING = "running"
    CANNOT_TELL = "cannot tell yet"
    PAUSED = "paused"
    COMPLETED = "completed"
    ROLLED_BACK = "rolled back"


SPLITTING = (State.RUNNING, State.CANNOT_TELL, State.PAUSED)
"""States in which a launch splits the visitors."""


class Event(StrEnum):
    """Event in the life of a launch; `PREPARED` to `TAKEN_BACK` are a person's, the others follow from `next_event`."""

    PREPARED = "prepared"
    STARTED = "started"
    PAUSED = "paused by a person"
    RESUMED = "resumed by a person"
    TAKEN_BACK = "taken back by a person"
    STEPPED = "next share"
    TIME_OVER = "time over without a verdict"
    EXPIRED = "no verdict in all the time there was"
    SHIPPED = "shipped"
    HARMED = "harm shown"
    HELD = "held by a signal or check"
    CLEARED = "signal and checks clear"


TRANSITIONS: dict[State, dict[Event, State]] = {
    State.PENDING: {
        Event.PREPARED: State.READY,
        Event.TAKEN_BACK: State.ROLLED_BACK,
    },
    State.READY: {
        Event.STARTED: State.RUNNING,
        Event.TAKEN_BACK: State.ROLLED_BACK,
    },
    State.RUNNING: {
        Event.STEPPED: State.RUNNING,
        Event.TIME_OVER: State.CANNOT_TELL,
        Event.SHIPPED: State.COMPLETED,
        Event.HELD: State.PAUSED,
        Event.PAUSED: State.PAUSED,
        Event.HARMED: State.ROLLED_BACK,
        Event.TAKEN_BACK: State.ROLLED_BACK,
    },
    State.CANNOT_TELL: {  # it waits at its last share for evidence, for as long as its plan lets it
        Event.EXPIRED: State.ROLLED_BACK,
        Event.SHIPPED: State.COMPLETED,
        Event.HELD: State.PAUSED,
        Event.PAUSED: State.PAUSED,
        Event.HARMED: State.ROLLED_BACK,
        Event.TAKEN_BACK: State.ROLLED_BACK,
    },
    State.PAUSED: {
        Event.CLEARED: State.RUNNING,
        Event.RESUMED: State.RUNNING,
        Event.PAUSED: State.PAUSED,  # by a person, where a check held it before: then only a person resumes
        Event.HARMED: State.ROLLED_BACK,
        Event.TAKEN_BACK: State.ROLLED_BACK,
    },
    State.COMPLETED: {
        Event.TAKEN_BACK: State.ROLLED_BACK,
    },
    State.ROLLED_BACK: {},
}


def next_state(state: State, event: Event) -> State:
    """Return the state after an event; raises `ConfigError` where it cannot happen."""
    after = TRANSITIONS[state].get(event)
    if after is None:
        possible = ", ".join(TRANSITIONS[state]) or "nothing more"
        raise ConfigError(f"launch: {state}: got {event!s}, expected {possible}")
    return after


class Verdict(StrEnum):
    """Verdict of the metrics together."""

    SHIP = "ship"
    ROLL_BACK = "roll back"
    HOLD = "hold"
    CANNOT_TELL = "cannot tell yet"


@dataclass(frozen=True)
class Judgement:
    """A verdict and its reason, a sentence; `remaining` events until it can be told, infinity if nobody knows."""

    verdict: Verdict
    sentence: str
    remaining: float = 0.0


def new_tests(
    metrics: Sequence[Metric], *, level: float = 0.01, ship_level: float = 0.1, strata: int = 1
) -> list[DifferenceTest]:
    """Return the test of each metric.

    Guardrails share the level of taking back wrongly, successes that of shipping wrongly, since one is enough. That all
    guardrails must pass needs no correction: one that is worse keeps the level alone.

    Args:
        metrics: The metrics, at least one of them a success.
        level: Probability of ever taking back a launch that harms none of the guardrails, and of shipping one that is
            worse than one of their margins; where that reward is a success, too, `ship_level` is added to the second.
        ship_level: Probability of ever shipping one that improves nothing.
        strata: Number of strata.

    Raises:
        ConfigError: no metric is a success, or a guardrail has no margin.
    """
    roles = [metric.role for metric in metrics]
    if Role.SUCCESS not in roles:
        raise ConfigError("launch: no metric is a success, so that nothing could ship; give one the role success")
    for metric in metrics:
        if metric.role is Role.GUARDRAIL and not metric.reward.margin:
            name = metric.reward.name
            raise ConfigError(
                f"launch: guardrail {name}: margin 0, expected above 0: that it is not worse at all is "
                "shown by an improvement alone; make it a signal, or give it a margin"
            )
    harm = level / max(roles.count(Role.GUARDRAIL), 1)
    better = ship_level / roles.count(Role.SUCCESS)
    levels = {
        Role.SUCCESS: (level, level, better),
        Role.GUARDRAIL: (harm, level, better),
        Role.SIGNAL: (level, level, level),
    }
    return [DifferenceTest(metric.reward, levels=levels[metric.role], strata=strata) for metric in metrics]


def said_beforehand(
    test: DifferenceTest, *, mean: float, variance: float, share: float, per_hour: float, guardrails: int = 1
) -> str:
    """Return how many events and hours a guardrail needs, in a sentence, before it begins.

    Args:
        test: The guardrail's test.
        mean, variance: Of the reward, as it is now.
        share: Chance that an event is the new policy's, given that it is one of the two arms.
        per_hour: Events of both arms per hour, above 0.
        guardrails: Number of guardrails that must all be shown not to be worse.

    Raises:
        ConfigError: the mean is not above 0 where margins are parts of it, or another number is out of range.
    """
    reward = test.reward
    unit = mean if reward.relative else 1.0
    harm, not_worse, _ = (reward.distances * unit).tolist()
    found = events_needed(harm, variance, share, test.levels[HARM])
    shown = events_needed(not_worse, variance, share, test.levels[NOT_WORSE], tests=guardrails)
    drop = f"{reward.drop:.3g}" if not reward.relative else f"{reward.drop:.1%}"
    margin = f"{reward.margin:.3g}" if not reward.relative else f"{reward.margin:.1%}"
    until_found = events_in_words(found, per_hour)
    until_shown = events_in_words(shown, per_hour)
    return (
        f"{reward.name}: a drop of {drop} is found after about {until_found}; that it is not worse by {margin} is "
        f"shown after about {until_shown}."
    )


def verdict_of(
    metrics: Sequence[Metric], tests: Sequence[DifferenceTest], *, held: bool = False
) -> tuple[Verdict, DifferenceTest | None]:
    """Return the verdict of all metrics, and the test that says so, None where it cannot be told.

    Args:
        metrics: The metrics.
        tests: The test of each.
        held: Whether a signal holds the launch now. It is held from an evidence for harm of 1 / level on, until that
            is back at 1.
    """
    by_role = _by_role(metrics, tests)
    for test in by_role[Role.GUARDRAIL]:
        if test.shown[HARM]:
            return Verdict.ROLL_BACK, test
    for test in by_role[Role.SIGNAL]:
        if test.evidence[HARM] >= (1.0 if held else 1.0 / test.levels[HARM]):
            return Verdict.HOLD, test
    if all(test.shown[_passing_claims(test, metrics)].any() for test in by_role[Role.GUARDRAIL]):
        for test in by_role[Role.SUCCESS]:
            if test.shown[BETTER]:
                return Verdict.SHIP, test
    return Verdict.CANNOT_TELL, None


CLAIMS = {
    Verdict.ROLL_BACK: "is worse than the {baseline} by more than its margin",
    Verdict.HOLD: "has fallen, and only holds the launch",
    Verdict.SHIP: "is better, and no guardrail is worse than its margin",
}
"""What a verdict says of the reward whose test it rests on, and of the `baseline`."""


def judge(
    metrics: Sequence[Metric],
    tests: Sequence[DifferenceTest],
    *,
    share: float,
    per_hour: float = 0.0,
    held: bool = False,
    now: datetime | None = None,
    baseline: str = "holdback",
) -> Judgement:
    """Return the verdict of all metrics and its reason; where it cannot be told, after how many events.

    Args:
        metrics, tests, held: As those of `verdict_of`.
        share: Chance that an event is the new policy's, given that it is one of the two arms.
        per_hour: Events of both arms per hour, 0 where nobody knows.
        now: The time, to say when that will be.
        baseline: What the new policy is compared with, for the sentence.
    """
    verdict, test = verdict_of(metrics, tests, held=held)
    if test is not None:
        return Judgement(verdict, _told(test, CLAIMS[verdict].format(baseline=baseline), baseline))
    if not 0.0 < share < 1.0:
        sentence = f"Cannot tell yet: the new policy or the {baseline} decides for nobody."
        return Judgement(verdict, sentence, float("inf"))
    by_role = _by_role(metrics, tests)
    needed = [
        min(test.remaining(claim, share) for claim in _passing_claims(test, metrics))
        for test in by_role[Role.GUARDRAIL]
    ]
    needed.append(min(test.remaining(BETTER, share) for test in by_role[Role.SUCCESS]))
    return Judgement(verdict, _waits(max(needed), per_hour, now), max(needed))


def _by_role(metrics: Sequence[Metric], tests: Sequence[DifferenceTest]) -> dict[Role, list[DifferenceTest]]:
    pairs = list(zip(metrics, tests, strict=True))
    return {role: [test for metric, test in pairs if metric.role is role] for role in Role}


def _passing_claims(test: DifferenceTest, metrics: Sequence[Metric]) -> list[int]:
    """Return the claims of which a guardrail needs one to be shown before a launch ships.

    What is better is not worse, and where its reward is a success, too, shown by fewer events.
    """
    successes = {metric.reward.name for metric in metrics if metric.role is Role.SUCCESS}
    return [NOT_WORSE, BETTER] if test.reward.name in successes else [NOT_WORSE]


def _told(test: DifferenceTest, claim: str, baseline: str) -> str:
    """Return a claim about a reward with the figures behind it."""
    estimate = test.estimate()
    figures = f"{estimate.difference:+.4g}, {estimate.low:+.4g} to {estimate.high:+.4g}"
    return f"{test.reward.name} {claim} ({figures}; {baseline} {estimate.holdback:.4g})."


def _waits(remaining: float, per_hour: float, now: datetime | None) -> str:
    if remaining == float("inf"):
        return "Cannot tell yet: nothing was earned so far."
    return f"Cannot tell yet: about {events_in_words(remaining, per_hour, 'more decisions', now)}."


def events_in_words(events: float, per_hour: float = 0.0, noun: str = "decisions", now: datetime | None = None) -> str:
    """Return a number of events in words, with the hours that they take, and when these are over.

    Args:
        events: How many.
        per_hour: How many there are per hour, 0 where nobody knows.
        noun: What they are called.
        now: The time from which the hours count; None where the day is not told.

    Returns:
        The words; without the number where it is `MOST_TOLD` or more.
    """
    if not events < MOST_TOLD:
        return f"a trillion or more {noun}"
    words = f"{_rounded(events):,} {noun}"
    if not per_hour > 0.0:
        return words
    hours = events / per_hour
    if now is None or hours > HOURS_PER_YEAR:
        return f"{words} ({hours:,.1f} hours)"
    over = now + timedelta(hours=hours)
    day = f"{over:%A}, {over:%Y-%m-%d}" if hours >= 24.0 else f"{over:%Y-%m-%d %H:%M} UTC"
    return f"{words} ({hours:,.1f} hours: {day})"


def _rounded(number: float) -> int:
    """Return a number with two digits that count, at least 1."""
    return max(int(float(f"{number:.1e}")), 1)


def next_event(
    state: State,
    verdict: Verdict,
    actions: Collection[Action],
    *,
    step_is_over: bool,
    is_last_step: bool,
    is_expired: bool = False,
    paused_by_person: bool = False,
) -> Event | None:
    """Return what happens to a launch now, None for nothing; what undoes harm comes first, shipping after all checks.

    Args:
        state: Where the launch is.
        verdict: What the metrics say.
        actions: Actions of the health checks that fail.
        step_is_over: Whether the time of its share is over.
        is_last_step: Whether no larger share follows.
        is_expired: Whether that had all the time there was to be told.
        paused_by_person: Whether a person paused it; then only a person resumes it.
    """
    possible = TRANSITIONS[state]
    if Event.HARMED not in possible:
        return None
    if verdict is Verdict.ROLL_BACK or Action.ROLL_BACK in actions:
        return Event.HARMED
    if verdict is Verdict.HOLD or Action.HOLD in actions:
        return Event.HELD if Event.HELD in possible else None
    if state is State.PAUSED:
        return None if paused_by_person else Event.CLEARED
    if not is_last_step:
        return Event.STEPPED if step_is_over and Event.STEPPED in possible else None
    if verdict is Verdict.SHIP:
        return Event.SHIPPED
    if is_expired and Event.EXPIRED in possible:
        return Event.EXPIRED
    return Event.TIME_OVER if step_is_over and Event.TIME_OVER in possible else None
