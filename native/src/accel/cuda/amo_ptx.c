/* SPDX-License-Identifier: BSD-3-Clause
 * The kernels for atomic operations. */
#include "accel/cuda/amo_ptx.h"

/* What each case does to %O, the old bits, or to %o when it is one of 4 bytes, which then go on at `wide`. */
#define CASES(_order)                                                                                        \
    "    cvt.u32.u64 %v, %V;\n"                                                                              \
    "    cvt.u32.u64 %c, %C;\n"                                                                              \
    "    mov.b32 %f, %v;\n"                                                                                  \
    "    mov.b64 %d, %V;\n"                                                                                  \
    "cases: .branchtargets L0, L1, L1, L3, L4, L5, L6, L7, L8, L9, L9, L11, L12, L13, L14, L15, L16, L17;\n" \
    "    brx.idx %case, cases;\n"                                                                            \
    "L0: ld.acquire.sys.u32 %o, [%a]; bra wide;\n"                                                           \
    "L1: atom." _order ".sys.exch.b32 %o, [%a], %v; bra wide;\n"                                             \
    "L3: atom." _order ".sys.cas.b32 %o, [%a], %c, %v; bra wide;\n"                                          \
    "L4: atom." _order ".sys.add.u32 %o, [%a], %v; bra wide;\n"                                              \
    "L5: atom." _order ".sys.and.b32 %o, [%a], %v; bra wide;\n"                                              \
    "L6: atom." _order ".sys.or.b32 %o, [%a], %v; bra wide;\n"                                               \
    "L7: atom." _order ".sys.xor.b32 %o, [%a], %v; bra wide;\n"                                              \
    "L8: ld.acquire.sys.u64 %O, [%a]; bra done;\n"                                                           \
    "L9: atom." _order ".sys.exch.b64 %O, [%a], %V; bra done;\n"                                             \
    "L11: atom." _order ".sys.cas.b64 %O, [%a], %C, %V; bra done;\n"                                         \
    "L12: atom." _order ".sys.add.u64 %O, [%a], %V; bra done;\n"                                             \
    "L13: atom." _order ".sys.and.b64 %O, [%a], %V; bra done;\n"                                             \
    "L14: atom." _order ".sys.or.b64 %O, [%a], %V; bra done;\n"                                              \
    "L15: atom." _order ".sys.xor.b64 %O, [%a], %V; bra done;\n"                                             \
    "L16: atom." _order ".sys.add.f32 %f, [%a], %f; mov.b32 %o, %f; bra wide;\n"                             \
    "L17: atom." _order ".sys.add.f64 %d, [%a], %d; mov.b64 %O, %d; bra done;\n"                             \
    "wide: cvt.u64.u32 %O, %o;\n"

/* One operation, sequentially consistent at system scope: fence.sc, then acq_rel. The host reads the result after
 * cuStreamSynchronize; one of 4 bytes may be an element of an array, with others beside it. */
#define ONE                                                                                      \
    ".visible .entry pysh_amo(.param .u64 p_address, .param .u64 p_value, .param .u64 p_cond,\n" \
    "                         .param .u64 p_result, .param .u32 p_case, .param .u32 p_narrow)\n" \
    "{\n"                                                                                        \
    "    .reg .b32 %v, %c, %o, %case, %narrow;\n"                                                \
    "    .reg .pred %n;\n"                                                                       \
    "    .reg .b64 %a, %V, %C, %O, %r;\n"                                                        \
    "    .reg .f32 %f;\n"                                                                        \
    "    .reg .f64 %d;\n"                                                                        \
    "    ld.param.u64 %a, [p_address];\n"                                                        \
    "    ld.param.u64 %V, [p_value];\n"                                                          \
    "    ld.param.u64 %C, [p_cond];\n"                                                           \
    "    ld.param.u64 %r, [p_result];\n"                                                         \
    "    ld.param.u32 %case, [p_case];\n"                                                        \
    "    ld.param.u32 %narrow, [p_narrow];\n"                                                    \
    "    setp.ne.u32 %n, %narrow, 0;\n"                                                          \
    "    fence.sc.sys;\n" CASES("acq_rel") "    @%n bra narrow;\n"                               \
                                           "done: st.relaxed.sys.u64 [%r], %O;\n"                \
                                           "    ret;\n"                                          \
                                           "narrow: st.relaxed.sys.u32 [%r], %o;\n"              \
                                           "    ret;\n"                                          \
                                           "}\n"

/* Does requests from %n on, in order, until it has looked for the next in vain for a while. A look is one load, which
 * takes 1 us on an H200, and loads of one line follow each other: so a request is in the first two words of its box
 * (see amo_polled.c) where it can, and the others are loaded once these show its phase, which is pysh_phase() of 16
 * slots. What the host had copied before it posted a request is complete, so an operation acquires, for the next one,
 * and no more. */
