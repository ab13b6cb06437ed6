"""A contract as a list of checks, asked one after another: of policies and of worlds."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from zoosim.core.blame import reason_of, source_file, user_place


class ContractViolation(Exception):
    """A policy or a world does not keep its contract; the message says in one line where and what was expected."""


def must(holds: Any, message: str) -> None:
    """Refuse where something does not hold.

    Args:
        holds: What is to be true.
        message: One line that says where, and what was expected.

    Raises:
        ContractViolation: `holds` is not true.
    """
    if not holds:
        raise ContractViolation(message)


@dataclass(frozen=True)
class Check:
    """One question about a class; `run` raises `ContractViolation` when the answer is no.

    A check is asked when all that it `needs` went well: a policy that cannot be made is not told so twelve times.
    """

    name: str
    run: Callable[[Any], None]
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class CheckResult:
    """The result of a check; one that was not `asked`, because one before it failed, is not `ok` either."""

    name: str
    ok: bool
    message: str = ""
    asked: bool = True


def ask_checks(
    checks: Sequence[Check], subject: Any, asking: Callable[[str], None] = lambda name: None
) -> list[CheckResult]:
    """Ask checks in their order, but not those that need one that failed.

    Args:
        checks: What is asked.
        subject: What it is asked about; `subject.cls` is the class.
        asking: Called with the name of each check before it is asked.

    Returns:
        One result per check, in their order.
    """
    results = dict[str, CheckResult]()
    for check in checks:
        failed = [name for name in check.needs if not results[name].ok]
        if failed:
            message = f"not asked: it needs {failed[0]!r}, which failed"
            results[check.name] = CheckResult(check.name, False, message, asked=False)
            continue
        asking(check.name)
        try:
            run_check(check, subject)
            results[check.name] = CheckResult(check.name, True)
        except ContractViolation as violation:
            results[check.name] = CheckResult(check.name, False, str(violation))
    return list(results.values())


def run_check(check: Check, subject: Any) -> None:
    """Ask one check.

    Args:
        check: What is asked.
        subject: What it is asked about; `subject.cls` is the class.

    Raises:
        ContractViolation: the answer is no, or the subject raised something; the place in its file is named.
    """
    try:
        check.run(subject)
    except ContractViolation:
        raise
    except (Exception, SystemExit) as error:
        place = user_place(error, source_file(subject.cls))
        raise ContractViolation(f"{place}: {reason_of(error)}" if place else reason_of(error)) from error
