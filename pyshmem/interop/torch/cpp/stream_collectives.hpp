// SPDX-License-Identifier: BSD-3-Clause
// Collectives of contiguous CUDA tensors on a stream, without Python.
#pragma once

#include "tensors.hpp"
#include "works.hpp"

#include <ATen/ops/from_blob.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include <map>

namespace {

// What Staging does on a stream (pyshmem/_torch/staging.py): the same rows, in the same halves of the same block, and
// the same routines in the same order, as another member may come by Python. What it would copy for its own sake
// (memory that begins oddly, that overlaps) goes there.
class StreamCollectives {
  public:
    StreamCollectives(const py::object &of)
        : queue_(of.attr("queue").cast<std::shared_ptr<StreamQueue>>()), device_(of.attr("device").cast<int>()),
          team_(of.attr("team").cast<uintptr_t>()), n_(of.attr("n").cast<int>()), me_(of.attr("me").cast<int>()),
          half_(of.attr("half").cast<int64_t>()), unprepared_(of.attr("unprepared").cast<int>()),
          turn_(at_address<int64_t>(of.attr("turn"))), calls_(at_address<int64_t>(of.attr("calls"))),
          kind_of_(of.attr("kind")), check_(of.attr("check")), load_(of.attr("load")), prepare_(of.attr("prepare")) {
        for (int i = 0; i < 2; i++)
            halves_[i] = at_address<char>(of.attr("halves")[py::int_(i)]);
        for (auto word : of.attr("leaving"))
            leaving_.push_back(reinterpret_cast<uint64_t *>(word.cast<uintptr_t>()));
        for (const char *name : {"reduce", "reduce_scatter", "broadcast", "fcollect", "alltoall"})
            numbers_[name] = of.attr("numbers")[name].cast<int>();
        py::object routines = of.attr("routines");
        set(reduce_, routines, "reduce");
        set(scatter_, routines, "reduce_scatter");
        set(broadcast_, routines, "broadcast");
        set(gather_, routines, "fcollect");
        set(exchange_, routines, "alltoall");
        set(sync_, routines, "sync");
        set(sides_, routines, "sides");
        set(fetch_, routines, "fetch");
    }

    WorkPtr allreduce(const Given &about, const at::Tensor &tensor, const c10d::ReduceOp &op) {
        if (!takes(tensor))
            return {};
        auto kind = kind_of(op, tensor);
        char *data = bytes(tensor);
        int64_t nbytes = tensor.nbytes(), width = tensor.element_size();
        if (!kind)
            return {};
        auto sides = reached("reduce", nbytes);
        if ((!sides.any() && !aligned(data)) || !goes_on())
            return {};
        return queue_->submit(about, {tensor}, {tensor}, [&](const c10::Stream &stream) {
            auto reduce = [&](char *where, int64_t length) {
                launch(reduce_, stream, team_, kind->op, kind->element, where, where, length / width);
            };
            if (!sides.any())
                reduce(data, nbytes);
            else
                pieces(1, nbytes, width, nullptr, [&](int64_t begin, int64_t length, char *box) {
                    copy(box, data + begin, length);
                    reduce(box, length);
                    copy(data + begin, box, length);
                });
            scale(*kind, tensor);
        });
    }

    WorkPtr broadcast(const Given &about, const at::Tensor &tensor, int64_t root) {
        if (!takes(tensor) || root < 0 || root >= n_)
            return {};
        char *data = bytes(tensor);
        int64_t nbytes = tensor.nbytes();
        auto sides = reached("broadcast", nbytes);
        bool staged = sides.source || me_ != root; // what the own GPU sends may stay where it is, if it begins well
        if ((!(sides.dest && staged) && !aligned(data)) || !goes_on())
            return {};
        return queue_->submit(about, {tensor}, {tensor}, [&](const c10::Stream &stream) {
            auto send = [&](char *to, char *from, int64_t length) {
                launch(broadcast_, stream, team_, to, from, length, int(root));
            };
            if (!sides.dest)
                return send(data, data, nbytes);
            pieces(1 + sides.source, nbytes, 1, &stream, [&](int64_t begin, int64_t length, char *out) {
                char *box = out + (sides.source ? length : 0);
                if (me_ == root && sides.source)
                    copy(box, data + begin, length);
                else if (me_ == root)
                    box = data + begin;
                send(out, box, length);
                if (me_ != root)
                    copy(data + begin, out, length);
            });
        });
    }

