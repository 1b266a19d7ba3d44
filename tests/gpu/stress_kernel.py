# SPDX-License-Identifier: BSD-3-Clause
"""The kernel that does a round of ``stress_program``, cell by cell."""

from __future__ import annotations

from numba import cuda
from stress_program import CODE, GROUP, THREAD, WARP

from pyshmem import device as shmem

PUT, PUT_NBI, PUT_FENCE_PUT = CODE["put"], CODE["put_nbi"], CODE["put_fence_put"]
IPUT, IGET, GET, GET_NBI = CODE["iput"], CODE["iget"], CODE["get"], CODE["get_nbi"]
PUT_SIGNAL, PUT_SIGNAL_NBI = CODE["put_signal"], CODE["put_signal_nbi"]
PUT_SIGNAL_ADD, QUIET, FENCE = CODE["put_signal_add"], CODE["quiet"], CODE["fence"]
P, G, FETCH, SET = CODE["p"], CODE["g"], CODE["atomic_fetch"], CODE["atomic_set"]
SWAP, COMPARE_SWAP = CODE["atomic_swap"], CODE["atomic_compare_swap"]
ADD, INC = CODE["atomic_add"], CODE["atomic_inc"]
FETCH_ADD, FETCH_INC = CODE["atomic_fetch_add"], CODE["atomic_fetch_inc"]
XOR, FETCH_XOR = CODE["atomic_xor"], CODE["atomic_fetch_xor"]
OR, FETCH_OR = CODE["atomic_or"], CODE["atomic_fetch_or"]
AND, FETCH_AND, LOCK = CODE["atomic_and"], CODE["atomic_fetch_and"], CODE["lock"]
TEAM_SYNC, BROADCAST, FCOLLECT = CODE["team_sync"], CODE["broadcast"], CODE["fcollect"]
ALLTOALL, SUM, FLOAT_SUM = CODE["alltoall"], CODE["sum_reduce"], CODE["float_reduce"]
MAX, INSCAN, EXSCAN = CODE["max_reduce"], CODE["sum_inscan"], CODE["sum_exscan"]
BARRIER_ALL = CODE["barrier_all"]
# Places of a lane's numbers in the program.
OP, PE, DEST, SOURCE, NELEMS, VALUE, LANE = range(7)


def _move(scope):
    """What a thread, a warp or a block does, together."""
    names = (
        "put", "put_nbi", "iput", "get", "get_nbi", "iget", "put_signal", "put_signal_nbi",
        "quiet", "fence",
    )  # fmt: skip
    put, put_nbi, iput, get, get_nbi, iget, put_signal, put_signal_nbi, quiet, fence = (
        getattr(shmem, name + scope) for name in names
    )

    @cuda.jit(device=True)
    def move(op, now8, now, before8, before, landing8, landing, pool8, pool, signals):
        code, pe, d, s, n, v = op[OP], op[PE], op[DEST], op[SOURCE], op[NELEMS], op[VALUE]
        if code in (PUT_NBI, PUT_FENCE_PUT):
            put_nbi(now8[d:], pool8[s + (8 if code == PUT_FENCE_PUT else 0) :], pe, n)
        if code == PUT_FENCE_PUT:
            fence()
        if code in (PUT, PUT_FENCE_PUT):
            put(now8[d:], pool8[s:], pe, n)
        elif code == IPUT:
            iput(now[d:], pool[s:], v & 255, v >> 8, n, pe)
        elif code == GET:
            get(landing8[d:], before8[s:], pe, n)
        elif code == GET_NBI:
            get_nbi(landing8[d:], before8[s:], pe, n)
        elif code == IGET:
            iget(landing[d:], before[s:], v & 255, v >> 8, n, pe)
        elif code in (PUT_SIGNAL, PUT_SIGNAL_ADD):
            how = shmem.SIGNAL_ADD if code == PUT_SIGNAL_ADD else shmem.SIGNAL_SET
            put_signal(now8[d:], pool8[s:], signals[op[LANE] :], v, how, pe, n)
        elif code == PUT_SIGNAL_NBI:
            put_signal_nbi(now8[d:], pool8[s:], signals[op[LANE] :], v, shmem.SIGNAL_SET, pe, n)
        elif code == QUIET:
            quiet()
        elif code == FENCE:
            fence()

    return move


move_thread, move_warp, move_group = _move(""), _move("_warp"), _move("_work_group")


