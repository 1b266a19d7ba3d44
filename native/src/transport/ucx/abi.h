/* SPDX-License-Identifier: BSD-3-Clause
 * What the ucx transport calls of UCX, as its binary interface has it from 1.13 on (1.20 is the oldest that is taken):
 * the library is opened at run time and need not be there when this is built. tests/unit/test_ucx_abi.py compares every
 * line with UCX's own headers. */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef int8_t pysh_ucs_status_t; /* 0 is OK, 1 in progress, less an error */
typedef void *pysh_ucp_request_t; /* NULL: complete; the last 100 addresses: an error; else under way */

enum {
    PYSH_UCS_INPROGRESS = 1,
    PYSH_UCS_ERR_BUSY = -15,
    PYSH_UCS_ERR_LAST = -100,
    PYSH_UCS_THREAD_MODE_SERIALIZED = 1,
    PYSH_UCS_MEMORY_TYPE_HOST = 0,
    PYSH_UCP_PARAM_FIELD_FEATURES = 1,
    PYSH_UCP_PARAM_FIELD_ESTIMATED_NUM_EPS = 0x40,
    PYSH_UCP_FEATURE_WAKEUP = 0x10,
    PYSH_UCP_FEATURE_AM = 0x40,
    PYSH_UCP_WORKER_PARAM_FIELD_THREAD_MODE = 1,
    PYSH_UCP_EP_PARAM_FIELD_REMOTE_ADDRESS = 1,
    PYSH_UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE = 2,
    PYSH_UCP_EP_PARAM_FIELD_ERR_HANDLER = 4,
    PYSH_UCP_ERR_HANDLING_MODE_PEER = 1,
    PYSH_UCP_EP_CLOSE_FLAG_FORCE = 1,
    PYSH_UCP_AM_HANDLER_PARAM_FIELD_ID = 1,
    PYSH_UCP_AM_HANDLER_PARAM_FIELD_FLAGS = 2,
    PYSH_UCP_AM_HANDLER_PARAM_FIELD_CB = 4,
    PYSH_UCP_AM_FLAG_WHOLE_MSG = 1,
    PYSH_UCP_AM_SEND_FLAG_EAGER = 2,
    PYSH_UCP_AM_SEND_FLAG_COPY_HEADER = 8,
    PYSH_UCP_AM_RECV_ATTR_FLAG_RNDV = 0x20000,
    PYSH_UCP_OP_ATTR_FIELD_CALLBACK = 2,
    PYSH_UCP_OP_ATTR_FIELD_USER_DATA = 4,
    PYSH_UCP_OP_ATTR_FIELD_FLAGS = 0x10,
    PYSH_UCP_OP_ATTR_FIELD_MEMORY_TYPE = 0x40,
};

/* Structures say in their mask what they hold; what UCX has added behind these is not in it. */
typedef struct pysh_ucp_params {
    uint64_t field_mask, features;
    size_t request_size;
    void (*request_init)(void *), (*request_cleanup)(void *);
    uint64_t tag_sender_mask;
    int mt_workers_shared;
    size_t estimated_num_eps;
} pysh_ucp_params_t;

typedef struct pysh_ucp_worker_params {
    uint64_t field_mask;
    int thread_mode;
    char rest[512]; /* nothing of it is said, and no version has more */
} pysh_ucp_worker_params_t;

typedef struct pysh_ucp_ep_params {
    uint64_t field_mask;
    const void *address;
    int err_mode;
    struct {
        void (*cb)(void *arg, void *ep, pysh_ucs_status_t status);
        void *arg;
    } err_handler;
    char rest[256];
} pysh_ucp_ep_params_t;

typedef struct pysh_ucp_am_recv_param {
    uint64_t recv_attr;
    void *reply_ep;
} pysh_ucp_am_recv_param_t;

typedef struct pysh_ucp_am_handler_param {
    uint64_t field_mask;
    unsigned id;
    uint32_t flags;
    pysh_ucs_status_t (*cb)(void *arg, const void *header, size_t header_length, void *data, size_t length,
                            const pysh_ucp_am_recv_param_t *param);
    void *arg;
} pysh_ucp_am_handler_param_t;

typedef struct pysh_ucp_request_param {
    uint32_t op_attr_mask, flags;
    void *request;
    void (*cb)(void *request, pysh_ucs_status_t status, void *user_data);
    uint64_t datatype;
    void *user_data, *reply_buffer;
    int memory_type;
    char rest[128];
} pysh_ucp_request_param_t;

/* result, name without ucp_, arguments */
#define PYSH_UCX_CALLS(X_)                                                                                       \
    X_(void, get_version, (unsigned *major, unsigned *minor, unsigned *release))                                 \
    X_(pysh_ucs_status_t, config_read, (const char *prefix, const char *file, void **config))                    \
    X_(pysh_ucs_status_t, config_modify, (void *config, const char *name, const char *value))                    \
    X_(void, config_release, (void *config))                                                                     \
    X_(pysh_ucs_status_t, init_version,                                                                          \
       (unsigned major, unsigned minor, const pysh_ucp_params_t *params, const void *config, void **context))    \
    X_(void, cleanup, (void *context))                                                                           \
    X_(pysh_ucs_status_t, worker_create, (void *context, const pysh_ucp_worker_params_t *params, void **worker)) \
    X_(void, worker_destroy, (void *worker))                                                                     \
    X_(pysh_ucs_status_t, worker_get_address, (void *worker, void **address, size_t *length))                    \
    X_(void, worker_release_address, (void *worker, void *address))                                              \
    X_(unsigned, worker_progress, (void *worker))                                                                \
    X_(pysh_ucs_status_t, worker_get_efd, (void *worker, int *fd))                                               \
    X_(pysh_ucs_status_t, worker_arm, (void *worker))                                                            \
    X_(pysh_ucs_status_t, worker_signal, (void *worker))                                                         \
    X_(pysh_ucs_status_t, worker_set_am_recv_handler, (void *worker, const pysh_ucp_am_handler_param_t *param))  \
    X_(pysh_ucs_status_t, ep_create, (void *worker, const pysh_ucp_ep_params_t *params, void **ep))              \
    X_(pysh_ucp_request_t, ep_close_nbx, (void *ep, const pysh_ucp_request_param_t *param))                      \
    X_(pysh_ucp_request_t, am_send_nbx,                                                                          \
       (void *ep, unsigned id, const void *header, size_t header_length, const void *data, size_t count,         \
        const pysh_ucp_request_param_t *param))                                                                  \
    X_(pysh_ucs_status_t, request_check_status, (void *request))                                                 \
    X_(void, request_free, (void *request))
