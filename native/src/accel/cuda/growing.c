/* SPDX-License-Identifier: BSD-3-Clause
 * See growing.h. A growth is several meetings, and may be ended by a handler or a deadline between them: `heap.stage`
 * says how far it has come, and the same call goes on there. */
#include "accel/cuda/growing.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "accel/cuda/gpu.h"
#include "accel/cuda/peers.h"
#include "agree/agree.h"
#include "base/state.h"
#include "base/status.h"
#include "memory/descriptors.h"

#define UNIT  ((int64_t)32 << 20) /* what a heap grows by is a multiple: of every GPU's granularity, and few calls */
#define ALIGN ((size_t)2 << 20)   /* of a heap's first address */

enum stage { REST, MADE, AGREED, MAPPED };

typedef struct parts { /* of a range of addresses, one behind the other: each is unmapped as it was mapped */
    int64_t *end;
    size_t n, capacity;
} parts_t;

static struct {
    int64_t reserved;       /* bytes of addresses of each heap; 0: none */
    CUdeviceptr *base;      /* [n_pes] where this process has that PE's heap; 0: it has not */
    parts_t parts;          /* the same for all heaps */
    pysh_tell_part_t *tell; /* who else maps the heaps; NULL: nobody */
    /* The growth that is under way. */
    enum stage stage;
    int64_t upto;
    uint64_t number;
    int own;   /* descriptor of the new memory */
    int *peer; /* [n_pes] and of the peers' */
    int status;
    char text[512]; /* why this PE cannot */
} heap = {.own = -1};

bool pysh_cuda_grown(void) {
    return heap.reserved > 0;
}

static int64_t mapped(void) {
    return heap.parts.n ? heap.parts.end[heap.parts.n - 1] : 0;
}

static bool parts_add(parts_t *parts, int64_t end) {
    if (parts->n == parts->capacity) {
        size_t capacity = parts->capacity ? 2 * parts->capacity : 16;
        int64_t *grown = realloc(parts->end, capacity * sizeof *grown);
        if (!grown)
            return false;
        parts->end = grown;
        parts->capacity = capacity;
    }
    parts->end[parts->n++] = end;
    return true;
}

/* ---- mapping ---- */

/* A GPU whose kernels and copies reach the addresses. */
static CUresult let_reach(CUdeviceptr at, int64_t nbytes, int gpu) {
    CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = gpu},
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

    return pysh_cuda.MemSetAccess(at, (size_t)nbytes, &access, 1);
}

/* The GPU that has a peer's memory reaches it in this process too: libraries copy an array by the GPU that it is on, as
 * CuPy does. pyshmem itself does not, so it goes on where the driver refuses. */
static void let_owner_reach(CUdeviceptr at, int64_t nbytes) {
    int owner = pysh_gpu.device;

    if (!pysh_cuda.PointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, at) && owner != pysh_gpu.device)
        (void)let_reach(at, nbytes, owner);
}

/* Maps memory and gives its handle up: the memory lives as long as it is mapped, here or in another process. */
static CUresult map_part(CUdeviceptr at, int64_t nbytes, CUmemHandle memory) {
    CUresult result = pysh_cuda.MemMap(at, (size_t)nbytes, 0, memory, 0);

    if (!result && (result = let_reach(at, nbytes, pysh_gpu.device)))
        pysh_cuda.MemUnmap(at, (size_t)nbytes);
    if (!result)
        let_owner_reach(at, nbytes);
    pysh_cuda.MemRelease(memory);
    return result;
}

static CUresult map_file(CUdeviceptr at, int64_t nbytes, int fd) {
    CUmemHandle memory;
    CUresult result = pysh_cuda.MemImport(&memory, (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);

    return result ? result : map_part(at, nbytes, memory);
}

static int out_of_memory(int64_t nbytes) {
    size_t vacant = 0, all = 0;

    pysh_cuda.MemGetInfo(&vacant, &all);
    return pysh_fail(ISHMEMX_ERR_MEMORY,
                     "the device heap, %s now, cannot grow by %s: GPU %d has %s free of %s; free arrays, or what other "
                     "libraries hold there",
                     pysh_bytes_text(mapped()), pysh_bytes_text(nbytes), pysh_gpu.ordinal,
                     pysh_bytes_text((int64_t)vacant), pysh_bytes_text((int64_t)all));
}

/* Memory of this GPU at its place in the own heap, and a descriptor of it for the others. */
static int make_own(void) {
    CUmemAllocationProp kind = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = pysh_gpu.device}};
    int64_t at = mapped(), nbytes = heap.upto - at;
    CUmemHandle memory;
    CUresult result = pysh_cuda.MemCreate(&memory, (size_t)nbytes, &kind, 0);

    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        return out_of_memory(nbytes);
    if (result)
        return pysh_cuda_fail(result, "making %s for the device heap of GPU %d", pysh_bytes_text(nbytes),
                              pysh_gpu.ordinal);
    result = pysh_cuda.MemExport(&heap.own, memory, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    if (result) {
        heap.own = -1;
        pysh_cuda.MemRelease(memory);
        return pysh_cuda_fail(result, "sharing memory of GPU %d by a descriptor", pysh_gpu.ordinal);
    }
    result = map_part(heap.base[pysh.pe] + (CUdeviceptr)at, nbytes, memory);
    return result ? pysh_cuda_fail(result, "mapping %s of GPU %d", pysh_bytes_text(nbytes), pysh_gpu.ordinal)
                  : ISHMEMX_OK;
}

