/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

/* In a child of fork(): closes the connections of the worker with that descriptor, which are the parent's. */
void pysh_ucx_let_go(int descriptor);
