# SPDX-License-Identifier: BSD-3-Clause
"""What pyshmem relies on inside other packages: see README.md."""
