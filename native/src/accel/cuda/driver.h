/* SPDX-License-Identifier: BSD-3-Clause
 * The part of the CUDA driver API that we use, opened at run time: the library builds and loads where
 * there is no CUDA. Types and numbers are those of cuda.h. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct {
    char bytes[16];
} CUuuid;
typedef struct {
    char reserved[64];
} CUipcMemHandle;
typedef struct CUlib_st *CUlibrary;
typedef struct CUkern_st *CUkernel;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct {
    int result;
    void *errorNode, *errorFromNode;
} CUgraphExecUpdateResultInfo;
typedef unsigned long long CUmemHandle; /* CUmemGenericAllocationHandle */
typedef struct {
    int type, id;
} CUmemLocation;
typedef struct {
    int type, requestedHandleTypes;
    CUmemLocation location;
    void *win32HandleMetaData;
    unsigned char allocFlags[8];
} CUmemAllocationProp;
typedef struct {
    CUmemLocation location;
    int flags;
} CUmemAccessDesc;
typedef struct {
    int id;
    int pad;
    int value[16];
} CUlaunchAttribute;
typedef struct {
    unsigned gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
    CUstream hStream;
    CUlaunchAttribute *attrs;
    unsigned numAttrs;
} CUlaunchConfig;
typedef struct {
    size_t srcXInBytes, srcY;
    int srcMemoryType;
    const void *srcHost;
    CUdeviceptr srcDevice;
    void *srcArray;
    size_t srcPitch;
    size_t dstXInBytes, dstY;
    int dstMemoryType;
    void *dstHost;
    CUdeviceptr dstDevice;
    void *dstArray;
    size_t dstPitch;
    size_t WidthInBytes, Height;
} CUDA_MEMCPY2D;

enum {
    CUDA_ERROR_INVALID_VALUE = 1,
    CUDA_ERROR_OUT_OF_MEMORY = 2,
    CUDA_ERROR_STUB_LIBRARY = 34,
    CUDA_ERROR_NO_DEVICE = 100,
    CUDA_ERROR_NOT_READY = 600,
    CUDA_ERROR_STREAM_CAPTURE_INVALIDATED = 901,
    CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2,
    CU_POINTER_ATTRIBUTE_IS_MANAGED = 8,
    CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9,
    CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE = 10,
    CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE = 17,
    CU_EVENT_DISABLE_TIMING = 2,
    CU_MEMHOSTREGISTER_PORTABLE = 1,
    CU_MEMHOSTREGISTER_DEVICEMAP = 2,
    CU_MEMORYTYPE_DEVICE = 2,
    CU_STREAM_NON_BLOCKING = 1,
    CU_STREAM_CAPTURE_MODE_RELAXED = 2,
    CU_MEMHOSTALLOC_PORTABLE = 1,
    CU_MEMHOSTALLOC_DEVICEMAP = 2,
    CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS = 1,
    CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
    CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED = 3,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
    CU_STREAM_WAIT_VALUE_GEQ = 0,
    CU_STREAM_WAIT_VALUE_EQ = 1,
    CU_LIMIT_STACK_SIZE = 0,
    CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED = 103,
    CU_MEM_LOCATION_TYPE_DEVICE = 1,
    CU_MEM_ALLOCATION_TYPE_PINNED = 1,
    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR = 1,
    CU_MEM_ACCESS_FLAGS_PROT_READWRITE = 3,
    CU_LAUNCH_ATTRIBUTE_COOPERATIVE = 2,
    CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION = 6
};

