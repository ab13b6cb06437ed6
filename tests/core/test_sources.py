"""Digests of sources: an edit changes those of the modules that it can reach, and no other."""

import shutil
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, spec_from_file_location
from pathlib import Path

import pytest

import zoosim
from zoosim.core import sources
from zoosim.core.sources import closure_of, imports_of, source_digest
from zoosim.policies.registry import BUILT_IN, make_entry

LINUCB, RANDOM, REPORT = "zoosim.policies.products.linucb", "zoosim.policies.products.random", "zoosim.report.page"


def forget() -> None:
    """Read the files again, as another process would."""
    for name in ("source_digest", "closure_of", "_read", "_outline_of", "_passed_on", "_file_of"):
        getattr(sources, name).cache_clear()


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the package in another folder, whose sources are the ones that are read."""
    folder = tmp_path / "clone" / "zoosim"
    shutil.copytree(Path(zoosim.__file__).parent, folder, ignore=shutil.ignore_patterns("__pycache__"))

    def find(name: str) -> ModuleSpec | None:
        if name != "zoosim":
            return find_spec(name)
        return spec_from_file_location(name, folder / "__init__.py", submodule_search_locations=[str(folder)])

    monkeypatch.setattr(sources, "find_spec", find)
    forget()
    yield folder
    forget()


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))
    forget()


def digests() -> dict[str, str]:
    modules = [LINUCB, RANDOM, REPORT, "zoosim.arena.past", "zoosim.worlds.search.optimum"]
    return {module: source_digest(module) for module in modules}


def changed(before: dict[str, str]) -> list[str]:
    return [module for module, digest in digests().items() if digest != before[module]]


def test_a_copy_in_another_folder_has_the_same_digests(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copied = digests()
    fingerprints = [make_entry(name).fingerprint for name in BUILT_IN]
    monkeypatch.setattr(sources, "find_spec", find_spec)
    forget()
    assert changed(copied) == []
    assert [make_entry(name).fingerprint for name in BUILT_IN] == fingerprints


def test_outlines_on_disk_are_taken_unless_they_are_damaged(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOOSIM_CACHE", str(tmp_path / "cache"))
    forget()
    before = digests()
    kept = sorted((tmp_path / "cache" / "outlines").iterdir())
    assert len(kept) > 50
    with monkeypatch.context() as context:
        context.setattr(sources, "_outline", None)  # what is kept suffices
        forget()
        assert changed(before) == []
    contents = [path.read_bytes() for path in kept]
    for path, content, other in zip(kept, contents, contents[1:] + contents[:1], strict=True):
        path.write_bytes((content[:-1], content.replace(b"0", b"1"), other, b"")[len(content) % 4])
    forget()
    assert changed(before) == []
    assert [path.read_bytes() for path in kept] == contents


def test_docstrings_and_comments_change_nothing(package: Path) -> None:
    before = digests()
    for file in sorted(package.rglob("*.py")):
        text = file.read_text()
        file.write_text(text.replace('"""', '"""Edited. ', 1).replace("\n\n\ndef ", "\n\n\n# Edited.\ndef "))
    forget()
    assert changed(before) == []


def test_an_edit_changes_what_imports_it_and_no_other(package: Path) -> None:
    before = digests()
    with (package / "report" / "page.py").open("a") as file:
        file.write("EDITED = 1\n")
    forget()
    assert changed(before) == [REPORT]
    fingerprints = {name: make_entry(name).fingerprint for name in BUILT_IN}
    edit(package / "linear" / "ridge.py", "MIN_PERIOD = 64", "MIN_PERIOD = 65")
    assert changed(before) == [LINUCB, REPORT]
    edited = [name for name in BUILT_IN if make_entry(name).fingerprint != fingerprints[name]]
    assert {"linucb", "greedy", "shared-linucb"} <= set(edited)
    assert {"random", "static-mlp", "q-ensemble", "template-neutral"}.isdisjoint(edited)


def test_a_new_policy_changes_no_other_ones_trials(package: Path) -> None:
    before = digests()
    edit(package / "policies" / "registry.py", "BUILT_IN = {", 'BUILT_IN = {"new": "zoosim.policies.new:New",')
    assert changed(before) == []


def test_what_is_renamed_or_not_there_is_an_error(package: Path) -> None:
    (package / "linear" / "ridge.py").rename(package / "linear" / "sums.py")
    forget()
    with pytest.raises(ModuleNotFoundError, match=r"zoosim\.linear\.ridge"):
        source_digest("zoosim.linear.ridge")
    with pytest.raises(ModuleNotFoundError, match="linear"):
        source_digest(LINUCB)
    with pytest.raises(ModuleNotFoundError, match="no_such_package"):
        source_digest("no_such_package.module")


def test_all_forms_of_imports_are_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cycles end; a name that a package passes on is looked for where it comes from."""
    files = {
        "__init__": "from made_up.home import passed\nown = 1",
        "start": "from made_up import passed, module\nimport made_up.plain\nfrom . import relative\n",
        "module": "def f():\n    from made_up.inside import g\n    try: import made_up.tried\n    except: pass",
        "home": "if TYPE_CHECKING:\n    import made_up.types\nelse:\n    import made_up.otherwise\npassed = 1",
        "plain": "import made_up.start\nmatch 1:\n    case 1:\n        import made_up.matched",
        "other": "from made_up import own",
        **dict.fromkeys(["relative", "inside", "tried", "types", "otherwise", "matched"], "import os, numpy.linalg"),
    }
    (tmp_path / "made_up").mkdir()
    for name, text in files.items():
        (tmp_path / "made_up" / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    found = {name.removeprefix("made_up.") for name in closure_of("made_up.start")}
    assert found == set(files) - {"__init__", "types", "other"}
    assert closure_of("made_up.other") >= {"made_up", "made_up.home"}
    assert source_digest("made_up.start") == source_digest("made_up.plain")
    forget()


@pytest.mark.parametrize(
    ("code", "modules"),
    [
        ("import zoosim\nclass Mine(zoosim.Policy): pass", {"zoosim.policies.base"}),
        ("from zoosim import Context, Policy", {"zoosim.core.types", "zoosim.policies.base"}),
        ("import zoosim as z\nz.policies.linucb", {"zoosim"}),
        ("import zoosim\ngetattr(zoosim, name)", {"zoosim"}),
        ("import numpy", set()),
    ],
)
def test_what_code_outside_uses_of_zoosim(code: str, modules: set[str]) -> None:
    assert imports_of(code.encode()) == modules
