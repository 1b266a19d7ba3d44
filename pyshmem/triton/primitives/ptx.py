# SPDX-License-Identifier: BSD-3-Clause
"""Texts of inline PTX, made when a kernel is compiled.

Each text is one brace, and labels and registers in it are its own, so it may stand in a kernel many
times. Results are written last: the compiler may keep a result where an argument was. The functions
are hashed into the key of a cached kernel, as their arguments are.
"""

import triton

from ..._core.contract import WAITING
from ..._core.labels import FIRST_THREAD, STAGE_PTX

#: Of the comparison, in what a wait says of itself.
CMP_SHIFT = WAITING.CMP


@triton.constexpr_function
def _block_text(register):
    """The number of the program in its grid into ``register``. Uses x y."""
    return f"""mov.u32 x, %ctaid.z; mov.u32 y, %nctaid.y; mul.lo.u32 x, x, y;
    mov.u32 y, %ctaid.y; add.u32 x, x, y;
    mov.u32 y, %nctaid.x; mul.lo.u32 x, x, y;
    mov.u32 y, %ctaid.x; add.u32 x, x, y;
    cvt.u64.u32 {register}, x;"""


@triton.constexpr_function
def fault_text(ctx, claim, record, kind, op, kernel, pe, a, b):
    """One thread keeps the first fault of the PE. Uses registers f r q x y, and goes on behind it.

    The host's acquire load of ``kind`` pairs with the fence before the last store.
    """
    return f"""
    ld.global.b64 f, [{ctx} + {8 * claim}];
    atom.relaxed.sys.global.exch.b64 f, [f], 1;
    setp.ne.u64 q, f, 0;
    @q bra recorded;
    ld.global.b64 r, [{ctx} + {8 * record}];
    mov.b64 f, {op};
    st.global.b64 [r + 8], f;
    st.global.b64 [r + 16], {pe};
    mov.b64 f, {kernel};
    st.global.b64 [r + 24], f;
    {_block_text("f")}
    st.global.b64 [r + 32], f;
    mov.b64 f, 0;
    st.global.b64 [r + 40], f;
    st.global.b64 [r + 48], {a};
    st.global.b64 [r + 56], {b};
    fence.acq_rel.sys;
    mov.b64 f, {kind};
    st.relaxed.sys.global.b64 [r], f;
    recorded:
    """


@triton.constexpr_function
def report_text(ctx, numbers, flags, op, kernel, pe, a, b):
    """One thread tells the host that it waits, by a request of the kind WAITING; see ``ring.tell``.

    Without credit it gives its ticket up: a wait is told again soon. Uses f r q x y k m n w, and ``z``.
    """
    rings, ring, slots, log2, ticket, pending, consumed, skipped, cell_words, waiting = numbers[3:]
    stored = (f"{flags}", a, b, "f", "n", "w", f"{waiting}", "k")
    stores = "".join(
        f"""
    mov.b64 z, {word};
    and.b64 z, z, {(1 << 56) - 1};
    or.b64 z, z, m;
    st.relaxed.sys.global.b64 [r + {8 * place}], z;"""
        for place, word in enumerate(stored)
    )
    return f"""
    {_block_text("n")}
    ld.global.b64 k, [{ctx} + {8 * rings}];
    rem.u64 m, n, k;
    shl.b64 m, m, 5;
    add.u64 w, {ctx}, m;
    ld.global.b64 f, [w + {8 * ring + 16}];
    atom.relaxed.gpu.global.add.u64 z, [f + {8 * ticket}], 1;
    ld.global.b64 k, [{ctx} + {8 * slots}];
    ld.global.b64 r, [w + {8 * ring + 8}];
    ld.relaxed.sys.global.b64 m, [r + {8 * consumed}];
    add.u64 m, m, k;
    setp.lt.u64 q, z, m;
    sub.u64 m, k, 1;
    and.b64 m, m, z;
    @q bra credit;
    mad.lo.u64 k, k, {8 * cell_words}, r;
    shl.b64 m, m, 3;
    add.u64 k, k, m;
    add.u64 z, z, 1;
    red.relaxed.sys.global.max.u64 [k + {8 * skipped}], z;
    bra reported;
    credit:
    ld.global.b64 r, [w + {8 * ring}];
    shl.b64 m, m, 6;
    add.u64 r, r, m;
    add.u64 k, z, 1;
    red.relaxed.gpu.global.max.u64 [f + {8 * pending}], k;
    ld.global.b64 k, [{ctx} + {8 * log2}];
    cvt.u32.u64 x, k;
    shr.u64 m, z, x;
    rem.u64 m, m, 255;
    add.u64 m, m, 1;
    shl.b64 m, m, 56;
    shr.u64 k, {a}, 56; shl.b64 k, k, 8;
    shr.u64 w, {b}, 56; shl.b64 w, w, 16;
    or.b64 k, k, w;
    and.b64 w, {pe}, 0xffffffff;
    mov.b64 f, {kernel};
    {stores}
    reported:
    """


