"""The command `zoosim tune`."""

import sys

import typer

from zoosim import cli_options as option


def tune(
    name: option.Experiment,
    over: option.Over,
    policy: option.TunedPolicies = None,
    candidates: option.Candidates = None,
    seeds: option.TuningSeeds = "0:64",
    judge: option.JudgeSeeds = "1000:1032",
    steps: option.Steps = None,
    config: option.Config = None,
    settings: option.Settings = None,
    jobs: option.Jobs = None,
    executor: option.Executor = None,
    out: option.TuneFolder = None,
    wide: option.Wide = False,
    json: option.PrintFigures = False,
    debug: option.Debug = False,
) -> None:
    """Tune parameters of policies, and judge the winner on other seeds.

    Many settings are tried on few seeds, and the better half goes on to twice as many, until one is left. Its mean is
    then the highest of many, and too high by that: it is judged, beside the same policy as it was, on --judge.
    """
    from zoosim.api import tune as tuning
    from zoosim.core.status_line import StatusLine
    from zoosim.terminal.tuning import print_tuning

    with StatusLine() as status:
        result = tuning.tune(
            name,
            over,
            extra=policy or (),
            candidates=candidates,
            seeds=seeds,
            judge=judge,
            steps=steps,
            config=config,
            settings=settings or (),
            jobs=jobs,
            executor=executor,
            isolate=True,
            out=out if out is not None else tuning.DEFAULT_OUT,
            progress=status.show,
        )
    if json:
        typer.echo((result.path / tuning.SUMMARY).read_text(encoding="utf-8"), nl=False)
    else:
        print_tuning(result, wide=wide)
    if result.judged.failures:
        sys.exit(1)
