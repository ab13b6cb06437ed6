"""Hash the source code that a module runs: its own and that of every module it imports.

What is kept on disk (compiled kernels, arrays that take long, trials) is keyed by these digests, so an edit makes anew
what it can change, and nothing else. Two copies of the package with equal sources have equal digests.

To parse all files takes half a second, so their outlines are kept on disk, too, by a digest of their content.
"""

import ast
import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from importlib.util import find_spec, resolve_name
from pathlib import Path
from typing import NamedTuple, TypeGuard

from zoosim.core.digests import content_digest, short_digest
from zoosim.core.files import cache_folder
from zoosim.core.private_folder import make_private, read_sealed, write_sealed

PACKAGE = __name__.partition(".")[0]

BLOCKS = ("body", "orelse", "handlers", "finalbody", "cases")
"""Fields of a statement that hold inner statements."""


class Import(NamedTuple):
    """An import statement: `from source import names`, with as many dots as `level` before the source.

    Each name comes with what it is called here. Of `import name` the source is None.
    """

    source: str | None
    level: int
    names: list[list[str]]


class Outline(NamedTuple):
    """The outline of one source file: a `digest` of its code, its imports, and those whose names it passes on."""

    digest: str
    imports: list[Import]
    passed_on: list[Import]


class Source(NamedTuple):
    """The `digest` of one module's own code, and the modules of the package that it `imports`."""

    digest: str
    imports: frozenset[str]


@cache
def source_digest(*modules: str) -> str:
    """Hash the code of modules and of all that they import, within zoosim and within their own packages.

    Docstrings and comments do not count, nor do imports for type checkers only. A package's `__init__` counts where a
    name of its own is taken from it, not where a module is found through it, or a module's name is passed on. Modules
    named by strings are not seen: name them here.

    Args:
        modules: Full names, such as `zoosim.linear.ridge`.

    Returns:
        16 hexadecimal digits. They depend on the Python version, since its syntax tree is what is hashed.

    Raises:
        ModuleNotFoundError: One of the modules, or one that they import, has no source file.
    """
    closure = {name: _read(name).digest for name in closure_of(*modules)}
    return short_digest(repr(sorted(closure.items())))


@cache
def package_digest() -> str:
    """Hash all source files of zoosim, comments included: equal where two machines have the same code."""
    folder = Path(str(_file_of(PACKAGE))).parent
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.py"))
    return short_digest(*(f"{name} {content_digest((folder / name).read_bytes())}\n" for name in names))


@cache
def closure_of(*modules: str) -> frozenset[str]:
    """Return the names of modules and of all that they import, directly or through others."""
    found: set[str] = set()
    waiting = list(modules)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += _read(name).imports
    return frozenset(found)


def imports_of(code: bytes) -> frozenset[str]:
    """Return the modules of zoosim that code outside of it imports; raises `SyntaxError` or `ValueError`."""
    tree = ast.parse(code)
    statements = list(_statements(tree))
    found = set(_imported(_imports_among(statements), "", {PACKAGE}))
    if PACKAGE not in found:
        return frozenset(found)
    # `import zoosim` means all of it, unless only names that it passes on are used: `zoosim.Policy`.
    imports = [statement for statement in statements if isinstance(statement, ast.Import)]
    own_names = {alias.asname or alias.name for each in imports for alias in each.names if alias.name == PACKAGE}
    nodes = list(ast.walk(tree))
    uses = [node for node in nodes if isinstance(node, ast.Name) and node.id in own_names]
    attributes = [node.attr for node in nodes if isinstance(node, ast.Attribute) and node.value in uses]
    homes = _passed_on(PACKAGE)
    if len(attributes) < len(uses) or not homes.keys() >= set(attributes):
        return frozenset(found)
    return frozenset(found - {PACKAGE} | {homes[name] for name in attributes})


@cache
def _read(module: str) -> Source:
    path = _file_of(module)
    if path is None:
        raise ModuleNotFoundError(f"module {module}: there is no source file of it to hash", name=module)
    outline = _outline_of(path)
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    followed = {PACKAGE, module.partition(".")[0]}
    return Source(outline.digest, frozenset(_imported(outline.imports, package, followed)))


@cache
def _outline_of(path: Path) -> Outline:
    """Return a file's outline: the one that is kept where there is one, else it is made and kept."""
    content = path.read_bytes()
    name = content_digest(_made_by(), content)
    kept = cache_folder() / "outlines" / name
    is_usable = _is_usable(kept.parent)
    with suppress(OSError, ValueError):
        if is_usable:
            return _parse(read_sealed(kept))
    outline = _outline(content)
    with suppress(OSError):
        if is_usable:
            write_sealed(kept, json.dumps(outline).encode())
    return outline