@cuda.jit(device=True)
def _word(op, now, before, counters, bits):
    """Elements and atomics; what they return, else 0."""
    code, pe, d, v = op[OP], op[PE], op[DEST], op[VALUE]
    if code == P:
        shmem.p(now[d:], v, pe)
    elif code == G:
        return shmem.g(before[d:], pe)
    elif code == FETCH:
        return shmem.atomic_fetch(before[d:], pe)
    elif code == SET:
        shmem.atomic_set(now[d:], v, pe)
    elif code == SWAP:
        return shmem.atomic_swap(now[d:], v, pe)
    elif code == COMPARE_SWAP:
        return shmem.atomic_compare_swap(now[d:], op[SOURCE], v, pe)
    elif code == ADD:
        shmem.atomic_add(counters[d:], v, pe)
    elif code == INC:
        shmem.atomic_inc(counters[d:], pe)
    elif code == FETCH_ADD:
        return shmem.atomic_fetch_add(counters[d:], v, pe)
    elif code == FETCH_INC:
        return shmem.atomic_fetch_inc(counters[d:], pe)
    return _bits(code, bits, d, v, pe)


@cuda.jit(device=True)
def _bits(code, bits, d, v, pe):
    result = 0
    if code == XOR:
        shmem.atomic_xor(bits[d:], v, pe)
    elif code == FETCH_XOR:
        result = int(shmem.atomic_fetch_xor(bits[d:], v, pe))
    elif code == OR:
        shmem.atomic_or(bits[d:], v, pe)
    elif code == FETCH_OR:
        result = int(shmem.atomic_fetch_or(bits[d:], v, pe))
    elif code == AND:
        shmem.atomic_and(bits[d:], v, pe)
    elif code == FETCH_AND:
        result = int(shmem.atomic_fetch_and(bits[d:], v, pe))
    return result


@cuda.jit(device=True)
def _locked(op, locks, locked):
    """Adds one to what lies at one PE, by its own means."""
    k = op[DEST]
    home = (k + 1) % shmem.n_pes()
    shmem.set_lock(locks[8 * k :])
    shmem.p(locked[k:], shmem.g(locked[k:], home) + 1, home)
    shmem.clear_lock(locks[8 * k :])


@cuda.jit(device=True)
def _meet(op, team, ints, reals, pool, floats):
    code, d, s, n = op[OP], op[DEST], op[SOURCE], op[NELEMS]
    if code == TEAM_SYNC:
        shmem.team_sync_work_group(team)
    elif code == BROADCAST:
        shmem.broadcast_work_group(team, ints[d:], pool[s:], n, op[VALUE])
    elif code == FCOLLECT:
        shmem.fcollect_work_group(team, ints[d:], pool[s:], n)
    elif code == ALLTOALL:
        shmem.alltoall_work_group(team, ints[d:], pool[s:], n)
    elif code == SUM:
        shmem.sum_reduce_work_group(team, ints[d:], pool[s:], n)
    elif code == FLOAT_SUM:
        shmem.sum_reduce_work_group(team, reals[d:], floats[s:], n)
    elif code == MAX:
        shmem.max_reduce_work_group(team, ints[d:], pool[s:], n)
    elif code == INSCAN:
        shmem.sum_inscan_work_group(team, ints[d:], pool[s:], n)
    elif code == EXSCAN:
        shmem.sum_exscan_work_group(team, ints[d:], pool[s:], n)
    elif code == BARRIER_ALL:
        shmem.barrier_all_work_group()


@cuda.jit(device=True)
def _await_signals(steps, awaited, signals, now8, seen):
    """Those that come to this block's lanes; a signal proves its data."""
    threads, cell = cuda.blockDim.x, cuda.blockIdx.x * steps
    lane = cell * threads + cuda.threadIdx.x
    while lane < (cell + steps) * threads:
        if awaited[0, lane] != 0:
            shmem.signal_wait_until(signals[lane:], shmem.CMP_EQ, awaited[0, lane])
            first, last = now8[awaited[1, lane]], now8[awaited[2, lane]]
            seen[lane] = int(first) * 256 + int(last) + 1
        lane += threads


@cuda.jit
def do_round(
    steps, scopes, program, teams, awaited, now8, now, before8, before, landing8, landing, pool8, pool,
    floats, signals, counters, bits, locks, locked, ints, reals, results, seen,
):  # fmt: skip
    me, threads = cuda.threadIdx.x, cuda.blockDim.x
    for step in range(steps):
        cell = cuda.blockIdx.x * steps + step
        lane = cell * threads
        scope = scopes[cell]
        if scope == THREAD:
            op = program[lane + me]
            if op[OP] >= P:
                results[lane + me] = _word(op, now, before, counters, bits)
            else:
                move_thread(op, now8, now, before8, before, landing8, landing, pool8, pool, signals)
        elif scope == WARP:
            op = program[lane + me // 32 * 32]
            move_warp(op, now8, now, before8, before, landing8, landing, pool8, pool, signals)
        elif scope == GROUP:
            op = program[lane]
            if op[OP] != LOCK:
                move_group(op, now8, now, before8, before, landing8, landing, pool8, pool, signals)
            elif me == 0:
                _locked(op, locks, locked)
        else:
            _meet(program[lane], teams[cuda.blockIdx.x], ints, reals, pool, floats)
    shmem.quiet_work_group()
    _await_signals(steps, awaited, signals, now8, seen)
