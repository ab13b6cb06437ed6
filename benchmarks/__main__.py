"""Run the benchmarks named, or all (`python -m benchmarks S1 Q1`). Timings want a machine at rest."""

import sys
from collections.abc import Callable

from benchmarks.peers import speed as peers
from benchmarks.quality import (
    draws,
    equivalence,
    estimated_propensities,
    faithful,
    fitted_worlds,
    flat_observations,
    fooled_verdicts,
    from_logs,
    guardrail,
    kinds_of_shops,
    leaks,
    own_shops,
    planners,
    predicted_values,
    propensities_of_two_stages,
    recommendations,
    retrievers,
    round_trip,
    same_rows,
    schema_growth,
    search_fit,
    search_shops,
    search_templates,
    session_learners,
    trusted_intervals,
    warm_start,
)
from benchmarks.serving import clocks, poisoning
from benchmarks.speed import (
    arms,
    candidate_lists,
    command_line,
    console,
    decision,
    decision_rates,
    decision_steps,
    executors,
    first_decision,
    gauntlet,
    importing,
    listed_candidates,
    loops,
    memory,
    neural,
    off_policy,
    optimizers,
    retrieval,
    search,
    serving,
    sessions,
    streaming,
    two_stage,
    visitors,
)

BENCHMARKS: dict[str, Callable[[], None]] = {
    "S1": gauntlet.main,
    "S2": decision.linucb,
    "S3": decision.growth,
    "S4": command_line.help_time,
    "S5": command_line.whole_run,
    "S6": neural.decisions,
    "S7": neural.lazy,
    "S8": neural.large,
    "S9": search.main,
    "S10": optimizers.main,
    "S11": off_policy.main,
    "S12": decision.fresh_candidates,
    "S13": off_policy.trained,
    "S14": memory.main,
    "S15": decision.joint_features,
    "S16": importing.main,
    "S17": serving.main,
    "S18": candidate_lists.main,
    "S19": peers.decisions,
    "S20": peers.memory,
    "S21": first_decision.main,
    "S22": command_line.each_command,
    "S24": clocks.main,
    "S25": memory.wide_embeddings,
    "S26": listed_candidates.main,
    "S27": visitors.main,
    "S28": sessions.decisions,
    "S29": sessions.ladder,
    "S30": arms.main,
    "S31": decision_steps.main,
    "S32": console.main,
    "S33": retrieval.main,
    "S34": loops.main,
    "S35": two_stage.main,
    "S36": streaming.main,
    "S37": executors.main,
    "S38": decision_rates.main,
    "Q1": faithful.main,
    "Q2": search_templates.main,
    "Q3": from_logs.main,
    "Q4": guardrail.main,
    "Q5": same_rows.main,
    "Q6": draws.main,
    "Q7": flat_observations.main,
    "Q8": own_shops.main,
    "Q9": estimated_propensities.main,
    "Q10": search_fit.main,
    "Q11": fitted_worlds.main,
    "Q12": round_trip.main,
    "Q13": trusted_intervals.main,
    "Q14": search_shops.main,
    "Q15": fooled_verdicts.main,
    "Q16": kinds_of_shops.main,
    "Q17": predicted_values.main,
    "Q18": leaks.main,
    "Q19": equivalence.main,
    "Q20": warm_start.main,
    "Q21": recommendations.main,
    "Q22": schema_growth.main,
    "Q23": poisoning.main,
    "Q24": planners.main,
    "Q25": session_learners.main,
    "Q26": propensities_of_two_stages.main,
    "Q27": retrievers.main,
}


def main() -> None:
    """Run the benchmarks named on the command line, or all."""
    wanted = sys.argv[1:] or list(BENCHMARKS)
    if wanted[0] in ("-h", "--help"):
        sys.exit(f"python -m benchmarks [{'|'.join(BENCHMARKS)} ...]: run those named, or all")
    unknown = [name for name in wanted if name not in BENCHMARKS]
    if unknown:
        sys.exit(f"benchmarks: no {unknown[0]}; known: {', '.join(BENCHMARKS)}")
    for name in wanted:
        BENCHMARKS[name]()


if __name__ == "__main__":
    main()