    WorkPtr allgather(const Given &about, const at::Tensor &output, const at::Tensor &input) {
        if (!takes(output) || !takes(input) || !shares(output, input, n_) || !in_place(output, input, me_))
            return {};
        char *to = bytes(output), *from = bytes(input);
        int64_t whole = input.nbytes();
        auto sides = reached("fcollect", whole);
        if ((!sides.dest && !aligned(to)) || (!sides.source && !aligned(from)) || !goes_on())
            return {};
        return queue_->submit(about, {output}, {output, input}, [&](const c10::Stream &stream) {
            if (!sides.dest) {
                launch(gather_, stream, team_, to, from, whole);
                return;
            }
            pieces(n_ + sides.source, whole, 1, &stream, [&](int64_t begin, int64_t length, char *out) {
                char *box = from + begin;
                if (sides.source)
                    copy(box = out + n_ * length, from + begin, length);
                launch(gather_, stream, team_, out, box, length);
                store(to + begin, out, length, whole);
            });
        });
    }

    WorkPtr reduce_scatter(const Given &about, const at::Tensor &output, const at::Tensor &input,
                           const c10d::ReduceOp &op) {
        if (!takes(output) || !takes(input) || !shares(input, output, n_) || !in_place(input, output, me_))
            return {};
        auto kind = kind_of(op, output);
        if (!kind)
            return {};
        char *to = bytes(output), *from = bytes(input);
        int64_t whole = output.nbytes(), width = output.element_size();
        auto sides = reached("reduce_scatter", whole);
        if ((!sides.dest && !aligned(to)) || (!sides.any() && !aligned(from)) || !goes_on())
            return {};
        return queue_->submit(about, {output}, {output, input}, [&](const c10::Stream &stream) {
            auto reduce = [&](char *out, char *box, int64_t length) {
                launch(scatter_, stream, team_, kind->op, kind->element, out, box, length / width);
            };
            if (!sides.any())
                reduce(to, from, whole);
            else
                pieces(n_ + sides.dest, whole, width, nullptr, [&](int64_t begin, int64_t length, char *box) {
                    load(box, from + begin, length, whole);
                    char *out = sides.dest ? box + n_ * length : to + begin;
                    reduce(out, box, length);
                    if (sides.dest)
                        copy(to + begin, out, length);
                });
            scale(*kind, output);
        });
    }

    WorkPtr alltoall(const Given &about, const at::Tensor &output, const at::Tensor &input) {
        if (!takes(output) || !takes(input) || output.scalar_type() != input.scalar_type() ||
            output.numel() != input.numel() || input.numel() % n_ || !apart(output, input, 0))
            return {};
        char *to = bytes(output), *from = bytes(input);
        int64_t whole = input.nbytes() / n_;
        auto sides = reached("alltoall", whole);
        if ((!sides.dest && !(aligned(to) && aligned(from))) || !goes_on())
            return {};
        return queue_->submit(about, {output}, {output, input}, [&](const c10::Stream &stream) {
            if (!sides.dest) {
                launch(exchange_, stream, team_, to, from, whole);
                return;
            }
            pieces(2 * n_, whole, 1, &stream, [&](int64_t begin, int64_t length, char *box) {
                char *out = box + n_ * length;
                load(box, from + begin, length, whole);
                launch(exchange_, stream, team_, out, box, length);
                store(to + begin, out, length, whole);
            });
        });
    }

  private:
    using Reduce = int(uintptr_t, int, int, void *, const void *, size_t, StreamHandle);
    using Broadcast = int(uintptr_t, void *, const void *, size_t, int, StreamHandle);
    using Move = int(uintptr_t, void *, const void *, size_t, StreamHandle);
    using Sync = int(uintptr_t, StreamHandle);
    using Sides = int(uintptr_t, int, size_t, int *);
    using Fetch = int(const uint64_t *, uint64_t *);

    struct Reached {
        bool dest, source;
        bool any() const {
            return dest || source;
        }
    };
    struct Kind {
        int op, element;
        bool mean;
    };

    static constexpr int64_t ALIGNMENT = 256; // of staging.py
    static constexpr int64_t OUTSIDE = 16;    // of what is on no heap: dispatch.py
    static constexpr uint64_t LEFT = uint64_t(1) << 62; // of send_recv.py

    template <class Routine> static void set(Routine *&routine, const py::object &routines, const char *name) {
        routine = at_address<Routine>(routines[name]);
    }
    static bool aligned(const char *data) {
        return reinterpret_cast<uintptr_t>(data) % OUTSIDE == 0;
    }
    bool takes(const at::Tensor &tensor) const {
        return tensor.is_cuda() && tensor.get_device() == device_ && is_plain(tensor) && tensor.numel();
    }

    // Whether members reach dest and source, of so many bytes from each to each; the same on all.
    Reached reached(const char *routine, int64_t nbytes) {
        int sides = 0;
        check(sides_(team_, numbers_.at(routine), nbytes, &sides));
        return {bool(sides & 1), bool(sides & 2)}; // enum ishmemx_side
    }

