"""A model decides alike after loading, takes products and visitors as a shop has them, and is loaded whole or not."""

import hashlib
import io
import json
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zoosim
from tests.policies.from_log.test_from_log import described
from tests.schema.shop import N_PRODUCTS, product_name, schema, write_shop
from zoosim.core.errors import ConfigError, DataError, PolicyError
from zoosim.core.files import checked_file
from zoosim.logs.parse import read_log
from zoosim.off_policy.targets.products import spec_of
from zoosim.policies.model import (
    PACKING,
    Catalogue,
    Model,
    load_model,
    save_model,
    schema_of_model,
)
from zoosim.policies.registry import find_class
from zoosim.schema.schema import FittedSchema

POLICIES = ("linear", "linucb", "adaptive")
VISITORS: list[dict[str, Any]] = [
    {"country": "de", "age": 33, "member": "yes"},
    {"country": "fr", "age": "71.5", "member": False},
    {"country": "es", "age": None},
    {"age": float("nan"), "member": "perhaps", "shoe size": 43},
    {},
]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shop")
    zoosim.import_log(write_shop(folder, n=600), schema(folder), folder / "log.parquet")
    return folder / "log.parquet"


@pytest.fixture(scope="module")
def files(log: Path) -> dict[str, Path]:
    paths = {name: log.parent / f"{name}.zoosim" for name in POLICIES}
    for name, path in paths.items():
        zoosim.train(log, [name], path)
    return paths


@pytest.fixture
def model(files: dict[str, Path]) -> Model:
    return load_model(files["linear"])


@pytest.mark.parametrize("name", POLICIES)
def test_a_loaded_model_decides_as_the_saved_one_goes_on(log: Path, tmp_path: Path, name: str) -> None:
    trained = zoosim.train(log, [name], tmp_path / "m.zoosim").model
    loaded = zoosim.load(tmp_path / "m.zoosim")
    assert loaded.facts == trained.facts
    assert loaded.fitted == trained.fitted
    for number in range(60):
        visitor = VISITORS[number % len(VISITORS)]
        some = [product_name(k) for k in range(N_PRODUCTS) if (k + number) % 3] if number % 2 else None
        expected = trained.decide(visitor, some)
        assert loaded.decide(visitor, some) == expected
        assert loaded.recommend(visitor, some) == trained.recommend(visitor, some)
        assert expected.propensity == expected.propensities[expected.product] > 0
        assert sum(expected.propensities.values()) == pytest.approx(1.0)
        for either in (trained, loaded):
            if either.policy.learns_from_rewards:
                either.learn(visitor, expected.product, float(number % 2))
    again = save_model(loaded, tmp_path / "again.zoosim")
    assert again.read_bytes() == save_model(trained, tmp_path / "trained.zoosim").read_bytes()


def test_every_flip_and_truncation_of_a_file_is_refused(files: dict[str, Path], tmp_path: Path) -> None:
    whole = files["linear"].read_bytes()
    broken = tmp_path / "broken.zoosim"
    rng = np.random.default_rng(0)
    positions = {*range(PACKING.head + 50), *rng.choice(len(whole), min(2_000, len(whole)), replace=False).tolist()}
    for position in sorted(positions):
        flipped = bytearray(whole)
        flipped[position] ^= 1 << int(rng.integers(8))
        broken.write_bytes(flipped)
        with pytest.raises(DataError, match=r"broken\.zoosim: is no model, or broken; train it anew"):
            load_model(broken)
    sizes = {*range(PACKING.head + 10), *rng.choice(len(whole), 500).tolist(), len(whole) - 1}
    for size in sorted(sizes):
        broken.write_bytes(whole[:size])
        with pytest.raises(DataError, match=r"broken\.zoosim: is no model, or broken; train it anew"):
            load_model(broken)
    broken.write_bytes(whole + b"\0")
    with pytest.raises(DataError, match="is no model, or broken"):
        load_model(broken)


