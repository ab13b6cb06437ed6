"""The studies: questions that a comparison of policies does not answer. Constants only; `zoosim.studies` does them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Study:
    """A named study, done by the module `zoosim.studies.NAME`, with underscores for hyphens.

    That module has two functions: `measure(*, progress, **options)` returns rows, frozen records of plain data, and
    `tell(rows)` makes a `zoosim.report.Story` of them. `options` are what the command line lets one choose, with the
    defaults: "seeds", as a count or a range such as "1000:1040"; what is no option of `zoosim run` is set by --set.
    """

    name: str
    summary: str
    question: str
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def module(self) -> str:
        """Name the module that does it."""
        return f"zoosim.studies.{self.name.replace('-', '_')}"


BOTTLENECK = Study(
    name="bottleneck",
    summary="what a NeuralUCB decision costs, by candidates and parameters (minutes, on a machine at rest)",
    question="Is exact NeuralUCB too dear to serve, as its publication says?",
)
CEM_OPTIMA = Study(
    name="cem-optima",
    summary="CEM from ten starts: local optima, too few samples, or a search that was not finished? (minutes)",
    question="Does CEM end in other places because there are several optima, or because it stops too soon?",
    options={"seeds": "1000:1040"},
)
OPE_VERDICT = Study(
    name="ope-verdict",
    summary="the verdict on policies judged by logs, on worlds of known truth: does it trust what it should? (minutes)",
    question="When the verdict on an estimate says trust, does the interval hold? And does it refuse in vain?",
    options={"seeds": "1000:1100", "cases": 40, "jobs": None},
)
OPE_COVERAGE = Study(
    name="ope-coverage",
    summary="how often intervals of off-policy estimates hold, on worlds of known truth (some 10 minutes)",
    question="How often do the intervals of a policy judged by a log hold: products, templates, rankings, boosts?",
    options={"seeds": "1000:1400", "cells": 31, "jobs": None},
)
OPE_ACCURACY = Study(
    name="ope-accuracy",
    summary="how far off off-policy estimators are, by log size, distance and drift, on known truth (minutes)",
    question="How far off is each estimator, with more rows, a policy further away, and a world that moves?",
    options={"seeds": "1000:1200", "jobs": None},
)
OPEN_BANDIT = Study(
    name="open-bandit",
    summary="policies of a real shop judged by each other's logs: the Open Bandit Dataset (--data DIR, or ZOOSIM_DATA)",
    question="What do the real logs of a fashion shop say of each other's policies, and what can they not tell?",
    options={"data": None},
)
LATENCY = Study(
    name="latency",
    summary="what a decision over boosts costs: loop, CEM, gradients, actor, policy (a minute, on a machine at rest)",
    question="Does a decision over continuous boosts fit into 50 ms?",
)
TRUST_REGION = Study(
    name="trust-region",
    summary="q-ensemble in trust regions around the static best, and behind the guardrail (some 15 minutes)",
    question="Does a trust region around the static best help early, and what does the rank-change guardrail cost?",
    options={"seeds": "1000:1020"},
)
ACTION_SHAPING = Study(
    name="action-shaping",
    summary="boosts of features that say nothing about a query, and what a penalty does to them (minutes)",
    question="What happens when a learner boosts features that do not matter for a query?",
    options={"seeds": "1000:1010"},
)
Q_SANITY = Study(
    name="q-sanity",
    summary="an ensemble learns a quadratic of known values, and CEM looks for its best action (a minute)",
    question="Do the networks learn a quadratic whose values are known, and does CEM then find its best action?",
    options={"seeds": "1000:1020"},
)
CALIBRATION = Study(
    name="calibration",
    summary="standardised errors and coverage of an ensemble's spread, before and after recalibration (minutes)",
    question="Are the uncertainties honest, about a mean and about single rewards?",
    options={"seeds": "1000:1020"},
)
OVERESTIMATION = Study(
    name="overestimation",
    summary="what critics promise for the boosts that they pick themselves, and what these earn (some 10 minutes)",
    question="By how much do critics overrate the actions that they pick themselves?",
    options={"seeds": "1000:1020"},
)
CONTINUOUS_VS_DISCRETE = Study(
    name="continuous-vs-discrete",
    summary="learners of boosts and of templates over 10,000 visits, beside what both can reach at best (hours)",
    question="Do continuous boosts beat templates, by how much, and after how many visits?",
    options={"seeds": "1000:1020", "visits": 10_000, "laws": "both", "jobs": None},
)
