"""Train on a shop's log, keep the best, load it, and judge it by rows that it has not seen."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import zoosim
from tests.policies.from_log.test_from_log import fitted
from tests.schema.shop import BEST, COUNTRIES, LOGGED, N_PRODUCTS, click_rate, product_name, schema, write_shop
from tests.serving.traces import traces
from zoosim.api import models
from zoosim.cli import app
from zoosim.core.errors import ConfigError, DataError, PolicyError
from zoosim.core.forecasts import read_forecasts
from zoosim.core.types import NOBODY
from zoosim.logs.parse import read_log
from zoosim.off_policy.best_estimates import best_result
from zoosim.off_policy.compare import Difference
from zoosim.off_policy.findings import NOTHING
from zoosim.off_policy.results import Evaluation, Result
from zoosim.off_policy.targets.products import spec_of
from zoosim.off_policy.training import earlier_and_later
from zoosim.policies.base import Policy
from zoosim.policies.constraints import Constrained
from zoosim.policies.model import Model, model_digest
from zoosim.policies.products.random import Random
from zoosim.terminal.evaluation import print_training


def imported(folder: Path, n: int = 3_000, seed: int = 0, drop: str | None = None, **changes: Any) -> Path:
    """Write a shop and import its log; return the log."""
    table = write_shop(folder, n, seed)
    kept = table if drop is None else table.drop(drop)
    columns = {role: name for role, name in schema(folder)["columns"].items() if name != drop}
    path = folder / "log.parquet"
    zoosim.import_log(kept, schema(folder, columns=columns, **changes), path)
    return path


@pytest.fixture(scope="module")
def log_of_300(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log that no test changes."""
    return imported(tmp_path_factory.mktemp("log"), n=300)


