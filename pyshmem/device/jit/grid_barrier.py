# SPDX-License-Identifier: BSD-3-Clause
"""The grid's barrier of Numba's ``cg.this_grid().sync()`` as text, in place of the library cudadevrt.

A kernel that links a library is compiled by nvJitLink as relocatable code: each of its functions saves
and restores registers by the usual convention, at each call. Alone it is compiled as one program.

The barrier is that of CUDA's headers (``cooperative_groups/details/sync.h``), on the word that the
driver gives each cooperative launch: 4 bytes behind the address in %envreg1 and %envreg2.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ..._foreign.numba_cuda_texts import ir_version

#: As Numba declares them.
NAME = "cudaCGSynchronize"
_HANDLE = "cudaCGGetIntrinsicHandle"

# A block adds 1, the first one what is missing to 2^31: when all have come, bit 31 has changed and the
# others are 0 again. The add releases what the block's threads have stored: its barrier has ordered that
# in front. It pairs with the loads that acquire at the other blocks.
_BARRIER = """{
.reg .pred p; .reg .b32 a, b, n, old; .reg .b64 word;
barrier.sync 0;
mov.u32 a, %tid.x; mov.u32 b, %tid.y; or.b32 a, a, b; mov.u32 b, %tid.z; or.b32 a, a, b;
setp.ne.u32 p, a, 0;
@p bra met;
mov.u32 a, %envreg1; mov.u32 b, %envreg2; mov.b64 word, {b, a};
mov.u32 n, %nctaid.x; mov.u32 a, %nctaid.y; mul.lo.u32 n, n, a; mov.u32 a, %nctaid.z;
mul.lo.u32 n, n, a; sub.u32 n, 0x80000001, n;
mov.u32 a, %ctaid.x; mov.u32 b, %ctaid.y; or.b32 a, a, b; mov.u32 b, %ctaid.z; or.b32 a, a, b;
setp.ne.u32 p, a, 0;
selp.b32 n, 1, n, p;
atom.add.release.gpu.u32 old, [word + 4], n;
await:
ld.acquire.gpu.u32 a, [word + 4];
xor.b32 a, a, old;
setp.ge.s32 p, a, 0;
@p bra await;
met:
barrier.sync 0;
}"""


def replaces_library(kernel: Any, called: Collection[Any]) -> bool:
    """Does this kernel get the barrier as text?

    Not when it is debugged, nor beside files or objects (``called``) to link, which may ask for it.
    """
    whole = "g" not in kernel._nvvm_options and not kernel._linking_files and not called
    return bool(kernel.use_cooperative and kernel._entry_name and whole)


def text_for(kernel: Any) -> str:
    """LLVM text of both functions, for the target of the kernel's module."""
    body = _BARRIER.replace("\n", " ")
    return f"""target triple = "{kernel._module.triple}"
target datalayout = "{kernel._module.data_layout}"
define linkonce_odr i64 @{_HANDLE}(i32 %scope) #0 {{
  ret i64 1
}}
define linkonce_odr i32 @{NAME}(i64 %group, i32 %flags) #0 {{
  call void asm sideeffect "{body}", "~{{memory}}"() #0
  ret i32 0
}}
attributes #0 = {{ convergent nounwind }}
!nvvmir.version = !{{ !0 }}
!0 = !{{ {", ".join(f"i32 {number}" for number in ir_version())} }}
"""


def without_library(kernel: Any, called: Collection[Any]) -> None:
    """A kernel that is to be linked does not ask for cudadevrt any more."""
    if replaces_library(kernel, called):
        kernel.needs_cudadevrt = False
