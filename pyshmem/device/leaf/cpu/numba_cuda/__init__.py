# SPDX-License-Identifier: BSD-3-Clause
"""What of ``numba.cuda`` its simulator lacks, where kernels are compiled for the CPU."""
