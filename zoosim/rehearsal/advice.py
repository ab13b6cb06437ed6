"""Advice on policies to try in a shop, and why: what a rehearsal and a log say of each, and whether that is enough."""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from zoosim.core.errors import PolicyFailure
from zoosim.core.number_format import counted, in_percent, percent, plain, with_interval
from zoosim.core.statistics import Interval
from zoosim.off_policy.best_estimates import best_result, lies_above_logged, policies_of, sign_over_logged
from zoosim.off_policy.estimators.single import DIRECT_METHOD
from zoosim.off_policy.results import Evaluation, Result
from zoosim.off_policy.sentences import sentences
from zoosim.off_policy.verdict import DO_NOT_USE, TRUST, WEAK, Verdict
from zoosim.rehearsal.figures import Rehearsal, Rehearsed

FIRST, TEST, BESIDE, NOT = PLACES = ("take first", "test first", "try beside", "not now")
"""Advice on policies. One at most is taken first, or tested first where the evidence is weak."""

TRAINED = "-trained"
"""The endings of names of policies that are rehearsed with what they have learned from the log."""

TIE = 0.02
"""Shares of the leader's reward within which a policy that goes on learning is preferred, if not told apart."""

LOG_TIE = 0.1
"""Likewise by what the log says, which tells less apart."""


class Advice(NamedTuple):
    """A policy's place, one of `PLACES`, and why; `policy` is its name in the rehearsal."""

    policy: str
    place: str
    reason: str


class Evidence(NamedTuple):
    """The evidence on policies.

    Args:
        verdict: How far to believe a rehearsal in the shop that was fitted.
        rehearsal: What policies earned in it, None where it is not to be believed, or nothing was finished.
        failures: Policies that failed in it.
        evaluation: What the log says of policies that learn from logs, None where it cannot.
        notes: Why policies could not learn from the log, by name; some compete untrained nevertheless.
        learners: The policies that go on learning from what they show.
        contenders: All that compete, whether they were rehearsed or judged or not.
    """

    verdict: Verdict
    rehearsal: Rehearsal | None
    failures: Sequence[PolicyFailure]
    evaluation: Evaluation | None
    notes: Mapping[str, tuple[str, ...]]
    learners: Collection[str] = ()
    contenders: Sequence[str] = ()


class LogEvidence(NamedTuple):
    """A log's estimate for a policy, by the objective alone.

    Args:
        verdict: `trust`, `weak` or `do not use`.
        value: Reward per visit.
        sign: 1 where it earns more than was logged, -1 where less, 0 where that is not told apart.
        is_promising: Whether it earns more; or would by all of the interval of a usable estimate, or else of the direct
            method's, however few rewards that rests on: enough for a test.
        sentence: The same in words.
    """

    verdict: str
    value: float
    sign: int
    is_promising: bool
    sentence: str


def advise(evidence: Evidence) -> list[Advice]:
    """Return what to do with each policy, the one to take or test first on top.

    Of those that the log does not speak against, or that go on learning, the one is first that earns the most over the
    horizon in the rehearsal. Of some that are not told apart it is one that goes on learning: fitted shop and trained
    policies rest on the same rows, so where these mislead, only what learns from visits to come will notice. It is
    taken first where the rehearsal can be trusted and shows beyond chance that it earns more than today's choices,
    else tested first, if it earns more at all. Without a rehearsal the log alone decides: a policy is taken first
    by an estimate that can be trusted, and tested first by a weak one whose interval speaks for it, of however few
    rewards.
    """
    rehearsed = {} if evidence.rehearsal is None else {row.policy: row for row in evidence.rehearsal.policies}
    by_log = log_evidence(evidence.evaluation)
    failed = {failure.policy: f"failed in the rehearsal: {failure.reason}" for failure in evidence.failures}
    untrained = {name: lines[0] for name, lines in evidence.notes.items()}
    competing = {*rehearsed, *by_log, *evidence.contenders}
    unable = failed | {name: reason for name, reason in untrained.items() if name not in competing}
    names = list(dict.fromkeys([*rehearsed, *by_log, *evidence.contenders, *unable]))
    able = [name for name in names if name not in unable]
    first, first_place = _first(evidence, able, by_log)
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
        if name in untrained:
            reasons.append(f"competes untrained: {untrained[name]}")
        place = first_place if name == first else _place(name, first, evidence, by_log)
        if name != first:
            reasons += _compared(name, first, evidence.rehearsal)
        advice.append(Advice(name, place, "; ".join(reasons) or "neither rehearsed nor judged by the log"))
    # Stable: within a place the order of the rehearsal stays, the best first.
    return sorted(advice, key=lambda each: PLACES.index(each.place))


