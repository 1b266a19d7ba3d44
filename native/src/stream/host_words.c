/* SPDX-License-Identifier: BSD-3-Clause
 * Words that streams wait for and the host stores to: a page of memory that both reach, made at its first use. */
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "accel/accel.h"
#include "base/state.h"
#include "base/status.h"
#include "node/enter.h"
#include "stream/stream.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* for the page, which is made and given back */
static uint64_t *words;
static uint64_t *on_device;

static int words_make(void) {
    void *host = NULL, *device = NULL;
    int status = ISHMEMX_OK;

    pthread_mutex_lock(&mutex);
    if (!words && !(status = pysh.accel->shared_alloc(ISHMEMX_HOST_WORDS * sizeof *words, &host, &device))) {
        memset(host, 0, ISHMEMX_HOST_WORDS * sizeof *words);
        words = host;
        on_device = device;
    }
    pthread_mutex_unlock(&mutex);
    return status;
}

int ishmemx_host_word_wait_on_stream(int word, uint64_t value, void *stream) {
    bool captured = false;
    int status;

    PYSH_ENTER();
    if (word < 0 || word >= ISHMEMX_HOST_WORDS)
        return pysh_fail(ISHMEMX_ERR_ARGUMENT, "word %d is not one of 0 to %d", word, ISHMEMX_HOST_WORDS - 1);
    if ((status = pysh_stream_check(stream)) || (status = pysh.accel->streams->capturing(stream, &captured)))
        return status;
    if (captured)
        return pysh_fail(ISHMEMX_ERR_STATE,
                         "what the host does once cannot be waited for by a stream that is captured");
    if ((status = words_make()))
        return status;
    return pysh.accel->streams->wait(&on_device[word], ISHMEMX_CMP_GE, value, sizeof *words, stream);
}

/* release: pairs with the stream's wait, behind which what the host did before is seen. */
int ishmemx_host_word_store(int word, uint64_t value) {
    bool known;

    pthread_mutex_lock(&mutex); /* against finalize, which a thread of the program may be late for */
    known = words && word >= 0 && word < ISHMEMX_HOST_WORDS;
    if (known)
        __atomic_store_n(&words[word], value, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&mutex);
    return known ? ISHMEMX_OK : pysh_fail(ISHMEMX_ERR_ARGUMENT, "no stream has waited for word %d", word);
}

void pysh_host_words_close(void) {
    pthread_mutex_lock(&mutex);
    if (words)
        pysh.accel->shared_free(words);
    words = on_device = NULL;
    pthread_mutex_unlock(&mutex);
}
