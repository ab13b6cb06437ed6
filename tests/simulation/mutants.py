"""Simulate days with broken code: `python -m tests.simulation.mutants --seed 1000 --count 50 --days 20`.

Mutants are drawn from what a day exercises, by the kinds of changes that mutmut makes: other numbers, texts,
comparisons and operators, arguments that are None or left out, assignments of None. Left out are those that change no
behaviour: what lines of the log say, and whether `zip` checks lengths, which are the same wherever it does. Each runs
in a process of its own, until a day violates something, ends by an error, or takes far too long; the others are
survivors.
"""

import argparse
import ast
import copy
import importlib
import inspect
import multiprocessing
from collections.abc import Callable, Iterator
from random import Random
from types import CodeType, FunctionType
from typing import Any, NamedTuple, cast

from tests.simulation.__main__ import silent
from tests.simulation.run import run_days

MODULES = (
    "join",
    "writer",
    "arms",
    "upkeep",
    "launches.changes",
    "launches.keeper",
    "launches.monitor",
    "launches.state",
    "launches.report",
)
"""Modules of `zoosim.serving`: joins, the writer, arms, what the service that leads does, and launches."""

FIRST_DAY = 1_000
SECONDS_PER_DAY = 60.0
"""Seconds after which a mutant is taken to hang."""

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Div,
    ast.Mod: ast.Div,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}


class Mutant(NamedTuple):
    """A change of a function: its module and its tree, the name, and what stands where what stood."""

    module: str
    tree: ast.Module
    function: str
    before: ast.expr
    after: ast.expr

    def __str__(self) -> str:
        """Return where it is, and what it changes."""
        before, after = (ast.unparse(node)[:100] for node in (self.before, self.after))
        return f"{self.module}:{self.before.lineno} {self.function}: {before!r} -> {after!r}"

    def code(self) -> CodeType:
        """Return the code of the function, changed."""
        own_tree = copy.deepcopy(self.tree, {id(self.before): self.before})  # which shares what is to be replaced
        changed = _Replace(self.before, ast.copy_location(self.after, self.before)).visit(own_tree)
        code = _find_code(
            compile(ast.fix_missing_locations(changed), "mutant", "exec", dont_inherit=True), self.function
        )
        assert code is not None
        return code


def mutants_of(module: str) -> Iterator[Mutant]:
    """Yield all mutants of a module."""
    path = f"zoosim.serving.{module}"
    tree = ast.parse(inspect.getsource(importlib.import_module(path)))
    for name, function in _functions(tree):
        docstring = function.body[0].value if ast.get_docstring(function) else None  # type: ignore[attr-defined]
        for statement in function.body:
            for node in _walk(statement):
                if node is docstring:
                    continue
                for changed in _changes(node):
                    yield Mutant(path, tree, name, cast("ast.expr", node), cast("ast.expr", changed))


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and all below it, but for those that no behaviour hangs on."""
    if isinstance(node, ast.keyword) and node.arg == "strict":
        return
    if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("logger."):
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _walk(child)


def _functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Yield functions and methods by qualified name."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef):
            yield from _functions(node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{prefix}{node.name}", node


def _changes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what may stand in place of a part of a function."""
    changed: Any = copy.copy(node)
    if isinstance(node, ast.Constant):
        if isinstance(node.value, bool):
            yield ast.Constant(not node.value)
        elif isinstance(node.value, int | float):
            yield ast.Constant(node.value + 1)
        elif isinstance(node.value, str):
            yield ast.Constant(f"XX{node.value}XX")
    elif isinstance(node, ast.Compare):
        changed.ops = [COMPARISONS[type(node.ops[0])](), *node.ops[1:]]
        yield changed
    elif isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        changed.op = OPERATORS[type(node.op)]()
        yield changed
    elif isinstance(node, ast.AugAssign):
        yield ast.fix_missing_locations(ast.copy_location(ast.Assign([node.target], node.value), node))
    elif isinstance(node, ast.BoolOp):
        changed.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield changed
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node.operand
    elif isinstance(node, ast.Assign):
        changed.value = ast.Constant(None)
        yield changed
    elif isinstance(node, ast.Call):
        yield from _changed_calls(node)
    elif isinstance(node, ast.Continue):
        yield ast.Break()


def _changed_calls(node: ast.Call) -> Iterator[ast.Call]:
    for place, argument in enumerate(node.args):
        if not isinstance(argument, ast.Starred):
            yield ast.Call(node.func, [*node.args[:place], ast.Constant(None), *node.args[place + 1 :]], node.keywords)
            yield ast.Call(node.func, [*node.args[:place], *node.args[place + 1 :]], node.keywords)


class _Replace(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self._old = old
        self._new = new

    def visit(self, node: ast.AST) -> Any:
        return self._new if node is self._old else self.generic_visit(node)


def _find_code(code: CodeType, name: str) -> CodeType | None:
    for part in code.co_consts:
        if isinstance(part, CodeType):
            if part.co_qualname == name:
                return part
            inner = _find_code(part, name)
            if inner is not None:
                return inner
    return None


def outcome_of(mutant: Mutant, days: int) -> str:
    """Return how a mutant was found; empty for a survivor."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_simulate, args=(mutant, days, sender.send))
    process.start()
    sender.close()
    outcome = "takes too long"
    if receiver.poll(days * SECONDS_PER_DAY):
        try:
            outcome = receiver.recv()
        except EOFError:
            outcome = "the process ended"
    process.kill()
    process.join()
    return outcome


def _simulate(mutant: Mutant, days: int, send: Callable[[str], None]) -> None:
    _function_of(mutant).__code__ = mutant.code()
    with silent():
        for seed in range(FIRST_DAY, FIRST_DAY + days):
            try:
                violations = run_days([seed]).violations
            except Exception as error:
                violations = [repr(error)]
            if violations:
                send(f"day {seed - FIRST_DAY + 1}: {violations[0]}")
                return
    send("")


def _function_of(mutant: Mutant) -> FunctionType:
    owner: Any = importlib.import_module(mutant.module)
    for part in mutant.function.split("."):
        owner = inspect.getattr_static(owner, part)
    for attribute in ("fget", "__func__", "__wrapped__"):
        owner = getattr(owner, attribute, None) or owner
    function: FunctionType = owner
    return function


def main() -> None:
    """Print which mutants are found, and the survivors."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.mutants", description=__doc__)
    parser.add_argument("--seed", type=int, default=1_000, help="of the draw of mutants [default: 1000]")
    parser.add_argument("--count", type=int, default=50, help="mutants [default: 50]")
    parser.add_argument("--days", type=int, default=20, help="days in which each may be found [default: 20]")
    options = parser.parse_args()
    with silent():
        run_days([0, 1])  # so that what is made once is made before processes are forked
    every = [mutant for module in MODULES for mutant in mutants_of(module)]
    survivors = 0
    for mutant in Random(options.seed).sample(every, options.count):
        outcome = outcome_of(mutant, options.days)
        survivors += not outcome
        print(mutant)
        print(f"    {outcome[:160] or 'SURVIVES'}", flush=True)
    print(f"{options.count - survivors} of {options.count} found within {options.days} days, of {len(every):,} mutants")


if __name__ == "__main__":
    main()
