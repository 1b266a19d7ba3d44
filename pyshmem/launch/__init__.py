# SPDX-License-Identifier: BSD-3-Clause
"""The embedded launcher: starts the PEs of a job on this host and sees them off.

``spec`` says what to run, with which ``settings``; ``job`` runs it. ``process`` is one PE,
``streams`` its output, ``control`` the segment in which PEs say where they stand, ``signals`` what
the launcher is told, ``report`` what it says when a job fails; ``leftovers`` sees to it that
nothing stays behind.
"""

from .job import run_job
from .spec import JobSpec, LaunchError, resolve_command

__all__ = ["JobSpec", "LaunchError", "resolve_command", "run_job"]
