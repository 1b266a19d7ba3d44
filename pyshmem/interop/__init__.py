# SPDX-License-Identifier: BSD-3-Clause
"""Other libraries of the same program: MPI. Each file is imported where it is needed."""
