/* SPDX-License-Identifier: BSD-3-Clause
 * Allocation on the symmetric heaps, by all PEs together: they agree on what each is about to do. */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "accel/accel.h"
#include "accel/copy.h"
#include "agree/agree.h"
#include "base/state.h"
#include "base/status.h"
#include "memory/allocator.h"
#include "memory/heap.h"
#include "memory/release.h"
#include "memory/usage.h"
#include "node/enter.h"
#include "teams/resume.h"
#include "teams/team.h"
#include "transport/quiet.h"

static const char *const heap_settings[ISHMEMX_HEAP_COUNT] = {"HEAP_SIZE", "DEVICE_HEAP_SIZE"};
/* What they are called where a program gives them. */
static const char *const heap_fields[ISHMEMX_HEAP_COUNT] = {"heap_size", "device_heap_size"};

/* ---- agreement ---- */

/* What a PE is about to do; equal on all PEs, or the call fails on all. */
enum { ASK_MALLOC, ASK_FREE, ASK_REALLOC, ASK_TRIM };
enum { ZEROED = 1, FILLED };

typedef struct ask {
    int32_t kind, heap, zero;
    int32_t has_released; /* the only member that may differ */
    uint64_t nbytes, align, ordinal;
    uint64_t contents; /* of all of the text below; 0: not known */
    uint64_t name;     /* of what the program calls it; 0: not known; others may call it otherwise */
    char routine[24];  /* that the user called; others may be another by another name */
    char text[48];     /* what is to lie there, as "shape (4,) float64", or its beginning */
} ask_t;
_Static_assert(sizeof(ask_t) <= 128,
               "more crosses between hosts once for each two PEs: transport/openshmem/exchange.c");

/* FNV-1a; not 0, but of no characters. */
static uint64_t hash_of(const char *text, size_t length) {
    uint64_t hash = UINT64_C(14695981039346656037);

    if (!length)
        return 0;
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)text[i]) * UINT64_C(1099511628211);
    return hash ? hash : 1;
}

static void malloc_describe(ask_t *ask, const char *routine, const char *contents) {
    size_t length;

    snprintf(ask->routine, sizeof ask->routine, "%s", routine);
    if (!contents)
        return;
    length = strcspn(contents, "\n");
    ask->contents = hash_of(contents, length);
    snprintf(ask->text, sizeof ask->text, "%.*s", (int)length, contents);
    if (contents[length])
        ask->name = hash_of(contents + length + 1, strlen(contents + length + 1));
}

/* As many bytes of something else are a mistake too, where it is known what they are: arrays that PEs make in another
 * order, or of another shape. */
static bool same(const ask_t *a, const ask_t *b) {
    bool other = a->contents && b->contents && a->contents != b->contents;

    return a->kind == b->kind && a->heap == b->heap && a->zero == b->zero && a->align == b->align &&
           a->ordinal == b->ordinal && a->nbytes == b->nbytes && !other;
}

/* What a PE calls, as its program wrote it. */
static const char *ask_routine(const ask_t *ask) {
    static const char *const routines[] = {
        [ASK_MALLOC] = NULL, [ASK_FREE] = "free", [ASK_REALLOC] = "realloc", [ASK_TRIM] = "heap_trim"};

    return routines[ask->kind] ? routines[ask->kind] : ask->routine;
}

/* What it gives: elements where they are known, else bytes. */
static const char *ask_text(const ask_t *ask, char *text, size_t capacity) {
    if (ask->contents)
        return ask->text;
    snprintf(text, capacity, "%llu bytes", (unsigned long long)ask->nbytes);
    return text;
}

/* PEs that call one routine for different blocks. */
static int mismatch_of_blocks(const char *what, const ask_t *first, const ask_t *other, int pe) {
    unsigned long long one = first->ordinal, two = other->ordinal;

    if (first->nbytes != other->nbytes && first->kind == ASK_FREE)
        return pysh_fail(ISHMEMX_ERR_MISMATCH,
                         "%s: PE 0 frees %llu bytes, PE %d %llu bytes; all PEs free the same arrays, in the same order",
                         what, (unsigned long long)first->nbytes, pe, (unsigned long long)other->nbytes);
    return pysh_fail(ISHMEMX_ERR_MISMATCH,
                     "%s: PE 0 gives its allocation %llu, PE %d its allocation %llu; all PEs make and free the same "
                     "arrays, in the same order",
                     what, one, pe, two);
}