def log_evidence(evaluation: Evaluation | None) -> dict[str, LogEvidence]:
    """Return what a log says of each policy, by its best estimate."""
    if evaluation is None:
        return {}
    words = sentences(evaluation)
    by_log = {}
    for name in policies_of(evaluation):
        best = best_result(evaluation, name)
        sentence = words.get(name, best.verdict).partition("; ")[0]
        sign = sign_over_logged(evaluation, best)
        hint = _hint(evaluation, best)
        if hint is not None:
            value, interval = with_interval(hint.value, hint.low, hint.high)
            today = with_interval(*evaluation.logged).value
            sentence += f", yet {hint.estimator} says {value} ({interval}) per visit where today's choices earn {today}"
        value_of_log = best.value if hint is None else hint.value
        by_log[name] = LogEvidence(best.verdict, value_of_log, sign, sign > 0 or hint is not None, sentence)
    return by_log


def _hint(evaluation: Evaluation, best: Result) -> Result | None:
    """Return an estimate that tells nothing for sure, but lies above what today's choices earn, its interval and all.

    Where no estimate of a policy can be used, it is the direct method's: that needs no luck in which rows overlap.
    """
    if best.verdict != DO_NOT_USE:
        return best if lies_above_logged(evaluation, best) else None
    direct = (row for row in evaluation.results if (row.policy, row.estimator) == (best.policy, DIRECT_METHOD))
    predicted = next(direct, None)
    if predicted is None or predicted.low is None or predicted.low <= evaluation.logged.mean:
        return None
    return predicted


def _first(evidence: Evidence, names: Sequence[str], by_log: Mapping[str, LogEvidence]) -> tuple[str | None, str]:
    """Return the policy to take or test first, and which of both; None where nothing speaks for any."""
    rehearsal = evidence.rehearsal
    # What the rehearsal shows to earn less than today's choices is not taken on the word of the log.
    worse = set() if rehearsal is None else {row.policy for row in rehearsal.policies if _is_worse(row)}
    judged = {name: said for name, said in by_log.items() if name in names and name not in worse}
    trusted = [name for name, said in judged.items() if said.verdict == TRUST and said.sign > 0]
    allowed = [name for name in names if name in evidence.learners or _is_allowed(name, by_log)]
    leader = None if rehearsal is None else _leader(rehearsal, allowed, evidence.learners)
    if leader is not None and evidence.verdict.word == TRUST and _is_better(leader):
        return leader.policy, FIRST
    if trusted:
        return _most(trusted, by_log, evidence.learners), FIRST
    if leader is not None and leader.gain.mean > 0.0:
        return leader.policy, TEST
    promising = [name for name, said in judged.items() if said.is_promising]
    if promising:
        return _most(promising, by_log, evidence.learners), TEST
    return None, NOT


def _most(names: Sequence[str], by_log: Mapping[str, LogEvidence], learners: Collection[str]) -> str:
    """Return the policy that earns the most by the log, or one that earns nearly as much and goes on learning."""
    ranked = sorted(names, key=lambda name: -by_log[name].value)
    enough = (1.0 - LOG_TIE) * by_log[ranked[0]].value
    return next((name for name in ranked if name in learners and by_log[name].value >= enough), ranked[0])


def _leader(rehearsal: Rehearsal, allowed: Collection[str], learners: Collection[str]) -> Rehearsed | None:
    """Return the policy that earns the most over the horizon, or one not told apart from it that goes on learning."""
    rows = [row for row in rehearsal.policies if row.policy in allowed]
    if not rows:
        return None
    most = rehearsal.values[rows[0].policy].mean()
    for row in rows:
        is_close = rehearsal.values[row.policy].mean() >= (1.0 - TIE) * most
        if row.policy in learners and is_close and not _is_behind(row.policy, rows[0].policy, rehearsal):
            return row
    return rows[0]


