/* SPDX-License-Identifier: BSD-3-Clause
 * The fake driver's memory: blocks that other processes open by their descriptor. */
#include "fake_cuda_parts.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MAX_BLOCKS = 256, HANDLE_BYTES = 64 };

typedef struct ipc_handle {
    int pid, fd;
    size_t nbytes;
} ipc_handle_t;

static struct {
    char *base;
    size_t nbytes;
    int fd;
} blocks[MAX_BLOCKS];

static CUresult block_add(int fd, size_t nbytes, CUdeviceptr *address) {
    char *base = mmap(NULL, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (base == MAP_FAILED)
        return INVALID_VALUE;
    pthread_mutex_lock(&fake.mutex);
    for (int i = 0; i < MAX_BLOCKS; i++)
        if (!blocks[i].base) {
            blocks[i].base = base;
            blocks[i].nbytes = nbytes;
            blocks[i].fd = fd;
            break;
        }
    pthread_mutex_unlock(&fake.mutex);
    *address = (CUdeviceptr)(uintptr_t)base;
    return SUCCESS;
}
static CUresult block_drop(CUdeviceptr address) {
    for (int i = 0; i < MAX_BLOCKS; i++)
        if (blocks[i].base == (char *)(uintptr_t)address) {
            munmap(blocks[i].base, blocks[i].nbytes);
            close(blocks[i].fd);
            blocks[i].base = NULL;
            return SUCCESS;
        }
    return INVALID_VALUE;
}
CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t nbytes) {
    int fd = memfd_create("fake_cuda", MFD_CLOEXEC);

    UNSAFE();
    if (fd < 0 || ftruncate(fd, (off_t)nbytes))
        return INVALID_VALUE;
    return block_add(fd, nbytes, address);
}
CUresult cuMemFree_v2(CUdeviceptr address) {
    UNSAFE();
    return block_drop(address);
}
CUresult cuMemGetInfo_v2(size_t *vacant, size_t *all) {
    UNSAFE();
    *vacant = *all = (size_t)1 << 30;
    return SUCCESS;
}
CUresult cuIpcGetMemHandle(void *handle, CUdeviceptr address) {
    UNSAFE();
    for (int i = 0; i < MAX_BLOCKS; i++)
        if (blocks[i].base == (char *)(uintptr_t)address) {
            ipc_handle_t mine = {.pid = getpid(), .fd = blocks[i].fd, .nbytes = blocks[i].nbytes};
            memset(handle, 0, HANDLE_BYTES);
            memcpy(handle, &mine, sizeof mine);
            return SUCCESS;
        }
    return INVALID_VALUE;
}
typedef struct {
    char bytes[HANDLE_BYTES];
} handle_bytes_t;
CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *address, handle_bytes_t handle, unsigned flags) {
    ipc_handle_t theirs;
    char path[64];
    int fd;

    UNSAFE();
    (void)flags;
    memcpy(&theirs, &handle, sizeof theirs);
    snprintf(path, sizeof path, "/proc/%d/fd/%d", theirs.pid, theirs.fd);
    fd = open(path, O_RDWR | O_CLOEXEC);
    return fd < 0 ? INVALID_VALUE : block_add(fd, theirs.nbytes, address);
}
CUresult cuIpcCloseMemHandle(CUdeviceptr address) {
    UNSAFE();
    return block_drop(address);
}
CUresult cuMemHostAlloc(void **address, size_t nbytes, unsigned flags) {
    UNSAFE();
    (void)flags;
    *address = aligned_alloc(4096, (nbytes + 4095) / 4096 * 4096);
    return *address ? SUCCESS : INVALID_VALUE;
}
CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *device, void *host, unsigned flags) {
    UNSAFE();
    (void)flags;
    *device = (CUdeviceptr)(uintptr_t)host;
    return SUCCESS;
}
CUresult cuMemFreeHost(void *address) {
    UNSAFE();
    free(address);
    return SUCCESS;
}
CUresult cuMemHostRegister_v2(void *address, size_t nbytes, unsigned flags) {
    UNSAFE();
    (void)address, (void)nbytes, (void)flags;
    return SUCCESS;
}
CUresult cuMemHostUnregister(void *address) {
    UNSAFE();
    (void)address;
    return SUCCESS;
}
static int block_of(CUdeviceptr address) {
    for (int i = 0; i < MAX_BLOCKS; i++)
        if (blocks[i].base && address - (CUdeviceptr)(uintptr_t)blocks[i].base < blocks[i].nbytes)
            return i;
    return -1;
}
CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *nbytes, CUdeviceptr address) {
    int i = block_of(address);

    UNSAFE();
    if (i < 0)
        return INVALID_VALUE;
    *base = (CUdeviceptr)(uintptr_t)blocks[i].base;
    *nbytes = blocks[i].nbytes;
    return SUCCESS;
}
/* All of it is of cuMemAlloc, on the only GPU that a process uses. */
CUresult cuPointerGetAttribute(void *value, int attribute, CUdeviceptr address) {
    int owner = fake_mapped_owner(address);

    UNSAFE();
    if (attribute == 9 && owner >= 0) {
        *(int *)value = owner;
        return SUCCESS;
    }
    if (block_of(address) < 0)
        return INVALID_VALUE;
    if (attribute == 2) /* CU_POINTER_ATTRIBUTE_MEMORY_TYPE */
        *(unsigned *)value = 2;
    else if (attribute == 9) /* CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL */
        *(int *)value = fake_device();
    else if (attribute == 10) /* CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE */
        *(int *)value = 1;
    else if (attribute == 8) /* CU_POINTER_ATTRIBUTE_IS_MANAGED */
        *(int *)value = 0;
    else
        return INVALID_VALUE;
    return SUCCESS;
}
