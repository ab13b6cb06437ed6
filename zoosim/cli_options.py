"""The arguments and options of the command line: their types, names and help texts."""

from pathlib import Path
from typing import Annotated

import typer


def complete_policy(incomplete: str) -> list[str]:
    """Return the built-in policies that begin with what was typed."""
    from zoosim.policies.registry import BUILT_IN

    return [name for name in BUILT_IN if name.startswith(incomplete)]


def complete_experiment(incomplete: str) -> list[str]:
    """Return the experiments that begin with what was typed."""
    from zoosim.experiments import EXPERIMENTS

    return [name for name in EXPERIMENTS if name.startswith(incomplete)]


Experiment = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="Experiment (`zoosim list` names them), fitted world FILE.world, or your own world FILE.py:Class.",
        autocompletion=complete_experiment,
    ),
]
ExperimentName = Annotated[
    str | None,
    typer.Argument(
        metavar="[NAME]",
        help="Experiment to describe; or a world by name, as FILE.world, or your own as FILE.py:Class.",
        autocompletion=complete_experiment,
    ),
]
Seeds = Annotated[
    str | None,
    typer.Option(
        metavar="N|A:B",
        help="Seeds: a count N (0 to N-1) or a range A:B (B excluded) [default: the experiment's].",
    ),
]
Steps = Annotated[int | None, typer.Option(metavar="N", help="Visits per seed [default: the experiment's].")]
PolicyNames = Annotated[
    str | None,
    typer.Option(
        metavar="A,B",
        help="Policies to compare, separated by commas: names, or trained ones as FILE.zoosim "
        "[default: the experiment's].",
    ),
]
OwnPolicies = Annotated[
    list[str] | None,
    typer.Option(
        "--policy",
        metavar="FILE.py:Class",
        help="Your own policy, in addition to --policies or the experiment's (repeatable).",
    ),
]
Config = Annotated[
    str | None,
    typer.Option(metavar="FILE.yaml", help="YAML file that changes defaults of the world, the run and the policies."),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="PATH=VALUE", help="Change one default (repeatable), such as env.n_products=500."),
]
TableFile = Annotated[
    str | None,
    typer.Option(
        metavar="FILE", help="For `labelled`: CSV or Parquet table to classify [default: handwritten digits]."
    ),
]
Label = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="For `labelled`: the column of --data that holds the classes.")
]
Jobs = Annotated[int | None, typer.Option(metavar="N", help="Worker processes [default: one per core].")]
Executor = Annotated[
    str | None,
    typer.Option(
        metavar="dask:ADDRESS|ray:ADDRESS",
        help="Cluster whose workers compute, with the same results [default: this machine].",
    ),
]
Over = Annotated[
    list[str],
    typer.Option(
        "--over",
        metavar="POLICY.KEY=VALUES",
        help="Parameter to tune (repeatable), and what is tried of it: A,B,C; or LOW:HIGH, LOW:HIGH:log to draw from.",
    ),
]
Candidates = Annotated[
    int | None,
    typer.Option(
        metavar="N", help="Settings to draw per policy [default: all combinations of lists, 32 where there are ranges]."
    ),
]
TuningSeeds = Annotated[
    str, typer.Option("--seeds", metavar="N|A:B", help="Seeds to tune on; the last round uses all of them.")
]
JudgeSeeds = Annotated[
    str, typer.Option("--judge", metavar="A:B", help="Seeds that tuning never sees, by which the winner is judged.")
]
TunedPolicies = Annotated[
    list[str] | None,
    typer.Option("--policy", metavar="FILE.py:Class", help="Your own policy, which --over may name (repeatable)."),
]
TuneFolder = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="DIR",
        help="Output folder; an interrupted tuning is resumed from it [default: runs/tune-NAME-HASH].",
    ),
]
RunFolder = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Output folder; an interrupted run is resumed from it [default: runs/NAME-HASH]."),
]
KeepLog = Annotated[
    bool,
    typer.Option("--log", help="Also write every decision with its propensity, as Parquet files in log/."),
]
WriteCsv = Annotated[bool, typer.Option("--csv", help="Also write rows.csv: one row per visit, like rows.parquet.")]
Through = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="A running service (zoosim serve) that competes, for one seed; alone unless --policies names others.",
    ),
]
Live = Annotated[
    bool,
    typer.Option("--live", help="Show the run in your browser while it goes on, on this machine alone, until Ctrl-C."),
]
PrintSummary = Annotated[
    bool, typer.Option("--json", help="Print summary.json to standard output instead of the table.")
]
Wide = Annotated[bool, typer.Option("--wide", help="Print all columns and all reasons, however wide the terminal is.")]
Debug = Annotated[bool, typer.Option(help="Show the traceback of an error.")]

