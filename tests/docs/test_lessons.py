"""docs/lessons.md is what the graph says, and the graph says what is there: paths, commands, names and figures."""

import re
import shlex
from pkgutil import resolve_name

import pytest
import typer

from scripts.lessons import GRAPH, PAGE, ROOT, STATES, Graph, build_page, nodes_of, numbers_of, open_things, read_graph
from studies.__main__ import make_parser
from tests.docs.test_snippets import parse
from zoosim.cli import app
from zoosim.experiments import EXPERIMENTS
from zoosim.policies.registry import BUILT_IN
from zoosim.worlds.registry import world_names

CONTENTS = {
    "CH-2": "recap of 1, 2.1, 2.2, 2.3, 2.4, 2.5, 2.6, appendix, 2.6 (second), outlook 3.1, outlook 3.2, outlook 3.3, "
    "outlook 3.4, outlook 3.5, outlook 3.6, outlook 4.1, outlook 4.2, outlook 4.3, outlook 4.4, outlook 4.5",
    "CH-3-ideal": "3.1, 3.2, 3.3, 3.4, 3.5, 3.6, 3.7, 3.8",
    "CH-3-jacobian": "3.1, 3.2, 3.3, 3.4, 3.4.1, 3.5, 3.5.1, 3.5.2, 3.6, 3.6.1, 3.6.2, 3.6.3, 3.6.4",
    "CH-3-practice": "3.1, 3.2, 3.3, 3.3.1, 3.4, 3.5, 3.6, 3.7, notes 3.2, 3.8",
    "CH-7": "introduction, 7.0.1, 7.1, 7.1.1, 7.2, 7.2.1, 7.2.2, 7.2.3, 7.2.4, 7.2 (second), 7.2.1 (second), "
    "7.2.2 (second), 7.3, 7.3.1, 7.3.2, 7.3.3, 7.4, 7.4.1, 7.5, 7.5.1, 7.5.2, 7.5.3, 7.5.4, 7.6, summary",
}
"""The numbered sections of the documents, counted in them once."""

MISSING_AT_FIRST = 62
"""What was missing when the documents were read line by line against an early version."""

KINDS = {"section", "definition", "algorithm", "module", "command", "test", "figure"}
EDGES = {
    "part_of": {"section"},
    "answered_by": {"command", "module"},
    "figures": {"figure"},
    "in": {"module"},
    "tested_by": {"test"},
    "printed_by": {"command"},
}
"""Kinds of nodes that each edge may lead to."""

GRAPH_OF_NOW = read_graph()


def astray(graph: Graph) -> list[str]:
    """Return the edges that lead nowhere, or to a node of another kind."""
    found = []
    for key, node in graph.items():
        for edge, kinds in EDGES.items():
            ends = node.get(edge, [])
            for end in [ends] if isinstance(ends, str) else ends:
                if end not in graph or graph[end]["kind"] not in kinds:
                    found.append(f"{key} {edge} {end}")
    return found


def test_the_page_is_up_to_date() -> None:
    assert build_page(GRAPH_OF_NOW) == PAGE.read_text(encoding="utf-8"), "run python scripts/lessons.py"


def test_every_section_is_there() -> None:
    assert {chapter: ", ".join(numbers_of(GRAPH_OF_NOW, chapter)) for chapter in CONTENTS} == CONTENTS
    page = PAGE.read_text(encoding="utf-8")
    for node in nodes_of(GRAPH_OF_NOW, "section").values():
        assert f": {node['title']}\n" in page


def test_what_was_missing_is_here_or_named() -> None:
    """Each is a row of one section; how many are left is printed (pytest -s)."""
    here = [row for node in GRAPH_OF_NOW.values() for row in node.get("rows", ())]
    things = open_things(GRAPH_OF_NOW)
    assert {thing["state"] for thing in things} <= set(STATES)
    left = {
        state: sorted(row for thing in things if thing["state"] == state for row in thing["rows"]) for state in STATES
    }
    rows = [*here, *(row for numbers in left.values() for row in numbers)]
    assert len(rows) == len(set(rows)) == MISSING_AT_FIRST
    for state, numbers in left.items():
        print(f"{state}: {len(numbers)} left: {numbers}")


def test_nodes_are_of_known_kinds_and_edges_lead_to_them() -> None:
    assert {node["kind"] for node in GRAPH_OF_NOW.values()} == KINDS
    assert astray(GRAPH_OF_NOW) == []
    changed = {**GRAPH_OF_NOW, "DEF-7.2": {**GRAPH_OF_NOW["DEF-7.2"], "in": ["t-cem", "nowhere"]}}
    assert astray(changed) == ["DEF-7.2 in t-cem", "DEF-7.2 in nowhere"]