def packed(path: Path, change: Callable[[dict[str, Any]], Any], compression: int = zipfile.ZIP_STORED) -> Path:
    """Write a model whose header is another, and whose checksum is right."""
    with np.load(io.BytesIO(path.read_bytes()[PACKING.head :])) as file:
        arrays = {name: file[name] for name in file.files}
    header = json.loads(arrays.pop("header").tobytes())
    changed = change(header)
    text = json.dumps(header if changed is None else changed)
    buffer = io.BytesIO()
    save = np.savez if compression == zipfile.ZIP_STORED else np.savez_compressed
    save(buffer, header=np.frombuffer(text.encode(), np.uint8), **arrays)
    return sealed(path.with_name("crafted.zoosim"), buffer.getvalue())


def sealed(path: Path, content: bytes) -> Path:
    path.write_bytes(PACKING.magic + hashlib.sha256(content).hexdigest().encode() + content)
    return path


@pytest.mark.parametrize(
    "change",
    [
        lambda header: header.pop("policy"),
        lambda header: header.update(policy=["linear"]),
        lambda header: header.update(policy="linucb"),
        lambda header: header.pop("spec"),
        lambda header: header["spec"].update(user_dim=99),
        lambda header: header.update(state={"array": 99}),
        lambda header: header.update(state=3),
        lambda header: header.update(params={"nonsense": 3}),
        lambda header: header.pop("names"),
        lambda header: header.update(names=["a"]),
        lambda header: header.update(names=["a"] * N_PRODUCTS),
        lambda header: header.update(facts=3),
        lambda header: header.update(facts={"last": "soon"}),
        lambda header: header.update(facts={"last": 5}),
        lambda header: header.update(facts={"rows": "many"}),
        lambda header: header.update(facts={"rows": float("inf")}),
        lambda header: header.update(facts={"judged": 3}),
        lambda header: header.update(facts={"judged": {"policies": "many"}}),
        lambda header: header.update(fitted={}),
        lambda header: header.update(fitted={"visitors": 3}),
        lambda header: header.pop("fitted"),
        lambda header: [header],
        lambda header: 3,
    ],
)
def test_a_file_with_the_right_checksum_may_still_be_no_model(files: dict[str, Path], change: Any) -> None:
    with pytest.raises(DataError, match=r"crafted\.zoosim: ") as caught:
        load_model(packed(files["linear"], change))
    assert "\n" not in str(caught.value)


def test_a_member_that_might_grow_without_bound_or_be_executed_is_refused(files: dict[str, Path]) -> None:
    assert load_model(packed(files["linear"], lambda header: None)).policy is not None
    with pytest.raises(DataError, match="is no model, or broken"):
        load_model(packed(files["linear"], lambda header: None, zipfile.ZIP_DEFLATED))
    buffer = io.BytesIO()
    np.savez(buffer, header=np.array([print], object), allow_pickle=True)
    with pytest.raises(DataError, match="is no model, or broken"):
        load_model(sealed(files["linear"].with_name("pickled.zoosim"), buffer.getvalue()))


OWN = """
import numpy as np
from zoosim import Policy

print("imported")

class First(Policy):
    learns = False

    def select_action(self, context):
        return 0

    def update(self, context, action, reward, feedback=None, next_context=None):
        pass

    def propensities(self, context):
        return np.eye(len(context.product_ids))[0]
"""