KeptRun = Annotated[Path, typer.Argument(metavar="DIR", help="Output folder of `zoosim run`.")]
PolicyName = Annotated[
    str | None,
    typer.Argument(
        metavar="[NAME]",
        help="Policy to describe: a built-in name or FILE.py:Class.",
        autocompletion=complete_policy,
    ),
]
WorldFile = Annotated[str, typer.Argument(metavar="FILE.py:Class", help="World class to check.")]
SourceFile = Annotated[str, typer.Argument(metavar="FILE.py:Class", help="Policy class to check.")]
CheckLimit = Annotated[float, typer.Option("--limit", metavar="SECONDS", min=0.1, help="Time limit per check.")]

World = Annotated[
    str,
    typer.Argument(
        metavar="WORLD|FILE",
        help="search, recommendation, sessions or an experiment's name; or a file: a fitted world, FILE.world, or a "
        "model, FILE.zoosim.",
    ),
]
SearchWorld = Annotated[str, typer.Argument(metavar="WORLD", help="`search`, or an experiment with a search world.")]
WorldSeed = Annotated[int, typer.Option("--seed", metavar="N", help="Seed of the catalogue, the users and the visits.")]
ShopSeed = Annotated[int, typer.Option("--seed", metavar="N", help="Seed of the catalogue and the users.")]
Visits = Annotated[int, typer.Option(metavar="N", help="For a search world: visits to simulate.")]
PageFolder = Annotated[
    Path | None, typer.Option("--out", metavar="DIR", help="Output folder of the page [default: runs/describe-WORLD].")
]
VisitTypes = Annotated[
    str,
    typer.Option(
        metavar="all|segment|cell",
        help="One optimum for all visits, per segment, or per cell (segment and query type).",
    ),
]
MarketStep = Annotated[
    int, typer.Option(metavar="N", help="Where the market shifts: the visit at which to compute the optimum.")
]
PrintRows = Annotated[bool, typer.Option("--json", help="Print the rows as JSON instead of the table.")]

