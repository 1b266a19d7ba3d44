# SPDX-License-Identifier: BSD-3-Clause
"""The public routines for kernels, by the chapters of the specification."""
