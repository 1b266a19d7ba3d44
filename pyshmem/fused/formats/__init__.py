# SPDX-License-Identifier: BSD-3-Clause
"""MXFP8 and NVFP4: what operations of ``pyshmem.fused`` give with ``quantize=``, made and read alone.

    from pyshmem.fused import formats

    elements, scales = formats.quantize(x, "mxfp8")
    again = formats.dequantize(elements, scales, "mxfp8")

Extension.
"""

from .api import dequantize, quantize, swizzle, unswizzle
from .block_tensor import BlockTensor

__all__ = ["BlockTensor", "dequantize", "quantize", "swizzle", "unswizzle"]
