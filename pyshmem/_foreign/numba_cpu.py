# SPDX-License-Identifier: BSD-3-Clause
"""What of Numba's compiler for CPUs is replaced: machine code is made of whole kernels only.

Numba's CPU optimises and assembles every function that another one calls, and links what that calls
into each of them. A device routine is some sixty functions, of which nobody calls one alone: here they
stay what the front end made of them until a kernel's launcher takes them all. Seen in Numba 0.68.1.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import llvmlite.binding as ll
from numba import _dynfunc
from numba.core import (
    callconv,
    cgutils,
    codegen,
    compiler,
    compiler_machinery,
    cpu,
    ir,
    lowering,
    typed_passes,
)
from numba.np import numpy_support

from .hooks import Hook

HOOKS = (
    Hook(codegen.JITCodeLibrary, "add_llvm_module", "self ll_module"),
    Hook(codegen.JITCodeLibrary, "finalize", "self"),
    Hook(codegen.JITCodeLibrary, "_optimize_final_module", "self"),
    Hook(codegen.JITCodeLibrary, "_finalize_final_module", "self"),
    Hook(codegen.JITCodeLibrary, "_get_compiled_object", "self"),
    Hook(codegen.JITCPUCodegen, "_library_class"),
    Hook(codegen.JITCPUCodegen, "set_env", "self env_name env"),
    Hook(cpu.CPUContext, "get_executable", "self library fndesc env"),
    Hook(callconv.CPUCallConv, "_get_return_status", "self builder code excinfoptr"),
    Hook(numpy_support, "FROM_DTYPE"),
    Hook(cgutils, "do_boundscheck", "context builder ind dimlen axis"),
    Hook(lowering.Lower, "lower_inst", "self inst"),
    Hook(typed_passes.NativeLowering, "lowering_class"),
    Hook(compiler.DefaultPassBuilder, "define_nopython_pipeline", "state"),
)


class KernelLibrary(codegen.JITCodeLibrary):  # type: ignore[misc]
    """The functions of one compilation. ``assemble`` makes a launcher of it, with all that it calls."""

    def add_llvm_module(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout
        self._final_module.link_in(ll_module)

    def finalize(self) -> None:
        self._raise_if_finalized()
        self._finalized = True

    def _reached(self) -> list[Any]:
        """The libraries that it calls, each once."""
        found: dict[int, Any] = {}
        waiting = list(self._linking_libraries)
        while waiting:
            library = waiting.pop()
            if id(library) not in found and library is not self:
                found[id(library)] = library
                waiting.extend(library._linking_libraries)
        return list(found.values())

    def assemble(self) -> None:
        """Link, optimise and load it."""
        for library in self._reached():
            module = ll.parse_bitcode(library._final_module.as_bitcode())
            for function in module.functions:
                if not function.is_declaration and function.linkage == ll.Linkage.external:
                    function.linkage = "linkonce_odr"
            self._final_module.link_in(module)
        # Names are unique in a process, and what is loaded from the store was named in another one.
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage == ll.Linkage.linkonce_odr:
                function.linkage = "internal"
        self._optimize_final_module()
        self._final_module.verify()
        self._finalize_final_module()

    def _optimize_final_module(self) -> None:
        passes, builder = self._codegen._module_pass_manager()
        with self._recorded_timings.record("Module passes", builder):
            passes.run(self._final_module, builder)


class KernelCodegen(codegen.JITCPUCodegen):  # type: ignore[misc]
    _library_class = KernelLibrary

    def load(self, code: bytes, entry: str, environment: str, owner: Any) -> int:
        """An object file of the store: the address of its entry. ``owner``: the entry's environment."""
        engine = self._engine._ee
        engine.add_object_file(ll.ObjectFileRef.from_data(code))
        engine.finalize_object()
        if environment:
            self.set_env(environment, owner)
        return int(engine.get_function_address(entry))


class KernelContext(cpu.CPUContext):  # type: ignore[misc]
    """The target's context, with libraries of that kind."""

    def init(self) -> None:
        super().init()
        self._internal_codegen = KernelCodegen("pyshmem.kernels")

    def get_executable(self, library: Any, fndesc: Any, env: Any) -> Any:
        """Only launchers are called from Python, and have a wrapper for that."""
        name = fndesc.llvm_cpython_wrapper_name
        try:
            library.get_function(name)
        except NameError:
            owner = fndesc.lookup_module()
            return _dynfunc.make_function(owner, fndesc.qualname, "", 0, env, (library,))
        library.assemble()
        return super().get_executable(library, fndesc, env)


