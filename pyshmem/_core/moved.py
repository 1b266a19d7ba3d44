# SPDX-License-Identifier: BSD-3-Clause
"""Modules under the names that they had before the folders: an import finds the module, and warns.

They were never documented, but programs may have them. The names go in the second release after 0.1.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import warnings
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import NoReturn

#: Old folder, below the package: new folder: old and new names of its modules. Left out are modules
#: whose name a public function of their package has: the function wins, as it always did.
FOLDERS: dict[str, dict[str, str]] = {
    "_core": {
        "array_types": "_core.arrays.types",
        "cupy_arrays": "_core.arrays.cupy_arrays",
        "dlpack": "_core.arrays.dlpack",
        "peer_views": "_core.arrays.peer_views",
        "stage_ptx": "_core.labels",
    },
    "bench": {
        "parts": "bench.operations",
        "paths": "bench.put_get",
    },
    "check.delivery": {"taken": "check.delivery.accepted"},
    "device.jit": {"objects": "device.jit.linked_collectives"},
    "device.leaf": {
        "chosen": "device.leaf.backend",
        "compiled.near": "device.leaf.compiled.small_values",
        "cpu.store": "device.leaf.cpu.kept_code",
        "sim.scheduler": "device.leaf.sim.greenlets",
        "sim.units": "device.leaf.sim.packets",
    },
    "fused": {
        "arguments": "fused._shared.arguments",
        "exchange_kernels": "fused.exchange.kernels",
        "experts": "fused.moe.api",
        "experts_calls": "fused.moe.calls",
        "experts_combine_kernels": "fused.moe.combine_kernels",
        "experts_dispatch": "fused.moe.dispatch",
        "experts_engine": "fused.moe.copy_engine",
        "experts_engine_kernels": "fused.moe.copy_engine_kernels",
        "experts_grad_kernels": "fused.moe.grad_kernels",
        "experts_handle": "fused.moe.handle",
        "experts_kernels": "fused.moe.dispatch_kernels",
        "experts_lists": "fused.moe.routing_kernels",
        "experts_numbers": "fused.moe.numbers",
        "experts_operators": "fused.moe.operators",
        "experts_travel": "fused.moe.routing",
        "experts_wrong_kernels": "fused.moe.wrong_kernels",
        "flash_decode_kernels": "fused.flash_decode.kernels",
        "fp8_kernels": "fused._shared.fp8_kernels",
        "group_layout": "fused.grouped_matmul.sharded_layout",
        "group_layout_kernels": "fused.grouped_matmul.sharded_layout_kernels",
        "group_matmul_kernels": "fused.grouped_matmul.kernels",
        "group_matmul_operators": "fused.grouped_matmul.operators",
        "group_parallel": "fused.grouped_matmul.sharded_experts",
        "launches": "_torch.launches",
        "links": "fused._shared.copy_engine",
        "links_kernels": "fused._shared.copy_engine_kernels",
        "matmul_arguments": "fused.matmul.arguments",
        "matmul_engine": "fused.matmul.copy_engine",
        "matmul_kernels": "fused.matmul.kernels",
        "matmul_local": "fused.matmul.local",
        "matmul_operators": "fused.matmul.operators",
        "matmul_pair": "fused.matmul.copy_engine_of_two",
        "matmul_plain": "fused.matmul.unfused",
        "matmul_run": "fused.matmul.dispatch",
        "matmul_tiles": "fused.matmul.persistent",
        "norm": "fused.all_reduce_norm.api",
        "norm_kernels": "fused.all_reduce_norm.row_kernels",
        "norm_launch": "fused.all_reduce_norm.launch",
        "norm_modules": "fused.all_reduce_norm.modules",
        "norm_operators": "fused.all_reduce_norm.operators",
        "norm_pull_kernels": "fused.all_reduce_norm.pull_kernels",
        "norm_push_kernels": "fused.all_reduce_norm.push_kernels",
        "norm_units_kernels": "fused.all_reduce_norm.one_shot_ll_kernels",
        "powers": "fused._shared.powers",
        "reduce_kernels": "fused._shared.reduce_kernels",
        "roads": "fused._shared.algorithm",
        "slots": "fused._shared.slots",
        "slots_kernels": "fused._shared.slots_kernels",
        "stamps": "fused._shared.stage_marks",
        "stamps_kernels": "fused._shared.stage_marks_kernels",
        "team_numbers": "fused._shared.team_numbers",
        "ulysses": "fused.exchange.ulysses",
        "workspace": "fused._shared.workspace",
    },
    "host": {
        "agreement": "host.collectives.agreement",
        "atomics_nbi": "host.atomics",
        "communicator": "host.job.communicator",
        "contexts": "host.teams.contexts",
        "creation": "host.memory.creation",
        "cutover": "host.tuning.cutover",
        "handles": "host.job.handles",
        "heap": "host.memory.heap",
        "host_only": "host.kernels.host_only",
        "members": "host.teams.made_by_members",
        "output": "host.job.output",
        "profiling": "host.observe.profiling",
        "proxy": "host.messages",
        "runtime": "host.job.runtime",
        "stages": "host.observe.stages",
        "stream_kernels": "host.kernels.stream_kernels",
        "stream_rows": "host.tuning.streams",
        "team_arguments": "host.teams.arguments",
        "trace_file": "host.observe.trace_file",
        "tracing": "host.observe.tracing",
        "wait_arguments": "host.wait_sets",
    },
    "host.collectives": {
        "blocking": "host.collectives.data_movement",
        "reduce_scatter": "host.collectives.reductions",
    },
    "interop.torch": {
        "arguments": "_torch.arguments",
        "lanes": "interop.torch.worker_queues",
        "mailbox": "interop.torch.send_recv",
        "members": "_torch.process_groups",
        "op_bodies": "_torch.operator_bodies",
        "op_teams": "_torch.teams",
        "operators": "_torch.operators",
        "staging": "_torch.staging",
        "tensors": "_torch.tensors",
        "unstaged": "_torch.direct",
    },
    "launcher": {
        "answers": "launcher.call.answers",
        "arguments": "launcher.call.arguments",
        "call_failures": "launcher.call.failures",
        "call_job": "launcher.call.job",
        "call_spec": "launcher.call.spec",
        "hints": "launcher.output.hints",
        "pe": "launcher.call.pe",
        "pickling": "launcher.call.pickling",
        "progress": "launcher.output.progress",
        "ranks": "launcher.torchrun_names",
        "report": "launcher.output.report",
        "streams": "launcher.output.streams",
        "tracebacks": "launcher.output.tracebacks",
    },
    "stream_kernels": {
        "bundles": "stream_kernels.packets",
        "lean": "stream_kernels.small_messages",
        "moves": "stream_kernels.data_movement",
    },
    "triton": {
        "channels": "triton.ll_channels",
        "chosen": "triton.primitives.backend",
        "far": "triton.primitives.by_proxy",
        "interpreter.bfloat16": "triton.interpreter.corrections",
        "interpreter.internals": "triton.interpreter.own_kernels",
        "interpreter.late": "triton.interpreter.late_stores",
        "interpreter_fp8": "triton.interpreter.fp8",
        "interpreter_types": "triton.interpreter.corrections",
        "job": "triton.runtime.context",
        "leaf_interpreter": "triton.interpreter.bodies",
        "leaf_ptx": "triton.primitives.gpu",
        "leaf_units": "triton.primitives.gpu_packets",
        "ptx": "triton.primitives.ptx",
        "ptx_pairs": "triton.primitives.ptx_pairs",
        "ptx_wide": "triton.primitives.ptx_wide",
        "ring": "triton.primitives.ring",
        "roads": "triton.primitives.job_constants",
        "words": "triton.runtime.constants",
    },
}
MOVED = {
    f"pyshmem.{folder}.{old}": f"pyshmem.{new}"
    for folder, names in FOLDERS.items()
    for old, new in names.items()
}


def _warned(old: str) -> ModuleType:
    new = MOVED[old]
    warnings.warn(
        f"{old} is {new} now, and no part of what pyshmem promises; the old name goes in the second "
        "release from now",
        DeprecationWarning,
        stacklevel=3,
    )
    return importlib.import_module(new)


class _Loader(Loader):
    def create_module(self, spec: ModuleSpec) -> None:
        """An empty one, which ``exec_module`` puts another one in the place of."""

    def exec_module(self, module: ModuleType) -> None:
        sys.modules[module.__name__] = _warned(module.__name__)


class _Finder(MetaPathFinder):
    """Behind all others: asked for what is not there."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return importlib.util.spec_from_loader(name, _Loader()) if name in MOVED else None


def attribute_of(
    package: str, otherwise: Callable[[str], NoReturn] | None = None
) -> Callable[[str], ModuleType]:
    """A package's ``__getattr__``: modules that were in it, as attributes.

    ``otherwise`` raises the error of another name.
    """

    def __getattr__(name: str) -> ModuleType:
        if f"{package}.{name}" not in MOVED:
            if otherwise is not None:
                otherwise(name)
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return _warned(f"{package}.{name}")

    return __getattr__


def contents_of(package: str, module: str) -> Callable[[str], object]:
    """The ``__getattr__`` of a folder whose name a module had: what was in it is in ``module`` now."""

    def __getattr__(name: str) -> object:
        if name.startswith("__") or importlib.util.find_spec(f"{package}.{name}") is not None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found: object = getattr(importlib.import_module(f"{package}.{module}"), name)
        warnings.warn(
            f"{package}.{name} is in {package}.{module} now, and no part of what pyshmem promises; "
            "the old name goes in the second release from now",
            DeprecationWarning,
            stacklevel=2,
        )
        return found

    return __getattr__


sys.meta_path.append(_Finder())
