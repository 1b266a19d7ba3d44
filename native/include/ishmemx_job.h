/* SPDX-License-Identifier: BSD-3-Clause
 * Part of ishmemx.h: statuses, settings, init and finalize, what can be asked before init, the launcher. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ISHMEMX_API __attribute__((visibility("default")))

/* ---- status ------------------------------------------------------------------------------- */

enum ishmemx_status {
    ISHMEMX_OK = 0,
    ISHMEMX_ERR_ARGUMENT,    /* a value outside its range: pe, nelems, address, overlap */
    ISHMEMX_ERR_TYPE,        /* a type outside the operation's table */
    ISHMEMX_ERR_STATE,       /* before init, after finalize, freed twice */
    ISHMEMX_ERR_MEMORY,      /* symmetric heap exhausted */
    ISHMEMX_ERR_MISMATCH,    /* PEs disagree: library version, allocation sizes, arguments */
    ISHMEMX_ERR_PEER,        /* another PE died or the job is being aborted */
    ISHMEMX_ERR_TIMEOUT,     /* a wait outlasted the timeout */
    ISHMEMX_ERR_INTERRUPTED, /* the interrupt check asked the wait to end */
    ISHMEMX_ERR_SYSTEM,      /* a system call or the GPU driver failed */
    ISHMEMX_ERR_UNSUPPORTED, /* not available on this conduit or accelerator */
    ISHMEMX_ERR_FAULT,       /* a kernel recorded a fault: see ishmemx_fault_take() */
    ISHMEMX_ERR_UNPREPARED,  /* a kernel for a stream is not loaded: see ishmemx_kernel_missing() */
    ISHMEMX_ERR_LEFT         /* a member of the team has left it, so that no collective can be complete */
};

/* Text for the last failure of the calling thread; never NULL. */
ISHMEMX_API const char *ishmemx_error(void);

/* ---- settings ----------------------------------------------------------------------------- */

/* The text of setting `name` (without PYSHMEM_) and where it came from: "default" or the name of
 * the environment variable. An unknown name is ISHMEMX_ERR_ARGUMENT. */
ISHMEMX_API int ishmemx_setting(const char *name, const char **text, const char **origin);
/* The same, parsed by the kind of its row: bytes for sizes, nanoseconds for seconds, 0 or 1 for
 * flags, the position for choices. A malformed value is ISHMEMX_ERR_ARGUMENT, naming the variable. */
ISHMEMX_API int ishmemx_setting_number(const char *name, int64_t *value);
/* Whether all that are numbers can be read, also those that nobody asks for in this job. */
ISHMEMX_API int ishmemx_settings_check(void);
/* Whether `text` would be a right value of an environment variable; of one that is no setting any is. Of a setting that
 * is a number, and a text that is not empty, `value` becomes that; NULL: nobody asks. */
ISHMEMX_API int ishmemx_setting_check(const char *variable, const char *text, int64_t *value);
/* Parse a size such as "1.5G" or "64k" (powers of 1024). */
ISHMEMX_API int ishmemx_parse_size(const char *text, int64_t *nbytes);

/* ---- setup -------------------------------------------------------------------------------- */

/* Bits of setting CHECK. */
enum ishmemx_check {
    ISHMEMX_CHECK_ARGS = 1,    /* what costs time to look at in arguments: checking mode */
    ISHMEMX_CHECK_ORDER = 2,   /* accesses of different PEs that nothing orders */
    ISHMEMX_CHECK_DELIVER = 4, /* what may be late is late */
    ISHMEMX_CHECK_STRICT = 8   /* advice on what is allowed, too */
};

enum ishmemx_heap { ISHMEMX_HEAP_HOST = 0, ISHMEMX_HEAP_DEVICE = 1, ISHMEMX_HEAP_COUNT = 2 };
enum ishmemx_accelerator { ISHMEMX_DEVICE_NONE = 0, ISHMEMX_DEVICE_CUDA = 1, ISHMEMX_DEVICE_SIM = 2 };

typedef struct ishmemx_config {
    int pe, n_pes, local_pe; /* place in the job */
    const char *job;         /* rendezvous name, the same on all PEs */
    int control_fd;          /* control segment made by the launcher, or -1 */
    int accelerator;         /* enum ishmemx_accelerator */
    int device;              /* GPU ordinal; -1: local_pe modulo the number of GPUs */
    int check;               /* bits of enum ishmemx_check */
    int64_t heap_bytes, device_heap_bytes;
    int device_heap_given; /* somebody asked for that many bytes: by itself the heap does not grow beyond */
    int64_t timeout_ns, init_timeout_ns; /* 0: none */
    int64_t spin;
    const char *version; /* compared between PEs; differs: ISHMEMX_ERR_MISMATCH on all of them */
} ishmemx_config_t;

/* Fill `config` from the settings and from the environment of known launchers (ours, Open MPI, PMI,
 * Slurm, torchrun); without any, one PE. The accelerator is left ISHMEMX_DEVICE_NONE. */
ISHMEMX_API int ishmemx_config_from_environment(ishmemx_config_t *config);

/* The process records what it accesses, so that init takes ISHMEMX_CHECK_ORDER. */
ISHMEMX_API void ishmemx_record_order(void);

