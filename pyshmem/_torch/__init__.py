# SPDX-License-Identifier: BSD-3-Clause
"""What torch needs of pyshmem, and fused operations and process groups both stand on: see README.md."""