/* By what differs first of what a program gives. */
static int mismatch(const char *what, const ask_t *first, const ask_t *other, int pe) {
    char one[48], two[48];

    if (strcmp(ask_routine(first), ask_routine(other)))
        return pysh_fail(ISHMEMX_ERR_MISMATCH,
                         "PE 0 called %s while PE %d called %s; all PEs must call the same ones in the same order",
                         ask_routine(first), pe, ask_routine(other));
    if (first->heap != other->heap)
        return pysh_fail(ISHMEMX_ERR_MISMATCH,
                         "%s: PE 0 asks for the %s heap, PE %d for the %s heap; all PEs give the same heap", what,
                         pysh_heap_name(first->heap & 1), pe, pysh_heap_name(other->heap & 1));
    if (first->ordinal != other->ordinal)
        return mismatch_of_blocks(what, first, other, pe);
    if (first->align != other->align)
        return pysh_fail(ISHMEMX_ERR_MISMATCH,
                         "%s: PE 0 asks for an align of %llu, PE %d for %llu; all PEs give the same align", what,
                         (unsigned long long)first->align, pe, (unsigned long long)other->align);
    if (first->zero != other->zero && first->nbytes == other->nbytes && first->contents == other->contents)
        return pysh_fail(ISHMEMX_ERR_MISMATCH, "%s: PE 0 and PE %d do not both ask for zeroed memory", what, pe);
    return pysh_fail(ISHMEMX_ERR_MISMATCH, "%s: PE 0 asks for %s, PE %d for %s; all PEs give the same %s", what,
                     ask_text(first, one, sizeof one), pe, ask_text(other, two, sizeof two),
                     !first->contents || !other->contents                                   ? "size"
                     : strncmp(first->text, "shape", 5) || strncmp(other->text, "shape", 5) ? "arguments"
                                                                                            : "shape and dtype");
}

/* A barrier after which all PEs know that they agree; *all_released_p (may be NULL): every PE has
 * released blocks. */
static int agree(const char *what, const ask_t *mine, bool *all_released_p) {
    const ask_t *all = pysh_heaps.gathered;
    bool all_released = true;
    int status = pysh.agree->exchange(what, mine, pysh_heaps.gathered, sizeof *mine);

    if (status)
        return status;
    for (int pe = 0; pe < pysh.n_pes; pe++) {
        all_released = all_released && all[pe].has_released;
        if (!same(&all[0], &all[pe]))
            return mismatch(what, &all[0], &all[pe], pe);
        if (mine->kind == ASK_MALLOC)
            pysh_heaps.names[pe] = all[pe].name;
    }
    if (all_released_p)
        *all_released_p = all_released;
    return ISHMEMX_OK;
}

/* ---- malloc and free ---- */

static int zero_block(int heap, int64_t offset, size_t nbytes) {
    char *block = pysh.arena[heap].base + offset;

    if (!pysh.arena[heap].cpu_visible)
        return pysh.accel->zero(block, nbytes);
    memset(block, 0, nbytes);
    return ISHMEMX_OK;
}

/* As the allocator counts; more than that no heap has. */
static int64_t asked(const ask_t *ask) {
    return ask->nbytes > INT64_MAX ? INT64_MAX : (int64_t)ask->nbytes;
}

static int exhausted(const ask_t *ask, int64_t refusal) {
    const pysh_allocator_t *allocator = &pysh_heaps.allocator[ask->heap];
    int64_t requested = asked(ask);
    const char *why;

    if (pysh.arena[ask->heap].grows && refusal != PYSH_ALLOCATOR_NO_METADATA)
        return pysh_fail(ISHMEMX_ERR_MEMORY,
                         "symmetric %s heap exhausted: %s requested, %s used; it grows up to %s, "
                         "what the smallest GPU of the job has",
                         pysh_heap_name(ask->heap), pysh_bytes_text(requested), pysh_bytes_text(allocator->used),
                         pysh_bytes_text(allocator->nbytes));
    if (refusal == PYSH_ALLOCATOR_NO_METADATA)
        return pysh_fail(ISHMEMX_ERR_MEMORY, "no memory for the book of the %s heap", pysh_heap_name(ask->heap));
    why = pysh.arena[ask->heap].fixed ? pysh.arena[ask->heap].fixed : "";
    return pysh_fail(
        ISHMEMX_ERR_MEMORY,
        "symmetric %s heap exhausted: %s requested, %s free, largest block %s; raise PYSHMEM_%s, "
        "or the %s that init is given (now %s)%s%s",
        pysh_heap_name(ask->heap), pysh_bytes_text(requested), pysh_bytes_text(allocator->nbytes - allocator->used),
        pysh_bytes_text(pysh_allocator_largest(allocator)), heap_settings[ask->heap], heap_fields[ask->heap],
        pysh_bytes_text(allocator->nbytes), *why ? "; it does not grow: " : "", why);
}

