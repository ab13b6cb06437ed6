"""Compile a function that other compiled code calls as a part of its callers, in less than half of the time.

For every function, also one that only compiled code calls, numba optimises and makes machine code of all that it calls
in turn, and wrappers that let Python call it. A part has neither: its code is linked into the function that Python
calls, its entry, and optimised and made machine code there, once.

This is numba's own way to change how it compiles (`pipeline_class`); its inner classes that are used here are in numba
0.61 to 0.68.
"""

import gc
from typing import Any, ClassVar

import llvmlite.binding as llvm
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, CompileResult, DefaultPassBuilder, _LowerResult
from numba.core.compiler_machinery import LoweringPass, register_pass
from numba.core.funcdesc import PythonFunctionDescriptor
from numba.core.typed_passes import NativeLowering

from zoosim.core.kernel_lowering import LendingLower

FEWEST_NEW = 50_000
"""New objects after which garbage is looked for while a function is compiled: hardly any of them are garbage."""


class KernelCompiler(CompilerBase):
    """Numba's compiler with `lowering` as its last step."""

    lowering: ClassVar[Any]

    def compile_extra(self, func: Any) -> Any:
        """Compile a function; garbage is looked for seldom meanwhile, which takes a twentieth of the time else."""
        thresholds = gc.get_threshold()
        if thresholds[0]:  # 0: it is not looked for at all
            gc.set_threshold(max(thresholds[0], FEWEST_NEW), *thresholds[1:])
        try:
            return super().compile_extra(func)  # type: ignore[no-untyped-call]
        finally:
            gc.set_threshold(*thresholds)

    def define_pipelines(self) -> list[Any]:
        """Return numba's steps with the last one replaced."""
        pipeline: Any = DefaultPassBuilder.define_nopython_pipeline(self.state)  # type: ignore[no-untyped-call]
        pipeline.passes = [(self.lowering if step is NativeLowering else step, text) for step, text in pipeline.passes]
        pipeline.finalize()
        return [pipeline]


@register_pass(mutates_CFG=True, analysis_only=False)  # type: ignore[no-untyped-call]
class _Lowering(NativeLowering):
    """Does what numba's `NativeLowering` does, with less LLVM code."""

    _name = "zoosim_lowering"

    @property
    def lowering_class(self) -> Any:
        """The class that makes LLVM code of a function."""
        return LendingLower


class EntryCompiler(KernelCompiler):
    """Compiles what Python calls."""

    lowering = _Lowering


class _PartLibrary(JITCodeLibrary):
    """The code of a part and of the parts that it calls, neither optimised nor made machine code."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()  # type: ignore[no-untyped-call]
        self._finalized = True


@register_pass(mutates_CFG=True, analysis_only=False)  # type: ignore[no-untyped-call]
class _PartLowering(LoweringPass):
    """Does what numba's `NativeLowering` does, but for machine code and wrappers."""

    _name = "zoosim_part_lowering"

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def run_pass(self, state: Any) -> bool:
        """Make LLVM code of a typed function, and let numba know of it."""
        context = state.targetctx
        library: Any = _PartLibrary(context.codegen(), state.func_id.func_qualname)  # type: ignore[no-untyped-call]
        description = PythonFunctionDescriptor.from_specialized_function(  # type: ignore[no-untyped-call]
            state.func_ir,
            state.typemap,
            state.return_type,
            state.calltypes,
            mangler=context.mangler,
            inline=state.flags.forceinline,
            noalias=state.flags.noalias,
            abi_tags=[state.flags.get_mangle_string()],
        )
        with context.push_code_library(library):
            lower = LendingLower(context, library, description, state.func_ir, metadata=state.metadata)
            lower.lower()
        key = _new_entry_point()
        context.insert_user_function(key, description, [library])
        state.library = library
        state.reload_init.extend(library._reload_init)
        state["cr"] = _LowerResult(description, lower.call_helper, cfunc=key, env=lower.env)
        return True


class PartCompiler(KernelCompiler):
    """Compiles what compiled code alone calls."""

    lowering = _PartLowering


def reduce_part(compiled: Any) -> dict[str, Any]:
    """Return what can be pickled of a compiled part: its code in LLVM, that of the parts it calls linked in."""
    library = compiled.library
    library._ensure_finalized()
    description = compiled.fndesc
    description.typemap = description.calltypes = None  # for lowering alone; numba drops them of kernels, too
    return {
        "name": library.name,
        "bitcode": library._final_module.as_bitcode(),
        "reload_init": tuple(library._reload_init),
        "fndesc": description,
        "environment": compiled.environment,
        "signature": compiled.signature,
        "referenced_envs": tuple(compiled._find_referenced_environments()),
    }


def rebuild_part(target_context: Any, reduced: dict[str, Any]) -> Any:
    """Return the compiled part that `reduce_part` was given."""
    for function in reduced["reload_init"]:
        function()
    library: Any = _PartLibrary(target_context.codegen(), reduced.pop("name"))  # type: ignore[no-untyped-call]
    library._final_module = llvm.parse_bitcode(reduced.pop("bitcode"))
    library._reload_init.update(reduced["reload_init"])
    library._finalize_final_module()
    return CompileResult(  # type: ignore[call-arg]
        typing_context=target_context.typing_context,
        target_context=target_context,
        library=library,
        entry_point=_new_entry_point(),
        type_annotation=None,
        objectmode=False,
        lifted=(),
        typing_error=None,
        call_helper=None,
        metadata=None,
        **reduced,
    )


def _new_entry_point() -> Any:
    """Return what numba finds the code of a part by.

    It takes a built-in function and no other object. Nothing ever calls it: it serves as a key. A list's bound method
    is one that no other part has, since it is hashed by the identity of its list; numba's registry keeps both alive.
    """
    return list[None]().append
