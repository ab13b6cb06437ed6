"""Write docs/lessons.md, the way from the sections of five documents to commands, from docs/knowledge_graph/graph.yaml.

    python scripts/lessons.py

The head of graph.yaml says which kinds of nodes there are, and which edges lead from one to another.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
GRAPH = ROOT / "docs" / "knowledge_graph" / "graph.yaml"
PAGE = ROOT / "docs" / "lessons.md"

Node = Mapping[str, Any]
Graph = Mapping[str, Node]

STATES = {
    "planned": "planned",
    "sessions": "planned with visits that follow one another",
    "launches": "planned with launches under guardrails",
    "scale": "planned with catalogues of millions",
}
"""What is said of a thing that is not here yet, by its state."""

INTRODUCTION = """# From the documents to the commands

<!-- written by python scripts/lessons.py from docs/knowledge_graph/graph.yaml -->

zoosim began with five documents: a chapter on LinUCB, three drafts of one on neural bandits, and one on continuous
boosts. They are not public, and this page does without them. It goes through their {sections} sections: what is asked,
the commands that answer it here, {commands} in all, our figures beside the printed ones, and why they differ. Where
our figures stand is linked, with their seeds. [Names, old and new](#names-old-and-new) are at the end.
[graph.yaml](knowledge_graph/graph.yaml) holds all of it as nodes and edges.

{open} things that the documents ask for are not here yet, and stand below their sections as "not here yet".
"""


def read_graph() -> Graph:
    """Return the nodes by id."""
    graph: Graph = yaml.safe_load(GRAPH.read_text(encoding="utf-8"))
    return graph


def nodes_of(graph: Graph, *kinds: str) -> dict[str, Node]:
    """Return the nodes of some kinds."""
    return {key: node for key, node in graph.items() if node["kind"] in kinds}


def numbers_of(graph: Graph, chapter: str) -> list[str]:
    """Return the numbers of a chapter's sections, in order."""
    return [number for node in _sections_of(graph, chapter) for number in node["numbers"]]


def open_things(graph: Graph) -> list[Node]:
    """Return what is not here yet, in order."""
    return [thing for node in graph.values() for thing in node.get("open", ())]


def build_page(graph: Graph) -> str:
    """Return the page."""
    chapters = [key for key, node in nodes_of(graph, "section").items() if "part_of" not in node]
    counts = {
        "sections": sum(len(numbers_of(graph, chapter)) for chapter in chapters),
        "commands": len(nodes_of(graph, "command")),
        "open": len(open_things(graph)),
    }
    parts = [INTRODUCTION.format(**counts)]
    for chapter in chapters:
        parts += _chapter(graph, chapter)
    parts += ["## Names, old and new\n", _names_table(graph)]
    return "\n".join(parts)


def _sections_of(graph: Graph, chapter: str) -> list[Node]:
    return [node for node in nodes_of(graph, "section").values() if node.get("part_of") == chapter]


def _chapter(graph: Graph, chapter: str) -> Iterator[str]:
    node = graph[chapter]
    yield f"## {chapter}: {node['title']}\n"
    yield f"{node['asks']} {_here(node)}".strip() + "\n"
    for section in _sections_of(graph, chapter):
        yield from _section(graph, section)
    defined = [
        (node["title"], graph[node["part_of"]], node)
        for node in nodes_of(graph, "definition", "algorithm").values()
        if graph[node["part_of"]]["part_of"] == chapter
    ]
    if defined:
        yield f"### Definitions and algorithms of {chapter}\n"
        rows = [
            (title, section["numbers"][0], _paths(graph, node["in"]), _paths(graph, node["tested_by"]))
            for title, section, node in defined
        ]
        yield _table(("definition", "section", "in", "tested by"), rows)


def _section(graph: Graph, node: Node) -> Iterator[str]:
    yield f"### {', '.join(node['numbers'])}: {node['title']}\n"
    yield f"*Asked:* {node['asks']}\n"
    yield f"*Here:* {_here(node)}\n"
    commands = [graph[key]["run"] for key in node.get("answered_by", ()) if graph[key]["kind"] == "command"]
    if commands:
        yield "\n".join(["```bash", *commands, "```\n"])
    figures = [graph[key] for key in node.get("figures", ())]
    if figures:
        rows = [(each["title"], _ours(each), each["printed"], each.get("differs", "")) for each in figures]
        yield _table(("figure", "here", "printed", "why they differ"), rows)
    if "open" in node:
        things = [f"- {thing['what']} ({STATES[thing['state']]})" for thing in node["open"]]
        yield "\n".join(["*Not here yet:*\n", *things, ""])


def _here(node: Node) -> str:
    """Return what is said of a section here, with links to the pages that explain it."""
    pages = ", ".join(f"[{_page_name(page)}]({page.removeprefix('docs/')})" for page in node.get("pages", ()))
    return f"{node.get('here', '')} See {pages}.".strip() if pages else node.get("here", "")


def _page_name(page: str) -> str:
    name, _, anchor = page.removeprefix("docs/").partition("#")
    return (anchor or name.removesuffix(".md")).replace("-", " ")


def _ours(figure: Node) -> str:
    if "ours" not in figure:
        return "not here yet"
    return f"{figure['ours']} ([{_page_name(figure['page'])}]({figure['page'].removeprefix('docs/')}))"


def _paths(graph: Graph, keys: Sequence[str]) -> str:
    return ", ".join(f"`{graph[key]['path']}`" for key in keys)


def _names_table(graph: Graph) -> str:
    modules = nodes_of(graph, "module").values()
    rows = [
        (f"`{old}`", _name(new), f"`{node['path']}`") for node in modules for old, new in node.get("names", {}).items()
    ]
    rows += [(f"`{node['path']}`", "the same path", f"`{node['path']}`") for node in modules if node.get("named")]
    return _table(("in the documents", "here", "file"), sorted(rows, key=lambda row: row[0].lower()))


def _name(target: str) -> str:
    """Return how a page writes the target of a name: `policy NAME` and the like, or `module:attribute`."""
    kind, _, name = target.rpartition(" ")
    return f"{kind} `{name.replace(':', '.')}`".strip()


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(cells)} |" for cells in (heads, ["---"] * len(heads), *rows)]
    return "\n".join([*lines, ""])


def main() -> None:
    """Write the page where it has changed."""
    page = build_page(read_graph())
    if not PAGE.exists() or page != PAGE.read_text(encoding="utf-8"):
        PAGE.write_text(page, encoding="utf-8")
        print(f"wrote {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
