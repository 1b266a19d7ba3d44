/* SPDX-License-Identifier: BSD-3-Clause
 * Faults that kernels and the proxy recorded, and the end of kernels' waits from outside. */
#include "memory/kernel_faults.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "accel/accel.h"
#include "base/clock.h"
#include "base/state.h"
#include "memory/system_region.h"

#define COMPLETION_NS 1000000000LL /* for 8 bytes to reach a GPU */

static uint64_t *fault_claim(void) {
    return (uint64_t *)(void *)(pysh.arena[ISHMEMX_HEAP_DEVICE].base + PYSH_FAULT_CLAIM);
}

void pysh_end_kernel_waits(void) {
    if (atomic_exchange(&pysh.waits_ended, true))
        return;
    if (pysh.arena[ISHMEMX_HEAP_DEVICE].cpu_visible)
        __atomic_store_n(fault_claim(), 2, __ATOMIC_RELEASE); /* pairs with given_up() of the device library */
    else
        pysh.accel->complete(fault_claim(), 2);
}

/* Once the completion is there: it must not come after the zero. */
static int kernel_waits_go_on(void) {
    int64_t deadline = pysh_now_ns() + COMPLETION_NS;
    uint64_t claim = 0;
    int status = ISHMEMX_OK;

    if (!atomic_load(&pysh.waits_ended))
        return ISHMEMX_OK;
    while (!status && !claim && pysh_now_ns() < deadline)
        status = pysh.accel->copy(&claim, fault_claim(), sizeof claim);
    atomic_store(&pysh.waits_ended, false);
    return status ? status : pysh.accel->zero(fault_claim(), sizeof claim);
}

int ishmemx_fault_take(ishmemx_fault_t *fault) {
    *fault = (ishmemx_fault_t){.kind = ISHMEMX_FAULT_NONE};
    if (!pysh.ready || !pysh.fault)
        return ISHMEMX_OK;
    /* acquire: pairs with the kernel's release of `kind`, its last word, or with the proxy's */
    if (!__atomic_load_n(&pysh.fault->kind, __ATOMIC_ACQUIRE)) {
        if (__atomic_load_n(&pysh.fault[1].kind, __ATOMIC_ACQUIRE)) {
            *fault = pysh.fault[1];
            __atomic_store_n(&pysh.fault[1].kind, 0, __ATOMIC_RELEASE);
            return kernel_waits_go_on();
        }
        return ISHMEMX_OK;
    }
    *fault = *pysh.fault;
    __atomic_store_n(&pysh.fault->kind, 0, __ATOMIC_RELEASE);
    /* The claim last: only then may the next fault write the record. */
    return pysh.accel->zero(fault_claim(), sizeof *fault_claim());
}
