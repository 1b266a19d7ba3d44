# SPDX-License-Identifier: BSD-3-Clause
"""The embedded launcher: starts the PEs of a job on this host and sees them off.

``call`` is ``pyshmem.launch``, ``pe`` the program of its PEs. ``spec`` says what to run, with which
``settings`` and on which CPUs (``binding``); ``job`` runs it. ``process`` is one PE, ``streams`` its
output, ``progress`` what a terminal shows meanwhile, ``control`` the segment in which PEs say where
they stand, ``signals`` what the launcher is told, ``report`` what it says when a job fails;
``leftovers`` sees to it that nothing stays behind.
"""
