// SPDX-License-Identifier: BSD-3-Clause
// A put of few bytes by a block of 1,024 threads in bare CUDA, by how its warps meet before they copy. All meet behind it.
//   0 not at all; 1 all, as put_work_group does; 2 warps without a share arrive, and only the others wait; 3 those with a share
//   alone (256 threads: 4 KiB), which does not see what the others wrote; 4 as 2, and the copy is left out for the rest;
//   5 as 2, by barriers of threads in place of warps.
// nvcc -O3 -arch=sm_90 -o put_variants put_variants.cu && ./put_variants        (two GPUs)
#include <cuda_runtime.h>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#define CHECK(call) do { cudaError_t e = (call); if (e != cudaSuccess) { printf("%s: %s\n", #call, cudaGetErrorString(e)); exit(1); } } while (0)
typedef unsigned long long ns_t;
__device__ __forceinline__ ns_t now() { ns_t t; asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t)); return t; }
template <int KIND> __global__ void __launch_bounds__(1024) k_copy(uint4 *d, const uint4 *s, size_t part, int iterations, ns_t *ns) {
    ns_t begin = now();
    bool idle = (threadIdx.x & ~31u) >= part;
    for (int i = 0; i < iterations; i++) {
        size_t k = threadIdx.x, step = blockDim.x;
        if (KIND == 1) __syncthreads();
        if (KIND == 2 || KIND == 4) {
            if (idle) asm volatile("barrier.cta.arrive.aligned 1, 1024;" ::: "memory");
            else asm volatile("barrier.cta.sync.aligned 1, 1024;" ::: "memory");
        }
        if (KIND == 3) { if (!idle) asm volatile("barrier.cta.sync.aligned 1, 256;" ::: "memory"); }
        if (KIND == 5) {
            if (idle) asm volatile("barrier.cta.arrive 1, 1024;" ::: "memory");
            else asm volatile("barrier.cta.sync 1, 1024;" ::: "memory");
        }
        if (KIND != 4 || !idle) {
        for (; k + 3 * step < part; k += 4 * step) {
            uint4 v0 = s[k], v1 = s[k + step], v2 = s[k + 2 * step], v3 = s[k + 3 * step];
            d[k] = v0; d[k + step] = v1; d[k + 2 * step] = v2; d[k + 3 * step] = v3;
        }
        for (; k < part; k += step) d[k] = s[k];
        }
        if (KIND == 5) asm volatile("barrier.cta.sync 0;" ::: "memory"); else __syncthreads();
    }
    __threadfence_system();
    __syncthreads();
    if (threadIdx.x == 0) { ns[0] = begin; ns[1] = now(); }
}
int main() {
    char *source, *dest; ns_t *ns;
    CHECK(cudaSetDevice(1)); CHECK(cudaMalloc((void **)&dest, 64 << 20));
    CHECK(cudaSetDevice(0)); CHECK(cudaDeviceEnablePeerAccess(1, 0)); CHECK(cudaMalloc((void **)&source, 64 << 20));
    CHECK(cudaHostAlloc((void **)&ns, 4096, cudaHostAllocPortable));
    void (*kinds[])(uint4 *, const uint4 *, size_t, int, ns_t *) = {k_copy<0>, k_copy<1>, k_copy<2>, k_copy<3>, k_copy<4>, k_copy<5>};
    for (int round = 0; round < 2; round++)
    for (size_t nbytes : {512ul, 4096ul, 16384ul})
        for (int kind = 0; kind < 6; kind++) {
            if (kind == 3 && nbytes != 4096) continue;
            double best = 1e30;
            for (int repeat = 0; repeat < 9; repeat++) {
                kinds[kind]<<<1, 1024>>>((uint4 *)dest, (uint4 *)source, nbytes / 16, 2000, ns);
                CHECK(cudaGetLastError()); CHECK(cudaDeviceSynchronize());
                if (repeat) best = std::min(best, (double)(ns[1] - ns[0]) / 2000 / 1e3);
            }
            printf("bare variant %d bytes %zu us %.4f\n", kind, nbytes, best);
        }
    return 0;
}
