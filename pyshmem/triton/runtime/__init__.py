# SPDX-License-Identifier: BSD-3-Clause
"""What the host gives to kernels of Triton: the context, arrays, numbers of the contract."""
