/* SPDX-License-Identifier: BSD-3-Clause
 * The program pyshmem-engine: the process of a PE's copy engine. Started by the library only. */
#include "ishmemx.h"

int main(void) {
    return ishmemx_engine_main();
}