@cache
def _is_usable(folder: Path) -> bool:
    """Return whether outlines may be kept in a folder, which is looked at once and not for each file."""
    return make_private(folder)


@cache
def _made_by() -> bytes:
    """Return what outlines depend on besides a file: the Python version, and the code here."""
    return sys.version.encode() + Path(__file__).read_bytes()


def _parse(text: bytes) -> Outline:
    """Return the outline that was kept as JSON."""
    digest, *imports = json.loads(text)
    return Outline(digest, *([Import(*each) for each in part] for part in imports))


def _outline(code: bytes) -> Outline:
    tree = ast.parse(code)
    late = [inner for statement in tree.body if _is_for_type_checkers(statement) for inner in statement.body]
    passed_on = [each for each in _imports_among([*tree.body, *late]) if each.source is not None]
    imports = list(_imports_among(_statements(tree)))
    # The tree has lost its docstrings by now.
    return Outline(content_digest(ast.dump(tree)), imports, passed_on)


def _imports_among(statements: Iterable[ast.AST]) -> Iterator[Import]:
    for statement in statements:
        if isinstance(statement, ast.Import):
            yield Import(None, 0, _names(statement))
        elif isinstance(statement, ast.ImportFrom):
            yield Import(statement.module or "", statement.level, _names(statement))


def _names(statement: ast.Import | ast.ImportFrom) -> list[list[str]]:
    return [[alias.name, alias.asname or alias.name] for alias in statement.names]


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the statements in a node, however deep, having taken from it those that do nothing when it runs."""
    for name in BLOCKS:
        block = getattr(node, name, [])
        block[:] = [child for child in block if not _is_text(child)]
        for child in block:
            if _is_for_type_checkers(child):
                child.body.clear()
            yield child
            yield from _statements(child)


def _is_for_type_checkers(statement: ast.AST) -> TypeGuard[ast.If]:
    return isinstance(statement, ast.If) and ast.unparse(statement.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def _is_text(statement: ast.AST) -> bool:
    """Return whether a statement is a docstring, or a string that describes a constant."""
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Constant):
        return False
    return isinstance(statement.value.value, str)


def _imported(imports: Iterable[Import], package: str, followed: set[str]) -> Iterator[str]:
    """Yield the modules of the packages `followed` that a module of `package` imports."""
    for each in imports:
        if each.source is None:
            yield from (name for name, _ in each.names if name.partition(".")[0] in followed)
        else:
            source = _source_of(each, package)
            if source.partition(".")[0] in followed:
                yield from (_home_of(source, name) for name, _ in each.names)


def _source_of(imported: Import, package: str) -> str:
    """Return the full name of what `from source import ...` takes names from."""
    source = imported.source or ""
    return resolve_name("." * imported.level + source, package) if imported.level and package else source


def _home_of(source: str, name: str) -> str:
    """Return the module behind `from source import name`: `name` is one, or `source` has it from one, or is one."""
    inner = f"{source}.{name}"
    if _file_of(inner) is not None:
        return inner
    return _passed_on(source).get(name, source)


@cache
def _passed_on(module: str) -> dict[str, str]:
    """Return for each name that a package's `__init__` imports from its modules the one that has it.

    Names that it imports when they are first used count too: type checkers are told of them.
    """
    path = _file_of(module)
    if path is None or path.name != "__init__.py":
        return {}
    homes: dict[str, str] = {}
    for each in _outline_of(path).passed_on:
        source = _source_of(each, module)
        if source.partition(".")[0] == module.partition(".")[0]:
            homes |= {here: _home_of(source, name) for name, here in each.names}
    return homes


@cache
def _file_of(module: str) -> Path | None:
    """Return a module's source file without importing it or what it lies in, None where there is none."""
    top, *parts = module.split(".")
    spec = find_spec(top)
    if spec is None:
        return None
    if not parts:
        return Path(str(spec.origin)) if spec.has_location else None
    # Looked up by hand below the top: `find_spec` of an inner name imports the packages that it lies in.
    for folder in spec.submodule_search_locations or ():
        place = Path(folder, *parts)
        for path in (place.with_suffix(".py"), place / "__init__.py"):
            if path.is_file():
                return path
    return None
