// SPDX-License-Identifier: BSD-3-Clause
// The last calls of a group, for whoever has waited too long.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <mutex>
#include <sstream>
#include <string>

namespace {

// A ring of what this rank has called of a group, on any version of torch. It holds no tensors.
class Calls {
  public:
    enum class State { BEGUN, ON_STREAM, DONE, FAILED };

    // A call begins; returns its number, from 1 on.
    uint64_t begin(const char *title, const std::vector<at::Tensor> *inputs) {
        std::lock_guard lock(mutex_);
        Call &call = calls_[n_++ % MOST];
        call = {title, inputs ? inputs->size() : 0, 0, at::ScalarType::Undefined, State::BEGUN};
        if (call.n_tensors && (*inputs)[0].defined()) {
            call.n_elements = (*inputs)[0].numel();
            call.dtype = (*inputs)[0].scalar_type();
        }
        return n_;
    }
    void become(uint64_t number, State state) {
        std::lock_guard lock(mutex_);
        if (number && n_ - number < MOST)
            calls_[(number - 1) % MOST].state = state;
    }
    uint64_t count() const {
        std::lock_guard lock(mutex_);
        return n_;
    }

    // The oldest first.
    std::string text() const {
        static const char *const states[] = {"not done", "on its stream", "done", "failed"};
        std::lock_guard lock(mutex_);
        std::ostringstream out;
        for (uint64_t number = n_ > MOST ? n_ - MOST + 1 : 1; number <= n_; number++) {
            const Call &call = calls_[(number - 1) % MOST];
            out << "\n  call " << number << ", " << call.title;
            if (call.n_tensors)
                out << " of " << call.n_elements << " " << c10::toString(call.dtype);
            if (call.n_tensors > 1)
                out << " and " << call.n_tensors - 1 << " more tensors";
            out << ": " << states[int(call.state)];
        }
        return out.str();
    }

  private:
    static constexpr uint64_t MOST = 8;

    struct Call {
        const char *title = "";
        uint64_t n_tensors = 0;
        int64_t n_elements = 0;
        at::ScalarType dtype = at::ScalarType::Undefined; // of the first tensor, as n_elements
        State state = State::BEGUN;
    };

    mutable std::mutex mutex_;
    std::array<Call, MOST> calls_;
    uint64_t n_ = 0;
};

} // namespace
