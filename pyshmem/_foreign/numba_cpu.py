# SPDX-License-Identifier: BSD-3-Clause
"""What of Numba's compiler for CPUs is replaced: machine code is made of whole kernels only.

Numba's CPU optimises and assembles every function that another one calls, and links what that calls
into each of them. A device routine is some sixty functions, of which nobody calls one alone: here they
stay what the front end made of them until a kernel's launcher takes them all. Seen in Numba 0.68.1.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import llvmlite.binding as ll
from llvmlite import ir as llvm
from numba import _dynfunc, types
from numba.core import (
    callconv,
    cgutils,
    codegen,
    compiler,
    compiler_machinery,
    cpu,
    dispatcher,
    errors,
    funcdesc,
    ir,
    ir_utils,
    lowering,
    pythonapi,
    sigutils,
    typed_passes,
)
from numba.core.typing import signature
from numba.np import numpy_support

from .hooks import Hook

T = TypeVar("T")

#: Numba's types say nothing of what it compiles functions with.
_FunctionCompiler: Any = vars(dispatcher)["_FunctionCompiler"]

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
    Hook(lowering.Lower, "pre_lower", "self"),
    Hook(typed_passes.NativeLowering, "lowering_class"),
    Hook(compiler.DefaultPassBuilder, "define_nopython_pipeline", "state"),
    Hook(_FunctionCompiler, "_compile_core", "self args return_type"),
    Hook(
        funcdesc.FunctionDescriptor,
        "__init__",
        "self native modname qualname unique_name doc typemap restype calltypes args kws",
    ),
    Hook(compiler, "CR_FIELDS"),
    Hook(pythonapi.PythonAPI, "to_native_value", "self typ obj"),
    Hook(sigutils, "normalize_signature", "sig"),
)
_BOUNDSCHECK = next(hook for hook in HOOKS if hook.name == "do_boundscheck")
_TO_NATIVE = next(hook for hook in HOOKS if hook.name == "to_native_value")


#: Programs' own intrinsics for GPUs that have been made: with one, kernels are looked at for such code.
FOREIGN_CODE: list[str] = []
_ASSEMBLY = re.compile(r'\basm (?:sideeffect )?"([^"]*)"')


class KernelLibrary(codegen.JITCodeLibrary):  # type: ignore[misc]
    """The functions of one compilation. ``assemble`` makes a launcher of it, with all that it calls.

    ``called``: names of functions outside, which are loaded before what calls them.
    """

    called: tuple[str, ...] = ()

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

    def needs(self) -> list[str]:
        """The routines that it calls, itself or by another one, and whose machine code it has not.

        Numba's runtime, which it links once the host has compiled a function, calls none.
        """
        libraries = [each for each in self._reached() if isinstance(each, KernelLibrary)]
        return sorted({name for library in libraries for name in library.called})

    def assemble(self) -> None:
        """Link, optimise and load it."""
        self._link()
        self._refuse_what_ends_the_process()
        self._optimize_final_module()
        self._final_module.verify()
        self._finalize_final_module()

    def _refuse_what_ends_the_process(self) -> None:
        """TypingError: it has what only a GPU has, of which LLVM says nothing and ends the process."""
        for function in self._final_module.functions:
            name = function.name
            if not function.is_declaration:
                continue
            if name.startswith("llvm.nvvm."):
                raise errors.TypingError(f"it calls {name}, which CPUs have not")
            known = name.startswith("llvm.") or not FOREIGN_CODE or ll.address_of_symbol(name)
            if not known:
                raise errors.TypingError(f"it calls {name}, which is not in this process")
        if FOREIGN_CODE and (found := _ASSEMBLY.search(str(self._final_module))):
            raise errors.TypingError(f"it has assembly, which is a GPU's: {found[1]}")

    def _link(self) -> None:
        """Take in all that it calls. Names are unique in a process, files come from several of them."""
        for library in self._reached():
            module = ll.parse_bitcode(library._final_module.as_bitcode())
            for function in module.functions:
                if not function.is_declaration and function.linkage == ll.Linkage.external:
                    function.linkage = "linkonce_odr"
            self._final_module.link_in(module)
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage == ll.Linkage.linkonce_odr:
                function.linkage = "internal"

    def frozen(self, root: str, name: str) -> bytes:
        """Bitcode of its function ``root`` as ``name``, optimised with all that it calls."""
        made = self.codegen.create_library(name)
        made._final_module = ll.parse_bitcode(self._final_module.as_bitcode())
        made._linking_libraries = list(self._linking_libraries)
        made._link()
        module = made._final_module
        for each in (*module.functions, *module.global_variables):
            if not each.is_declaration:
                each.linkage = "internal"
        function = module.get_function(root)
        function.linkage, function.name = "external", name
        made._optimize_final_module()
        module.verify()
        return bytes(module.as_bitcode())

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

    def object_of(self, bitcode: bytes) -> bytes:
        """Machine code of a module that is optimised."""
        return bytes(self._tm.emit_object(ll.parse_bitcode(bitcode)))


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


# -- functions that are there ---------------------------------------------------------------------

Compile = Callable[[tuple[Any, ...]], Any]
#: Asked for each function with the types of its arguments and Numba's options what to take for it: what
#: the last argument compiles for such types, or something else of the kind.
Chooser = Callable[[Any, tuple[Any, ...], dict[str, Any], Compile], Any]


#: Asked for each function that is called and never inlined, with its signature and what compiles it:
#: the name of machine code for it and a library that says so; None: what was compiled is taken.
PartChooser = Callable[[Any, Any, Callable[[], Any]], "tuple[str, Any] | None"]


class _Compiler(_FunctionCompiler):  # type: ignore[misc]
    choose: Chooser | None = None
    choose_part: PartChooser | None = None

    def _compile_core(self, args: tuple[Any, ...], return_type: Any) -> Any:
        def compile_for(kinds: tuple[Any, ...]) -> Any:
            return super(_Compiler, self)._compile_core(kinds, return_type)

        if self.choose is None:
            return compile_for(args)
        return self.choose(self.py_func, args, self.targetoptions, compile_for)


class KernelDispatcher(dispatcher.Dispatcher):
    """What compiles a function, or takes it where ``choose_functions`` says."""

    def __init__(self, py_func: Any, *args: Any, **options: Any) -> None:
        super().__init__(py_func, *args, **options)
        made: Any = self
        made._compiler.__class__ = _Compiler


def choose_functions(choose: Chooser) -> None:
    """From now on ``choose`` is asked for each function that a kernel calls, and for kernels."""
    setattr(_Compiler, "choose", staticmethod(choose))  # noqa: B010  (a function, not a method)


def choose_parts(choose: PartChooser) -> None:
    """From now on ``choose`` is asked for each function that is called and never inlined."""
    setattr(_Compiler, "choose_part", staticmethod(choose))  # noqa: B010  (as above)


def part_of(context: KernelContext, builder: Any, function: Any, kind: Any) -> Any:
    """The descriptor of ``function`` for this signature, which the function being lowered calls."""

    def compile_it() -> Any:
        with context.push_code_library(context.codegen().create_library(function.__name__)):
            return context.compile_subroutine(builder, function, kind)

    choose = _Compiler.choose_part
    kept = choose(function, kind, compile_it) if choose is not None else None
    if kept is None:
        return context.compile_subroutine(builder, function, kind).fndesc
    name, library = kept
    context.active_code_library.add_linking_library(library)
    return _described(function, name, kind.return_type, kind.args)


def _described(function: Any, name: str, returns: Any, arguments: tuple[Any, ...]) -> Any:
    return funcdesc.FunctionDescriptor(
        native=True, modname=function.__module__, qualname=function.__qualname__, unique_name=name,
        doc="", typemap=None, restype=returns, calltypes=None,
        args=[f"a{position}" for position in range(len(arguments))], kws=(), argtypes=arguments,
        mangler=lambda *_names, **_options: name, env_name=f"{name}.environment",
    )  # fmt: skip


def library_of(context: KernelContext, name: str, bitcode: bytes, called: tuple[str, ...]) -> Any:
    """A library of a module, which may be none: then what it has is loaded, and ``called``."""
    made = context.codegen().create_library(name)
    if bitcode:
        made._final_module = ll.parse_bitcode(bitcode)
    made.called = called
    made.finalize()
    return made


def result_of(
    context: KernelContext,
    function: Any,
    name: str,
    returns: Any,
    arguments: tuple[Any, ...],
    library: Any,
) -> Any:
    """The result of compiling ``function`` for these types; its code is ``name`` in ``library``."""
    describes = _described(function, name, returns, arguments)
    environment = _dynfunc.Environment({})
    entry = context.get_executable(library, describes, environment)
    context.insert_user_function(entry, describes, [library])
    return compiler.compile_result(
        typing_context=context.typing_context,
        target_context=context,
        entry_point=entry,
        signature=signature(returns, *arguments),
        objectmode=False,
        lifted=(),
        fndesc=describes,
        library=library,
        environment=environment,
        reload_init=(),
        metadata={},
    )


# -- room for calls ------------------------------------------------------------------------------


def with_room(function: Callable[..., T], *given: Any) -> T:
    """``function(*given)``, with 512 KiB in one piece for the frames of what it calls.

    CPython keeps frames in pieces of 16 KiB, and maps the next one, and unmaps it, each time that a call
    crosses a piece's end. Numba compiles what a function calls while it is at that function, so its
    loops lie deep, and some lie across an end: hundreds of thousands of times a page that was cleared.
    """
    return function(*given)


# A frame of more than 512 KiB, of which nothing is touched, is in a piece of 1 MiB.
with_room.__code__ = with_room.__code__.replace(co_stacksize=(512 << 10) // 8)


# -- what a function begins with, and indices ----------------------------------------------------


#: ``f(context, builder, function, given)``: what a function that is compiled begins with; ``given`` has
#: the types and values of its arguments by their names.
Beginning = Callable[[Any, Any, Any, "dict[str, tuple[Any, Any]]"], None]


class _Lower(lowering.Lower):  # type: ignore[misc]
    """Keeps for ``do_boundscheck`` what is indexed and in which line: the builder's ``access``."""

    divided: Callable[[], Exception] | None = None
    begin: Beginning | None = None

    def pre_lower(self) -> None:
        super().pre_lower()
        if _Lower.begin is not None:
            rows = zip(self.fndesc.args, self.fndesc.argtypes, self.fnargs, strict=True)
            given = {name: (kind, value) for name, kind, value in rows}
            _Lower.begin(self.context, self.builder, self.func_ir.func_id.func, given)

    def lower_inst(self, inst: Any) -> None:
        if isinstance(inst, (ir.SetItem, ir.StaticSetItem)):
            self._refuse_division(inst)
        if self.context.enable_boundscheck:
            place = f"{Path(self.loc.filename).name}:{self.loc.line}"
            self.builder.access = f"{self._indexed(inst)}, {place}"
        super().lower_inst(inst)

    def _refuse_division(self, inst: Any) -> None:
        """Where an element of integers gets what ``/=`` made of two: CUDA has no store for it."""
        made = ir_utils.guard(ir_utils.get_definition, self.func_ir, inst.value)
        if not (isinstance(made, ir.Expr) and made.op == "inplace_binop"):
            return
        kinds = [self.typeof(one.name) for one in (made.lhs, made.rhs)]
        kinds.append(getattr(self.typeof(inst.target.name), "dtype", None))
        whole = all(isinstance(kind, types.Integer) for kind in kinds)
        if whole and made.immutable_fn is operator.truediv and _Lower.divided is not None:
            raise _Lower.divided()

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