LogFile = Annotated[Path, typer.Argument(metavar="FILE.parquet", help="Log to write.")]
Decisions = Annotated[
    int, typer.Option("--n", metavar="N", help="Number of decisions to log; where visitors come back, of visitors.")
]
LoggingPolicy = Annotated[
    str,
    typer.Option("--policy", metavar="NAME", help="Policy that makes the decisions: a built-in name or FILE.py:Class."),
]
LoggedWorld = Annotated[
    str | None,
    typer.Option(
        "--world",
        metavar="FILE.world|FILE.py:World|NAME",
        help="Simulated shop whose visitors come [default: the gauntlet's].",
    ),
]
LogSeed = Annotated[int, typer.Option("--seed", metavar="N", help="Seed of the world, the visitors and the decisions.")]
UserTable = Annotated[Path, typer.Argument(metavar="TABLE", help="Your CSV or Parquet table, one row per decision.")]
SchemaOut = Annotated[
    Path | None, typer.Option("--out", metavar="FILE.yaml", help="File to write [default: print it].")
]
ProductFile = Annotated[
    Path | None, typer.Option(metavar="TABLE", help="Your CSV or Parquet table of products, one row per product.")
]
TimeZone = Annotated[
    str | None,
    typer.Option(
        "--time-zone", metavar="ZONE", help="Time zone of times that name none, such as Europe/Berlin [default: UTC]."
    ),
]
SchemaAndLog = Annotated[
    list[Path],
    typer.Argument(
        metavar="[SCHEMA.yaml] FILE.parquet",
        help="What the table's columns are, inferred when left out (see `zoosim schema`), and the log to write.",
    ),
]
Like = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Earlier log or model whose encoding of features is used again [default: fit a new one]."
    ),
]
TrainedSettings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="policies.NAME.KEY=VALUE",
        help="Change a parameter of a policy (repeatable), such as policies.linucb.alpha=0.5.",
    ),
]
TrainedPolicies = Annotated[
    list[str],
    typer.Option(
        "--policy",
        metavar="NAME",
        help="Policy to train (repeatable): a name or FILE.py:Class.",
        autocompletion=complete_policy,
    ),
]
ModelFile = Annotated[Path, typer.Option("--out", metavar="FILE.zoosim", help="Model to write.")]
RetrieverFile = Annotated[Path, typer.Option("--out", metavar="FILE.retriever", help="Retriever to write.")]
ClickReward = Annotated[
    str | None,
    typer.Option("--reward", metavar="NAME", help="Reward that is the click, 0 or 1 [default: the log's objective]."),
]
RetrievedCandidates = Annotated[
    int, typer.Option("--candidates", metavar="K", help="Products retrieved to judge it, at most a tenth of all.")
]
VectorWidth = Annotated[int, typer.Option("--width", metavar="N", help="Numbers of a vector beside its bias.")]
Passes = Annotated[
    int | None,
    typer.Option("--passes", metavar="N", help="How often each row is taken [default: 1; more of fewer than 400,000]."),
]
JudgedShare = Annotated[
    float,
    typer.Option("--share", metavar="X", help="Share of the rows, the earliest, whose retriever the later ones judge."),
]
RetrieverSeed = Annotated[int, typer.Option("--seed", metavar="N", help="Seed of all draws.")]
TrainingShare = Annotated[
    float, typer.Option(metavar="X", help="Share of the rows to train on, the earliest; the later ones judge.")
]
TrainingSeed = Annotated[int, typer.Option("--seed", metavar="N", help="Seed of the policies and the bootstrap.")]
TrainingPage = Annotated[
    Path | None,
    typer.Option(
        "--report", metavar="FILE.html", help="Page to write about the training and the choice [default: none]."
    ),
]
Stream = Annotated[
    bool | None,
    typer.Option(
        "--stream/--no-stream",
        help="Read the rows of a Parquet file of products in blocks, so that they need not fit in memory, with the "
        "same results.  [default: where the file would take more memory than is left]",
    ),
]
SkipBad = Annotated[
    bool,
    typer.Option(
        "--skip-bad",
        help="Leave invalid rows out and count them by reason. Estimates are biased unless they are invalid at random.",
    ),
]

