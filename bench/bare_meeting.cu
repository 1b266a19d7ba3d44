// SPDX-License-Identifier: BSD-3-Clause
// What a meeting of two GPUs by flags is made of: the fence, the way a flag is raised, and what was stored before.
//
// Build and run: nvcc -std=c++17 -O3 -arch=sm_90 bare_meeting.cu -o bare_meeting && ./bare_meeting
// One process, two GPUs that reach each other, one thread on each; 2,000 meetings, the least and the median of seven
// runs. The cost of a fence by itself is in cycles. Loads that wait are acquires.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

typedef unsigned long long u64;
#define CHECK(call)                                                                    \
    do {                                                                               \
        cudaError_t error_ = (call);                                                   \
        if (error_ != cudaSuccess) {                                                   \
            printf("%s:%d %s\n", __FILE__, __LINE__, cudaGetErrorString(error_));      \
            exit(1);                                                                   \
        }                                                                              \
    } while (0)

enum fence_t { NO_FENCE, FENCE_SYSTEM, FENCE_SC, FENCE_GPU };
enum raise_t { STORE, REDUCTION, RELEASING_STORE, RELEASING_REDUCTION, FETCHING_ATOMIC };
enum before_t { NOTHING, OWN_STORE, FAR_STORE, FAR_REDUCTION, HOST_STORE };
static const char *fences[] = {"no fence", "fence.acq_rel.sys", "fence.sc.sys", "fence.acq_rel.gpu"};
static const char *raises[] = {"st", "red", "st.release", "red.release", "atom"};
static const char *firsts[] = {"nothing", "a store of its own", "a store to the peer", "a reduction at the peer",
                                "a store to the host"};

__device__ u64 now() {
    u64 time;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(time));
    return time;
}

template <int FENCE> __device__ void fence() {
    if (FENCE == FENCE_SYSTEM) asm volatile("fence.acq_rel.sys;" ::: "memory");
    if (FENCE == FENCE_SC) asm volatile("fence.sc.sys;" ::: "memory");
    if (FENCE == FENCE_GPU) asm volatile("fence.acq_rel.gpu;" ::: "memory");
}

template <int RAISE> __device__ void raise_flag(u64 *flag, u64 value) {
    u64 old;
    if (RAISE == STORE) asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(flag), "l"(value) : "memory");
    if (RAISE == REDUCTION) asm volatile("red.relaxed.sys.global.add.u64 [%0], 1;" ::"l"(flag) : "memory");
    if (RAISE == RELEASING_STORE) asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(flag), "l"(value) : "memory");
    if (RAISE == RELEASING_REDUCTION) asm volatile("red.release.sys.global.add.u64 [%0], 1;" ::"l"(flag) : "memory");
    if (RAISE == FETCHING_ATOMIC)
        asm volatile("atom.relaxed.sys.global.add.u64 %0, [%1], 1;" : "=l"(old) : "l"(flag) : "memory");
}

__device__ u64 seen(u64 *flag) {
    u64 value;
    asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(flag) : "memory");
    return value;
}

template <int BEFORE> __device__ void before(u64 *own, u64 *far, u64 *host, u64 k) {
    if (BEFORE == OWN_STORE) own[8] = k;
    if (BEFORE == FAR_STORE) far[8] = k;
    if (BEFORE == FAR_REDUCTION) asm volatile("red.relaxed.sys.global.add.u64 [%0], 1;" ::"l"(far + 8) : "memory");
    if (BEFORE == HOST_STORE) *(volatile u64 *)host = k;
}

template <int BEFORE, int FENCE, int RAISE> __global__ void meet(u64 *mine, u64 *theirs, u64 *host, int n, u64 *ns) {
    u64 begin = now();
    for (u64 k = 1; k <= (u64)n; k++) {
        before<BEFORE>(mine, theirs, host, k);
        fence<FENCE>();
        raise_flag<RAISE>(theirs, k);
        while (seen(mine) < k) {}
    }
    ns[0] = begin;
    ns[1] = now();
}

