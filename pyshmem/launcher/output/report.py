# SPDX-License-Identifier: BSD-3-Clause
"""What the launcher says about a job that did not end well."""

from __future__ import annotations

import re
import signal
import sysconfig
from collections.abc import Sequence
from pathlib import Path

#: What a signal usually means, where its name does not say it.
_HINTS = {
    signal.SIGKILL: "from outside, or because memory ran out",
    signal.SIGSEGV: "invalid memory access",
    signal.SIGBUS: "memory that is not there: a shared segment or file cut short",
    signal.SIGABRT: "it aborted itself",
    signal.SIGILL: "invalid instruction",
    signal.SIGFPE: "arithmetic fault",
}

#: In place of an exit code that somebody else has taken, see ``Process.poll``.
UNKNOWN = 1 << 16

_TRACEBACK = "Traceback (most recent call last):"
#: What torch.distributed puts before each line of a traceback.
_OF_RANK = re.compile(r"^\[rank\d+\]: ?")
#: In the last lines of a PE, of Python or of C, that failed only because another had: never the cause
#: when there is one.
_SECONDARY = re.compile(r"\bPeerDied\b|\bthe job is being aborted: |\bdied while this PE was in ")

#: Between the tracebacks of an exception and of what it led to.
_CHAINED = re.compile(
    r"During handling of the above exception, another exception occurred:"
    r"|The above exception was the direct cause of the following exception:"
)

#: A frame of a traceback that is not the program's: in this package, in another, or Python's own.
_OTHERS = re.compile(
    rf'File "(?:{re.escape(str(Path(__file__).parents[2]))}/|[^"]*/(?:site|dist)-packages/'
    rf"|{re.escape(sysconfig.get_path('stdlib'))}/|<frozen |[^\"]*/pytest_pyshmem\.py\")"
)

#: What a routine of C says of the mistake that ends its PE.
_OF_C = re.compile(r"PE \d+: p?shmemx?_\w+: ")


def is_of_others(line: str) -> bool:
    """Whether a line of a traceback names a file that is not the program's."""
    return bool(_OTHERS.match(line.lstrip()))


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def exit_status(returncode: int) -> int:
    """The status a shell would show: 128 + signal for a PE that was killed."""
    return returncode if returncode >= 0 else 128 - returncode


def how_it_ended(returncode: int) -> str:
    if returncode == UNKNOWN:
        return (
            "ended, and with which exit code is not known: this program ignores SIGCHLD, or waits for "
            "children that it did not start"
        )
    if returncode >= 0:
        return f"ended with exit code {returncode}"
    hint = _HINTS.get(signal.Signals(-returncode)) if -returncode in _HINTS else None
    return f"was killed by {signal_name(-returncode)}" + (f" ({hint})" if hint else "")


def last_words(lines: Sequence[str], limit: int = 6) -> list[str]:
    """The end of what a PE wrote to stderr: where and what of its last traceback, if it has one."""
    text = [_OF_RANK.sub("", line.rstrip()) for line in lines if line.strip()]
    if _is_crash(text):  # the innermost frames come first
        kind = [line for line in text if line.startswith("Fatal Python error")]
        return kind[:1] + [line for line in text if line.lstrip().startswith('File "')][:2]
    starts = [i for i, line in enumerate(text) if _TRACEBACK in line]
    if not starts:
        files = [i for i, line in enumerate(text) if line.lstrip().startswith('File "')]
        # A syntax error has no header, but begins with the file it is in.
        return text[files[-1] :][:limit] if files else text[-3:]
    frames = [i for i in range(starts[-1], len(text)) if text[i].lstrip().startswith('File "')]
    ends = [
        i
        for i in range(starts[-1] + 1, len(text))
        if not text[i].startswith(" ") and re.match(r"[\w.]+(:|$)", text[i])
    ]
    if not frames or not ends:
        return text[starts[-1] :][-limit:]
    frames = [i for i in frames if i < ends[0]] or frames[-1:]
    # The program's line says more to its author than the line of a package that it led to.
    own = [i for i in frames if not _OTHERS.match(text[i].lstrip())]
    first = (own or frames)[-1]
    behind = next((i for i in frames if i > first), ends[0])
    # Anything from that frame on, but not the marks under its source line.
    words = [text[first]] + [line for line in text[first + 1 : behind] if line.strip(" ^~")]
    return (words + text[ends[0] :])[:limit]


def _is_crash(text: Sequence[str]) -> bool:
    """Whether Python's fault handler wrote the lines."""
    return any(line.startswith("Fatal Python error") for line in text)


def is_secondary(lines: Sequence[str]) -> bool:
    """Whether a PE's last words say that it ended because another PE did."""
    if of_c := [line for line in lines if _OF_C.match(line)]:
        return all(_SECONDARY.search(line) for line in of_c)  # its threads may all have a word
    ends = [i for i, line in enumerate(lines) if _CHAINED.search(line)]
    links = [lines[begin:end] for begin, end in zip([0, *ends], [*ends, len(lines)], strict=True)]
    return any(_SECONDARY.search(line) for link in links for line in last_words(link))


def standing(descriptions: Sequence[tuple[int, str]]) -> list[str]:
    """One line for the PEs that stood in the same place: ``PEs 0, 2..5: in barrier_all``."""
    return alike([(pe, f": {text}") for pe, text in descriptions], "")


def alike(descriptions: Sequence[tuple[int, str]], between: str = " ") -> list[str]:
    """One line for the PEs of which there is the same to say."""
    found: dict[str, list[int]] = {}
    for pe, text in descriptions:
        found.setdefault(text, []).append(pe)
    return [f"{pes(sorted(numbers))}{between}{text}" for text, numbers in found.items()]


def pes(numbers: Sequence[int]) -> str:
    """``PE 3``, or ``PEs 0, 2..5``."""
    return f"{'PE' if len(numbers) == 1 else 'PEs'} {_ranges(numbers)}"


def _ranges(numbers: Sequence[int]) -> str:
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(
        f"{run[0]}..{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs
    )
