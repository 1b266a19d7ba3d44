/* SPDX-License-Identifier: BSD-3-Clause
 * The end of a job from one thread of PE 0 while others communicate. argv[1]: g, shmem_global_exit; e, exit; f, a
 * mistake; argv[2]: the code of g and e. Each PE's exit handler says that it ran. */
#include <pthread.h>
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define THREADS 4

static void handler(void) {
    usleep(200 * 1000); /* longer than the other threads take to notice */
    if (write(STDOUT_FILENO, "left\n", 5) != 5)
        _Exit(99);
}

static void *communicate(void *heap) {
    long *words = heap;

    for (long i = 0;; i++) {
        shmem_long_atomic_add(words, 1, (int)(i % shmem_n_pes()));
        shmem_long_p(words + 1, i, (int)(i % shmem_n_pes()));
        ((volatile long *)words)[2]++; /* faults if the heap goes away */
    }
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t thread[THREADS];
    int level, code = atoi(argv[argc - 1]);
    long *words;

    shmem_init_thread(SHMEM_THREAD_MULTIPLE, &level);
    words = shmem_calloc(3, sizeof *words);
    if (!words || atexit(handler))
        return 98;
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&thread[i], NULL, communicate, words))
            return 98;
    usleep(100 * 1000);
    if (shmem_my_pe() == 0) {
        if (!strcmp(argv[1], "g"))
            shmem_global_exit(code);
        if (!strcmp(argv[1], "e"))
            exit(code);
        shmem_long_p(words, 1, shmem_n_pes());
    }
    pthread_join(thread[0], NULL);
    return 97;
}
