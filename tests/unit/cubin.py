# SPDX-License-Identifier: BSD-3-Clause
"""What a cubin says of its functions: the stack each takes, and which others it refers to."""

from __future__ import annotations

import struct
from collections import defaultdict

_SECTION, _SYMBOL, _RELOCATION = (struct.Struct(f) for f in ("<IIQQQQIIQQ", "<IBBHQQ", "<QQq"))
_RELOCATIONS, _FUNCTION = 4, 2  # SHT_RELA, STT_FUNC
_PAIR, _FRAME_SIZE = 4, 0x11  # of .nv.info: a record of two words; EIATTR_FRAME_SIZE


def _text(code: bytes, at: int) -> str:
    return code[at : code.index(b"\0", at)].decode()


class Cubin:
    """``frames``: bytes of stack by function; ``reaches``: the functions that one refers to."""

    def __init__(self, code: bytes) -> None:
        (start,), (size, count, names) = (
            struct.unpack_from(format, code, at) for format, at in (("<Q", 0x28), ("<HHH", 0x3A))
        )
        rows = [_SECTION.unpack_from(code, start + k * size) for k in range(count)]
        self._code = code
        self._sections = {_text(code, rows[names][4] + row[0]): row for row in rows}
        at, texts = self._sections[".symtab"], self._sections[".strtab"][4]
        symbols = [_SYMBOL.unpack_from(code, k) for k in range(at[4], at[4] + at[5], _SYMBOL.size)]
        self._names = [_text(code, texts + symbol[0]) for symbol in symbols]
        self._is_function = [symbol[1] & 15 == _FUNCTION for symbol in symbols]
        self.frames = self._frame_sizes()
        self.reaches = self._references()

    def _frame_sizes(self) -> dict[str, int]:
        frames = {}
        at, end = self._sections[".nv.info"][4], sum(self._sections[".nv.info"][4:6])
        while at < end:
            kind, attribute, nbytes = struct.unpack_from("<BBH", self._code, at)
            if kind == _PAIR and attribute == _FRAME_SIZE:
                symbol, frame = struct.unpack_from("<II", self._code, at + 4)
                frames[self._names[symbol]] = frame
            at += 4 + (nbytes if kind == _PAIR else 0)
        return frames

    def _references(self) -> dict[str, set[str]]:
        reaches = defaultdict(set)
        for name, row in self._sections.items():
            if row[1] == _RELOCATIONS and name.startswith(".rela.text."):
                for at in range(row[4], row[4] + row[5], _RELOCATION.size):
                    symbol = _RELOCATION.unpack_from(self._code, at)[1] >> 32
                    if self._is_function[symbol]:
                        reaches[name.removeprefix(".rela.text.")].add(self._names[symbol])
        return reaches

    def deepest(self, function: str) -> list[str]:
        """The calls from ``function`` on that take most stack together."""
        ways = [self.deepest(callee) for callee in self.reaches[function] - {function}]
        return [function, *max(ways, key=self.stack_of, default=[])]

    def stack_of(self, functions: list[str]) -> int:
        return sum(self.frames.get(function, 0) for function in functions)
