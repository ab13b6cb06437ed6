"""Configurations: what is refused, in one line that names the place; YAML; single settings; the hash."""

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from zoosim.core.config import EnvConfig, LabelledConfig, Shock, build, read_parameters, read_setting, read_yaml
from zoosim.core.digests import value_digest
from zoosim.core.errors import ConfigError
from zoosim.worlds.search_shops.config import Effects as SearchEffects
from zoosim.worlds.search_shops.config import SearchShopsConfig
from zoosim.worlds.shops.config import Effects, ShopsConfig

KEYS = (
    "n_products, n_users, personas, random_personas, persona_mix, category_sizes, noise_features, shocks, "
    "random_shocks, availability, turnover"
)
PERSONAS = "new_puppy_parent, cat_connoisseur, budget_shopper, fish_hobbyist"
CATEGORIES = "Fish Supplies, Cat Food, Dog Food, Dog Toy, Cat Toy"


def shock(**values: Any) -> dict[str, Any]:
    return {"step": 5, "name": "fish", "set": {"budget_shopper": {"Cat Food": 0.5}}, **values}


def event(**values: Any) -> dict[str, Any]:
    return {"step": 5, "change": "vanish", "products": [0], **values}


def refusal(call: Callable[[], Any]) -> str:
    """Return the message of a refusal, which must be one line of a size that one reads."""
    with pytest.raises(ConfigError) as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 400
    return message


def refused(cls: type[BaseModel] = EnvConfig, /, **values: Any) -> str:
    return refusal(lambda: build(cls, values, "env"))


