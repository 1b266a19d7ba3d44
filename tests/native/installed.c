/* SPDX-License-Identifier: BSD-3-Clause
 * What tools/packages.sh compiles against an installed wheel: a put to the right. */
#include <shmem.h>
#include <stdio.h>

int main(void) {
    static long box = -1;
    int me, n;

    shmem_init();
    me = shmem_my_pe();
    n = shmem_n_pes();
    shmem_long_p(&box, me, (me + 1) % n);
    shmem_barrier_all();
    if (box != (me + n - 1) % n) {
        fprintf(stderr, "PE %d has %ld\n", me, box);
        shmem_global_exit(1);
    }
    if (me == 0)
        printf("C on %d PEs: ok\n", n);
    shmem_finalize();
    return 0;
}