/* Nobody, or the copy engine's process. */
static int tell(int pe, int64_t at, int64_t nbytes, int fd) {
    return heap.tell ? heap.tell(pe, at, nbytes, fd) : ISHMEMX_OK;
}

static bool is_other(int pe) {
    return pe != pysh.pe && heap.base[pe];
}

/* The others' new memory, here and in the copy engine's process. */
static int map_peers(void) {
    int64_t at = mapped(), nbytes = heap.upto - at;
    int status = tell(pysh.pe, at, nbytes, heap.own);

    for (int pe = 0; !status && pe < pysh.n_pes; pe++) {
        CUresult result;
        if (!is_other(pe))
            continue;
        if ((result = map_file(heap.base[pe] + (CUdeviceptr)at, nbytes, heap.peer[pe])))
            return pysh_cuda_fail(result, "GPU %d cannot map %s of PE %d's device heap", pysh_gpu.ordinal,
                                  pysh_bytes_text(nbytes), pe);
        status = tell(pe, at, nbytes, heap.peer[pe]);
    }
    return status;
}

static void close_files(void) {
    for (int pe = 0; heap.peer && pe < pysh.n_pes; pe++) {
        if (heap.peer[pe] >= 0)
            close(heap.peer[pe]);
        heap.peer[pe] = -1;
    }
    if (heap.own >= 0)
        close(heap.own);
    heap.own = -1;
}

/* A range is unmapped where it is mapped; to ask for one that is not is an error without effect. */
static void unmap_part(int64_t at, int64_t nbytes) {
    for (int pe = 0; pe < pysh.n_pes; pe++)
        if (heap.base[pe]) {
            (void)tell(pe, at, nbytes, -1);
            pysh_cuda.MemUnmap(heap.base[pe] + (CUdeviceptr)at, (size_t)nbytes);
        }
}

/* ---- growing ---- */

static void note(int status) {
    heap.status = status;
    if (status)
        snprintf(heap.text, sizeof heap.text, "%s", ishmemx_error());
}

/* A meeting in which all hear whether all can. */
static int agree(const char *what) {
    return pysh_cuda_agree(what, heap.status ? pysh_fail(heap.status, "%s", heap.text) : ISHMEMX_OK);
}

static int grow_steps(const char *what) {
    int status;

    if (heap.stage == REST) {
        close_files(); /* of what was mapped at init, where no process of the copy engine has taken it over */
        heap.number++;
        note(make_own());
        heap.stage = MADE;
    }
    if (heap.stage == MADE) {
        if ((status = agree(what)))
            return status;
        heap.stage = AGREED;
    }
    if (heap.stage == AGREED) {
        status = pysh_descriptors_pass(what, heap.number, heap.own, heap.peer);
        if (pysh_is_unfinished(status))
            return status;
        note(status ? status : map_peers());
        heap.stage = MAPPED;
    }
    return agree(what);
}

static int grow_on(const char *what) {
    int64_t at = mapped();
    int status = grow_steps(what);

    if (pysh_is_unfinished(status)) /* it goes on when it is called again */
        return status;
    if (!status && !parts_add(&heap.parts, heap.upto)) /* all PEs have the memory: this one cannot keep the book */
        status = pysh_fail(ISHMEMX_ERR_MEMORY, "no memory for the book of the device heap");
    if (status)
        unmap_part(at, heap.upto - at);
    else
        /* release: who sees the new end, as a proxy that checks a request, has the memory mapped */
        atomic_store_explicit(&pysh.arena[ISHMEMX_HEAP_DEVICE].mapped, heap.upto, memory_order_release);
    if (pysh.ready || status) /* what is mapped at init is handed over when the copy engine's process has started */
        close_files();
    heap.stage = REST;
    return status;
}