LogPath = Annotated[
    str,
    typer.Argument(
        metavar="LOG",
        help="Log: a Parquet file by `zoosim run --log`, `log` or `import`, the folder of a service, "
        "redis://HOST:PORT/DB?name=LOOP, or open-bandit:POLICY/CAMPAIGN.",
    ),
]
Policies = Annotated[
    list[str],
    typer.Option(
        "--policy",
        metavar="SPEC",
        help="Policy to evaluate (repeatable): a built-in name, FILE.py:Class, a saved FILE.zoosim or FILE.npz, "
        "FILE@FILE.py:Class for a saved one of your own, or column:NAME (its probabilities in the log).",
    ),
]
Train = Annotated[
    bool,
    typer.Option("--train", help="Train policies on the first 60% of the rows, and evaluate on the rest."),
]
Estimators = Annotated[
    str | None,
    typer.Option(
        metavar="A,B", help="Estimators, separated by commas, such as snips,dr [default: those of the log's type]."
    ),
]
Interval = Annotated[str, typer.Option(metavar="KIND", help="bootstrap, asymptotic, bernstein or sequence.")]
Level = Annotated[float, typer.Option(metavar="P", help="Confidence level of the intervals, between 0 and 1.")]
Rankings = Annotated[
    bool, typer.Option("--rankings", help="Read rows that share a decision_id as one ranking, not as single actions.")
]
Samples = Annotated[int, typer.Option(metavar="N", help="Bootstrap samples; levels close to 1 need more.")]
RewardRange = Annotated[
    str | None,
    typer.Option(
        metavar="LOW:HIGH",
        help="Range of the reward per visit, for bernstein and sequence [default: the range in the log].",
    ),
]
Gamma = Annotated[
    float,
    typer.Option(metavar="G", help="What a visitor's next reward counts for, where visitors come back."),
]
Bandwidth = Annotated[
    float | None,
    typer.Option(metavar="H", help="Kernel width in units of the boosts [default: chosen from the log]."),
]
PropensityModel = Annotated[
    str | None,
    typer.Option(
        "--propensity-model",
        metavar="multinomial",
        help="Estimate propensities from visitors' features, for a log without them; the verdict is `weak` at best.",
    ),
]
BoostLimit = Annotated[
    float | None,
    typer.Option(
        "--a-max",
        metavar="A",
        help="Boosts lie in [-A, A] [default: the log's column a_max, else its largest boost].",
    ),
]
OpenBanditFolder = Annotated[
    Path | None, typer.Option("--data", metavar="DIR", help="Folder of the Open Bandit Dataset, for open-bandit logs.")
]
EvaluationFolder = Annotated[
    Path | None,
    typer.Option("--out", metavar="DIR", help="Output folder of the page and the summary [default: write none]."),
]
PrintFigures = Annotated[bool, typer.Option("--json", help="Print all figures as JSON instead of the tables.")]
FittedFolder = Annotated[Path, typer.Option("--out", metavar="DIR", help="Output folder of shop.world and its page.")]
FittedReward = Annotated[
    str | None,
    typer.Option("--reward", metavar="NAME", help="Reward of the world [default: the log's objective]."),
]
GoneAfter = Annotated[
    float | None,
    typer.Option(
        "--gone-after",
        metavar="DAYS",
        help="Ask whether it pays to look ahead: a visitor who stays away for longer has gone.",
    ),
]
RehearsedPolicies = Annotated[
    str | None,
    typer.Option(
        "--policies",
        metavar="A,B",
        help="Policies to compare, names or FILE.py:Class, separated by commas [default: adaptive, mixed-effects, "
        "linear, linucb and d-linucb].",
    ),
]
Horizon = Annotated[
    int | None,
    typer.Option(
        "--horizon", metavar="N", help="Visits to plan for [default: a month's by the log's times, else its rows]."
    ),
]
RehearsalSeeds = Annotated[
    str, typer.Option("--seeds", metavar="N|A:B", help="Seeds: each is another shop that the log allows.")
]
RehearsalVisits = Annotated[
    int | None,
    typer.Option("--visits", metavar="N", help="Visits rehearsed per seed [default: the horizon, 20,000 at most]."),
]
RecommendationFolder = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="DIR",
        help="Output folder; an interrupted rehearsal is resumed from it [default: runs/recommend-LOG].",
    ),
]

