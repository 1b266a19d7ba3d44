# SPDX-License-Identifier: BSD-3-Clause
"""Teams in kernels: the rows that describe them, the flags by which their members meet."""