/* Collective. Calls are counted: a further one only asks for one more finalize, and its config is not
 * looked at. The thread level is what the first one asked for (ishmemx_init: multiple). */
ISHMEMX_API int ishmemx_init(const ishmemx_config_t *config);
enum { ISHMEMX_THREAD_SINGLE = 0, ISHMEMX_THREAD_FUNNELED, ISHMEMX_THREAD_SERIALIZED, ISHMEMX_THREAD_MULTIPLE };
ISHMEMX_API int ishmemx_init_thread(const ishmemx_config_t *config, int requested, int *provided);
ISHMEMX_API int ishmemx_query_thread(int *provided);
/* The last of as many calls as there were of init completes everything outstanding, then waits until
 * all PEs are here (no longer than the timeout, and not for PEs that died). More calls do nothing. */
ISHMEMX_API int ishmemx_finalize(void);
/* OK, or why finalize would be refused here: STATE inside of a wait or a collective of the calling thread, that is in a
 * signal's handler. finalize asks it too; the job goes on then. */
ISHMEMX_API int ishmemx_finalize_check(void);
ISHMEMX_API int ishmemx_initialized(void); /* 1 between init and finalize; not a status */
ISHMEMX_API int ishmemx_my_pe(void);       /* -1 when not initialised */
ISHMEMX_API int ishmemx_n_pes(void);
/* 1 or 0, not a status: can `pe` be reached; is `address` symmetric, so that `pe`'s copy can be named. */
ISHMEMX_API int ishmemx_pe_accessible(int pe);
ISHMEMX_API int ishmemx_addr_accessible(const void *address, int pe);
/* Ends the whole job: every other PE's next or current call fails with ISHMEMX_ERR_PEER. Returns. */
ISHMEMX_API int ishmemx_abort(int code, const char *why);
/* Called about every 10 ms while a wait is slow; non-zero ends the wait with INTERRUPTED. */
ISHMEMX_API void ishmemx_set_interrupt_check(int (*check)(void));
/* Called once in a wait that is slow, by its thread: writes where the program is, "heat.py:12", for reports; or
 * nothing. */
ISHMEMX_API void ishmemx_set_place_teller(void (*tell)(char *text, size_t capacity));

/* ---- conduits, before init too ------------------------------------------------------------- */

/* 1 when the launcher put the job's PEs on several hosts; not a status. */
ISHMEMX_API int ishmemx_several_hosts(void);
/* The first PE of the node of `pe`: two PEs with the same are near, and reach each other by loads and stores where
 * memory is shared. -1 outside a job, and for no PE of it. */
ISHMEMX_API int ishmemx_node(int pe);
/* Opens the OpenSHMEM library of the openshmem conduit and names it; UNSUPPORTED tells what was tried. */
ISHMEMX_API int ishmemx_openshmem_describe(char *text, size_t capacity);
/* The same of UCX, for conduit ucx. */
ISHMEMX_API int ishmemx_ucx_describe(char *text, size_t capacity);
/* How PEs of several hosts find each other, as the environment has it. */
ISHMEMX_API const char *ishmemx_join(void);
/* Where UCX is in a Python package: taken when there is none else. Before init. */
ISHMEMX_API void ishmemx_ucx_package(const char *path);
/* For who runs before MPI is finalized in a process that uses it too: the library, if it was started and no job
 * runs, is left now and not at exit, when MPI has gone. There is no other job in this process afterwards. */
ISHMEMX_API void ishmemx_openshmem_leave(void);

/* ---- number of GPUs, before init too ------------------------------------------------------- */

/* 0 GPUs where there is no driver; that is no failure. */
ISHMEMX_API int ishmemx_cuda_count(int *count);
/* Name of GPU `device`, and whether it can load and store memory of GPU `peer`. */
ISHMEMX_API int ishmemx_cuda_describe(int device, char *name, size_t capacity, int64_t *nbytes);
ISHMEMX_API int ishmemx_cuda_can_access(int device, int peer, int *can);
/* Whether a heap on it can grow: its memory is mapped, and shared by descriptors. */
ISHMEMX_API int ishmemx_cuda_can_grow(int device, int *can);

/* ---- the launcher's view of a job ------------------------------------------------------------ */

/* A control segment for n_pes PEs; the launcher makes it and lets the PEs inherit the descriptor. */
ISHMEMX_API int ishmemx_control_create(int n_pes, int *fd);
/* One line on where `pe` stands: "in barrier_all for 3.2 s", "running", "not initialised", ... */
ISHMEMX_API int ishmemx_control_describe(int fd, int pe, char *text, size_t capacity);
/* The PE whose failure the others were told of first, by itself; -1 where none has. */
ISHMEMX_API int ishmemx_control_failed(int fd, int *pe);
/* The status with which a PE ended the job by shmem_global_exit; -1 where none has. */
ISHMEMX_API int ishmemx_control_global_exit(int fd, int *code);
/* Marks the job as aborted, so that waiting PEs end with ISHMEMX_ERR_PEER and `why`. */
ISHMEMX_API int ishmemx_control_abort(int fd, const char *why);

#ifdef __cplusplus
}
#endif
