// SPDX-License-Identifier: BSD-3-Clause
// Collectives of small CPU tensors, without Python.
#pragma once

#include "tensors.hpp"
#include "works.hpp"

#include <torch/csrc/distributed/c10d/Types.hpp>

#include <cstring>
#include <map>

namespace {

// ----------------------------------------------------------------------------------------------------

// What Staging does on the host (pyshmem/_torch/staging.py), for contiguous CPU tensors of few bytes: the same rows, in
// the same halves of the same block, and the same routines in the same order, as another member may come by Python.
class HostCollectives : public std::enable_shared_from_this<HostCollectives> {
  public:
    HostCollectives(const py::object &of)
        : queue_(of.attr("queue").cast<std::shared_ptr<HostQueue>>()), team_(of.attr("team").cast<uintptr_t>()),
          n_(of.attr("n").cast<int>()), me_(of.attr("me").cast<int>()), half_(of.attr("half").cast<int64_t>()),
          turn_(at_address<int64_t>(of.attr("turn"))), kind_of_(of.attr("kind")), check_(of.attr("check")) {
        for (int i = 0; i < 2; i++)
            halves_[i] = at_address<char>(of.attr("halves")[py::int_(i)]);
        auto routine = [&](const char *name) { return of.attr("routines")[name].cast<uintptr_t>(); };
        reduce_ = reinterpret_cast<Reduce *>(routine("reduce"));
        scatter_ = reinterpret_cast<Reduce *>(routine("reduce_scatter"));
        broadcast_ = reinterpret_cast<Broadcast *>(routine("broadcast"));
        gather_ = reinterpret_cast<Move *>(routine("fcollect"));
        exchange_ = reinterpret_cast<Move *>(routine("alltoall"));
        name_waits_ = reinterpret_cast<NameWaits *>(routine("name_waits"));
    }

    WorkPtr allreduce(const Given &about, const at::Tensor &tensor, const c10d::ReduceOp &op) {
        auto kind = kind_of(op, tensor);
        if (!kind || !takes(tensor))
            return {};
        auto call = [self = shared_from_this(), tensor, kind = *kind] {
            char *data = bytes(tensor);
            int64_t width = tensor.element_size();
            self->pieces("all_reduce", 1, tensor.nbytes(), width, [&](int64_t begin, int64_t length, char *box) {
                std::memcpy(box, data + begin, length);
                self->check(self->reduce_(self->team_, kind.first, kind.second, box, box, length / width));
                std::memcpy(data + begin, box, length);
            });
        };
        return queue_->submit(call, {tensor}, &about);
    }

    WorkPtr broadcast(const Given &about, const at::Tensor &tensor, int64_t root) {
        if (!takes(tensor) || root < 0 || root >= n_)
            return {};
        auto call = [self = shared_from_this(), tensor, root] {
            char *data = bytes(tensor);
            self->pieces("broadcast", 2, tensor.nbytes(), 1, [&](int64_t begin, int64_t length, char *out) {
                char *box = out + length;
                if (self->me_ == root)
                    std::memcpy(box, data + begin, length);
                self->check(self->broadcast_(self->team_, out, box, length, static_cast<int>(root)));
                if (self->me_ != root)
                    std::memcpy(data + begin, out, length);
            });
        };
        return queue_->submit(call, {tensor}, &about);
    }

    WorkPtr allgather(const Given &about, const at::Tensor &output, const at::Tensor &input) {
        if (!share(output, input) || !in_place(output, input))
            return {};
        auto call = [self = shared_from_this(), output, input] {
            char *to = bytes(output), *from = bytes(input);
            int64_t whole = input.nbytes();
            self->pieces("all_gather_into_tensor", self->n_ + 1, whole, 1, [&](int64_t begin, int64_t length, char *out) {
                char *box = out + self->n_ * length;
                std::memcpy(box, from + begin, length);
                self->check(self->gather_(self->team_, out, box, length));
                for (int64_t pe = 0; pe < self->n_; pe++)
                    std::memcpy(to + pe * whole + begin, out + pe * length, length);
            });
        };
        return queue_->submit(call, {output}, &about);
    }

    WorkPtr reduce_scatter(const Given &about, const at::Tensor &output, const at::Tensor &input,
                           const c10d::ReduceOp &op) {
        auto kind = kind_of(op, output);
        if (!kind || !share(input, output) || !in_place(input, output))
            return {};
        auto call = [self = shared_from_this(), output, input, kind = *kind] {
            char *to = bytes(output), *from = bytes(input);
            int64_t whole = output.nbytes(), width = output.element_size();
            self->pieces("reduce_scatter_tensor", self->n_ + 1, whole, width, [&](int64_t begin, int64_t length, char *box) {
                char *out = box + self->n_ * length;
                for (int64_t pe = 0; pe < self->n_; pe++)
                    std::memcpy(box + pe * length, from + pe * whole + begin, length);
                self->check(self->scatter_(self->team_, kind.first, kind.second, out, box, length / width));
                std::memcpy(to + begin, out, length);
            });
        };
        return queue_->submit(call, {output}, &about);
    }