template <int BEFORE, int FENCE> __global__ void alone(u64 *mine, u64 *theirs, u64 *host, u64 *cycles) {
    u64 total = 0;
    for (int k = 0; k < 64; k++) {
        u64 begin = clock64();
        while (clock64() - begin < 6000) {} // what was stored before has arrived
        before<BEFORE>(mine, theirs, host, k);
        begin = clock64();
        fence<FENCE>();
        if (k >= 4) total += clock64() - begin;
    }
    *cycles = total / 60;
}

static u64 *flags[2], *times[2], *host;
static cudaStream_t streams[2];

template <int BEFORE, int FENCE, int RAISE> static void meetings() {
    const int n = 2000, runs = 7;
    double us[runs];
    for (double &one : us) {
        for (int gpu = 0; gpu < 2; gpu++) {
            CHECK(cudaSetDevice(gpu));
            CHECK(cudaMemset(flags[gpu], 0, 8));
            CHECK(cudaDeviceSynchronize());
        }
        for (int gpu = 0; gpu < 2; gpu++) {
            CHECK(cudaSetDevice(gpu));
            meet<BEFORE, FENCE, RAISE>
                <<<1, 1, 0, streams[gpu]>>>(flags[gpu], flags[1 - gpu], host + 64 * gpu, n, times[gpu]);
            CHECK(cudaGetLastError());
        }
        for (int gpu = 0; gpu < 2; gpu++) CHECK(cudaStreamSynchronize(streams[gpu]));
        // Of the one that came last: the other has waited for it.
        one = std::min(times[0][1] - times[0][0], times[1][1] - times[1][0]) / 1e3 / n;
    }
    std::sort(us, us + runs);
    printf("meeting  %-18s %-12s behind %-24s %.3f %.3f us\n", fences[FENCE], raises[RAISE], firsts[BEFORE], us[0],
           us[runs / 2]);
}

template <int BEFORE, int FENCE> static void one_fence() {
    CHECK(cudaSetDevice(0));
    for (int run = 0; run < 2; run++) {
        alone<BEFORE, FENCE><<<1, 1, 0, streams[0]>>>(flags[0], flags[1], host, times[0]);
        CHECK(cudaStreamSynchronize(streams[0]));
    }
    printf("fence    %-18s %-12s behind %-24s %llu cycles\n", fences[FENCE], "", firsts[BEFORE], times[0][0]);
}

int main() {
    CHECK(cudaHostAlloc((void **)&host, 4096, cudaHostAllocPortable | cudaHostAllocMapped));
    for (int gpu = 0; gpu < 2; gpu++) {
        CHECK(cudaSetDevice(gpu));
        CHECK(cudaDeviceEnablePeerAccess(1 - gpu, 0));
        CHECK(cudaMalloc((void **)&flags[gpu], 1 << 20));
        CHECK(cudaMemset(flags[gpu], 0, 1 << 20));
        CHECK(cudaHostAlloc((void **)&times[gpu], 64, cudaHostAllocPortable | cudaHostAllocMapped));
        CHECK(cudaStreamCreateWithFlags(&streams[gpu], cudaStreamNonBlocking));
    }
    one_fence<NOTHING, FENCE_SYSTEM>();
    one_fence<NOTHING, FENCE_GPU>();
    one_fence<OWN_STORE, FENCE_SYSTEM>();
    one_fence<FAR_STORE, FENCE_SYSTEM>();
    one_fence<FAR_REDUCTION, FENCE_SYSTEM>();
    one_fence<HOST_STORE, FENCE_SYSTEM>();
    meetings<NOTHING, NO_FENCE, STORE>();
    meetings<NOTHING, NO_FENCE, REDUCTION>();
    meetings<NOTHING, NO_FENCE, RELEASING_STORE>();
    meetings<NOTHING, NO_FENCE, RELEASING_REDUCTION>();
    meetings<NOTHING, FENCE_SYSTEM, STORE>();
    meetings<NOTHING, FENCE_SYSTEM, REDUCTION>();
    meetings<NOTHING, FENCE_SYSTEM, FETCHING_ATOMIC>();
    meetings<NOTHING, FENCE_SC, REDUCTION>();
    meetings<NOTHING, FENCE_GPU, REDUCTION>();
    meetings<OWN_STORE, FENCE_SYSTEM, STORE>();
    meetings<OWN_STORE, FENCE_SYSTEM, REDUCTION>();
    return 0;
}
