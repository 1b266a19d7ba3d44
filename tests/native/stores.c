/* SPDX-License-Identifier: BSD-3-Clause
 * Puts store each byte once: counts the stores to a page of the heap that may only be read. */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "check.h"

enum { PAGE_BYTES = 4096, TRAP_FLAG = 0x100 };

static char *page; /* a PE's own, as others reach it */
static volatile int stores;

/* A store to the page: let it happen, and trap after it. */
static void on_store(int signal, siginfo_t *info, void *context) {
    ucontext_t *machine = context;

    (void)signal;
    if ((char *)info->si_addr < page || (char *)info->si_addr >= page + PAGE_BYTES)
        _exit(3);
    stores++;
    mprotect(page, PAGE_BYTES, PROT_READ | PROT_WRITE);
    machine->uc_mcontext.gregs[REG_EFL] |= TRAP_FLAG;
}

static void after_store(int signal, siginfo_t *info, void *context) {
    ucontext_t *machine = context;

    (void)signal, (void)info;
    machine->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
    mprotect(page, PAGE_BYTES, PROT_READ);
}

static void catch(int signal, void (*handler)(int, siginfo_t *, void *)) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};

    sigaction(signal, &action, NULL);
}

/* How many stores a put of nbytes to `dest` makes. */
static int count(char *dest, size_t nbytes) {
    char source[64];

    memset(source, (int)nbytes, sizeof source);
    stores = 0;
    mprotect(page, PAGE_BYTES, PROT_READ);
    shmem_putmem(dest, source, nbytes, shmem_my_pe());
    mprotect(page, PAGE_BYTES, PROT_READ | PROT_WRITE);
    CHECK(!memcmp(dest, source, nbytes) && dest[nbytes] == 0);
    memset(dest, 0, nbytes);
    return stores;
}

int main(void) {
    char *dest;

    shmem_init();
    dest = shmem_align(PAGE_BYTES, PAGE_BYTES);
    memset(dest, 0, PAGE_BYTES);
    page = shmem_ptr(dest, shmem_my_pe());
    catch(SIGSEGV, on_store);
    catch(SIGTRAP, after_store);
    CHECK(count(dest, 1) == 1 && count(dest, 2) == 1 && count(dest, 4) == 1 && count(dest, 8) == 1);
    CHECK(count(dest + 1, 4) == 1 && count(dest, 3) == 2 && count(dest, 7) == 3 && count(dest, 16) == 2);
    CHECK(count(dest, 32) == 4 && count(dest, 64) == 8 && count(dest, 63) == 10);
    return conclude();
}