int pysh_cuda_grow(const char *what, int64_t upto) {
    pysh_cuda_visit_t visit;
    int status;

    if (upto <= mapped())
        return ISHMEMX_OK;
    if (heap.stage == REST) {
        heap.upto = (upto + UNIT - 1) / UNIT * UNIT;
        if (heap.upto > heap.reserved)
            heap.upto = heap.reserved;
    }
    visit = pysh_cuda_enter();
    status = grow_on(what);
    pysh_cuda_leave(visit);
    return status;
}

/* Whole parts at the end go back to the GPU. No PE uses them any more: the caller has met all. */
int pysh_cuda_trim(const char *what, int64_t downto) {
    pysh_cuda_visit_t visit = pysh_cuda_enter();

    (void)what;
    while (heap.parts.n > 1 && heap.parts.end[heap.parts.n - 2] >= downto) {
        int64_t at = heap.parts.end[heap.parts.n - 2];
        /* release: behind it nobody names memory that is about to go */
        atomic_store_explicit(&pysh.arena[ISHMEMX_HEAP_DEVICE].mapped, at, memory_order_release);
        unmap_part(at, mapped() - at);
        heap.parts.n--;
    }
    pysh_cuda_leave(visit);
    return ISHMEMX_OK;
}

/* ---- the arena ---- */

/* What every PE's GPU could hold, so that the heaps are the same range on all. */
static int agree_reserve(int64_t nbytes, int64_t *reserved_p) {
    int64_t mine = 0, *all = calloc((size_t)pysh.n_pes, sizeof *all);
    int status = ISHMEMX_OK;
    size_t total = 0;

    if (!all)
        return pysh_fail(ISHMEMX_ERR_MEMORY, "no memory to join %d PEs", pysh.n_pes);
    if (pysh_cuda_shares(pysh_gpu.device) && !pysh_cuda.DeviceTotalMem(&total, pysh_gpu.device))
        mine = (int64_t)total;
    status = pysh.agree->exchange("init", &mine, all, sizeof mine);
    *reserved_p = INT64_MAX;
    for (int pe = 0; !status && pe < pysh.n_pes; pe++) {
        *reserved_p = all[pe] < *reserved_p ? all[pe] : *reserved_p;
        if (!all[pe])
            status = pysh_fail(ISHMEMX_ERR_UNSUPPORTED, "the GPU of PE %d shares no memory by descriptors", pe);
    }
    free(all);
    *reserved_p = ((*reserved_p > nbytes ? *reserved_p : nbytes) + UNIT - 1) / UNIT * UNIT;
    return status;
}

/* Addresses for the heaps of this PE and of those that its kernels reach. */
static int reserve(int64_t nbytes) {
    for (int pe = 0; pe < pysh.n_pes; pe++) {
        CUresult result;
        if (pe != pysh.pe && !(pysh.p2p && pysh_near(pe)))
            continue;
        if ((result = pysh_cuda.MemAddressReserve(&heap.base[pe], (size_t)nbytes, ALIGN, 0, 0))) {
            heap.base[pe] = 0;
            return pysh_cuda_fail(result, "reserving %s of addresses on GPU %d", pysh_bytes_text(nbytes),
                                  pysh_gpu.ordinal);
        }
    }
    return ISHMEMX_OK;
}

static int make_tables(void) {
    heap.parts = (parts_t){.n = 0};
    heap.stage = REST;
    heap.tell = NULL;
    heap.number = 0;
    heap.base = calloc((size_t)pysh.n_pes, sizeof *heap.base);
    heap.peer = malloc((size_t)pysh.n_pes * sizeof *heap.peer);
    if (!heap.base || !heap.peer)
        return pysh_fail(ISHMEMX_ERR_MEMORY, "no memory to join %d PEs", pysh.n_pes);
    memset(heap.peer, -1, (size_t)pysh.n_pes * sizeof *heap.peer);
    return ISHMEMX_OK;
}

static void release(CUdeviceptr base, const parts_t *parts, int64_t nbytes) {
    int64_t at = 0;

    for (size_t i = 0; i < parts->n; i++) {
        pysh_cuda.MemUnmap(base + (CUdeviceptr)at, (size_t)(parts->end[i] - at));
        at = parts->end[i];
    }
    pysh_cuda.MemAddressFree(base, (size_t)nbytes);
}

static void forget(void) {
    free(heap.base);
    free(heap.peer);
    heap.base = NULL;
    heap.peer = NULL;
    heap.parts = (parts_t){.n = 0};
    heap.reserved = 0;
}

/* There is no such arena then, and one of a fixed size may be made. Nothing is mapped: a growth that fails unmaps. */
static void give_up(void) {
    pysh_cuda_grown_leave();
    if (heap.base && heap.base[pysh.pe])
        release(heap.base[pysh.pe], &heap.parts, heap.reserved);
    free(heap.parts.end);
    forget();
}

