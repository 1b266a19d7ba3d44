# SPDX-License-Identifier: BSD-3-Clause
"""The embedded launcher: starts the PEs of a job on this host and sees them off.

``call/`` is ``pyshmem.launch``, ``output/`` what PEs print and what is said of them. ``spec`` says what
to run, with which ``settings`` and on which CPUs (``binding``), by PyTorch's names too
(``torchrun_names``); ``job`` runs it. ``process`` is one PE, ``control`` the segment in which PEs say
where they stand, ``signals`` what the launcher is told; ``leftovers`` knows and ends the processes of a
job, and ``guard`` runs it for a launcher that is killed. ``hosts/`` has a launcher on each of several
hosts.
"""
