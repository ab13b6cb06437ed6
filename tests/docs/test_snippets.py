"""The pages hold what they say: Python blocks run, commands parse, YAML is accepted, links lead somewhere."""

import re
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from studies.__main__ import make_parser
from studies.study import FLAGS, STUDIES
from tests.commands import ROOT, Started
from tests.node import run_node
from tests.serving.process import serving
from tests.serving.shop import make_boost_model, make_model
from zoosim.arena.plan import Plan
from zoosim.cli import app
from zoosim.experiments import EXPERIMENTS
from zoosim.experiments.plan import make_plan
from zoosim.experiments.request import RunRequest
from zoosim.monitoring.launch_plan import Plan as LaunchPlan
from zoosim.policies.checks.policy import check_policy
from zoosim.policies.registry import BUILT_IN
from zoosim.schema.schema import Schema
from zoosim.serving.javascript import CLIENT_SCRIPT
from zoosim.serving.settings import Settings
from zoosim.worlds.search.import_searches import SearchLogSchema

PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").glob("*.md")])
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
COMMAND = re.compile(r"^(?:\$ )?(?:\.venv/bin/)?(zoosim .*)$", re.MULTILINE)
PHRASE = re.compile(r"`((?:\.venv/bin/)?zoosim (?:run|list|policies|log|report|describe|check-policy)\b[^`]*)`")
STUDY = re.compile(r"(?:^|`)python -m studies ([^`\n]+)", re.MULTILINE)
FIRST_CELL = re.compile(r"^\| `([^`]+)` \|", re.MULTILINE)


SERVICES = {"http://127.0.0.1:8100": "service", "http://127.0.0.1:8101": "search_service"}
"""Where pages ask a service, and the fixture of the one that stands in for it."""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a running service of the products that pages name."""
    folder = tmp_path_factory.mktemp("shop")
    model = make_model(folder, names=[f"SKU-{number}" for number in range(1, 9)])
    with serving(folder / "service", model) as running:
        yield running.url


@pytest.fixture(scope="module")
def search_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a running service that ranks searches."""
    folder = tmp_path_factory.mktemp("searches")
    with serving(folder / "service", make_boost_model(folder)) as running:
        yield running.url


def blocks(page: Path, *languages: str) -> list[str]:
    return [body for language, body in FENCE.findall(page.read_text(encoding="utf-8")) if language in languages]


def commands(page: Path) -> list[str]:
    found = [line for block in blocks(page, "bash", "console") for line in COMMAND.findall(block)]
    return found + [phrase.removeprefix(".venv/bin/") for phrase in PHRASE.findall(page.read_text(encoding="utf-8"))]


LONG = ("docs/q-ensemble.md", "docs/search-shop.md")
"""Pages whose code takes over ten seconds."""


def page_id(page: Path) -> str:
    return str(page.relative_to(ROOT))


def pages_with(*languages: str) -> list[Path]:
    return [page for page in PAGES if blocks(page, *languages)]


def parse(line: str) -> tuple[str, dict[str, Any]]:
    """Return the subcommand and its parameters; raises a usage error for what the command line would refuse."""
    group: Any = typer.main.get_command(app)
    _, name, *arguments = shlex.split(line, comments=True)
    return name, group.commands[name].make_context(name, arguments).params