static int64_t malloc_take(const ask_t *ask) {
    int64_t offset, nbytes = asked(ask);

    pthread_mutex_lock(&pysh_heaps.mutex);
    offset = pysh_allocator_take(&pysh_heaps.allocator[ask->heap], nbytes, (int64_t)ask->align, ask->ordinal);
    pthread_mutex_unlock(&pysh_heaps.mutex);
    return offset;
}

/* What is written into a new block before the others may reach it: `nbytes` from `values`, again and again; NULL: 0. */
typedef struct fill {
    const char *values;
    size_t nbytes;
} fill_t;

static int fill_block(int heap, int64_t offset, size_t nbytes, const fill_t *fill) {
    char *block = pysh.arena[heap].base + offset;
    size_t done = fill->nbytes < nbytes ? fill->nbytes : nbytes;
    int status;

    if (!fill->values)
        return zero_block(heap, offset, nbytes);
    status = pysh_copy(block, fill->values, done);
    while (!status && done < nbytes) { /* what is there already, twice as much each time */
        size_t more = done < nbytes - done ? done : nbytes - done;
        status = pysh_copy(block + done, block, more);
        done += more;
    }
    return status;
}

#define LATER (-3) /* an offset: released blocks are freed before the heap grows */

/* The first meeting of an attempt: all have taken the same, and filled it. */
typedef struct taken {
    int64_t offset; /* negative: the heap is exhausted */
    bool all_released;
    bool grows; /* there is no memory yet, and nothing has been filled */
} taken_t;

static int64_t end_of(const ask_t *ask, int64_t offset) {
    return offset + ((asked(ask) + PYSH_ALLOCATOR_GRAIN - 1) & -PYSH_ALLOCATOR_GRAIN);
}

static bool has_memory(const ask_t *ask, int64_t offset) {
    const pysh_arena_t *arena = &pysh.arena[ask->heap];

    return !arena->grows || end_of(ask, offset) <= arena->mapped;
}

static int take_together(ask_t *ask, const fill_t *fill, bool frugal, taken_t *taken) {
    int status = ISHMEMX_OK;

    *taken = (taken_t){.offset = malloc_take(ask)};
    taken->grows = taken->offset >= 0 && !has_memory(ask, taken->offset);
    if (ask->zero && taken->offset >= 0 && !taken->grows)
        status = fill_block(ask->heap, taken->offset, (size_t)ask->nbytes, fill);
    ask->has_released = pysh_release_pending();
    if (!status)
        status = agree(ask->routine, ask, &taken->all_released);
    if (status && taken->offset >= 0)
        pysh_heap_give(ask->heap, taken->offset);
    if (!status && taken->grows && frugal && taken->all_released) {
        pysh_heap_give(ask->heap, taken->offset);
        *taken = (taken_t){.offset = LATER, .all_released = true};
    }
    return status;
}

/* Memory for a block that lies behind what the heap has, on all PEs; then it is filled, before the others may reach
 * it. Each is a step of its own, as either may be ended. */
static int grow_for(const ask_t *ask, const fill_t *fill, int64_t offset) {
    ishmemx_team_t world = &ishmemx_team_world;
    int status;

    if (!pysh_passed(world, &status, NULL, 0)) {
        status = pysh.accel->grow(ask->routine, end_of(ask, offset));
        pysh_pass(world, status, NULL, 0);
    }
    if (status || !ask->zero || pysh_passed(world, &status, NULL, 0))
        return status;
    status = fill_block(ask->heap, offset, (size_t)ask->nbytes, fill);
    if (!status)
        status = pysh.agree->barrier(ask->routine, false, NULL);
    return pysh_pass(world, status, NULL, 0);
}

