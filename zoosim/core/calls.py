"""The common part of public calls: check arguments' names, take one policy for a list of one, show progress."""

import inspect
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from zoosim.core.errors import ArgumentError, ConfigError
from zoosim.core.extras import missing_extra
from zoosim.core.parameters import unknown

Parameters = ParamSpec("Parameters")
Returned = TypeVar("Returned")

LISTS = ("policies", "extra")
"""Arguments that are lists, for which one policy alone may be given."""

# Not a plain global: another thread may make a long call while this one imports a file.
_is_importing: ContextVar[bool] = ContextVar("_is_importing", default=False)


class CalledWhileImported(ConfigError):
    """A file of the user's makes a long call where only its classes were asked for."""


def automatic_progress(line: str) -> None:
    """Stand for the default of `progress`: a line on standard error where somebody sits before it."""


def no_progress(line: str) -> None:
    """Show nothing."""


def public_call(function: Callable[Parameters, Returned]) -> Callable[Parameters, Returned]:
    """Decorate a public function.

    A call with wrong arguments raises `ArgumentError`, one line that names those which are known. One policy alone is
    taken for a list of one. `progress` is shown on a terminal and in a notebook unless it is None or False, or a
    function that takes the lines. Calls that have it may take long: while a file of the user's is imported, they raise
    `CalledWhileImported`. Where a package of an extra is missing, a `ConfigError` says which extra to install.
    """
    signature = inspect.signature(function)
    takes_long = "progress" in signature.parameters
    shows_lines = takes_long and signature.parameters["progress"].default is automatic_progress

    @wraps(function)
    def checked(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Returned:
        if takes_long and _is_importing.get():
            raise CalledWhileImported(f"calls zoosim.{function.__name__} while it is imported")
        bound = _bind(function.__name__, signature, args, kwargs)
        bound.apply_defaults()
        arguments = bound.arguments
        for name in LISTS:
            if name in arguments and _is_single(arguments[name]):
                arguments[name] = [arguments[name]]
        try:
            if not shows_lines:
                return function(*bound.args, **bound.kwargs)
            with _shown(arguments["progress"]) as progress:
                arguments["progress"] = progress
                return function(*bound.args, **bound.kwargs)
        except ModuleNotFoundError as error:
            refusal = missing_extra(error)
            if refusal is None:
                raise
            raise refusal from error

    return checked


@contextmanager
def importing() -> Iterator[None]:
    """Refuse public calls: a file of the user's is imported for the classes in it."""
    before = _is_importing.set(True)
    try:
        yield
    finally:
        _is_importing.reset(before)


def check_names(call: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raise `ArgumentError` for the first name of an argument that is not known."""
    names = list(known)
    for name in given:
        if name not in names:
            raise ArgumentError(unknown(f"{call}: unknown argument", name, names))


def _bind(
    call: str, signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> inspect.BoundArguments:
    parameters = signature.parameters.values()
    if not any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters):
        check_names(call, kwargs, signature.parameters)
    try:
        return signature.bind(*args, **kwargs)
    except TypeError as error:
        expected = ", ".join(
            f"{parameter.name}=..." if parameter.kind is inspect.Parameter.KEYWORD_ONLY else parameter.name
            for parameter in parameters
        )
        raise ArgumentError(f"{call}: {error}; expected {call}({expected})") from None


def _is_single(value: Any) -> bool:
    """Return whether a value is one policy, not a list of them; numbers and None are neither."""
    if value is None or isinstance(value, int | float):
        return False
    return isinstance(value, str | os.PathLike) or not isinstance(value, Iterable)


def _shown(progress: Any) -> Any:
    """Return a context with the function that takes lines of progress."""
    if progress is None or progress is False:
        return nullcontext(no_progress)
    if progress is not automatic_progress and progress is not True:
        return nullcontext(progress)
    from zoosim.core.status_line import automatic_line

    return automatic_line()
