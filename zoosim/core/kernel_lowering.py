"""Make LLVM code of typed functions, a third as long as numba's own, for functions that are handed tuples of arrays.

Numba takes a state of forty arrays apart into some 300 numbers at each call, puts these together again in the function
that is called, counts each array up and down wherever its name is mentioned, and leaves it to LLVM to find out that
nothing of this is needed. Here:

- An argument, and whatever is an element of it, is what was handed in wherever it is named: it is stored nowhere.
- It is not counted: the caller holds it until the function returns. Nor are views of it, and tuples of such.
- An element of a tuple that was just put together is the value that was put there; what is then needed by nothing goes.

This makes no difference to any number that a function computes. Inner classes of numba are used; those named here are
in numba 0.61 to 0.68.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from llvmlite.ir import IRBuilder
from llvmlite.ir.instructions import ExtractValue, InsertValue, PhiInstr
from numba.core import ir, lowering, types

Lower: Any = lowering.Lower  # it has no types


class LendingLower(Lower):  # type: ignore[misc]
    """Numba's step from typed functions to LLVM code, where arguments are lent to the function that is called."""

    context: Any

    def init(self) -> None:
        """Find the variables that are parts of arguments, or hold views of them."""
        self._parts: dict[str, Any] = {}  # names of arguments and their elements -> how they are defined
        self._views: set[str] = set()  # names of what shares the memory of arguments
        self._part_values: dict[str, Any] = {}
        self._uncounted: Any = self.context.subtarget(enable_nrt=False)
        if self.generator_info is None:
            self._find_lent()
        super().init()

    def setup_function(self, fndesc: Any) -> None:
        """Begin a function, with a builder of instructions that looks into tuples."""
        super().setup_function(fndesc)
        self.builder = _Builder(self.entry_block)
        self.call_helper = self.call_conv.init_call_helper(self.builder)

    def lower_normal_function(self, fndesc: Any) -> None:
        """Make the code of a function, without what nothing needs."""
        super().lower_normal_function(fndesc)
        _drop_unused(self.function)

    def lower_inst(self, inst: Any) -> Any:
        """Make the code of one statement."""
        if isinstance(inst, ir.Assign):
            if inst.target.name in self._parts:
                return None
            if inst.target.name in self._views:
                with self._without_counting():
                    return super().lower_inst(inst)
        if isinstance(inst, ir.Del) and (inst.value in self._parts or inst.value in self._views):
            return None
        return super().lower_inst(inst)

    def loadvar(self, name: str) -> Any:
        """Return the value of a variable."""
        return self._part_value(name) if name in self._parts else super().loadvar(name)

    def _alloca_var(self, name: str, fetype: Any) -> None:
        if name not in self._parts:
            super()._alloca_var(name, fetype)

    @contextmanager
    def _without_counting(self) -> Iterator[None]:
        counted = self.context
        self.context = self._uncounted
        try:
            yield
        finally:
            self.context = counted

    def _part_value(self, name: str) -> Any:
        """Return the value of an argument or an element of one, which is known where the function begins."""
        if name not in self._part_values:
            definition = self._parts[name]
            if isinstance(definition, ir.Arg):
                value = self.fnargs[definition.index]
            elif isinstance(definition, ir.Var):
                value = self._part_value(definition.name)
            else:
                whole = self._part_value(definition.value.name)
                place = _place(self.typeof(definition.value.name), definition)
                with self.builder.goto_block(self.entry_block):
                    value = self.builder.extract_value(whole, place)
            self._part_values[name] = value
        return self._part_values[name]

    def _find_lent(self) -> None:
        definitions = defaultdict(list)
        for block in self.func_ir.blocks.values():
            for statement in block.find_insts(ir.Assign):
                definitions[statement.target.name].append(statement.value)
        # A name that is assigned in several places may hold something else after one of them.
        once = {name: found[0] for name, found in definitions.items() if len(found) == 1}
        # Until nothing is added: a name may be made of another one that comes later in this order.
        is_growing = True
        while is_growing:
            size = len(self._parts) + len(self._views)
            for name, definition in once.items():
                if name in self._parts or name in self._views:
                    continue
                if self._is_part(name, definition):
                    self._parts[name] = definition
                elif self._is_view(name, definition):
                    self._views.add(name)
            is_growing = len(self._parts) + len(self._views) > size

    def _is_part(self, name: str, definition: Any) -> bool:
        """Return whether a variable is an argument, or an element of an argument."""
        if isinstance(definition, ir.Arg):
            return bool(self.typeof(f"arg.{definition.name}") == self.typeof(name))
        if isinstance(definition, ir.Var):
            return definition.name in self._parts and bool(self.typeof(definition.name) == self.typeof(name))
        if not isinstance(definition, ir.Expr) or definition.op not in ("getattr", "static_getitem"):
            return False
        if definition.value.name not in self._parts:
            return False
        whole = self.typeof(definition.value.name)
        place = _place(whole, definition)
        return place is not None and bool(whole[place] == self.typeof(name))

    def _is_view(self, name: str, definition: Any) -> bool:
        """Return whether a variable holds nothing counted but arrays that share the memory of arguments."""
        own = self.typeof(name)
        if not self._is_counted(own):
            return False
        if isinstance(definition, ir.Var):
            return self._is_lent(definition.name)
        if not isinstance(definition, ir.Expr):
            return False
        if definition.op in ("getitem", "static_getitem"):
            whole = self.typeof(definition.value.name)
            index = definition.index if definition.op == "getitem" else definition.index_var
            # Numbers and slices give a view; an array of indices, which is counted, gives a copy that owns its memory.
            is_basic = index is not None and not self._is_counted(self.typeof(index.name))
            is_array = isinstance(whole, types.Array) and isinstance(own, types.Array)
            return is_array and is_basic and self._is_lent(definition.value.name)
        if definition.op == "getattr":
            whole = self.typeof(definition.value.name)
            return isinstance(whole, types.BaseTuple) and self._is_lent(definition.value.name)
        if definition.op == "build_tuple":
            return all(self._is_lent(item.name) for item in definition.items)
        if definition.op == "call" and isinstance(self.typeof(definition.func.name), types.NamedTupleClass):
            inputs = [*definition.args, *(value for _, value in definition.kws)]
            return definition.vararg is None and all(self._is_lent(item.name) for item in inputs)
        return False

    def _is_lent(self, name: str) -> bool:
        return name in self._parts or name in self._views or not self._is_counted(self.typeof(name))

    def _is_counted(self, own: Any) -> bool:
        return bool(self.context.data_model_manager[own].contains_nrt_meminfo())


