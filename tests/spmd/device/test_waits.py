# SPDX-License-Identifier: BSD-3-Clause
"""wait_until and test in their all, any, some and vector forms, from kernels, at every scope."""

from __future__ import annotations

import numpy as np
import pytest
from numba import cuda
from reference import COMPARISONS

import pyshmem
from pyshmem import device as shmem

SCOPES = {"": 1, "_warp": 32, "_work_group": 96}
FORMS = ("all", "any", "some", "all_vector", "any_vector", "some_vector")
CMPS = {name: getattr(shmem, f"CMP_{name}") for name in COMPARISONS}


def every(verb, scope):
    """All six forms one after the other; their results, and the indices that the two ``some`` found."""
    all_, any_, some, all_vector, any_vector, some_vector = (
        getattr(shmem, f"{verb}_{form}{scope}") for form in FORMS
    )

    @cuda.jit
    def kernel(ivars, nelems, status, cmp, value, values, indices, out):
        results = cuda.local.array(6, np.int64)
        results[0] = all_(ivars, nelems, status, cmp, value)
        results[1] = any_(ivars, nelems, status, cmp, value)
        results[2] = some(ivars, nelems, indices[0], status, cmp, value)
        results[3] = all_vector(ivars, nelems, status, cmp, values)
        results[4] = any_vector(ivars, nelems, status, cmp, values)
        results[5] = some_vector(ivars, nelems, indices[1], status, cmp, values)
        for k in range(6):  # every thread has them
            if cuda.threadIdx.x == cuda.blockDim.x - 1:
                out[k] = results[k]

    return kernel


EVERY = {(verb, scope): every(verb, scope) for verb in ("test", "wait_until") for scope in SCOPES}


@pytest.fixture
def ask(place, show):
    """``ask(verb, scope, ivars, cmp, value, values, status, nelems)``: what the six forms find."""

    def results(verb, scope, ivars, cmp, value, values, status=None, nelems=None):
        n = len(ivars)
        out, indices = place(np.full(6, 99)), place(np.full((2, n), -7))
        excluded = place(np.zeros(n, np.int32) if status is None else np.array(status, np.int32))
        dtype = ivars.dtype.type
        EVERY[verb, scope][1, SCOPES[scope]](
            place(ivars), n if nelems is None else nelems, excluded, cmp, dtype(value),
            place(np.asarray(values, ivars.dtype)), indices, out,
        )  # fmt: skip
        found, where = show(out).tolist(), show(indices)
        for row, count in ((0, found[2]), (1, found[5])):
            assert (where[row, count:] == -7).all(), "indices beyond those found were touched"
        return found, where[0, : found[2]].tolist(), where[1, : found[5]].tolist()

    return results


def check(found, holds, own):
    """What the six results must be when the elements ``holds`` compare so, and ``own`` to their own."""
    results, some, some_own = found
    counted, holds_now, own_now = holds[0], holds[1], own
    assert results[0] == (len(holds_now) == counted)
    assert results[3] == (len(own_now) == counted)
    assert results[1] in (holds_now or [shmem.NO_INDEX])
    assert results[4] in (own_now or [shmem.NO_INDEX])
    assert sorted(some) == holds_now
    assert sorted(some_own) == own_now


@pytest.mark.parametrize("cmp", CMPS)
@pytest.mark.parametrize("dtype", ["int32", "int64", "uint32", "uint64"])
def test_comparisons_have_the_width_and_the_sign_of_the_dtype(ask, dtype, cmp):
    limits, compare = np.iinfo(dtype), COMPARISONS[cmp]
    values = [limits.min, limits.max, 5, 6, 7]
    own = [limits.max, limits.max, limits.min, 6, limits.max]
    holds = [i for i, value in enumerate(values) if compare(value, 6)]
    holds_own = [i for i, value in enumerate(values) if compare(value, own[i])]
    found = ask("test", "", np.array(values, dtype), CMPS[cmp], 6, own)
    check(found, (5, holds), holds_own)


@pytest.mark.parametrize("scope", SCOPES)
def test_excluded_elements_do_not_count(ask, scope):
    ivars, own = np.array([1, 0, 1, 0, 1, 0, 0]), np.array([1, 9, 9, 0, 1, 9, 9])
    for excluded in ([0, 1, 0, 1, 0, 1, 1], [1, 1, 1, 1, 1, 1, 0], [0, 0, 0, -5, 0, 2, 0]):
        counted = [i for i in range(7) if not excluded[i]]
        found = ask("test", scope, ivars, shmem.CMP_EQ, 1, own, excluded)
        holds = [i for i in counted if ivars[i] == 1]
        check(found, (len(counted), holds), [i for i in counted if ivars[i] == own[i]])


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("verb", ["test", "wait_until"])
def test_nothing_to_look_at_is_no_wait(ask, verb, scope):
    ivars = np.zeros(5, np.int64)
    for status, nelems in (([1, 1, 1, 2, -1], 5), (None, 0), ([1, 1, 0, 0, 0], 2)):
        found, _, _ = ask(verb, scope, ivars, shmem.CMP_NE, 0, ivars, status, nelems)
        assert found == [1, shmem.NO_INDEX, 0] * 2


