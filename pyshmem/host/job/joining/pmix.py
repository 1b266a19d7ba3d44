# SPDX-License-Identifier: BSD-3-Clause
"""PMIx, which ``mpirun`` of Open MPI, ``prterun`` and ``srun --mpi=pmix`` offer, by its library."""

from __future__ import annotations

import atexit
import ctypes
import os
from collections.abc import Callable
from typing import Any

_LIBRARIES = ("libpmix.so.2", "libpmix.so")
#: Of the standard's header, the same from version 3 to 5.
_SUCCESS, _GLOBAL, _BOOL, _STRING, _UINT16, _UINT32 = 0, 3, 1, 3, 13, 14
_WILDCARD = 0xFFFFFFFE
_KEY = b"pyshmem"

_rounds = 0

#: What a server says of a process, under the names that Open MPI's ``mpirun`` gives it.
_PLACE = {
    "OMPI_COMM_WORLD_SIZE": (b"pmix.job.size", True),
    "OMPI_COMM_WORLD_LOCAL_RANK": (b"pmix.lrank", False),
    "OMPI_COMM_WORLD_LOCAL_SIZE": (b"pmix.local.size", True),
}


class _Proc(ctypes.Structure):
    _fields_ = (("nspace", ctypes.c_char * 256), ("rank", ctypes.c_uint32))


class _Data(ctypes.Union):
    _fields_ = (
        ("flag", ctypes.c_bool),
        ("string", ctypes.c_char_p),
        ("uint16", ctypes.c_uint16),
        ("uint32", ctypes.c_uint32),
        ("envar", ctypes.c_void_p * 3),  # the largest: two pointers and a character
    )


class _Value(ctypes.Structure):
    _fields_ = (("type", ctypes.c_uint16), ("data", _Data))


class _Info(ctypes.Structure):
    _fields_ = (("key", ctypes.c_char * 512), ("flags", ctypes.c_uint32), ("value", _Value))


#: This process, once it is a client of the server.
_me: _Proc | None = None


def is_there() -> bool:
    """Whether a server of PMIx is there for this process."""
    return bool(os.environ.get("PMIX_NAMESPACE") and os.environ.get("PMIX_RANK"))


def place() -> dict[str, str]:
    """The place in its job of a process that only PMIx knows of, as variables of ``mpirun``.

    ``prterun`` sets PMIX_RANK, and no other.

    Raises: OSError (no library, or the server does not answer), ValueError (it says something else).
    """
    library = _opened()
    me = _join(library)
    told = {"OMPI_COMM_WORLD_RANK": str(me.rank)}
    for name, (key, of_all) in _PLACE.items():
        found = _get(library, _Proc(me.nspace, _WILDCARD if of_all else me.rank), key)
        numbers = {_UINT16: found.data.uint16, _UINT32: found.data.uint32}
        if found.type not in numbers:
            raise ValueError(f"PMIx says of {key.decode()} what is no number")
        told[name] = str(numbers[found.type])
    return told


def tell(pe: int, n_pes: int, text: Callable[[], str], seconds: float) -> str:
    """On PE 0 publish ``text`` with all, on all PEs what PE 0 has published. The server waits for all.

    Raises: OSError (no library, or the server does not answer), ValueError (it says something else).
    """
    global _rounds
    library = _opened()
    me = _join(library)
    if me.rank != pe:
        raise ValueError(f"PMIx says this is rank {me.rank}, the launcher's variables {pe}")
    key = _KEY + b".%d" % _rounds
    _rounds += 1
    if pe == 0:
        mine = _Value(_STRING, _Data(string=text().encode()))
        _check(library, "Put", ctypes.c_uint8(_GLOBAL), key, ctypes.byref(mine))
        _check(library, "Commit")
    collect = _Info(b"pmix.collect", 0, _Value(_BOOL, _Data(flag=True)))
    every = _Proc(me.nspace, _WILDCARD)
    _check(
        library,
        "Fence",
        ctypes.byref(every),
        ctypes.c_size_t(1),
        ctypes.byref(collect),
        ctypes.c_size_t(1),
    )
    found = _get(library, _Proc(me.nspace, 0), key)
    if found.type != _STRING:
        raise ValueError("PE 0 told something else")
    return str(found.data.string.decode())


def _join(library: ctypes.CDLL) -> _Proc:
    """Become a client of the server; who this is."""
    global _me
    if _me is None:
        me = _Proc()
        _check(library, "Init", ctypes.byref(me), None, ctypes.c_size_t(0))
        _me = me
        # Not before the end: an MPI_Init of this process behind it would fail, and mpirun takes a
        # process that ends without it for one that crashed. PMIx counts its users.
        atexit.register(library.PMIx_Finalize, None, ctypes.c_size_t(0))
    return _me


def _get(library: ctypes.CDLL, process: _Proc, key: bytes) -> _Value:
    found = ctypes.POINTER(_Value)()
    _check(
        library, "Get", ctypes.byref(process), key, None, ctypes.c_size_t(0), ctypes.byref(found)
    )
    if not found:
        raise ValueError(f"PMIx knows no {key.decode()}")
    return found.contents


def _opened() -> ctypes.CDLL:
    for name in _LIBRARIES:
        try:
            return ctypes.CDLL(name, mode=os.RTLD_GLOBAL)
        except OSError:
            continue
    raise OSError(f"PMIx started this process, and there is no {_LIBRARIES[0]} to speak with it")


def _check(library: ctypes.CDLL, name: str, *arguments: Any) -> None:
    status = getattr(library, f"PMIx_{name}")(*arguments)
    if status != _SUCCESS:
        text = library.PMIx_Error_string
        text.restype = ctypes.c_char_p
        raise OSError(f"PMIx_{name}: {text(ctypes.c_int(status)).decode()}")
