# SPDX-License-Identifier: BSD-3-Clause
"""Runs programs one after the other, each as a job of its own, in PEs that are started once.

``init`` and ``finalize`` are the programs' own. A program that prints does so into nothing.
"""

import contextlib
import io
import runpy
import sys

for program in sys.argv[1:]:
    with contextlib.redirect_stdout(io.StringIO()):
        runpy.run_path(program, run_name="__main__")