@pytest.fixture(scope="module")
def log_of_600(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log that no test changes."""
    return imported(tmp_path_factory.mktemp("log"), n=600)


@pytest.fixture(scope="module")
def without_times(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model `linear` of a log of 1,000 rows without times, which is beside it."""
    folder = tmp_path_factory.mktemp("without-times")
    zoosim.train(imported(folder, n=1_000, drop="at"), ["linear"], folder / "m.zoosim")
    return folder / "m.zoosim"


def test_what_training_and_evaluation_forecast_stands_beside_the_model(tmp_path: Path) -> None:
    log = imported(tmp_path)
    training = zoosim.train(log, ["linear"], tmp_path / "m.zoosim")
    assert training.evaluation is not None
    trained, *others = read_forecasts(tmp_path / "m.forecasts.jsonl")
    assert [trained.reward, *(each.reward for each in others)] == [*training.evaluation.by_reward]
    row = best_result(training.evaluation, "linear")
    assert (trained.value, trained.low, trained.high) == (row.value, row.low, row.high)
    assert (trained.by, trained.model, trained.rows) == ("zoosim train", model_digest(tmp_path / "m.zoosim"), 600)
    assert trained.low < true_value(training.model) < trained.high
    zoosim.evaluate(log, [str(tmp_path / "m.zoosim"), "random"], level=0.9)
    zoosim.evaluate(log, [str(tmp_path / "m.zoosim"), "random"], level=0.9)
    kept = read_forecasts(tmp_path / "m.forecasts.jsonl")
    assert len(kept) == 2 * (1 + len(others))
    assert kept[0] == trained
    evaluated = kept[1 + len(others)]
    assert (evaluated.by, evaluated.level, evaluated.verdict) == ("zoosim evaluate", 0.9, "weak")
    (tmp_path / "m.forecasts.jsonl").write_text("{")
    evaluation = zoosim.evaluate(log, [str(tmp_path / "m.zoosim")])
    assert "its forecasts are not kept: " in evaluation.notes["m"][-1]
    zoosim.train(log, ["linear"], tmp_path / "m.zoosim", seed=1)
    assert {each.by for each in read_forecasts(tmp_path / "m.forecasts.jsonl")} == {"zoosim train"}


def true_value(model: Model) -> float:
    """Return the click rate of what a model shows, whatever else is known of the visitor."""
    values = []
    for country, name in enumerate(COUNTRIES):
        for age in range(20, 80, 5):
            shown = model.decide({"country": name, "age": age, "member": age % 2 == 0}).propensities
            values.append(sum(shown[product_name(k)] * click_rate(country, k) for k in range(N_PRODUCTS)))
    return float(np.mean(values))


def test_training_picks_a_policy_that_beats_the_logged_choices(tmp_path: Path) -> None:
    log = imported(tmp_path)
    lines: list[str] = []
    training = zoosim.train(log, ["random", "linear", "linucb"], tmp_path / "m.zoosim", progress=lines.append)
    assert training.policy in ("linear", "linucb")
    assert training.evaluation is not None
    assert training.evaluation.n == 600
    assert any(line.startswith("linucb: learned from") for line in lines)
    loaded = zoosim.load(tmp_path / "m.zoosim")
    # The best policy earns .5, the logged choices .233; half of the way must be there.
    assert true_value(loaded) > (BEST + LOGGED) / 2
    assert true_value(loaded) == true_value(training.model)
    facts = loaded.facts
    assert (facts["policy"], facts["rows"], facts["judged"]["rows"]) == (training.policy, 2_400, 600)
    assert facts["first"] == "2026-01-01T00:00:00.500000+00:00"
    assert facts["last"] < "2026-01-24"
    assert {row["estimator"] for row in facts["judged"]["results"]} == {"ips", "snips", "dr", "dm"}


@pytest.mark.parametrize("named", [True, False])
def test_no_model_names_what_few_visitors_had(tmp_path: Path, named: bool) -> None:
    """Of 200 visitors with two visits each every one has a mail address, and 10 share a town, in 20 rows."""
    numbers = np.repeat(np.arange(200), 2)
    mails = [f"somebody-{number:03}@example.com" for number in range(200)]
    towns = [f"The Town of {number:02}" for number in range(20)]
    table = write_shop(tmp_path, 400).with_columns(
        customer=pl.Series([f"customer {number:03}" for number in numbers]),
        mail=pl.Series([mails[number] for number in numbers]),
        town=pl.Series([towns[number // 10] for number in numbers]),
    )
    columns = {role: name for role, name in schema(tmp_path)["columns"].items() if named or role != "user_id"}
    features = {"country": "category", "mail": None, "town": None}
    described = schema(tmp_path, columns=columns, features=features)
    imported = zoosim.import_log(table, described, tmp_path / "log.parquet")
    lost = {"mail": "200 levels"} | ({"town": "20 levels"} if named else {})
    assert {name: note.partition(" that")[0] for name, note in imported.notes.items()} == lost
    (tmp_path / "models").mkdir()
    command = ["train", f"{tmp_path / 'log.parquet'}", "--policy", "linear", "--out", f"{tmp_path / 'models/m.zoosim'}"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    for name, levels in lost.items():
        assert f"note: column {name}: {levels} that too few visitors had" in " ".join(result.output.split())
    left = traces(tmp_path / "models", [*mails, *towns, *map("customer {:03}".format, range(200))])
    assert set(left) == (set() if named else set(towns))
    # What is hashed still tells visitors apart.
    model = zoosim.load(tmp_path / "models/m.zoosim")
    encoded = [model.fitted.visitors.encode_one({"country": "de", "town": town}) for town in towns]
    assert len(np.unique(encoded, axis=0)) >= 18


@pytest.mark.parametrize("drop", [None, "at"])
def test_a_model_is_judged_by_the_rows_that_it_has_not_seen(tmp_path: Path, drop: str | None) -> None:
    """With times, by those after its last one; without, by those that are not like its own."""
    log = imported(tmp_path, n=1_000, drop=drop)
    model = zoosim.train(log, ["linear"], tmp_path / "m.zoosim").model
    path = str(tmp_path / "m.zoosim")
    judged = zoosim.evaluate(log, [path, "random"])
    assert judged.n == 200
    equal = ", or on equal ones" if drop else ""
    assert judged.notes["m"] == (f"800 of 1,000 rows were set aside, as it was trained on them{equal}",)
    assert not judged.notes["random"]
    assert zoosim.evaluate(log, ["random"]).n == 1_000
    if drop is None:
        times = read_log(log).times
        assert times is not None
        assert model.last == np.sort(times)[799]
    else:
        assert model.last is None
    known = pl.read_csv(tmp_path / "shop.csv").head(800)
    columns = {role: name for role, name in schema(tmp_path)["columns"].items() if name != drop}
    zoosim.import_log(known, schema(tmp_path, columns=columns), tmp_path / "known.parquet", like=path)
    with pytest.raises(DataError, match="got no row after those that the models were trained on; give a later log"):
        zoosim.evaluate(tmp_path / "known.parquet", [path])


@pytest.mark.parametrize("kept", [slice(None), slice(0, 800), slice(None, None, -1), slice(5, None), slice(500, None)])
def test_without_times_rows_are_known_again_wherever_they_stand(
    without_times: Path, tmp_path: Path, kept: slice
) -> None:
    path = str(without_times)
    visits = np.random.default_rng(0).permutation(1_000)[kept]
    later = write_shop(tmp_path, n=400, seed=1).drop("at")
    table = pl.concat([later, write_shop(tmp_path, n=1_000).drop("at")[visits]])
    columns = {role: name for role, name in schema(tmp_path)["columns"].items() if role != "time"}
    zoosim.import_log(table, schema(tmp_path, columns=columns), tmp_path / "both.parquet", like=path)
    unseen = 400 + int((visits >= 800).sum())
    # A few rows of the later ones are equal by chance to some that were trained on, and left out with them.
    assert 0.94 * unseen < zoosim.evaluate(tmp_path / "both.parquet", [path]).n <= unseen


def test_without_times_a_log_of_equal_rows_is_refused(tmp_path: Path) -> None:
    features = {"country": "category"}
    log = imported(tmp_path, n=1_000, drop="at", features=features)
    path = str(tmp_path / "m.zoosim")
    zoosim.train(log, ["linear"], path)
    assert zoosim.evaluate(log, [path]).n == 200  # all that was trained on is there, whichever of equal rows it was
    columns = {role: name for role, name in schema(tmp_path)["columns"].items() if role != "time"}
    half = pl.read_csv(tmp_path / "shop.csv")[::2]
    zoosim.import_log(half, schema(tmp_path, columns=columns, features=features), tmp_path / "half.parquet", like=path)
    with pytest.raises(DataError, match=r"has no times, and too many equal rows to tell which .*m\.zoosim was trained"):
        zoosim.evaluate(tmp_path / "half.parquet", [path])


def test_a_log_without_propensities_trains_the_better_policy_and_judges_none(tmp_path: Path) -> None:
    """`random` earns what `linear` more than doubles: a model of the rows tells, without propensities."""
    log = imported(tmp_path, drop="p")
    training = zoosim.train(log, ["random", "linear"], tmp_path / "m.zoosim")
    assert training.policy == "linear"
    assert training.evaluation is None
    assert list(training.predicted) == ["random", "linear"]
    judged = zoosim.load(tmp_path / "m.zoosim").facts["judged"]
    assert judged["policies"] == 2
    assert judged["predicted"] == training.predicted
    assert true_value(zoosim.load(tmp_path / "m.zoosim")) > (BEST + LOGGED) / 2
    judged = zoosim.train(log, ["linear", "random"], propensity_model="multinomial")
    assert judged.policy == "linear"
    assert judged.evaluation is not None
    assert judged.evaluation.propensities is not None
    assert {row.verdict for row in judged.evaluation.results} <= {"weak", "do not use"}
    with pytest.raises(ConfigError, match="unknown propensity_model 'trees'"):
        zoosim.train(log, ["linear"], propensity_model="trees")
    for policies in (["random"], [str(tmp_path / "m.zoosim")]):
        with pytest.raises(DataError, match="got a log without propensities, expected a column propensity") as caught:
            zoosim.evaluate(log, policies)
        assert "\n" not in str(caught.value)


def test_a_log_that_is_encoded_otherwise_is_refused_with_advice(tmp_path: Path) -> None:
    log = imported(tmp_path, n=1_000)
    path = str(tmp_path / "m.zoosim")
    zoosim.train(log, ["linear"], path)
    (tmp_path / "later").mkdir()
    later = imported(tmp_path / "later", n=1_000, seed=1)
    with pytest.raises(DataError, match=r"made in another way than .*; import its table again with --like"):
        zoosim.evaluate(later, [path])
    table = pl.read_csv(tmp_path / "later" / "shop.csv", infer_schema=False)
    newer = table.with_columns(pl.col("at").str.replace("2026-01", "2026-03"), country=pl.lit("es")).drop("member")
    imports = zoosim.import_log(newer, schema(tmp_path), later, like=path)
    assert imports.drift == {
        "country": "1,000 of 1,000 values are new (es)",
        "member": "the column is gone; all its values count as missing",
    }
    assert zoosim.evaluate(later, [path, "random"]).n == 1_000


@pytest.mark.parametrize(
    ("policies", "options", "error", "message"),
    [
        ([], {}, ConfigError, "policies: got none, expected one or more"),
        ({"linear": 1}, {}, ConfigError, "policies: got .*, expected a list"),
        (["linaer"], {}, ConfigError, "unknown policy 'linaer' .did you mean linear"),
        (["linear", "linear"], {}, ConfigError, "got linear twice"),
        (["column:p"], {}, ConfigError, "got 'column:p', expected built-in names, FILE.py:Class or classes"),
        (["old.zoosim"], {}, ConfigError, "got 'old.zoosim', expected built-in names"),
        ([3], {}, ConfigError, "policies: got 3, expected built-in names"),
        (["q-ensemble"], {}, PolicyError, "policy q-ensemble: sets boosts"),
        (
            ["static-mlp", "linear"],
            {},
            PolicyError,
            "policy static-mlp: knows visitors by their id, and a",
        ),
        (["template-ts"], {}, PolicyError, "policy template-ts: chooses among the templates of a search shop"),
        (["linear"], {"share": 5}, ConfigError, "share: got 5, expected a number, 0.1 to 0.9"),
        (["linear"], {"share": float("nan")}, ConfigError, "share: got nan"),
        (["linear"], {"seed": -1}, ConfigError, "seed: got -1, expected a whole number"),
        (["linear"], {"parameters": {"mlp": {}}}, ConfigError, "parameters: unknown policy 'mlp'"),
        (["linear"], {"parameters": {"linear": 5}}, ConfigError, "parameters: linear: got 5, expected parameters"),
        (["linear"], {"parameters": {"linear": {"size": 5}}}, ConfigError, "linear: unknown parameter 'size'"),
        (["linear"], {"out": "m.npz"}, ConfigError, "ending in .zoosim"),
        (["linear"], {"out": "none/m.zoosim"}, ConfigError, "expected a file in a folder that is there"),
    ],
)
def test_what_cannot_be_trained_is_refused_before_anything_is_written(
    log_of_300: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    policies: Any,
    options: dict[str, Any],
    error: Any,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=message) as caught:
        zoosim.train(log_of_300, policies, **{"out": "m.zoosim", **options})
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_model_keeps_the_parameters_that_it_is_trained_with(log_of_300: Path, tmp_path: Path) -> None:
    parameters = {"constrained": {"policy": "d-linucb", "floors": {"click": 0.2}}}
    zoosim.train(log_of_300, ["constrained"], tmp_path / "m.zoosim", parameters=parameters)
    model = zoosim.load(tmp_path / "m.zoosim")
    assert isinstance(model.policy, Constrained)
    (report,) = model.policy.constraints
    assert report.constraint == ("click", 0.2, True)
    assert "click: floor 0.2 per visit, too few visits to tell" in str(model)


def test_a_floor_of_a_reward_that_the_log_lacks_is_refused(log_of_300: Path, tmp_path: Path) -> None:
    """A service would tell the policy of no such reward, so nothing would ever be learned."""
    parameters = {"constrained": {"floors": {"clicks": 0.2}}}
    with pytest.raises(ConfigError, match=r"constrained: floors: unknown reward 'clicks' \(did you mean click"):
        zoosim.train(log_of_300, ["constrained"], tmp_path / "m.zoosim", parameters=parameters)


class Fails(zoosim.Policy):
    def select_action(self, context: zoosim.Context) -> int:
        return 0

    def update(self, *given: Any) -> None:
        raise ValueError("no such reward")


class Own(zoosim.Policy):
    """Shows one product to visitors that it recognises, and another one to all others."""

    def select_action(self, context: zoosim.Context) -> int:
        return int(context.user_id != NOBODY)

    def update(self, context: zoosim.Context, *given: Any) -> None:
        assert context.user_id == NOBODY


def test_a_policy_that_cannot_learn_is_left_out_and_named(log_of_600: Path) -> None:
    log = log_of_600
    training = zoosim.train(log, [Fails, "linear"])
    assert training.policy == "linear"
    assert training.evaluation is not None
    assert training.evaluation.notes["fails"] == ("left out, cannot learn from the log: ValueError: no such reward",)
    assert "linear" not in training.evaluation.summary["notes"]  # chosen among nobody
    with pytest.raises(PolicyError, match="policy fails: cannot learn from the log: ValueError: no such reward"):
        zoosim.train(log, [Fails])


def test_a_policy_that_shows_no_logged_product_is_judged_by_the_direct_method_alone(tmp_path: Path) -> None:
    """Product 0 is clicked in the earlier rows, and never shown in the later ones."""
    table = write_shop(tmp_path, 1_000)
    best = pl.col("item") == product_name(0)
    is_later = pl.int_range(pl.len()) >= 800
    table = table.with_columns(
        click=best.cast(pl.Int64), item=pl.when(best & is_later).then(pl.lit(product_name(1))).otherwise(pl.col("item"))
    )
    zoosim.import_log(table, schema(tmp_path), tmp_path / "log.parquet")
    training = zoosim.train(tmp_path / "log.parquet", ["adaptive"], tmp_path / "m.zoosim")
    assert zoosim.load(tmp_path / "m.zoosim").facts["policy"] == "adaptive"
    assert training.evaluation is not None
    verdicts = {row.estimator: (row.verdict, np.isnan(row.value)) for row in training.evaluation.results}
    assert verdicts["snips"] == ("do not use", True)
    assert not verdicts["dm"][1]


@pytest.mark.parametrize("policies", [["linear"], ["random", "linear"]])
def test_what_cannot_be_judged_is_trained_and_says_why(
    log_of_600: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    policies: list[str],
) -> None:
    log = log_of_600

    def refuse(*log: Any, **options: Any) -> Evaluation:
        raise DataError("no estimator applies")

    monkeypatch.setattr(sys.modules["zoosim.off_policy.evaluate"], "evaluate", refuse)
    training = zoosim.train(log, policies, tmp_path / "m.zoosim", report=tmp_path / "page.html")
    assert training.evaluation is None
    assert training.policy == "linear"  # of several, by the mixed model
    assert zoosim.load(tmp_path / "m.zoosim").facts["policy"] == "linear"
    print_training(training)
    assert "The later rows could not judge what was trained: no estimator applies." in capsys.readouterr().out
    assert "could not judge what was trained: no estimator applies" in (tmp_path / "page.html").read_text()


def test_where_nothing_can_be_predicted_either_the_first_policy_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = imported(tmp_path, n=600, drop="p")

    def refuse(*log: Any, **options: Any) -> dict[str, float]:
        raise ConfigError("too many for memory")

    monkeypatch.setattr("zoosim.off_policy.predicted.predict_values", refuse)
    training = zoosim.train(log, ["random", "linear"], tmp_path / "m.zoosim")
    assert training.policy == "random"
    assert training.reason == "it was named first, and nothing could be predicted: too many for memory"


def test_what_is_judged_is_what_decides_for_visitors_whom_nobody_recognises(log_of_600: Path, tmp_path: Path) -> None:
    log = log_of_600
    training = zoosim.train(log, [Own], tmp_path / "m.zoosim")
    assert training.evaluation is not None
    later = read_log(log).in_order().rows(np.arange(480, 600))
    shown = np.where(later.actions == 0, float(N_PRODUCTS), 0.0)
    by_hand = float(np.mean(shown * later.rewards))
    found = [training.evaluation, zoosim.evaluate(log, [training.model])]
    found.append(zoosim.evaluate(log, [f"{tmp_path / 'm.zoosim'}@{__file__}:Own"]))
    for evaluation in found:
        assert evaluation.n == 120
        assert evaluation.results[0].value == pytest.approx(by_hand)


@pytest.mark.parametrize("drop", [None, "at"])
def test_rows_that_chose_a_model_flatter_it_and_later_ones_do_not(tmp_path: Path, drop: str | None) -> None:
    log = imported(tmp_path, n=1_000, drop=drop)
    path = tmp_path / "m.zoosim"
    training = zoosim.train(log, ["random", "linear"], path)
    assert training.evaluation is not None
    again = zoosim.evaluate(log, {"m": path, "random": "random"})
    for name, evaluation in ((training.policy, training.evaluation), ("m", again)):
        note = evaluation.notes[name][-1]
        assert note.startswith("the best of 2 policies by these very rows, so its value is likely too high")
    assert not again.notes["random"]
    table = write_shop(tmp_path, n=1_000, seed=1).with_columns(pl.col("at").str.replace("2026-01", "2026-03"))
    columns = {role: name for role, name in schema(tmp_path)["columns"].items() if name != drop}
    zoosim.import_log(table, schema(tmp_path, columns=columns), tmp_path / "new.parquet", like=path)
    assert not any(note.startswith("the best") for note in zoosim.evaluate(tmp_path / "new.parquet", [path]).notes["m"])


def test_the_best_is_predicted_unless_it_is_shown_to_be_worse(tmp_path: Path) -> None:
    """A model of the rows tells `linear` from `random`; an estimate that shows the contrary has the last word."""
    log = read_log(imported(tmp_path, n=1_000))
    earlier, later = earlier_and_later(log)
    policies: dict[str, Policy] = {"random": Random(spec_of(log), np.random.default_rng(0))}
    policies["linear"] = fitted("linear", earlier)
    best, reason, predicted = models._best(policies, earlier, later, None)
    assert reason.startswith(
        "dm, a mixed model calibrated on later rows, predicts the most reward per visit for it (linear "
    )
    assert best == "linear"
    assert predicted["linear"] > predicted["random"]

    def compared(low: float, high: float, verdict: str, estimator: str = "dr") -> Evaluation:
        lead = Difference("linear", "random", estimator, (low + high) / 2, low, high, 0.0, None, verdict)
        over_logged = lead._replace(other="logged")
        return Evaluation((), (lead, over_logged), NOTHING, 9, 9, {}, "log")

    for evaluation, expected in (
        (compared(-0.2, -0.1, "trust"), "random"),
        (compared(-0.2, -0.1, "weak"), "linear"),
        (compared(-0.2, -0.1, "trust", "ips"), "linear"),
        (compared(-0.2, 0.1, "trust"), "linear"),
        (compared(0.1, 0.2, "trust"), "linear"),
    ):
        assert models._best(policies, earlier, later, evaluation)[0] == expected

    for verdict in ("trust", "weak", "do not use"):
        results = tuple(
            Result(name, "dm", value, 0.0, 1.0, 9.0, 1.0, 1.0, verdict, ())
            for name, value in (("random", 0.1), ("linear", 0.2))
        )
        by_model = Evaluation(results, (), NOTHING, 9, 9, {}, "log")
        best, reason, predicted = models._best(policies, earlier, later, by_model)
        assert (best, predicted) == ("linear", {"random": 0.1, "linear": 0.2})
        assert ("a hint only: dm is `do not use` for it" in reason) == (verdict == "do not use")


def test_logs_that_cannot_be_learned_from_are_refused(tmp_path: Path) -> None:
    few = imported(tmp_path, n=60)
    with pytest.raises(DataError, match="60 rows, too few to learn from some and judge by the others"):
        zoosim.train(few, ["linear"])
    with pytest.raises(DataError, match=r"log: does not say how its features were made, .* by zoosim import"):
        zoosim.train(pl.read_parquet(imported(tmp_path, n=300)).drop("catalogue"), ["linear"])
    boosts = pl.DataFrame({"action": [[0.5, 1.0]] * 90, "propensity": [0.1] * 90, "reward": [0.0] * 90})
    with pytest.raises(DataError, match=r"column action holds values of type List.*, expected whole numbers"):
        zoosim.train(boosts, ["linear"])
    with pytest.raises(DataError, match="cannot be read as Parquet"):
        zoosim.train(tmp_path / "shop.csv", ["linear"])


def test_the_whole_way_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_shop(tmp_path, n=1_000)
    monkeypatch.chdir(tmp_path)
    outputs = []
    for line in (
        "schema shop.csv --out shop.yaml",
        "import shop.csv shop.yaml log.parquet",
        "import shop.csv again.parquet --like log.parquet",
        "train again.parquet --policy linear --policy linucb --out m.zoosim",
        "evaluate log.parquet --policy m.zoosim --policy random",
    ):
        done = CliRunner().invoke(app, line.split())
        assert done.exit_code == 0, (line, done.output)
        outputs.append(done.output)
    assert "country   feature, category: 3 different texts" in outputs[0]
    assert "Schema: shop.yaml" in outputs[0]
    assert (tmp_path / "log.parquet").read_bytes() == (tmp_path / "again.parquet").read_bytes()
    assert "Model: m.zoosim (" in outputs[3]
    assert "trained on 800 rows)" in outputs[3]
    assert "best of 2 policies by these very rows" in " ".join(outputs[4].split())
    choice = zoosim.load("m.zoosim").decide({"country": "de", "age": 33}, ["SKU-00", "SKU-01"])
    assert choice.product in ("SKU-00", "SKU-01")


@pytest.mark.parametrize(
    "line", ["import shop.csv a.yaml b.yaml c.parquet", "import shop.csv --like shop.csv l.parquet"]
)
def test_wrong_files_of_an_import_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    write_shop(tmp_path, n=100)
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, line.split())
    assert isinstance(done.exception, ConfigError | DataError)
    assert ("got 4 files" in str(done.exception)) or "expected a log (.parquet) or a model" in str(done.exception)
    assert (tmp_path / "shop.csv").exists()


@pytest.mark.parametrize(("value", "expected"), [(float("inf"), "a finite number"), (1e300, "at most 1e.15 in size")])
def test_every_reward_is_checked_when_it_is_imported(tmp_path: Path, value: float, expected: str) -> None:
    """Not the objective's alone: evaluate judges them all."""
    table = write_shop(tmp_path, n=300).with_columns(margin=pl.Series([0.5] * 299 + [value]))
    rewards = {"click": "click", "margin": "margin"}
    changed = schema(tmp_path) | {"rewards": rewards, "objective": {"click": 1.0}}
    with pytest.raises(DataError, match=rf"row 29[89], column margin: got .*, expected {expected}"):
        zoosim.import_log(table, changed, tmp_path / "log.parquet")
