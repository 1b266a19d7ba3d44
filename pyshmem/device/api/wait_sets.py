# SPDX-License-Identifier: BSD-3-Clause
"""Waiting for, and testing, several elements of the caller's own memory from kernels.

``ivars`` is an array of 32 or 64 bit integers where kernels reach it; its first ``nelems`` elements
count, but those whose ``status`` is not 0: an int32 array, or None. ``cmp_value`` is the right-hand
side of all, ``cmp_values``, an array, one an element. With nothing left to look at nothing waits:
all hold, any is NO_INDEX, some is 0. ``any`` and ``some`` see the elements from behind the one
found last, so that each has its turn.
"""

from itertools import product

from ..faults import CMP_SHIFT, FAULT_NELEMS, MANY, OP, record_fault
from ..groups import Scope
from ..leaf import backend as leaf
from ..leaf.backend import device_function, opaque, to_int64
from ..routine import scoped
from ..wait_loop import go_on, holds, is_comparison

_standard = leaf.require("a")
#: What the ``any`` forms return for no element: the bits of SIZE_MAX.
NO_INDEX = -1


@device_function
def _counts(status, i):
    if status is None:
        return True
    return status[i] == 0


@device_function
def _may_look(ivars, nelems, cmp, op):
    """Whether there are so many elements, and such a comparison; else a fault."""
    _standard(ivars)
    if nelems < 0 or nelems > ivars.size:
        record_fault(FAULT_NELEMS, op, -1, nelems, ivars.size)
    return 0 <= nelems <= ivars.size and is_comparison(cmp, op)


def _make_look(vector: bool, op: int):
    """``f(ivars, i, cmp, values)``: does element i hold? And ``go_on`` of waits for several.

    What they report is how many elements there are, and, if it is the same for all, what is asked.
    """

    @device_function
    def look(ivars, i, cmp, values):
        place = leaf.address_of(ivars) + i * leaf.itemsize_of(ivars)
        wanted = leaf.cast(ivars, values[i] if vector else values)
        if holds(leaf.read(place, ivars), cmp, wanted):
            # The very word: what was stored before it is read fresh.
            leaf.read_acquire(place, ivars)
            return True
        return False

    @device_function
    def on(deadline, polls, nelems, cmp, values):
        what = op | MANY | to_int64(0 if vector else cmp) << CMP_SHIFT
        return go_on(deadline, polls, what, -1, nelems, to_int64(0 if vector else values))

    return look, on


def _make_all(scope: Scope, look, on, op: int, wait: bool):
    """``f(ivars, nelems, status, cmp, values)``: the lanes of a wait share the elements."""
    rank, size, share, sync = scope.rank, scope.size, scope.share, scope.sync

    @device_function
    def walk(ivars, nelems, status, cmp, values, rank, size):
        """Whether every ``size``-th element from ``rank`` on holds; a wait goes on until it does."""
        i, deadline, polls = leaf.to_int64(rank), 0, 0
        while i < nelems and deadline >= 0:
            if not _counts(status, i) or look(ivars, i, cmp, values):
                i += size
            elif not wait:
                return False
            else:
                polls += opaque(1)
                deadline = on(deadline, polls, nelems, cmp, values)
        return True

    @device_function
    def all_hold(ivars, nelems, status, cmp, values):
        if not _may_look(ivars, nelems, cmp, op):
            return False
        if wait:
            walk(ivars, nelems, status, cmp, values, rank(), size())
            sync()
            return True
        held = True
        if rank() == 0:
            leaf.relax()  # who tests in a loop lets the simulator's other threads run
            held = walk(ivars, nelems, status, cmp, values, 0, 1)
        return share(leaf.to_int64(held)) != 0

    return all_hold


