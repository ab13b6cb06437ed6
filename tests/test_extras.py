"""Without extras and Unix modules zoosim imports, trains and judges; what needs an extra says which to install."""

import json
import re
import sys
import tomllib
from pathlib import Path

import pytest

from tests.commands import new_process
from zoosim.core.extras import EXTRAS

MODULE_OF = {"faiss-cpu": "faiss", "openfeature-sdk": "openfeature", "pillow": "PIL", "scikit-learn": "sklearn"}
"""Modules that are named otherwise than their packages."""

SCRIPT = """
import json, sys
from importlib.machinery import PathFinder

class Finder(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        found = super().find_spec(name, path, target)
        return None if name.partition(".")[0] in missing else found

missing = sys.argv[1].split(",")
sys.meta_path = [finder for finder in sys.meta_path if finder is not PathFinder] + [Finder]
sys.argv = ["zoosim"]
import zoosim
from zoosim.cli import run_command
from zoosim.api.runs import write_log
from zoosim.core.errors import ConfigError

write_log("shop.parquet", n=600, policy="random")
zoosim.train("shop.parquet", ["linucb"], "shop.zoosim")
zoosim.load("shop.zoosim").decide({"visitor 1": 1.0})
json.dumps(zoosim.evaluate("shop.parquet", ["random", "shop.zoosim"]).summary)
refusals = []
for call in (
    lambda: zoosim.run("gauntlet", seeds=1, steps=100),
    lambda: zoosim.fit_world("shop.parquet"),
    lambda: zoosim.recommend("shop.parquet"),
    lambda: zoosim.describe("shops"),
    lambda: zoosim.evaluate("shop.parquet", ["random"], out="judged"),
    lambda: zoosim.train("shop.parquet", ["linucb"], report="page.html"),
    lambda: zoosim.Client,
):
    try:
        call()
    except ConfigError as error:
        refusals.append(str(error))
assert not hasattr(zoosim, "Client")
print(json.dumps(refusals))
sys.argv = ["zoosim", "serve", "shop.zoosim"]
run_command()
"""


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], int, str]:
    folder = tmp_path_factory.mktemp("core")
    modules = [module for modules in EXTRAS.values() for module in modules]
    unix = ["resource", "fcntl"]  # which Windows has not
    done = new_process([sys.executable, "-c", SCRIPT, ",".join(modules + unix)], cwd=folder)
    assert done.out, done.err
    assert not [path.name for path in folder.iterdir() if path.suffix in (".html", "")]
    return json.loads(done.out), done.code, done.err


def test_what_needs_the_lab_is_refused_before_anything_is_computed(ended: tuple[list[str], int, str]) -> None:
    *calls, client = ended[0]
    lines = [
        f"{name}: needs the package gymnasium, which is not installed; run pip install 'zoosim[lab]'"
        for name in (
            "run",
            "fit-world",
            "recommend",
            "describe",
            "evaluate: the page (out)",
            "train: the page (report)",
        )
    ]
    assert calls == lines
    assert client == "needs the package httpx2, which is not installed; run pip install 'zoosim[serve]'"


def test_a_command_without_its_extra_ends_in_one_line(ended: tuple[list[str], int, str]) -> None:
    _, code, errors = ended
    assert code == 2
    assert errors.splitlines()[-1].endswith("which is not installed; run pip install 'zoosim[serve]'")


def test_the_extras_are_those_of_the_package() -> None:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    for extra, modules in EXTRAS.items():
        packages = [re.split(r"[>;\[]", line)[0] for line in project["optional-dependencies"][extra]]
        names = {MODULE_OF.get(name, name.replace("-", "_")) for name in packages}
        assert names - {"uvloop", "zoosim"} == set(modules)  # uvloop is not for Windows, and nothing needs it
        assert not names & {line.partition(">")[0] for line in project["dependencies"]}
