# SPDX-License-Identifier: BSD-3-Clause
"""``python -m pyshmem info``: versions, conduits, accelerators, settings, compiler flags."""

from __future__ import annotations

import importlib.resources
import os
import shlex
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import numpy as np
from rich.console import Console
from rich.table import Table

import pyshmem

from .._core import errors, kept_files
from .._core.errors import LaunchError
from .._core.library import lib, parse_size, setting, size_text
from .._core.settings import SETTINGS, Setting, misspelt
from ..launcher import heaps
from ..launcher.binding import ranges
from ..launcher.settings import settle_device
from . import facts


@click.command(
    epilog="\b\nCompile an OpenSHMEM program in C and run it:\n"
    "  python -m pyshmem cc hello.c -o hello\n"
    "  python -m pyshmem run -n 4 ./hello"
)
@click.option("--nodes", is_flag=True, help="As a job: show which PEs are on which node, no more.")
@click.option(
    "--heap",
    is_flag=False,
    flag_value=0,
    type=click.IntRange(min=0),
    metavar="[PID]",
    help="How full the heaps of running jobs are: of all of yours on this host, or of the job that the "
    "process PID has started or belongs to. In checking mode, which lines hold what.",
)
@click.option("--cflags", is_flag=True, help="Print what the C compiler needs, and nothing else.")
@click.option("--libs", is_flag=True, help="Print what the linker needs, and nothing else.")
@click.option(
    "--pkg-config", is_flag=True, help="Print the folder of pyshmem.pc, for PKG_CONFIG_PATH."
)
def info(nodes: bool, heap: int | None, cflags: bool, libs: bool, pkg_config: bool) -> None:
    """Show versions, conduits, accelerators, and every setting with its value and origin.

    The map of a job's nodes: python -m pyshmem run -n 4 --hosts a,b -m pyshmem info --nodes
    """
    if pkg_config:
        click.echo(_package_folder("lib/pkgconfig", "pyshmem.pc"))
        return
    if nodes:
        _show_nodes()
        return
    if heap is not None:
        _show_heaps(heap)
        return
    if cflags or libs:
        flags = [*(compile_flags() if cflags else ()), *(link_flags() if libs else ())]
        click.echo(shlex.join(flags))
        return
    console = Console(width=_width(), markup=False)  # texts have brackets
    for table in (
        _versions(),
        _conduits(),
        *_accelerators(),
        _compiled(),
        _invariance(),
        _engines(),
        _settings(),
    ):
        console.print(table)
    for line in misspelt(os.environ):
        click.echo(line)


def _width() -> int | None:
    """Of lines that a program reads, or a file gets: a row each, so that grep finds it whole."""
    return None if sys.stdout.isatty() or "COLUMNS" in os.environ else 240


#: The library, by the name that programs remember.
LIBRARY = "libpyshmem.so.0"


def _show_nodes() -> None:
    """Every PE comes here; PE 0 prints."""
    with pyshmem.init(heap_size="16M", device="none") as job:
        mine = np.zeros(64, np.uint8)
        name = socket.gethostname().encode()[:64]
        mine[: len(name)] = np.frombuffer(name, np.uint8)
        source = pyshmem.array(mine)
        names = pyshmem.zeros((job.n_pes, 64), np.uint8)
        pyshmem.fcollect(names, source)
        node = [lib.ishmemx_node(pe) for pe in range(job.n_pes)]
        if job.my_pe == 0:
            table = _table("Nodes", "host", "PEs: near each other", "from here")
            for first in dict.fromkeys(node):
                pes = [pe for pe in range(job.n_pes) if node[pe] == first]
                host = bytes(names[first]).rstrip(b"\0").decode()
                reach = "loads and stores" if first == node[0] else "the proxy's messages"
                table.add_row(host, ranges(pes), reach)
            Console(markup=False).print(table)


def _show_heaps(pid: int) -> None:
    """Those of running jobs; ``pid`` 0: of all."""
    try:
        found = heaps.running(pid)
    except errors.ShmemError as error:
        raise click.ClickException(str(error)) from None
    if not found:
        raise click.ClickException(heaps.why_none(pid))
    console = Console(markup=False)
    for job in dict.fromkeys(one.job for one in found):
        table = _table(
            f"Heaps of job {job}", "PE", "pid", "heap", "used", "of", "largest free", "blocks"
        )
        held = _table(f"Lines of job {job}, in checking mode", "PE", "heap", "holds")
        for one in (one for one in found if one.job == job):
            for name, state in one.heaps.items():
                memory = size_text(state.memory)
                if state.memory < state.nbytes:
                    memory += f", grows to {size_text(state.nbytes)}"
                sizes = size_text(state.used), memory, size_text(state.largest_free)
                table.add_row(str(one.pe), str(one.pid), name, *sizes, str(state.allocations))
            for name, site in one.sites:
                held.add_row(str(one.pe), name, str(site))
        console.print(table)
        if held.row_count:
            console.print(held)


