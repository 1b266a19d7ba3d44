/* SPDX-License-Identifier: BSD-3-Clause
 * Atomic operations that a proxy starts and polls. A launch takes the driver and the GPU 6 us and more, an operation of
 * a stream not much less. So a kernel that does one stays for some 50 us more and takes those that follow from memory
 * that it shares with the host, in 2 us; it goes by itself, so who waits for the GPU to be idle waits that long at
 * most.
 *
 * It needs room on the GPU, which may be full of kernels that wait for a word to be set. So while it is not there,
 * loads and stores of a word go by a stream of their own; where they come in quick succession a kernel is launched
 * beside them, and they go by the stream until it is there. Order: requests to the kernel have numbers and are done in
 * their order, and nothing goes by one road while something is under way on the other. What the kernel has not served
 * when it goes, which its last word says, goes by the stream, or to the next kernel.
 *
 * Who begins operations, the proxy of each ring and who serves other PEs' messages, keeps the order of its own alone.
 * So that loads of one do not keep another's add waiting for ever, one that has been refused for what goes by the
 * stream is remembered: where the kernel is there, nothing more goes by the stream before it. Where it is not there,
 * sets and loads still go: room for the kernel may be what they make. tests/model/roads_model.py has all orders. */
#include "accel/cuda/amo_polled.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include "accel/accel.h"
#include "accel/cuda/amo_launcher.h"
#include "base/clock.h"
#include "base/elements.h"
#include "base/phased.h"
#include "ishmemx.h"

enum { LOG2_BOXES = 4, LIFE_SHIFT = 48, LOOKS = 64, POLLS_PER_CHECK = 1 << 14 };
#define LOW48          ((1ULL << 48) - 1)
#define LOW56          ((1ULL << 56) - 1)
#define MORE           (1ULL << 55)
#define LIVES          ((1ULL << (64 - LIFE_SHIFT)) - 1)
#define SUCCESSION_NS  (100 * 1000LL) /* from one to the next, for a kernel to be worth its launch */
#define LET_GO_NS      (100 * 1000000LL)
#define LET_GO_LOOK_NS (20 * 1000L)
_Static_assert(PYSH_CUDA_AMO_BOXES == 1 << LOG2_BOXES, "the kernel masks numbers by 15 and shifts them by 4");
_Static_assert(offsetof(pysh_cuda_amo_shared_t, gone) == offsetof(pysh_cuda_amo_shared_t, here) + 8,
               "as the kernel has it");

static pysh_cuda_launcher_t launcher = PYSH_CUDA_LAUNCHER;

static bool is_simple(int op) {
    return op == ISHMEMX_ATOMIC_SET || op == ISHMEMX_ATOMIC_FETCH;
}

static pysh_cuda_amo_slot_t *slot_of(pysh_cuda_amo_t *amo, uint64_t number) {
    return &amo->slot[number % PYSH_CUDA_AMO_BOXES];
}

/* ---- the two roads ---- */

/* Word 0: the address's low 48 bits, the case (48..52), MORE; word 1: the value's low 56 bits, which are all of it
 * unless MORE is set. Then word 2 has the cond's, and word 3 the top bytes of address, value and cond. release: each
 * word pairs with the kernel's load of it. The cell that it is to be answered in is empty. */
static void post(pysh_cuda_amo_t *amo, const pysh_cuda_amo_slot_t *slot) {
    uint64_t *box = amo->shared->box[slot - amo->slot], mark = pysh_phase(slot->number, LOG2_BOXES) << 56;
    uint64_t first = (slot->address & LOW48) | (uint64_t)pysh_cuda_amo_case(slot->op, slot->type) << 48;
    uint64_t rest = (slot->address >> 48 & 255) | slot->value >> 56 << 8 | slot->cond >> 56 << 16;

    if (slot->cond || slot->address >> 48 || slot->value != (uint64_t)((int64_t)(slot->value << 8) >> 8))
        first |= MORE;
    __atomic_store_n(&box[2], (slot->cond & LOW56) | mark, __ATOMIC_RELEASE);
    __atomic_store_n(&box[3], rest | mark, __ATOMIC_RELEASE);
    __atomic_store_n(&box[1], (slot->value & LOW56) | mark, __ATOMIC_RELEASE);
    __atomic_store_n(&box[0], first | mark, __ATOMIC_RELEASE);
}

static uint64_t life_of(const pysh_cuda_amo_t *amo) {
    return (amo->life & LIVES) << LIFE_SHIFT;
}

