/* SPDX-License-Identifier: BSD-3-Clause
 * The arithmetic of reductions. One loop an operation and type, made from the lists of shmem_types.h.
 * Integers wrap (the build has -fwrapv). A NaN among the values of a min or max is its result. */
#include "collectives/combine.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/elements.h"
#include "ishmemx.h"

#undef bool /* the type's name goes through two macros below */

/* ---- 16-bit floats: widened exactly, rounded to nearest, ties to even ---- */

static uint32_t bits_of(float value) {
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits) {
    float value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

static float widen_half(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, rest = half & 0x7fff;

    if (rest >= 0x7c00) /* infinity or NaN */
        return float_of(sign | 0x7f800000 | (rest & 0x3ff) << 13);
    if (rest < 0x400) /* zero or subnormal: rest * 2^-24 */
        return float_of(sign | bits_of((float)rest * 0x1p-24f));
    return float_of(sign | ((rest << 13) + ((127 - 15) << 23)));
}

static uint16_t narrow_half(float value) {
    uint32_t bits = bits_of(value), rest = bits & 0x7fffffff;
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);

    if (rest > 0x7f800000)
        return sign | 0x7e00;
    if (rest >= 0x47800000) /* 2^16 and above; what rounds up to 2^16 gets there by the carry below */
        return sign | 0x7c00;
    if (rest < 0x38800000) /* below 2^-14: adding 0.5 leaves value * 2^24, rounded, in the low bits */
        return sign | (uint16_t)(bits_of(float_of(rest) + 0.5f) - bits_of(0.5f));
    rest -= (127 - 15) << 23;
    return sign | (uint16_t)((rest + 0xfff + (rest >> 13 & 1)) >> 13);
}

static float widen_bfloat16(uint16_t value) {
    return float_of((uint32_t)value << 16);
}

static uint16_t narrow_bfloat16(float value) {
    uint32_t bits = bits_of(value);

    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* ---- the loops ---- */

typedef void combine_func_t(void *restrict acc, const void *restrict in, size_t n);

#define NARROW(_type) ((_type) == PYSH_TYPE_half || (_type) == PYSH_TYPE_bfloat16)
/* A value of the accumulator's type, for typeof. */
#define ACCUMULATOR(_type, _ctype) __builtin_choose_expr(NARROW(_type), 0.0f, (_ctype)0)

#define AND(_a, _b)  ((_a) & (_b))
#define OR(_a, _b)   ((_a) | (_b))
#define XOR(_a, _b)  ((_a) ^ (_b))
#define MAX(_a, _b)  ((_b) > (_a) || (_b) != (_b) ? (_b) : (_a))
#define MIN(_a, _b)  ((_b) < (_a) || (_b) != (_b) ? (_b) : (_a))
#define SUM(_a, _b)  ((_a) + (_b))
#define PROD(_a, _b) ((_a) * (_b))

#define LOOP(_op, _name, _ctype)                                                       \
    static void _op##_##_name(void *restrict acc, const void *restrict in, size_t n) { \
        __typeof__(ACCUMULATOR(PYSH_TYPE_##_name, _ctype)) *a = acc;                   \
        const __typeof__(ACCUMULATOR(PYSH_TYPE_##_name, _ctype)) *b = in;              \
        for (size_t i = 0; i < n; i++)                                                 \
            a[i] = (__typeof__(*a))_op(a[i], b[i]);                                    \
    }

/* Nothing of these loops may be reordered between PEs: each is one operation an element. */
#define LOOPS_BITWISE(_name, _ctype)    LOOP(AND, _name, _ctype) LOOP(OR, _name, _ctype) LOOP(XOR, _name, _ctype)
#define LOOPS_ORDER(_name, _ctype)      LOOP(MAX, _name, _ctype) LOOP(MIN, _name, _ctype)
#define LOOPS_ARITHMETIC(_name, _ctype) LOOP(SUM, _name, _ctype) LOOP(PROD, _name, _ctype)
ISHMEMX_ELEMENTS_T(LOOPS_BITWISE)
ISHMEMX_ELEMENTS_M(LOOPS_ORDER)
ISHMEMX_ELEMENTS_S(LOOPS_ARITHMETIC)

#define ROW(_op, _name)                [ISHMEMX_REDUCE_##_op][PYSH_TYPE_##_name] = _op##_##_name,
#define ROWS_BITWISE(_name, _ctype)    ROW(AND, _name) ROW(OR, _name) ROW(XOR, _name)
#define ROWS_ORDER(_name, _ctype)      ROW(MAX, _name) ROW(MIN, _name)
#define ROWS_ARITHMETIC(_name, _ctype) ROW(SUM, _name) ROW(PROD, _name)
static combine_func_t *const combine_table[ISHMEMX_REDUCE_COUNT][ISHMEMX_TYPE_COUNT] = {
    ISHMEMX_ELEMENTS_T(ROWS_BITWISE) ISHMEMX_ELEMENTS_M(ROWS_ORDER) ISHMEMX_ELEMENTS_S(ROWS_ARITHMETIC)};

/* ---- accumulators ---- */

int pysh_accumulator_type(int type) {
    return NARROW(type) ? ISHMEMX_TYPE_FLOAT : type;
}

void pysh_combine_begin(int type, void *acc, const void *in, size_t n) {
    const uint16_t *narrow = in;
    float *wide = acc;

    if (!NARROW(type))
        memcpy(acc, in, n * pysh_type_nbytes(type));
    else if (type == ISHMEMX_TYPE_HALF)
        for (size_t i = 0; i < n; i++)
            wide[i] = widen_half(narrow[i]);
    else
        for (size_t i = 0; i < n; i++)
            wide[i] = widen_bfloat16(narrow[i]);
}

void pysh_combine(int op, int type, void *acc, const void *in, size_t n) {
    float wide[256];
    size_t piece;

    if (!NARROW(type)) {
        combine_table[op][type](acc, in, n);
        return;
    }
    for (size_t done = 0; done < n; done += piece) {
        piece = n - done < 256 ? n - done : 256;
        pysh_combine_begin(type, wide, (const uint16_t *)in + done, piece);
        combine_table[op][type]((float *)acc + done, wide, piece);
    }
}

void pysh_combine_end(int type, void *acc, size_t n) {
    char *bytes = acc;

    for (size_t i = 0; NARROW(type) && i < n; i++) { /* element i lands at or before where it was */
        float wide;
        uint16_t narrow;
        memcpy(&wide, bytes + i * sizeof wide, sizeof wide);
        narrow = type == ISHMEMX_TYPE_HALF ? narrow_half(wide) : narrow_bfloat16(wide);
        memcpy(bytes + i * sizeof narrow, &narrow, sizeof narrow);
    }
}