def _make_found(scope: Scope, look, on, op: int, wait: bool):
    """``f(ivars, nelems, indices, status, cmp, values, first)``: how many hold, ``indices`` has which.

    With None for ``indices``: one more than the first index found.
    """
    rank, share = scope.rank, scope.share

    @device_function
    def search(ivars, nelems, indices, status, cmp, values, first):
        """Once round from element ``first`` on; and whether any element counts."""
        i, found, some = 0, 0, False
        while i < nelems:
            at = i
            if indices is None:
                at = i + first if i + first < nelems else i + first - nelems
            if _counts(status, at):
                some = True
                if look(ivars, at, cmp, values):
                    if indices is None:
                        return at + 1, True
                    indices[found] = at
                    found += 1
            i += 1
        return found, some

    @device_function
    def found_ones(ivars, nelems, indices, status, cmp, values, first):
        found, start = 0, first if 0 <= first < nelems else 0
        if not _may_look(ivars, nelems, cmp, op):
            return found
        if rank() == 0:
            leaf.relax()
            deadline, polls, some = 0, 0, True
            while some and deadline >= 0:
                found, some = search(ivars, nelems, indices, status, cmp, values, start)
                if not wait or found > 0:
                    break
                polls += opaque(1)
                deadline = on(deadline, polls, nelems, cmp, values)
        return share(leaf.to_int64(found))

    return found_ones


def _signature(kind: str, vector: bool, body):
    """What users call: the arguments of a kind, with ``cmp_value`` or ``cmp_values``."""

    def all_one(ivars, nelems, status, cmp, cmp_value):
        """{first_line}

        What was stored before the changes may be read then.
        Faults: a wait that takes longer than PYSHMEM_TIMEOUT ends, and the next host call raises.
        Spec: shmem_{name}.
        """
        return body(ivars, to_int64(nelems), status, cmp, cmp_value)

    def all_own(ivars, nelems, status, cmp, cmp_values):
        return body(ivars, to_int64(nelems), status, cmp, cmp_values)

    def any_one(ivars, nelems, status, cmp, cmp_value, first=0):
        """{first_line}

        ``first``: where to begin looking, for turns: one past the index found before. What is no
        index is 0.
        NO_INDEX (-1, SIZE_MAX as bits) when there is none (to wait for).
        Spec: shmem_{name}.
        """
        return body(ivars, to_int64(nelems), None, status, cmp, cmp_value, to_int64(first)) - 1

    def any_own(ivars, nelems, status, cmp, cmp_values, first=0):
        return body(ivars, to_int64(nelems), None, status, cmp, cmp_values, to_int64(first)) - 1

    def some_one(ivars, nelems, indices, status, cmp, cmp_value):
        """{first_line}

        Writes their indices to the int64 array ``indices``, of ``nelems`` elements; returns how many.
        Spec: shmem_{name}.
        """
        return body(ivars, to_int64(nelems), indices, status, cmp, cmp_value, 0)

    def some_own(ivars, nelems, indices, status, cmp, cmp_values):
        return body(ivars, to_int64(nelems), indices, status, cmp, cmp_values, 0)

    forms = {"all": (all_one, all_own), "any": (any_one, any_own), "some": (some_one, some_own)}
    one, own = forms[kind]
    own.__doc__ = one.__doc__
    return own if vector else one


#: Of docstrings, of waits and tests.
_FIRST_LINES = {
    "all": ("Wait until all elements hold.", "Whether all elements hold."),
    "any": ("Wait for an element that holds; its index.", "Look for one that holds; its index."),
    "some": ("Wait until some elements hold.", "Which elements hold."),
}


def _make(name: str):
    """The routine ``name`` at all scopes; a ``_vector`` form has a value for each element."""
    plain = name.removesuffix("_vector")
    verb, kind = plain.rsplit("_", 1)
    look, on = _make_look(name != plain, OP[plain])

    @scoped(name, first_line=_FIRST_LINES[kind][verb == "test"])
    def make(scope: Scope):
        make_body = _make_all if kind == "all" else _make_found
        body = make_body(scope, look, on, OP[plain], verb == "wait_until")
        return _signature(kind, name != plain, body)


for _kind, _form in product(_FIRST_LINES, ("", "_vector")):
    _make(f"wait_until_{_kind}{_form}")
    _make(f"test_{_kind}{_form}")