# -- indices -------------------------------------------------------------------------------------


class _Lower(lowering.Lower):  # type: ignore[misc]
    """Keeps for ``do_boundscheck`` what is indexed and in which line: the builder's ``access``."""

    def lower_inst(self, inst: Any) -> None:
        if self.context.enable_boundscheck:
            place = f"{Path(self.loc.filename).name}:{self.loc.line}"
            self.builder.access = f"{self._indexed(inst)}, {place}"
        super().lower_inst(inst)

    def _indexed(self, inst: Any) -> str:
        variable = getattr(inst, "target", None)
        value = getattr(inst, "value", None)
        if isinstance(inst, ir.Assign) and isinstance(value, ir.Expr):
            given = value.list_vars()  # of a call the function first, then what it is given
            variable = given[min(value.op == "call", len(given) - 1)] if given else None
        return self._name(variable) if isinstance(variable, ir.Var) else "an array"

    def _name(self, variable: Any) -> str:
        if not variable.is_temp:
            return str(variable.unversioned_name)
        try:
            known = self.func_ir.get_definition(variable)
        except KeyError:  # it has several
            return "an array"
        if isinstance(known, (ir.Global, ir.FreeVar)):
            return str(known.name)
        if isinstance(known, ir.Expr) and known.op == "getattr":
            return f"{self._name(known.value)}.{known.attr}"
        if isinstance(known, ir.Expr) and known.op in ("getitem", "static_getitem"):
            return f"a part of {self._name(known.value)}"
        return "an array"


@compiler_machinery.register_pass(mutates_CFG=True, analysis_only=False)
class _Lowering(typed_passes.NativeLowering):  # type: ignore[misc]
    _name = "pyshmem_lowering"

    @property
    def lowering_class(self) -> Any:
        return _Lower


class KernelCompiler(compiler.CompilerBase):  # type: ignore[misc]
    """Numba's compiler, with that lowering."""

    def define_pipelines(self) -> list[Any]:
        passes = compiler.DefaultPassBuilder.define_nopython_pipeline(self.state)
        made = compiler.PassManager("pyshmem_kernels")
        for one, description in passes.passes:
            own = _Lowering if one is typed_passes.NativeLowering else one
            made.add_pass(own, description)
        made.finalize()
        return [made]


def report_bounds(report: Callable[[Any, str, Any, Any, Any], None]) -> None:
    """Have kernels call what ``report(builder, where, index, axis, size)`` emits, which ends them."""

    def around(plain: Callable[..., None]) -> Callable[..., None]:
        def check(context: Any, builder: Any, ind: Any, dimlen: Any, axis: Any = None) -> None:
            if not isinstance(context, KernelContext):
                plain(context, builder, ind, dimlen, axis)
                return
            with cgutils.if_unlikely(builder, builder.icmp_unsigned(">=", ind, dimlen)):
                given = builder.select(  # without the size, which Numba adds to negative ones
                    builder.icmp_signed("<", ind, ind.type(0)), builder.sub(ind, dimlen), ind
                )
                report(builder, getattr(builder, "access", "an array"), given, axis or 0, dimlen)

        return check

    HOOKS[-4].wrap(around)


def object_code(library: Any) -> bytes:
    """The object file of a launcher that has been assembled."""
    return bytes(library._get_compiled_object())


def loaded(context: KernelContext, code: bytes, entry: str, environment: str, owner: Any) -> Any:
    """A launcher from its object file, as what Python calls. ``owner``: a module, for reports."""
    kept = _dynfunc.Environment({})
    address = context.codegen().load(code, entry, environment, kept)
    return _dynfunc.make_function(owner, entry, "", address, kept, (code, kept))


def propagate(context: Any, builder: Any, code: Any, exception: Any) -> None:
    """Raise what a function ended with: its code, and the address of the exception that Numba knows."""
    known = builder.inttoptr(exception, callconv.excinfo_ptr_t)
    status = context.call_conv._get_return_status(builder, code, known)
    with builder.if_then(status.is_error):
        context.call_conv.return_status_propagate(builder, status)


def add_dtype(dtype: Any, kind: Any) -> None:
    """Have arrays of a dtype typed that Numba does not know."""
    known: Any = numpy_support.FROM_DTYPE
    known.setdefault(dtype, kind)
