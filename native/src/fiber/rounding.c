/* SPDX-License-Identifier: BSD-3-Clause
 * Operands are read after the mode is set and results stored before it is set back: both are volatile, so that the
 * compiler computes between the two calls and neither earlier nor itself. */
#include <fenv.h>
#include <math.h>

#include "fiber/rounding.h"

static int mode_begin(int32_t mode) {
    static const int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
    int before = fegetround();

    fesetround(modes[mode]);
    return before;
}

/* result = op(x, y, z), of the type that these have. */
#define COMPUTE(_root, _fma)    \
    switch (op) {               \
    case PYSH_ROUNDED_ADD:      \
        result = x + y;         \
        break;                  \
    case PYSH_ROUNDED_SUBTRACT: \
        result = x - y;         \
        break;                  \
    case PYSH_ROUNDED_MULTIPLY: \
        result = x * y;         \
        break;                  \
    case PYSH_ROUNDED_DIVIDE:   \
        result = x / y;         \
        break;                  \
    case PYSH_ROUNDED_ROOT:     \
        result = _root(x);      \
        break;                  \
    default:                    \
        result = _fma(x, y, z); \
    }

double pysh_cpu_rounded(int32_t op, int32_t mode, double a, double b, double c) {
    volatile double x = a, y = b, z = c, result;
    int before = mode_begin(mode);

    COMPUTE(sqrt, fma)
    fesetround(before);
    return result;
}

float pysh_cpu_rounded_f(int32_t op, int32_t mode, float a, float b, float c) {
    volatile float x = a, y = b, z = c, result;
    int before = mode_begin(mode);

    COMPUTE(sqrtf, fmaf)
    fesetround(before);
    return result;
}
#undef COMPUTE

float pysh_cpu_narrowed(int32_t mode, double value) {
    volatile double x = value;
    int before = mode_begin(mode);
    volatile float result = (float)x;

    fesetround(before);
    return result;
}

/* Half of a large unsigned integer, its last bit kept in the one that is left: it says on which side of a number the
 * integer is, and twice the result is exact. */
static int64_t integer_halved(uint64_t value) {
    return (int64_t)(value >> 1 | (value & 1));
}

double pysh_cpu_of_integer(int32_t mode, int64_t value, int32_t is_unsigned) {
    int is_large = is_unsigned && value < 0;
    volatile int64_t x = is_large ? integer_halved((uint64_t)value) : value;
    int before = mode_begin(mode);
    volatile double result = (double)x;

    fesetround(before);
    return is_large ? 2 * result : result;
}

float pysh_cpu_of_integer_f(int32_t mode, int64_t value, int32_t is_unsigned) {
    int is_large = is_unsigned && value < 0;
    volatile int64_t x = is_large ? integer_halved((uint64_t)value) : value;
    int before = mode_begin(mode);
    volatile float result = (float)x;

    fesetround(before);
    return is_large ? 2 * result : result;
}
