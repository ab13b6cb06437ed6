"""Which policies to try in a shop, and why: what a rehearsal and a log say of each, and whether that is enough."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from zoosim.core.errors import PolicyFailure
from zoosim.core.number_format import p_value, percent
from zoosim.core.statistics import SIGNIFICANT, Interval
from zoosim.off_policy.compare import LOGGED
from zoosim.off_policy.results import Evaluation
from zoosim.off_policy.sentences import best_result, percent_more, sentences
from zoosim.off_policy.verdict import DO_NOT_USE, TRUST, WEAK, Verdict
from zoosim.rehearsal.figures import Rehearsal, Rehearsed

FIRST, BESIDE, NOT = PLACES = ("take first", "try beside", "not now")


class Advice(NamedTuple):
    """What to do with a policy, one of `PLACES`, and why."""

    policy: str
    place: str
    reason: str


class Evidence(NamedTuple):
    """What is known of policies.

    Args:
        verdict: How far to believe a rehearsal in the shop that was fitted.
        rehearsal: What policies earned in it, None where it is not to be believed, or nothing was finished.
        pairs: Each two of them compared, as summary.json of a run has it.
        failures: Policies that failed in it.
        evaluation: What the log says of policies that learn from logs, None where it cannot.
        notes: Why policies could not learn from the log.
    """

    verdict: Verdict
    rehearsal: Rehearsal | None
    pairs: Sequence[Mapping[str, Any]]
    failures: Sequence[PolicyFailure]
    evaluation: Evaluation | None
    notes: Mapping[str, tuple[str, ...]]


class LogEvidence(NamedTuple):
    """What a log says of a policy: the verdict, whether it earns more (1) or less (-1) than was logged, in words.

    All of the objective alone.
    """

    verdict: str
    sign: int
    sentence: str


def advise(evidence: Evidence) -> list[Advice]:
    """Return what to do with each policy, the one to take first on top; none where too little speaks for any.

    One is taken first that earns more than today's choices beyond chance: by a rehearsal and, where it was judged by
    the log, not against that; or by the log alone, if that can be trusted.
    """
    rehearsed = {} if evidence.rehearsal is None else {row.policy: row for row in evidence.rehearsal.policies}
    by_log = log_evidence(evidence.evaluation)
    failed = {failure.policy: f"failed in the rehearsal: {failure.reason}" for failure in evidence.failures}
    unable = failed | {name: lines[0] for name, lines in evidence.notes.items()}
    names = list(dict.fromkeys([*rehearsed, *by_log, *unable]))
    first = _first(evidence, [name for name in names if name not in unable], by_log)
    advice = []
    for name in names:
        if name in unable:
            advice.append(Advice(name, NOT, unable[name]))
            continue
        reasons = []
        if evidence.rehearsal is not None and name in rehearsed:
            reasons.append(_in_rehearsal(rehearsed[name], evidence.rehearsal))
        if name in by_log:
            reasons.append(f"by the log {by_log[name].sentence}")
        place = FIRST if name == first else _place(name, first, evidence, by_log)
        reasons += _compared(name, first, place, evidence.pairs)
        if _overtakes(name, first, evidence):
            reasons.append(f"it overtakes {first} in the last fifth, so take it for longer runs")
        advice.append(Advice(name, place, "; ".join(reasons)))
    return sorted(advice, key=lambda each: PLACES.index(each.place))


def log_evidence(evaluation: Evaluation | None) -> dict[str, LogEvidence]:
    """Return what a log says of each policy, by its best estimate."""
    if evaluation is None:
        return {}
    words = sentences(evaluation)
    found = {}
    for name in dict.fromkeys(row.policy for row in evaluation.results):
        best = best_result(evaluation, name)
        of_policy = (name, LOGGED, best.estimator)
        row = next(row for row in evaluation.differences if (row.policy, row.other, row.estimator) == of_policy)
        sign = 0
        if best.verdict != DO_NOT_USE:
            sign = int(row.low is not None and row.low > 0.0) - int(row.high is not None and row.high < 0.0)
        found[name] = LogEvidence(best.verdict, sign, words.get(name, best.verdict).partition("; ")[0])
    return found


def _first(evidence: Evidence, names: Sequence[str], by_log: Mapping[str, LogEvidence]) -> str | None:
    """Return the policy to take first: of those that a rehearsal speaks for, the best there; else the log's best."""
    trusted = [name for name in names if name in by_log and by_log[name].verdict == TRUST and by_log[name].sign > 0]
    speaks = [name for name in names if _is_better(name, evidence) and _is_allowed(name, by_log)]
    if evidence.verdict.word == TRUST and speaks:
        return speaks[0]
    return trusted[0] if trusted else None


