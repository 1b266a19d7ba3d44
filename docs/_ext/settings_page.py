# SPDX-License-Identifier: BSD-3-Clause
"""The directive ``settings``: what ``pyshmem/_core/settings.py`` has, in groups, each with its anchor.

A setting that is in no group is a warning, and warnings end the build.
"""

from __future__ import annotations

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

from pyshmem._core.settings import SETTINGS, Setting

log = logging.getLogger(__name__)

GROUPS = {
    "Every day": (
        "HEAP_SIZE DEVICE_HEAP_SIZE DEVICE_HEAP_GROWS DEVICE TIMEOUT REPORT_AFTER INIT_TIMEOUT CHECK "
        "CHECK_JSON CHECK_FIRST CHECK_SEED"
    ),
    "Who reaches whom": (
        "CONDUIT OPENSHMEM_LIBRARY UCX_LIBRARY INTERFACE P2P P2P_ATOMICS NODE_SIZE STAGE_SIZE STATICS"
    ),
    "Choices that are measured": (
        "TUNE_FILE CUTOVER_PUT CUTOVER_GET CUTOVER_REDUCE CUTOVER_LL CUTOVER_STREAMS FUSED CALIBRATION"
    ),
    "Waiting, and the proxy": "SPIN CPU_THREADS PROXY_SPIN RINGS RING_SLOTS ENGINE",
    "Kernels and streams": (
        "KERNEL_REGISTERS CACHE_DIR CACHE_SIZE CACHE_DAYS KERNEL_STORE STREAM_OVERLAP "
        "STREAM_GRAPHS STREAM_SIGNALS"
    ),
    "PyTorch": "TORCH_GROUPS",
    "Timelines, tracebacks and core dumps": "TRACE TRACE_STAGES CORE_HEAPS TRACEBACKS",
    "Set by launchers, not by users": (
        "PE N_PES LOCAL_PE CORES JOB HOST RENDEZVOUS RENDEZVOUS_FD SECRET CONTROL_FD CHECK_FD "
        "CHECK_TURNS_FD"
    ),
}

KINDS = {
    "size": "bytes, as `64K` or `1G`",
    "seconds": "seconds",
    "flag": "`0` or `1`",
    "string": "text",
}


def _values(kind: str) -> str:
    """What a setting of this kind takes, in Markdown's and reStructuredText's common words."""
    name, _, rest = kind.partition(":")
    if name == "choice":
        return "one of " + ", ".join(f"``{value}``" for value in rest.split("|"))
    if name == "words":
        return "0, 1, or a list with commas of " + ", ".join(
            f"``{value}``" for value in rest.split("|")
        )
    if name == "integer":
        low, _, high = rest.partition(":")
        bounds = [f"from {low}"] * bool(low) + [f"to {high}"] * bool(high)
        return " ".join(["an integer", *bounds])
    return KINDS[name].replace("`", "``")


def _entry(row: Setting) -> list[str]:
    default = f"default ``{row.default}``" if row.default else "not set by default"
    alias = f"; ``{row.alias}`` is read where it is not set" if row.alias else ""
    return [
        f".. envvar:: PYSHMEM_{row.name}",
        "",
        f"   {row.help[0].upper()}{row.help[1:]}.",
        "",
        f"   Takes {_values(row.kind)}; {default}{alias}.",
        "",
    ]


class Settings(SphinxDirective):
    """See the module's docstring."""

    def run(self) -> list[nodes.Node]:
        rows = {row.name: row for row in SETTINGS}
        lines: list[str] = []
        for title, names in GROUPS.items():
            here = [rows.pop(name) for name in names.split() if name in rows]
            if here:
                lines += [title, "-" * len(title), ""]
            for row in here:
                lines += _entry(row)
        for name in rows:
            log.warning("setting %s is in no group of _ext/settings_page.py", name)
        return self.parse_text_to_nodes("\n".join(lines), allow_section_headings=True)


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_directive("settings", Settings)
    return {"parallel_read_safe": True}
