/* SPDX-License-Identifier: BSD-3-Clause
 * CHECK of programs that end at the first thing that is wrong. */
#pragma once

#include <stdio.h>
#include <stdlib.h>

#define CHECK(_holds)                                                    \
    do {                                                                 \
        if (!(_holds)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #_holds); \
            exit(1);                                                     \
        }                                                                \
    } while (0)