/* One attempt, the same on all PEs: *offset_p is negative when the heap is exhausted, or LATER, if `frugal`; *freed_p
 * counts the released blocks that were freed on this occasion. */
static int attempt(ask_t *ask, const fill_t *fill, bool frugal, int64_t *offset_p, size_t *freed_p) {
    ishmemx_team_t world = &ishmemx_team_world;
    taken_t taken;
    int status;

    *freed_p = 0;
    if (!pysh_passed(world, &status, &taken, sizeof taken)) {
        status = take_together(ask, fill, frugal, &taken);
        pysh_pass(world, status, &taken, sizeof taken);
    }
    if (!status && taken.grows && (status = grow_for(ask, fill, taken.offset)) && !pysh_is_unfinished(status))
        pysh_heap_give(ask->heap, taken.offset);
    *offset_p = taken.offset;
    if (status || !taken.all_released || pysh_passed(world, &status, freed_p, sizeof *freed_p))
        return status;
    status = pysh_release_agree(ask->routine, freed_p);
    if (status && !pysh_is_unfinished(status) && taken.offset >= 0)
        pysh_heap_give(ask->heap, taken.offset);
    return pysh_pass(world, status, freed_p, sizeof *freed_p);
}

static int check_heap(int heap) {
    if (heap < 0 || heap >= ISHMEMX_HEAP_COUNT)
        return pysh_fail(ISHMEMX_ERR_ARGUMENT, "heap %d is neither host (0) nor device (1)", heap);
    if (!pysh.arena[heap].base)
        return pysh_fail(ISHMEMX_ERR_UNSUPPORTED,
                         "there is no device heap: this job has no accelerator; PYSHMEM_DEVICE=sim simulates one");
    return ISHMEMX_OK;
}

static uint64_t malloc_digest_of(const ask_t *ask) {
    uint64_t digest = pysh_digest((uint64_t)ask->kind, (uint64_t)ask->heap);

    digest = pysh_digest(pysh_digest(digest, ask->nbytes), ask->align);
    return pysh_digest(digest, ask->kind == ASK_MALLOC ? (uint64_t)ask->zero : ask->ordinal);
}

/* The team of all PEs; quiet before, as before every barrier of the library's memory routines. */
static int claim_all(const char *what, const ask_t *ask) {
    int status = pysh_quiet();

    return status ? status : pysh_team_claim(&ishmemx_team_world, what, malloc_digest_of(ask));
}

/* The end of what that began. */
static int unclaim_all(int status) {
    pysh_team_unclaim(&ishmemx_team_world, status);
    pysh_usage_update();
    return status;
}

/* With all PEs' team claimed, as for those behind it. */
static int allocate(ask_t *ask, const fill_t *fill, void **block_p) {
    int64_t offset;
    bool frugal = true, again;
    size_t freed;
    int status;

    ask->ordinal = pysh_heaps.ordinal + 1;
    do { /* once more when released blocks made room, or made none */
        status = attempt(ask, fill, frugal, &offset, &freed);
        again = !status && offset < 0 && (freed > 0 || offset == LATER);
        frugal = freed > 0;
    } while (again);
    if (!status && offset < 0)
        status = exhausted(ask, offset);
    if (status)
        return status;
    if (!pysh_passed(&ishmemx_team_world, &status, NULL, 0)) { /* once, though realloc may come here again */
        pysh_heaps.ordinal++;
        pysh_pass(&ishmemx_team_world, ISHMEMX_OK, NULL, 0);
    }
    *block_p = pysh.arena[ask->heap].base + offset;
    return ISHMEMX_OK;
}