def test_the_defaults_are_the_documented_shop() -> None:
    config = build(EnvConfig, {}, "env")
    assert config == EnvConfig()
    assert (config.n_products, config.n_users, config.shocks, config.availability) == (50, 1000, [], [])
    assert config.categories == CATEGORIES.split(", ")
    assert list(config.personas) == PERSONAS.split(", ")
    assert (config.persona_mix, config.random_shocks) == (None, None)
    assert (config.noise_features.user, config.noise_features.product) == (0, 0)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"n_products": 0}, "env.n_products: got 0, expected "),
        ({"n_products": 100_001}, "env.n_products: got 100001, expected "),
        ({"n_products": 50.0}, "env.n_products: got 50.0, expected a valid integer"),
        ({"n_products": "50"}, "env.n_products: got '50', expected a valid integer"),
        ({"n_products": True}, "env.n_products: got True, expected a valid integer"),
        ({"n_products": None}, "env.n_products: got None, expected a valid integer"),
        ({"n_products": [[1] * 10_000]}, "env.n_products: got [[1, 1, 1, "),
        ({"n_users": 0}, "env.n_users: got 0, expected "),
        ({"n_users": 10_000_001}, "env.n_users: got 10000001, expected "),
        ({"personas": {}}, "env.personas: got {}, "),
        ({"personas": {"reader": {}}}, "env.personas: persona 'reader' has no categories; give at least one"),
        ({"personas": {"reader": {"Books": 1.5}}}, "env.personas.reader.Books: got 1.5, expected "),
        ({"personas": {"reader": {"Books": -0.1}}}, "env.personas.reader.Books: got -0.1, expected "),
        ({"personas": {"reader": {"Books": math.nan}}}, "env.personas.reader.Books: got nan, expected "),
        ({"personas": {"reader": {"Books": math.inf}}}, "env.personas.reader.Books: got inf, expected "),
        ({"personas": {"reader": {"Books": "often"}}}, "env.personas.reader.Books: got 'often', expected "),
        ({"personas": {"reader": 0.5}}, "env.personas.reader: got 0.5, expected "),
        ({"noise_features": {"user": -1}}, "env.noise_features.user: got -1, expected "),
        ({"noise_features": {"product": 1001}}, "env.noise_features.product: got 1001, expected "),
        ({"noise_features": {"usr": 1}}, "env.noise_features.usr: unknown key 'usr'"),
        ({"noise_features": 3}, "env.noise_features: got 3, expected "),
        ({"shocks": [shock(step=0)]}, "env.shocks.0.step: got 0, expected "),
        ({"shocks": [shock(), shock(name="")]}, "env.shocks.1.name: got '', "),
        ({"shocks": [shock(set={})]}, "env.shocks.0.set: got {}, "),
        ({"shocks": [shock(set={"budget_shopper": {}})]}, "env.shocks.0.set: persona 'budget_shopper' has no cat"),
        ({"shocks": [{"step": 5, "name": "fish"}]}, "env.shocks.0.set: missing; give it a value"),
        ({"shocks": shock()}, "env.shocks: got {'step': 5, "),
        ({"random_shocks": {"count": 0}}, "env.random_shocks.count: got 0, expected "),
        ({"random_shocks": {"count": 1, "seed": -1}}, "env.random_shocks.seed: got -1, expected "),
        ({"random_shocks": {}}, "env.random_shocks.count: missing; give it a value"),
        ({"random_personas": {"personas": 0, "categories": 2}}, "env.random_personas.personas: got 0, expected "),
        ({"random_personas": 5}, "env.random_personas: got 5, expected keys with values: personas, categories"),
        ({"random_shocks": []}, "env.random_shocks: got [], expected keys with values: count, seed, over"),
        ({"shocks": [3]}, "env.shocks.0: got 3, expected keys with values: step, name, set"),
        *(
            (
                {"random_shocks": {"count": 1, "seed": seed}},
                f"env.random_shocks.seed: got {seed!r}, expected a whole number of at least 0, or each",
            )
            for seed in (True, 1.0, None, [1], -1, "all")
        ),
        ({"availability": [event(step=-1)]}, "env.availability.0.step: got -1, expected "),
        ({"availability": [event(change="gone")]}, "env.availability.0.change: got 'gone', expected 'appear', "),
        ({"availability": [event(products=[-1])]}, "env.availability.0.products.0: got -1, expected "),
    ],
)
def test_a_value_is_refused_with_its_place_and_what_came(values: dict[str, Any], message: str) -> None:
    assert refused(**values).startswith(message)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"nproducts": 5}, f"env: unknown key 'nproducts' (did you mean n_products?); known: {KEYS}"),
        ({"persona_mix": {"budget_shopper": 0.5}}, "env: persona_mix: shares add up to 0.5, expected 1"),
        (
            {"category_sizes": {"Cat Food": 20}},
            "env: category_sizes: add up to 20, expected n_products, 50",
        ),
        (
            {"category_sizes": {"Cat Fod": 50}},
            f"env: category_sizes: unknown category 'Cat Fod' (did you mean Cat Food?); known: {CATEGORIES}",
        ),
        ({"persona_mix": {}}, "env: persona_mix: shares add up to 0, expected 1"),
        (
            {"persona_mix": {"budget_shoper": 1.0}},
            f"env: persona_mix: unknown persona 'budget_shoper' (did you mean budget_shopper?); known: {PERSONAS}",
        ),
        (
            {"shocks": [shock(set={"nobody": {"Cat Food": 0.5}})]},
            f"env: shock 'fish': unknown persona 'nobody'; known: {PERSONAS}",
        ),
        (
            {"shocks": [shock(set={"budget_shopper": {"Cat Fod": 0.5}})]},
            f"env: shock 'fish': unknown category 'Cat Fod' (did you mean Cat Food?); known: {CATEGORIES}",
        ),
        ({"shocks": [shock(), shock(step=9)]}, "env: two shocks are called 'fish'; give each its own name"),
        (
            {"shocks": [shock(), shock(name="cats")]},
            "env: two shocks at step 5 set budget_shopper x Cat Food; keep one",
        ),
        ({"shocks": [shock()], "random_shocks": {"count": 1}}, "env: give shocks or random_shocks, not both"),
        (
            {"availability": [event(products=[])]},
            "env.availability.0: give either products (a list of indices) or a category",
        ),
        (
            {"availability": [event(category="Cat Food")]},
            "env.availability.0: give either products (a list of indices) or a category",
        ),
        ({"availability": [event(until=9)]}, "env.availability.0: until belongs to run-out, and run-out needs it"),
        (
            {"availability": [event(change="run-out")]},
            "env.availability.0: until belongs to run-out, and run-out needs it",
        ),
        (
            {"availability": [event(change="run-out", until=5)]},
            "env.availability.0: until is 5, expected a step after 5",
        ),
        (
            {"n_products": 4, "availability": [event(products=[3, 4])]},
            "env: availability: no product 4; products are 0 to 3",
        ),
        (
            {"availability": [{"step": 1, "change": "vanish", "category": "Fish"}]},
            f"env: availability: unknown category 'Fish'; known: {CATEGORIES}",
        ),
    ],
)
def test_what_does_not_fit_together_is_refused(values: dict[str, Any], message: str) -> None:
    assert refused(**values) == message


@pytest.mark.parametrize(("config", "record"), [(ShopsConfig, Effects), (SearchShopsConfig, SearchEffects)])
def test_a_record_is_told_from_another_of_the_same_name(config: type[BaseModel], record: type[BaseModel]) -> None:
    assert record.__name__ == "Effects"
    keys = ", ".join(record.model_fields)
    assert refused(config, effects=3) == f"env.effects: got 3, expected keys with values: {keys}"