    WorkPtr alltoall(const Given &about, const at::Tensor &output, const at::Tensor &input) {
        if (!takes(output) || !takes(input) || output.scalar_type() != input.scalar_type() ||
            output.numel() != input.numel() || input.numel() % n_ || !apart(output, input, 0))
            return {};
        auto call = [self = shared_from_this(), output, input] {
            char *to = bytes(output), *from = bytes(input);
            int64_t whole = input.nbytes() / self->n_;
            self->pieces("all_to_all_single", 2 * self->n_, whole, 1, [&](int64_t begin, int64_t length, char *box) {
                char *out = box + self->n_ * length;
                for (int64_t pe = 0; pe < self->n_; pe++)
                    std::memcpy(box + pe * length, from + pe * whole + begin, length);
                self->check(self->exchange_(self->team_, out, box, length));
                for (int64_t pe = 0; pe < self->n_; pe++)
                    std::memcpy(to + pe * whole + begin, out + pe * length, length);
            });
        };
        return queue_->submit(call, {output}, &about);
    }

  private:
    using Reduce = int(uintptr_t, int, int, void *, const void *, size_t);
    using Broadcast = int(uintptr_t, void *, const void *, size_t, int);
    using Move = int(uintptr_t, void *, const void *, size_t);
    using NameWaits = void(const char *);
    using Kind = std::optional<std::pair<int, int>>;

    struct Named {
        Named(NameWaits *name_waits, const char *call) : name_waits_(name_waits) {
            name_waits((std::string("torch's ") + call).c_str());
        }
        ~Named() {
            name_waits_(nullptr);
        }
        NameWaits *const name_waits_;
    };

    static constexpr int64_t MOST = 1 << 18;  // bytes: torch's copies of more may use several threads
    static constexpr int64_t ALIGNMENT = 256; // of staging.py

    static bool takes(const at::Tensor &tensor) {
        return tensor.device().is_cpu() && is_plain(tensor) && int64_t(tensor.nbytes()) <= MOST;
    }
    bool share(const at::Tensor &whole, const at::Tensor &part) const {
        return takes(whole) && takes(part) && shares(whole, part, n_);
    }
    bool in_place(const at::Tensor &whole, const at::Tensor &part) const {
        return ::in_place(whole, part, me_);
    }

    // `call`: what reports of waits, and errors, say that it is.
    template <class Piece>
    void pieces(const char *call, int64_t rows, int64_t nbytes, int64_t width, Piece piece) {
        Named named(name_waits_, call_ = call);
        int64_t most = half_ / rows / ALIGNMENT * ALIGNMENT / width * width;
        for (int64_t begin = 0; begin < nbytes; begin += most) {
            *turn_ ^= 1;
            piece(begin, std::min(most, nbytes - begin), halves_[*turn_]);
        }
    }

    void check(int status) {
        if (!status)
            return;
        with_python([this, status] {
            try {
                check_.get()(status, call_);
            } catch (py::error_already_set &error) {
                throw Failure(error);
            }
        });
    }

    // The library's numbers of the reduction and the element; none: Python does it, or refuses it.
    Kind kind_of(const c10d::ReduceOp &op, const at::Tensor &tensor) {
        std::pair key(int(op.op_), int(tensor.scalar_type()));
        {
            std::lock_guard lock(mutex_);
            auto found = kinds_.find(key);
            if (found != kinds_.end())
                return found->second;
        }
        Kind kind;
        {
            Untraced untraced;
            py::object told = kind_of_.get()(key.first, tensor);
            if (!told.is_none())
                kind = told.cast<std::pair<int, int>>();
        }
        std::lock_guard lock(mutex_);
        kinds_[key] = kind;
        return kind;
    }

    const std::shared_ptr<HostQueue> queue_;
    const uintptr_t team_;
    const int64_t n_;
    const int me_;
    const int64_t half_;
    int64_t *const turn_; // by whoever runs a call of the queue, one at a time
    char *halves_[2];
    const Held kind_of_, check_;
    Reduce *reduce_, *scatter_;
    Broadcast *broadcast_;
    Move *gather_, *exchange_;
    NameWaits *name_waits_;
    const char *call_ = ""; // as turn_
    std::mutex mutex_;
    std::map<std::pair<int, int>, Kind> kinds_;
};

} // namespace