    // Counts the call; false: a member has left before, which Python finds, too, and tells.
    bool goes_on() {
        for (size_t i = 0; i < leaving_.size(); i++) {
            uint64_t word = 0;
            check(fetch_(leaving_[i], &word));
            if (word >= LEFT && word - LEFT < uint64_t(*calls_ + 1))
                return false;
        }
        ++*calls_;
        return true;
    }

    template <class Routine, class... Arguments>
    void launch(Routine *routine, const c10::Stream &stream, Arguments... arguments) {
        auto handle = handle_of(stream);
        int status = routine(arguments..., handle);
        if (status == unprepared_) {
            with_python([&] { call_python(load_, reinterpret_cast<uintptr_t>(handle)); });
            status = routine(arguments..., handle);
        }
        check(status);
    }

    // `stream`: given where members store into each other's rows, as in Staging._pieces.
    template <class Piece>
    void pieces(int64_t rows, int64_t nbytes, int64_t width, const c10::Stream *stream, const Piece &piece) {
        int64_t most = half_ / rows / ALIGNMENT * ALIGNMENT / width * width;
        bool alone = stream && is_captured(*stream);
        if (stream && !alone && !prepared_) {
            with_python([&] { call_python(prepare_); });
            prepared_ = true;
        }
        if (alone)
            launch(sync_, *stream, team_);
        for (int64_t begin = 0; begin < nbytes; begin += most) {
            *turn_ ^= 1;
            piece(begin, std::min(most, nbytes - begin), halves_[*turn_]);
        }
        if (alone)
            launch(sync_, *stream, team_);
    }

    // On the current stream, which is the call's.
    at::Tensor block(char *begin, int64_t length) const {
        auto options = at::TensorOptions().dtype(at::kByte).device(at::Device(at::kCUDA, device_));
        return at::for_blob(begin, {length}).target_device(options.device()).options(options).make_tensor();
    }
    void copy(char *to, char *from, int64_t length) const {
        if (to != from)
            block(to, length).copy_(block(from, length), true);
    }
    // The same columns of a row for each member, `whole` apart, from and to rows side by side.
    void load(char *rows, char *from, int64_t length, int64_t whole) const {
        if (length == whole)
            return copy(rows, from, n_ * whole);
        for (int64_t pe = 0; pe < n_; pe++)
            copy(rows + pe * length, from + pe * whole, length);
    }
    void store(char *to, char *rows, int64_t length, int64_t whole) const {
        if (length == whole)
            return copy(to, rows, n_ * whole);
        for (int64_t pe = 0; pe < n_; pe++)
            copy(to + pe * whole, rows + pe * length, length);
    }
    void scale(const Kind &kind, const at::Tensor &tensor) const {
        if (kind.mean)
            tensor.variable_data().div_(n_);
    }

    template <class... Arguments> static void call_python(const Held &function, Arguments... arguments) {
        Untraced untraced;
        try {
            function.get()(arguments...);
        } catch (py::error_already_set &error) {
            throw Failure(error);
        }
    }
    void check(int status) const {
        if (status)
            with_python([this, status] { call_python(check_, status); });
    }

    // The library's numbers of the reduction and the element; none: Python does it, or refuses it.
    std::optional<Kind> kind_of(const c10d::ReduceOp &op, const at::Tensor &tensor) {
        std::pair key(int(op.op_), int(tensor.scalar_type()));
        {
            std::lock_guard lock(mutex_);
            auto found = kinds_.find(key);
            if (found != kinds_.end())
                return found->second;
        }
        std::optional<Kind> kind;
        {
            Untraced untraced;
            py::object told = kind_of_.get()(key.first, tensor);
            if (!told.is_none()) {
                auto [number, element, mean] = told.cast<std::tuple<int, int, bool>>();
                kind = Kind{number, element, mean};
            }
        }
        std::lock_guard lock(mutex_);
        return kinds_[key] = kind;
    }

    const std::shared_ptr<StreamQueue> queue_;
    const int device_;
    const uintptr_t team_;
    const int64_t n_;
    const int me_;
    const int64_t half_;
    const int unprepared_; // the status of a call whose kernel is not loaded
    int64_t *const turn_;  // by the queue, one call at a time
    int64_t *const calls_; // of the group, on its stream
    char *halves_[2];
    std::vector<uint64_t *> leaving_; // a word a member: after how many calls it has left
    bool prepared_ = false;
    std::map<std::string, int> numbers_; // of the routines, for sides_
    const Held kind_of_, check_, load_, prepare_;
    Reduce *reduce_, *scatter_;
    Broadcast *broadcast_;
    Move *gather_, *exchange_;
    Sync *sync_;
    Sides *sides_;
    Fetch *fetch_;
    std::mutex mutex_;
    std::map<std::pair<int, int>, std::optional<Kind>> kinds_;
};

} // namespace