def test_what_just_fits_is_taken() -> None:
    """The ends of every range, shares within a millionth, and shocks that only share a step or a cell."""
    edges: list[dict[str, Any]] = [
        {"n_products": 1, "n_users": 1},
        {"n_products": 100_000, "n_users": 10_000_000},
        {"personas": {"reader": {"Books": 0, "Pans": 1}}},
        {"persona_mix": {"budget_shopper": 1 / 3, "fish_hobbyist": 2 / 3 + 5e-7}},
        {"noise_features": {"user": 1000, "product": 1000}},
        {"shocks": [shock(step=1), shock(step=2, name="again")]},
        {"shocks": [shock(), shock(name="other", set={"budget_shopper": {"Dog Toy": 1.0}})]},
        {"shocks": [], "random_shocks": {"count": 1}},
        {"availability": [event(step=0, products=[49]), event(change="run-out", until=6)]},
    ]
    for values in edges:
        build(EnvConfig, values, "env")


def test_categories_come_in_the_order_of_their_first_mention() -> None:
    config = build(EnvConfig, {"personas": {"a": {"Pans": 0.1, "Books": 0.2}, "b": {"Toys": 0, "Pans": 1}}}, "env")
    assert config.categories == ["Pans", "Books", "Toys"]


def test_a_configuration_is_frozen() -> None:
    config: Any = EnvConfig()
    with pytest.raises(ValidationError, match="frozen"):
        config.n_products = 5


def test_features_that_no_machine_holds_are_refused() -> None:
    """10,000,000 users of 4 personas and 1,000 noise features, and 50 products of 5 categories."""
    message = refused(EnvConfig, n_users=10_000_000, noise_features={"user": 1_000})
    assert message.startswith("env: users and products have 10,040,000,250 features in all, expected at most")


def test_labelled_knows_its_own_keys_alone() -> None:
    assert refused(LabelledConfig, n_products=5) == "env: unknown key 'n_products'; known: data, label, repeat"
    assert refused(LabelledConfig, data=3).startswith("env.data: got 3, expected text; put it in quotes")


@pytest.fixture
def written(tmp_path: Path) -> Callable[[str], Path]:
    def write(text: str) -> Path:
        path = tmp_path / "shop.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


DOUBLED = "\n".join(["a0: &a0 [x]", *(f"a{n + 1}: &a{n + 1} [*a{n}, *a{n}]" for n in range(40))])
"""A list of 2**40 words in 40 short lines."""

TENFOLD = ", ".join(["*a{0}"] * 10)
MERGED = "\n".join(["a0: &a0 {x: 1}", *(f"a{n + 1}: &a{n + 1} {{<<: [{TENFOLD.format(n)}]}}" for n in range(10))])
"""A mapping that merges 10**10 times the same."""


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("env:\n  n_products: [1, 2\nrun: 3\n", ":3", "expected ',' or ']', but got ':'"),
        ("env: 1\n\trun: 2\n", ":2", "found character '\\t' that cannot start any token"),
        ("env: 1\nrun: 2\nenv: 3\n", ":3", "the key 'env' is given twice"),
        ("env:\n  n_users: 1\n  n_products: 2\n  n_users: 3\n", ":4", "the key 'n_users' is given twice"),
        ("policies: [{name: a, alpha: 1, alpha: 2}]", ":1", "the key 'alpha' is given twice"),
        ("a: 1\n---\nb: 2\n", ":2", "but found another document"),
        ("a: 1\nb: !!python/name:os.system\n", ":2", "has the tag"),
        ("? [a]\n: 1\n", ":1", "found unhashable key"),
        ("a: \x07", "", "unacceptable character #x0007"),
        ("[" * 5000, ":1", "nests deeper than 50 levels"),
        ("env: &a [*a]", ":1", "an alias stands inside of what it repeats"),
        (DOUBLED, ":17", "holds more than 100,000 keys and values, aliases counted as what they repeat"),
        (MERGED, ":6", "holds more than 100,000 keys and values, aliases counted as what they repeat"),
    ],
)
def test_broken_yaml_is_refused_with_file_and_line(
    text: str, line: str, reason: str, written: Callable[[str], Path]
) -> None:
    path = written(text)
    message = refusal(lambda: read_yaml(path))
    assert message.startswith(f"{path}{line}: not valid YAML: {reason}")


@pytest.mark.parametrize(("text", "kind"), [("- env\n- run\n", "list"), ("shop", "str"), ("3", "int")])
def test_a_file_that_is_no_mapping_is_refused(text: str, kind: str, written: Callable[[str], Path]) -> None:
    path = written(text)
    expected = "expected keys with values"
    assert refusal(lambda: read_yaml(path)) == f"{path}: holds a {kind}, {expected}"