def _is_better(name: str, evidence: Evidence) -> bool:
    """Whether a policy earned more than today's choices in the rehearsal, beyond chance."""
    rows = () if evidence.rehearsal is None else evidence.rehearsal.policies
    return any(row.policy == name and row.gain.low is not None and row.gain.low > 0.0 for row in rows)


def _is_allowed(name: str, by_log: Mapping[str, LogEvidence]) -> bool:
    """Whether the log, where it judged a policy, does not speak against it."""
    return name not in by_log or by_log[name].sign >= 0


def _place(name: str, first: str | None, evidence: Evidence, by_log: Mapping[str, LogEvidence]) -> str:
    """Return whether a policy that is not the first is worth a trial beside what is shown today."""
    if not _is_allowed(name, by_log):
        return NOT
    if name in by_log and by_log[name].sign > 0:
        return BESIDE
    is_hopeful = evidence.verdict.word in (TRUST, WEAK) and _is_better(name, evidence)
    is_close = not _is_behind(name, first, evidence.pairs) or _overtakes(name, first, evidence)
    return BESIDE if is_hopeful and is_close else NOT


def _overtakes(name: str, first: str | None, evidence: Evidence) -> bool:
    """Whether a policy earned less than the first in all, and more in the last fifth of the rehearsal."""
    rows = () if evidence.rehearsal is None else evidence.rehearsal.policies
    return any(row.policy == name and first in row.overtakes for row in rows)


def _is_behind(name: str, first: str | None, pairs: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the rehearsal tells a policy apart from the first."""
    pair = _pair(name, first, pairs)
    return pair is not None and pair["p"] is not None and pair["p"] < SIGNIFICANT


def _pair(name: str, other: str | None, pairs: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    return next((pair for pair in pairs if {pair["a"], pair["b"]} == {name, other}), None)


def _compared(name: str, first: str | None, place: str, pairs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Say how far a policy lies behind the first in the rehearsal, or of one to try that they are not told apart."""
    pair = _pair(name, first, pairs)
    if pair is None or pair["p"] is None:
        return []
    if not _is_behind(name, first, pairs):
        return [f"not told apart from {first} (p {p_value(pair['p'])})"] if place == BESIDE else []
    lead = abs(pair["difference"])
    return [f"{100 * lead:.1f} points of the best possible behind {first} (p {p_value(pair['p'])})"]


def _in_rehearsal(row: Rehearsed, rehearsal: Rehearsal) -> str:
    """Say what a policy earned in the rehearsal, when that was worth it, and what exploring cost."""
    more = f"{written_gain(row.gain, rehearsal.is_share)} against today's choices in the rehearsal"
    if row.gain.low is None or row.gain.high is None or row.gain.low <= 0.0 <= row.gain.high:
        more += ", which may be chance"
    if row.worth_after is None:
        return f"{more}, not worth it within {rehearsal.steps:,} visits"
    if row.worth_after == 0:
        return f"{more}, from the first visit on"
    visits = f"{row.worth_after:,} visit{'s' * (row.worth_after > 1)}"
    return f"{more}, worth it after {visits}; exploring costs {row.cost:,.2g} rewards before"


def written_gain(gain: Interval, is_share: bool) -> str:
    """Write what a policy earned above today's choices, with its interval."""
    if is_share:
        ends = f" ({percent_more(gain.low)} to {percent_more(gain.high)})" if gain.low is not None else ""
        return f"{percent_more(gain.mean)}{ends}"
    ends = f" ({gain.low:+.3g} to {gain.high:+.3g})" if gain.low is not None and gain.high is not None else ""
    return f"{gain.mean:+.3g} a visit{ends}"


def verdict(advice: Sequence[Advice], evidence: Evidence) -> str:
    """Say what to take, or why nothing can be named, and what to try beside it."""
    first = [each for each in advice if each.place == FIRST]
    beside = ", ".join(each.policy for each in advice if each.place == BESIDE)
    words = f"No policy is named: {why_none(evidence)}."
    if first:
        words = f"Take {first[0].policy} first: {first[0].reason}."
    if beside:
        words += f" Try beside {'it' if first else 'what is shown today, as an experiment'}: {beside}."
    return words


def why_none(evidence: Evidence) -> str:
    """Say why no policy can be named."""
    if evidence.verdict.word != TRUST:
        reasons = "; ".join(evidence.verdict.reasons)
        return f"a rehearsal in a shop fitted to this log is not to be relied on ({evidence.verdict.word}): {reasons}"
    if evidence.rehearsal is None:
        return "no seed was finished by all policies"
    if evidence.rehearsal.seeds == 1:
        return "one seed does not tell chance apart; run at least 10 (--seeds 10)"
    share = percent(evidence.rehearsal.today_of_oracle.mean)
    return f"none is shown to earn more than today's choices, which earn {share} of what the best ones would"
