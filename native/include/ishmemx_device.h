/* SPDX-License-Identifier: BSD-3-Clause
 * Part of ishmemx.h: what kernels and the host know of each other. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "ishmemx_contract.h"
#include "ishmemx_job.h"
#include "ishmemx_teams.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the device library ---------------------------------------------------------------------- */

/* The state block, rows of teams and kinds of faults: ishmemx_contract.h, made of pyshmem/_core/contract.py. */

/* The first fault since the last report. Kernels write it, `kind` last; the host reads. */
typedef struct ishmemx_fault {
    uint64_t kind;
    uint64_t op;           /* number of the device routine, of the contract's ROUTINES */
    int64_t pe;            /* peer, or -1 */
    int64_t module;        /* state word MODULE of the kernel */
    int64_t block, thread; /* linear indices */
    int64_t a, b;
} ishmemx_fault_t;

/* ISHMEMX_CONTRACT of the library, which may be another than that of the caller's headers. */
ISHMEMX_API int64_t ishmemx_contract(void);
/* Copies the ISHMEMX_STATE_WORDS words of the state block. */
ISHMEMX_API int ishmemx_device_state(int64_t *words);
/* Writes them to their copy in device memory, which is at one address as long as the job runs: an argument for kernels
 * of compilers that know no symbol of ours. Complete on return; it waits for no kernel. */
ISHMEMX_API int ishmemx_state_publish(int64_t *address_p);
/* What the program pyshmem-engine runs: the process of a PE's copy engine. Nobody else calls it. */
ISHMEMX_API int ishmemx_engine_main(void);
/* The error of the last request that failed in the proxy. */
ISHMEMX_API int ishmemx_proxy_error(char *text, size_t capacity);

/* Of all rings, since init; by operation (enum pysh_request_op). */
typedef struct {
    int64_t requests[ISHMEMX_RING_OPS], bytes[ISHMEMX_RING_OPS], ns[ISHMEMX_RING_OPS]; /* ns: of those that are timed */
    int64_t rings, credits, stalls, quiets;
    int64_t far_messages, far_bytes; /* this PE's to PEs out of reach, host calls' too; data in them and in answers */
} ishmemx_proxy_stats_t;
ISHMEMX_API int ishmemx_proxy_stats(ishmemx_proxy_stats_t *stats);

/* Functions that kernels call through the ring; they run on the proxy's thread and must not wait for a PE. */
typedef int64_t (*ishmemx_handler_t)(int64_t, int64_t, int64_t, int64_t);
ISHMEMX_API int ishmemx_register_handler(ishmemx_handler_t function, int *number);
/* No thread is in it any more on return, so that its memory may go; called again, it goes on with a wait that was given
 * up. Within a handler it does not wait. ISHMEMX_ERR_STATE: a thread that finalize has left behind is still in it. */
ISHMEMX_API int ishmemx_unregister_handler(int number);

/* The words ISHMEMX_STATE_CUTOVER_PUT_MIN .. of the state block, `count` of them; kernels launched after a new
 * push of the state see them. */
ISHMEMX_API int ishmemx_cutover_set(int first, int count, const int64_t *words);
ISHMEMX_API int ishmemx_cutover_get(int first, int count, int64_t *words);
/* The slot by which kernels know a team. */
ISHMEMX_API int ishmemx_team_slot(ishmemx_team_t team, int *slot);
ISHMEMX_API int ishmemx_ctx_team_slot(ishmemx_ctx_t ctx, int *slot);

/* For reports: the name of the kernels whose word MODULE is `number`, or of a device routine. Kept after finalize. */
enum ishmemx_name_kind { ISHMEMX_NAME_KERNEL, ISHMEMX_NAME_ROUTINE, ISHMEMX_NAME_KINDS };
ISHMEMX_API int ishmemx_name_set(int kind, int64_t number, const char *name);
/* Kernels are launched on streams other than the default one, so nobody knows when all have finished. */
ISHMEMX_API int ishmemx_other_streams(void);
/* Those have all finished; the default stream may be asked again. */
ISHMEMX_API int ishmemx_other_streams_done(void);
/* 1: kernels of the GPU's default stream, or of one that waits for it, have not ended. */
ISHMEMX_API int ishmemx_default_stream_busy(void);
/* Where all PEs stand and what their kernels wait for, a line each; empty outside init and finalize. */
ISHMEMX_API int ishmemx_report(char *text, size_t capacity);
/* For reports: the calling thread's waits are in `name` from here on, of which 63 bytes count; NULL: in the routines
 * that wait. A library over this one has its users' words so. */
ISHMEMX_API void ishmemx_name_waits(const char *name);
/* Copies the pending fault and clears it; kind NONE when there is none. */
ISHMEMX_API int ishmemx_fault_take(ishmemx_fault_t *fault);

/* For reports: the simulator's kernel has not ended since then; `text` says which one, and where it is. `does` 1: it
 * does nothing but read the same again and again; 2: it is being compiled; else 0. To be told four times a second. Not
 * OK: it had better give up. */