def test_what_is_no_text_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "latin.yaml").write_bytes(b"name: caf\xe9")
    for path in (tmp_path / "latin.yaml", tmp_path):
        assert refusal(partial(read_yaml, path)).startswith(f"{path}: cannot be read as UTF-8 text (")
    missing = tmp_path / "none.yaml"
    assert refusal(lambda: read_yaml(missing)) == f"{missing}: no such file; give the path of a YAML file"


def test_an_empty_file_asks_for_nothing(written: Callable[[str], Path]) -> None:
    assert read_yaml(written("")) == {}
    assert read_yaml(written("# nothing yet\n")) == {}


def test_yaml_values_are_what_they_look_like(written: Callable[[str], Path]) -> None:
    """A range of seeds stays text, where YAML 1.1 counts minutes; an anchor may be merged under a key of its own."""
    text = "seeds: 10:20\nsmall: 1.5e-3\nhex: 0x10\nnone: ~\nfish: &fish {a: 1, b: 2}\nmore: {<<: *fish, b: 3}\nü: ï\n"
    assert read_yaml(written(text)) == {
        "seeds": "10:20",
        "small": 0.0015,
        "hex": 16,
        "none": None,
        "fish": {"a": 1, "b": 2},
        "more": {"a": 1, "b": 3},
        "ü": "ï",
    }


@pytest.mark.parametrize(
    ("text", "path", "value"),
    [
        ("env.n_products=500", ["env", "n_products"], 500),
        ("env.personas.reader.Dog Toy=0.5", ["env", "personas", "reader", "Dog Toy"], 0.5),
        ("run.seeds=[3, 5]", ["run", "seeds"], [3, 5]),
        ("run.seeds=10:20", ["run", "seeds"], "10:20"),
        (" env . label = a=b ", ["env", "label"], "a=b"),
        ("env.label='5'", ["env", "label"], "5"),
        ("env.shocks=[]", ["env", "shocks"], []),
        ("env.data=", ["env", "data"], None),
    ],
)
def test_a_setting_is_a_path_and_a_yaml_value(text: str, path: list[str], value: Any) -> None:
    found = read_setting(text)
    assert found == (path, value)
    assert type(found[1]) is type(value)


@pytest.mark.parametrize("text", ["env.n_products", "=5", "env..n_users=5", ".env=1", "env.=1", ""])
def test_a_setting_without_path_or_value_is_refused(text: str) -> None:
    expected = f"--set: got {text!r}, expected PATH=VALUE, such as env.n_products=500"
    assert refusal(lambda: read_setting(text)) == expected


@pytest.mark.parametrize("value", ["[1", "{a: 1, a: 2}", "'open", "[" * 5000])
def test_a_setting_that_is_no_yaml_is_refused(value: str) -> None:
    message = refusal(lambda: read_setting(f"env.shocks={value}"))
    assert message.startswith("--set env.shocks: cannot read the value ")
    assert message.endswith("; write it as in YAML")


def test_the_hash_is_of_the_content() -> None:
    """SHA-256 of {"a": 1, "b": [0.5, null]}, whatever the order of the keys."""
    assert value_digest({"a": 1, "b": [0.5, None]}) == value_digest({"b": [0.5, None], "a": 1}) == "c949e8e6f8eac39c"


def test_any_change_of_a_world_changes_its_hash() -> None:
    variants: list[EnvConfig] = [
        EnvConfig(),
        EnvConfig(n_products=51),
        EnvConfig(n_users=999),
        EnvConfig(persona_mix={"fish_hobbyist": 1.0}),
        EnvConfig(shocks=[Shock.model_validate(shock())]),
        EnvConfig(shocks=[Shock.model_validate(shock(step=6))]),
        EnvConfig(shocks=[Shock.model_validate(shock(set={"budget_shopper": {"Cat Food": 0.51}}))]),
    ]
    assert len({value_digest(config.model_dump()) for config in variants}) == len(variants)
    assert value_digest(EnvConfig().model_dump()) == value_digest(build(EnvConfig, {"n_users": 1000}, "").model_dump())


def test_parameters_of_policies_are_read_as_yaml_by_policy() -> None:
    texts = ["policies.a.floors={x: 1.5}", "policies.a.step=2", "policies.b.name=word"]
    assert read_parameters(texts) == {"a": {"floors": {"x": 1.5}, "step": 2}, "b": {"name": "word"}}
    for wrong in ("env.x=1", "policies.a=1", "policies.a.b.c=1"):
        with pytest.raises(ConfigError, match=r"--set: got .*, expected policies.NAME.KEY"):
            read_parameters([wrong])