def begin_functions(begin: Beginning) -> None:
    """From now on every function that is compiled begins with what ``begin`` emits."""
    _Lower.begin = staticmethod(begin)


def refuse_divisions(told: Callable[[], Exception]) -> None:
    """``told()`` makes the error of ``a[i] /= n`` of integers."""
    _Lower.divided = staticmethod(told)


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

    _BOUNDSCHECK.wrap(around)


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


def take_halves() -> None:
    """Have launchers take numbers of float16, of which Numba has none as arguments."""

    def around(plain: Callable[..., Any]) -> Callable[..., Any]:
        def to_native_value(self: Any, typ: Any, obj: Any) -> Any:
            if typ != types.float16 or not isinstance(self.context, KernelContext):
                return plain(self, typ, obj)
            number = self.number_float(obj)
            double = self.float_as_double(number)
            self.decref(number)
            near = self.builder.fptrunc(double, llvm.FloatType())  # a half is one of these, too
            half = self.builder.fptrunc(near, llvm.HalfType())
            return pythonapi.NativeValue(half, is_error=self.c_api_error())

        return to_native_value

    _TO_NATIVE.wrap(around)


def signatures_of(declared: Any) -> tuple[Any, ...]:
    """Of what ``cuda.jit`` was given in place of a function: its signatures; none: it is no such thing.

    Of each the types of the arguments and that of the result, which may be None.
    """
    known: Any = sigutils
    if not isinstance(declared, (list, tuple)) or known.is_signature(declared):
        declared = [declared]
    try:
        return tuple(known.normalize_signature(one) for one in declared)
    except (TypeError, NotImplementedError, errors.NumbaError):
        return ()


def numbers_of(signatures: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """A dtype where the one signature declares a number, else None. None: there are several, or none."""
    if len(signatures) != 1:
        return None
    numbers = types.Number, types.Boolean
    try:
        return tuple(
            numpy_support.as_dtype(kind) if isinstance(kind, numbers) else None
            for kind in signatures[0][0]
        )
    except NotImplementedError:
        return None


def add_dtype(dtype: Any, kind: Any) -> None:
    """Have arrays of a dtype typed that Numba does not know."""
    known: Any = numpy_support.FROM_DTYPE
    known.setdefault(dtype, kind)