@triton.constexpr_function
def note_text(ticket, awaits, device, noted, control, waiter):
    """A slow wait for the ring says so for reports, as ``_note`` of ``device/ring/requests.py`` does.

    ``device`` and ``control`` are addresses of the ring's, ``noted`` and ``waiter`` bytes behind them.
    It goes on to ``turn``. Uses r q x y k m z, t and s.
    """
    return f"""
    sub.u64 r, t, s;
    setp.lt.u64 p, r, 200000000;
    @p bra turn;
    ld.relaxed.gpu.global.b64 r, [{device} + {noted}];
    sub.u64 z, t, r;
    setp.gt.s64 p, z, 250000000;
    ld.relaxed.gpu.global.b64 z, [{device} + {noted + 8}];
    setp.lt.u64 q, {ticket}, z;
    or.pred p, p, q;
    @!p bra turn;
    atom.relaxed.gpu.global.cas.b64 z, [{device} + {noted}], r, t;
    setp.ne.u64 p, z, r;
    @p bra turn;
    st.relaxed.gpu.global.b64 [{device} + {noted + 8}], {ticket};
    {_block_text("k")}
    mov.u32 x, %tid.x;
    cvt.u64.u32 m, x;
    shl.b64 m, m, 32;
    or.b64 k, k, m;
    shl.b64 m, {ticket}, 44;
    or.b64 k, k, m;
    shl.b64 z, {ticket}, 8;
    or.b64 z, z, {awaits};
    st.relaxed.sys.global.b64 [{control} + {waiter}], z;
    st.relaxed.sys.global.b64 [{control} + {waiter + 8}], k;
    bra turn;
    """


@triton.constexpr_function
def slow_text(ctx, numbers, kind, op, kernel, pe, widen, reports):
    """Every 1,024 looks of a wait: on to ``turn``, or to ``given_up`` after a fault or too long a time.

    ``widen`` puts what is expected and seen into a and b. ``reports``: True, the host is told of slow
    waits, one of the PE's at a time; or ``note_text``, of a wait for what would tell it. Uses e, the
    deadline, and s, when the wait began: 0 before the first call.
    """
    claim, record, timeout = numbers[:3]
    report = f"""
    sub.u64 r, t, s;
    setp.lt.u64 p, r, 200000000;
    @p bra turn;
    ld.global.b64 f, [{ctx} + {8 * claim}];
    ld.relaxed.sys.global.b64 r, [f + 8];
    sub.u64 r, t, r;
    setp.le.s64 p, r, 250000000;
    @p bra turn;
    atom.relaxed.sys.global.exch.b64 r, [f + 8], t;
    sub.u64 r, t, r;
    setp.le.s64 p, r, 250000000;
    @p bra turn;
    {widen}
    mov.b64 g, {op};
    tell:
    {report_text(ctx, numbers, "g", op, kernel, pe, "a", "b")}
    setp.gt.u64 p, g, 0xffffffff;
    @p bra given_up;
    bra turn;
    """
    return f"""
    ld.global.b64 f, [{ctx} + {8 * claim}];
    ld.relaxed.sys.global.b64 f, [f];
    setp.ne.u64 p, f, 0;
    @p bra given_up;
    ld.global.b64 r, [{ctx} + {8 * timeout}];
    setp.le.s64 p, r, 0;
    @p mov.b64 r, {1 << 61};
    mov.u64 t, %globaltimer;
    setp.eq.u64 p, e, 0;
    @p mov.b64 s, t;
    @p add.u64 e, t, r;
    setp.gt.u64 p, t, e;
    @p bra too_long;
    {report if reports is True else reports}
    too_long:
    {widen}
    {fault_text(ctx, claim, record, kind, op, kernel, pe, "a", "b")}
    {f"mov.b64 g, {op | 1 << 32}; bra tell;" if reports is True else ""}
    given_up:
    """


