# SPDX-License-Identifier: BSD-3-Clause
"""Labels that stand in kernels, and the stages of timelines that they name, for all compilers.

A label is text of at most 24 bytes, as the words in which it travels. A stage is PTX that writes it to
the buffer of ``TRACE``: one thread of a group runs it, when the stage ends. Nothing waits: what finds no
room is counted, with a counter for each multiprocessor, as one for all would be a queue. No order is
needed: the host reads it when the kernel is over.
"""

from __future__ import annotations

from .contract import TRACE

LABEL_BYTES = 24


def label_words(label: str) -> tuple[int, ...]:
    """A label as three int64.

    Raises: ValueError (longer than 24 bytes in UTF-8).
    """
    text = label.encode()
    if len(text) > LABEL_BYTES:
        raise ValueError(
            f"the label {label!r} has {len(text)} bytes; there is room for {LABEL_BYTES}"
        )
    text = text.ljust(LABEL_BYTES, b"\0")
    return tuple(int.from_bytes(text[i : i + 8], "little", signed=True) for i in (0, 8, 16))


#: One brace with registers and labels of its own. ``<leader>`` sets q where the thread is not the
#: one that writes, ``<buffer>`` sets b to the buffer's address or 0; ``<begin>``, ``<kernel>``,
#: ``<label0>`` to ``<label2>`` and ``<priority>`` are operands or numbers.
STAGE_PTX = f"""{{
    .reg .pred q; .reg .b32 x, y; .reg .b64 b, t, c, e, k, l;
    <leader>
    @q bra over;
    mov.u64 e, %globaltimer;
    <buffer>
    setp.eq.u64 q, b, 0;
    @q bra over;
    ld.relaxed.gpu.global.u64 t, [b + {TRACE.TICKET}];
    ld.relaxed.gpu.global.u64 c, [b + {TRACE.CAPACITY}];
    setp.ge.u64 q, t, c;
    @q bra lost;
    atom.relaxed.gpu.global.add.u64 t, [b + {TRACE.TICKET}], 1;
    setp.ge.u64 q, t, c;
    @q bra lost;
    mad.lo.u64 t, t, {TRACE.RECORD_BYTES}, b;
    mov.u32 x, %ctaid.z; mov.u32 y, %nctaid.y; mul.lo.u32 x, x, y;
    mov.u32 y, %ctaid.y; add.u32 x, x, y;
    mov.u32 y, %nctaid.x; mul.lo.u32 x, x, y;
    mov.u32 y, %ctaid.x; add.u32 x, x, y;
    mov.u32 y, %smid; add.u32 y, y, 1;
    mov.b64 c, {{x, y}};
    mov.b64 k, <kernel>;
    st.global.v2.b64 [t + {TRACE.RECORDS + TRACE.AT_KERNEL}], {{k, c}};
    mov.b64 k, <label0>; mov.b64 l, <label1>;
    st.global.v2.b64 [t + {TRACE.RECORDS + TRACE.AT_LABEL}], {{k, l}};
    mov.b64 k, <label2>; mov.b64 l, <priority>;
    st.global.v2.b64 [t + {TRACE.RECORDS + TRACE.AT_LABEL + 16}], {{k, l}};
    mov.b64 k, <begin>;
    st.global.v2.b64 [t + {TRACE.RECORDS + TRACE.AT_BEGIN}], {{k, e}};
    bra over;
    lost:
    mov.u32 x, %smid;
    and.b32 x, x, {TRACE.LOSSES - 1};
    mul.wide.u32 t, x, 8;
    add.u64 t, t, b;
    red.relaxed.gpu.global.add.u64 [t + {TRACE.DROPPED}], 1;
    over:
}}"""

#: ``<leader>``: all but the first thread of a block.
FIRST_THREAD = (
    "mov.u32 x, %tid.x; mov.u32 y, %tid.y; or.b32 x, x, y; mov.u32 y, %tid.z; or.b32 x, x, y; "
    "setp.ne.u32 q, x, 0;"
)
