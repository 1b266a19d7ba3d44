# SPDX-License-Identifier: BSD-3-Clause
"""What is meant by a call that does not fit: others' arguments, and objects that nobody makes."""

from __future__ import annotations

import re

from ..._core.settings import SETTINGS

_UNEXPECTED = re.compile(r"got an unexpected keyword argument '(\w+)'")
_TOO_MANY = re.compile(
    r"takes (?:from \d+ to )?\d+ positional arguments? but \d+ (?:was|were) given"
)

#: The parameter that does the same, none: no single one; what is told; the arguments that others have.
_INSTEAD: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("", "the operation is in the routine's name: sum_reduce, max_reduce, min_reduce, and_reduce, ...",
     ("op", "operation", "reduce_op")),
    ("dest", "the array that is written is dest",
     ("dst", "destination", "recvbuf", "output", "output_tensor", "out", "dst_ptr", "target_array")),
    ("root", "the PE that the elements are of is root, the array that is read is source",
     ("src", "pe", "pe_root", "PE_root", "group_src", "source_pe", "src_rank", "root_pe")),
    ("source", "the array that is read is source",
     ("src", "sendbuf", "input", "input_tensor", "tensor", "src_ptr", "data", "src_array", "buf")),
    ("pe", "the other PE is pe",
     ("target", "peer", "rank", "to", "dest_pe", "dst_pe", "target_pe", "remote_pe", "dst_rank",
      "target_rank", "src_pe", "to_rank", "target_proc")),
    ("", "what does not wait is a routine of its own: put_nbi and get_nbi, until quiet(), and *_nb of "
     "collectives, which return a request",
     ("async_op", "blocking", "non_blocking", "nonblocking", "nbi")),
    ("team", "the PEs that take part are team=", ("group", "comm", "pes", "ranks", "members")),
    ("nelems", "the number of elements is nelems=",
     ("n", "count", "size", "nbytes", "nelem", "num_elements", "length", "nreduce", "sendcount")),
    ("heap", 'where an array lies is heap="host" or heap="device"', ("device", "location", "memory")),
    ("sig_addr", "the signal's word is sig_addr", ("sig", "signal_addr", "flag")),
    ("signal", "the signal's value is signal", ("sig_val", "signal_value", "signal_val", "value")),
    ("sig_op", "what is done with the signal is sig_op", ("signal_op", "op")),
    ("cmp", "the comparison is cmp: CMP_EQ, CMP_NE, CMP_GT, CMP_GE, CMP_LT or CMP_LE",
     ("comparison", "cmp_op", "condition")),
    ("cmp_value", "what is compared with is cmp_value", ("value", "expected", "until")),
    ("", "it has no form on a stream: g is get(dest, source, pe, stream=) there, and of atomics and "
     "collectives there are the forms that write into an array", ("stream",)),
    ("", "how long waits may take is PYSHMEM_TIMEOUT, seconds", ("timeout", "timeout_s", "timeout_ms")),
    ("shape", "the extents are shape", ("shapes", "dims", "size", "n", "length")),
    ("fill_value", "the elements' value is fill_value", ("value", "fill")),
    ("n_pes", "the number of PEs is n_pes", ("n", "np", "nprocs", "num_pes", "npes", "world_size")),
    ("function", "what the function is given follows n_pes: launch(function, n_pes, first, second)",
     ("args", "kwargs", "arguments")),
)  # fmt: skip

#: Classes whose objects the library makes, and how a program gets one.
MADE_BY = {
    "Team": "a team is pyshmem.TEAM_WORLD, or made of one: TEAM_WORLD.split(color, key), "
    "split_strided(start, stride, size), or pyshmem.Team.from_pes([0, 2])",
    "Job": "the job is what pyshmem.init() returns",
    "Request": "a request is what a collective in the background returns, such as "
    "pyshmem.sum_reduce_nb(dest, source)",
    "Channel": "channels are what team.channels(n) returns",
    "Registration": "a registration is what pyshmem.register(array) returns",
}


def made_by(name: str) -> str:
    """How an object is got whose class was called; nothing: the class may well be called."""
    owner, _, method = name.rpartition(".")
    return MADE_BY.get(owner, "") if method == "__init__" else ""


def _set_otherwise(routine: str, given: str) -> str:
    """Of an argument that is a setting how it is set; nothing: it is none."""
    settable = {one.name for one in SETTINGS if "(set by the launcher)" not in one.help}
    if given.upper() not in settable:
        return ""
    variable = f"PYSHMEM_{given.upper()}"
    if routine == "launch":
        return f"settings of the PEs go by env={{{variable!r}: ...}}, whose values are texts"
    return f"this setting is a variable of the environment: {variable}"


def meant_by(message: str, name: str, parameters: list[str]) -> str:
    """What is meant by a call that does not fit, as Python says; nothing: that is not known.

    Args:
        message: Python's.
        name: the routine, ``put`` or ``Team.split``.
        parameters: its own, ``*`` among them where only names may follow.
    """
    if unexpected := _UNEXPECTED.search(message):
        if name in ("launch", "init") and (told := _set_otherwise(name, unexpected[1])):
            return told
        for parameter, told, others in _INSTEAD:
            if unexpected[1] in others and (not parameter or parameter in parameters):
                return told
    elif _TOO_MANY.search(message) and name in ("barrier_all", "sync_all"):
        return "it is of all PEs; of the PEs of a team it is team.sync()"
    elif _TOO_MANY.search(message) and "*" in parameters:
        named = ", ".join(f"{one}=" for one in parameters[parameters.index("*") + 1 :])
        return f"what is behind the * is given by its name: {named}"
    return ""
