"""From saved trials to figures: summary.json, the curves of the page, and the verdict."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, groupby
from typing import Any

import numpy as np

from zoosim.action_spaces import find_action_space
from zoosim.arena import metrics
from zoosim.arena.findings import judged, median_visits, overtaken_after, sentences
from zoosim.arena.kinds import compare_by_kind
from zoosim.arena.plan import Plan
from zoosim.arena.store import RunFolder, TrialKey
from zoosim.arena.targets import target_curves
from zoosim.core.errors import DataError, PolicyFailure
from zoosim.core.number_format import VISITOR, p_value, percent
from zoosim.core.statistics import (
    ANY,
    MAX_SEEDS,
    SIGNIFICANT,
    Limits,
    PairedTest,
    cut,
    mean_interval,
    mean_intervals,
    paired_tests,
    seeds_to_settle,
)
from zoosim.core.types import FloatArray
from zoosim.worlds.base import World
from zoosim.worlds.table import TableWorld

SCHEMA_VERSION = 1

ROUNDING = 1e-9
"""Largest excess over 100% of the oracle that rounding may cause."""


@dataclass(frozen=True)
class TrialFigures:
    """Figures of a trial: mean rewards, fractions and measures by phase, whole first; recoveries; curves.

    `measures` are those of a search shop, none elsewhere; so are `segments`: the mean reward and measures in each.
    """

    rewards: list[float]
    fraction: list[float]
    measures: list[dict[str, float]]
    segments: dict[str, dict[str, float]]
    recoveries: list[int | None]
    curves: dict[str, FloatArray]


class Comparison:
    """The figures of all policies over all seeds that a folder holds."""

    def __init__(self, plan: Plan, folder: RunFolder, failures: Sequence[PolicyFailure] = ()) -> None:
        self.plan = plan
        self.at = metrics.sample_steps(plan.steps)
        names = [entry.name for entry in plan.entries]
        self.trials: dict[str, dict[int, TrialFigures]] = {name: {} for name in names}
        self._columns: dict[str, frozenset[str]] = {}
        for seed, keys in groupby(sorted(folder.trials(), key=_seed), key=_seed):
            world = self._world_with_targets(seed)
            for key in keys:
                if key.policy in self.trials:
                    self._add(folder, key, world)
        own_failures = [failure for failure in failures if failure.policy in self.trials]
        self.failures = sorted(own_failures, key=lambda failure: failure.seed)

    def _add(self, folder: RunFolder, key: TrialKey, world: TableWorld | None) -> None:
        """Add the figures of a trial; `world` is that of its seed, if shocks make products popular there."""
        trial = folder.read_whole_trial(key)
        count = len(trial.rows.rewards)
        if count != self.plan.steps:
            path = folder.trial_path(key)
            raise DataError(f"{path} holds {count} visits, expected {self.plan.steps}; delete it and run again")
        figures = self._figures(trial.rows, trial.parts, key.seed)
        if world is not None and trial.actions is not None:
            targets = self._world.reported_targets
            figures.curves.update(target_curves(world, targets, trial.actions, self.at, self.plan.window))
        self.trials[key.policy][key.seed] = figures
        self._columns.setdefault(key.policy, trial.columns)

    def _world_with_targets(self, seed: int) -> TableWorld | None:
        return self.plan.world(seed).as_table() if self._world.reported_targets else None

    @property
    def _come_back(self) -> bool:
        return any("visitor" in columns for columns in self._columns.values())

    @cached_property
    def _beats_oracle(self) -> set[str]:
        """The policies whose actions may earn more than what the world calls its best one.

        Their rows say which actions they took: their classes are of files that may be gone by now, or of a notebook.
        """
        spaces = [find_action_space(name) for name in self._world.action_spaces]
        better = {space.column for space in spaces if not space.oracle_is_best}
        return {name for name, columns in self._columns.items() if not better.isdisjoint(columns)}

    @property
    def _world(self) -> World:
        """A world of the run, which says what is measured and how."""
        return self.plan.any_world

    @cached_property
    def _limits(self) -> dict[str, Limits]:
        """Between which values what visits came to lies, by its key."""
        reward = self._world.reward_scale
        return {reward.key: reward.limits, **{measure.key: measure.limits for measure in self._world.reported_measures}}

    def _figures(self, rows: metrics.TrialRows, parts: Mapping[str, FloatArray], seed: int) -> TrialFigures:
        spans = [(0, self.plan.steps), *self.plan.phases]
        return TrialFigures(
            [metrics.mean_reward(rows, *span) for span in spans],
            [metrics.oracle_fraction(rows, *span) for span in spans],
            [self._measures(parts, slice(*span)) for span in spans],
            self._by_segment(rows, parts),
            [metrics.recovery(rows, *span) for span in self.plan.shock_spans(seed)],
            metrics.curves(rows, self.at, self.plan.window),
        )

    def _measures(self, parts: Mapping[str, FloatArray], chosen: Any) -> dict[str, float]:
        """Return the measures of the visits that `chosen` picks, none where there are no parts."""
        if not parts:
            return {}
        visits = {name: part[chosen] for name, part in parts.items()}
        return {measure.key: measure.value(visits) for measure in self._world.reported_measures}

    def _by_segment(self, rows: metrics.TrialRows, parts: Mapping[str, FloatArray]) -> dict[str, dict[str, float]]:
        """Return mean reward and measures of the visits of each segment of users that came."""
        names = self._world.reported_segments
        if not names:
            return {}
        segments = self._world.segments_of(parts)
        masks = {name: segments == number for number, name in enumerate(names)}
        return {
            name: {"reward": float(rows.rewards[mask].mean()), **self._measures(parts, mask)}
            for name, mask in masks.items()
            if mask.any()
        }

    @property
    def seeds(self) -> list[int]:
        """List the seeds that any policy finished, or failed on."""
        return sorted({seed for trials in self.trials.values() for seed in trials} | {f.seed for f in self.failures})

    def fractions(self, policy: str) -> dict[int, float]:
        """Return a policy's fraction of oracle by seed."""
        return {seed: trial.fraction[0] for seed, trial in self.trials[policy].items()}

    @cached_property
    def pairs(self) -> list[dict[str, Any]]:
        """Compare each two policies over the seeds they share, the better first; p and intervals are corrected."""
        paired = {(a, b): self._paired(a, b) for a, b in combinations(self.ranked, 2)}
        shared = {names: fractions for names, fractions in paired.items() if len(fractions[0])}
        tests = paired_tests(list(shared.values()))
        return [
            {"a": a, "b": b, **cut(test, self._difference_limits(a, b))._asdict()}
            for (a, b), test in zip(shared, tests, strict=True)
        ]

    def _difference_limits(self, a: str, b: str) -> Limits:
        """Return between which values the difference of two policies' fractions of oracle lies."""
        low_a, high_a = self._fraction_limits(a)
        low_b, high_b = self._fraction_limits(b)
        return low_a - high_b, high_a - low_b

    def _fraction_limits(self, policy: str) -> Limits:
        """Return between which values a policy's fraction of oracle lies.

        No policy over products beats the oracle. A search shop's oracle shows templates, which boosts may beat, and a
        policy may earn less than nothing there; one over templates is held to 100% unless it beats that on a seed.
        """
        fractions = [fraction for trial in self.trials[policy].values() for fraction in trial.fraction]
        is_bounded = policy not in self._beats_oracle and max(fractions, default=0.0) <= 1.0 + ROUNDING
        return (0.0 if min(fractions, default=0.0) >= 0.0 else -math.inf), (1.0 if is_bounded else math.inf)

    def _paired(self, a: str, b: str) -> tuple[FloatArray, FloatArray]:
        left = self.fractions(a)
        right = self.fractions(b)
        shared = sorted(set(left) & set(right))
        return np.array([left[s] for s in shared]), np.array([right[s] for s in shared])

    @cached_property
    def shared_seeds(self) -> list[int]:
        """List the seeds that all policies finished which finished any."""
        finished = [set(trials) for trials in self.trials.values() if trials]
        return sorted(set.intersection(*finished)) if finished else []

    @cached_property
    def ranked(self) -> list[str]:
        """List the policies that finished a seed, the best mean fraction of oracle first: over shared seeds, if any."""
        # Some seeds are harder than others: policies that failed on different ones are compared on those that all
        # finished.
        finished = [name for name, trials in self.trials.items() if trials]
        return sorted(finished, key=lambda name: -self._mean(name, self.shared_seeds))

    def _mean(self, policy: str, seeds: Sequence[int]) -> float:
        fractions = self.fractions(policy)
        return float(np.mean([fractions[seed] for seed in seeds or fractions]))

    def summary(self, wall_seconds: float) -> dict[str, Any]:
        """Return summary.json."""
        return {
            "schema_version": SCHEMA_VERSION,
            "experiment": self.plan.experiment.title,
            "config_hash": self.plan.config_hash,
            "seeds": self.seeds,
            "steps": self.plan.steps,
            **({"unit": VISITOR} if self._come_back else {}),
            "wall_seconds": round(wall_seconds, 3),
            "policies": {name: self._policy(name) for name in self.trials},
            "pairs": self.pairs,
            **self._features(),
            **self._kinds(),
            **self._findings,
        }

    @cached_property
    def _findings(self) -> dict[str, Any]:
        """Verdicts on the experiment's hypotheses, and when learners overtake the best that does not learn."""
        found = {"hypotheses": self._hypotheses(), "overtaking": self._overtaking()}
        return {name: findings for name, findings in found.items() if findings}

    def _hypotheses(self) -> list[dict[str, Any]]:
        found = []
        for hypothesis in self.plan.experiment.hypotheses:
            better = self._rewards(hypothesis.better, hypothesis.phase)
            worse = self._rewards(hypothesis.worse, hypothesis.phase)
            if better and worse and hypothesis.phase < len(self.plan.phases):
                start, stop = self.plan.phases[hypothesis.phase]
                found.append({**hypothesis._asdict(), "from": start, "to": stop, **judged(better, worse)})
        return found

    def _rewards(self, policy: str, phase: int) -> dict[int, float]:
        """Return a policy's mean reward in a phase, by seed."""
        trials = self.trials.get(policy, {})
        return {seed: trial.rewards[1 + phase] for seed, trial in trials.items() if 1 + phase < len(trial.rewards)}

    def _overtaking(self) -> list[dict[str, Any]]:
        """Return for each learner after how many visits it has earned more, for good, than the best that never learns.

        Where shocks come, nobody who stays as he is can be told to be overtaken by learning alone.
        """
        built_in = [entry for entry in self.plan.entries if entry.built_in]  # of others the class may be gone
        static = {entry.name for entry in built_in if not (entry.cls.learns and entry.cls.learns_online)}
        best = next((name for name in self.ranked if name in static), None)
        if best is None or self.plan.shock_names:  # those of each seed's own world, too
            return []
        learners = [name for name in self.ranked if name not in static]
        return [{"policy": name, "over": best, **self._overtaken(name, best)} for name in learners]

    def _overtaken(self, learner: str, static: str) -> dict[str, Any]:
        regrets = {name: {s: t.curves["regret"] for s, t in self.trials[name].items()} for name in (learner, static)}
        shared = sorted(set(regrets[learner]) & set(regrets[static]))
        return median_visits(
            [overtaken_after(self.at, regrets[static][seed] - regrets[learner][seed]) for seed in shared]
        )

    def findings(self) -> list[str]:
        """Return what else the run found, in a sentence each."""
        return sentences(self._findings, self._world.reward_scale)

    def _policy(self, name: str) -> dict[str, Any]:
        trials = [self.trials[name][seed] for seed in sorted(self.trials[name])]
        fractions = [trial.fraction[0] for trial in trials]
        by_seed = [self.trials[name][seed].fraction[0] if seed in self.trials[name] else None for seed in self.seeds]
        spread = float(np.std(fractions, ddof=1)) if len(trials) > 1 else None
        whole = {"sd": spread, "min": min(fractions, default=None), "per_seed": by_seed}
        return {
            **self._earned(trials, 0),
            "oracle_fraction": interval(fractions, self._fraction_limits(name)) | whole,
            "phases": [self._phase(name, trials, number) for number in range(len(self.plan.phases))] if trials else [],
            **self._segments(trials),
            "recovery_steps": {
                shock: _recovery([trial.recoveries[number] for trial in trials])
                for number, shock in enumerate(self.plan.shock_names)
            },
            "failed": [
                {"seed": f.seed, "step": f.step, "place": f.place, "error": f.reason}
                for f in self.failures
                if f.policy == name
            ],
        }

    def _features(self) -> dict[str, Any]:
        """Return what each learner gets at the end on each set of features, and what that gains over the first set."""
        names = [name for name in self.plan.experiment.features if self.trials.get(name)]
        if not names:
            return {}
        paired = {name: self._with_first(name) for name in names}
        compared = {name: fractions for name, fractions in paired.items() if fractions is not None}
        gains = dict(zip(compared, paired_tests(list(compared.values())), strict=True))
        return {"features": [self._feature(name, gains.get(name)) for name in names]}

    def _feature(self, name: str, gain: PairedTest | None) -> dict[str, Any]:
        learner, sees = self.plan.experiment.features[name]
        difference = dict.fromkeys(PairedTest._fields) if gain is None else gain._asdict()
        end = interval(list(self._last(name).values()), self._fraction_limits(name))
        return {"policy": name, "learner": learner, "features": sees, "end": end, **difference}

    def _kinds(self) -> dict[str, Any]:
        """Return who did best in each kind of world, where worlds differ in kind."""
        traits = {seed: self.plan.traits(seed) for seed in self.shared_seeds}
        kinds = compare_by_kind(traits, {name: self.fractions(name) for name in self.ranked})
        return {"kinds": kinds} if kinds else {}

    def _with_first(self, name: str) -> tuple[FloatArray, FloatArray] | None:
        """Return a learner's fractions and those of it on the first set of features, over the seeds of both."""
        known = self.plan.experiment.features
        first = next(iter(known.values()))[1]
        base = next(other for other, (learner, sees) in known.items() if (learner, sees) == (known[name][0], first))
        if base == name:
            return None
        fractions = self._last(name)
        base_fractions = self._last(base)
        shared = sorted(set(fractions) & set(base_fractions))
        if not shared:
            return None
        return np.array([fractions[seed] for seed in shared]), np.array([base_fractions[seed] for seed in shared])

    def _last(self, policy: str) -> dict[int, float]:
        """Return a policy's fraction of oracle in the last phase, by seed."""
        return {seed: trial.fraction[-1] for seed, trial in self.trials.get(policy, {}).items()}

    def _segments(self, trials: Sequence[TrialFigures]) -> dict[str, Any]:
        """Return the intervals of what the visits of each segment came to, over the seeds where some came."""
        if not self._world.reported_segments:
            return {}
        segments: dict[str, Any] = {}
        for name in self._world.reported_segments:
            by_trial = [trial.segments[name] for trial in trials if name in trial.segments]
            if by_trial:
                segments[name] = {
                    key: interval([figures[key] for figures in by_trial], self._limits.get(key, ANY))
                    for key in by_trial[0]
                }
        return {"segments": segments}

    def _phase(self, name: str, trials: Sequence[TrialFigures], number: int) -> dict[str, Any]:
        start, stop = self.plan.phases[number]
        fraction = interval([trial.fraction[number + 1] for trial in trials], self._fraction_limits(name))
        return {"from": start, "to": stop, **self._earned(trials, number + 1), "oracle_fraction": fraction}

    def _earned(self, trials: Sequence[TrialFigures], span: int) -> dict[str, Any]:
        """Return the intervals of what a visit earned: the click rate, or in a search shop the reward and its parts."""
        values = {self._world.reward_scale.key: [trial.rewards[span] for trial in trials]}
        for name in trials[0].measures[span] if trials else ():
            values[name] = [trial.measures[span][name] for trial in trials]
        return {name: interval(by_seed, self._limits.get(name, ANY)) for name, by_seed in values.items()}

    def verdict(self) -> str:
        """Say in a sentence which policy to trust, or that the run does not tell."""
        if not self.ranked:
            return "No verdict: no policy finished."
        return f"{self._comparison()}{self._absences()}"

    def _comparison(self) -> str:
        best = self.ranked[0]
        if len(self.ranked) == 1:
            what = self._world.reward_scale.word
            return f"{best} earns {percent(self._mean(best, []))} of the oracle's {what}; nothing competed with it."
        second = self.ranked[1]
        shared = sorted(set(self.trials[best]) & set(self.trials[second]))
        if not shared:
            return f"No verdict: {best} and {second} met different visitors; run them on the same seeds."
        pair = next(p for p in self.pairs if {p["a"], p["b"]} == {best, second})
        if pair["p"] is None:
            mean = percent(self._mean(best, shared))
            return f"{best} leads with {mean} of oracle, but one seed settles nothing: run at least 10 (--seeds 10)."
        return self._decided(pair, shared)

    def _decided(self, pair: Mapping[str, Any], shared: Sequence[int]) -> str:
        """Return who is ahead in a pair over `shared` seeds, and whether that is more than luck."""
        best = pair["a"]
        second = pair["b"]
        low = pair["low"]
        high = pair["high"]
        if pair["difference"] < 0:
            best, second = second, best
            low, high = -high, -low
        mean = percent(self._mean(best, shared))
        for_all = f", corrected for {len(self.pairs)} pairs" if len(self.pairs) > 1 else ""
        interval = f"95% interval {100 * low:.1f} to {100 * high:.1f}, p {p_value(pair['p'])}{for_all}"
        lead = f"{100 * abs(pair['difference']):.1f} points ({interval})"
        if pair["p"] < SIGNIFICANT:
            return f"{best} wins: {mean} of oracle over {len(shared)} seeds, ahead of {second} by {lead}."
        left, right = self._paired(pair["a"], pair["b"])
        needed = seeds_to_settle(left - right, len(self.pairs))
        if needed is None:
            return f"No clear winner: {best} and {second} are equal ({mean} of oracle)."
        settle = f"about {needed:,} seeds" if needed < MAX_SEEDS else "more than a million seeds"
        return f"No clear winner: {best} ({mean} of oracle) leads {second} by {lead}; {settle} would settle it."

    def _absences(self) -> str:
        """Return notes on policies that did not finish all seeds."""
        counts = Counter(failure.policy for failure in self.failures)
        failed = [f"{name} failed on {counts[name]} of {len(self.seeds)} seeds" for name in self.trials if counts[name]]
        if failed:
            return f" ({'; '.join(failed)}.)"
        unequal = any(len(trials) < len(self.seeds) for trials in self.trials.values() if trials)
        if unequal and self.shared_seeds:
            return f" (compared over the {len(self.shared_seeds)} seeds that all have.)"
        return ""

    def curves(self) -> dict[str, dict[str, tuple[FloatArray, FloatArray, FloatArray]]]:
        """Return for each policy and kind of curve the mean and the 95% band over seeds, at `self.at`."""
        curves = {}
        for name, trials in self.trials.items():
            if trials:
                tops = self._tops(name)
                stacks = {kind: np.stack([trial.curves[kind] for trial in trials.values()]) for kind in tops}
                curves[name] = {kind: _band(stacks[kind], top) for kind, top in tops.items()}
        return curves

    def _tops(self, policy: str) -> dict[str, float | FloatArray]:
        """Return the most that each kind of curve of a policy can reach."""
        rate = self._world.reward_scale.limits[1]
        most = rate * np.asarray(self.at, float)
        tops: dict[str, float | FloatArray] = {
            "ctr": rate,
            "share": self._fraction_limits(policy)[1],
            "clicks": most,
            "regret": most,
        }
        for number in range(len(self._world.reported_targets)):
            tops |= {f"shown {number}": 1.0, f"tried {number}": math.inf}
        return tops


def _seed(key: TrialKey) -> int:
    return key.seed


def interval(values: Sequence[float], limits: Limits = ANY) -> dict[str, float | None]:
    """Return a mean and its 95% interval over seeds, cut at the `limits`, as a mapping; all None without values."""
    if not values:
        return {"mean": None, "low": None, "high": None}
    return cut(mean_interval(values), limits)._asdict()


def _band(stack: FloatArray, top: float | FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return mean, low and high `(n,)` of curves `(seeds, n)`; what is not negative has no band below 0."""
    if len(stack) < 2:
        return stack[0], stack[0], stack[0]
    mean, low, high = mean_intervals(stack.T)
    return mean, np.where(mean >= 0.0, np.maximum(low, 0.0), low), np.where(mean <= top, np.minimum(high, top), high)


def _recovery(values: Sequence[int | None]) -> dict[str, Any]:
    """Return the median recovery (None when infinite), and how many of how many recovered."""
    steps = [np.inf if value is None else float(value) for value in values]
    # The upper of the middle two: where it is infinite, so is the median.
    median = float(np.median(steps)) if steps and np.isfinite(np.sort(steps)[len(steps) // 2]) else None
    return {"median": median, "recovered": sum(value is not None for value in values), "of": len(values)}
