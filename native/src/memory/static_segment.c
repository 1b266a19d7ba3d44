/* SPDX-License-Identifier: BSD-3-Clause
 * The writable data of the executable, and its move to a memory file.
 *
 * The pages are copied to the file, which is then mapped over them: same addresses, same contents, but now others
 * can map them too. Nothing may write in between, so it is done with one thread and all signals blocked. What the
 * linker has made read-only (RELRO) stays out. */
#define _GNU_SOURCE
#include "memory/static_segment.h"

#include <dirent.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/memory_file.h"
#include "ishmemx.h"

#define ENTRIES 512          /* of the page map at a time */
#define IN_USE  (3ULL << 62) /* present or swapped */

pysh_static_segment_t pysh_static_segment = {.fd = -1};

/* ---- where it is ---- */

typedef struct found {
    uintptr_t start, file_end, end; /* what lies behind file_end was zero at first */
    uint64_t layout;
} found_t;

static uint64_t mix(uint64_t hash, const void *bytes, size_t nbytes) { /* FNV-1a */
    for (size_t i = 0; i < nbytes; i++)
        hash = (hash ^ ((const unsigned char *)bytes)[i]) * 0x100000001b3ULL;
    return hash;
}

/* The program is the first object; the last writable part of it has the variables. */
static int look_at_program(struct dl_phdr_info *info, size_t nbytes, void *data) {
    found_t *found = data;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), relro = 0, relro_end = 0;

    (void)nbytes;
    found->layout = 0xcbf29ce484222325ULL;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        found->layout = mix(found->layout, segment, sizeof *segment);
        if (segment->p_type == PT_NOTE) /* the identity of the build among them */
            found->layout = mix(found->layout, (void *)(info->dlpi_addr + segment->p_vaddr), segment->p_memsz);
        if (segment->p_type == PT_GNU_RELRO) {
            relro = info->dlpi_addr + segment->p_vaddr;
            relro_end = (relro + segment->p_memsz) & -page;
        }
    }
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + segment->p_vaddr, end = start + segment->p_memsz;
        uintptr_t file_end = start + segment->p_filesz;
        if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_W))
            continue;
        if (start < relro_end && relro < end)
            start = relro_end;
        if (start < end && start > found->start)
            *found = (found_t){start, file_end > start ? file_end : start, end, found->layout};
    }
    return 1;
}

/* ---- the copy ---- */

/* The system's own call: a sanitizer in the program would object to what lies between variables. */
static bool write_all(int fd, const char *from, size_t nbytes, off_t at) {
    while (nbytes) {
        ssize_t written = syscall(SYS_pwrite64, fd, from, nbytes, at);
        if (written <= 0)
            return false;
        from += written;
        at += written;
        nbytes -= (size_t)written;
    }
    return true;
}

__attribute__((no_sanitize("address"))) static bool is_zero(const char *page, size_t nbytes) {
    const uint64_t *words = (const void *)page;

    for (size_t i = 0; i < nbytes / sizeof *words; i++)
        if (words[i])
            return false;
    return true;
}

/* Pages that no file backs: only those in use are looked at, when the kernel tells (`map`), and only those with
 * something in them are written. A large array that the program has not touched stays without memory. */
static bool copy_sparse(int fd, int map, const char *pages, size_t first, size_t nbytes, size_t page) {
    uint64_t entries[ENTRIES];

    for (size_t at = first; at < nbytes; at += ENTRIES * page) {
        size_t count = (nbytes - at) / page < ENTRIES ? (nbytes - at) / page : ENTRIES;
        off_t entry = (off_t)(((uintptr_t)pages + at) / page * sizeof *entries);
        ssize_t wanted = (ssize_t)(count * sizeof *entries);
        if (map < 0 || pread(map, entries, (size_t)wanted, entry) != wanted)
            memset(entries, 0xff, sizeof entries);
        for (size_t i = 0; i < count; i++) {
            const char *from = pages + at + i * page;
            if (entries[i] & IN_USE && !is_zero(from, page) && !write_all(fd, from, page, from - pages))
                return false;
        }
    }
    return true;
}

/* The descriptor of the file that now lies under the pages, or -1. */
static int move_pages(char *pages, size_t file_nbytes, size_t nbytes, size_t page) {
    int map = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    int fd = pysh_memory_file("pyshmem-statics");
    bool copied = fd >= 0 && pysh_memory_file_size(fd, nbytes) == 0 && write_all(fd, pages, file_nbytes, 0) &&
                  copy_sparse(fd, map, pages, file_nbytes, nbytes, page);

    if (!copied || mmap(pages, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) {
        if (fd >= 0)
            close(fd);
        fd = -1;
    }
    if (map >= 0)
        close(map);
    return fd;
}

static bool has_one_thread(void) {
    DIR *tasks = opendir("/proc/self/task");
    int n_tasks = 0;

    for (struct dirent *entry; tasks && (entry = readdir(tasks));)
        n_tasks += entry->d_name[0] != '.';
    if (tasks)
        closedir(tasks);
    return n_tasks == 1;
}

/* ---- fork ---- */

/* The child of fork() gets its own copy, as of any other private memory; complete before it comes in place. */
static void part_in_child(void) {
    pysh_static_segment_t *own = &pysh_static_segment;
    size_t nbytes = own->pages_nbytes;
    int fd = own->fd;
    char *copy;

    if (fd < 0)
        return;
    copy = mmap(NULL, nbytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (copy == MAP_FAILED)
        _exit(127); /* rather than write the parent's variables */
    for (off_t at = lseek(fd, 0, SEEK_DATA); at >= 0; at = lseek(fd, at, SEEK_DATA)) {
        off_t end = lseek(fd, at, SEEK_HOLE);
        while (at < end) {
            ssize_t got = pread(fd, copy + at, (size_t)(end - at), at);
            if (got <= 0)
                _exit(127);
            at += got;
        }
    }
    /* Not mremap(): UCX, under an OpenSHMEM library, puts one in its place that drops the last argument. */
    if (syscall(SYS_mremap, copy, nbytes, nbytes, MREMAP_MAYMOVE | MREMAP_FIXED, own->pages) == -1)
        _exit(127);
    close(fd);
    own->fd = -1;
}

/* Not for a library that reaches other hosts: Open MPI offers the network private memory only. */
static bool may_map(bool several_hosts) {
    int64_t way;

    if (ishmemx_setting_number("STATICS", &way)) /* init will say so */
        return false;
    return (way == PYSH_STATICS_AUTO || way == PYSH_STATICS_MAP) && !several_hosts;
}

void pysh_statics_adopt(int n_pes, bool several_hosts) {
    static bool fork_handled;
    pysh_static_segment_t *own = &pysh_static_segment;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), file_end;
    found_t found = {0};
    sigset_t all, before;

    own->wanted = true;
    if (own->fd >= 0)
        return; /* since an earlier job */
    dl_iterate_phdr(look_at_program, &found);
    if (!found.start)
        return;
    own->layout = found.layout;
    own->base = (char *)found.start;
    own->nbytes = found.end - found.start;
    own->pages = (char *)(found.start & -page);
    own->pages_nbytes = ((found.end + page - 1) & -page) - (uintptr_t)own->pages;
    file_end = (found.file_end + page - 1) & -page;
    if (n_pes < 2 || !may_map(several_hosts) || !has_one_thread())
        return;
    if (!fork_handled && pthread_atfork(NULL, NULL, part_in_child))
        return;
    fork_handled = true;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before);
    own->fd = move_pages(own->pages, file_end - (uintptr_t)own->pages, own->pages_nbytes, page);
    sigprocmask(SIG_SETMASK, &before, NULL);
}
