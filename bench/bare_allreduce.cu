// SPDX-License-Identifier: BSD-3-Clause
// Bare-CUDA limits of an all-reduce (float32 sum) started from the host, over all visible GPUs of one process.
// nvcc -std=c++17 -O3 -arch=sm_90 bare_allreduce.cu -o bare_allreduce && ./bare_allreduce [NGPUS]
// JSON lines: algorithm, bytes, best grid, microseconds a call: "graph" (20 calls in one CUDA graph) and "launch" (back to back
// launches). Sums are checked. Algorithms: ll (one shot, pushes 8 B of data with two 4 B flags a 16 B store), ll12 (12 B + 4 B),
// pull (one shot, reads peers between two barriers of blocks), two (two shot: reads its part of every peer, writes the sum to all).
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <atomic>
#include <string>
#include <thread>
#include <vector>
#include <algorithm>
#include <cuda_runtime.h>
#define CK(x) do { cudaError_t e = (x); if (e != cudaSuccess) { printf("{\"error\": \"%s line %d\"}\n", cudaGetErrorString(e), __LINE__); exit(1); } } while (0)
constexpr int MAXP = 8;
struct Peers { float *src[MAXP], *dst[MAXP]; char *ll[MAXP]; unsigned *flag[MAXP]; };
__device__ inline void st_release(unsigned *p, unsigned v) { asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory"); }
__device__ inline unsigned ld_acquire(unsigned *p) { unsigned v; asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory"); return v; }
__device__ inline void st16(void *p, uint4 v) { asm volatile("st.volatile.global.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(p), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory"); }
__device__ inline uint4 ld16(const void *p) { uint4 v; asm volatile("ld.volatile.global.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p) : "memory"); return v; }
__device__ inline float4 ldnc(const float4 *p) { float4 v; asm volatile("ld.global.L1::no_allocate.v4.f32 {%0,%1,%2,%3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(p)); return v; }
// flags: [phase][from][block]; values only rise
__device__ inline void meet(const Peers &P, int me, int n, int phase, unsigned epoch) {
    __syncthreads();
    if (threadIdx.x < n) {
        int p = threadIdx.x;
        st_release(P.flag[p] + (phase * MAXP + me) * 1024 + blockIdx.x, epoch);
        while ((int)(ld_acquire(P.flag[me] + (phase * MAXP + p) * 1024 + blockIdx.x) - epoch) < 0) ;
    }
    __syncthreads();
}
__device__ inline unsigned next_epoch(const Peers &P, int me) { // counted on the GPU, so that graphs can be replayed
    __shared__ unsigned e;
    unsigned *c = P.flag[me] + 4 * MAXP * 1024 + blockIdx.x;
    if (threadIdx.x == 0) { e = *c + 1; *c = e; }
    __syncthreads();
    return e;
}
template <int WORDS> __global__ void ll(Peers P, int me, int n, size_t count, size_t room) {
    unsigned epoch = next_epoch(P, me);
    size_t units = (count + WORDS - 1) / WORDS, step = (size_t)gridDim.x * blockDim.x;
    size_t half = (epoch & 1) * (size_t)n * room;
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < units; i += step) {
        const float *s = P.src[me] + i * WORDS;
        uint4 v;
        if (WORDS == 2) { float2 f = i * 2 + 1 < count ? *(const float2 *)s : make_float2(s[0], 0); v = {__float_as_uint(f.x), epoch, __float_as_uint(f.y), epoch}; }
        else v = {__float_as_uint(s[0]), i * 3 + 1 < count ? __float_as_uint(s[1]) : 0, i * 3 + 2 < count ? __float_as_uint(s[2]) : 0, epoch};
        for (int k = 1; k < n; k++) { int p = (me + k) % n; st16(P.ll[p] + half + me * room + i * 16, v); }
        float a = 0, b = 0, c = 0;
        for (int p = 0; p < n; p++) {
            uint4 r = v;
            if (p != me) do r = ld16(P.ll[me] + half + p * room + i * 16); while (r.w != epoch || (WORDS == 2 && r.y != epoch));
            a += __uint_as_float(r.x); b += __uint_as_float(WORDS == 2 ? r.z : r.y); c += __uint_as_float(r.z);
        }
        float *d = P.dst[me] + i * WORDS;
        d[0] = a; if (i * WORDS + 1 < count) d[1] = b; if (WORDS == 3 && i * 3 + 2 < count) d[2] = c;
    }
}
__global__ void pull(Peers P, int me, int n, size_t count) {
    unsigned epoch = next_epoch(P, me);
    meet(P, me, n, 0, epoch);
    size_t units = (count + 3) / 4, step = (size_t)gridDim.x * blockDim.x;
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    for (; i + 3 * step < units; i += 4 * step) {
        float4 s[4] = {};
        for (int p = 0; p < n; p++) { float4 v[4];
#pragma unroll
            for (int k = 0; k < 4; k++) v[k] = ldnc((const float4 *)P.src[p] + i + k * step);
#pragma unroll
            for (int k = 0; k < 4; k++) s[k].x += v[k].x, s[k].y += v[k].y, s[k].z += v[k].z, s[k].w += v[k].w; }
#pragma unroll
        for (int k = 0; k < 4; k++) ((float4 *)P.dst[me])[i + k * step] = s[k];
    }
    for (; i < units; i += step) {
        float4 s = {};
        for (int p = 0; p < n; p++) { float4 v = ldnc((const float4 *)P.src[p] + i); s.x += v.x; s.y += v.y; s.z += v.z; s.w += v.w; }
        ((float4 *)P.dst[me])[i] = s;
    }
    meet(P, me, n, 1, epoch);
}
__global__ void two(Peers P, int me, int n, size_t count) {
    unsigned epoch = next_epoch(P, me);
    meet(P, me, n, 0, epoch);
    size_t units = (count + 3) / 4, part = (units + n - 1) / n, begin = me * part, end = min(units, begin + part), step = (size_t)gridDim.x * blockDim.x;
    size_t i = begin + blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    for (; i + 3 * step < end; i += 4 * step) {
        float4 s[4] = {};
        for (int p = 0; p < n; p++) { float4 v[4];
#pragma unroll
            for (int k = 0; k < 4; k++) v[k] = ldnc((const float4 *)P.src[p] + i + k * step);
#pragma unroll
            for (int k = 0; k < 4; k++) s[k].x += v[k].x, s[k].y += v[k].y, s[k].z += v[k].z, s[k].w += v[k].w; }
        for (int p = 0; p < n; p++)
#pragma unroll
            for (int k = 0; k < 4; k++) ((float4 *)P.dst[(me + p) % n])[i + k * step] = s[k];
    }
    for (; i < end; i += step) {
        float4 s = {};
        for (int p = 0; p < n; p++) { float4 v = ldnc((const float4 *)P.src[p] + i); s.x += v.x; s.y += v.y; s.z += v.z; s.w += v.w; }
        for (int p = 0; p < n; p++) ((float4 *)P.dst[(me + p) % n])[i] = s;
    }
    meet(P, me, n, 1, epoch);
}
std::atomic<int> turn{0};
void everyone(int n) { static thread_local int round = 0; round++; turn++; while (turn.load() < round * n) ; }
int main(int argc, char **argv) {
    int n = 0; CK(cudaGetDeviceCount(&n)); if (argc > 1) n = std::min(n, atoi(argv[1]));
    const size_t most = 256 << 20, room = 8 << 20; // room: of one PE's messages in the ll buffers
    Peers P{};
    for (int d = 0; d < n; d++) {
        CK(cudaSetDevice(d));
        for (int q = 0; q < n; q++) if (q != d) CK(cudaDeviceEnablePeerAccess(q, 0));
        CK(cudaMalloc(&P.src[d], most)); CK(cudaMalloc(&P.dst[d], most)); CK(cudaMalloc(&P.ll[d], 2 * n * room));
        CK(cudaMalloc(&P.flag[d], 5 * MAXP * 1024 * 4)); CK(cudaMemset(P.flag[d], 0, 5 * MAXP * 1024 * 4)); CK(cudaMemset(P.ll[d], 0, 2 * n * room));
        std::vector<float> h(most / 4); for (size_t i = 0; i < h.size(); i++) h[i] = (float)((i * 7 + d * 3) % 1000);
        CK(cudaMemcpy(P.src[d], h.data(), most, cudaMemcpyHostToDevice)); CK(cudaDeviceSynchronize());
    }
    std::vector<double> took(n);
    auto worker = [&](int d) {
        CK(cudaSetDevice(d)); cudaStream_t s; CK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking)); cudaEvent_t a, b; CK(cudaEventCreate(&a)); CK(cudaEventCreate(&b));
        for (size_t bytes : {8ul, 1024ul, 4096ul, 16384ul, 65536ul, 262144ul, 1048576ul, 4194304ul, 16777216ul, 67108864ul, 268435456ul})
            for (const char *name : {"ll", "ll12", "pull", "two"}) {
                std::string op = name; if (op[0] == 'l' && bytes * 2 > room) continue;
                double best[2] = {1e9, 1e9}; int grid[2][2] = {}; bool right = true;
                for (int blocks : {1, 2, 4, 8, 16, 32, 64, 132}) for (int threads : {256, 512, 1024}) {
                    if ((size_t)blocks * threads * 4 > bytes * 4 + 4096) continue;
                    size_t count = bytes / 4; int calls = bytes >= (64 << 20) ? 5 : 20;
                    auto call = [&] {
                        if (op == "ll") ll<2><<<blocks, threads, 0, s>>>(P, d, n, count, room);
                        else if (op == "ll12") ll<3><<<blocks, threads, 0, s>>>(P, d, n, count, room);
                        else if (op == "pull") pull<<<blocks, threads, 0, s>>>(P, d, n, count);
                        else two<<<blocks, threads, 0, s>>>(P, d, n, count); };
                    // flags of a block count their own epochs; a change of grid would leave blocks behind, so all begin at 0 again
                    everyone(n); CK(cudaMemsetAsync(P.flag[d], 0, 5 * MAXP * 1024 * 4, s)); CK(cudaMemsetAsync(P.ll[d], 0, 2 * n * room, s)); CK(cudaMemsetAsync(P.dst[d], 0xff, std::min(bytes, (size_t)4 << 20), s)); CK(cudaStreamSynchronize(s)); everyone(n);
                    cudaGraph_t g; cudaGraphExec_t x;
                    CK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal)); for (int i = 0; i < calls; i++) call(); CK(cudaStreamEndCapture(s, &g)); CK(cudaGraphInstantiate(&x, g, 0));
                    for (int mode = 0; mode < 2; mode++) {
                        double least = 1e9;
                        for (int r = 0; r < 4; r++) {
                            everyone(n);
                            if (mode == 0) { CK(cudaGraphLaunch(x, s)); CK(cudaEventRecord(a, s)); CK(cudaGraphLaunch(x, s)); CK(cudaEventRecord(b, s)); }
                            else { call(); CK(cudaEventRecord(a, s)); for (int i = 0; i < calls; i++) call(); CK(cudaEventRecord(b, s)); }
                            CK(cudaStreamSynchronize(s)); float ms; CK(cudaEventElapsedTime(&ms, a, b)); took[d] = ms * 1e3 / calls;
                            everyone(n); double m = *std::max_element(took.begin(), took.end()); everyone(n); least = std::min(least, m);
                        }
                        if (least < best[mode]) { best[mode] = least; grid[mode][0] = blocks; grid[mode][1] = threads; }
                    }
                    size_t look = std::min(count, (size_t)1 << 18); std::vector<float> h(look);
                    CK(cudaMemcpy(h.data(), P.dst[d] + (count - look), look * 4, cudaMemcpyDeviceToHost));
                    for (size_t i = 0; i < look; i++) { float want = 0; for (int q = 0; q < n; q++) want += (float)(((i + count - look) * 7 + q * 3) % 1000); if (h[i] != want) { right = false; break; } }
                    CK(cudaGraphExecDestroy(x)); CK(cudaGraphDestroy(g)); everyone(n);
                }
                if (d == 0) { printf("{\"peer\": \"cuda\", \"op\": \"all_reduce_%s\", \"bytes\": %zu, \"pes\": %d, \"us_graph\": %.2f, \"grid_graph\": \"%dx%d\", \"us_launch\": %.2f, \"grid_launch\": \"%dx%d\", \"right\": %s}\n", name, bytes, n, best[0], grid[0][0], grid[0][1], best[1], grid[1][0], grid[1][1], right ? "true" : "false"); fflush(stdout); }
            }
    };
    std::vector<std::thread> t; for (int d = 0; d < n; d++) t.emplace_back(worker, d); for (auto &x : t) x.join();
}
