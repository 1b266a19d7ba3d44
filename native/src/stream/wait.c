/* SPDX-License-Identifier: BSD-3-Clause
 * Waits on a stream for this PE's own memory. */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/elements.h"
#include "base/state.h"
#include "base/status.h"
#include "node/enter.h"
#include "stream/stream.h"

static int wait_begin(int type, const void *ivars, size_t nelems, int cmp, void *stream) {
    size_t nbytes = 0;
    char *own;
    int status;

    PYSH_ENTER();
    if (!(status = pysh_type_check(type, PYSH_FAMILY_AMO, "a wait")) && (cmp < ISHMEMX_CMP_EQ || cmp > ISHMEMX_CMP_LE))
        status = pysh_fail(ISHMEMX_ERR_ARGUMENT, "cmp is %d, none of CMP_EQ (%d) to CMP_LE (%d)", cmp, ISHMEMX_CMP_EQ,
                           ISHMEMX_CMP_LE);
    if (!status)
        status = pysh_stream_check(stream);
    if (!status)
        status = pysh_check_extent(1, 0, nelems, pysh_type_nbytes(type), &nbytes);
    if (!status && nbytes)
        status = pysh_stream_reach(ivars, nbytes, pysh.pe, "ivar", &own);
    return status ? status : pysh_type_check_aligned(type, ivars, "ivar");
}

/* Kernels take all values as int64. */
static int64_t value_word(int type, uint64_t value) {
    if (type == ISHMEMX_TYPE_INT32)
        return (int32_t)value;
    return type == ISHMEMX_TYPE_UINT32 ? (int64_t)(uint32_t)value : (int64_t)value;
}

/* The driver compares by the sign of the difference. For what counts up from 0 that is GE; where the right-hand side
 * is so large that it need not be, a kernel compares. */
static int driver_can(int type, int cmp, uint64_t value) {
    int64_t word = value_word(type, value);

    if (cmp == ISHMEMX_CMP_EQ)
        return 1;
    return cmp == ISHMEMX_CMP_GE && word >= 0 && (type != ISHMEMX_TYPE_UINT32 || word <= INT32_MAX);
}

/* Who sets signals and waits for words where the driver could; -1: what the setting says, which has not been read. */
static struct {
    int sets, waits;
} ways = {-1, -1};

int ishmemx_stream_signals(int sets, int waits) {
    const char *text, *origin;
    int status = ishmemx_setting("STREAM_SIGNALS", &text, &origin);
    bool all, some;

    if (!status && (sets > ISHMEMX_SIGNALS_EARLY || waits > ISHMEMX_SIGNALS_EARLY))
        status = pysh_fail(ISHMEMX_ERR_ARGUMENT, "ways %d and %d of signals; the last is %d", sets, waits,
                           ISHMEMX_SIGNALS_EARLY);
    if (status)
        return status;
    all = !strcmp(text, "kernel");
    some = !strcmp(text, "waits");
    if (sets < 0)
        sets = all ? ISHMEMX_SIGNALS_EARLY : ISHMEMX_SIGNALS_DRIVER;
    if (waits < 0)
        waits = all ? ISHMEMX_SIGNALS_EARLY : some ? ISHMEMX_SIGNALS_KERNEL : ISHMEMX_SIGNALS_DRIVER;
    ways.sets = sets;
    ways.waits = waits;
    return ISHMEMX_OK;
}

int pysh_signal_way(void) {
    if (!pysh.accel->streams->store_by_kernel || (ways.sets < 0 && ishmemx_stream_signals(-1, -1)))
        return ISHMEMX_SIGNALS_DRIVER;
    return ways.sets;
}

static int wait_way(void) {
    if (!pysh.accel->streams->wait_by_kernel || (ways.waits < 0 && ishmemx_stream_signals(-1, -1)))
        return ISHMEMX_SIGNALS_DRIVER;
    return ways.waits;
}

static int wait_for_word(const void *ivar, int cmp, uint64_t value, size_t nbytes, int way, void *stream) {
    if (way == ISHMEMX_SIGNALS_DRIVER)
        return pysh.accel->streams->wait(ivar, cmp, value, nbytes, stream);
    return pysh.accel->streams->wait_by_kernel(ivar, cmp, value, nbytes, way == ISHMEMX_SIGNALS_EARLY, stream);
}

static int wait_on_stream(int type, const void *ivar, int cmp, uint64_t value, bool driver, void *stream) {
    pysh_launch_t launch = {.early = true};
    size_t nbytes = pysh_type_nbytes(type);
    int status = wait_begin(type, ivar, 1, cmp, stream);

    if (status)
        return status;
    if (driver_can(type, cmp, value))
        return wait_for_word(ivar, cmp, value, nbytes, driver ? ISHMEMX_SIGNALS_DRIVER : wait_way(), stream);
    pysh_words_array(&launch, ivar, 1, nbytes);
    pysh_words_int(&launch, cmp);
    pysh_words_int(&launch, value_word(type, value));
    return pysh_kernel_launch(&launch, pysh_kernel_key(ISHMEMX_KERNEL_WAIT, 0, type), 0, stream);
}

int ishmemx_wait_until_on_stream(int type, const void *ivar, int cmp, uint64_t value, void *stream) {
    return wait_on_stream(type, ivar, cmp, value, false, stream);
}

int ishmemx_wait_by_driver(int type, const void *ivar, int cmp, uint64_t value, void *stream) {
    return wait_on_stream(type, ivar, cmp, value, true, stream);
}

int ishmemx_wait_set_on_stream(int kind, int type, const void *ivars, size_t nelems, int cmp, uint64_t value,
                               void *indices, void *found, void *stream) {
    pysh_launch_t launch = {.n_words = 0};
    int status = wait_begin(type, ivars, nelems, cmp, stream);

    if (!status && kind != ISHMEMX_KERNEL_WAIT_ALL)
        status = pysh_stream_local(found, "found");
    if (!status && kind == ISHMEMX_KERNEL_WAIT_SOME && nelems)
        status = pysh_stream_local(indices, "indices");
    if (status)
        return status;
    pysh_words_array(&launch, ivars, nelems, pysh_type_nbytes(type));
    pysh_words_int(&launch, (int64_t)nelems);
    if (kind == ISHMEMX_KERNEL_WAIT_SOME)
        pysh_words_array(&launch, indices, nelems, 8);
    pysh_words_int(&launch, cmp);
    pysh_words_int(&launch, value_word(type, value));
    if (kind != ISHMEMX_KERNEL_WAIT_ALL)
        pysh_words_array(&launch, found, 1, 8);
    return pysh_kernel_launch(&launch, pysh_kernel_key(kind, 0, type), 0, stream);
}
