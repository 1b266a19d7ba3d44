# SPDX-License-Identifier: BSD-3-Clause
"""A process group as torch.distributed sees it, but for collectives: names, queues, messages, end."""

from __future__ import annotations

import ctypes
import operator
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist

from ..._core.errors import UnsupportedError
from ..._core.library import check, checks_order, lib, parse_size, setting_number
from ..._core.values import refuse_masked, with_article
from ..._torch.arguments import check_plain
from ..._torch.process_groups import Members, StoreExchange
from ..._torch.staging import Staging, capturing
from ..._torch.users_calls import check_call, function_of, named
from ...host.job import runtime
from ...host.kernels.stream_kernels import load_missing
from ...host.tuning.streams import KINDS
from . import worker_queues
from .agreement import agree
from .given import one_of, tag_of
from .monitored_barrier import monitored_barrier
from .native import address_of
from .send_recv import Mailbox

#: ``_torch.record`` while PYSHMEM_CHECK=order.
_record: Any = None
if checks_order():
    from ..._torch import record as _record

NAME = "pyshmem"
Tensors = Sequence[torch.Tensor]


@dataclass
class Options:
    """``pg_options`` of the first group of a job.

    Attributes:
        staging: bytes, or a text such as ``"64M"``, that all groups together stage their tensors in,
            on each heap; None: 64 MiB, and on the device heap a quarter of it where that is more and
            twice as much is free. The first group gets a quarter, each other one a thirty-second, or an
            eighth of what is left where that is less. The same on all PEs; another size than before is
            refused while there are groups.
    """

    staging: int | str | None = None


def _gate(noted: Any, queue: Any) -> tuple[Any, ...]:
    """What is around a call while the checker of order is on: one gate, or none."""
    return () if noted is None else (_record.gate(noted, queue),)


def _size_of(options: Any) -> int | None:
    if not isinstance(options, Options):
        raise TypeError(
            f"pg_options is {with_article(type(options).__name__)}; give pyshmem.interop.torch.Options"
        )
    return None if options.staging is None else parse_size(options.staging)


class Heap:
    """What a group has on a heap: for collectives three quarters of its bytes, the rest for messages."""

    def __init__(self, members: Members, heap: str) -> None:
        block = members.block(heap)
        assert block is not None
        messages = block.numel() // 4
        self.mailbox = Mailbox(members.team, block[:messages])
        self.staging = Staging(members.team, block[messages:])


