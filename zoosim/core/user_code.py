"""Classes that users write: find them as FILE.py:Class, and hash their code."""

import importlib.util
import marshal
import sys
import types
from contextlib import chdir, suppress
from pathlib import Path
from typing import Any

from zoosim.core.blame import reason_of, source_file, user_place
from zoosim.core.calls import CalledWhileImported, importing
from zoosim.core.digests import short_digest
from zoosim.core.errors import ZoosimError
from zoosim.core.files import place_of, read_content, resolved
from zoosim.core.parameters import unknown
from zoosim.core.sources import PACKAGE, imports_of, source_digest


def is_file_source(source: str) -> bool:
    """Return whether a name stands for a class in a file of the user's."""
    return ":" in source or source.endswith(".py")


def class_in_file(source: str, what: str, error: type[ZoosimError]) -> type:
    """Return the class `FILE.py:Class`.

    Args:
        source: The file's path, a colon, and the name of the class.
        what: What the class is called in messages, such as "policy".
        error: What to raise where there is no such class.
    """
    file, _, name = source.rpartition(":")
    if not name or not file.endswith(".py"):
        raise error(f"{what} file: got {source!r}, expected FILE.py:Class")
    path = resolved(place_of(file))
    if not path.is_file():
        raise error(f"{what} file: {file} is not there; give the path of a Python file")
    module = _import_file(path, what, error)
    if not hasattr(module, name):
        classes = [key for key, value in vars(module).items() if isinstance(value, type) and not key.startswith("_")]
        raise error(unknown(f"{what} file: {file} has no class", name, classes))
    cls = getattr(module, name)
    if not isinstance(cls, type):
        raise error(f"{what} file: {name} in {file} is a {type(cls).__name__}, expected a class")
    return cls


def file_source(cls: type) -> str | None:
    """Return `FILE.py:Class` of a class that `class_in_file` found, None of any other."""
    module: Any = sys.modules.get(cls.__module__)
    return f"{module.__file__}:{cls.__name__}" if hasattr(module, "__source_digest__") else None


def _import_file(path: Path, what: str, error: type[ZoosimError]) -> Any:
    """Import a file once for each content that it has."""
    try:
        digest = short_digest(read_content(path))
    except OSError as problem:
        raise error(f"{what} file: {path.name} cannot be read ({problem.strerror})") from None
    module_name = f"zoosim_user_{path.stem}_{short_digest(f'{path} {digest}')}"
    if module_name in sys.modules:
        return sys.modules[module_name]
    spec = importlib.util.spec_from_file_location(module_name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    module.__dict__["__source_digest__"] = digest  # for `code_digest`
    # Before its code runs: dataclasses look their module up by name.
    sys.modules[module_name] = module
    # At the end, so that no file of the user's hides a library of the same name.
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))  # modules beside the file
    try:
        # The file may change the working directory: here it is put back.
        with chdir("."), importing():
            spec.loader.exec_module(module)
    except CalledWhileImported as problem:
        del sys.modules[module_name]
        where = _place(problem, path)
        raise error(f'{what} file: {where} {problem}; put that below `if __name__ == "__main__":`') from None
    except (Exception, SystemExit) as problem:
        del sys.modules[module_name]
        raise error(f"{what} file: {_place(problem, path)} does not import: {reason_of(problem)}") from problem
    return module


def _place(error: BaseException, path: Path) -> str:
    if isinstance(error, SyntaxError) and error.lineno:
        return f"{path.name}:{error.lineno}"
    return user_place(error, str(path)) or path.name


def code_digest(cls: type) -> str:
    """Hash a class's code with what it uses of zoosim, so that edited code is not taken for the old."""
    ours = {base.__module__ for base in cls.__mro__ if base.__module__.startswith(f"{PACKAGE}.")}
    if cls.__module__ in ours:
        return f"{cls.__qualname__} {source_digest(cls.__module__)}"
    content = _content(cls)
    with suppress(SyntaxError, ValueError):  # no source, but compiled methods
        ours |= imports_of(content)
    imported = getattr(sys.modules.get(cls.__module__), "__source_digest__", "")
    own = imported or short_digest(content)
    return f"{cls.__qualname__} {own} {source_digest(*sorted(ours))}"


def _content(cls: type) -> bytes:
    """Return the file that a class stands in, else its compiled methods."""
    file = source_file(cls)
    return Path(file).read_bytes() if file and Path(file).is_file() else _code(cls)


def _code(cls: type) -> bytes:
    """Return the compiled methods of a class that stands in no file, such as one typed into a notebook."""
    methods = (value for value in vars(cls).values() if isinstance(value, types.FunctionType))
    return repr(cls).encode() + b"".join(marshal.dumps(method.__code__) for method in methods)