ServedModel = Annotated[
    Path | None,
    typer.Argument(
        metavar="[MODEL.zoosim]",
        help="Model to start with [default: the store's latest; a new store starts one from its requests].",
    ),
]
Store = Annotated[
    str | None,
    typer.Option(
        metavar="sqlite:DIR|redis://...",
        help="Where the log, snapshots and models are stored [default: sqlite:zoosim-service].",
    ),
]
ServedLoops = Annotated[
    str | None,
    typer.Option(
        "--loops",
        metavar="DIR",
        help="Folder of several loops, in place of --store; zoosim loops adds and removes them while they are served.",
    ),
]
ServiceSettings = Annotated[
    Path | None,
    typer.Option(
        "--config", metavar="FILE.yaml", help="File of settings; environment variables ZOOSIM_SERVE_NAME override them."
    ),
]
Arms = Annotated[
    list[str] | None,
    typer.Option(
        "--arm",
        metavar="NAME=MODEL.zoosim:SHARE",
        help="Model that decides for a share of the visitors beside MODEL (repeatable), such as new=new.zoosim:0.2; "
        "with :holdback behind it, it never learns. --arm none ends them [default: those of the store].",
    ),
]
PlaygroundFolder = Annotated[
    Path | None, typer.Option("--out", help="Keep the service's log and models here, in a new folder.")
]
Scripted = Annotated[bool, typer.Option("--scripted", help="Play a fixed script, as where there is no terminal.")]
DeployAction = Annotated[str, typer.Argument(metavar="[ACTION]", help="What to do [default: status].")]
Deployed = Annotated[
    str | None,
    typer.Argument(
        metavar="[MODEL.zoosim|RULES.yaml|ARM]",
        help="File of the model to launch, or of the rules, else the arm's name.",
    ),
]
RunningService = Annotated[
    str, typer.Option("--url", metavar="URL", help="Where the service listens; its key is in ZOOSIM_SERVE_KEY.")
]
NewArm = Annotated[str | None, typer.Option("--arm", metavar="NAME", help="Name of the new arm [default: its role].")]
ArmShare = Annotated[
    float | None, typer.Option("--share", metavar="SHARE", help="Share of the visitors, 0 to 1 [default: by the plan].")
]
ArmRole = Annotated[
    str | None,
    typer.Option("--role", metavar="ROLE", help="challenger, or holdback, which never learns [default: challenger]."),
]
LaunchPlan = Annotated[
    Path | None,
    typer.Option("--plan", metavar="FILE.yaml", help="Plan of the launch: its shares, and the rewards it goes by."),
]
Sticky = Annotated[
    str | None,
    typer.Option(
        "--sticky",
        metavar="UNIT",
        help="Unit that the new arm is drawn for: visitor, who keeps it, or event, each decision anew "
        "[default: visitor].",
    ),
]
LoopsAction = Annotated[str, typer.Argument(metavar="[ACTION]", help="What to do [default: list].")]
LoopName = Annotated[str | None, typer.Argument(metavar="[NAME]", help="Name of the loop to add or to remove.")]
LoopModel = Annotated[
    Path | None,
    typer.Option(
        "--model",
        metavar="MODEL.zoosim",
        help="Model that the new loop begins with [default: that of the log in its folder, else one grows].",
    ),
]
LoopSettings = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE.yaml", help="Settings of the new loop [default: those of the service]."),
]
Happened = Annotated[
    str | None,
    typer.Option(
        "--time", metavar="WHEN", help="When what is annotated happened, such as 2026-11-29T14:05 [default: now]."
    ),
]
Who = Annotated[str | None, typer.Option("--who", metavar="NAME", help="Who makes the change [default: your user].")]
Why = Annotated[str | None, typer.Option("--why", metavar="TEXT", help="Why, for the log.")]
ServedLog = Annotated[
    str,
    typer.Argument(metavar="FOLDER|redis://...", help="Log of a service: its folder, or its Redis address."),
]
ForecastSource = Annotated[
    str,
    typer.Argument(
        metavar="FOLDER|redis://...|URL|MODEL.zoosim",
        help="Log of a service: its folder or Redis address; the URL where it listens; or the file of a model.",
    ),
]
Window = Annotated[
    int,
    typer.Option(
        metavar="N",
        help="Decisions of the first period and of each window, at least 100: enough to span what changes anyhow, such "
        "as a week.",
    ),
]
VisitorId = Annotated[str, typer.Argument(metavar="VISITOR_ID", help="The visitor_id of the visitor's requests.")]
ExportedLog = Annotated[
    Path, typer.Argument(metavar="OUT", help="Log to write, FILE.parquet, or the folder NAME.minari.")
]
Host = Annotated[str | None, typer.Option(metavar="ADDRESS", help="Address to listen on [default: 127.0.0.1].")]
Port = Annotated[int | None, typer.Option(metavar="N", help="Port to listen on, 0 for any [default: 8100].")]