class Group:
    """What a process group is without its collectives.

    Args:
        store: of torch, for the members of this group alone.
        rank: the caller's.
        size: how many members.
        options: of the class ``Options``.
        name: torch's, of the group.
        queues: makes them: ``native.queues()``, or the module ``worker_queues``.
    """

    def __init__(
        self, store: Any, rank: int, size: int, options: Any, name: str = "", queues: Any = worker_queues
    ) -> None:  # fmt: skip
        self._queues_of = queues
        self.recorder: Any = None  # torch's, of the flight recorder; it holds torch's group
        # What does calls in C++ once members compare none: of few bytes on the host, and on a GPU.
        self.host_collectives: Any = None
        self.stream_collectives: Any = None
        self._rank, self._n, self._name, self._desc = rank, size, name, "undefined"
        self._members: Members | None = None
        self._heaps: dict[str, Heap] = {}
        self._queues: dict[Any, Any] = {}
        self._n_calls = 0  # collectives so far that can be compared
        self._stream_calls = ctypes.c_int64(0)  # collectives so far on a GPU; C++ counts them too
        self._to_self = 0  # messages to this rank that no recv is for yet
        # Of what threads of the program count and make: queues, messages to itself, receives in order.
        self._lock = threading.RLock()
        self._count_lock = threading.Lock()  # of messages to itself: queues' threads take it, too
        self._begun: list[Any] | None = None  # works since _start_coalescing
        self._store, self._barriers = store, 0
        exchange = StoreExchange(store, rank, size)
        with exchange.together():
            self._join(exchange, options)

    def _join(self, exchange: StoreExchange, options: Any) -> None:
        self._members = Members(exchange, _size_of(options))
        self._pes = self.team.pes()
        # Which of the groups of these members: names come again in the next job.
        self._which = 0 if _record is None else _record.groups_so_far(self.team.pes())
        try:
            self._heaps["cpu"] = Heap(self._members, "host")
            self._gpu = runtime.current().gpu
            if runtime.device_name() == "cuda":
                self._heaps["cuda"] = Heap(self._members, "device")
                torch.cuda.synchronize(self._gpu)
            self._n_compared = setting_number("CHECK_FIRST")
            exchange(b"ready")  # the words of all mailboxes are 0
        except BaseException:
            self.shutdown()
            raise

    # ---- what torch asks ---------------------------------------------------------------------------

    supports_splitting = False
    supports_coalescing = False

    def getRank(self) -> int:
        """The calling member."""
        return self._rank

    def getSize(self) -> int:
        """The number of members."""
        return self._n

    rank, size = getRank, getSize

    def getBackendName(self) -> str:
        """``"pyshmem"``."""
        return NAME

    name = _get_backend_name = getBackendName

    def getGroupName(self) -> str:
        """Torch's name of the group."""
        return self._name

    def setGroupName(self, name: str) -> None:
        """Torch names it."""
        self._name = name

    _set_group_name = setGroupName
    group_name = property(getGroupName)

    def getGroupDesc(self) -> str:
        """Torch's description of the group."""
        return self._desc

    def setGroupDesc(self, desc: str) -> None:
        """Torch describes it."""
        self._desc = desc

    _set_group_desc = setGroupDesc
    group_desc = property(getGroupDesc)

    @property
    def _device_types(self) -> list[torch.device]:
        return [torch.device(kind) for kind in self._heaps]

    def _get_backend(self, device: Any) -> Group:
        return self

    @property
    def team(self) -> Any:
        """The group's team, in the order of its ranks."""
        if self._members is None:
            raise ValueError(f"process group {self._name} was destroyed")
        return self._members.team

    # ---- running -----------------------------------------------------------------------------------

    def _kind(self, tensors: Tensors) -> str:
        check_plain(*tensors)
        kinds = {tensor.device for tensor in tensors}
        if len(kinds) != 1:
            raise ValueError(f"tensors on {sorted(map(str, kinds))}; give those of one device")
        device = kinds.pop()
        if device.type not in self._heaps or (device.type == "cuda" and device.index != self._gpu):
            here = ["cpu", f"cuda:{self._gpu}"][: len(self._heaps)]
            raise ValueError(f"a tensor on {device}; this group's are on {' and '.join(here)}")
        return str(device.type)

    def _run(
        self, call: Callable[[Any, Any], Any], outputs: Tensors, inputs: Tensors = (),
        queue: Any = "collectives", facts: Sequence[Any] = (), noted: Any = None,
        users_call: str = "",
    ) -> Any:  # fmt: skip
        """Queue ``call(heap, stream)``.

        Args:
            call: what to do.
            outputs: what it sets and its future gives.
            inputs: what else it uses.
            queue: calls of one queue are in order.
            facts: what is the same on all members, which they compare in the first calls of the group,
                and in checking mode in each.
            noted: the call as the checker of order knows it; else it is made here.
            users_call: for reports of waits; else it is the first fact.
        """
        assert self.team  # refuses a group that was destroyed
        used = [*outputs, *inputs]
        kind = self._kind(used)
        heap = self._heaps[kind]
        if noted is None:
            noted = self._noted(facts or (queue[0], queue[1]), inputs, outputs)
        if facts:
            call = self._comparing(kind, call, facts)
        if kind == "cpu":
            call = named(users_call or function_of(facts[0]), call, self._pes)
            gate = _gate(noted, (self._name, queue))
            work: Any = self._queue(kind, queue).submit(lambda: call(heap, None), outputs, *gate)
        else:
            if queue == "collectives":
                self._stream_calls.value += 1
                self._heaps["cpu"].mailbox.refuse_call(self._stream_calls.value)
            # Captured works are joined by the graph's own stream, eager ones by their events.
            work = self._queue(kind, queue).submit(lambda s: call(heap, s), outputs, used)
        if noted is not None:
            _record.watch(work, noted)
            _record.has_put()
        if self._begun is not None:
            self._begun.append(work)
        return work

    def _noted(self, facts: Sequence[Any], inputs: Tensors = (), outputs: Tensors = ()) -> Any:
        """The call as the checker of order knows it, from here on; None: that is off."""
        if _record is None:
            return None
        members = self._name, self._which, *self.team.pes()
        return _record.group_call((members, self._rank, self._n), facts, inputs, outputs)

    def _comparing(
        self, kind: str, call: Callable[[Any, Any], None], facts: Sequence[Any]
    ) -> Callable[[Any, Any], None]:
        """``call`` behind a comparison of facts, which is on the host, if this one is to be compared."""
        compares, staging = self.compares(), self._heaps["cpu"].staging
        self._n_calls += 1
        if not compares:
            self._make_collectives(kind)
            return call
        if kind == "cpu":

            def both(heap: Heap, stream: Any) -> None:
                agree(staging, facts)
                call(heap, stream)

            return both
        if not capturing():
            agreed = named(function_of(facts[0]), lambda: agree(staging, facts), self._pes)
            self._queue("cpu", "collectives").do(agreed)
        return call

    def _make_collectives(self, kind: str) -> None:
        """From here on calls need no Python, where queues are in C++."""
        if not hasattr(self._queues_of, "HostCollectives"):
            return
        if self.host_collectives is None:
            self.host_collectives = self._queues_of.HostCollectives(
                self._parts_of_collectives("cpu")
            )
        if self.stream_collectives is None and kind == "cuda":
            self.stream_collectives = self._queues_of.StreamCollectives(self._parts_on_stream())

    def _parts_of_collectives(self, kind: str) -> SimpleNamespace:
        """What ``HostCollectives`` in C++ is made of: addresses and numbers."""
        staging = self._heaps[kind].staging
        names = "reduce", "reduce_scatter", "broadcast", "fcollect", "alltoall"
        suffix = "" if kind == "cpu" else "_on_stream"
        routines = {name: address_of(f"ishmemx_{name}{suffix}") for name in names}
        routines["name_waits"] = address_of("ishmemx_name_waits")
        return SimpleNamespace(
            queue=self._queue(kind, "collectives"), team=self.team.handle, n=self._n, me=self._rank,
            half=staging.half, halves=staging.halves(), turn=staging.turn_address(),
            check=lambda status, call: check_call(status, call, self._pes),
            kind=self._kind_of_reduction if kind == "cpu" else self._kind_on_stream,
            routines=routines,
        )  # fmt: skip

    def _parts_on_stream(self) -> SimpleNamespace:
        """The same of ``StreamCollectives``."""
        parts = self._parts_of_collectives("cuda")
        parts.check = check
        others = {"sync": "sync_on_stream", "sides": "stream_sides", "fetch": "signal_fetch"}
        parts.routines |= {key: address_of(f"ishmemx_{name}") for key, name in others.items()}
        parts.numbers = KINDS
        parts.device, parts.unprepared = self._gpu, lib.ISHMEMX_ERR_UNPREPARED
        parts.calls = ctypes.addressof(self._stream_calls)
        parts.leaving = self._heaps["cpu"].mailbox.words_of_leaving()
        parts.load, parts.prepare = load_missing, self._heaps["cuda"].staging.prepare_captures
        return parts

    def _kind_of_reduction(self, number: int, tensor: torch.Tensor) -> tuple[int, int] | None:
        raise NotImplementedError

    def _kind_on_stream(self, number: int, tensor: torch.Tensor) -> tuple[int, int, bool] | None:
        raise NotImplementedError

    def compares(self) -> bool:
        """Whether the members compare the next collective; the same on all that make the same calls."""
        job = runtime.current()
        return self._n > 1 and (job.checks or self._n_calls < self._n_compared)

    def _queue(self, kind: str, queue: Any) -> Any:
        key = kind, queue
        with self._lock:  # two queues of one key would do its calls side by side
            found = self._queues.get(key)
            if found is None:
                assert self.team  # refuses a group that another thread has destroyed since
                found = self._queues[key] = self._new_queue(kind, f"pyshmem {self._name} {queue}")
            return found

    def _new_queue(self, kind: str, name: str) -> Any:
        if kind == "cpu":
            return self._queues_of.HostQueue(name)
        return self._queues_of.StreamQueue(torch.cuda.Stream(torch.device("cuda", self._gpu)))

    def _made(self) -> list[tuple[str, Any]]:
        """The queues so far, each with its kind of device."""
        with self._lock:
            return [(kind, queue) for (kind, _), queue in self._queues.items()]

    def _rank_of(self, name: str, given: Any) -> int:
        """A rank of this group; torch looks at those of subgroups alone, and never at ``group_dst``.

        Raises: TypeError (no number), ValueError (the group has no such rank).
        """
        refuse_masked(given, name)
        try:
            rank = operator.index(given)
        except TypeError:
            raise TypeError(f"{name} is {given!r} ({type(given).__name__}); give a rank") from None
        if not 0 <= rank < self._n:
            raise ValueError(
                f"{name} is rank {rank}, which this group of {self._n} members does not have "
                f"(0..{self._n - 1})"
            )
        return rank

    # ---- messages ----------------------------------------------------------------------------------

    def send(self, tensors: Tensors, to: int, tag: int = 0) -> Any:
        """Send to a member; messages of a pair are received in the order they are sent.

        Raises: ValueError (rank, tag), MismatchError (that member has left).
        """
        tensor = one_of("send", tensors)
        to, tag = self._rank_of("send: dst", to), tag_of("send", tag)

        def call(heap: Heap, stream: Any) -> None:
            if self._heaps["cpu"].mailbox.has_left(to):
                heap.mailbox.refuse_send(to)
            heap.mailbox.send(tensor, to, tag, stream)

        users_call = f"send to rank {to} (tag {tag})"
        work = self._run(call, tensors, queue=("to", to), users_call=users_call)
        if to == self._rank:
            self._count_to_self(1)
        return work

    def _count_to_self(self, more: int) -> None:
        """One that this rank sends itself, or receives; calls that are refused count for nothing."""
        with self._count_lock:
            self._to_self += more

    def recv(self, tensors: Tensors, sender: int, tag: int = 0) -> Any:
        """Receive the next message of a member.

        Raises: ValueError (rank, tag; this rank, which has sent itself nothing), MismatchError (that
            member has left, and sent none; on the host: a message of another size or tag).
        """
        tensor = one_of("recv", tensors)
        sender, tag = self._rank_of("recv: src", sender), tag_of("recv", tag)
        if sender == self._rank and not self._to_self:
            raise ValueError(f"recv: src is this rank, {sender}, which has sent itself nothing")

        def call(heap: Heap, stream: Any) -> None:
            if self._heaps["cpu"].mailbox.has_left(sender):
                heap.mailbox.refuse_receive(sender)
            heap.mailbox.receive(tensor, sender, tag, stream)

        if self._kind(tensors) == "cpu":
            work = self._receive(tensor, sender, tag)
        else:
            work = self._run(call, tensors, queue=("from", sender))
        if sender == self._rank:
            self._count_to_self(-1)
        return work

    def recv_anysource(self, tensors: Tensors, tag: int = 0) -> Any:
        """Receive the next message with this tag, whoever sends it; its work says who, ``_source_rank``.

        Raises: ValueError (tag), UnsupportedError (a tensor of a GPU, whose messages carry no tags),
            MismatchError (all others have left; on the host: a message of another size).
        """
        tensor, tag = one_of("recv", tensors), tag_of("recv", tag)
        if self._kind(tensors) == "cuda":
            raise UnsupportedError(
                "messages of CUDA tensors are received from a given rank: pass src= to recv, or give "
                "CPU tensors"
            )
        return self._receive(tensor, None, tag)

    def _receive(self, tensor: torch.Tensor, sender: int | None, tag: int) -> Any:
        """A receive on the host; None: from any source. Its call returns the sender."""
        assert self.team  # refuses a group that was destroyed
        mailbox, number = self._heaps["cpu"].mailbox, 0
        queue = ("any", tag) if sender is None else ("from", sender)
        whom = "any rank" if sender is None else f"rank {sender}"
        noted = self._noted(queue, (), [tensor])

        def call(heap: Heap, stream: Any) -> int:
            found, message = sender, None
            try:
                if found is None:
                    found, message = mailbox.take_any(tag, number)
                    self._count_to_self(-(found == self._rank))
                else:
                    mailbox.await_turn(found, number)
                    message = mailbox.kept(found)
                n_messages = mailbox.receive(tensor, found, tag, message=message)
                if noted is not None:
                    noted.took(found, n_messages)
            finally:
                mailbox.received(number, found)
            return found

        with self._lock:  # a queue has receives in the order of their numbers
            number = mailbox.receives.called(sender, tag)
            try:
                users_call = f"recv from {whom} (tag {tag})"
                return self._run(call, [tensor], queue=queue, noted=noted, users_call=users_call)
            except BaseException:
                mailbox.received(number, sender)
                raise

    def barrier(self, opts: Any = None) -> Any:
        """Wait until all members have come so far, and this PE's calls on a GPU are done."""
        team = self.team
        on_gpu = [queue for kind, queue in self._made() if kind == "cuda"]

        def call(heap: Any, stream: Any) -> None:
            for queue in on_gpu:
                queue.synchronize()
            check(lib.ishmemx_team_sync(team.handle))

        noted = self._noted(("barrier",))
        compared = named("barrier", self._comparing("cpu", call, ("barrier",)), self._pes)
        gate = _gate(noted, (self._name, "collectives"))
        work = self._queue("cpu", "collectives").submit(lambda: compared(None, None), [], *gate)
        if noted is not None:
            _record.watch(work, noted)
        return work

    def monitored_barrier(
        self, timeout: Any = None, wait_all_ranks: bool = False, **other: Any
    ) -> None:
        """Wait for all members on the host, and say who does not come; rank 0 waits for the others.

        Args:
            timeout: seconds, or a timedelta; None: torch's default of a group.
            wait_all_ranks: name all that are missing, not the first alone.
            other: nothing.

        Raises: RuntimeError (a member does not come), ValueError (the group was destroyed).
        """
        if other:
            raise TypeError(f"monitored_barrier takes no {', '.join(other)}")
        assert self.team  # refuses a group that was destroyed
        if timeout is None:
            timeout = dist.constants.default_pg_timeout
        if isinstance(timeout, timedelta):
            timeout = timeout.total_seconds()
        self._barriers += 1
        noted = self._noted(("monitored_barrier",))
        given = (
            self._store,
            self._barriers,
            self._rank,
            self._n,
            float(timeout),
            bool(wait_all_ranks),
        )
        if noted is None:
            monitored_barrier(*given)
        else:
            _record.together(lambda: monitored_barrier(*given), noted.meeting)
        if noted is not None:
            noted.over()

    # ---- several at a time, and the end --------------------------------------------------------------

    def _start_coalescing(self, device: Any) -> None:
        self._begun = []

    def _end_coalescing(self, device: Any) -> Any:
        works, self._begun = self._begun or [], None
        return worker_queues.AllWork(works)

    def shutdown(self) -> None:
        """End the group: complete its calls, then give its team and its memory back. By all members."""
        members, self._members = self._members, None
        self.recorder = None
        if members is None:
            return
        for kind, queue in self._made():
            queue.close() if kind == "cpu" else queue.synchronize()
        self._queues.clear()
        try:
            self._tell_leaving()
        finally:
            self._heaps.clear()
            members.leave()

    def _tell_leaving(self) -> None:
        """Messages and calls on streams that would wait for this member fail at the others.

        Those of the host wait for it in the team, which tells them itself when it is destroyed.
        """
        if not runtime.initialized():
            return
        for kind, heap in self._heaps.items():
            stream = torch.cuda.current_stream(self._gpu) if kind == "cuda" else None
            heap.mailbox.leave(self._stream_calls.value, stream)
            if stream is not None:
                stream.synchronize()

    def abort(self) -> None:
        """Take no more calls, and wait for nothing; what the group has goes back with the job.

        Calls of the other members that would wait for this one fail.
        """
        members, self._members = self._members, None
        self.recorder = None
        if members is not None and runtime.initialized():
            check(lib.ishmemx_team_leave(members.team.handle))
        self._tell_leaving()
        for kind, queue in self._made():
            if kind == "cpu":
                queue.close(wait=False)
