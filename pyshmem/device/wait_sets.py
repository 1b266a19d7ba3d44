# SPDX-License-Identifier: BSD-3-Clause
"""Waiting for, and testing, several elements of the caller's own memory from kernels.

``ivars`` is an array of 32 or 64 bit integers where kernels reach it; its first ``nelems`` elements
count, but those whose ``status`` is not 0: an int32 array, or None. ``cmp_value`` is the right-hand
side of all, ``cmp_values``, an array, one an element. With nothing left to look at nothing waits:
all hold, any is NO_INDEX, some is 0. ``any`` and ``some`` see the elements from behind the one
found last, so that each has its turn.
"""

from __future__ import annotations

from typing import Any

from ._backend import (
    address_of,
    cast,
    device_function,
    opaque,
    read,
    read64_acquire,
    relax,
    require,
    scopes,
    state,
    to_int64,
)
from ._faults import OP
from ._groups import Scope
from ._state import FAULT_CLAIM
from ._wait import given_up, holds

_standard = require("a")
#: What the ``any`` forms return for no element: the bits of SIZE_MAX.
NO_INDEX = -1
_POLLS_PER_CHECK = 64


@device_function
def _counts(status, i):
    if status is None:
        return True
    return status[i] == 0


@device_function
def _same(values, _i):
    return values


@device_function
def _own(values, i):
    return values[i]


def _make_look(pick: Any) -> Any:
    """``f(ivars, i, status, cmp, values)``: does element i count, and hold?"""

    @device_function
    def look(ivars, i, status, cmp, values):
        if not _counts(status, i):
            return False
        seen = read(address_of(ivars) + i * ivars.itemsize, ivars)
        return holds(seen, cmp, cast(ivars, pick(values, i)))

    return look


@device_function
def _turn_over(deadline, polls, op, nelems):
    """After a round in which too little held: the deadline, or -1 when the wait must end."""
    relax()
    if polls & (_POLLS_PER_CHECK - 1) == 0:
        return given_up(deadline, op, -1, nelems, 0)
    return deadline


def _make_all(vector: bool, wait: bool) -> Any:
    look = _make_look(_own if vector else _same)
    op = OP["wait_until_all" if wait else "test_all"]
    suffix = "_vector" if vector else ""

    def make(scope: Scope) -> Any:
        rank, size, share, sync = scope.rank, scope.size, scope.share, scope.sync

        @device_function
        def lane(ivars, nelems, status, cmp, values):
            """Whether all of this lane's hold; a wait goes on until they do."""
            i, deadline, polls = rank() + nelems * 0, 0, 0
            while i < nelems:
                if not _counts(status, i) or look(ivars, i, status, cmp, values):
                    i += size()
                elif not wait:
                    return False
                else:
                    polls += opaque(1)
                    deadline = _turn_over(deadline, polls, op, nelems)
                    if deadline < 0:
                        return False
            return True

        def body(ivars, nelems, status, cmp, values):
            _standard(ivars)
            if wait:
                lane(ivars, nelems, status, cmp, values)
                read64_acquire(state(FAULT_CLAIM))  # for its order
                sync()
                return True
            result = 1
            if rank() == 0:
                relax()  # who tests in a loop lets the simulator's other threads run
                i = nelems * 0
                while i < nelems:
                    if _counts(status, i) and not look(ivars, i, status, cmp, values):
                        result = 0
                    i += 1
                read64_acquire(state(FAULT_CLAIM))
            return share(to_int64(result)) != 0

        routine = _public(body, wait, vector)
        routine.__name__ = f"{'wait_until' if wait else 'test'}_all{suffix}"
        routine.__doc__ = f"""{"Wait until" if wait else "Whether"} all elements hold.

        What was stored before the changes may be read then.
        Faults: a wait that takes longer than PYSHMEM_TIMEOUT ends, and the next host call raises.
        Spec: shmem_{"wait_until" if wait else "test"}_all{suffix}.
        """
        return routine

    return make


def _public(body: Any, returns: bool, vector: bool) -> Any:
    """The argument is called cmp_value or cmp_values."""
    if vector:

        def routine_vector(ivars, nelems, status, cmp, cmp_values):
            return body(ivars, nelems, status, cmp, cmp_values)

        body = device_function(body)
        return routine_vector

    def routine(ivars, nelems, status, cmp, cmp_value):
        return body(ivars, nelems, status, cmp, cmp_value)

    body = device_function(body)
    return routine