static CUresult launch(pysh_cuda_amo_t *amo, uint64_t first, uint64_t life, unsigned looks) {
    CUdeviceptr boxes = pysh_cuda_amo_at(amo, amo->shared->box), cells = pysh_cuda_amo_at(amo, amo->shared->cell);
    CUdeviceptr here = pysh_cuda_amo_at(amo, &amo->shared->here);
    void *arguments[] = {&boxes, &cells, &here, &first, &life, &looks};

    return pysh_cuda.LaunchKernel(amo->server, 1, 1, 1, 1, 1, 1, 0, amo->server_stream, arguments, NULL);
}

static CUresult launch_server(void *of, uint64_t first, uint64_t life) {
    return launch(of, first, life, LOOKS);
}

/* It is there some time later: until then simple operations go by the stream, and others wait in their boxes. */
static CUresult ask_for_server(pysh_cuda_amo_t *amo, uint64_t first) {
    CUresult result;

    amo->life++;
    result = pysh_cuda_launcher_ask(&launcher, launch_server, amo, first, life_of(amo));
    amo->stays = !result;
    return result;
}

/* A write of the stream comes after what it did before, with a barrier between them; and it gets through where another
 * thread frees memory of the GPU, which a copy does not. */
static CUresult by_stream(pysh_cuda_amo_t *amo, pysh_cuda_amo_slot_t *slot) {
    size_t index = (size_t)(slot - amo->slot), nbytes = pysh_type_nbytes(slot->type);
    CUdeviceptr word = pysh_cuda_amo_at(amo, &amo->shared->word[index]);
    CUresult result;

    slot->by_stream = true;
    slot->number = ++amo->completions;
    amo->in_stream++;
    amo->shared->word[index] = 0;
    if (slot->op == ISHMEMX_ATOMIC_FETCH)
        result = pysh_cuda.MemcpyAsync(word, slot->address, nbytes, amo->stream);
    else if (nbytes == 8)
        result = pysh_cuda.StreamWriteValue64(amo->stream, slot->address, slot->value, 0);
    else
        result = pysh_cuda.StreamWriteValue32(amo->stream, slot->address, (uint32_t)slot->value, 0);
    if (!result)
        result = pysh_cuda.StreamWriteValue64(amo->stream, pysh_cuda_amo_at(amo, &amo->shared->completion[index]),
                                              slot->number, 0);
    return result;
}

/* acquire: pairs with the kernel's stores. */
static bool is_here(const pysh_cuda_amo_t *amo) {
    return amo->stays && __atomic_load_n(&amo->shared->here, __ATOMIC_ACQUIRE) == life_of(amo);
}

/* What no kernel is going to serve goes on, in order. */
static CUresult advance(pysh_cuda_amo_t *amo) {
    uint64_t gone = __atomic_load_n(&amo->shared->gone, __ATOMIC_ACQUIRE);
    CUresult result = 0;

    if (amo->stays && gone >> LIFE_SHIFT == (amo->life & LIVES)) {
        amo->stays = false;
        amo->left = gone & ((1ULL << LIFE_SHIFT) - 1);
    }
    while (!result && !amo->stays && amo->left < amo->posted) {
        pysh_cuda_amo_slot_t *slot = slot_of(amo, amo->left);
        if (is_simple(slot->op)) {
            result = by_stream(amo, slot);
            amo->in_boxes--;
            amo->left++;
        } else if (amo->in_stream == 0) {
            result = ask_for_server(amo, amo->left);
        } else {
            break;
        }
    }
    return result;
}

/* ---- begin and poll ---- */

/* NULL: not now. */
static pysh_cuda_amo_slot_t *slot_for(pysh_cuda_amo_t *amo, bool by_stream) {
    pysh_cuda_amo_slot_t *slot = slot_of(amo, amo->posted);

    if (by_stream)
        for (slot = &amo->slot[PYSH_CUDA_AMO_BOXES]; slot < &amo->slot[PYSH_CUDA_AMO_SLOTS] && slot->used; slot++)
            continue;
    return slot == &amo->slot[PYSH_CUDA_AMO_SLOTS] || slot->used ? NULL : slot;
}

static CUresult begin(pysh_cuda_amo_t *amo, pysh_cuda_amo_slot_t *slot, bool by_the_stream) {
    int64_t since, before = amo->last_ns;
    CUresult result;

    if (!by_the_stream) {
        amo->wanted = false;
        slot->number = amo->posted++;
        amo->in_boxes++;
        post(amo, slot);
        amo->last_ns = pysh_now_ns(); /* behind it: on some machines that takes a call of the system */
        return advance(amo);
    }
    amo->last_ns = pysh_now_ns();
    since = amo->last_ns - before;
    result = by_stream(amo, slot);
    return result || amo->stays || since > SUCCESSION_NS ? result : ask_for_server(amo, amo->posted);
}