def plan_of(params: dict[str, Any]) -> Plan:
    """Check a `zoosim run` as the command would before it writes anything."""
    names = None if params["policies"] is None else params["policies"].split(",")
    asked = (params["seeds"], params["steps"], names, params["policy"], params["config"], params["settings"])
    return make_plan(RunRequest(params["name"], *asked))


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=pytest.mark.slow if page_id(page) in LONG else (), id=page_id(page))
        for page in pages_with("python")
    ],
)
def test_python_blocks_run_one_after_another(page: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    well = "assert not [r for r in list(globals().values()) if getattr(r, 'failures', ())], 'a policy failed'"
    snippet = with_services("\n\n".join([*blocks(page, "python"), well]), request)
    (tmp_path / "snippet.py").write_text(snippet, encoding="utf-8")
    run_script("snippet.py", tmp_path)


def with_services(snippet: str, request: pytest.FixtureRequest) -> str:
    """Return code that asks running services where it names addresses of some."""
    for address, fixture in SERVICES.items():
        if address in snippet:
            snippet = snippet.replace(address, request.getfixturevalue(fixture))
    return snippet


@pytest.mark.parametrize("page", pages_with("js"), ids=page_id)
def test_javascript_blocks_run(page: Path, request: pytest.FixtureRequest) -> None:
    snippet = with_services("\n\n".join(blocks(page, "js")), request)
    product, propensity = run_node(snippet.replace("./zoosim.mjs", CLIENT_SCRIPT.as_uri())).split()
    assert product in ("SKU-1", "SKU-2")
    assert 0.0 < float(propensity) < 1.0


@pytest.mark.parametrize("name", ["notebook_style.py"])
def test_examples_run(name: str, tmp_path: Path) -> None:
    run_script(str(ROOT / "examples" / name), tmp_path)
    assert (tmp_path / "notebook_style.html").stat().st_size > 100_000


def run_script(script: str, folder: Path) -> None:
    with Started(script, cwd=folder) as started:
        done = started.end()
    assert done.code == 0, done.err


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=page_id)
def test_commands_are_accepted(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines with a name in capitals (DIR, FILE.py:Class) or a file that the page's reader writes are only read."""
    monkeypatch.chdir(ROOT)
    for line in commands(page):
        if "..." in line or line == "zoosim run":
            continue
        name, params = parse(line)
        named = re.search(
            r"\b[A-Z]{3,}\b|runs/\S+\.yaml|\S+\.world|(?<!/)\b\w+\.py:", shlex.join(shlex.split(line, comments=True))
        )
        if name == "run" and not named and not params["name"].endswith((":World", ":Class")):
            plan_of(params)


@pytest.mark.parametrize("page", [page for page in PAGES if STUDY.search(page.read_text("utf-8"))], ids=page_id)
def test_studies_are_asked_for_what_they_take(page: Path) -> None:
    for line in STUDY.findall(page.read_text(encoding="utf-8")):
        if "NAME" in line:
            continue
        given = vars(make_parser().parse_args(shlex.split(line, comments=True)))
        chosen = {key for key in FLAGS if given[key] is not None} | {text.split("=")[0] for text in given["set"]}
        assert chosen <= set(STUDIES[given["name"]].options()), line


def test_the_check_of_commands_sees_what_is_wrong() -> None:
    with pytest.raises(Exception, match="No such option"):
        parse("zoosim run gauntlet --sedes 3")
    with pytest.raises(KeyError, match="rnu"):
        parse("zoosim rnu gauntlet")
    with pytest.raises(ValueError, match="unknown policy"):
        plan_of(parse("zoosim run gauntlet --policies linucbb")[1])


@pytest.mark.parametrize("page", pages_with("yaml"), ids=page_id)
def test_yaml_blocks_are_accepted(page: Path) -> None:
    for block in blocks(page, "yaml"):
        config = yaml.safe_load(block)
        if "shop" in config:
            SearchLogSchema.model_validate(config)
            continue
        if "columns" in config:
            Schema.model_validate(config)
            continue
        if "steps" in config:
            LaunchPlan.model_validate(config)
            continue
        if "shop_rules" in config:
            Settings.model_validate(config)
            continue
        make_plan(RunRequest(config.get("experiment", "gauntlet"), config=config))


def test_the_example_shop_is_accepted_and_uses_every_key() -> None:
    path = ROOT / "examples" / "small_shop.yaml"
    plan = make_plan(RunRequest("gauntlet", config=path))
    left_out = set(type(plan.env).model_fields) - set(yaml.safe_load(path.read_text(encoding="utf-8"))["env"])
    # These cannot stand beside shocks, personas and availability.
    assert left_out == {"random_shocks", "random_personas", "turnover"}
    assert len(plan.entries) > len({entry.source for entry in plan.entries})


def test_the_example_policy_keeps_the_contract() -> None:
    results = check_policy(f"{ROOT / 'examples' / 'my_policy.py'}:MyPolicy")
    assert [result.name for result in results if not result.ok] == []


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_relative_links_lead_somewhere(page: Path) -> None:
    prose = FENCE.sub("", page.read_text(encoding="utf-8"))
    targets = [link.partition("#")[0] for link in LINK.findall(prose) if "://" not in link]
    assert [target for target in targets if target and not (page.parent / target).exists()] == []


@pytest.mark.parametrize(
    ("page", "heading", "names"),
    [
        ("experiments.md", "experiment | what it asks", EXPERIMENTS),
        ("experiments.md", "study | what it asks", STUDIES),
        ("policies.md", "policy | what it does", BUILT_IN),
        ("measured.md", "policy | % of oracle (95% interval) | sd", EXPERIMENTS["gauntlet"].policies),
    ],
    ids=["experiments", "studies", "policies", "gauntlet"],
)
def test_tables_name_everything_once(page: str, heading: str, names: Iterable[str]) -> None:
    paragraphs = (ROOT / "docs" / page).read_text(encoding="utf-8").split("\n\n")
    tables = [paragraph for paragraph in paragraphs if paragraph.startswith("|")]
    [found] = [FIRST_CELL.findall(table) for table in tables if table.startswith(f"| {heading}")]
    assert sorted(found) == sorted(names)


def test_the_readme_counts_the_policies() -> None:
    assert f" {len(BUILT_IN)} policies," in (ROOT / "README.md").read_text(encoding="utf-8")


def test_tables_of_the_configuration_name_every_key_of_a_run() -> None:
    listed = FIRST_CELL.findall((ROOT / "docs" / "configuration.md").read_text(encoding="utf-8"))
    assert {"steps", "seeds", "delay", "batch"} <= set(listed)