@triton.constexpr_function
def reach_text(claim, record, out_of_reach, bad_pe, bad_address, fault, op, kernel, checks_address):
    """$0 = $4, how far ``pe``'s heap is: $1 pe, $2 ctx, $3 how many PEs there are.

    If checked, $5 is an address, $6 its bytes, $7 how far it is from the heap's begin, $8 the heap's
    bytes. A program that asks for what there is not keeps a fault and ends: all its threads are here.
    What it needs to know comes as arguments, so that the compiler may load it once, and early.
    """
    check = f"""
    sub.u64 k, $8, $6;
    mov.b64 f, {bad_address}; mov.b64 a, $5; mov.b64 b, $6;
    setp.gt.u64 p, $7, k;
    @p bra fault;
    """
    return f"""{{
    .reg .pred p, q; .reg .b64 f, r, k, a, b, w; .reg .b32 x, y;
    mov.b64 f, {bad_pe}; mov.b64 a, $1; mov.b64 b, $3;
    setp.ge.u64 p, $1, $3;
    @p bra fault;
    {check if checks_address else ""}
    mov.b64 f, {fault}; mov.b64 a, $1; mov.b64 b, $3;
    setp.eq.u64 p, $4, {out_of_reach};
    @p bra fault;
    bra done;
    fault:
    mov.b64 w, f;
    {fault_text("$2", claim, record, "w", op, kernel, "$1", "a", "b")}
    exit;
    done:
    mov.b64 $0, $4;
    }}"""


@triton.constexpr_function
def poll_text(bits, signed, compare, scans, asks, numbers, kind, op, kernel, reports):
    """$0 = what was seen at $2 when it compared with $3 as asked, for elements with $1 set, else 0.

    $4 ctx, $5 pe. ``scans``: $2 is the first of $6 words, and $0 the number of the one that compared.
    ``asks``: $3 is stored at $6 now and then, for it is what the host is asked for.
    Polls are relaxed loads, and nothing else is in their loop; the acquire load behind the last is
    there for its order. Every 1,024 looks it sees to the clock and to faults; a wait that ends so
    gives what it saw last, or -1.
    """
    kind_of = ("s" if signed else "u") + str(bits)
    wide = "cvt.s64.s32" if signed else "cvt.u64.u32"
    widen = f"{wide} a, $3; {wide} b, v;" if bits == 32 else "mov.b64 a, $3; mov.b64 b, v;"
    comparison = ("eq", "ne", "gt", "ge", "lt", "le")[compare - 1]
    asked = op | compare << CMP_SHIFT if reports is True else op
    look = f"""
    ld.relaxed.sys.global.b{bits} v, [$2];
    setp.{comparison}.{kind_of} p, v, $3;
    @p bra seen;
    """
    if scans:
        look = f"""
        mov.b64 i, 0; mov.b64 h, $2;
        next:
        ld.relaxed.sys.global.b{bits} v, [h];
        setp.{comparison}.{kind_of} p, v, $3;
        @p bra seen;
        add.u64 i, i, 1; add.u64 h, h, {bits // 8};
        setp.lt.u64 p, i, $6;
        @p bra next;
        """
    end = "mov.b64 $0, i;" if scans else f"mov.b{bits} $0, v;"
    none = "mov.b64 i, -1;" if scans else ""
    return f"""{{
    .reg .pred p, q; .reg .b64 f, r, a, b, t, e, s, g, h, i, k, m, n, w, z; .reg .b32 x, y, c;
    .reg .b{bits} v;
    mov.b64 i, 0; mov.b{bits} v, 0;
    setp.eq.s32 p, $1, 0;
    @p bra done;
    mov.b64 e, 0;
    turn:
    {"st.relaxed.sys.global.b64 [$6], $3;" if asks else ""}
    mov.u32 c, 0;
    again:
    {look}
    add.u32 c, c, 1;
    setp.lt.u32 p, c, 1024;
    @p bra again;
    {slow_text("$4", numbers, kind, asked, kernel, "$5", widen, reports)}
    {none}
    bra done;
    seen:
    ld.acquire.sys.global.b{bits} v, [{"h" if scans else "$2"}];
    done:
    {end}
    }}"""


@triton.constexpr_function
def looks_text(many, names, more, begin, loads, compare, slow, results):
    """A wait of ``many`` packets at a time: ``loads``, until ``compare`` leaves 0 in d.

    Declares predicates a0 on for ``begin``, ``names`` of 64 bits, and ``more``; ``slow`` is of
    ``slow_text``.
    """
    return f"""{{
    .reg .pred p, q, {", ".join(f"a{j}" for j in range(many))};
    .reg .b64 f, r, a, b, t, e, s, g, k, m, n, w, z, {names}; .reg .b32 x, y, c, d, h, u;{more}
    {begin}
    mov.b64 e, 0;
    turn:
    mov.u32 h, 0;
    again:
    {loads}
    mov.b32 d, 0;
    {compare}
    setp.eq.u32 p, d, 0;
    @p bra done;
    add.u32 h, h, 1;
    setp.lt.u32 p, h, 1024;
    @p bra again;
    {slow}
    done:
    {results}
    }}"""