ISHMEMX_API int ishmemx_kernel_is_seen(const char *text, int does, int64_t since_ns);
/* A thread of the program comes into (1) or out of (-1) a launch that returns when its kernel has ended. */
ISHMEMX_API void ishmemx_sim_launches(int change);

/* ---- leaf primitives of the simulator (addresses are int64 there) ---------------------------- */

ISHMEMX_API uint64_t ishmemx_leaf_load(int64_t address, int nbytes);              /* relaxed, 1 2 4 8 bytes */
ISHMEMX_API void ishmemx_leaf_store(int64_t address, uint64_t value, int nbytes); /* relaxed */
ISHMEMX_API void ishmemx_leaf_store_release(int64_t address, uint64_t value);     /* 8 bytes */
ISHMEMX_API uint64_t ishmemx_leaf_atomic(int op, int type, int64_t address, uint64_t value, uint64_t cond);
ISHMEMX_API void ishmemx_leaf_copy(int64_t dest, int64_t source, int64_t nbytes); /* one lane's piece */
ISHMEMX_API void ishmemx_leaf_fence(void);
ISHMEMX_API int64_t ishmemx_leaf_now(void); /* ns, monotonic */
/* The same less what passed while the process stood still, by the calls of this: what waits in kernels go by. */
ISHMEMX_API int64_t ishmemx_leaf_time_awake(void);
/* A simulated kernel of this PE ends: until the proxy has done, or begun, what kernels have asked for without a reply;
 * at most 0.2 s, as a handler of the program's may take as long as it likes. A load a ring when nothing was asked. */
ISHMEMX_API void ishmemx_sim_kernel_ends(void);

/* ---- kernels compiled for the CPU ------------------------------------------------------------ */

/* Numbers that a routine of a thread's warp or block is given, by parameters in a fixed order. */
enum { ISHMEMX_CPU_NUMBERS = 6 };

/* What a thread of a kernel reads of itself, which is constant while the thread lives; and what it writes when it calls
 * a routine of its warp or block: the address of the routine's name, behind which stand those of the parameters, each
 * with its zero and an empty one last; and what it gives for them, INT64_MIN for what is left out. */
typedef struct {
    int32_t thread[3], block[3], threads[3], blocks[3]; /* threadIdx, blockIdx, blockDim, gridDim */
    int32_t rank, block_rank, n_threads, n_blocks;      /* linear: in the block, in the grid; of a block, of the grid */
    int64_t module;                                     /* state word MODULE */
    int64_t dynamic, dynamic_bytes;                     /* the block's dynamic shared memory */
    int64_t call, given[ISHMEMX_CPU_NUMBERS];
} ishmemx_cpu_thread_t;

enum ishmemx_cpu_end {
    ISHMEMX_CPU_DONE,
    ISHMEMX_CPU_RAISED,   /* a thread returned a code that is not 0: `code`, `exception`, `block`, `thread` */
    ISHMEMX_CPU_FAILED,   /* `text` says why: a deadlock, no memory */
    ISHMEMX_CPU_NO_STATE, /* a thread used the device library outside init .. finalize */
    ISHMEMX_CPU_INTERRUPTED,
    ISHMEMX_CPU_OUT_OF_BOUNDS, /* `text` says which index of what, `block` and `thread` whose */
    ISHMEMX_CPU_NOT_ALL,       /* `text` says which threads of a routine's group are not in it with the others */
    ISHMEMX_CPU_GIVEN_UP,      /* by ishmemx_cpu_give_up() */
};

/* A word of what kernels print: what it is, an enum of the compiler's, and its bits. */
typedef struct {
    int64_t kind, bits;
} ishmemx_cpu_word_t;

/* A launch, and below what became of it. */
typedef struct {
    int32_t blocks[3], threads[3];
    int32_t workers;       /* threads of the process that run blocks */
    int32_t interruptible; /* SIGINT ends it */
    int64_t shared_bytes, module;
    const char *name;
    int32_t end, code;
    int64_t exception;
    int32_t block[3], thread[3];
    char text[512];
    ishmemx_cpu_word_t *printed; /* the caller frees it by ishmemx_cpu_forget() */
    int64_t n_printed;
} ishmemx_cpu_launch_t;

/* The address of a function that compiled kernels call, by its name in fiber.h; 0: there is none. */
ISHMEMX_API int64_t ishmemx_cpu_symbol(const char *name);
ISHMEMX_API void ishmemx_cpu_forget(ishmemx_cpu_launch_t *launch);
/* Looks at a launch that goes on in another thread. How many looks, of this call and those before, have found a thread
 * of it as an earlier one had, since it last waited: many are a loop that changes nothing. Which thread comes back in
 * `block` and `thread`. 0: it goes on. -1: it has ended. */
ISHMEMX_API int ishmemx_cpu_look(int64_t launch, int32_t *block, int32_t *thread);
/* Ends such a launch where it is: ISHMEMX_CPU_GIVEN_UP. -1: it has ended, or is not in the kernel's own code. */
ISHMEMX_API int ishmemx_cpu_give_up(int64_t launch);
/* Threads of kernels that may live at once in a launch, blocks that wait for each other among them. */
ISHMEMX_API int64_t ishmemx_cpu_most_threads(void);

#ifdef __cplusplus
}
#endif