def _package_folder(name: str, file: str) -> Path:
    """The folder of an installed file. An editable install spreads a folder over several."""
    path = importlib.resources.files("pyshmem")
    for part in (*name.split("/"), file):
        path = path.joinpath(part)
    if not path.is_file():
        raise click.ClickException(f"{file} is not installed: the installation is incomplete")
    return Path(str(path)).resolve().parent


def compile_flags() -> list[str]:
    """Include folders of ``shmem.h`` and of the header made when the package was built."""
    folders = [_package_folder("include", name) for name in ("shmem.h", "shmem_types.h")]
    return [f"-I{folder}" for folder in dict.fromkeys(folders)]


def link_flags() -> list[str]:
    """The library, found again at run time where it is now."""
    folder = _package_folder("lib", LIBRARY)
    return [f"-L{folder}", f"-Wl,-rpath,{folder}", f"-l:{LIBRARY}"]


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _versions() -> Table:
    table = _table("Versions", "what", "version")
    for name, version in facts.versions():
        table.add_row(name, version)
    return table


def _conduits() -> Table:
    table = _table("Conduits", "name", "reaches", "by")
    table.add_row("shm", "PEs on this host", "shared memory (memfd), passed over a Unix socket")
    library, built_above = facts.openshmem_library()
    table.add_row("openshmem", "PEs that oshrun starts, on any hosts", library)
    if built_above:
        table.add_row("", "built above it", built_above)
    table.add_row("ucx", "PEs on any hosts", facts.ucx_library())
    table.add_row("", "which join by", facts.joins_by())
    return table


def _accelerators() -> Iterator[Table]:
    gpus = facts.gpus()
    simulator = facts.version_of("numba")
    try:
        chosen = settle_device()
    except (LaunchError, ValueError) as error:
        chosen = str(error)
    table = _table("Accelerators", "name", "state")
    table.add_row("cuda", f"{len(gpus)} GPU(s)" if gpus else "no GPU visible")
    table.add_row("sim", f"numba {simulator}" if simulator else "numba is not installed")
    table.add_row("chosen", chosen)
    yield table
    if gpus:
        yield _gpus(gpus)


def _compiled() -> Table:
    """Machine code and device routines that are kept, for all programs of the user."""
    count, nbytes, why = kept_files.state()
    table = _table("Compiled code", "folder", "files", "size", "limits", "written")
    told = f"no ({why}): each process compiles for itself" if why else "yes"
    table.add_row(
        str(kept_files.folder()), str(count), size_text(nbytes), kept_files.limits(), told
    )
    count, nbytes, told = facts.shipped()
    table.add_row("device routines of the package", str(count), size_text(nbytes), "", told)
    return table


def _invariance() -> Table:
    table = _table("Bits of a row that do not depend on its batch", "operations", "when")
    for names, how in facts.BATCH_INVARIANT:
        table.add_row(names, how)
    return table


def _engines() -> Table:
    table = _table("Plug-ins of inference engines", "engine", "used with", "ran with", "not tried")
    for row in facts.ENGINES:
        table.add_row(*row)
    return table


def _gpus(gpus: list[facts.Gpu]) -> Table:
    peers = [f"to {peer}" for peer in range(len(gpus))]
    table = _table(
        "GPUs, whether one loads and stores memory of another, and whose rows of measured choices count",
        *("GPU", "name", "memory", "kind", "choices", *peers),
    )
    for device, gpu in enumerate(gpus):
        reach = (
            "-" if peer == device else "yes" if facts.can_access(device, peer) else "no"
            for peer in range(len(gpus))
        )
        told = facts.kind_text(device), facts.choices_of(device, max(1, len(gpus) - 1))
        table.add_row(str(device), gpu.name, size_text(gpu.nbytes), *told, *reach)
    return table


def _value_text(row: Setting, text: str) -> str:
    """A value with its unit; what cannot be parsed as it was given, and a secret not at all."""
    if row.name == "SECRET" and text:
        return "(kept)"
    try:
        if row.kind == "size":
            return size_text(parse_size(text))
        if row.kind == "seconds":
            return f"{float(text):g} s" if float(text) else "0 (none)"
    except ValueError:
        return text
    return text


def _settings() -> Table:
    table = _table("Settings", "variable", "value", "from", "meaning")
    for row in SETTINGS:
        try:
            text, origin = setting(row.name)
        except ValueError as error:
            text, origin = str(error), "the environment"
        variable = f"PYSHMEM_{row.name}" + (f"\n({row.alias})" if row.alias else "")
        style = None if origin == "default" else "bold"
        table.add_row(variable, _value_text(row, text), origin, row.help, style=style)
    return table