@pytest.mark.parametrize("scope", SCOPES)
def test_waits_return_at_once_what_holds_already(ask, scope):
    ivars = np.array([4, 5, 6, 7])
    found = ask("wait_until", scope, ivars, shmem.CMP_GE, 4, [4, 5, 6, 7])
    check(found, (4, [0, 1, 2, 3]), [0, 1, 2, 3])


@cuda.jit
def ask_without_status(ivars, indices, out):
    n = ivars.size
    out[0] = shmem.test_all(ivars, n, None, shmem.CMP_NE, 0)
    out[1] = shmem.test_any(ivars, n, None, shmem.CMP_NE, 0)
    out[2] = shmem.test_some(ivars, n, indices, None, shmem.CMP_NE, 0)


def test_the_status_may_be_left_out(place, show):
    indices, out = place(np.zeros(4, np.int64)), place(np.zeros(3, np.int64))
    ask_without_status[1, 1](place(np.array([0, 3, 0, 3])), indices, out)
    assert show(out).tolist() == [0, 1, 2]
    assert show(indices)[:2].tolist() == [1, 3]


@cuda.jit
def take_turns(ivars, status, rounds, taken):
    """All elements hold all the time."""
    i = -1
    for _ in range(rounds):
        i = shmem.wait_until_any(ivars, ivars.size, status, shmem.CMP_NE, 0, i + 1)
        taken[i] += 1
        i = shmem.test_any(ivars, ivars.size, status, shmem.CMP_NE, 0, i + 1)
        taken[i] += 1