def test_a_policy_of_your_own_is_imported_only_when_it_is_named(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "own.py").write_text(OWN, encoding="utf-8")
    named = f"{tmp_path / 'own.py'}:First"
    zoosim.train(log, [named], tmp_path / "own.zoosim")
    capsys.readouterr()
    with pytest.raises(DataError, match=r"own\.zoosim: holds a policy of your own, .*; name its FILE\.py:Class"):
        zoosim.load(tmp_path / "own.zoosim")
    assert capsys.readouterr().out == ""
    assert zoosim.load(tmp_path / "own.zoosim", policy=named).decide({}).product == "SKU-00"
    with pytest.raises(DataError, match=r"evaluate it, zoosim\.load\(\.\.\., policy=.*\) to use it"):
        zoosim.evaluate(log, [str(tmp_path / "own.zoosim")])
    assert capsys.readouterr().out == ""
    assert schema_of_model(tmp_path / "own.zoosim") == read_log(log).fitted
    assert capsys.readouterr().out == ""
    found = zoosim.evaluate(log, [f"{tmp_path / 'own.zoosim'}@{named}"])
    assert {row.policy for row in found.results} == {"own"}
    assert found.n == 120
    with pytest.raises(ConfigError, match="unknown policy 'linera'"):
        zoosim.load(tmp_path / "own.zoosim", policy="linera")
    with pytest.raises(DataError, match="is no model, or broken"):
        zoosim.load(tmp_path / "own.zoosim", policy="linucb")


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("none.zoosim", "no such file; zoosim train writes models"),
        (".", "is a folder, not a model"),
        ("other.txt", "is no model"),
    ],
)
def test_what_is_no_file_of_a_model_is_refused(tmp_path: Path, path: str, message: str) -> None:
    (tmp_path / "other.txt").write_text("hello", encoding="utf-8")
    with pytest.raises(DataError, match=message):
        zoosim.load(tmp_path / path)


@pytest.mark.parametrize(
    ("candidates", "message"),
    [
        ([], "got no candidate, expected at least one product"),
        (["SKU-01", "SKU-02", "SKU-01"], "got 1 candidates twice, expected at least one product, each once"),
        (["SKU-01", {"id": "SKU-01", "brand": "zen"}], "got 1 candidates twice"),
        (["SKU-01", "SKU-99"], r"got 'SKU-99', which is not in the catalogue of 12 .* its features \(brand, price\)"),
        ([{"id": "SKU-01", "price": 3}], "without brand, expected all features of the product, None where one is miss"),
        ([{"id": "SKU-99"}], "which is not in the catalogue of 12 products"),
        ([{"brand": "zen"}], "expected an id, or a mapping with an id"),
        ([None], "got None, expected an id"),
        ([""], "got '', expected an id"),
        ([["SKU-01"]], "expected an id, or a mapping with an id"),
        ("SKU-01", "got 'SKU-01', expected a list of products"),
        ({"id": "SKU-01"}, "expected a list of products"),
        (3, "got 3, expected a list of products"),
    ],
)
def test_candidates_that_cannot_be_shown_are_refused(model: Model, candidates: Any, message: str) -> None:
    for ask in (model.decide, model.recommend):
        with pytest.raises(PolicyError, match=f"candidates: .*{message}"):
            ask({"country": "de"}, candidates)


@pytest.mark.parametrize("visitor", [None, "de", 3, ["de"]])
def test_a_visitor_is_values_by_column(model: Model, visitor: Any) -> None:
    with pytest.raises(PolicyError, match=r"visitor: got .*, expected values by column"):
        model.decide(visitor)


def test_any_value_of_a_visitor_is_a_level_or_a_number_or_missing(model: Model) -> None:
    strange = [None, "", float("nan"), [1, 2], object(), 10**400, 10**5000, b"de", np.datetime64("NaT"), 1j]
    for value in strange:
        for column in ("country", "age", "member"):
            choice = model.decide({column: value})
            assert 0.0 < choice.propensity <= 1.0


def test_a_new_product_is_given_with_its_features(model: Model) -> None:
    """It decides as for a product of the catalogue with the same features; a known id alone means the catalogue's."""
    new = {"id": "NEW", "brand": "acme", "price": 3.0}
    choice = model.decide({"country": "de"}, [new, "SKU-01", {"id": "SKU-02"}])
    assert set(choice.propensities) == {"NEW", "SKU-01", "SKU-02"}
    by_id = model.decide({"country": "fr"}, ["SKU-01", "SKU-02"]).propensities
    assert model.decide({"country": "fr"}, [{"id": "SKU-01"}, {"id": "SKU-02"}]).propensities == by_id