static int malloc_filled(const char *routine, const char *contents, int heap, size_t nbytes, size_t align,
                         const fill_t *fill, void **block_p) {
    ask_t ask = {.heap = heap, .nbytes = nbytes, .align = align ? align : PYSH_ALLOCATOR_GRAIN};
    int status;

    PYSH_ENTER();
    if ((status = check_heap(heap)))
        return status;
    if (align & (align - 1))
        return pysh_fail(ISHMEMX_ERR_ARGUMENT, "align is %zu, not a power of two", align);
    if (align > pysh_heaps.max_align[heap])
        return pysh_fail(
            ISHMEMX_ERR_ARGUMENT,
            "align is %zu; the %s heap lies at other addresses on other PEs, the same up to an align of %llu", align,
            pysh_heap_name(heap), (unsigned long long)pysh_heaps.max_align[heap]);
    *block_p = NULL;
    if (nbytes == 0)
        return ISHMEMX_OK;
    if (fill)
        ask.zero = fill->values ? FILLED : ZEROED;
    if (ask.align < PYSH_ALLOCATOR_GRAIN)
        ask.align = PYSH_ALLOCATOR_GRAIN;
    malloc_describe(&ask, routine, contents);
    if ((status = claim_all(ask.routine, &ask)))
        return status;
    status = allocate(&ask, fill, block_p);
    return unclaim_all(status);
}

int ishmemx_malloc(int heap, size_t nbytes, size_t align, int zero, void **block_p) {
    return ishmemx_malloc_as("malloc", NULL, heap, nbytes, align, zero, block_p);
}

int ishmemx_malloc_as(const char *routine, const char *contents, int heap, size_t nbytes, size_t align, int zero,
                      void **block_p) {
    return malloc_filled(routine, contents, heap, nbytes, align, zero ? &(fill_t){.values = NULL} : NULL, block_p);
}

int ishmemx_malloc_filled(const char *routine, const char *contents, int heap, size_t nbytes, size_t align,
                          const void *values, size_t values_nbytes, void **block_p) {
    if (!values || !values_nbytes)
        return pysh_fail(ISHMEMX_ERR_ARGUMENT, "%s: there are no values to fill the block with", routine);
    return malloc_filled(routine, contents, heap, nbytes, align, &(fill_t){values, values_nbytes}, block_p);
}

int ishmemx_malloc_names(uint64_t *names) {
    int differ = 0;

    PYSH_ENTER();
    for (int pe = 0; pe < pysh.n_pes; pe++) {
        names[pe] = pysh_heaps.names[pe];
        differ |= names[pe] != names[0];
    }
    return differ;
}

static int free_together(const char *what, ask_t *ask, const pysh_block_t *found) {
    int status = agree(what, ask, NULL);

    if (!status)
        pysh_heap_give(ask->heap, found->offset);
    return status;
}

int ishmemx_free(void *block) {
    pysh_block_t found;
    ask_t ask = {.kind = ASK_FREE};
    int status;

    PYSH_ENTER();
    if (!block)
        return ISHMEMX_OK;
    if ((status = pysh_heap_block(block, "free", &ask.heap, &found)))
        return status;
    ask.nbytes = (uint64_t)found.nbytes;
    ask.ordinal = found.ordinal;
    if ((status = claim_all("free", &ask)))
        return status;
    status = free_together("free", &ask, &found);
    return unclaim_all(status);
}

/* Where it is, if there is room behind it; the contents need not move then. */
static int resize(ask_t *ask, const pysh_block_t *block, bool *done_p) {
    int status = agree("realloc", ask, NULL);

    if (status)
        return status;
    pthread_mutex_lock(&pysh_heaps.mutex);
    *done_p = has_memory(ask, block->offset) && /* else it moves to where the heap grows */
              pysh_allocator_resize(&pysh_heaps.allocator[ask->heap], block->offset, asked(ask));
    pthread_mutex_unlock(&pysh_heaps.mutex);
    return ISHMEMX_OK;
}

/* Each PE moves its own contents between two meetings: that of malloc, and that of free. */
static int move(void *block, const pysh_block_t *old, const ask_t *like, void **block_p) {
    size_t kept = like->nbytes < (uint64_t)old->nbytes ? (size_t)like->nbytes : (size_t)old->nbytes;
    ask_t gone = {.kind = ASK_FREE, .heap = like->heap, .nbytes = (uint64_t)old->nbytes, .ordinal = old->ordinal};
    ask_t ask = *like;
    void *moved;
    int status;

    ask.kind = ASK_MALLOC;
    ask.align = PYSH_ALLOCATOR_GRAIN;
    if ((status = allocate(&ask, NULL, &moved)) || (status = pysh_copy(moved, block, kept)) ||
        (status = free_together("realloc", &gone, old)))
        return status;
    *block_p = moved;
    return ISHMEMX_OK;
}

