// SPDX-License-Identifier: BSD-3-Clause
// The figures of device.py for NVSHMEM's device calls, timed the same way (inside the kernels), with
// the same names, so that compare.py can divide them. One process a PE: RANK, WORLD, UIDFILE.
// Usage: nvshmem_device [put] [get] [collectives] [signals] (default: all)
#include <cuda_runtime.h>
#include <nvshmem.h>
#include <nvshmemx.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <unistd.h>

#define CHECK(call)                                                                     \
    do {                                                                                \
        cudaError_t error = (call);                                                     \
        if (error != cudaSuccess) {                                                     \
            printf("%s line %d: %s\n", #call, __LINE__, cudaGetErrorString(error));     \
            exit(1);                                                                    \
        }                                                                               \
    } while (0)

typedef unsigned long long ns_t;

__device__ __forceinline__ ns_t now() {
    ns_t t;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
    return t;
}

__device__ void finish(ns_t *ns, ns_t begin) {
    if (threadIdx.x == 0) {
        ns[2 * blockIdx.x] = begin;
        ns[2 * blockIdx.x + 1] = now();
    }
}

enum { PUT, GET };

template <int OP, bool WIDE> __global__ void __launch_bounds__(1024)
k_move(char *dest, char *source, size_t nbytes, int peer, int iterations, ns_t *ns) {
    size_t part = nbytes / gridDim.x, lo = part * blockIdx.x;
    ns_t begin = now();
    for (int i = 0; i < iterations; i++) {
        if (OP == PUT && WIDE) nvshmemx_putmem_block(dest + lo, source + lo, part, peer);
        if (OP == GET && WIDE) nvshmemx_getmem_block(dest + lo, source + lo, part, peer);
        if (OP == PUT && !WIDE) nvshmem_putmem(dest + lo, source + lo, part, peer);
        if (OP == GET && !WIDE) nvshmem_getmem(dest + lo, source + lo, part, peer);
    }
    __syncthreads();
    if (threadIdx.x == 0) nvshmem_quiet();
    __syncthreads();
    finish(ns, begin);
}

__global__ void k_fetch_add(long *dest, int peer, int iterations, ns_t *ns) {
    long total = 0;
    ns_t begin = now();
    for (int i = 0; i < iterations; i++) total += nvshmem_long_atomic_fetch_add(dest, 1, peer);
    finish(ns, begin + (total == -1));
}

__global__ void k_signal_pingpong(uint64_t *sig, int me, int iterations, ns_t *ns) {
    ns_t begin = now();
    for (uint64_t k = 1; k <= (uint64_t)iterations; k++) {
        if (me == 0) nvshmemx_signal_op(sig, k, NVSHMEM_SIGNAL_SET, 1 - me);
        nvshmem_signal_wait_until(sig, NVSHMEM_CMP_GE, k);
        if (me != 0) nvshmemx_signal_op(sig, k, NVSHMEM_SIGNAL_SET, 1 - me);
    }
    finish(ns, begin);
}

__global__ void __launch_bounds__(1024)
k_put_signal_pingpong(char *dest, char *source, size_t nbytes, uint64_t *sig, int me, int iterations, ns_t *ns) {
    ns_t begin = now();
    for (uint64_t k = 1; k <= (uint64_t)iterations; k++) {
        if (me == 0) nvshmemx_putmem_signal_block(dest, source, nbytes, sig, k, NVSHMEM_SIGNAL_SET, 1 - me);
        if (threadIdx.x == 0) nvshmem_signal_wait_until(sig, NVSHMEM_CMP_GE, k);
        __syncthreads();
        if (me != 0) nvshmemx_putmem_signal_block(dest, source, nbytes, sig, k, NVSHMEM_SIGNAL_SET, 1 - me);
    }
    finish(ns, begin);
}

enum meet_t { MEET_SYNC, MEET_BARRIER };
enum { THREAD, WARP, BLOCK };

template <int OP, int SCOPE> __global__ void __launch_bounds__(1024) k_meet(int iterations, ns_t *ns) {
    ns_t begin = now();
    for (int i = 0; i < iterations; i++) {
        if (SCOPE == THREAD) OP == MEET_BARRIER ? nvshmem_barrier_all() : nvshmem_sync_all();
        if (SCOPE == WARP) OP == MEET_BARRIER ? nvshmemx_barrier_all_warp() : nvshmemx_sync_all_warp();
        if (SCOPE == BLOCK) OP == MEET_BARRIER ? nvshmemx_barrier_all_block() : nvshmemx_sync_all_block();
    }
    finish(ns, begin);
}

enum exchange_t { X_FCOLLECT, X_BROADCAST, X_ALLTOALL, X_SUM_REDUCE };

template <int OP> __global__ void __launch_bounds__(1024)
k_exchange(float *dest, float *source, size_t nelems, int iterations, ns_t *ns) {
    const nvshmem_team_t team = NVSHMEM_TEAM_WORLD;
    ns_t begin = now();
    for (int i = 0; i < iterations; i++) {
        if (OP == X_FCOLLECT) nvshmemx_float_fcollect_block(team, dest, source, nelems);
        if (OP == X_BROADCAST) nvshmemx_float_broadcast_block(team, dest, source, nelems, 0);
        if (OP == X_ALLTOALL) nvshmemx_float_alltoall_block(team, dest, source, nelems);
        if (OP == X_SUM_REDUCE) nvshmemx_float_sum_reduce_block(team, dest, source, nelems);
    }
    finish(ns, begin);
}

static int me, n_pes;
static cudaStream_t stream;
static ns_t *ns;

static void emit(const char *op, size_t nbytes, int blocks, int threads, double us) {
    if (me == 0)
        printf("{\"peer\": \"nvshmem\", \"op\": \"%s\", \"bytes\": %zu, \"pes\": %d, \"blocks\": %d, \"threads\": %d, "
               "\"us\": %.4f}\n", op, nbytes, n_pes, blocks, threads, us);
    fflush(stdout);
}

typedef std::function<void(int)> launch_t;

static double once(int blocks, int iterations, const launch_t &launch) {
    launch(iterations);
    CHECK(cudaGetLastError());
    CHECK(cudaStreamSynchronize(stream));
    ns_t begin = ns[0], end = ns[1];
    for (int block = 1; block < blocks; block++) {
        begin = std::min(begin, ns[2 * block]);
        end = std::max(end, ns[2 * block + 1]);
    }
    return (double)(end - begin) / iterations / 1e3;
}

// Without the other PEs: enough iterations for 3 ms, the least of three runs.
static void alone(const char *op, size_t nbytes, int blocks, int threads, const launch_t &launch) {
    once(blocks, 1, launch);
    int iterations = (int)std::min(std::max(3000 / once(blocks, 3, launch), 2.0), 1000.0);
    double best = 1e30;
    for (int repeat = 0; repeat < 3; repeat++) best = std::min(best, once(blocks, iterations, launch));
    emit(op, nbytes, blocks, threads, best);
}

static void together(const char *op, size_t nbytes, int threads, int iterations, const launch_t &launch) {
    double best = 1e30;
    for (int repeat = 0; repeat < 6; repeat++) {
        nvshmem_barrier_all();
        double us = once(1, iterations, launch);
        if (repeat) best = std::min(best, us);
    }
    emit(op, nbytes, 1, threads, best);
}

static void init() {
    nvshmemx_uniqueid_t id = NVSHMEMX_UNIQUEID_INITIALIZER;
    nvshmemx_init_attr_t attr = NVSHMEMX_INIT_ATTR_INITIALIZER;
    const char *path = getenv("UIDFILE");
    if (me == 0) {
        nvshmemx_get_uniqueid(&id);
        char part[512];
        snprintf(part, sizeof part, "%s.part", path);
        FILE *file = fopen(part, "wb");
        fwrite(&id, sizeof id, 1, file);
        fclose(file);
        rename(part, path);
    } else {
        while (access(path, R_OK)) usleep(1000);
        FILE *file = fopen(path, "rb");
        if (fread(&id, sizeof id, 1, file) != 1) exit(2);
        fclose(file);
    }
    nvshmemx_set_attr_uniqueid_args(me, n_pes, &id, &attr);
    if (nvshmemx_init_attr(NVSHMEMX_INIT_WITH_UNIQUEID, &attr)) exit(3);
}

static void signals(char *dest, char *source, long *counter, uint64_t *sig) {
    auto clear = [&] {
        nvshmem_barrier_all();
        CHECK(cudaMemset(sig, 0, 8));
        CHECK(cudaDeviceSynchronize());
        nvshmem_barrier_all();
    };
    for (int repeat = 0; n_pes == 2 && repeat < 4; repeat++) {
        clear();
        k_signal_pingpong<<<1, 1, 0, stream>>>(sig, me, 1000, ns);
        CHECK(cudaStreamSynchronize(stream));
        if (repeat) emit("signal_pingpong", 8, 1, 1, (ns[1] - ns[0]) / 1000 / 1e3);
    }
    for (size_t nbytes : {8ul, 1024ul, 65536ul, 1ul << 20})
        for (int repeat = 0; n_pes == 2 && repeat < 4; repeat++) {
            int iterations = nbytes > 100000 ? 200 : 1000;
            clear();
            k_put_signal_pingpong<<<1, 1024, 0, stream>>>(dest, source, nbytes, sig, me, iterations, ns);
            CHECK(cudaStreamSynchronize(stream));
            if (repeat) emit("put_signal_pingpong", nbytes, 1, 1024, (ns[1] - ns[0]) / 1e3 / iterations);
        }
    nvshmem_barrier_all();
    if (me == 0)
        alone("fetch_add", 8, 1, 1, [&](int n) { k_fetch_add<<<1, 1, 0, stream>>>(counter, n_pes - 1, n, ns); });
    nvshmem_barrier_all();
}

static const struct {
    int threads, blocks;
} shapes[] = {{1, 1}, {32, 1}, {128, 1}, {1024, 1}, {1024, 8}, {1024, 32}, {1024, 132}};

template <int OP> static void transfers(const char *thread_op, const char *block_op, char *dest, char *source) {
    for (auto shape : shapes)
        for (size_t nbytes = 8; me == 0 && nbytes <= (64ul << 20); nbytes = nbytes == (16ul << 20) ? 4 * nbytes : 8 * nbytes) {
            size_t part = nbytes / shape.blocks, even = (part >= 16 ? part / 16 * 16 : part) * shape.blocks;
            if (part < 8) continue;
            if (shape.threads == 1)
                alone(thread_op, nbytes, shape.blocks, 1, [&](int n) {
                    k_move<OP, false><<<shape.blocks, 1, 0, stream>>>(dest, source, even, 1, n, ns);
                });
            else
                alone(block_op, nbytes, shape.blocks, shape.threads, [&](int n) {
                    k_move<OP, true><<<shape.blocks, shape.threads, 0, stream>>>(dest, source, even, 1, n, ns);
                });
        }
    nvshmem_barrier_all();
}

template <int OP> static void meet(const char *thread_op, const char *warp_op, const char *block_op) {
    together(thread_op, 0, 1, 500, [&](int n) { k_meet<OP, THREAD><<<1, 1, 0, stream>>>(n, ns); });
    together(warp_op, 0, 32, 500, [&](int n) { k_meet<OP, WARP><<<1, 32, 0, stream>>>(n, ns); });
    for (int threads : {32, 1024})
        together(block_op, 0, threads, 500, [&](int n) { k_meet<OP, BLOCK><<<1, threads, 0, stream>>>(n, ns); });
}

template <int OP> static void exchange(const char *op, float *dest, float *source) {
    for (size_t nbytes = 8; nbytes <= (2ul << 20); nbytes *= 8)
        together(op, nbytes, 1024, nbytes < 100000 ? 200 : 40,
                 [&](int n) { k_exchange<OP><<<1, 1024, 0, stream>>>(dest, source, nbytes / 4, n, ns); });
}

static void collectives(float *dest, float *source) {
    meet<MEET_SYNC>("sync_all", "sync_all_warp", "sync_all_work_group");
    meet<MEET_BARRIER>("barrier_all", "barrier_all_warp", "barrier_all_work_group");
    exchange<X_FCOLLECT>("fcollect_work_group", dest, source);
    exchange<X_BROADCAST>("broadcast_work_group", dest, source);
    exchange<X_ALLTOALL>("alltoall_work_group", dest, source);
    exchange<X_SUM_REDUCE>("sum_reduce_work_group", dest, source);
}

int main(int argc, char **argv) {
    auto wanted = [&](const char *part) {
        for (int k = 1; k < argc; k++)
            if (!strcmp(argv[k], part)) return true;
        return argc == 1;
    };
    me = atoi(getenv("RANK"));
    n_pes = atoi(getenv("WORLD"));
    CHECK(cudaSetDevice(me));
    init();
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaHostAlloc((void **)&ns, 8192, 0));
    char *dest = (char *)nvshmem_malloc(64 << 20), *source = (char *)nvshmem_malloc(64 << 20);
    long *counter = (long *)nvshmem_calloc(64, 8);
    uint64_t *sig = (uint64_t *)nvshmem_calloc(64, 8);
    nvshmem_barrier_all();
    if (wanted("signals")) signals(dest, source, counter, sig);
    if (wanted("put") && n_pes > 1) transfers<PUT>("put", "put_work_group", dest, source);
    if (wanted("get") && n_pes > 1) transfers<GET>("get", "get_work_group", dest, source);
    if (wanted("collectives")) collectives((float *)dest, (float *)source);
    nvshmem_barrier_all();
    nvshmem_finalize();
    return 0;
}
