"""A policy of boosts trained on a log of searches: judged, saved, loaded, and asked for rankings."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import zoosim
from benchmarks.quality.own_search_shop import write_shop
from tests.logs.own_searches import write_searches
from zoosim.cli import app
from zoosim.core.errors import ConfigError, DataError, PolicyError
from zoosim.logs.parse import read_log
from zoosim.off_policy.training import Training
from zoosim.policies.boost_model import BoostModel
from zoosim.policies.boosts.search import slate_values
from zoosim.policies.registry import find_class
from zoosim.ranking.profiles import write_profiles
from zoosim.worlds.search.boosts import BoostWorld
from zoosim.worlds.search.shop import SearchShop
from zoosim.worlds.search.tables import read_search_config
from zoosim.worlds.search.world import build_search_world

VISITOR = {"segment": "savers", "query_type": "browse", "price_taste": -1.0}
SCORES = {"SKU-0003": 0.4, "SKU-0001": 1.0, "SKU-0002": -0.2}


@pytest.fixture(scope="module")
def log_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_searches(tmp_path_factory.mktemp("boosts"), 2_000)


@pytest.fixture(scope="module")
def training(log_file: Path) -> Training:
    return zoosim.train(log_file, ["item-critic", "q-offline"], log_file.with_name("boosts.zoosim"))


@pytest.fixture
def model(training: Training, log_file: Path) -> BoostModel:
    loaded = zoosim.load(log_file.with_name("boosts.zoosim"))
    assert isinstance(loaded, BoostModel)
    return loaded


def test_a_loaded_model_decides_as_the_trained_one(training: Training, model: BoostModel) -> None:
    trained = training.model
    assert isinstance(trained, BoostModel)
    assert model.facts == trained.facts
    assert model.spread == trained.spread == pytest.approx(1 / np.sqrt(3), rel=0.02)  # of uniform boosts
    again = zoosim.load(model.source)
    assert isinstance(again, BoostModel)
    for _ in range(3):
        one, other = model.decide(VISITOR, SCORES), again.decide(VISITOR, SCORES)
        assert one.ranking == other.ranking
        assert np.array_equal(one.boosts, other.boosts)
        assert one.density == other.density


def test_a_decision_is_a_ranking_of_the_candidates_with_its_density(model: BoostModel) -> None:
    choice = model.decide(VISITOR, SCORES)
    assert sorted(choice.ranking) == sorted(SCORES)
    context = model.request(VISITOR, SCORES).context
    assert choice.density == model.exploring().density(context, choice.boosts) > 0.0
    listed = [{"id": name, "score": score} for name, score in SCORES.items()]
    assert model.recommend(VISITOR, listed)[0] == model.recommend(VISITOR, SCORES)[0]


def test_what_is_compiled_ranks_any_number_of_candidates(training: Training) -> None:
    """A visitor with a single candidate waits for no compiler."""
    kernels: dict[str, Any] = {"item-critic": slate_values, "q-ensemble": write_profiles}
    for trained, kernel in kernels.items():
        policy = find_class(trained)(training.model.policy.spec, np.random.default_rng(0))
        model = BoostModel.of(policy, training.model.requests, 0.1)  # type: ignore[attr-defined,arg-type]
        model.prepare()
        compiled = list(kernel.dispatcher.signatures)
        for count in (1, 2, 60):
            model.decide(VISITOR, dict.fromkeys(model.requests.names[:count], 0.5))
        assert list(kernel.dispatcher.signatures) == compiled


def test_densities_add_up_to_1(model: BoostModel) -> None:
    """E[density of uniform boosts] x the volume of the box is 1: 4,000 draws, within 4 standard errors."""
    policy = model.exploring()
    context = model.request(VISITOR, SCORES).context
    drawn = np.random.default_rng(0).uniform(-1.0, 1.0, (4_000, 10))
    densities = np.array([policy.density(context, boosts) for boosts in drawn]) * 2.0**10
    assert densities.mean() == pytest.approx(1.0, abs=4 * densities.std() / np.sqrt(4_000))


def test_decisions_use_what_worlds_show(log_file: Path, model: BoostModel, tmp_path: Path) -> None:
    """A request by names gives the context of the world's own visit, to the bit."""
    config = read_search_config(write_shop(tmp_path, products=60, queries=12))
    world = BoostWorld(SearchShop(build_search_world(config, seed=0)))
    segments, types = list(config.segments), list(config.query_types)
    names = model.requests.names
    for step in range(30):
        visit = world.arrive(step)
        expected = world.context(visit)
        users = world.shop.world.users
        visitor = {
            "segment": segments[visit.segment],
            "query_type": types[visit.query_type],
            "price_taste": users.price_taste[visit.user],
            "label_taste": users.label_taste[visit.user],
        }
        candidates = world.shop.candidates(visit)
        assert candidates is not None
        scores = {names[p]: score for p, score in zip(candidates, expected.base_scores, strict=True)}
        context = model.request(visitor, scores).context
        for name in ("features", "product_ids", "base_scores", "boost_features"):
            assert np.array_equal(getattr(context, name), getattr(expected, name)), name


