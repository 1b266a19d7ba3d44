# SPDX-License-Identifier: BSD-3-Clause
"""What of torch is replaced and read. Seen in torch 2.11 to 2.15."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import _functional_collectives, distributed_c10d
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from .hooks import Hook

#: The handle of a GPU's current stream; None: this torch has no CUDA.
raw_stream: Callable[[int], int] | None = getattr(torch._C, "_cuda_getCurrentRawStream", None)
#: The product of matrices of FP8 with scales; cuBLAS's, or one of the CPU.
scaled_mm = torch._scaled_mm
#: Keeps a GPU's current stream busy for so many of its cycles.
spin: Callable[[int], None] = torch.cuda._sleep
#: A view of a tensor whose elements are those of the memory with the other sign.
neg_view = torch._neg_view
#: Whether a tensor stands for others within torch.func.
is_of_functorch = torch._C._functorch.is_functorch_wrapped_tensor
#: The module of collectives that compilers trace.
functional_collectives = _functional_collectives
#: What is being derived in this thread; None: nothing.
current_node: Callable[[], Any] = torch._C._current_autograd_node
#: Says what torch.compile does to functions of Python that run in this thread; returns what was said.
set_eval_frame: Callable[[Any], Any] = torch._C._dynamo.eval_frame.set_eval_frame
#: A context: the operators called in it are called below autograd.
BelowAutograd = torch._C._AutoDispatchBelowAutograd
#: A context that sees each operator that is called in it, in its thread.
DispatchMode = TorchDispatchMode

#: Of DistributedDataParallel: registers a hook of C++.
DDP_HOOK = Hook(
    torch.nn.parallel.DistributedDataParallel,
    "_register_builtin_comm_hook",
    "self comm_hook_type",
)

#: Of DistributedDataParallel: what it logs; the backend's name is that which C++ has for the group.
DDP_LOGGED = Hook(torch.nn.parallel.DistributedDataParallel, "_get_ddp_logging_data", "self")

#: Of torch's ProcessGroup, which has the names of backends that it knows, and for others ``UNNAMED``.
GROUP_NAME = Hook(dist.ProcessGroup, "name")
UNNAMED = "custom"

#: Not of torch: the team of pyshmem that a process group has.
TEAM_OF_GROUP = Hook(dist.ProcessGroup, "team")

#: Of torch's ProcessGroup, which gives the numbers of backends that it knows by name alone.
SEQUENCE_NUMBER = Hook(dist.ProcessGroup, "_get_sequence_number_for_group")

#: Makes a process group of torch; what pyshmem puts around it attaches a recorder.
NEW_GROUP = Hook(distributed_c10d, "_new_process_group_helper", "group_size group_rank")

#: Calls by which all ranks of a job make process groups, each in the two modules that have it.
MAKE_GROUPS = tuple(
    Hook(module, name)
    for name in ("init_process_group", "new_group")
    for module in (dist, distributed_c10d)
)

#: Gives a store, a rank and how many ranks there are: by RANK, MASTER_ADDR and the like, or raises.
RENDEZVOUS = Hook(distributed_c10d, "rendezvous", "url rank world_size")

#: Reads all elements, and is no operator.
TOLIST = Hook(torch.Tensor, "tolist")

HOOKS = (
    TOLIST,
    DDP_HOOK,
    DDP_LOGGED,
    GROUP_NAME,
    SEQUENCE_NUMBER,
    NEW_GROUP,
    RENDEZVOUS,
    *MAKE_GROUPS,
    *(Hook(torch, name) for name in ("_scaled_mm", "_neg_view")),
    *(Hook(torch._C, name) for name in ("_AutoDispatchBelowAutograd", "_functorch")),
    Hook(torch._C._functorch, "is_functorch_wrapped_tensor"),
    Hook(torch._C, "_current_autograd_node"),
    Hook(dist.Backend, "_plugins"),
    Hook(torch._C._distributed_c10d, "_create_work_from_future"),
    Hook(torch._C._dynamo.eval_frame, "set_eval_frame"),
    *(
        Hook(torch._C, name)
        for name in (
            "_after_autograd_keyset",
            "_dispatch_has_computed_kernel_for_dispatch_key",
            "_jit_get_all_schemas",
        )
    ),
    *(Hook(dist.ProcessGroup, name) for name in ("unbox", "_get_backend")),
)


def symmetric_memory() -> Any:
    """The module of torch's own symmetric memory, which is imported at the first call."""
    from torch.distributed import _symmetric_memory

    return _symmetric_memory


