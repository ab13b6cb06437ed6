"""Every command of the README and the docs runs, in the order in which they stand, in an empty folder."""

from pathlib import Path

import pytest

from tests.docs.walk import ROOT, is_walked, made_small, run_command, steps, words_of

OWN_DATA = ROOT / "docs" / "own-data.md"
README = ROOT / "README.md"

HAVE_LOGS = ("recommend.md", "rehearse-launch.md")
"""Pages whose reader has imported such a table."""

HAS_TABLES = ("README.md", "off-policy.md", *HAVE_LOGS)
"""Pages whose reader has tables, shop.csv and items.csv: those that `own-data.md` makes."""

WRITE_FILES = ("own-data.md", "search-shop.md")
"""Pages whose Python blocks write what their commands read; test_snippets.py runs those of all pages."""

PAGES = [
    page for page in [README, *sorted((ROOT / "docs").glob("*.md"))] if any(s.kind == "command" for s in steps(page))
]


@pytest.mark.parametrize(
    "page",
    [page if page == README else pytest.param(page, marks=pytest.mark.slow) for page in PAGES],
    ids=lambda page: page.name,
)
def test_a_page_can_be_walked(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    walk(page, tmp_path)


@pytest.mark.slow
def test_the_readme_can_be_walked_without_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    walk(README, tmp_path, without="zoosim import")


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_can_be_walked_at_full_size(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    walk(page, tmp_path, is_small=False)


def walk(page: Path, folder: Path, *, without: str = "\0", is_small: bool = True) -> None:
    """Do what a page says, but for commands that begin with some words."""
    (folder / "examples").symlink_to(ROOT / "examples")
    names: dict[str, object] = {}
    if page.name in HAS_TABLES:
        run_python(next(step.text for step in steps(OWN_DATA) if "shop.csv" in step.text and step.kind == "python"), {})
    if page.name in HAVE_LOGS:
        run_command(["import", "shop.csv", "shop.parquet"])
    for step in steps(page):
        if step.file:
            (folder / step.file).write_text(step.text, encoding="utf-8")
        if not is_walked(step) or step.text.startswith(without):
            continue
        if step.kind == "python" and page.name in WRITE_FILES:
            run_python(step.text, names)
        elif step.kind == "command":
            run_command(made_small(step.text) if is_small else words_of(step.text))


def run_python(text: str, names: dict[str, object]) -> None:
    """Run a block of a page after those before it."""
    exec(compile(text, "page", "exec"), names)


def test_a_walk_sees_refusals_and_what_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(AssertionError, match=r"zoosim evaluate none\.parquet"):
        run_command(["evaluate", "none.parquet", "--policy", "random"])


def test_a_command_is_made_small_by_what_is_appended() -> None:
    small = made_small("zoosim run gauntlet --seeds 1000:1032 --policy own.py:Own   # a comment")
    assert small[:6] == ["run", "gauntlet", "--seeds", "1000:1032", "--policy", "own.py:Own"]
    assert small[6:8] == ["--seeds", "1"]
    assert small[-2:] == ["--policies", "random,d-linucb"]
    assert "random,d-linucb" not in made_small("zoosim run gauntlet --policies linucb")
