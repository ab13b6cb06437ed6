"""What studies there are: their names, what `python -m studies` says of them, and the question of each."""

import ast
from dataclasses import dataclass
from importlib import import_module
from inspect import signature
from pathlib import Path
from types import ModuleType

FLAGS = ("seeds", "jobs", "config", "data")
"""Options that the command line has as options of its own; others are given by --set."""


@dataclass(frozen=True)
class Study:
    """A named study, done by the package `studies.NAME`, with underscores for hyphens."""

    name: str
    summary: str
    question: str

    def load(self) -> ModuleType:
        """Import the package that does it."""
        return import_module(f"studies.{self.name.replace('-', '_')}")

    def options(self) -> list[str]:
        """Return what can be chosen: the parameters of its `measure`."""
        return [key for key in signature(self.load().measure).parameters if key != "progress"]


def _read(package: Path) -> Study:
    """Read what a study's docstring says, without importing it: a summary, and after an empty line its question."""
    docstring = ast.get_docstring(ast.parse((package / "__init__.py").read_text(encoding="utf-8"))) or ""
    summary, _, question = docstring.partition("\n\n")
    return Study(package.name.replace("_", "-"), summary.removesuffix("."), " ".join(question.split()))


PACKAGES = sorted(file.parent for file in Path(__file__).parent.glob("*/__init__.py"))
STUDIES = {study.name: study for study in map(_read, PACKAGES)}
"""Every folder here that is a package is a study."""