/* X_(name here, symbol, arguments) */
#define PYSH_CUDA_CALLS(X_)                                                                                            \
    X_(Init, cuInit, (unsigned))                                                                                       \
    X_(GetErrorName, cuGetErrorName, (CUresult, const char **))                                                        \
    X_(GetErrorString, cuGetErrorString, (CUresult, const char **))                                                    \
    X_(DeviceGetCount, cuDeviceGetCount, (int *))                                                                      \
    X_(DeviceGet, cuDeviceGet, (CUdevice *, int))                                                                      \
    X_(DeviceGetName, cuDeviceGetName, (char *, int, CUdevice))                                                        \
    X_(DeviceTotalMem, cuDeviceTotalMem_v2, (size_t *, CUdevice))                                                      \
    X_(DeviceGetUuid, cuDeviceGetUuid_v2, (CUuuid *, CUdevice))                                                        \
    X_(DeviceGetPCIBusId, cuDeviceGetPCIBusId, (char *, int, CUdevice))                                                \
    X_(DeviceCanAccessPeer, cuDeviceCanAccessPeer, (int *, CUdevice, CUdevice))                                        \
    X_(DeviceGetP2PAttribute, cuDeviceGetP2PAttribute, (int *, int, CUdevice, CUdevice))                               \
    X_(DevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice))                                      \
    X_(DevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, (CUdevice))                                              \
    X_(CtxGetCurrent, cuCtxGetCurrent, (CUcontext *))                                                                  \
    X_(CtxSynchronize, cuCtxSynchronize, (void))                                                                       \
    X_(CtxSetCurrent, cuCtxSetCurrent, (CUcontext))                                                                    \
    X_(CtxPushCurrent, cuCtxPushCurrent_v2, (CUcontext))                                                               \
    X_(CtxPopCurrent, cuCtxPopCurrent_v2, (CUcontext *))                                                               \
    X_(MemAlloc, cuMemAlloc_v2, (CUdeviceptr *, size_t))                                                               \
    X_(MemFree, cuMemFree_v2, (CUdeviceptr))                                                                           \
    X_(MemGetInfo, cuMemGetInfo_v2, (size_t *, size_t *))                                                              \
    X_(MemGetAddressRange, cuMemGetAddressRange_v2, (CUdeviceptr *, size_t *, CUdeviceptr))                            \
    X_(IpcGetMemHandle, cuIpcGetMemHandle, (CUipcMemHandle *, CUdeviceptr))                                            \
    X_(IpcOpenMemHandle, cuIpcOpenMemHandle_v2, (CUdeviceptr *, CUipcMemHandle, unsigned))                             \
    X_(IpcCloseMemHandle, cuIpcCloseMemHandle, (CUdeviceptr))                                                          \
    X_(MemcpyAsync, cuMemcpyAsync, (CUdeviceptr, CUdeviceptr, size_t, CUstream))                                       \
    X_(MemsetD8Async, cuMemsetD8Async, (CUdeviceptr, unsigned char, size_t, CUstream))                                 \
    X_(MemHostAlloc, cuMemHostAlloc, (void **, size_t, unsigned))                                                      \
    X_(MemHostGetDevicePointer, cuMemHostGetDevicePointer_v2, (CUdeviceptr *, void *, unsigned))                       \
    X_(MemFreeHost, cuMemFreeHost, (void *))                                                                           \
    X_(PointerGetAttribute, cuPointerGetAttribute, (void *, int, CUdeviceptr))                                         \
    X_(StreamCreate, cuStreamCreate, (CUstream *, unsigned))                                                           \
    X_(StreamSynchronize, cuStreamSynchronize, (CUstream))                                                             \
    X_(StreamQuery, cuStreamQuery, (CUstream))                                                                         \
    X_(StreamDestroy, cuStreamDestroy_v2, (CUstream))                                                                  \
    X_(StreamIsCapturing, cuStreamIsCapturing, (CUstream, int *))                                                      \
    X_(ThreadExchangeStreamCaptureMode, cuThreadExchangeStreamCaptureMode, (int *))                                    \
    X_(StreamWriteValue64, cuStreamWriteValue64_v2, (CUstream, CUdeviceptr, uint64_t, unsigned))                       \
    X_(EventCreate, cuEventCreate, (CUevent *, unsigned))                                                              \
    X_(EventRecord, cuEventRecord, (CUevent, CUstream))                                                                \
    X_(EventQuery, cuEventQuery, (CUevent))                                                                            \
    X_(StreamWaitEvent, cuStreamWaitEvent, (CUstream, CUevent, unsigned))                                              \
    X_(EventDestroy, cuEventDestroy_v2, (CUevent))                                                                     \
    X_(MemHostRegister, cuMemHostRegister_v2, (void *, size_t, unsigned))                                              \
    X_(MemHostUnregister, cuMemHostUnregister, (void *))                                                               \
    X_(ModuleLoadData, cuModuleLoadData, (CUmodule *, const void *))                                                   \
    X_(ModuleGetFunction, cuModuleGetFunction, (CUfunction *, CUmodule, const char *))                                 \
    X_(ModuleUnload, cuModuleUnload, (CUmodule))                                                                       \
    X_(LaunchKernel, cuLaunchKernel,                                                                                   \
       (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void **, void **)) \
    X_(DeviceGetAttribute, cuDeviceGetAttribute, (int *, int, CUdevice))                                               \
    X_(StreamGetCtx, cuStreamGetCtx, (CUstream, CUcontext *))                                                          \
    X_(StreamWriteValue32, cuStreamWriteValue32_v2, (CUstream, CUdeviceptr, uint32_t, unsigned))                       \
    X_(StreamWaitValue32, cuStreamWaitValue32_v2, (CUstream, CUdeviceptr, uint32_t, unsigned))                         \
    X_(StreamWaitValue64, cuStreamWaitValue64_v2, (CUstream, CUdeviceptr, uint64_t, unsigned))                         \
    X_(Memcpy2DAsync, cuMemcpy2DAsync_v2, (const CUDA_MEMCPY2D *, CUstream))                                           \
    X_(MemsetD16Async, cuMemsetD16Async, (CUdeviceptr, unsigned short, size_t, CUstream))                              \
    X_(StreamBeginCapture, cuStreamBeginCapture_v2, (CUstream, int))                                                   \
    X_(StreamEndCapture, cuStreamEndCapture, (CUstream, CUgraph *))                                                    \
    X_(GraphInstantiate, cuGraphInstantiateWithFlags, (CUgraphExec *, CUgraph, unsigned long long))                    \
    X_(GraphLaunch, cuGraphLaunch, (CUgraphExec, CUstream))                                                            \
    X_(GraphDestroy, cuGraphDestroy, (CUgraph))                                                                        \
    X_(GraphExecDestroy, cuGraphExecDestroy, (CUgraphExec))                                                            \
    X_(CtxGetLimit, cuCtxGetLimit, (size_t *, int))                                                                    \
    X_(CtxSetLimit, cuCtxSetLimit, (int, size_t))

