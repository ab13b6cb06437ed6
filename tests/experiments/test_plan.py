"""From a request to a checked plan: who wins over whom, what the hash covers, and that a plan makes itself again."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from zoosim.action_spaces import find_action_space
from zoosim.arena.plan import Plan
from zoosim.core.config import EnvConfig
from zoosim.core.errors import ConfigError
from zoosim.core.search_config import SearchConfig
from zoosim.experiments import EXPERIMENTS
from zoosim.experiments.plan import finished_plan, make_plan
from zoosim.experiments.request import RunRequest, parse_seeds
from zoosim.policies.products.random import Random
from zoosim.policies.registry import BUILT_IN, find_class
from zoosim.worlds.table import TableWorld

SHOCK = {"step": 50, "name": "toys", "set": {"budget_shopper": {"Dog Toy": 0.5}}}


class Mine(Random):
    name = "mine"


def table_of(made: Plan, seed: int) -> TableWorld:
    """Return the world of a seed, which is a table."""
    table = made.world(seed).as_table()
    assert table is not None
    return table


def plan(experiment: str = "gauntlet", **request: Any) -> Plan:
    return make_plan(RunRequest(experiment, **request))


def names(made: Plan) -> list[str]:
    return [entry.name for entry in made.entries]


def alpha(made: Plan, name: str) -> float:
    [entry] = [entry for entry in made.entries if entry.name == name]
    return float(entry.params["alpha"])


@pytest.mark.parametrize(
    ("given", "seeds"),
    [
        ("3", (0, 1, 2)),
        (3, (0, 1, 2)),
        ("1000:1003", (1000, 1001, 1002)),
        ([7, 2], (2, 7)),
        ("5:6", (5,)),
        (range(2), (0, 1)),
    ],
)
def test_seeds_are_a_count_a_range_or_a_list(given: Any, seeds: tuple[int, ...]) -> None:
    assert parse_seeds(given) == seeds


@pytest.mark.parametrize(
    "given", ["0", "9" * 5_000, 0, "-1", "3:3", "4:1", "a", "", "1:2:3", [], [1, 1], [-1], [1.0], True, None, 2.5]
)
def test_other_seeds_are_refused(given: Any) -> None:
    with pytest.raises(ConfigError, match="seeds: got"):
        parse_seeds(given)


def test_later_words_win() -> None:
    """The experiment's steps and seeds, then the file's, then --set, then the options."""
    assert (plan().steps, len(plan().seeds)) == (40_000, 10)
    config = {"run": {"steps": 900, "seeds": 3}, "env": {"n_products": 20}}
    assert (plan(config=config).steps, plan(config=config).seeds) == (900, (0, 1, 2))
    settings = ["run.steps=800", "run.seeds=2", "env.n_products=30"]
    made = plan(config=config, settings=settings)
    assert isinstance(made.env, EnvConfig)
    assert (made.steps, made.seeds, made.env.n_products) == (800, (0, 1), 30)
    assert (plan(config=config, settings=settings, steps=700, seeds=1).steps) == 700
    assert plan(config=config, settings=settings, seeds="9:11").seeds == (9, 10)


def test_parameters_come_from_the_experiment_the_file_and_settings() -> None:
    assert alpha(plan(), "linucb") == 0.2
    assert alpha(plan("head-to-head"), "linucb") == 1.5
    config = {"policies": [{"name": "linucb", "alpha": 0.7}, {"name": "wide", "type": "linucb", "alpha": 2.0}]}
    made = plan(config=config)
    assert (names(made), alpha(made, "linucb"), alpha(made, "wide")) == (["linucb", "wide"], 0.7, 2.0)
    made = plan(config=config, settings=["policies.linucb.alpha=.4", "policies.wide.alpha=3"])
    assert (alpha(made, "linucb"), alpha(made, "wide")) == (0.4, 3.0)


def test_ones_own_policy_joins_those_that_are_named() -> None:
    assert names(plan(extra=[Mine]))[-1] == "mine"
    assert names(plan(extra=[Mine], policies=["mine", "random"])) == ["mine", "random"]
    assert names(plan(extra=[Mine], policies=["random"])) == ["random", "mine"]


def test_a_file_may_be_tuned_by_settings(tmp_path: Path) -> None:
    source = (
        "import zoosim\n\n\nclass Tuned(zoosim.Policy):\n    level: float = zoosim.parameter(0.5, low=0, high=1)\n\n"
    )
    source += "    def select_action(self, context):\n        return 0\n\n"
    source += "    def update(self, context, action, reward, feedback=None):\n        pass\n"
    (tmp_path / "tuned.py").write_text(source)
    made = plan(extra=[f"{tmp_path / 'tuned.py'}:Tuned"], policies=["tuned"], settings=["policies.tuned.level=.9"])
    assert made.entries[0].params == {"level": 0.9}
    with pytest.raises(ConfigError, match=r"tuned.level: got 2.0, expected 0 to 1"):
        plan(extra=[f"{tmp_path / 'tuned.py'}:Tuned"], settings=["policies.tuned.level=2"])
    with pytest.raises(ConfigError, match="unknown policy 'tunde'"):
        plan(extra=[f"{tmp_path / 'tuned.py'}:Tuned"], settings=["policies.tunde.level=.2"])


def test_shocks_beyond_the_end_are_dropped_if_built_in_and_refused_if_the_users() -> None:
    made = plan(steps=20_000)
    assert [shock.step for shock in made.shocks] == [10_000]
    assert made.phases == ((0, 10_000), (10_000, 20_000))
    assert len(made.notes) == 1
    assert "at step 25000 is dropped: the run ends at 20000" in made.notes[0]
    with pytest.raises(ConfigError, match="'toys' is at step 50, beyond the run of 50 steps"):
        plan(config={"env": {"shocks": [SHOCK]}}, steps=50)
    assert [s.step for s in plan(config={"env": {"shocks": [SHOCK]}}, steps=51).shocks] == [50]
    event = {"step": 60, "change": "vanish", "products": [1]}
    with pytest.raises(ConfigError, match="availability: vanish is at step 60, beyond the run of 60 steps"):
        plan(config={"env": {"availability": [event]}}, steps=60)


def test_built_in_shocks_that_do_not_fit_the_users_world_are_dropped() -> None:
    made = plan(config={"env": {"personas": {"reader": {"Books": 0.5}}}})
    assert made.shocks == ()
    assert all("it does not fit this world" in note for note in made.notes)
    assert len(made.notes) == 2


def test_market_shifts_are_the_shocks_of_a_search_world() -> None:
    made = plan("market-shifts", steps=15_000)
    assert [shift.name for shift in made.shocks] == ["premium shoppers save"]
    assert made.shock_spans(3) == ((10_000, 15_000),)
    assert made.phases == ((0, 10_000), (10_000, 12_500), (12_500, 15_000))
    assert "at step 20000 is dropped: the run ends at 15000" in made.notes[0]
    own = {"step": 50, "name": "dear toys", "prices": {"toys": 2.0}}
    with pytest.raises(ConfigError, match="shifts: 'dear toys' is at step 50, beyond the run of 50 steps"):
        plan("market-shifts", config={"env": {"shifts": [own]}}, steps=50)
    assert plan("template-bandits", config={"env": {"shifts": [own]}}).shock_names == ("dear toys",)
    assert plan("template-bandits").shocks == ()
    assert plan("market-shifts", settings=["env.shifts=[]"]).shocks == ()


def test_built_in_shifts_that_do_not_fit_the_users_shop_are_dropped() -> None:
    tables = SearchConfig().model_dump()["segments"]
    tables["rich"] = tables.pop("premium")
    made = plan("market-shifts", config={"env": {"segments": tables}})
    assert [shift.name for shift in made.shocks] == ["litter buyers trade up"]
    assert "it does not fit this world" in made.notes[0]


def test_an_empty_shop_is_refused_for_whichever_seed_it_would_be() -> None:
    """3 products over 5 categories: whether product 0 is the only Dog Toy depends on the seed."""
    vanish = [
        {"step": 5, "change": "vanish", "products": [0, 1]},
        {"step": 5, "change": "vanish", "category": "Dog Toy"},
    ]
    env = {"n_products": 3, "availability": vanish}
    with pytest.raises(ConfigError, match="nothing is for sale from step 5 on"):
        plan(config={"env": env}, seeds=40, steps=10)


def test_the_shop_that_must_not_be_empty_is_the_one_that_all_seeds_share() -> None:
    """One product in 5 categories: of which it is, in the one world of network-seeds, the 40 seeds tell nothing."""
    [group] = table_of(plan("network-seeds", config={"env": {"n_products": 1}}), 1_000).groups
    for category, name in enumerate(EnvConfig().categories):
        vanish = [{"step": 5, "change": "vanish", "category": name}]
        config = {"env": {"n_products": 1, "availability": vanish}}
        if category == group:
            with pytest.raises(ConfigError, match="nothing is for sale from step 5 on"):
                plan("network-seeds", config=config, seeds=[0], steps=10)
        else:
            assert table_of(plan("network-seeds", config=config, seeds=40, steps=10), 7).groups == group


def test_the_hash_covers_world_and_steps_only() -> None:
    base = plan().config_hash
    same: list[dict[str, Any]] = [
        {"seeds": 3},
        {"policies": ["random"]},
        {"extra": [Mine]},
        {"config": {"run": {"seeds": 4}}},
        {"settings": ["policies.linucb.alpha=.3"]},
        {"config": {"policies": ["random", {"name": "wide", "type": "linucb", "alpha": 3}]}},
    ]
    assert {plan(**request).config_hash for request in same} == {base}
    other: list[dict[str, Any]] = [
        {"steps": 39_999},
        {"settings": ["env.n_products=51"]},
        {"settings": ["env.personas.budget_shopper.Dog Toy=.16"]},
        {"config": {"env": {"shocks": [SHOCK]}}},
    ]
    hashes = [plan(**request).config_hash for request in other]
    assert len({base, *hashes}) == 1 + len(other)
    assert plan("showdown").config_hash != base


def test_the_hash_knows_the_order_of_personas_and_categories() -> None:
    a, b = {"a": {"x": 0.1, "y": 0.2}}, {"b": {"x": 0.3, "y": 0.4}}
    hashes = {plan(config={"env": {"personas": table}}).config_hash for table in ({**a, **b}, {**b, **a})}
    turned = {"a": {"y": 0.2, "x": 0.1}, **b}
    assert len(hashes | {plan(config={"env": {"personas": turned}}).config_hash}) == 3


@pytest.mark.parametrize(
    "request_",
    [
        {},
        {"steps": 700, "seeds": [3, 9], "policies": ["random", "d-linucb"], "settings": ["policies.linucb.alpha=.5"]},
        {"settings": ["env.random_shocks.count=3", "env.noise_features.user=2"], "steps": 5_000},
        {"config": {"policies": ["random", {"name": "wide", "type": "linucb", "alpha": 3}], "env": {"n_products": 7}}},
    ],
)
def test_a_plan_written_down_makes_itself_again(request_: dict[str, Any]) -> None:
    made = plan(**request_)
    again = plan(config=yaml.safe_load(yaml.safe_dump(made.as_dict(), sort_keys=False)))
    assert again.as_dict() == made.as_dict()
    assert again.config_hash == made.config_hash
    assert made.differences(finished_plan(made.as_dict())) == ()
    assert [entry.fingerprint for entry in again.entries] == [entry.fingerprint for entry in made.entries]


def test_what_makes_two_runs_differ_is_named() -> None:
    made = plan()
    table = {"a": {"x": 0.1}, "b": {"x": 0.3}}
    turned = {name: table[name] for name in ("b", "a")}
    others: list[tuple[dict[str, Any], tuple[str, ...]]] = [
        ({"policies": ["random"], "seeds": 3}, ()),
        ({"steps": 39_999, "settings": ["env.n_products=51"]}, ("run.steps", "env.n_products")),
        ({"config": {"env": {"shocks": []}}}, ("env.shocks",)),
    ]
    for request, names in others:
        assert made.differences(finished_plan(plan(**request).as_dict())) == names
    own = plan(config={"env": {"personas": table, "shocks": []}})
    assert own.differences(finished_plan(plan(config={"env": {"personas": turned, "shocks": []}}).as_dict())) == (
        "the order of env.personas",
    )
    assert "experiment" in made.differences(finished_plan(plan("showdown").as_dict()))
    assert "the content of the files" in made.differences(finished_plan(plan("labelled").as_dict()))


def test_the_format_of_a_newer_zoosim_is_refused() -> None:
    with pytest.raises(ConfigError, match="config format: got 4, expected 1 to 3; get a newer zoosim"):
        plan(config={"format": 4})


def test_a_config_of_another_experiment_is_refused() -> None:
    with pytest.raises(ConfigError, match="is for the experiment 'showdown', not for gauntlet"):
        plan(config=plan("showdown").as_dict())


def test_a_labelled_tables_hash_is_its_content(tmp_path: Path) -> None:
    text = "a,b,label\n1,2,x\n3,4,y\n5,1,x\n"
    hashes = []
    for name, content in (("one", text), ("two", text), ("three", text.replace("5", "6"))):
        (tmp_path / f"{name}.csv").write_text(content)
        hashes.append(plan("labelled", settings=[f"env.data='{tmp_path / name}.csv'"]).config_hash)
    assert hashes[0] == hashes[1] != hashes[2]


def test_a_labelled_table_shows_each_row_once_unless_told_otherwise(tmp_path: Path) -> None:
    """The digits have 1,797 rows, the last fifth of which are a phase of their own; another table has three."""
    assert plan("labelled").steps == 1_797
    assert plan("labelled").phases == ((0, 1_438), (1_438, 1_797))
    repeated = plan("labelled", settings=["env.repeat=true"])
    assert repeated.phases == ((0, 8_000), (8_000, 10_000))
    assert "env.repeat" in repeated.differences(plan("labelled", steps=1_797))
    finished = finished_plan(plan("labelled").as_dict())
    assert finished.differences(plan("labelled")) == ()
    (tmp_path / "table.csv").write_text("a,b,label\n1,2,x\n3,4,y\n5,1,x\n")
    table = f"env.data='{tmp_path / 'table.csv'}'"
    assert plan("labelled", settings=[table]).steps == 3
    assert plan("labelled", settings=[table], steps=2).steps == 2
    message = "steps: got 4, expected at most 3, as the table has that many rows and each comes once; give fewer steps"
    with pytest.raises(ConfigError, match=message):
        plan("labelled", settings=[table], steps=4)
    assert plan("labelled", settings=[table, "env.repeat=true"], steps=4).steps == 4


def test_a_table_whose_rows_come_once_has_no_past() -> None:
    """The rows of a past would come back in the run."""
    with pytest.raises(ConfigError, match="policy linear: wants a log of the past, and labelled has none"):
        plan("labelled", policies=["linear"])
    assert plan("labelled", policies=["linear"], settings=["env.repeat=true"]).entries[0].name == "linear"


def test_one_world_for_all_seeds_where_only_networks_differ() -> None:
    made = plan("network-seeds", seeds=[3, 8])
    three, eight = table_of(made, 3), table_of(made, 8)
    assert (three.seed, eight.seed) == (3, 8)
    np.testing.assert_array_equal(three.products, eight.products)
    np.testing.assert_array_equal(three.visitors(0, 100), eight.visitors(0, 100))
    assert three.click_key == eight.click_key == table_of(made, 1_000).click_key
    assert table_of(plan(), 3).click_key != table_of(plan(), 8).click_key


def test_worlds_that_draw_for_themselves_have_shocks_of_their_own() -> None:
    made = plan("robustness", seeds=[0, 1])
    assert made.shocks == ()
    assert made.phases == ((0, 40_000),)
    assert made.shock_names == ("shock 1", "shock 2")
    for seed in (0, 1):
        first, second = made.shock_spans(seed)
        assert [first[0], second[0]] == [step for step, _ in table_of(made, seed).shocks]
        assert (first[1], second[1]) == (second[0], 40_000)
    assert made.shock_spans(0) != made.shock_spans(1)
    assert plan().shock_spans(5) == ((10_000, 25_000), (25_000, 40_000))


def test_shocks_are_spread_over_the_run_as_long_as_it_is() -> None:
    made = plan("robustness", steps=2_000)
    assert "over" not in made.as_dict()["env"]["random_shocks"]
    config = {key: value for key, value in made.as_dict().items() if key != "config_hash"}
    longer, shorter = plan("robustness", config=config, steps=9_000), plan("robustness", config=config, steps=500)
    assert longer.shock_spans(3) == plan("robustness", steps=9_000).shock_spans(3)
    assert 450 < shorter.shock_spans(3)[1][1] == 500
    told = plan("robustness", steps=2_000, settings=["env.random_shocks.over=2000"])
    assert told.as_dict()["env"]["random_shocks"]["over"] == 2_000
    assert told.config_hash == made.config_hash
    assert table_of(made, 3).shocks == table_of(told, 3).shocks


@pytest.mark.parametrize("seed", ["each", "7"])
def test_shocks_that_may_never_come_are_refused(seed: str) -> None:
    settings = [f"env.random_shocks.seed={seed}", "env.random_shocks.count=2", "env.random_shocks.over=1001"]
    wanted = r"^env.random_shocks.over: got 1001, expected at most 1000, the length of the run; leave it out, or give"
    with pytest.raises(ConfigError, match=wanted):
        plan(steps=1_000, settings=settings)
    assert len(plan(steps=1_001, settings=settings).shock_spans(0)) == 2


def test_what_is_written_stands_in_the_place_of_what_an_experiment_draws() -> None:
    made = plan("large-world", config={"env": {"personas": {"a": {"b": 0.5, "c": 0.1}}, "shocks": []}})
    assert isinstance(made.env, EnvConfig)
    assert (made.env.random_personas, made.env.random_shocks, made.env.n_products) == (None, None, 500)
    assert make_plan(RunRequest("large-world", config=made.as_dict())).config_hash == made.config_hash
    drawing = plan("large-world")
    assert "personas" not in drawing.as_dict()["env"]
    assert make_plan(RunRequest("large-world", config=drawing.as_dict())).config_hash == drawing.config_hash


@pytest.mark.parametrize("experiment", ["robustness", "large-world"])
def test_what_is_set_stands_in_the_place_of_what_is_drawn(experiment: str) -> None:
    made = plan(experiment, settings=["env.shocks=[]"])
    assert isinstance(made.env, EnvConfig)
    assert (made.env.random_shocks, made.shock_names) == (None, ())
    written = plan(experiment, settings=["env.personas={a: {b: .5, c: .1}}", "env.personas.a.c=.2"])
    assert isinstance(written.env, EnvConfig)
    assert written.env.personas == {"a": {"b": 0.5, "c": 0.2}}
    assert written.env.random_shocks is not None
    shocks = {"env": {"shocks": [{**SHOCK, "set": {"persona 1": {"category 2": 0.5}}}]}}
    again = plan(experiment, config=shocks, settings=["env.random_shocks.count=3", "env.random_personas.personas=6"])
    assert len(again.shock_names) == 3
    assert isinstance(again.env, EnvConfig)
    assert len(again.env.personas) == 6
    with pytest.raises(ConfigError, match="give shocks or random_shocks, not both"):
        plan(settings=[f"env.shocks=[{SHOCK}]", "env.random_shocks={count: 1, seed: each}"])


def test_cells_of_a_table_that_is_drawn_cannot_be_set() -> None:
    for name, category in (("persona 1", "category 1"), ("budget_shopper", "Dog Toy")):
        setting = f"env.personas.{name}.{category}=.5"
        with pytest.raises(ConfigError, match=r"draws its table at random \(env.random_personas\); give a whole one"):
            plan("robustness", settings=[setting])
    made = plan("robustness", settings=[setting, "env.random_personas=null"])
    assert isinstance(made.env, EnvConfig)
    assert made.env.personas["budget_shopper"]["Dog Toy"] == 0.5


PUBLISHED = {"showdown", "gauntlet", "staleness", "network-seeds"}
"""The experiments in which baselines compete as they were published."""


def test_baselines_as_published_compete_by_default_where_they_were_published_alone() -> None:
    baselines = {name for name in BUILT_IN if find_class(name).baseline_only}
    assert baselines == {"neural-linear-online", "neural-linear-head", "neural-linear-stable", "dropout-ts"}
    named = {
        experiment.name: {str(changes.get("type", name)) for name, changes in experiment.policies.items()}
        for experiment in EXPERIMENTS.values()
    }
    assert {name for name, policies in named.items() if baselines & policies} == PUBLISHED
    products = find_action_space("products")
    assert not baselines & {*products.contenders, *products.contenders_for_clicks}
    assert names(plan("labelled", policies=["neural-linear-stable"])) == ["neural-linear-stable"]


def test_an_experiment_may_pit_forms_of_one_policy_against_each_other() -> None:
    made = plan("staleness")
    forms = {entry.name: entry for entry in made.entries}
    assert set(forms) == {f"{form}-{steps}" for form in ("stale", "fresh") for steps in (1, 2, 4, 10)}
    assert {entry.source for entry in made.entries} == {"neural-linear-stable"}
    assert (forms["stale-4"].params["training_steps"], forms["stale-4"].params["recompute"]) == (4, False)
    assert (forms["fresh-1"].params["training_steps"], forms["fresh-1"].params["recompute"]) == (1, True)
    assert names(plan("staleness", policies=["fresh-10", "d-linucb"])) == ["fresh-10", "d-linucb"]
    tuned = plan("staleness", settings=["policies.fresh-10.alpha=1.5"], policies=["fresh-10"])
    assert alpha(tuned, "fresh-10") == 1.5


def test_a_number_will_do_where_a_parameter_is_words() -> None:
    """The command line reads `hidden=64` as YAML, so as a number."""
    made = plan("showdown", policies=["neural-ucb", "neural-ts"], settings=["policies.neural-ucb.hidden=32"])
    hidden = {entry.name: entry.params["hidden"] for entry in made.entries}
    assert hidden == {"neural-ucb": "32", "neural-ts": "64"}
    assert plan("showdown", config=made.as_dict()) == made


def test_a_search_shop_takes_policies_that_can_learn_from_eur() -> None:
    for name, reason in (
        ("shared-linucb", "learns from rewards of 0 to 1"),
        ("static-mlp", "needs user ids, but template-bandits has none"),
    ):
        with pytest.raises(ConfigError, match=f"policy {name}: {reason}"):
            make_plan(RunRequest("template-bandits", 1, 100, [name]))


def test_a_search_shop_is_configured_as_any_other() -> None:
    settings = ["env.segments.premium.share=0.2", "env.segments.pl_lover.share=0.2", "env.n_products=90"]
    plan = make_plan(RunRequest("template-bandits", 1, 100, ["template-ts"], settings=settings))
    assert isinstance(plan.env, SearchConfig)
    assert (plan.env.segments["premium"].share, plan.env.n_products) == (0.2, 90)
    again = make_plan(RunRequest("template-bandits", config=plan.as_dict(), finished=True))
    assert again.config_hash == plan.config_hash
    assert plan.differences(finished_plan(plan.as_dict())) == ()
    with pytest.raises(ConfigError, match="segments: shares add up to"):
        make_plan(RunRequest("template-bandits", 1, 100, settings=settings[:1]))


def test_templates_are_for_search_alone() -> None:
    with pytest.raises(ConfigError, match="policy template-premium: chooses templates, and gauntlet asks for products"):
        make_plan(RunRequest("gauntlet", 1, 100, ["template-premium"]))


def test_a_setting_of_a_policy_that_competes_under_other_names_is_told_of() -> None:
    plan = make_plan(RunRequest("template-bandits", 1, 100, settings=["policies.template-ts.alpha=2"]))
    assert any("policies.template-ts: does not compete; set template-ts-simple" in note for note in plan.notes)


def test_a_setting_of_a_policy_that_does_not_compete_is_checked_and_told_of() -> None:
    (note,) = plan(policies=["random"], settings=["policies.linucb.alpha=.3"]).notes
    assert note == "policies.linucb: does not compete; what is set of it changes nothing"
    with pytest.raises(ConfigError, match="alpha"):
        plan(policies=["random"], settings=["policies.linucb.alpha=many"])


def test_runs_with_other_parameters_have_folders_of_their_own() -> None:
    plain, changed = plan("gauntlet"), plan("gauntlet", settings=["policies.linucb.alpha=0.3"])
    assert plain.config_hash == changed.config_hash == plain.folder_hash != changed.folder_hash
    fewer = plan("gauntlet", policies=["random"])
    assert fewer.folder_hash == plain.folder_hash
    alike = plan("gauntlet", policies=["linucb"], settings=["policies.linucb.alpha=0.3"])
    assert alike.folder_hash == changed.folder_hash


def test_an_experiment_that_is_no_name_is_refused() -> None:
    refused: Any = 3
    with pytest.raises(ConfigError, match=r"^experiment: got 3, expected a name \(`zoosim list`\), FILE.world or FILE"):
        make_plan(RunRequest(refused))