#define SERVER                                                                                        \
    ".visible .entry pysh_amo_server(.param .u64 p_boxes, .param .u64 p_cells, .param .u64 p_here,\n" \
    "                                .param .u64 p_first, .param .u64 p_life, .param .u32 p_looks)\n" \
    "{\n"                                                                                             \
    "    .reg .b32 %v, %c, %o, %case, %looks, %k;\n"                                                  \
    "    .reg .pred %p;\n"                                                                            \
    "    .reg .b64 %a, %V, %C, %O, %boxes, %cells, %here, %life, %n, %phase, %box, %cell, %t, %u;\n"  \
    "    .reg .b64 %w<4>;\n"                                                                          \
    "    .reg .f32 %f;\n"                                                                             \
    "    .reg .f64 %d;\n"                                                                             \
    "    ld.param.u64 %boxes, [p_boxes];\n"                                                           \
    "    ld.param.u64 %cells, [p_cells];\n"                                                           \
    "    ld.param.u64 %here, [p_here];\n"                                                             \
    "    ld.param.u64 %n, [p_first];\n"                                                               \
    "    ld.param.u64 %life, [p_life];\n"                                                             \
    "    ld.param.u32 %looks, [p_looks];\n"                                                           \
    "    st.relaxed.sys.u64 [%here], %life;\n"                                                        \
    "next:\n"                                                                                         \
    "    mov.u32 %k, 0;\n"                                                                            \
    "    shr.u64 %phase, %n, 4;\n"                                                                    \
    "    rem.u64 %phase, %phase, 255;\n"                                                              \
    "    add.u64 %phase, %phase, 1;\n"                                                                \
    "    and.b64 %t, %n, 15;\n"                                                                       \
    "    mad.lo.u64 %box, %t, 32, %boxes;\n"                                                          \
    "    mad.lo.u64 %cell, %t, 16, %cells;\n"                                                         \
    "look:\n"                                                                                         \
    "    ld.relaxed.sys.v2.u64 {%w0, %w1}, [%box];\n"                                                 \
    "    shr.u64 %t, %w0, 56; xor.b64 %t, %t, %phase;\n"                                              \
    "    shr.u64 %u, %w1, 56; xor.b64 %u, %u, %phase; or.b64 %t, %t, %u;\n"                           \
    "    setp.eq.u64 %p, %t, 0;\n"                                                                    \
    "    @%p bra serve;\n"                                                                            \
    "    add.u32 %k, %k, 1;\n"                                                                        \
    "    setp.lt.u32 %p, %k, %looks;\n"                                                               \
    "    @%p bra look;\n"                                                                             \
    "    or.b64 %t, %life, %n;\n"                                                                     \
    "    st.relaxed.sys.u64 [%here + 8], %t;\n"                                                       \
    "    ret;\n"                                                                                      \
    "serve:\n"                                                                                        \
    "    bfe.u64 %a, %w0, 0, 48;\n"                                                                   \
    "    bfe.s64 %V, %w1, 0, 56;\n"                                                                   \
    "    mov.u64 %C, 0;\n"                                                                            \
    "    bfe.u64 %t, %w0, 48, 5;\n"                                                                   \
    "    cvt.u32.u64 %case, %t;\n"                                                                    \
    "    and.b64 %t, %w0, 0x0080000000000000;\n"                                                      \
    "    setp.eq.u64 %p, %t, 0;\n"                                                                    \
    "    @%p bra known;\n"                                                                            \
    "more:\n"                                                                                         \
    "    ld.relaxed.sys.v2.u64 {%w2, %w3}, [%box + 16];\n"                                            \
    "    shr.u64 %t, %w2, 56; xor.b64 %t, %t, %phase;\n"                                              \
    "    shr.u64 %u, %w3, 56; xor.b64 %u, %u, %phase; or.b64 %t, %t, %u;\n"                           \
    "    setp.ne.u64 %p, %t, 0;\n"                                                                    \
    "    @%p bra more;\n"                                                                             \
    "    bfi.b64 %a, %w3, %a, 48, 8;\n"                                                               \
    "    shr.u64 %t, %w3, 8;\n"                                                                       \
    "    bfi.b64 %V, %t, %w1, 56, 8;\n"                                                               \
    "    shr.u64 %t, %w3, 16;\n"                                                                      \
    "    bfi.b64 %C, %t, %w2, 56, 8;\n"                                                               \
    "known:\n" CASES("acquire") "done:\n"                                                             \
                                "    shr.u64 %u, %O, 56;\n"                                           \
                                "    bfi.b64 %t, %phase, %O, 56, 8;\n"                                \
                                "    bfi.b64 %u, %phase, %u, 56, 8;\n"                                \
                                "    st.relaxed.sys.v2.u64 [%cell], {%t, %u};\n"                      \
                                "    add.u64 %n, %n, 1;\n"                                            \
                                "    bra next;\n"                                                     \
                                "}\n"

const char *const pysh_cuda_amo_ptx = ".version 7.0\n.target sm_70\n.address_size 64\n" ONE SERVER;
