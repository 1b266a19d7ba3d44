# SPDX-License-Identifier: BSD-3-Clause
"""What a cubin says: the stack each function takes, which others it refers to, which contract it is of.

The driver gives each thread the stack that the assembler found a kernel to need, and at least the
context's limit. Of functions that are called by their address (``rare`` in the leaves) the assembler
knows nothing, so somebody has to add them up: ``stack_need``.
"""

from __future__ import annotations

import re
import struct
from collections import defaultdict
from collections.abc import Iterable

from ..state import SYMBOL

_SECTION, _SYMBOL = struct.Struct("<IIQQQQIIQQ"), struct.Struct("<IBBHQQ")
# By the type of the section: SHT_RELA, and SHT_REL, where sm_80 has the addresses of functions.
_RELOCATIONS = {4: (".rela", struct.Struct("<QQq")), 9: (".rel", struct.Struct("<QQ"))}
_FUNCTION = 2  # STT_FUNC
_PAIR, _FRAME_SIZE, _REGISTERS = 4, 0x11, 0x2F  # of .nv.info: a record of two words; EIATTR_...
# Instructions of 16 bytes, sm_70 and later, that add a constant to the stack pointer R1; the constant is
# the upper half of the first word: IADD3 R1, R1, n, RZ and VIADD R1, R1, n.
_MOVES_STACK = (0x01017810, 0x01017836)
_INSTRUCTION = struct.Struct("<IiQ")
_TEXT = ".text."
_STATE_PREFIX = SYMBOL.rpartition("_")[0].encode() + b"_"


def _text(code: bytes, at: int) -> str:
    return code[at : code.index(b"\0", at)].decode()


class Cubin:
    """``frames``: bytes of stack by function; ``reaches``: the functions that one refers to."""

    def __init__(self, code: bytes) -> None:
        (start,), (size, count, names) = (
            struct.unpack_from(format, code, at) for format, at in (("<Q", 0x28), ("<HHH", 0x3A))
        )
        rows = [_SECTION.unpack_from(code, start + k * size) for k in range(count)]
        self.code = code
        self._sections = {_text(code, rows[names][4] + row[0]): row for row in rows}
        at, texts = self._sections[".symtab"], self._sections[".strtab"][4]
        symbols = [_SYMBOL.unpack_from(code, k) for k in range(at[4], at[4] + at[5], _SYMBOL.size)]
        self._names = [_text(code, texts + symbol[0]) for symbol in symbols]
        self._is_function = [symbol[1] & 15 == _FUNCTION for symbol in symbols]
        self._deepest: dict[str, list[str]] = {}
        self.frames = self._of_functions(_FRAME_SIZE)
        self.reaches = self._references()
        self.taken = {
            name.removeprefix(_TEXT): self._stack_taken(row)
            for name, row in self._sections.items()
            if name.startswith(_TEXT)
        }

    def registers(self) -> dict[str, int]:
        """Registers of a thread, by function."""
        return self._of_functions(_REGISTERS)

    def _of_functions(self, wanted: int) -> dict[str, int]:
        """An attribute of .nv.info by function."""
        values = {}
        at, end = self._sections[".nv.info"][4], sum(self._sections[".nv.info"][4:6])
        while at < end:
            kind, attribute, nbytes = struct.unpack_from("<BBH", self.code, at)
            if kind == _PAIR and attribute == wanted:
                symbol, value = struct.unpack_from("<II", self.code, at + 4)
                values[self._names[symbol]] = value
            at += 4 + (nbytes if kind == _PAIR else 0)
        return values

    def _references(self) -> dict[str, set[str]]:
        reaches = defaultdict(set)
        for name, row in self._sections.items():
            prefix, relocation = _RELOCATIONS.get(row[1], ("", struct.Struct("")))
            if prefix and name.startswith(prefix + _TEXT):
                for at in range(row[4], row[4] + row[5], relocation.size):
                    symbol = relocation.unpack_from(self.code, at)[1] >> 32
                    if self._is_function[symbol]:
                        reaches[name.removeprefix(prefix + _TEXT)].add(self._names[symbol])
        return reaches

    def _stack_taken(self, row: tuple[int, ...]) -> int:
        """Bytes that the section's functions take together.

        Each has a section of its own, but for kernels made with link-time optimisation, where all are
        in one. Then this is what they would take if each called the next: a bound.
        """
        end = row[4] + row[5] // _INSTRUCTION.size * _INSTRUCTION.size
        moves = _INSTRUCTION.iter_unpack(self.code[row[4] : end])
        return -sum(by for what, by, _ in moves if what in _MOVES_STACK and by < 0)

    def deepest(self, function: str) -> list[str]:
        """The calls from ``function`` on that take most stack together; recursion counts once."""
        if function not in self._deepest:
            self._deepest[function] = [function]  # for calls that lead back here
            ways = [self.deepest(callee) for callee in self.reaches[function] - {function}]
            if ways:
                self._deepest[function] += max(ways, key=self.stack_of)
        return self._deepest[function]

    def stack_of(self, functions: Iterable[str]) -> int:
        """Bytes of stack of these functions together."""
        return sum(max(self.frames.get(name, 0), self.taken.get(name, 0)) for name in functions)


def stack_need(code: bytes) -> int:
    """Bytes of stack a thread that the kernels of a cubin need at most, calls by address included."""
    if not code.startswith(b"\x7fELF"):  # PTX, which the driver assembles
        return 0
    cubin = Cubin(code)
    return max((cubin.stack_of(cubin.deepest(name)) for name in cubin.taken), default=0)


def refuse_other_contracts(code: bytes) -> None:
    """Raises RuntimeError when compiled code names the state block of another contract than ours."""
    names = set(re.findall(rb"\b%s\w+" % _STATE_PREFIX, code)) - {SYMBOL.encode()}
    if names:
        raise RuntimeError(
            "this kernel was cached by another version of pyshmem: clear Numba's cache "
            f"(__pycache__ beside the script, or NUMBA_CACHE_DIR); it reads {min(names).decode()}, "
            f"this version's is {SYMBOL}"
        )
