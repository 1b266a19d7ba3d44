/* SPDX-License-Identifier: BSD-3-Clause
 * Arithmetic that rounds as it is told, as a GPU's instructions do. No thread of a kernel lets another run in it. */
#pragma once

#include <stdint.h>

enum { PYSH_ROUND_NEAREST, PYSH_ROUND_TO_ZERO, PYSH_ROUND_DOWN, PYSH_ROUND_UP };
enum {
    PYSH_ROUNDED_ADD,
    PYSH_ROUNDED_SUBTRACT,
    PYSH_ROUNDED_MULTIPLY,
    PYSH_ROUNDED_DIVIDE,
    PYSH_ROUNDED_ROOT,
    PYSH_ROUNDED_FMA
};
/* Of `a` and `b`; PYSH_ROUNDED_ROOT of `a`; PYSH_ROUNDED_FMA a * b + c. */
double pysh_cpu_rounded(int32_t op, int32_t mode, double a, double b, double c);
float pysh_cpu_rounded_f(int32_t op, int32_t mode, float a, float b, float c);
float pysh_cpu_narrowed(int32_t mode, double value);
/* Of an integer, which is taken for an unsigned one where that is not 0. */
double pysh_cpu_of_integer(int32_t mode, int64_t value, int32_t is_unsigned);
float pysh_cpu_of_integer_f(int32_t mode, int64_t value, int32_t is_unsigned);