def test_nothing_stands_alone() -> None:
    """Every command, test and figure is the end of an edge; a module may be there for its path or its names."""
    ends = {end for node in GRAPH_OF_NOW.values() for edge in EDGES for end in _listed(node.get(edge, []))}
    loose = [key for key in nodes_of(GRAPH_OF_NOW, "command", "test", "figure") if key not in ends]
    loose += [
        key
        for key, node in nodes_of(GRAPH_OF_NOW, "module").items()
        if key not in ends and not node.get("names") and not node.get("named")
    ]
    assert loose == []


def _listed(ends: str | list[str]) -> list[str]:
    return [ends] if isinstance(ends, str) else ends


@pytest.mark.parametrize("key", nodes_of(GRAPH_OF_NOW, "module", "test"))
def test_files_are_there(key: str) -> None:
    assert (ROOT / GRAPH_OF_NOW[key]["path"]).is_file()


def test_pages_are_there() -> None:
    pages = {page for node in GRAPH_OF_NOW.values() for page in [*node.get("pages", ()), node.get("page", "README.md")]}
    assert [page for page in pages if not (ROOT / page.partition("#")[0]).is_file()] == []


@pytest.mark.parametrize("key", nodes_of(GRAPH_OF_NOW, "command"))
def test_commands_are_accepted(key: str) -> None:
    line = GRAPH_OF_NOW[key]["run"]
    match shlex.split(line):
        case ["zoosim", *_]:
            parse(line)
        case ["python", "-m", "studies", *rest]:
            make_parser().parse_args(rest)
        case ["python", "-m", "benchmarks", number]:
            assert f'"{number}":' in (ROOT / "benchmarks" / "__main__.py").read_text(encoding="utf-8")
        case ["python" | "pytest", path, *_]:
            assert (ROOT / path).exists()
        case _:
            pytest.fail(f"unknown kind of command: {line}")


NAMES = {old: new for node in nodes_of(GRAPH_OF_NOW, "module").values() for old, new in node.get("names", {}).items()}


@pytest.mark.parametrize("old", NAMES)
def test_names_lead_somewhere(old: str) -> None:
    kind, _, name = NAMES[old].rpartition(" ")
    commands = vars(typer.main.get_command(app)).get("commands", {})
    known = {"policy": BUILT_IN, "world": world_names(), "experiment": EXPERIMENTS, "command": commands}
    if kind:
        assert name in known[kind]
    else:
        resolve_name(name)


def test_files_that_the_documents_name_have_their_paths() -> None:
    assert sorted(node["path"] for node in nodes_of(GRAPH_OF_NOW, "module").values() if node.get("named")) == [
        "docs/knowledge_graph/graph.yaml",
        "scripts/ch07/continuous_actions_demo.py",
        "zoosim/core/config.py",
        "zoosim/envs/search_env.py",
        "zoosim/optimizers/cem.py",
        "zoosim/policies/q_ensemble.py",
    ]
    assert GRAPH == ROOT / "docs" / "knowledge_graph" / "graph.yaml"


FIGURES = {key: node for key, node in nodes_of(GRAPH_OF_NOW, "figure").items() if "ours" in node}


def absent(figure: str, page: str) -> list[str]:
    """Return the numbers of a figure that are not in a page."""
    numbers = re.findall(r"[\d,]*\.?\d+", figure)
    return [number for number in numbers if not re.search(rf"(?<![\d.]){re.escape(number)}(?!\d)", page)]


@pytest.mark.parametrize("key", FIGURES)
def test_our_figures_stand_in_the_page_that_is_named(key: str) -> None:
    """And the command that prints one is among those of each section that shows it."""
    figure = FIGURES[key]
    assert re.search(r"\d", figure["ours"])
    assert absent(figure["ours"], (ROOT / figure["page"]).read_text(encoding="utf-8")) == []
    sections = [node for node in GRAPH_OF_NOW.values() if key in node.get("figures", ())]
    assert all(figure["printed_by"] in node["answered_by"] for node in sections)


def test_numbers_that_a_page_has_in_part_are_absent() -> None:
    assert absent(".016 (99.5%), 1,234", "actor .0163, 99.55%, 1,234 ms and 9.016") == [".016", "99.5"]
