# SPDX-License-Identifier: BSD-3-Clause
"""Every environment variable, once: name, kind, default, help.

Standard library only: the build runs this file before the package exists
(``python settings.py`` prints the C list). ``native/src/base/settings.c`` parses the values, for
Python and C programs alike; ``pyshmem._core.library`` hands them to Python.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import NamedTuple


class Setting(NamedTuple):
    """One row. The variable is ``PYSHMEM_<name>``; ``alias`` is read when that one is not set."""

    name: str
    kind: str  # size, integer, integer:low:high, seconds, flag, choice:a|b|c, words:a|b|c, string
    default: str
    help: str
    alias: str = ""


SETTINGS = (
    Setting("CONDUIT", "choice:auto|shm|openshmem|ucx", "auto",
            "how PEs reach each other; auto takes ucx with a RENDEZVOUS, openshmem under oshrun and past one host, else shm"),
    Setting("OPENSHMEM_LIBRARY", "string", "",
            "OpenSHMEM library of conduit openshmem, a name or a path; default: liboshmem.so, then libsma.so"),
    Setting("UCX_LIBRARY", "string", "",
            "UCX of conduit ucx, a name or a path; default: what is loaded, libucp.so.0 of the system, the package libucx"),
    Setting("INTERFACE", "string", "",
            "network devices that conduit ucx uses, as UCX names them: eth0, or mlx5_0:1,mlx5_1:1; default: all"),
    Setting("DEVICE", "choice:auto|cuda|sim|cpu|none", "auto",
            "accelerator of the device heap; auto takes cuda where there is a GPU, else sim where numba is installed"),
    Setting("CPU_THREADS", "integer:0:256", "0",
            "threads of a PE that run the blocks of kernels with device cpu; 0: the PE's share of the cores"),
    Setting("HEAP_SIZE", "size", "1G", "host symmetric heap of a PE, bytes; pages are taken when touched",
            "SHMEM_SYMMETRIC_SIZE"),
    Setting("DEVICE_HEAP_SIZE", "size", "1G",
            "device symmetric heap of a PE, bytes; a size that is given is all it has, unless DEVICE_HEAP_GROWS is 1: then it begins with that"),
    Setting("DEVICE_HEAP_GROWS", "choice:0|1|auto", "auto",
            "1: the device heap grows as arrays are made, up to what the smallest GPU of the job has; auto where it can and nobody gave its size"),
    Setting("P2P", "flag", "1",
            "kernels reach peers by loads and stores; 0 sends everything through the ring to the proxy"),
    Setting("P2P_ATOMICS", "choice:auto|owner", "auto",
            "atomic operations on peers' device heaps: auto by the link where it has native ones, owner by the peer's proxy"),
    Setting("NODE_SIZE", "integer:0:2147483647", "0",
            "PEs k to 2k-1, 2k to 3k-1, ... count as other hosts, for trials on one; 0: hosts are as they are"),
    Setting("STAGE_SIZE", "size", "16M",
            "host memory of a PE through which device heaps on other hosts are reached; at least 17 KiB a PE are taken"),
    Setting("RINGS", "integer:1:4", "1", "request rings, each with a proxy thread: 1 to 4"),
    Setting("RING_SLOTS", "integer:8:1048576", "4096", "requests a ring holds: a power of two, at least 8"),
    Setting("PROXY_SPIN", "integer:-1:", "-1",
            "polls before an idle proxy gives its core away; -1 chooses from the core count"),
    Setting("ENGINE", "choice:auto|thread|process", "auto",
            "what starts kernels' copies by copy engines: the PE's proxy, or a process of its own (auto: on GPUs)"),
    Setting("CUTOVER_PUT", "string", "",
            "bytes from which kernels' puts take a copy engine: 64K, never, or threads:blocks=size,..."),
    Setting("CUTOVER_GET", "string", "", "the same of gets"),
    Setting("CUTOVER_REDUCE", "string", "",
            "bytes from which each PE of a device reduction combines its share; the same on all PEs"),
    Setting("KERNEL_REGISTERS", "integer:0:255", "64",
            "registers a thread of kernels with rings or collectives, unless cuda.jit(max_registers=) says; 0: no cap"),
    Setting("CUTOVER_LL", "string", "",
            "bytes from which a block's collectives no longer send flags in their data; the same on all PEs"),
    Setting("CUTOVER_STREAMS", "string", "",
            "how collectives on streams are done: op:size=ll:32x64 or op:size=direct:64x512 (blocks x threads),..."),
    Setting("STREAM_OVERLAP", "flag", "1",
            "collectives of few bytes on streams are launched before the kernels in front of them have ended, and wait on the GPU"),
    Setting("STREAM_GRAPHS", "flag", "0",
            "kernels that come again and again on a stream with the same arguments are launched as graphs of one kernel, which takes the host less time"),
    Setting("STREAM_SIGNALS", "choice:driver|waits|kernel", "waits",
            "what small kernels do on streams in the driver's place: nothing, waits for words, or signals too; they need room on the GPU"),
    Setting("FUSED", "string", "",
            "algorithms of fused operations: operation=algorithm or operation:size=algorithm,...; the same on all PEs"),
    Setting("TUNE_FILE", "string", "",
            "file of measured choices, read and written by tune; default tuning.json in the user's settings folder"),
    Setting("CALIBRATION", "flag", "1",
            "a GPU without a table takes what tune quick has measured on it; 0: rows by rule"),
    Setting("CACHE_DIR", "string", "",
            "folder of compiled kernels for streams, of device routines, and of tune quick's table; default pyshmem in the user's cache folder"),
    Setting("CACHE_SIZE", "size", "1G", "bytes of compiled code in CACHE_DIR; what was used longest ago goes first; 0: no limit"),
    Setting("CACHE_DAYS", "integer:0:36500", "90", "days that compiled code in CACHE_DIR is kept without being used; 0: for ever"),
    Setting("KERNEL_STORE", "choice:none|text|objects", "text",
            "how kernels take device routines that were compiled before, from CACHE_DIR: as text, collectives as objects, none"),
    Setting("TORCH_GROUPS", "choice:native|python", "native",
            "process groups of torch.distributed: in C++ behind torch's own, compiled once for each torch, or in Python"),
    Setting("STATICS", "choice:auto|map|conduit|none", "auto",
            "how PEs reach each other's static variables, in C: mapped, by the conduit's copies, auto as it can"),
    Setting("TIMEOUT", "seconds", "0",
            "a wait that takes longer fails with a report, on the host and in kernels; 0: waits never fail"),
    Setting("REPORT_AFTER", "seconds", "60",
            "a wait that takes longer goes on, and one PE of a host tells once where all stand; 0: never"),
    Setting("INIT_TIMEOUT", "seconds", "60", "how long init waits for the other PEs"),
    Setting("TRACE", "string", "",
            "file of a timeline of the whole job, as by profiling.trace; the same on all PEs"),
    Setting("TRACE_STAGES", "integer:1:", "32768",
            "stages of kernels that a PE keeps for a timeline, 64 bytes of device heap each"),
    Setting("CORE_HEAPS", "flag", "0", "core dumps hold the symmetric heaps too, this PE's and its peers'"),
    Setting("CHECK", "words:args|order|deliver|strict", "0",
            "what is checked, a list: args (or 1) overlap, sources changed too soon, arguments that differ between PEs; order, races between PEs; deliver, late messages; strict, order with advice",
            "SHMEM_DEBUG"),
    Setting("CHECK_SEED", "integer:-1:2147483647", "-1",
            "order of PEs and of what they send with PYSHMEM_CHECK=deliver; -1: another one each time, which is told"),
    Setting("CHECK_JSON", "string", "", "file of what PYSHMEM_CHECK=order reports, in JSON too"),
    Setting("CHECK_FIRST", "integer:0:1000000", "32",
            "so many of the first collectives of each team, and names of the first arrays, are compared between PEs without checking mode; 0: none"),
    Setting("TRACEBACKS", "choice:short|full", "short",
            "tracebacks of programs: their own lines alone where a mistake is told, or the frames of pyshmem too"),
    Setting("SPIN", "integer:-1:", "-1", "polls before a waiting PE yields its core; -1 chooses from the core count"),
    # Set by launchers, not by users.
    Setting("PE", "integer", "-1", "number of this PE (set by the launcher)"),
    Setting("N_PES", "integer", "-1", "number of PEs of the job (set by the launcher)"),
    Setting("LOCAL_PE", "integer", "-1", "number of this PE on its host (set by the launcher)"),
    Setting("CORES", "integer:0:", "0", "CPUs of this host's PEs together (set by the launcher that binds them)"),
    Setting("JOB", "string", "", "name of the job, the same on every PE (set by the launcher)"),
    Setting("HOST", "string", "",
            "what the PEs of a host have in common, where its name is not it (set by the launcher)"),
    Setting("RENDEZVOUS", "string", "",
            "where PEs of several hosts meet PE 0, host:port or [address]:port (set by the launcher)"),
    Setting("RENDEZVOUS_FD", "integer", "-1", "descriptor of a socket that listens there, for PE 0 (set by the launcher)"),
    Setting("SECRET", "string", "",
            "what proves at the rendezvous who belongs to the job, 32 hexadecimal digits (set by the launcher)"),
    Setting("CONTROL_FD", "integer", "-1", "descriptor of the job's control segment (set by the launcher)"),
    Setting("CHECK_FD", "integer", "-1", "descriptor of what the PE records for PYSHMEM_CHECK=order (set by the launcher)"),
    Setting("CHECK_TURNS_FD", "integer", "-1", "descriptor of whose turn it is with PYSHMEM_CHECK=deliver (set by the launcher)"),
)  # fmt: skip


#: Variables of other libraries, and what there is of ours for the same.
_OTHERS_NAMES = {
    "NVSHMEM_SYMMETRIC_SIZE": "PYSHMEM_HEAP_SIZE and PYSHMEM_DEVICE_HEAP_SIZE are",
    "ROCSHMEM_HEAP_SIZE": "PYSHMEM_DEVICE_HEAP_SIZE is",
    "ROC_SHMEM_HEAP_SIZE": "PYSHMEM_DEVICE_HEAP_SIZE is",
    "ISHMEM_SYMMETRIC_SIZE": "PYSHMEM_HEAP_SIZE and PYSHMEM_DEVICE_HEAP_SIZE are",
    "SMA_SYMMETRIC_SIZE": "PYSHMEM_HEAP_SIZE is",
    "XT_SYMMETRIC_HEAP_SIZE": "PYSHMEM_HEAP_SIZE is",
    "NVSHMEM_DEBUG": "PYSHMEM_CHECK is",
    "PYSHMEM_DEBUG": "PYSHMEM_CHECK=1 for mistakes, and PYSHMEM_TRACEBACKS=full for frames, are",
    "PYSHMEM_NPES": "python -m pyshmem run -n 4 is",
    "PYSHMEM_NUM_PES": "python -m pyshmem run -n 4 is",
    "PYSHMEM_WORLD_SIZE": "python -m pyshmem run -n 4 is",
    "PYSHMEM_RANK": "python -m pyshmem run, which numbers the PEs, is",
    "PYSHMEM_LOG_LEVEL": 'the logger "pyshmem" of Python\'s logging is',
    "NVSHMEM_DISABLE_P2P": "PYSHMEM_P2P=0 is",
    "NVSHMEM_REMOTE_TRANSPORT": "PYSHMEM_CONDUIT is",
    "NVSHMEM_BOOTSTRAP": "python -m pyshmem run, or the launchers that docs/howto/start.md names, are",
}

#: Variables that others read who have to do with the library: its tests, and OpenSHMEM programs.
_OTHERS = ("PYSHMEM_CALL", "SHMEM_VERSION", "SHMEM_INFO", "SHMEM_SYMMETRIC_HEAP_SIZE")
_OF_TESTS = "PYSHMEM_TEST_"


def misspelt(names: Iterable[str]) -> list[str]:
    """What is to be told of variables that are set: which are no settings, though named as ours.

    Those of other OpenSHMEM libraries begin with SHMEM_ too: of these only what is like one of ours.
    """
    known = {f"PYSHMEM_{row.name}" for row in SETTINGS}
    known |= {row.alias for row in SETTINGS if row.alias} | set(_OTHERS)
    told = [
        f"{name} is set, but is not read here: {way} for that"
        for name, way in _OTHERS_NAMES.items()
        if name in set(names)
    ]
    for name in sorted(set(names) - known - set(_OTHERS_NAMES)):
        if name.upper() in known:
            told.append(
                f"{name} is set, but nobody reads it: settings are in capitals, {name.upper()}"
            )
            continue
        prefix, _, own = name.upper().partition("SHMEM_")
        if prefix not in ("", "PY") or not own or name.startswith(_OF_TESTS):
            continue
        if not prefix and name != name.upper():
            continue
        import difflib  # costs a millisecond, and is seldom needed

        of_own = {one.partition("SHMEM_")[2]: one for one in sorted(known - set(_OTHERS))}
        near = difflib.get_close_matches(own, of_own, n=1, cutoff=0.6 if prefix else 0.8)
        if near:
            told.append(f"{name} is set, but is no setting: is {of_own[near[0]]} meant?")
        elif prefix:
            told.append(f"{name} is set, but is no setting: python -m pyshmem info shows them")
    return told


def tell_misspelt(names: Iterable[str]) -> None:
    """The same on stderr."""
    for line in misspelt(names):
        print(f"pyshmem: {line}", file=sys.stderr)


def fused_rows(text: str) -> list[tuple[str, str, str, str]]:
    """The items of a text of ``PYSHMEM_FUSED``: item, operation, size (empty: any), algorithm.

    Raises: ValueError (an item has another form).
    """
    found = []
    for item in filter(None, (part.strip() for part in text.split(","))):
        left, equals, name = (part.strip() for part in item.partition("="))
        operation, _, size = (part.strip() for part in left.partition(":"))
        if not (equals and operation and name):
            raise ValueError(
                f"PYSHMEM_FUSED: '{item}' is not operation=algorithm or operation:size=algorithm"
            )
        found.append((item, operation, size, name))
    return found


def c_lists() -> str:
    """The X-macro list that ``base/settings.c`` expands (``pysh_settings.h`` in the build folder)."""
    rows = [f'    X_({s.name}, "{s.kind}", "{s.default}", "{s.alias}") \\' for s in SETTINGS]
    return "\n".join(
        [
            "/* Made by pyshmem/_core/settings.py when the package is built. */",
            "#pragma once",
            "#define PYSH_SETTINGS(X_) \\",
            *rows,
            "    /* end */",
            "",
        ]
    )


if __name__ == "__main__":
    print(c_lists(), end="")