def _is_better(row: Rehearsed) -> bool:
    """Return whether a policy earned more than today's choices in the rehearsal, beyond chance."""
    return row.gain.low is not None and row.gain.low > 0.0


def _is_worse(row: Rehearsed) -> bool:
    """Return whether a policy earned less than today's choices in the rehearsal, beyond chance."""
    return row.gain.high is not None and row.gain.high < 0.0


def _is_allowed(name: str, by_log: Mapping[str, LogEvidence]) -> bool:
    """Return whether the log, where it judged a policy, does not speak against it."""
    return name not in by_log or by_log[name].sign >= 0


def _place(name: str, first: str | None, evidence: Evidence, by_log: Mapping[str, LogEvidence]) -> str:
    """Return whether a policy that is not the first is worth a trial beside it."""
    rehearsal = evidence.rehearsal
    if name not in evidence.learners and not _is_allowed(name, by_log):
        return NOT
    if name in by_log and by_log[name].sign > 0:
        return BESIDE
    rows = [] if rehearsal is None else [row for row in rehearsal.policies if row.policy == name]
    if rehearsal is None or first is None or not rows or not _is_better(rows[0]) or first not in rehearsal.values:
        return NOT
    is_close = not _is_behind(name, first, rehearsal) or rehearsal.overtaken_after(first, name) is not None
    return BESIDE if is_close else NOT


def _is_behind(name: str, other: str, rehearsal: Rehearsal) -> bool:
    """Return whether the rehearsal shows beyond chance that a policy earns less over the horizon than another."""
    high = rehearsal.difference(name, other).high
    return high is not None and high < 0.0


def _compared(name: str, first: str | None, rehearsal: Rehearsal | None) -> list[str]:
    """Compare a policy with the first: how far behind it is, and when it will be ahead."""
    if rehearsal is None or first is None or not {first, name} <= set(rehearsal.values):
        return []
    # Seed by seed, as both met the same visitors of the same shop.
    share = float((1.0 - rehearsal.values[name] / rehearsal.values[first]).mean())
    behind = f"{percent(abs(share))} {'less' if share > 0.0 else 'more'} than {label(first)}"
    after = rehearsal.overtaken_after(first, name)
    if after is not None:
        return [f"{behind} over this horizon, but ahead of it after about {rounded(after)} visits"]
    return [behind if _is_behind(name, first, rehearsal) else f"{behind}, which may be chance"]


def _in_rehearsal(row: Rehearsed, rehearsal: Rehearsal) -> str:
    """Say what a policy earned in the rehearsal, and when it was ahead of today's choices for good."""
    more = f"{written_gain(row.gain, rehearsal.is_share)} against today's choices in the rehearsal"
    if row.gain.low is None or row.gain.high is None or row.gain.low <= 0.0 <= row.gain.high:
        more += ", which may be chance"
    if row.worth_after is None:
        return f"{more}; still behind them in total after {rehearsal.steps:,} visits"
    if row.worth_after == 0:
        return f"{more}, ahead of them from the first visit on"
    visits = counted(row.worth_after, "visit")
    return f"{more}; ahead of them in total after {visits}, and up to {plain(row.cost)} rewards behind until then"


def written_gain(gain: Interval, is_share: bool) -> str:
    """Write what a policy earned above today's choices, with its interval."""
    written = in_percent(*gain, signed=True, suffix="%") if is_share else with_interval(*gain, signed=True)
    value = written.value if is_share else f"{written.value} per visit"
    return value if gain.low is None or gain.high is None else f"{value} ({written.interval})"


def rounded(visits: int) -> str:
    """Write a number of visits with two significant digits, as 41,000."""
    return f"{float(f'{visits:.1e}'):,.0f}"


def label(name: str) -> str:
    """Return how sentences call a policy of a rehearsal: `adaptive-trained` is "adaptive (trained)"."""
    if name.endswith(TRAINED):
        return f"{name.removesuffix(TRAINED)} (trained)"
    return name