class _Builder(IRBuilder):  # type: ignore[misc]
    """Makes instructions; what was put into a tuple is found there without one."""

    def extract_value(self, agg: Any, idx: Any, name: str = "") -> Any:
        """Return an element of a tuple."""
        path = list(idx) if isinstance(idx, tuple | list) else [idx]
        # Back through what was put into the tuple: what was put just there, or holds it, is the answer; what was put
        # elsewhere is passed over.
        while path and isinstance(agg, InsertValue):
            inserted = list(agg.indices)
            if inserted == path[: len(inserted)]:
                agg = agg.value
                path = path[len(inserted) :]
            elif path == inserted[: len(path)]:
                break  # a part of what is asked for was put there
            else:
                agg = agg.aggregate
        return super().extract_value(agg, path, name) if path else agg


def _place(whole: Any, definition: Any) -> int | None:
    """Return the place in a tuple that an expression reads, None where it reads something else."""
    if not isinstance(whole, types.BaseTuple):
        return None
    if definition.op == "getattr":
        fields = getattr(whole, "fields", ())
        return fields.index(definition.attr) if definition.attr in fields else None
    place = definition.index
    return place if isinstance(place, int) and 0 <= place < len(whole) else None


def _drop_unused(function: Any) -> None:
    """Take instructions out of a function that put tuples together, or apart, for nothing."""
    uses: Counter[int] = Counter()
    for block in function.blocks:
        for instruction in block.instructions:
            uses.update(map(id, _inputs(instruction)))
    # From the end: what only an unused instruction needs has lost its last use by the time that it is reached.
    for block in reversed(function.blocks):
        kept = []
        for instruction in reversed(block.instructions):
            if isinstance(instruction, InsertValue | ExtractValue) and not uses[id(instruction)]:
                uses.subtract(map(id, _inputs(instruction)))
            else:
                kept.append(instruction)
        block.instructions[:] = reversed(kept)


def _inputs(instruction: Any) -> list[Any]:
    if isinstance(instruction, PhiInstr):
        return [value for value, _ in instruction.incomings]
    return list(instruction.operands)
