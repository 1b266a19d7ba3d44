// SPDX-License-Identifier: BSD-3-Clause
// The figures of streams_pe.py for NVSHMEM's calls on a stream, eager and in a graph, one JSON line each.
// One process a PE: RANK, WORLD, UIDFILE, as nvshmem_device.cu. BENCH_OPS and BENCH_SIZES as streams_pe.py.
#include <cuda_runtime.h>
#include <nvshmem.h>
#include <nvshmemx.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <sstream>
#include <string>
#include <unistd.h>
#include <vector>

#define CHECK(call)                                                                 \
    do {                                                                            \
        cudaError_t error = (call);                                                 \
        if (error != cudaSuccess) {                                                 \
            printf("%s line %d: %s\n", #call, __LINE__, cudaGetErrorString(error)); \
            exit(1);                                                                \
        }                                                                           \
    } while (0)

static int me, n;
static cudaStream_t stream;
static float *worst;

static float most(float value) {
    float result;
    CHECK(cudaMemcpy(worst, &value, sizeof value, cudaMemcpyHostToDevice));
    nvshmem_float_max_reduce(NVSHMEM_TEAM_WORLD, worst + 1, worst, 1);
    CHECK(cudaMemcpy(&result, worst + 1, sizeof result, cudaMemcpyDeviceToHost));
    return result;
}

// Does a list with commas, of beginnings of names, name it? An empty one names everything.
static bool wanted(const char *variable, const std::string &name, bool whole) {
    const char *text = getenv(variable);
    std::string item;
    if (!text || !*text) return true;
    for (std::stringstream list(text); std::getline(list, item, ',');)
        if (whole ? item == name : !item.empty() && !name.compare(0, item.size(), item)) return true;
    return false;
}

static void emit(const char *op, size_t nbytes, const std::function<void()> &call) {
    if (!wanted("BENCH_OPS", op, false)) return;
    int calls = nbytes < (1u << 20) ? 20 : nbytes < (1u << 25) ? 6 : 2; // its reductions of MiBs take milliseconds
    float figure[2] = {-1, -1};
    for (int graph = 0; graph < 2; graph++) {
        cudaGraph_t captured = nullptr;
        cudaGraphExec_t executable = nullptr;
        std::function<void()> many = [&] { for (int i = 0; i < calls; i++) call(); };
        if (graph) {
            if (cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed)) continue;
            many();
            if (cudaStreamEndCapture(stream, &captured) || cudaGraphInstantiate(&executable, captured, 0)) {
                cudaGetLastError();
                continue;
            }
            many = [&] { CHECK(cudaGraphLaunch(executable, stream)); };
        }
        std::vector<float> values;
        for (int repeat = 0; repeat < 3; repeat++) {
            cudaEvent_t begin, end;
            float ms;
            CHECK(cudaEventCreate(&begin));
            CHECK(cudaEventCreate(&end));
            nvshmem_barrier_all();
            many();
            CHECK(cudaEventRecord(begin, stream));
            many();
            CHECK(cudaEventRecord(end, stream));
            CHECK(cudaEventSynchronize(end));
            CHECK(cudaEventElapsedTime(&ms, begin, end));
            values.push_back(ms * 1e3f / calls);
        }
        std::sort(values.begin(), values.end());
        figure[graph] = most(values[1]);
    }
    if (me == 0) {
        printf("{\"peer\": \"nvshmem\", \"op\": \"%s\", \"bytes\": %zu, \"pes\": %d, \"us_eager\": %.2f, ", op, nbytes, n,
               figure[0]);
        if (figure[1] < 0) printf("\"us_graph\": null}\n");
        else printf("\"us_graph\": %.2f}\n", figure[1]);
        fflush(stdout);
    }
}

int main() {
    int rank = atoi(getenv("RANK")), world = atoi(getenv("WORLD"));
    const char *path = getenv("UIDFILE");
    nvshmemx_init_attr_t attr = NVSHMEMX_INIT_ATTR_INITIALIZER;
    nvshmemx_uniqueid_t id = NVSHMEMX_UNIQUEID_INITIALIZER;
    CHECK(cudaSetDevice(rank));
    if (rank == 0) {
        nvshmemx_get_uniqueid(&id);
        FILE *file = fopen((std::string(path) + ".part").c_str(), "wb");
        fwrite(&id, sizeof id, 1, file);
        fclose(file);
        rename((std::string(path) + ".part").c_str(), path);
    } else {
        FILE *file;
        while (!(file = fopen(path, "rb"))) usleep(1000);
        if (fread(&id, sizeof id, 1, file) != 1) return 1;
        fclose(file);
    }
    nvshmemx_set_attr_uniqueid_args(rank, world, &id, &attr);
    if (nvshmemx_init_attr(NVSHMEMX_INIT_WITH_UNIQUEID, &attr)) return 1;
    me = nvshmem_my_pe();
    n = nvshmem_n_pes();
    int right = (me + 1) % n;
    const size_t top = 1u << 28;
    float *x = (float *)nvshmem_malloc(top), *y = (float *)nvshmem_malloc(top);
    uint64_t *signal = (uint64_t *)nvshmem_calloc(1, 8);
    worst = (float *)nvshmem_malloc(8);
    CHECK(cudaMemset(x, 0, top));
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    nvshmem_team_t all = NVSHMEM_TEAM_WORLD;
    emit("barrier", 0, [&] { nvshmemx_barrier_all_on_stream(stream); });
    emit("sync", 0, [&] { nvshmemx_sync_all_on_stream(stream); });
    emit("signal_set", 8, [&] { nvshmemx_signal_op_on_stream(signal, 1, NVSHMEM_SIGNAL_SET, right, stream); });
    for (size_t nbytes : {8ul, 1ul << 10, 1ul << 14, 1ul << 16, 1ul << 18, 1ul << 20, 1ul << 22, 1ul << 24, 1ul << 26, 1ul << 28}) {
        if (!wanted("BENCH_SIZES", std::to_string(nbytes), true)) continue;
        size_t count = nbytes / 4, block = std::max(count / n, (size_t)1);
        emit("put", nbytes, [&] { nvshmemx_putmem_on_stream(y, x, nbytes, right, stream); });
        emit("all_reduce", nbytes, [&] { nvshmemx_float_sum_reduce_on_stream(all, y, x, count, stream); });
        emit("all_gather", nbytes, [&] { nvshmemx_float_fcollect_on_stream(all, y, x, block, stream); });
        emit("all_to_all", nbytes, [&] { nvshmemx_float_alltoall_on_stream(all, y, x, block, stream); });
        emit("broadcast", nbytes, [&] { nvshmemx_float_broadcast_on_stream(all, y, x, count, 0, stream); });
    }
    nvshmem_barrier_all();
    CHECK(cudaDeviceSynchronize());
    fflush(stdout);
    // nvshmem_finalize() of 3.8.0 was seen not to return here (2 H200s). The figures are printed and every PE has passed
    // the barrier, so the process ends without it.
    _exit(0);
}