def _make_any(vector: bool, wait: bool) -> Any:
    look = _make_look(_own if vector else _same)
    op = OP["wait_until_any" if wait else "test_any"]
    suffix = "_vector" if vector else ""

    def make(scope: Scope) -> Any:
        rank, share = scope.rank, scope.share

        @device_function
        def search(ivars, nelems, status, cmp, values, first):
            """Of the elements from ``first`` on, and round; NO_INDEX, and how many count."""
            i, some = nelems * 0, False
            while i < nelems:
                at = i + first
                if at >= nelems:
                    at -= nelems
                if _counts(status, at):
                    some = True
                    if look(ivars, at, status, cmp, values):
                        return at, True
                i += 1
            return nelems * 0 - 1, some

        def body(ivars, nelems, status, cmp, values, first):
            _standard(ivars)
            found = nelems * 0 - 1
            if rank() == 0:
                relax()
                deadline, polls = 0, 0
                start = first + nelems * 0
                if start >= nelems:
                    start = nelems * 0
                found, some = search(ivars, nelems, status, cmp, values, start)
                while wait and some and found < 0:
                    polls += opaque(1)
                    deadline = _turn_over(deadline, polls, op, nelems)
                    if deadline < 0:
                        break
                    found, some = search(ivars, nelems, status, cmp, values, start)
                read64_acquire(state(FAULT_CLAIM))  # for its order
            return share(to_int64(found))

        routine = _public_any(body, vector)
        routine.__name__ = f"{'wait_until' if wait else 'test'}_any{suffix}"
        routine.__doc__ = f"""{"Wait for" if wait else "Look for"} an element that holds; its index.

        ``first``: where to begin looking, for turns: one past the index found before.
        NO_INDEX (-1, SIZE_MAX as bits) when there is none{" to wait for" if wait else ""}.
        Spec: shmem_{"wait_until" if wait else "test"}_any{suffix}.
        """
        return routine

    return make


def _public_any(body: Any, vector: bool) -> Any:
    body = device_function(body)
    if vector:

        def routine_vector(ivars, nelems, status, cmp, cmp_values, first=0):
            return body(ivars, nelems, status, cmp, cmp_values, first)

        return routine_vector

    def routine(ivars, nelems, status, cmp, cmp_value, first=0):
        return body(ivars, nelems, status, cmp, cmp_value, first)

    return routine


def _make_some(vector: bool, wait: bool) -> Any:
    look = _make_look(_own if vector else _same)
    op = OP["wait_until_some" if wait else "test_some"]
    suffix = "_vector" if vector else ""

    def make(scope: Scope) -> Any:
        rank, share = scope.rank, scope.share

        @device_function
        def gather(ivars, nelems, indices, status, cmp, values):
            i, found, some = nelems * 0, nelems * 0, False
            while i < nelems:
                if _counts(status, i):
                    some = True
                    if look(ivars, i, status, cmp, values):
                        indices[found] = i
                        found += 1
                i += 1
            return found, some

        def body(ivars, nelems, indices, status, cmp, values):
            _standard(ivars)
            found = nelems * 0
            if rank() == 0:
                relax()
                deadline, polls = 0, 0
                found, some = gather(ivars, nelems, indices, status, cmp, values)
                while wait and some and found == 0:
                    polls += opaque(1)
                    deadline = _turn_over(deadline, polls, op, nelems)
                    if deadline < 0:
                        break
                    found, some = gather(ivars, nelems, indices, status, cmp, values)
                read64_acquire(state(FAULT_CLAIM))  # for its order
            return share(to_int64(found))

        body = device_function(body)
        if vector:

            def routine(ivars, nelems, indices, status, cmp, cmp_values):
                return body(ivars, nelems, indices, status, cmp, cmp_values)

        else:

            def routine(ivars, nelems, indices, status, cmp, cmp_value):
                return body(ivars, nelems, indices, status, cmp, cmp_value)

        routine.__name__ = f"{'wait_until' if wait else 'test'}_some{suffix}"
        routine.__doc__ = f"""{"Wait until some elements hold" if wait else "Which elements hold"}.

        Writes their indices to the int64 array ``indices``, of ``nelems`` elements; returns how many.
        Spec: shmem_{"wait_until" if wait else "test"}_some{suffix}.
        """
        return routine

    return make


(wait_until_all, wait_until_all_warp, wait_until_all_work_group) = scopes(_make_all(False, True))
(wait_until_all_vector, wait_until_all_vector_warp, wait_until_all_vector_work_group) = scopes(
    _make_all(True, True)
)
test_all, test_all_warp, test_all_work_group = scopes(_make_all(False, False))
test_all_vector, test_all_vector_warp, test_all_vector_work_group = scopes(_make_all(True, False))
wait_until_any, wait_until_any_warp, wait_until_any_work_group = scopes(_make_any(False, True))
(wait_until_any_vector, wait_until_any_vector_warp, wait_until_any_vector_work_group) = scopes(
    _make_any(True, True)
)
test_any, test_any_warp, test_any_work_group = scopes(_make_any(False, False))
test_any_vector, test_any_vector_warp, test_any_vector_work_group = scopes(_make_any(True, False))
wait_until_some, wait_until_some_warp, wait_until_some_work_group = scopes(_make_some(False, True))
(wait_until_some_vector, wait_until_some_vector_warp, wait_until_some_vector_work_group) = scopes(
    _make_some(True, True)
)
test_some, test_some_warp, test_some_work_group = scopes(_make_some(False, False))
(test_some_vector, test_some_vector_warp, test_some_vector_work_group) = scopes(
    _make_some(True, False)
)
