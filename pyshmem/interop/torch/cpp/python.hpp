// SPDX-License-Identifier: BSD-3-Clause
// Python's lock and its objects, in threads that it does not know.
#pragma once

#include <torch/csrc/utils/pybind.h>

#include <cxxabi.h>
#include <unistd.h>

#include <exception>

namespace py = pybind11;

namespace {

// Calls `what` with the interpreter's lock, in any thread. The interpreter ends threads that want its lock once it ends
// itself (pthread_exit): such a one stays here for ever, as what lies on its stack cannot be dropped without the lock.
template <class What> void with_python(const What &what) {
    std::exception_ptr failed;
    try {
        PyGILState_STATE state = PyGILState_Ensure();
        try {
            what();
        } catch (abi::__forced_unwind &) {
            throw;
        } catch (...) {
            failed = std::current_exception();
        }
        PyGILState_Release(state);
    } catch (abi::__forced_unwind &) {
        for (;;)
            pause();
    }
    if (failed)
        std::rethrow_exception(failed);
}

// A Python object that a thread without the interpreter's lock may drop.
class Held {
  public:
    explicit Held(py::object object) : object_(object.release().ptr()) {}
    Held(const Held &) = delete;
    Held &operator=(const Held &) = delete;
    ~Held() {
        if (!Py_IsInitialized())
            return; // the interpreter has gone, and the object with it
        with_python([this] { Py_DECREF(object_); });
    }
    py::handle get() const {
        return object_;
    }

  private:
    PyObject *object_;
};

} // namespace
