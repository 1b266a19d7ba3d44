/* SPDX-License-Identifier: BSD-3-Clause
 * Copies with a GPU on one side: between messages and what they carry. */
#include <string.h>

#include "accel/engine/engine.h"
#include "am/channel.h"
#include "base/state.h"
#include "base/status.h"

static int gpu_start_copy(pysh_am_copy_t *copy, void *dest, const void *source, size_t nbytes) {
    int status = pysh_engine_copy(pysh.pe, dest, source, nbytes, NULL, 0, PYSH_ENGINE_CALLER, &copy->token);

    copy->started = !status;
    return status;
}

static int await_copy(pysh_am_copy_t *copy) {
    bool done = false;
    int status = pysh_engine_look(copy->token, &done);

    if (!status && !done)
        return PYSH_ENGINE_FULL;
    copy->started = false;
    return status;
}

int pysh_am_from_gpu(pysh_am_copy_t *copy, int pe, char *place, const void *source, size_t nbytes,
                     const char **data_p) {
    int status;

    if (!copy->started) {
        if (!copy->piece && pysh_engine_reaches(source, nbytes) && !(copy->piece = pysh_engine_piece()))
            return PYSH_ENGINE_FULL;
        if ((status = gpu_start_copy(copy, copy->piece ? copy->piece : place, source, nbytes)))
            return status;
    }
    status = await_copy(copy);
    *data_p = copy->piece && !status && pysh_am_mapped(pe, 0) ? copy->piece : place;
    if (copy->piece && !status && *data_p == place) /* the transport takes it from where it stays */
        memcpy(place, copy->piece, nbytes);
    return status;
}

int pysh_am_begin_to_gpu(pysh_am_copy_t *copy, const void *dest, const char **data_p, size_t nbytes) {
    if (!copy->piece && pysh_engine_reaches(dest, nbytes)) {
        if (!(copy->piece = pysh_engine_piece()))
            return PYSH_ENGINE_FULL;
        memcpy(copy->piece, *data_p, nbytes);
    }
    if (copy->piece)
        *data_p = copy->piece;
    return ISHMEMX_OK;
}

int pysh_am_to_gpu(pysh_am_copy_t *copy, void *dest, const char *data, size_t nbytes) {
    int status;

    if (!copy->started && ((status = pysh_am_begin_to_gpu(copy, dest, &data, nbytes)) ||
                           (status = gpu_start_copy(copy, dest, data, nbytes))))
        return status;
    return await_copy(copy);
}

void pysh_am_copy_end(pysh_am_copy_t *copy) {
    if (copy->piece)
        pysh_engine_piece_back(copy->piece);
    *copy = (pysh_am_copy_t){.piece = NULL};
}
