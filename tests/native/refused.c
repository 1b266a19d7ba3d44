/* SPDX-License-Identifier: BSD-3-Clause
 * A collective that fails tells its caller, and says why. */
#include "check.h"

int main(void) {
    static int dest, source;

    shmem_init();
    CHECK(shmem_int_broadcast(SHMEM_TEAM_WORLD, &dest, &source, 1, shmem_n_pes()) != 0);
    shmem_barrier_all();
    return conclude();
}