int pysh_cuda_grown_arena(int64_t *nbytes_p, char **base_p, char **peer) {
    int64_t reserved = 0;
    pysh_cuda_visit_t visit = pysh_cuda_enter();
    int status = agree_reserve(*nbytes_p, &reserved);

    if (!status)
        status = pysh_cuda_agree("init", make_tables());
    if (!status) {
        heap.reserved = reserved;
        status = pysh_cuda_agree("init", reserve(reserved));
    }
    if (!status)
        status = pysh_cuda_agree("init", pysh_descriptors_open());
    if (!status)
        status = pysh_cuda_grow("init", *nbytes_p);
    if (status && !pysh_is_unfinished(status))
        give_up();
    pysh_cuda_leave(visit);
    if (status)
        return status;
    for (int pe = 0; pe < pysh.n_pes; pe++)
        peer[pe] = (char *)(uintptr_t)heap.base[pe];
    pysh_gpu.base = heap.base[pysh.pe];
    pysh_gpu.nbytes = reserved;
    *base_p = peer[pysh.pe];
    *nbytes_p = reserved;
    return ISHMEMX_OK;
}

void pysh_cuda_grown_leave(void) {
    close_files();
    pysh_descriptors_close();
    for (int pe = 0; heap.base && pe < pysh.n_pes; pe++)
        if (is_other(pe)) {
            release(heap.base[pe], &heap.parts, heap.reserved);
            heap.base[pe] = 0;
        }
}

/* A job's heap lives on while the program holds blocks of it. */
typedef struct aside {
    struct aside *next;
    CUdeviceptr base;
    int64_t reserved;
    parts_t parts;
} aside_t;

static pthread_mutex_t aside_mutex = PTHREAD_MUTEX_INITIALIZER; /* a finalizer may come in any thread */
static aside_t *first_aside;

void pysh_cuda_grown_close(void) {
    aside_t *aside = heap.base && heap.base[pysh.pe] ? malloc(sizeof *aside) : NULL;

    if (aside) { /* else it stays until the process ends */
        *aside = (aside_t){.base = heap.base[pysh.pe], .reserved = heap.reserved, .parts = heap.parts};
        pthread_mutex_lock(&aside_mutex);
        aside->next = first_aside;
        first_aside = aside;
        pthread_mutex_unlock(&aside_mutex);
    }
    forget();
}

bool pysh_cuda_grown_release(uintptr_t base) {
    aside_t **link, *found;

    pthread_mutex_lock(&aside_mutex);
    for (link = &first_aside; (found = *link); link = &found->next)
        if (found->base == (CUdeviceptr)base)
            break;
    if (found)
        *link = found->next;
    pthread_mutex_unlock(&aside_mutex);
    if (!found)
        return false;
    release(found->base, &found->parts, found->reserved);
    free(found->parts.end);
    free(found);
    return true;
}

/* ---- the copy engine's process ---- */

static CUdeviceptr place_base[ISHMEMX_MAX_NEAR_PES];

int pysh_cuda_grown_join(const pysh_engine_map_t *map, char **base) {
    for (int i = 0; i < ISHMEMX_MAX_NEAR_PES; i++) {
        CUresult result;
        if (map->near[i] < 0)
            continue;
        if ((result = pysh_cuda.MemAddressReserve(&place_base[i], (size_t)map->nbytes, ALIGN, 0, 0)))
            return pysh_cuda_fail(result, "reserving %s of addresses", pysh_bytes_text(map->nbytes));
        base[i] = (char *)(uintptr_t)place_base[i];
    }
    return ISHMEMX_OK;
}

int pysh_cuda_grown_take(int place, int64_t at, int64_t nbytes, int fd) {
    pysh_cuda_visit_t visit = pysh_cuda_enter();
    CUdeviceptr where = place_base[place] + (CUdeviceptr)at;
    CUresult result = fd < 0 ? pysh_cuda.MemUnmap(where, (size_t)nbytes) : map_file(where, nbytes, fd);

    pysh_cuda_leave(visit);
    return result ? pysh_cuda_fail(result, "GPU %d cannot %s %s of a device heap", pysh_gpu.ordinal,
                                   fd < 0 ? "unmap" : "map", pysh_bytes_text(nbytes))
                  : ISHMEMX_OK;
}

int pysh_cuda_grown_hand_over(pysh_tell_part_t *to) {
    int status = ISHMEMX_OK;

    if (!heap.reserved)
        return ISHMEMX_OK;
    heap.tell = to;
    for (int pe = 0; !status && pe < pysh.n_pes; pe++)
        if (heap.base[pe])
            status = tell(pe, 0, mapped(), pe == pysh.pe ? heap.own : heap.peer[pe]);
    close_files();
    return status;
}