def conclusion(advice: Sequence[Advice], evidence: Evidence, unit: str, period: str) -> list[str]:
    """Say what to do, in the first sentence, then what that rests on and what may go wrong.

    Args:
        advice: That of `advise`.
        evidence: What it rests on.
        unit: What rewards are counted in, such as "clicks".
        period: The horizon in words, such as "the next 60,000 visits (30 days)".
    """
    first = next((each for each in advice if each.place in (FIRST, TEST)), None)
    if first is None:
        return [f"Keep what is shown today: {why_none(evidence)}."]
    rehearsal = evidence.rehearsal
    row = None if rehearsal is None else next((row for row in rehearsal.policies if row.policy == first.policy), None)
    action = f"Put {label(first.policy)} in front of your visitors"
    if first.place == TEST:
        action = f"Test {label(first.policy)} on a share of your visitors"
    if rehearsal is None or row is None or row.gain.mean <= 0.0 or _is_taken_by_log(first, evidence):
        sentences = [f"{action}: {first.reason}."]  # the log alone spoke for it
    else:
        sentences = _prospects(action, row, rehearsal, unit, period)
    if first.place == TEST:
        reasons = "; ".join(evidence.verdict.reasons) or why_none(evidence)
        sentences.insert(1, f"That is {'weak' if evidence.verdict.word == WEAK else 'uncertain'}: {reasons}.")
    beside = ", ".join(label(each.policy) for each in advice if each.place == BESIDE)
    if beside:
        sentences.append(f"Worth a test beside it: {beside}.")
    return sentences


def _is_taken_by_log(first: Advice, evidence: Evidence) -> bool:
    """Return whether the log alone speaks for a policy that is taken first, as the rehearsal is not to be trusted."""
    return first.place == FIRST and evidence.verdict.word != TRUST


def _prospects(action: str, row: Rehearsed, rehearsal: Rehearsal, unit: str, period: str) -> list[str]:
    """Say what a policy is expected to earn over the horizon, what it may miss, and what overtakes it later."""
    more = with_interval(*row.more, signed=True)
    gain = in_percent(*row.gain, signed=True, suffix="%").value
    share = f", {gain} on today's choices" if rehearsal.is_share else " more than today"
    sentences = [f"{action}: expect {more.value} {unit} over {period}{share}."]
    if row.more.low is not None:
        sentences.append(f"The interval is {more.interval} {unit}.")
    if len(rehearsal.policies) > 1:
        sentences.append(_risk(row, rehearsal.seeds))
    overtakers = [
        (after, other.policy)
        for other in rehearsal.policies
        if (after := rehearsal.overtaken_after(row.policy, other.policy)) is not None
    ]
    if overtakers:
        after, other = min(overtakers)
        sentences.append(f"If you plan for more than about {rounded(after)} visits, take {label(other)} now instead.")
    return sentences


def _risk(row: Rehearsed, seeds: int) -> str:
    """Say how much more the best of the policies would have earned than one of them."""
    shops = f"the {seeds} shops that were drawn" if seeds > 1 else "the one shop that was drawn"
    if row.worst_regret <= 0.0:
        return f"None of the others would have earned more in any of {shops}."
    worst = f", {percent(row.worst_regret)} in the worst" if seeds > 1 else ""
    return (
        f"The risk: the best of the others would have earned {percent(row.regret)} more on average over {shops}{worst}."
    )


def why_none(evidence: Evidence) -> str:
    """Say why no policy is shown to be better than today's choices."""
    if evidence.rehearsal is None:
        if evidence.verdict.reasons:
            reasons = "; ".join(evidence.verdict.reasons)
            return f"a rehearsal in a shop fitted to this log cannot be relied on ({evidence.verdict.word}): {reasons}"
        return "no seed was finished by all policies"
    if evidence.rehearsal.seeds == 1:
        return "one seed does not tell chance apart; run at least 10 (--seeds 10)"
    share = percent(evidence.rehearsal.today_of_oracle.mean)
    return f"no policy is shown to earn more than today's choices, which earn {share} of what the best ones would"