@triton.constexpr_function
def look_text(bits):
    """$0 = the word at $2, loaded with acquire, for elements with $1 set, else 0."""
    return f"""{{
    .reg .pred p; .reg .b{bits} v;
    mov.b{bits} v, 0;
    setp.ne.s32 p, $1, 0;
    @p ld.acquire.sys.global.b{bits} v, [$2];
    mov.b{bits} $0, v;
    }}"""


@triton.constexpr_function
def set_text():
    """$3 to the word at $2, with release, for elements with $1 set."""
    return """{
    .reg .pred p;
    setp.ne.s32 p, $1, 0;
    @p st.release.sys.global.b64 [$2], $3;
    mov.b32 $0, 0;
    }"""


@triton.constexpr_function
def release_text(instruction):
    """One thread: ``instruction`` on [$1] with $2."""
    one = f"mov.u32 x, %tid.x; setp.ne.u32 q, x, 0; @!q {instruction} [$1], $2;"
    return f"{{ .reg .pred q; .reg .b32 x; {one} mov.b32 $0, 0; }}"


@triton.constexpr_function
def partition_release_text(instruction):
    """The same in a partition of warps, whose first thread is not the program's: where $3 is set."""
    one = f"setp.ne.s32 q, $3, 0; @q {instruction} [$1], $2;"
    return f"{{ .reg .pred q; {one} mov.b32 $0, 0; }}"


@triton.constexpr_function
def end_text(claim, record, kind, op, kernel, ends):
    """A fault with $1 and $2 as its a and b, $3 ctx, is kept; ``ends``: the program ends."""
    return f"""{{
    .reg .pred q; .reg .b64 f, r, n; .reg .b32 x, y;
    mov.b64 n, -1;
    {fault_text("$3", claim, record, kind, op, kernel, "n", "$1", "$2")}
    mov.b32 $0, 0;
    {"exit;" if ends else ""}
    }}"""


@triton.constexpr_function
def packet_text(numbers, kind, op, kernel):
    """$0 = the data of the packet at $2 when its number is $3, for elements with $1 set; $4 ctx, $5 pe.

    A packet is 8 bytes loaded as one: data, and the number of the call. So no order is needed among
    packets, and none with anything else.
    """
    widen = "cvt.u64.u32 a, $3; cvt.u64.u32 b, u;"
    return f"""{{
    .reg .pred p, q; .reg .b64 f, r, a, b, t, e, s, g, k, m, n, v, w, z; .reg .b32 x, y, c, d, u;
    mov.b32 d, 0;
    setp.eq.s32 p, $1, 0;
    @p bra done;
    mov.b64 e, 0;
    turn:
    mov.u32 c, 0;
    again:
    ld.relaxed.sys.global.b64 v, [$2];
    mov.b64 {{d, u}}, v;
    setp.eq.u32 p, u, $3;
    @p bra done;
    add.u32 c, c, 1;
    setp.lt.u32 p, c, 1024;
    @p bra again;
    {slow_text("$4", numbers, kind, op, kernel, "$5", widen, True)}
    done:
    mov.b32 $0, d;
    }}"""


_STAGE, _FIRST_THREAD = (
    triton.language.constexpr(STAGE_PTX),
    triton.language.constexpr(FIRST_THREAD),
)


@triton.constexpr_function
def stage_text(trace, label, kernel, priority, in_gluon):
    """One thread writes a stage, $1 being its begin, $2 the context, $3, in Gluon, 1 for that thread."""
    label = label.encode()
    if len(label) > 24:
        raise ValueError(f"a stage's label has {len(label)} bytes; there is room for 24")
    words = [
        int.from_bytes(label[i : i + 8].ljust(8, b"\0"), "little", signed=True) for i in (0, 8, 16)
    ]
    text, leader = _STAGE.value, "setp.eq.u32 q, $3, 0;" if in_gluon else _FIRST_THREAD.value
    for name, stands_for in (
        ("leader", leader), ("begin", "$1"), ("buffer", f"ld.global.b64 b, [$2 + {8 * trace}];"),
        ("kernel", kernel), ("priority", priority),
        ("label0", words[0]), ("label1", words[1]), ("label2", words[2]),
    ):  # fmt: skip
        text = text.replace(f"<{name}>", f"{stands_for}")
    return text[:-1] + "mov.b32 $0, 0; }"