def test_training_pays(log_file: Path, model: BoostModel, tmp_path: Path) -> None:
    """In the true shop the model earns more than random boosts, 600 visits, by 4 standard errors."""
    config = read_search_config(write_shop(tmp_path, products=60, queries=12))
    world = BoostWorld(SearchShop(build_search_world(config, seed=0)))
    rng = np.random.default_rng(0)
    gains = []
    for step in range(5_000, 5_600):
        visit = world.arrive(step)
        reward = world.truth(visit).expected_reward
        gains.append(reward(model.policy.recommend(world.context(visit))) - reward(rng.uniform(-1.0, 1.0, 10)))
    assert np.mean(gains) > 4 * np.std(gains) / np.sqrt(600)


def test_evaluate_judges_the_later_searches(log_file: Path, training: Training, model: BoostModel) -> None:
    assert training.evaluation is not None
    evaluation = zoosim.evaluate(log_file, {"boosts": model})
    assert evaluation.n == 400  # the others trained it
    row = next(row for row in evaluation.results if row.estimator == "snips")
    trained = next(r for r in training.evaluation.results if (r.policy, r.estimator) == (training.policy, "snips"))
    assert (row.value, row.verdict) == (trained.value, trained.verdict)
    assert "the best of 2 policies by these very rows" in str(evaluation.notes)


def test_a_model_goes_on_learning(model: BoostModel) -> None:
    before = model.policy.state_dict()
    choice = model.decide(VISITOR, SCORES)
    model.learn(VISITOR, SCORES, choice.boosts, clicked=[choice.ranking[0]], purchased=[choice.ranking[0]])
    if training_learns(model):
        after = model.policy.state_dict()
        assert any(not np.array_equal(before[name], after[name]) for name in before)
    with pytest.raises(PolicyError, match="'SKU-0009' was not shown"):
        model.learn(VISITOR, SCORES, choice.boosts, clicked=["SKU-0009"])


def training_learns(model: BoostModel) -> bool:
    """Whether the policy that was chosen learns from visits."""
    return type(model.policy).name != "q-offline"