int pysh_cuda_amo_begin(pysh_cuda_amo_t *amo, int op, int type, CUdeviceptr address, uint64_t value, uint64_t cond,
                        int *slot_p) {
    pysh_cuda_amo_slot_t *slot;
    CUresult result = advance(amo);
    bool here = is_here(amo);
    bool by_the_stream = is_simple(op) && amo->in_boxes == 0 && (!here || (amo->in_stream && !amo->wanted));

    if (result)
        return pysh_cuda_amo_failed(result, op, address);
    if (amo->stays && amo->in_stream && !by_the_stream) {
        amo->wanted = true;
        return PYSH_ENGINE_FULL;
    }
    if (!(slot = slot_for(amo, by_the_stream)))
        return PYSH_ENGINE_FULL;
    *slot =
        (pysh_cuda_amo_slot_t){.used = true, .op = op, .type = type, .value = value, .cond = cond, .address = address};
    *slot_p = (int)(slot - amo->slot);
    if (!(result = begin(amo, slot, by_the_stream)))
        return ISHMEMX_OK;
    slot->used = false;
    return pysh_cuda_amo_failed(result, op, address);
}

/* acquire: each word pairs with the GPU's store of it. The cell is emptied here, not by who posts the next request: the
 * processor would have to fetch its line, which the GPU has written to, before that request is seen. */
static bool answered(pysh_cuda_amo_t *amo, int index, uint64_t *fetched_p) {
    const pysh_cuda_amo_slot_t *slot = &amo->slot[index];
    pysh_cuda_amo_shared_t *shared = amo->shared;
    uint64_t phase, low, high;

    if (slot->by_stream) {
        if (__atomic_load_n(&shared->completion[index], __ATOMIC_ACQUIRE) != slot->number)
            return false;
        *fetched_p = __atomic_load_n(&shared->word[index], __ATOMIC_RELAXED);
        return true;
    }
    phase = pysh_phase(slot->number, LOG2_BOXES);
    low = __atomic_load_n(&shared->cell[index][0], __ATOMIC_ACQUIRE);
    high = __atomic_load_n(&shared->cell[index][1], __ATOMIC_ACQUIRE);
    *fetched_p = (low & LOW56) | high << 56;
    if (low >> 56 != phase || high >> 56 != phase)
        return false;
    shared->cell[index][0] = shared->cell[index][1] = 0;
    return true;
}

/* A GPU that has failed answers nothing. */
static CUresult look_for_failure(const pysh_cuda_amo_t *amo) {
    CUresult result = pysh_cuda_launcher_failed(&launcher);

    if (!result)
        result = pysh_cuda.StreamQuery(amo->stream);
    if (!result || result == CUDA_ERROR_NOT_READY)
        result = pysh_cuda.StreamQuery(amo->server_stream);
    return result == CUDA_ERROR_NOT_READY ? 0 : result;
}

int pysh_cuda_amo_poll(pysh_cuda_amo_t *amo, int index, bool *done_p, uint64_t *fetched_p) {
    pysh_cuda_amo_slot_t *slot = &amo->slot[index];
    CUresult result = 0;

    *done_p = answered(amo, index, fetched_p);
    if (!*done_p) {
        result = advance(amo);
        if (!result && ++slot->polls % POLLS_PER_CHECK == 0)
            result = look_for_failure(amo);
        if (!result)
            return ISHMEMX_OK;
        *done_p = true;
    }
    slot->used = false;
    (*(slot->by_stream ? &amo->in_stream : &amo->in_boxes))--;
    return result ? pysh_cuda_fail(result, "an atomic operation on GPU memory for a kernel") : ISHMEMX_OK;
}

/* ---- begin and end ---- */

int pysh_cuda_amo_warm(pysh_cuda_amo_t *amo) {
    CUresult result;

    amo->life++;
    result = launch(amo, 0, life_of(amo), 1);
    amo->stays = !result;
    if (!result)
        result = pysh_cuda.StreamSynchronize(amo->server_stream);
    return result ? pysh_cuda_fail(result, "the first run of a kernel for atomic operations") : ISHMEMX_OK;
}

bool pysh_cuda_amo_let_go(pysh_cuda_amo_t *amo) {
    struct timespec nap = {.tv_nsec = LET_GO_LOOK_NS};
    int64_t until;

    if (!pysh_cuda_launcher_stop(&launcher)) {
        memset(amo->shared->box, 0, sizeof amo->shared->box); /* should it come to run: heaps are not there any more */
        return false;
    }
    until = pysh_now_ns() + LET_GO_NS;
    while (pysh_cuda.StreamQuery(amo->server_stream) == CUDA_ERROR_NOT_READY && pysh_now_ns() < until)
        nanosleep(&nap, NULL);
    return true;
}