int ishmemx_realloc(void *block, size_t nbytes, void **block_p) {
    return ishmemx_realloc_as(NULL, block, nbytes, block_p);
}

static int resize_or_move(void *block, const pysh_block_t *old, ask_t *ask, void **block_p) {
    bool resized = false;
    int status = claim_all("realloc", ask);

    if (status)
        return status;
    if (!pysh_passed(&ishmemx_team_world, &status, &resized, sizeof resized)) {
        status = resize(ask, old, &resized);
        pysh_pass(&ishmemx_team_world, status, &resized, sizeof resized);
    }
    if (!status && resized)
        *block_p = block;
    else if (!status)
        status = move(block, old, ask, block_p);
    return unclaim_all(status);
}

int ishmemx_realloc_as(const char *contents, void *block, size_t nbytes, void **block_p) {
    pysh_block_t old;
    ask_t ask;
    int heap, status;

    PYSH_ENTER();
    if (!block)
        return ishmemx_malloc_as("realloc", contents, ISHMEMX_HEAP_HOST, nbytes, 0, 0, block_p);
    if ((status = pysh_heap_block(block, "realloc", &heap, &old)))
        return status;
    if (!nbytes) {
        if (!(status = ishmemx_free(block)))
            *block_p = NULL;
        return status;
    }
    ask = (ask_t){.kind = ASK_REALLOC, .heap = heap, .nbytes = nbytes, .ordinal = old.ordinal};
    malloc_describe(&ask, "realloc", contents);
    return resize_or_move(block, &old, &ask, block_p);
}

/* ---- memory of a heap that grows ---- */

/* Behind the last block there is one hole, or none. */
static int64_t end_of_blocks(int heap) {
    const pysh_allocator_t *allocator = &pysh_heaps.allocator[heap];
    const pysh_extent_t *last;
    int64_t end = pysh.arena[heap].nbytes;

    pthread_mutex_lock(&pysh_heaps.mutex);
    last = allocator->n_holes ? &allocator->hole[allocator->n_holes - 1] : NULL;
    if (last && last->offset + last->nbytes == (end & -PYSH_ALLOCATOR_GRAIN))
        end = last->offset;
    pthread_mutex_unlock(&pysh_heaps.mutex);
    return end;
}

/* All ask for the same; what every PE has released is freed, as by an allocation. */
static int sync_to_trim(ask_t *ask) {
    ishmemx_team_t world = &ishmemx_team_world;
    bool all_released = false;
    size_t freed;
    int status;

    if (!pysh_passed(world, &status, &all_released, sizeof all_released)) {
        ask->has_released = pysh_release_pending();
        status = agree("heap_trim", ask, &all_released);
        pysh_pass(world, status, &all_released, sizeof all_released);
    }
    if (status || !all_released || pysh_passed(world, &status, NULL, 0))
        return status;
    return pysh_pass(world, pysh_release_agree("heap_trim", &freed), NULL, 0);
}

/* No PE uses freed blocks any more once all have come here, with their operations complete. */
int ishmemx_heap_trim(int heap) {
    ask_t ask = {.kind = ASK_TRIM, .heap = heap, .ordinal = pysh_heaps.ordinal};
    int status;

    PYSH_ENTER();
    if ((status = check_heap(heap)))
        return status;
    malloc_describe(&ask, "heap_trim", NULL);
    if ((status = claim_all("heap_trim", &ask)))
        return status;
    status = sync_to_trim(&ask);
    if (!status && pysh.arena[heap].grows)
        status = pysh.accel->trim("heap_trim", end_of_blocks(heap));
    return unclaim_all(status);
}

/* ---- looking ---- */

int ishmemx_heap_range(int heap, void **base, int64_t *nbytes) {
    if (heap < 0 || heap >= ISHMEMX_HEAP_COUNT)
        return check_heap(heap);
    *base = pysh.arena[heap].base;
    *nbytes = pysh.arena[heap].nbytes;
    return ISHMEMX_OK;
}

int ishmemx_heap_stats(int heap, ishmemx_heap_stats_t *stats) {
    int status;

    PYSH_ENTER();
    if ((status = check_heap(heap)))
        return status;
    pthread_mutex_lock(&pysh_heaps.mutex);
    pysh_heap_stats_held(heap, stats);
    pthread_mutex_unlock(&pysh_heaps.mutex);
    return ISHMEMX_OK;
}
