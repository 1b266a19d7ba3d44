// SPDX-License-Identifier: BSD-3-Clause
// What bare CUDA does when a kernel asks a host thread for something: the round trip of an empty request, requests
// a second, and copies to the other GPU by a copy engine whose stream answers in the asking GPU's memory.
// The rows have the names of device.py's. Needs two GPUs for the copies.
#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#define CHECK(call)                                                                     \
    do {                                                                                \
        cudaError_t error = (call);                                                     \
        if (error != cudaSuccess) {                                                     \
            printf("%s line %d: %s\n", #call, __LINE__, cudaGetErrorString(error));     \
            exit(1);                                                                    \
        }                                                                               \
    } while (0)

typedef unsigned long long ns_t;
typedef CUresult (*write_value_t)(CUstream, CUdeviceptr, cuuint64_t, unsigned);

constexpr int SLOTS = 1024, SENDERS = 128 * 128, EACH = 4;

struct alignas(64) request_t {
    uint64_t dest, source, nbytes, unused[4], tag;
};

__device__ __forceinline__ ns_t now() {
    ns_t t;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
    return t;
}

// One request at a time, told by a release and answered by its number.
__global__ void k_ask(request_t *slots, uint64_t *reply, char *dest, char *source, size_t nbytes, int iterations, ns_t *ns) {
    ns_t begin = now();
    for (uint64_t i = 1; i <= (uint64_t)iterations; i++) {
        request_t *slot = slots + i % SLOTS;
        slot->dest = (uint64_t)dest;
        slot->source = (uint64_t)source;
        slot->nbytes = nbytes;
        asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(&slot->tag), "l"(i) : "memory");
        uint64_t seen = 0;
        while (seen != i) asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(seen) : "l"(reply) : "memory");
        asm volatile("fence.acq_rel.sys;" ::: "memory");
    }
    *ns = now() - begin;
}

// A slot for every request, so that nothing is waited for: four 16-byte stores that each carry the run's mark.
__global__ void k_tell(uint4 *slots, unsigned *ticket, unsigned mark) {
    for (int i = 0; i < EACH; i++) {
        uint4 *slot = slots + 4ul * atomicAdd(ticket, 1);
        for (int word = 0; word < 4; word++) __stwt(slot + word, make_uint4(mark, i, word, threadIdx.x));
    }
}

static void emit(const char *peer, const char *op, size_t nbytes, int blocks, int threads, double us) {
    printf("{\"peer\": \"%s\", \"op\": \"%s\", \"bytes\": %zu, \"pes\": 2, \"blocks\": %d, \"threads\": %d, \"us\": %.5f}\n",
           peer, op, nbytes, blocks, threads, us);
    fflush(stdout);
}

static request_t *slots;
static cudaStream_t asking, copying;
static ns_t *ns;

// Microseconds a request; with bytes to copy the copying stream stores the reply behind the copy.
static double ask(uint64_t *reply, char *dest, char *source, size_t nbytes, int iterations, write_value_t write_value) {
    memset((void *)slots, 0, SLOTS * sizeof *slots);
    if (nbytes)
        CHECK(cudaMemset(reply, 0, 8));
    else
        *reply = 0; // it is on the host
    CHECK(cudaDeviceSynchronize());
    k_ask<<<1, 1, 0, asking>>>(slots, reply, dest, source, nbytes, iterations, ns);
    CHECK(cudaGetLastError());
    for (uint64_t i = 1; i <= (uint64_t)iterations; i++) {
        request_t *slot = slots + i % SLOTS;
        while (__atomic_load_n(&slot->tag, __ATOMIC_ACQUIRE) != i) {
        }
        if (!nbytes) {
            __atomic_store_n(reply, i, __ATOMIC_RELEASE);
            continue;
        }
        CHECK(cudaMemcpyAsync((void *)slot->dest, (void *)slot->source, slot->nbytes, cudaMemcpyDefault, copying));
        if (write_value(copying, (CUdeviceptr)reply, i, 0) != CUDA_SUCCESS) exit(1);
    }
    CHECK(cudaDeviceSynchronize());
    return *ns / 1e3 / iterations;
}

static double least_of(int runs, uint64_t *reply, char *dest, char *source, size_t nbytes, write_value_t write_value) {
    double best = 1e30;
    for (int run = 0; run < runs; run++)
        best = std::min(best, ask(reply, dest, source, nbytes, nbytes > (1 << 20) ? 30 : 500, write_value));
    return best;
}

static void requests() {
    const size_t count = (size_t)SENDERS * EACH;
    uint32_t *words;
    unsigned *ticket;
    CHECK(cudaHostAlloc((void **)&words, count * 64, 0));
    CHECK(cudaMalloc((void **)&ticket, 4));
    memset(words, 0, count * 64);
    double best = 1e30;
    for (unsigned mark = 1; mark <= 5; mark++) {
        CHECK(cudaMemset(ticket, 0, 4));
        CHECK(cudaDeviceSynchronize());
        k_tell<<<128, 128, 0, asking>>>((uint4 *)words, ticket, mark);
        CHECK(cudaGetLastError());
        std::chrono::steady_clock::time_point begin;
        for (size_t k = 0; k < count; k++) {
            for (int word = 0; word < 4; word++)
                while (__atomic_load_n(words + 16 * k + 4 * word, __ATOMIC_ACQUIRE) != mark) {
                }
            if (k == 0) begin = std::chrono::steady_clock::now();
        }
        std::chrono::duration<double, std::micro> us = std::chrono::steady_clock::now() - begin;
        CHECK(cudaDeviceSynchronize());
        if (mark > 1) best = std::min(best, us.count() / count);
    }
    emit("cuda", "ring_request", 0, 128, 128, best);
}

int main() {
    const size_t most = 64 << 20;
    char *source, *dest;
    uint64_t *pinned, *near;
    int gpus;
    void *entry = nullptr;
    cudaDriverEntryPointQueryResult found;
    CHECK(cudaGetDeviceCount(&gpus));
    CHECK(cudaGetDriverEntryPointByVersion("cuStreamWriteValue64", &entry, 12000, cudaEnableDefault, &found));
    CHECK(cudaHostAlloc((void **)&slots, SLOTS * sizeof *slots, cudaHostAllocPortable));
    CHECK(cudaHostAlloc((void **)&pinned, 64, cudaHostAllocPortable));
    CHECK(cudaHostAlloc((void **)&ns, 8, cudaHostAllocPortable));
    CHECK(cudaStreamCreateWithFlags(&asking, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&copying, cudaStreamNonBlocking));
    CHECK(cudaMalloc((void **)&source, most));
    CHECK(cudaMalloc((void **)&near, 64));
    emit("cuda", "ring_null", 0, 1, 1, least_of(4, pinned, nullptr, nullptr, 0, nullptr));
    requests();
    if (gpus < 2) return 0;
    CHECK(cudaDeviceEnablePeerAccess(1, 0));
    CHECK(cudaSetDevice(1));
    CHECK(cudaMalloc((void **)&dest, most));
    CHECK(cudaSetDevice(0));
    for (size_t nbytes : {4096ul, 32768ul, 262144ul, 2ul << 20, 16ul << 20, 64ul << 20})
        emit("cuda engine", "put_work_group", nbytes, 1, 1024,
             least_of(4, near, dest, source, nbytes, (write_value_t)entry));
    return 0;
}