@pytest.mark.parametrize("excluded", [[0, 0, 0, 0, 0, 0], [1, 0, 0, 1, 0, 0]])
def test_any_gives_every_element_its_turn(place, show, excluded):
    ivars, taken = place(np.ones(6, np.int64)), place(np.zeros(6, np.int64))
    take_turns[1, 1](ivars, place(excluded, np.int32), 12, taken)
    counts = show(taken)
    counted = np.array(excluded) == 0
    assert (counts[counted] == 24 // counted.sum()).all()
    assert (counts[~counted] == 0).all()


@cuda.jit
def look_from(ivars, first, out):
    out[0] = shmem.test_any(ivars, ivars.size, None, shmem.CMP_NE, 0, first)


@pytest.mark.parametrize("first", [shmem.NO_INDEX, -3, 4, 2**40])
def test_any_from_no_index_on_looks_from_the_first_on(place, show, first):
    out = place(np.full(1, 99, np.int64))
    look_from[1, 1](place(np.array([0, 3, 0, 3])), first, out)
    assert show(out).tolist() == [1]


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("verb", ["test", "wait_until"])
@pytest.mark.parametrize("nelems", [5, -1])
def test_numbers_of_elements_that_there_are_not(ask, verb, scope, nelems):
    """What lies behind the array is not looked at, and no wait is for it."""
    ivars = np.ones(4, np.int64)

    def ask_the_host_then():
        ask(verb, scope, ivars, shmem.CMP_EQ, 1, ivars, nelems=nelems)
        cuda.synchronize()
        pyshmem.quiet()

    wanted = f"nelems {nelems} does not fit the arrays, which hold 4"
    with pytest.raises(pyshmem.KernelFault, match=wanted):
        ask_the_host_then()


WAYS = ("put", "p", "atomic_set", "atomic_add", "put_signal", "signal_add")


@cuda.jit(device=True)
def send(how, ivars, source, data, pe):
    """The own number and one to the own place among ``pe``'s; ``data`` goes with a put_signal."""
    me = shmem.my_pe()
    if how == 0:
        shmem.put(ivars[me:], source, pe, 1)
    elif how == 1:
        shmem.p(ivars[me:], me + 1, pe)
    elif how == 2:
        shmem.atomic_set(ivars[me:], me + 1, pe)
    elif how == 3:
        shmem.atomic_add(ivars[me:], me + 1, pe)
    elif how == 4:
        shmem.put_signal(data[me:], source, ivars[me:], me + 1, shmem.SIGNAL_SET, pe, 1)
    else:
        shmem.signal_add(ivars[me:], me + 1, pe)


def meet(scope):
    """A block sends to everybody, another waits for what everybody sends, and reads it."""
    wait_all, wait_any, wait_some, wait_all_vector, wait_any_vector, wait_some_vector = (
        getattr(shmem, f"wait_until_{form}{scope}") for form in FORMS
    )
    wait_one, wait_signal = (
        getattr(shmem, name + scope) for name in ("wait_until", "signal_wait_until")
    )

    @cuda.jit(device=True)
    def take(form, ivars, status, values, indices, first):
        """One wait's worth of elements, to the front of ``indices``; how many."""
        n = ivars.size
        if form == 0:
            wait_all(ivars, n, status, shmem.CMP_GE, 1)
            return n
        if form == 1:
            indices[0] = wait_any(ivars, n, status, shmem.CMP_GE, 1, first)
            return 1
        if form == 2:
            return wait_some(ivars, n, indices, status, shmem.CMP_GE, 1)
        if form == 3:
            wait_all_vector(ivars, n, status, shmem.CMP_EQ, values)
            return n
        if form == 4:
            indices[0] = wait_any_vector(ivars, n, status, shmem.CMP_EQ, values, first)
            return 1
        return wait_some_vector(ivars, n, indices, status, shmem.CMP_EQ, values)

    @cuda.jit
    def kernel(form, how, ivars, source, data, status, values, indices, out):
        n, last = ivars.size, cuda.blockDim.x - 1
        if cuda.blockIdx.x == 1:
            if cuda.threadIdx.x == 0:
                for pe in range(n):
                    send(how, ivars, source, data, pe)
                shmem.quiet()
        elif form >= 6:
            for i in range(n):
                wait = (
                    wait_one(ivars[i:], shmem.CMP_GE, 1)
                    if form == 6
                    else wait_signal(ivars[i:], shmem.CMP_EQ, i + 1)
                )
                if cuda.threadIdx.x == last:
                    out[i] = wait
        else:
            found = 0
            while found < n:
                some = take(form, ivars, status, values, indices, found)
                cuda.syncthreads()
                if cuda.threadIdx.x == last:
                    for k in range(some):
                        i = indices[k]
                        status[i] = 1
                        out[i] += ivars[i]
                found += some
                cuda.syncthreads()

    return kernel


MEET = {scope: meet(scope) for scope in SCOPES}


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("scope", SCOPES)
def test_every_wait_sees_what_arrives_in_every_way(job, place, show, scope, how):
    n = job.n_pes
    for form in range(8):
        ivars, out = place(np.zeros(n, np.uint64)), place(np.zeros(n, np.uint64))
        source, data = place(np.full(1, job.my_pe + 1, np.uint64)), place(np.zeros(n, np.uint64))
        status, indices = place(np.zeros(n, np.int32)), place(np.arange(n))
        values = place(np.arange(n, dtype=np.uint64) + 1)
        MEET[scope][2, SCOPES[scope]](
            form, WAYS.index(how), ivars, source, data, status, values, indices, out
        )
        assert show(out).tolist() == list(range(1, n + 1)), f"form {form}"
        if how == "put_signal":
            assert show(data).tolist() == list(range(1, n + 1))


@cuda.jit
def poll_for_block(flag, sig, indices, out):
    """Tests in a loop of the user's let the others go on."""
    if cuda.blockIdx.x == 0:
        while not shmem.test(flag, shmem.CMP_NE, 0):
            pass
        while not shmem.test_all(flag[1:], 1, None, shmem.CMP_NE, 0):
            pass
        while shmem.test_any(flag[2:], 1, None, shmem.CMP_NE, 0) < 0:
            pass
        while shmem.test_some(flag[3:], 1, indices, None, shmem.CMP_NE, 0) == 0:
            pass
        while shmem.atomic_fetch(flag[4:], shmem.my_pe()) == 0:
            pass
        while shmem.signal_fetch(sig) == 0:
            pass
        out[0] = 1
    else:
        for k in range(5):
            shmem.atomic_set(flag[k:], 1, shmem.my_pe())
        shmem.signal_set(sig, 1, shmem.my_pe())


def test_polling_lets_a_later_block_run(place, show):
    flag, sig = place(np.zeros(5, np.int64)), place(np.zeros(1, np.uint64))
    indices, out = place(np.zeros(1, np.int64)), place(np.zeros(1, np.int64))
    poll_for_block[2, 1](flag, sig, indices, out)
    assert show(out)[0] == 1
