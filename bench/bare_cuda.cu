// SPDX-License-Identifier: BSD-3-Clause
// What bare CUDA does between two GPUs of one process, timed inside the kernels as device.py does:
// stores by blocks of 1024 threads with four 16-byte loads in flight, and a flag ping-pong.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

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

__global__ void __launch_bounds__(1024) k_copy(uint4 *dest, const uint4 *source, size_t n, int iterations, ns_t *ns) {
    size_t part = n / gridDim.x, lo = part * blockIdx.x;
    uint4 *d = dest + lo;
    const uint4 *s = source + lo;
    ns_t begin = now();
    for (int i = 0; i < iterations; i++) {
        size_t k = threadIdx.x, step = blockDim.x;
        for (; k + 3 * step < part; k += 4 * step) {
            uint4 v0 = s[k], v1 = s[k + step], v2 = s[k + 2 * step], v3 = s[k + 3 * step];
            d[k] = v0;
            d[k + step] = v1;
            d[k + 2 * step] = v2;
            d[k + 3 * step] = v3;
        }
        for (; k < part; k += step) d[k] = s[k];
        __syncthreads();
    }
    __threadfence_system();
    __syncthreads();
    if (threadIdx.x == 0) {
        ns[2 * blockIdx.x] = begin;
        ns[2 * blockIdx.x + 1] = now();
    }
}

__global__ void k_pingpong(volatile uint64_t *mine, volatile uint64_t *peer, int iterations, int first, ns_t *ns) {
    ns_t begin = now();
    for (int i = 1; i <= iterations; i++) {
        if (first) *peer = i;
        while (*mine < (uint64_t)i) {
        }
        if (!first) *peer = i;
    }
    ns[0] = begin;
    ns[1] = now();
}

int main() {
    const size_t most = 64 << 20;
    char *source, *dest;
    uint64_t *flags[2];
    ns_t *ns[2];
    for (int gpu = 0; gpu < 2; gpu++) {
        CHECK(cudaSetDevice(gpu));
        CHECK(cudaDeviceEnablePeerAccess(1 - gpu, 0));
        CHECK(cudaMalloc(gpu ? (void **)&dest : (void **)&source, most));
        CHECK(cudaMalloc((void **)&flags[gpu], 256));
        CHECK(cudaMemset(flags[gpu], 0, 256));
        CHECK(cudaHostAlloc((void **)&ns[gpu], 4096, cudaHostAllocPortable));
        CHECK(cudaDeviceSynchronize());
    }
    for (int gpu = 0; gpu < 2; gpu++) {
        CHECK(cudaSetDevice(gpu));
        k_pingpong<<<1, 1>>>(flags[gpu], flags[1 - gpu], 2000, gpu == 0, ns[gpu]);
    }
    for (int gpu = 0; gpu < 2; gpu++) {
        CHECK(cudaSetDevice(gpu));
        CHECK(cudaDeviceSynchronize());
    }
    const char *row = "{\"peer\": \"cuda\", \"op\": \"%s\", \"bytes\": %zu, \"pes\": 2, \"blocks\": %d, \"threads\": %d, "
                      "\"us\": %.4f}\n";
    printf(row, "signal_pingpong", (size_t)8, 1, 1, (ns[0][1] - ns[0][0]) / 2000 / 1e3);
    CHECK(cudaSetDevice(0));
    for (size_t nbytes : {4096ul, 32768ul, 262144ul, 2ul << 20, 16ul << 20, 64ul << 20})
        for (int blocks : {1, 8, 32, 132}) {
            int n = nbytes > (1 << 20) ? 20 : 500;
            double best = 1e30;
            for (int repeat = 0; repeat < 6; repeat++) {
                k_copy<<<blocks, 1024>>>((uint4 *)dest, (uint4 *)source, nbytes / 16, n, ns[0]);
                CHECK(cudaGetLastError());
                CHECK(cudaDeviceSynchronize());
                ns_t begin = ns[0][0], end = ns[0][1];
                for (int b = 1; b < blocks; b++) {
                    begin = std::min(begin, ns[0][2 * b]);
                    end = std::max(end, ns[0][2 * b + 1]);
                }
                if (repeat) best = std::min(best, (double)(end - begin) / n / 1e3);
            }
            printf(row, "put_work_group", nbytes, blocks, 1024, best);
        }
    return 0;
}
