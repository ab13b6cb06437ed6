"""The commands about launches: change what a running service decides by, and rehearse that beforehand."""

from pathlib import Path
from typing import Annotated, Any

import typer

from zoosim import cli_options as option

Launched = Annotated[
    str,
    typer.Option(
        "--policy",
        metavar="NAME|FILE.zoosim",
        help="What is launched: a name or FILE.py:Class, trained on the log, or the file of a model.",
    ),
]
RehearsedPlan = Annotated[
    Path | None,
    typer.Option("--plan", metavar="FILE.yaml", help="Plan of the launch [default: that of zoosim deploy launch]."),
]
Days = Annotated[float, typer.Option("--days", metavar="N", help="Days that are planned for.")]
Launches = Annotated[
    int, typer.Option("--launches", metavar="N", help="Launches, each in another shop that the log allows.")
]
VisitsADay = Annotated[
    float | None,
    typer.Option("--visits-a-day", metavar="N", help="Visits that come a day [default: as many as in the log]."),
]
Bearable = Annotated[
    float,
    typer.Option(
        "--bearable", metavar="PART", help="Part of what today's choices earn that a launch may cost, not regretted."
    ),
]
Exploration = Annotated[
    float,
    typer.Option("--exploration", metavar="PART", help="Part of its decisions that the model spreads evenly."),
]
RewardDelay = Annotated[
    float,
    typer.Option(
        "--reward-delay",
        metavar="SECONDS",
        help="How late rewards come on average [default: as in the log of a service, else at once].",
        show_default=False,
    ),
]
LaunchNumber = Annotated[
    int | None,
    typer.Option("--launch", metavar="N", help="Number of the launch, as the history has it [default: the newest]."),
]
LaunchReportFolder = Annotated[
    Path | None,
    typer.Option("--out", metavar="DIR", help="Output folder [default: runs/launched-LOG]."),
]
LaunchFolder = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="DIR",
        help="Output folder; an interrupted rehearsal goes on from it [default: runs/launch-LOG].",
    ),
]


def deploy(
    action: option.DeployAction = "status",
    what: option.Deployed = None,
    url: option.RunningService = "http://127.0.0.1:8100",
    arm: option.NewArm = None,
    share: option.ArmShare = None,
    role: option.ArmRole = None,
    plan: option.LaunchPlan = None,
    sticky: option.Sticky = None,
    time: option.Happened = None,
    who: option.Who = None,
    why: option.Why = None,
    wide: option.Wide = False,
    json: option.PrintFigures = False,
    debug: option.Debug = False,
) -> None:
    """Change what a running service decides by: launch a model, promote it, take it back.

    ACTION is launch MODEL.zoosim, shadow MODEL.zoosim, launch SHADOW, share ARM, promote ARM, rollback [ARM], pause,
    resume, retire ARM, freeze [ARM], unfreeze [ARM], rules RULES.yaml or annotate "what happened". A model that is
    launched without --share gets larger shares step by step, and is taken back where a guardrail says so; a shadow
    decides for nobody. Without an action, what decides is printed. Requests go on meanwhile, and each change is a row
    of the log.
    """
    from zoosim.api.deployment import deploy as change

    of_arm: dict[str, Any] = {"arm": arm, "share": share, "role": role, "plan": plan, "sticky": sticky}
    deployment = change(action, what, url=url, who=who, why=why, time=time, **of_arm)
    if json:
        import json as writer

        typer.echo(writer.dumps(deployment, indent=2))
    else:
        from zoosim.terminal.deployment import print_deployment

        print_deployment(deployment, wide=wide)


def rehearse_launch(
    log: option.LogPath,
    policy: Launched = "mixed-effects",
    plan: RehearsedPlan = None,
    days: Days = 30.0,
    launches: Launches = 200,
    visits_a_day: VisitsADay = None,
    bearable: Bearable = 0.01,
    exploration: Exploration = 0.05,
    reward_delay: RewardDelay = 0.0,
    out: LaunchFolder = None,
    data: option.OpenBanditFolder = None,
    skip_bad: option.SkipBad = False,
    wide: option.Wide = False,
    json: option.PrintSummary = False,
    debug: option.Debug = False,
) -> None:
    """Say what to expect of a launch. By launches in simulated shops that your log allows.

    How likely you regret it, what it brings or costs, how long it takes, and what it costs to tell a change. The model
    is ramped as zoosim deploy launch does it, beside today's choices, with late rewards, and ships or is taken back.
    """
    from zoosim.api import rehearse_launch as api
    from zoosim.core.status_line import StatusLine
    from zoosim.terminal.launch_rehearsal import print_launch_rehearsal

    with StatusLine() as status:
        rehearsal = api.rehearse_launch(
            log,
            policy,
            plan=plan,
            days=days,
            launches=launches,
            visits_a_day=visits_a_day,
            bearable=bearable,
            exploration=exploration,
            reward_delay=reward_delay,
            out=out,
            data=data,
            skip_bad=skip_bad,
            progress=status.show,
        )
    if json:
        typer.echo((rehearsal.path / "summary.json").read_text(encoding="utf-8"), nl=False)
    else:
        print_launch_rehearsal(rehearsal, wide=wide)


def launch_report(
    service: option.ServedLog,
    launch: LaunchNumber = None,
    out: LaunchReportFolder = None,
    wide: option.Wide = False,
    json: option.PrintSummary = False,
    debug: option.Debug = False,
) -> None:
    """Say what came of a launch, by the log of a service.

    Effects on each reward, in all visitors and by segment, with intervals that hold at any time; its history with
    reasons; and what to do. The service may go on meanwhile.
    """
    from zoosim.api import launch_report as api
    from zoosim.terminal.launch_report import print_launch_report

    report = api.launch_report(service, launch=launch, out=out)
    if json:
        typer.echo((report.path / "summary.json").read_text(encoding="utf-8"), nl=False)
    else:
        print_launch_report(report, wide=wide)