#: A work of torch's that is done when a future is; a stream that waits for it waits for the future's.
work_of_future: Callable[[Any], Any] = torch._C._distributed_c10d._create_work_from_future


def signal_pad_size() -> int:
    """Bytes that torch's symmetric memory has for signals beside each tensor."""
    return int(symmetric_memory().get_signal_pad_size())


def group_of_name(name: str) -> Any:
    """The process group that torch calls so."""
    return distributed_c10d._resolve_process_group(distributed_c10d.GroupName(name))


def has_backend(name: str) -> bool:
    """Whether torch.distributed knows the backend."""
    return name.upper() in dist.Backend._plugins


#: Torch's flight recorder for any backend in C++; None: before torch 2.14.
_RECORDER: Any = getattr(torch._C._distributed_c10d, "FlightRecorderHook", None)


def record_groups_of(name: str, recorded: bool) -> None:
    """Say whether torch attaches its flight recorder to a backend's groups, which it does from 2.15 on.

    It cannot to a group in Python, whose backend is not to be had: it would raise.
    """
    unrecorded: set[str] = getattr(distributed_c10d, "_FR_SELF_RECORDING_BACKENDS", set())
    (unrecorded.discard if recorded else unrecorded.add)(name)


def recorder_of(group: Any) -> Any:
    """Torch's flight recorder, attached to a group until what this returns is dropped.

    None: there is none, it is off, or torch attaches it itself.
    """
    if _RECORDER is None or hasattr(distributed_c10d, "_maybe_attach_flight_recorder"):
        return None
    names = "TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE"  # as torch itself reads them
    size = next((text for name in names if (text := os.environ.get(name))), "2000")
    return _RECORDER.attach(group) if int(size) > 0 else None


#: Keeps what is registered with torch's dispatcher.
_registered: list[torch.library.Library] = []


def take_nested_tensors(
    is_ours: Callable[[Any], bool], refuse: Callable[[torch.Tensor], None]
) -> None:
    """Have ``refuse`` raise what is wrong with a nested tensor in a call of one of our groups.

    From 2.14 on torch's dispatcher has no kernel for those, so that a backend does not see them. A
    call of a group whose backend for the tensor's device is another goes on to the next kernel; there
    is none either, and torch says so as before, but for the key: ``NestedTensorCPU``.
    """
    key, library = "AutogradNestedTensor", torch.library.Library("c10d", "IMPL")
    for schema in torch._C._jit_get_all_schemas():
        space, _, name = schema.name.partition("::")
        of_group = any("ProcessGroup" in str(argument.type) for argument in schema.arguments)
        has = torch._C._dispatch_has_computed_kernel_for_dispatch_key
        if space == "c10d" and of_group and not has(schema.name, key):
            kernel = _kernel_of_nested(getattr(torch.ops.c10d, name).default, is_ours, refuse)
            library.impl(name, kernel, key, with_keyset=True)
    _registered.append(library)


def _kernel_of_nested(
    operator: Any, is_ours: Callable[[Any], bool], refuse: Callable[[torch.Tensor], None]
) -> Callable[..., Any]:
    def kernel(keys: Any, *args: Any, **named: Any) -> Any:
        given = tree_leaves((args, named))
        tensor = next(x for x in given if isinstance(x, torch.Tensor) and x.is_nested)
        group = next(x for x in given if isinstance(x, torch.ScriptObject))
        if is_ours(dist.ProcessGroup.unbox(group)._get_backend(tensor.device)):
            refuse(tensor)
        below = keys & torch._C._after_autograd_keyset
        return operator.redispatch(below.remove(torch._C.DispatchKey.Python), *args, **named)

    return kernel


def ready_dispatch() -> None:
    """What the first operation in a mode of dispatch imports, which takes seconds, is imported now."""
    importlib.import_module("torch._dynamo")
