/* SPDX-License-Identifier: BSD-3-Clause
 * The fake driver's mapped memory: reserved addresses, memory made apart from them, descriptors of it. As the driver it
 * refuses to map over what is mapped and to unmap what is not. It has no more than MOST_BYTES at once. The name of a
 * descriptor ends with the GPU that has the memory. */
#include "fake_cuda_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MAX_PARTS = 1024, OUT_OF_MEMORY = 2, NOT_MAPPED = 211 };
#define MOST_BYTES ((size_t)480 << 20)

static struct {
    char *at; /* NULL: a free place */
    size_t nbytes;
    int owner;        /* of a part: the GPU that has it */
    unsigned reached; /* and a bit for each that reaches it */
} parts[MAX_PARTS], reserved[MAX_PARTS];
static size_t made;

/* Is all of it reserved, and nothing of it mapped? */
static bool is_vacant(const char *at, size_t nbytes) {
    bool inside = false;

    for (int i = 0; i < MAX_PARTS; i++) {
        inside |= reserved[i].at && at >= reserved[i].at && at + nbytes <= reserved[i].at + reserved[i].nbytes;
        if (parts[i].at && at < parts[i].at + parts[i].nbytes && parts[i].at < at + nbytes)
            return false;
    }
    return inside;
}

CUresult cuMemAddressReserve(CUdeviceptr *address, size_t nbytes, size_t align, CUdeviceptr at, uint64_t flags) {
    char *base = mmap(NULL, nbytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    UNSAFE();
    (void)align, (void)at, (void)flags;
    if (base == MAP_FAILED)
        return OUT_OF_MEMORY;
    for (int i = 0; i < MAX_PARTS; i++)
        if (!reserved[i].at) {
            reserved[i].at = base;
            reserved[i].nbytes = nbytes;
            break;
        }
    *address = (CUdeviceptr)(uintptr_t)base;
    return SUCCESS;
}
CUresult cuMemAddressFree(CUdeviceptr address, size_t nbytes) {
    UNSAFE();
    for (int i = 0; i < MAX_PARTS; i++)
        if (reserved[i].at == (char *)(uintptr_t)address && reserved[i].nbytes == nbytes) {
            if (!is_vacant(reserved[i].at, nbytes))
                return INVALID_VALUE;
            munmap(reserved[i].at, nbytes);
            reserved[i].at = NULL;
            return SUCCESS;
        }
    return INVALID_VALUE;
}
/* A handle is a descriptor + 1. */
CUresult cuMemCreate(uint64_t *handle, size_t nbytes, const void *kind, uint64_t flags) {
    char name[32];
    int fd;

    UNSAFE();
    (void)kind, (void)flags;
    snprintf(name, sizeof name, "fake_cuda_mapped_%d", fake_device());
    if (nbytes % (2 << 20))
        return INVALID_VALUE;
    if (nbytes > MOST_BYTES)
        return OUT_OF_MEMORY;
    fd = memfd_create(name, MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)nbytes))
        return INVALID_VALUE;
    *handle = (uint64_t)fd + 1;
    return SUCCESS;
}
CUresult cuMemRelease(uint64_t handle) {
    UNSAFE();
    return close((int)handle - 1) ? INVALID_VALUE : SUCCESS;
}
CUresult cuMemExportToShareableHandle(int *fd, uint64_t handle, int kind, uint64_t flags) {
    UNSAFE();
    (void)kind, (void)flags;
    *fd = dup((int)handle - 1);
    return *fd < 0 ? INVALID_VALUE : SUCCESS;
}
CUresult cuMemImportFromShareableHandle(uint64_t *handle, void *fd, int kind) {
    int own = dup((int)(intptr_t)fd);

    UNSAFE();
    (void)kind;
    *handle = (uint64_t)own + 1;
    return own < 0 ? INVALID_VALUE : SUCCESS;
}
static int owner_of(uint64_t handle) {
    char path[32], name[64] = "", *number;

    snprintf(path, sizeof path, "/proc/self/fd/%d", (int)handle - 1);
    if (readlink(path, name, sizeof name - 1) < 0 || !(number = strrchr(name, '_')))
        return -1;
    return atoi(number + 1);
}
/* The place of the part that an address is in; -1: in none. */
static int part_of(CUdeviceptr address) {
    for (int i = 0; i < MAX_PARTS; i++)
        if (parts[i].at && address - (CUdeviceptr)(uintptr_t)parts[i].at < parts[i].nbytes)
            return i;
    return -1;
}
int fake_mapped_owner(CUdeviceptr address) {
    int i = part_of(address);

    return i < 0 ? -1 : parts[i].owner;
}
CUresult cuMemMap(CUdeviceptr address, size_t nbytes, size_t offset, uint64_t handle, uint64_t flags) {
    char *at = (char *)(uintptr_t)address;

    UNSAFE();
    (void)flags;
    if (offset || !is_vacant(at, nbytes) ||
        mmap(at, nbytes, PROT_NONE, MAP_SHARED | MAP_FIXED, (int)handle - 1, 0) == MAP_FAILED)
        return INVALID_VALUE;
    for (int i = 0; i < MAX_PARTS; i++)
        if (!parts[i].at) {
            parts[i].at = at;
            parts[i].nbytes = nbytes;
            parts[i].owner = owner_of(handle);
            parts[i].reached = 0;
            break;
        }
    made += nbytes;
    return SUCCESS;
}
CUresult cuMemSetAccess(CUdeviceptr address, size_t nbytes, const void *access, size_t n) {
    const int *of = access; /* the kind of place, its number, what is allowed */
    int i = part_of(address);

    UNSAFE();
    if (i < 0 || n != 1)
        return INVALID_VALUE;
    parts[i].reached |= 1u << of[1];
    return mprotect((void *)(uintptr_t)address, nbytes, PROT_READ | PROT_WRITE) ? INVALID_VALUE : SUCCESS;
}
CUresult cuMemUnmap(CUdeviceptr address, size_t nbytes) {
    UNSAFE();
    for (int i = 0; i < MAX_PARTS; i++)
        if (parts[i].at == (char *)(uintptr_t)address && parts[i].nbytes == nbytes) {
            mmap(parts[i].at, nbytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
            parts[i].at = NULL;
            made -= nbytes;
            return SUCCESS;
        }
    return NOT_MAPPED;
}
/* How much this process has mapped, for tests. */
int fake_cuda_mapped(int unused) {
    (void)unused;
    return (int)(made >> 20);
}
/* How many parts are not reached by the GPU that has them, or not by the given one. */
int fake_cuda_unreached(int gpu) {
    int n = 0;

    for (int i = 0; i < MAX_PARTS; i++) {
        unsigned wanted = 1u << parts[i].owner | 1u << gpu;
        n += parts[i].at && (parts[i].reached & wanted) != wanted;
    }
    return n;
}
