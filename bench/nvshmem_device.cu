// SPDX-License-Identifier: BSD-3-Clause
// The figures of device.py for NVSHMEM's device calls, timed the same way (inside the kernels), with
// the same names, so that compare.py can divide them. One process a PE: RANK, WORLD, UIDFILE.
#include <cuda_runtime.h>
#include <nvshmem.h>
#include <nvshmemx.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
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

enum { PUT, PUT_NBI, GET };

template <int OP> __global__ void __launch_bounds__(1024)
k_move(char *dest, char *source, size_t nbytes, int peer, int iterations, ns_t *ns) {
    size_t part = nbytes / gridDim.x, lo = part * blockIdx.x;
    ns_t begin = now();
    for (int i = 0; i < iterations; i++) {
        if (OP == PUT) nvshmemx_putmem_block(dest + lo, source + lo, part, peer);
        if (OP == PUT_NBI) {
            nvshmemx_putmem_nbi_block(dest + lo, source + lo, part, peer);
            __syncthreads();
        }
        if (OP == GET) nvshmemx_getmem_block(dest + lo, source + lo, part, peer);
    }
    __syncthreads();
    if (threadIdx.x == 0) nvshmem_quiet();
    __syncthreads();
    finish(ns, begin);
}

__global__ void k_put_thread(char *dest, char *source, size_t nbytes, int peer, int iterations, ns_t *ns) {
    ns_t begin = now();
    for (int i = 0; i < iterations; i++) nvshmem_putmem(dest, source, nbytes, peer);
    nvshmem_quiet();
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

template <bool BARRIER> __global__ void __launch_bounds__(1024) k_meet(int iterations, ns_t *ns) {
    ns_t begin = now();
    for (int i = 0; i < iterations; i++) BARRIER ? nvshmemx_barrier_all_block() : nvshmemx_sync_all_block();
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

static void measure(const char *op, size_t nbytes, int blocks, int threads, int iterations,
                    const std::function<void()> &launch, bool collective = false) {
    double best = 1e30;
    for (int repeat = 0; repeat < 6; repeat++) {
        if (collective) nvshmem_barrier_all();
        launch();
        CHECK(cudaGetLastError());
        CHECK(cudaStreamSynchronize(stream));
        ns_t begin = ns[0], end = ns[1];
        for (int block = 1; block < blocks; block++) {
            begin = std::min(begin, ns[2 * block]);
            end = std::max(end, ns[2 * block + 1]);
        }
        if (repeat) best = std::min(best, (double)(end - begin) / iterations / 1e3);
    }
    emit(op, nbytes, blocks, threads, best);
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

static void two_pes(char *dest, char *source, long *counter, uint64_t *sig) {
    auto clear = [&] {
        nvshmem_barrier_all();
        CHECK(cudaMemset(sig, 0, 8));
        CHECK(cudaDeviceSynchronize());
        nvshmem_barrier_all();
    };
    for (int repeat = 0; repeat < 4; repeat++) {
        clear();
        k_signal_pingpong<<<1, 1, 0, stream>>>(sig, me, 2000, ns);
        CHECK(cudaStreamSynchronize(stream));
        if (repeat) emit("signal_pingpong", 8, 1, 1, (ns[1] - ns[0]) / 2000 / 1e3);
    }
    for (size_t nbytes : {8ul, 1024ul, 65536ul, 1ul << 20})
        for (int repeat = 0; repeat < 3; repeat++) {
            int iterations = nbytes > 100000 ? 200 : 1000;
            clear();
            k_put_signal_pingpong<<<1, 1024, 0, stream>>>(dest, source, nbytes, sig, me, iterations, ns);
            CHECK(cudaStreamSynchronize(stream));
            if (repeat) emit("put_signal_pingpong", nbytes, 1, 1024, (ns[1] - ns[0]) / 1e3 / iterations);
        }
    nvshmem_barrier_all();
    for (size_t nbytes = 8; me == 0 && nbytes <= (16ul << 20); nbytes *= 8) {
        int n = nbytes > (1 << 20) ? 20 : 500;
        for (int threads : {32, 128, 1024}) {
            int m = threads == 1024 || nbytes <= (1 << 18) ? n : 4;
            measure("put_work_group", nbytes, 1, threads, m,
                    [&] { k_move<PUT><<<1, threads, 0, stream>>>(dest, source, nbytes, 1, m, ns); });
            measure("put_nbi_work_group", nbytes, 1, threads, m,
                    [&] { k_move<PUT_NBI><<<1, threads, 0, stream>>>(dest, source, nbytes, 1, m, ns); });
        }
        for (int blocks : {1, 8, 16, 64, 128}) {
            if (blocks > 1 && nbytes < 32768) break;
            measure("get_work_group", nbytes, blocks, 1024, n,
                    [&] { k_move<GET><<<blocks, 1024, 0, stream>>>(dest, source, nbytes, 1, n, ns); });
            if (blocks > 1)
                measure("put_work_group", nbytes, blocks, 1024, n,
                        [&] { k_move<PUT><<<blocks, 1024, 0, stream>>>(dest, source, nbytes, 1, n, ns); });
        }
        if (nbytes <= 32768)
            measure("put", nbytes, 1, 1, 200,
                    [&] { k_put_thread<<<1, 1, 0, stream>>>(dest, source, nbytes, 1, 200, ns); });
    }
    if (me == 0)
        measure("fetch_add", 8, 1, 1, 1000, [&] { k_fetch_add<<<1, 1, 0, stream>>>(counter, 1, 1000, ns); });
    nvshmem_barrier_all();
}

int main() {
    me = atoi(getenv("RANK"));
    n_pes = atoi(getenv("WORLD"));
    CHECK(cudaSetDevice(me));
    init();
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaHostAlloc((void **)&ns, 4096, 0));
    char *dest = (char *)nvshmem_malloc(16 << 20), *source = (char *)nvshmem_malloc(16 << 20);
    long *counter = (long *)nvshmem_calloc(64, 8);
    uint64_t *sig = (uint64_t *)nvshmem_calloc(64, 8);
    nvshmem_barrier_all();
    if (n_pes == 2) two_pes(dest, source, counter, sig);
    for (int threads : {32, 1024}) {
        measure("barrier_all_work_group", 0, 1, threads, 500,
                [&] { k_meet<true><<<1, threads, 0, stream>>>(500, ns); }, true);
        measure("sync_all_work_group", 0, 1, threads, 500,
                [&] { k_meet<false><<<1, threads, 0, stream>>>(500, ns); }, true);
    }
    nvshmem_barrier_all();
    nvshmem_finalize();
    return 0;
}