def test_the_whole_catalogue_is_worked_out_once(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    for visitor in VISITORS:
        model.decide(visitor)
    monkeypatch.setattr(type(model.policy), "_candidates", None)
    for visitor in VISITORS:
        model.decide(visitor)


def test_a_number_is_one_product_however_it_is_written(tmp_path: Path) -> None:
    rows = ["item,click,country"]
    rows += [f"{('7', '7.0', ' 7', '007', 'x')[i % 5]},{i % 5 // 3},{'de' if i % 2 else 'fr'}" for i in range(400)]
    (tmp_path / "shop.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    zoosim.import_log(tmp_path / "shop.csv", None, tmp_path / "log.parquet")
    model = zoosim.train(tmp_path / "log.parquet", ["linucb"]).model
    assert model.catalogue.names == ("007", "7", "x")
    written: list[Any] = [7, "7", 7.0, "7.0", " 7 ", np.int64(7), np.float32(7)]
    context = [model._request({}, [name, "x"])[1] for name in written]
    assert {tuple(request.product_ids.tolist()) for request in context} == {(7, int(context[0].product_ids[1]))}
    assert {model.decide({}, [name]).product for name in written} == {"7"}
    assert model.decide({}, ["007"]).product == "007"
    assert model._request({}, ["007"])[1].product_ids[0] != 7
    with pytest.raises(PolicyError, match="got 1 candidates twice"):
        model.decide({}, [7, "7.0"])


def test_a_catalogue_tells_products_apart() -> None:
    with pytest.raises(DataError, match="got 2 names, 1 of them different, and features of 2 products"):
        Catalogue(("a", "a"), np.zeros((2, 1)))
    with pytest.raises(DataError, match="got 2 names, 2 of them different, and features of 3 products"):
        Catalogue(("a", "b"), np.zeros((3, 1)))
    with pytest.raises(DataError, match="features that are missing or infinite"):
        Catalogue(("a", "b"), np.array([[0.0], [np.nan]]))


def test_a_model_is_written_whole_or_not_at_all(model: Model, tmp_path: Path) -> None:
    for wrong in (tmp_path / "m.npz", tmp_path / "none" / "m.zoosim", tmp_path):
        with pytest.raises(ConfigError, match=r"expected a file in a folder that is there, ending in \.zoosim"):
            save_model(model, wrong)
    with pytest.raises(DataError, match="its policy linear and its schema do not fit"):
        save_model(replace(model, catalogue=Catalogue(("a",), np.zeros((1, 0)))), tmp_path / "m.zoosim")
    save_model(model, tmp_path / "m.zoosim")
    before = (tmp_path / "m.zoosim").read_bytes()
    model.facts["figure"] = float("nan")
    with pytest.raises(ValueError, match="not JSON compliant"):
        save_model(model, tmp_path / "m.zoosim")
    assert (tmp_path / "m.zoosim").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["m.zoosim"]


def test_a_policy_that_learns_from_logs_alone_refuses_rewards() -> None:
    log = described(300)
    trained = find_class("linear")(spec_of(log), np.random.default_rng(0))
    trained.fit(log)
    with pytest.raises(PolicyError, match="linear: learns from logs alone; log what is shown, and train a new model"):
        Model(trained, FittedSchema(), Catalogue(("a",), np.zeros((1, 4)))).learn({}, "a", 1.0)


def test_a_policy_that_looks_ahead_refuses_rewards_without_what_followed() -> None:
    policy = find_class("q-table")(spec_of(described(300)), np.random.default_rng(0))
    with pytest.raises(PolicyError, match="q-table: must know what followed; log what is shown, and train a new model"):
        Model(policy, FittedSchema(), Catalogue(("a",), np.zeros((1, 4)))).learn({}, "a", 1.0)


def test_a_folder_that_cannot_be_written_to_is_told_before_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: False)
    with pytest.raises(ConfigError, match=r"m\.zoosim', in a folder that cannot be written to"):
        checked_file("model", tmp_path / "m.zoosim", ".zoosim")