@pytest.mark.parametrize(
    ("visitor", "candidates", "message"),
    [
        (VISITOR, {"SKU-9999": 1.0}, "got 'SKU-9999', which is not in the catalogue of 60 products"),
        (VISITOR, {}, "candidates: got {}, expected a finite score for each id"),
        (VISITOR, None, "candidates: got None, expected a finite score"),
        (VISITOR, {"SKU-0001": float("nan")}, "expected a finite score"),
        (VISITOR, [{"id": "SKU-0001", "score": 1}] * 2, "expected a finite score for each id"),
        (VISITOR, ["SKU-0001"], "expected a finite score for each id"),
        ({"segment": "whales", "query_type": "browse"}, SCORES, "unknown segment 'whales'"),
        ({"segment": "savers"}, SCORES, "unknown query type 'None'"),
        ({**VISITOR, "price_taste": "low"}, SCORES, "could not convert"),
        (
            {**VISITOR, "price_tast": 1.0},
            SCORES,
            r"unknown key 'price_tast' \(did you mean price_taste\?\); known: segment",
        ),
        ("savers", SCORES, "expected segment, query_type and tastes"),
    ],
)
def test_requests_that_are_refused(model: BoostModel, visitor: Any, candidates: Any, message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        model.decide(visitor, candidates)


def test_what_cannot_be_trained_is_said(log_file: Path, tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="random-boosts: learns nothing, so there is nothing to train"):
        zoosim.train(log_file, ["random-boosts"])
    with pytest.raises(PolicyError, match="chooses among actions, and the log holds boosts"):
        zoosim.train(log_file, ["linucb"])
    log = read_log(log_file)
    with pytest.raises(DataError, match="does not say what was shown"):
        zoosim.train(log.rows(np.arange(len(log))).__class__(**{**vars_of(log), "searches": None}), ["item-critic"])
    without = log.__class__(**{**vars_of(log), "propensities": np.full(len(log), np.nan)})
    with pytest.raises(ConfigError, match="expected one, since the log has no densities"):
        zoosim.train(without, ["item-critic", "q-offline"])
    for each in (log_file, without):
        with pytest.raises(ConfigError, match=r"propensity_model: .* is a log of boosts, expected one of products"):
            zoosim.train(each, ["q-offline"], propensity_model="multinomial")
    alone = zoosim.train(without, ["q-offline"])
    assert alone.evaluation is None
    with pytest.raises(DataError, match="got a log without propensities"):
        zoosim.evaluate(without, {"boosts": alone.model})


def vars_of(log: Any) -> dict[str, Any]:
    """Return the fields of a log by name."""
    return {name: getattr(log, name) for name in log.__dataclass_fields__}


def test_a_model_of_another_shop_is_refused(model: BoostModel, tmp_path: Path) -> None:
    other = write_shop(tmp_path, products=60, queries=12)
    other["segments"] = {"all": {}}
    from zoosim.api.runs import write_log

    write_log(tmp_path / "other.parquet", n=100, policy="random-boosts", config={"env": other})
    with pytest.raises(DataError, match="holds no searches of the shop that"):
        zoosim.evaluate(tmp_path / "other.parquet", {"boosts": model})


def test_broken_files_are_refused(model: BoostModel, tmp_path: Path) -> None:
    content = Path(model.source).read_bytes()
    for number, broken in enumerate((content[:-9], content[:70], content.replace(b"savers", b"ravers", 1))):
        path = tmp_path / f"{number}.zoosim"
        path.write_bytes(broken)
        with pytest.raises(DataError, match="is no model, or broken; train it anew"):
            zoosim.load(path)


def test_the_commands(log_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "boosts.zoosim"
    train = ["train", str(log_file), "--policy", "q-ensemble", "--share", "0.5", "--out", str(out)]
    done = CliRunner().invoke(app, train)
    assert done.exit_code == 0, done.output
    assert "q-ensemble, trained on 1,000 rows" in done.output
    judged = CliRunner().invoke(
        app, ["evaluate", str(log_file), "--policy", str(out), "--out", str(tmp_path / "judged")]
    )
    assert judged.exit_code == 0, judged.output
    assert "boosts" in judged.output


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"boosts": [1.0, 2.0]}, r"learn: boosts: got an array of shape \(2,\)"),
        ({"boosts": "abc"}, "learn: boosts: got"),
        ({"clicked": "SKU-0001"}, "learn: clicked: got 'SKU-0001', expected a list of products' ids"),
        ({"purchased": None}, "learn: purchased: got None, expected a list"),
    ],
)
def test_what_came_of_a_ranking_is_checked(model: BoostModel, changed: dict[str, Any], message: str) -> None:
    choice = model.decide(VISITOR, SCORES)
    with pytest.raises((DataError, PolicyError), match=message):
        model.learn(VISITOR, SCORES, **{"boosts": choice.boosts, **changed})
