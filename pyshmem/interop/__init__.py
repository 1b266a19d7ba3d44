# SPDX-License-Identifier: BSD-3-Clause
"""Other people's names and objects. Each is imported where it is needed, never by ``import pyshmem``."""