/* Since 12.0 and 12.4, those of memory since 10.2; NULL where the driver is older: then there are no kernels on
 * streams, or they load late, or nobody knows what a kernel takes, or no heap grows, or no launch is kept. */
#define PYSH_CUDA_NEWER_CALLS(X_)                                                                                \
    X_(MemAddressReserve, cuMemAddressReserve, (CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long)) \
    X_(MemAddressFree, cuMemAddressFree, (CUdeviceptr, size_t))                                                  \
    X_(MemCreate, cuMemCreate, (CUmemHandle *, size_t, const CUmemAllocationProp *, unsigned long long))         \
    X_(MemRelease, cuMemRelease, (CUmemHandle))                                                                  \
    X_(MemMap, cuMemMap, (CUdeviceptr, size_t, size_t, CUmemHandle, unsigned long long))                         \
    X_(MemUnmap, cuMemUnmap, (CUdeviceptr, size_t))                                                              \
    X_(MemSetAccess, cuMemSetAccess, (CUdeviceptr, size_t, const CUmemAccessDesc *, size_t))                     \
    X_(MemExport, cuMemExportToShareableHandle, (void *, CUmemHandle, int, unsigned long long))                  \
    X_(MemImport, cuMemImportFromShareableHandle, (CUmemHandle *, void *, int))                                  \
    X_(GraphExecUpdate, cuGraphExecUpdate_v2, (CUgraphExec, CUgraph, CUgraphExecUpdateResultInfo *))             \
    X_(LaunchKernelEx, cuLaunchKernelEx, (const CUlaunchConfig *, CUfunction, void **, void **))                 \
    X_(LibraryLoadData, cuLibraryLoadData,                                                                       \
       (CUlibrary *, const void *, void *, void *, unsigned, void *, void *, unsigned))                          \
    X_(LibraryGetKernel, cuLibraryGetKernel, (CUkernel *, CUlibrary, const char *))                              \
    X_(LibraryGetGlobal, cuLibraryGetGlobal, (CUdeviceptr *, size_t *, CUlibrary, const char *))                 \
    X_(KernelGetFunction, cuKernelGetFunction, (CUfunction *, CUkernel))                                         \
    X_(FuncLoad, cuFuncLoad, (CUfunction))                                                                       \
    X_(FuncGetParamInfo, cuFuncGetParamInfo, (CUfunction, size_t, size_t *, size_t *))

typedef struct pysh_cuda {
#define PYSH_X(_name, _symbol, _arguments) CUresult(*_name) _arguments;
    PYSH_CUDA_CALLS(PYSH_X)
    PYSH_CUDA_NEWER_CALLS(PYSH_X)
#undef PYSH_X
} pysh_cuda_t;
extern pysh_cuda_t pysh_cuda;

/* Opens the driver and initialises it, once. OK with *count_p = 0 where there is no driver or no GPU;
 * SYSTEM where there is one that does not work. */
int pysh_cuda_open(int *count_p);
/* SYSTEM with the driver's name and text of `result`; `format` says what was tried. */
int pysh_cuda_fail(CUresult result, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Does it make memory whose handle is a descriptor? */
bool pysh_cuda_shares(CUdevice device);
/* A stream capture in global mode on one thread forbids all threads in that mode, which is the initial one, most of the
 * driver's calls: the call fails and the capture is lost. Between these two the calling thread is in relaxed mode, in
 * which it is free of other threads' captures. The first returns the mode for the second to bring back. */
int pysh_cuda_relax(void);
void pysh_cuda_restore(int mode);
