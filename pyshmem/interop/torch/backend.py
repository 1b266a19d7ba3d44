# SPDX-License-Identifier: BSD-3-Clause
"""The backend "pyshmem" of torch.distributed.

CPU tensors go over the host heap, in a thread of the group; CUDA tensors over the device heap, on a
stream of the group's that waits for the current stream when a call begins. ``Work.wait`` of the latter
makes the current stream wait. Members of a group make the same calls in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist

from ..._core.errors import UnsupportedError
from ..._foreign import torch as foreign
from ..._foreign.environment import may_have_gpu
from ..._torch.arguments import check_plain, share_memory
from ..._torch.staging import Reduction, capturing
from ..._torch.users_calls import named
from . import native, worker_queues
from .given import check_one_dtype, one_of, paired
from .group import NAME, Group, Heap, Options, Tensors
from .windows import Window

#: torch's reductions by ours.
_OPS = {
    "SUM": "sum", "PRODUCT": "prod", "MIN": "min", "MAX": "max", "BAND": "and", "BOR": "or",
    "BXOR": "xor", "AVG": "avg",
}  # fmt: skip


class Collectives(Group):
    """A group with its collectives, as torch calls them."""

    def allreduce(self, tensors: Tensors, opts: Any = None) -> Any:
        """Combine each tensor over the members, in place."""
        kinds = [_reduction(opts, tensor) for tensor in tensors]

        def call(heap: Heap, stream: Any) -> None:
            for tensor, what in zip(tensors, kinds, strict=True):
                heap.staging.all_reduce(tensor, tensor, what, stream)

        facts = "all_reduce", *{kind.op for kind in kinds}, tensors
        return self._run(call, tensors, facts=facts)

    allreduce_coalesced = allreduce

    def reduce(self, tensors: Tensors, opts: Any) -> Any:
        """Combine over the members into that of the root."""
        tensor = one_of("reduce", tensors)
        what, root = _reduction(opts, tensor), self._rank_of("reduce: dst", opts.rootRank)

        def call(heap: Heap, stream: Any) -> None:
            heap.staging.all_reduce(tensor, tensor, what, stream, root)

        return self._run(call, tensors, facts=("reduce", what.op, tensor, root))

    def broadcast(self, tensors: Tensors, opts: Any) -> Any:
        """Copy the root's to all."""
        tensor = one_of("broadcast", tensors)
        root = self._rank_of("broadcast: src", opts.rootRank)

        def call(heap: Heap, stream: Any) -> None:
            heap.staging.broadcast(tensor, tensor, root, stream)

        return self._run(call, tensors, facts=("broadcast", tensor, root))

    def allgather(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any = None) -> Any:
        """Copy each member's to all; sizes may differ between members, the same on all."""
        rows, source = one_of("all_gather", outputs), one_of("all_gather", inputs)
        self._check_rows("all_gather", "the list of outputs", rows)
        alike = self._are_alike(rows, source, "all_gather", "an input", "an output")

        def call(heap: Heap, stream: Any) -> None:
            if alike:
                heap.staging.all_gather(rows, source, stream)
                return
            own = self._beside(source, rows)
            for root, row in enumerate(rows):
                given = own if root == self._rank else row
                heap.staging.broadcast(row, given, root, stream)

        return self._run(call, rows, inputs, facts=("all_gather", rows))

    def all_gather_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> Any:
        """``allgather`` into one tensor, of which ``input`` may be a part."""
        self._check_sizes("all_gather_into_tensor", ("output", output), ("input", input))
        rows = self._shares(output, "all_gather", input)

        def call(heap: Heap, stream: Any) -> None:
            heap.staging.all_gather(rows, input, stream)

        return self._run(call, [output], [input], facts=("all_gather_single", input))

    _allgather_base = all_gather_single

    def all_gather_single_coalesced(
        self, outputs: Tensors, inputs: Tensors, opts: Any = None
    ) -> Any:
        """Several at a time."""
        pairs = paired("all_gather", outputs, inputs)
        pairs = list(pairs)
        for output, source in pairs:
            self._check_sizes("all_gather_into_tensor", ("output", output), ("input", source))
        rows = [self._shares(output, "all_gather", source) for output, source in pairs]

        def call(heap: Heap, stream: Any) -> None:
            for dests, source in zip(rows, inputs, strict=True):
                heap.staging.all_gather(dests, source, stream)

        return self._run(call, outputs, inputs, facts=("all_gather_single_coalesced", inputs))

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def allgather_coalesced(
        self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any = None
    ) -> Any:
        """Several at a time, ``outputs[member][i]`` from ``inputs[i]``."""
        for row in outputs:
            for output, source in paired("all_gather_coalesced", row, inputs):
                check_one_dtype("all_gather_coalesced", output, source)

        def call(heap: Heap, stream: Any) -> None:
            for i, source in enumerate(inputs):
                heap.staging.all_gather([row[i] for row in outputs], source, stream)

        every = [tensor for row in outputs for tensor in row]
        return self._run(call, every, inputs, facts=("all_gather_coalesced", inputs))

    def reduce_scatter(self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any = None) -> Any:
        """Combine over the members, each getting its one of ``inputs``; sizes may differ, as above."""
        output, rows = one_of("reduce_scatter", outputs), one_of("reduce_scatter", inputs)
        self._check_rows("reduce_scatter", "the list of inputs", rows)
        what = _reduction(opts, output)
        alike = self._are_alike(rows, output, "reduce_scatter", "an output", "an input")

        def call(heap: Heap, stream: Any) -> None:
            if alike:
                heap.staging.reduce_scatter(output, rows, what, stream)
                return
            given = [self._beside(row, [output]) for row in rows]
            for root, row in enumerate(given):
                heap.staging.all_reduce(
                    output if root == self._rank else row, row, what, stream, root
                )

        return self._run(call, outputs, rows, facts=("reduce_scatter", what.op, rows))

    def reduce_scatter_single(
        self, output: torch.Tensor, input: torch.Tensor, opts: Any = None
    ) -> Any:
        """``reduce_scatter`` of one tensor, of which ``output`` may be a part."""
        return self.reduce_scatter_single_coalesced([output], [input], opts)

    _reduce_scatter_base = reduce_scatter_single

    def reduce_scatter_single_coalesced(
        self, outputs: Tensors, inputs: Tensors, opts: Any = None
    ) -> Any:
        """Several at a time."""
        pairs = paired("reduce_scatter", inputs, outputs)
        pairs = list(pairs)
        for tensor, dest in pairs:
            self._check_sizes("reduce_scatter_tensor", ("input", tensor), ("output", dest))
        rows = [self._shares(tensor, "reduce_scatter", dest) for tensor, dest in pairs]
        kinds = [_reduction(opts, output) for output in outputs]

        def call(heap: Heap, stream: Any) -> None:
            for dest, sources, what in zip(outputs, rows, kinds, strict=True):
                heap.staging.reduce_scatter(dest, sources, what, stream)

        facts = "reduce_scatter_single", *{kind.op for kind in kinds}, outputs
        return self._run(call, outputs, inputs, facts=facts)

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    def all_to_all_single(
        self, output: torch.Tensor, input: torch.Tensor, output_splits: list[int],
        input_splits: list[int], opts: Any = None,
    ) -> Any:  # fmt: skip
        """Give each member its part of ``input``; splits are along the first dimension."""
        dests = self._parts(output, output_splits, "output", input)
        sources = self._parts(input, input_splits, "input", output)
        uneven = bool(output_splits or input_splits)
        return self._exchange(dests, sources, uneven, [output], [input])

    alltoall_base = all_to_all_single

    def alltoall(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Any:
        """Give each member its one of ``inputs``."""
        if outputs or inputs:
            check_one_dtype("all_to_all", *outputs, *inputs)
        return self._exchange(outputs, inputs, True, outputs, inputs)

    def _exchange(
        self, dests: Tensors, sources: Tensors, uneven: bool, outputs: Tensors, inputs: Tensors
    ) -> Any:
        """On a GPU, sizes that may differ are compared over the host first: it waits for the others."""
        assert self.team  # refuses a group that was destroyed
        largest: list[int] = []
        compares = self.compares()
        staging = self._heaps["cpu"].staging

        def compare() -> None:
            largest.append(staging.longest(dests, sources, compares))

        def call(heap: Heap, stream: Any) -> None:
            if uneven and stream is None:
                compare()
            heap.staging.all_to_all(dests, sources, stream, largest[0] if uneven else None)

        if uneven and self._kind([*outputs, *inputs]) == "cuda":
            if capturing():
                raise UnsupportedError(
                    "parts of an all_to_all that may differ are compared by the host; capture "
                    "all_to_all_single without splits"
                )
            self._queue("cpu", "collectives").do(named("all_to_all", compare, self._pes))
        even = "all_to_all_single", *inputs
        facts = ("all_to_all", "parts", inputs[0].dtype) if uneven and inputs else even
        return self._run(call, outputs, inputs, facts=facts)

    def gather(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any) -> Any:
        """Copy each member's to the root."""
        source = one_of("gather", inputs)
        rows, root = outputs[0] if outputs else [], self._rank_of("gather: dst", opts.rootRank)
        check_one_dtype("gather", source, *rows)

        def call(heap: Heap, stream: Any) -> None:
            heap.staging.all_gather(rows, source, stream, root)

        return self._run(call, rows, inputs, facts=("gather", source, root))

    def scatter(self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any) -> Any:
        """Copy to each member its one of the root's ``inputs``."""
        output = one_of("scatter", outputs)
        rows, root = inputs[0] if inputs else [], self._rank_of("scatter: src", opts.rootRank)
        check_one_dtype("scatter", output, *rows)

        def call(heap: Heap, stream: Any) -> None:
            heap.staging.scatter(output, rows, root, stream)

        return self._run(call, outputs, rows, facts=("scatter", output, root))

    def _are_alike(
        self, rows: Tensors, own: torch.Tensor, routine: str, name: str, of_rows: str
    ) -> bool:
        """Are the members' tensors of one size? If not, this rank's is checked against its ``own``."""
        check_plain(own, *rows)
        check_one_dtype(routine, own, *rows)
        if len(rows) != self._n or len({row.nbytes for row in rows}) <= 1:
            return True
        row = rows[self._rank]
        if row.numel() != own.numel():
            raise ValueError(
                f"{routine}: {name} of {own.numel()} elements for {of_rows} of {row.numel()} of this "
                "rank"
            )
        return False

    def _check_sizes(
        self, routine: str, whole: tuple[str, torch.Tensor], part: tuple[str, torch.Tensor]
    ) -> None:
        """Raises: ValueError: ``whole`` has not as many elements as the members' parts together."""
        (name, tensor), (of_part, share) = whole, part
        check_plain(tensor, share)
        if tensor.numel() != self._n * share.numel():
            raise ValueError(
                f"{routine}: {name} has {tensor.numel()} elements, it needs {self._n} x {share.numel()} "
                f"= {self._n * share.numel()}: {of_part} has {share.numel()}, the group {self._n} ranks"
            )

    def _check_rows(self, routine: str, name: str, rows: Tensors) -> None:
        """Raises: ValueError: a list has not one tensor for each rank."""
        if len(rows) != self._n:
            raise ValueError(
                f"{routine}: {name} has {len(rows)} tensors, it needs {self._n}, one for each rank"
            )

    def _beside(self, given: torch.Tensor, results: Tensors) -> torch.Tensor:
        """``given``, or a copy where results lie over it, which are set one after the other."""
        return given.clone() if any(share_memory(given, one) for one in results) else given

    def _shares(
        self, tensor: torch.Tensor, routine: str, other: torch.Tensor
    ) -> list[torch.Tensor]:
        """A tensor's equal shares, one a member; ``other`` is what they come from or go to."""
        check_plain(tensor, other)
        check_one_dtype(routine, tensor, other)
        if not tensor.is_contiguous():
            if tensor.dim() and tensor.shape[0] % self._n == 0:
                return list(tensor.chunk(self._n))
            raise ValueError(
                f"{routine} with one tensor for all members that is not contiguous, and whose "
                f"{tensor.shape[0] if tensor.dim() else 1} rows {self._n} members cannot share evenly: "
                "give one of torch.empty, or a copy by contiguous()"
            )
        if tensor.numel() % self._n:
            raise ValueError(
                f"{routine}: a tensor of {tensor.numel()} elements, which {self._n} members cannot "
                "share evenly"
            )
        return list(tensor.view(-1).chunk(self._n)) if tensor.numel() else [tensor] * self._n

    def _parts(
        self, tensor: torch.Tensor, splits: list[int], name: str, other: torch.Tensor
    ) -> list[torch.Tensor]:
        check_plain(tensor, other)
        if not splits:
            return self._shares(tensor, "all_to_all", other)
        if len(splits) != self._n or sum(splits) != tensor.shape[0]:
            raise ValueError(
                f"{name} splits {splits} for {self._n} members and {tensor.shape[0]} rows"
            )
        return list(tensor.split(splits))

    def _kind_of_reduction(self, number: int, tensor: torch.Tensor) -> tuple[int, int] | None:
        """The library's numbers of torch's reduction and of the element; None where it scales."""
        kind = dist.ReduceOp.RedOpType(number)
        if kind in (dist.ReduceOp.AVG, dist.ReduceOp.PREMUL_SUM):
            return None
        what = _known_reduction(kind, tensor.dtype)
        return int(what.number), int(what.element)

    def _kind_on_stream(self, number: int, tensor: torch.Tensor) -> tuple[int, int, bool] | None:
        """The same on a GPU, and whether the sum is divided by the number of members."""
        kind = dist.ReduceOp.RedOpType(number)
        if kind == dist.ReduceOp.PREMUL_SUM:
            return None
        what = _known_reduction(kind, tensor.dtype)
        return int(what.number), int(what.element), what.mean

    def new_window(self, tensor: torch.Tensor | None) -> Window:
        """One-sided calls on a tensor of each member, of torch's own symmetric memory. Collective."""
        window = Window(self._name, self._rank_of, self._queue("cpu", "windows"))
        if tensor is not None:
            window.tensor_register(tensor, owning=True)
        return window

    def split(self, store: Any, rank: int, size: int, name: str, seconds: float) -> Any:
        """A group of some of the members, which make it together; ``store`` is theirs."""
        return _make(store, rank, size, Options(), name, seconds)


class ShmemProcessGroup(Collectives, dist.ProcessGroup):
    """The process group where there is no C++ compiler: Python's methods in place of torch's own."""

    def __init__(self, store: Any, rank: int, size: int, options: Any, name: str = "") -> None:
        dist.ProcessGroup.__init__(self, rank, size)
        Collectives.__init__(self, store, rank, size, options, name)


#: Reductions by the number of torch's and the dtype: to make one takes longer than a call may.
_known: dict[tuple[int, torch.dtype], Reduction] = {}


def _known_reduction(kind: Any, dtype: torch.dtype) -> Reduction:
    key = int(kind), dtype
    found = _known.get(key)
    if found is None:
        name = str(kind).rpartition(".")[2]
        try:
            found = _known[key] = Reduction(_OPS[name], dtype)
        except TypeError as error:
            error.add_note(f"it was called with torch.distributed.ReduceOp.{name} of {dtype}")
            raise
    return found


def _reduction(opts: Any, tensor: torch.Tensor) -> Reduction:
    op = opts.reduceOp if opts is not None else dist.ReduceOp.SUM
    kind = getattr(op, "op", op)
    if kind == dist.ReduceOp.PREMUL_SUM:  # each has a factor of its own
        return Reduction("sum", tensor.dtype, op.__getstate__()[1])
    return _known_reduction(kind, tensor.dtype)


def _make(store: Any, rank: int, size: int, options: Any, name: str, seconds: float) -> Any:
    """A group for torch: a backend in C++, or a process group in Python."""
    queues = native.queues()
    foreign.record_groups_of(NAME, queues is not worker_queues)
    if queues is worker_queues:
        return ShmemProcessGroup(store, rank, size, options, name)
    group = Collectives(store, rank, size, options, name, queues)
    return queues.Backend(group, rank, size, NAME, seconds)


def _create(distributed: Any, options: Any) -> Any:
    return _make(
        distributed.store, distributed.group_rank, distributed.group_size,
        Options() if options is None else options, distributed.group_id,
        distributed.timeout.total_seconds(),
    )  # fmt: skip


def _ours(group: Any) -> Any:
    """The backend in C++ of a process group of torch's; None: it has another's."""
    for device in group._device_types:
        backend = group._get_backend(device)
        if isinstance(getattr(backend, "group", None), Collectives):
            return backend
    return None


def team_of_group(group: Any) -> Any:
    """``ProcessGroup.team``: that of a group of this backend. Raises: AttributeError for another's."""
    backend = _ours(group)
    if backend is None:
        raise AttributeError(f"a process group of backend {group.name()} has no team of pyshmem")
    return backend.group.team


def _of_our_groups_too(plain: Callable[[Any], int]) -> Callable[[Any], int]:
    def call(group: Any) -> int:
        backend = _ours(group)
        return plain(group) if backend is None else int(backend._get_sequence_number_for_group())

    return call


def _named_too(plain: Callable[[Any], str]) -> Callable[[Any], str]:
    """``ProcessGroup.name``, which torch keeps for backends of its own."""

    def call(group: Any) -> str:
        name = plain(group)
        return NAME if name == foreign.UNNAMED and _ours(group) is not None else name

    return call


def _told_of_launchers(plain: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
    """How torch's ranks find each other; its error without RANK and the like tells what sets them."""

    def call(*args: Any, **named: Any) -> Iterator[Any]:
        try:
            yield from plain(*args, **named)
        except ValueError as error:
            if "environment variable" in str(error):
                error.add_note(
                    "python -m pyshmem run -n 2 program.py sets RANK, WORLD_SIZE, MASTER_ADDR and "
                    "MASTER_PORT, as torchrun does; pyshmem.interop.torch.init_process_group() "
                    "needs none"
                )
            raise

    return call


def _logged_by_name(plain: Callable[[Any], dict[str, Any]]) -> Callable[[Any], dict[str, Any]]:
    """What DDP logs of a model, which asks the group for its name in C++."""

    def call(model: Any) -> dict[str, Any]:
        told = plain(model)
        if told.get("backend_name") == foreign.UNNAMED:
            told["backend_name"] = model.process_group.name()
        return told

    return call


def _recorded(plain: Callable[..., Any]) -> Callable[..., Any]:
    """Torch's maker of groups, which attaches the flight recorder to ours in C++."""

    def call(*args: Any, **named: Any) -> Any:
        made = plain(*args, **named)
        backend = _ours(made[0]) if isinstance(made[0], dist.ProcessGroup) else None
        if backend is not None:
            backend.group.recorder = foreign.recorder_of(made[0])
        return made

    return call


def register() -> None:
    """Make torch.distributed know the backend."""
    if foreign.has_backend(NAME):
        return
    # A build with CUDA also runs where there is no GPU. The driver is not asked: that would start it.
    on_gpus = torch.backends.cuda.is_built() and may_have_gpu()
    devices = ["cpu", "cuda"] if on_gpus else ["cpu"]
    dist.Backend.register_backend(NAME, _create, extended_api=True, devices=devices)
    foreign.NEW_GROUP.wrap(_recorded)
    foreign.TEAM_OF_GROUP.offer(property(team_of_group))
    foreign.SEQUENCE_NUMBER.wrap(_of_our_groups_too)
    foreign.GROUP_NAME.wrap(_named_too)
    foreign.RENDEZVOUS.wrap(_told_of_launchers)
    foreign.DDP_LOGGED.wrap(_logged_by_name)
    foreign.DDP_HOOK.wrap(_without_cpp_futures)


def _without_cpp_futures(register: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
    """DDP's ``_register_builtin_comm_hook``, for groups whose futures hold what Python gave them.

    Torch's FP16_COMPRESS in C++ wants a future that C++ made, and aborts; its Python hook does the same.
    """

    def call(model: Any, comm_hook_type: Any) -> None:
        ours = isinstance(getattr(model, "process_group", None), ShmemProcessGroup)
        if ours and comm_hook_type == dist.BuiltinCommHookType.FP16_COMPRESS:
            from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

            model.register_comm_hook(model.process_group, default_hooks.fp16_compress_hook)
            return
        register(model, comm_hook_type)

    return call
