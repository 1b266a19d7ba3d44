// SPDX-License-Identifier: BSD-3-Clause
// The group of a backend as torch's C++ sees it, a c10d::Backend: so torch's dispatcher, compiler and profiler see its
// calls.
//
// It decides nothing. A call goes to the method of the group in Python (backend.py), which checks it and gives a queue
// what is to be done; queues and works are in C++ (works.hpp), so that C++ can wait for them. Few bytes of contiguous
// CPU tensors, once the members no longer compare their calls, go to the library in C from here (host_collectives.hpp).
// native.py compiles this file for the torch that is there.

#include "host_collectives.hpp"
#include "stream_collectives.hpp"
#include "works.hpp"

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace {

#ifdef C10D_BACKEND_HAS_WINDOW // from torch 2.14 on
// One-sided calls, each of which goes to a window in Python (windows.py).
class Window final : public c10d::Window {
  public:
    Window(py::object of, Millis limit) : of_(std::move(of)), limit_(limit) {}

    void tensor_register(const at::Tensor &tensor, bool owning) override {
        Untraced untraced;
        of_.get().attr("tensor_register")(tensor, owning);
    }
    void tensor_deregister() override {
        Untraced untraced;
        of_.get().attr("tensor_deregister")();
    }
    WorkPtr put(const at::Tensor &tensor, int64_t to, int64_t offset, bool, const c10d::PutOptions &opts) override {
        refuse_hints(opts);
        Untraced untraced;
        return of_.get().attr("put")(tensor, to, offset).cast<WorkPtr>();
    }
    at::Tensor map_remote_tensor(int64_t rank) override {
        Untraced untraced;
        return of_.get().attr("map_remote_tensor")(rank).cast<at::Tensor>();
    }
    WorkPtr signal(int64_t to, bool, const c10d::SignalOptions &opts) override {
        refuse_hints(opts);
        Untraced untraced;
        return of_.get().attr("signal")(to).cast<WorkPtr>();
    }
    WorkPtr wait_signal(int64_t from, bool async, const c10d::WaitSignalOptions &opts) override {
        refuse_hints(opts);
        WorkPtr work;
        {
            Untraced untraced;
            double seconds = (opts.timeout.count() > 0 ? opts.timeout : limit_).count() / 1e3;
            work = of_.get().attr("wait_signal")(from, seconds).cast<WorkPtr>();
        }
        if (!async)
            work->wait();
        return work;
    }
    c10d::WindowAttr get_attr(int64_t rank) override {
        Untraced untraced;
        of_.get().attr("check")(rank);
        return {c10d::WindowAccessType::UNIFIED};
    }

  private:
    template <class Opts> static void refuse_hints(const Opts &opts) {
        TORCH_CHECK_VALUE(opts.hints.empty(), "windows of this backend know no hints");
    }

    const Held of_;
    const Millis limit_;
};
#endif

// ------------------------------------------------------------------------------------------------------------------

class Backend final : public c10d::Backend {
  public:
    Backend(py::object group, int rank, int size, std::string name, double seconds)
        : c10d::Backend(rank, size), group_(std::move(group)), name_(std::move(name)), limit_(int64_t(seconds * 1e3)) {
        for (const char *op : {"all_reduce", "broadcast", "reduce", "all_gather", "gather", "scatter", "reduce_scatter",
                               "all_to_all", "send", "recv", "recvAnySource", "barrier"})
            titles_[op] = name_ + ":" + op;
    }

    py::object group() const {
        return py::reinterpret_borrow<py::object>(group_.get());
    }

    const std::string getBackendName() const override {
        return name_;
    }
    c10::intrusive_ptr<Options> getBackendOptions() override {
        return c10::make_intrusive<Options>(name_, limit_);
    }
    bool supportsSplitting() const override {
        return true;
    }
    void setTimeout(Millis timeout) override {
        limit_ = timeout;
    }
    void setSequenceNumberForGroup() override {}
    uint64_t getSequenceNumberForGroup() override {
        return calls_->count();
    }

    WorkPtr allreduce(Tensors &tensors, const c10d::AllreduceOptions &opts) override {
        auto about = give(c10d::OpType::ALLREDUCE, "all_reduce", &tensors, opts);
        if (tensors.size() == 1)
            if (auto work = quickly(
                    tensors[0], [&](auto &direct) { return direct.allreduce(about, tensors[0], opts.reduceOp); }))
                return work;
        return call("allreduce", about, tensors, opts);
    }
    WorkPtr allreduce_coalesced(Tensors &tensors, const c10d::AllreduceCoalescedOptions &opts) override {
        auto about = give(c10d::OpType::ALLREDUCE_COALESCED, "all_reduce", &tensors, opts);
        return call("allreduce_coalesced", about, tensors, static_cast<const c10d::AllreduceOptions &>(opts));
    }
    WorkPtr allreduce_sparse(Tensors &tensors, const c10d::AllreduceOptions &opts) override {
        return allreduce(tensors, opts);
    }
    WorkPtr reduce(Tensors &tensors, const c10d::ReduceOptions &opts) override {
        return call("reduce", give(c10d::OpType::REDUCE, "reduce", &tensors, opts), tensors, opts);
    }
    WorkPtr broadcast(Tensors &tensors, const c10d::BroadcastOptions &opts) override {
        auto about = give(c10d::OpType::BROADCAST, "broadcast", &tensors, opts);
        if (tensors.size() == 1)
            if (auto work = quickly(tensors[0],
                                    [&](auto &direct) { return direct.broadcast(about, tensors[0], opts.rootRank); }))
                return work;
        return call("broadcast", about, tensors, opts);
    }
    WorkPtr allgather(std::vector<Tensors> &outputs, Tensors &inputs, const c10d::AllgatherOptions &opts) override {
        return call("allgather", give(c10d::OpType::ALLGATHER, "all_gather", &inputs, opts), outputs, inputs, opts);
    }
    WorkPtr _allgather_base(at::Tensor &output, at::Tensor &input, const c10d::AllgatherOptions &opts) override {
        Tensors inputs{input};
        auto about = give(c10d::OpType::_ALLGATHER_BASE, "all_gather", &inputs, opts);
        if (auto work = quickly(input, [&](auto &direct) { return direct.allgather(about, output, input); }))
            return work;
        return call("all_gather_single", about, output, input, opts);
    }
    WorkPtr allgather_coalesced(std::vector<Tensors> &outputs, Tensors &inputs,
                                const c10d::AllgatherOptions &opts) override {
        auto about = give(c10d::OpType::ALLGATHER_COALESCED, "all_gather", &inputs, opts);
        return call("allgather_coalesced", about, outputs, inputs, opts);
    }
    WorkPtr allgather_into_tensor_coalesced(Tensors &outputs, Tensors &inputs,
                                            const c10d::AllgatherOptions &opts) override {
        auto about = give(c10d::OpType::COALESCED, "all_gather", &inputs, opts);
        if (inputs.size() == 1 && outputs.size() == 1)
            if (auto work =
                    quickly(inputs[0], [&](auto &direct) { return direct.allgather(about, outputs[0], inputs[0]); }))
                return work;
        return call("all_gather_single_coalesced", about, outputs, inputs, opts);
    }
    WorkPtr gather(std::vector<Tensors> &outputs, Tensors &inputs, const c10d::GatherOptions &opts) override {
        return call("gather", give(c10d::OpType::GATHER, "gather", &inputs, opts), outputs, inputs, opts);
    }
    WorkPtr scatter(Tensors &outputs, std::vector<Tensors> &inputs, const c10d::ScatterOptions &opts) override {
        auto about = give(c10d::OpType::SCATTER, "scatter", inputs.empty() ? nullptr : &inputs[0], opts);
        return call("scatter", about, outputs, inputs, opts);
    }
    WorkPtr reduce_scatter(Tensors &outputs, std::vector<Tensors> &inputs,
                           const c10d::ReduceScatterOptions &opts) override {
        auto about = give(c10d::OpType::REDUCE_SCATTER, "reduce_scatter", inputs.empty() ? nullptr : &inputs[0], opts);
        return call("reduce_scatter", about, outputs, inputs, opts);
    }
    WorkPtr _reduce_scatter_base(at::Tensor &output, at::Tensor &input,
                                 const c10d::ReduceScatterOptions &opts) override {
        Tensors inputs{input};
        auto about = give(c10d::OpType::_REDUCE_SCATTER_BASE, "reduce_scatter", &inputs, opts);
        if (auto work = quickly(
                input, [&](auto &direct) { return direct.reduce_scatter(about, output, input, opts.reduceOp); }))
            return work;
        return call("reduce_scatter_single", about, output, input, opts);
    }
    WorkPtr reduce_scatter_tensor_coalesced(Tensors &outputs, Tensors &inputs,
                                            const c10d::ReduceScatterOptions &opts) override {
        auto about = give(c10d::OpType::COALESCED, "reduce_scatter", &inputs, opts);
        if (inputs.size() == 1 && outputs.size() == 1)
            if (auto work = quickly(inputs[0], [&](auto &direct) {
                    return direct.reduce_scatter(about, outputs[0], inputs[0], opts.reduceOp);
                }))
                return work;
        return call("reduce_scatter_single_coalesced", about, outputs, inputs, opts);
    }
    WorkPtr alltoall_base(at::Tensor &output, at::Tensor &input, std::vector<int64_t> &output_splits,
                          std::vector<int64_t> &input_splits, const c10d::AllToAllOptions &opts) override {
        Tensors inputs{input};
        auto about = give(c10d::OpType::ALLTOALL_BASE, "all_to_all", &inputs, opts);
        if (output_splits.empty() && input_splits.empty())
            if (auto work = quickly(input, [&](auto &direct) { return direct.alltoall(about, output, input); }))
                return work;
        return call("all_to_all_single", about, output, input, output_splits, input_splits, opts);
    }
    WorkPtr alltoall(Tensors &outputs, Tensors &inputs, const c10d::AllToAllOptions &opts) override {
        return call("alltoall", give(c10d::OpType::ALLTOALL, "all_to_all", &inputs, opts), outputs, inputs, opts);
    }
    WorkPtr send(Tensors &tensors, int to, int tag) override {
        return call("send", give(c10d::OpType::SEND, "send", &tensors), tensors, to, tag);
    }
    WorkPtr recv(Tensors &tensors, int from, int tag) override {
        return call("recv", give(c10d::OpType::RECV, "recv", &tensors), tensors, from, tag);
    }
    WorkPtr recvAnysource(Tensors &tensors, int tag) override {
        return call("recv_anysource", give(c10d::OpType::RECVANYSOURCE, "recvAnySource", &tensors), tensors, tag);
    }
    WorkPtr barrier(const c10d::BarrierOptions &opts) override {
        return call("barrier", give(c10d::OpType::BARRIER, "barrier", nullptr, opts), opts);
    }

    void monitoredBarrier(const c10d::BarrierOptions &opts, bool all_ranks) override {
        Untraced untraced;
        auto limit = opts.timeout == c10d::kUnsetTimeout ? limit_ : opts.timeout; // 0: who is not here yet?
        group_.get().attr("monitored_barrier")(limit.count() / 1e3, all_ranks);
    }

    void startCoalescing() override {
        begun_.emplace();
    }
    WorkPtr endCoalescing() override {
        auto works = std::exchange(begun_, std::nullopt);
        return c10::make_intrusive<AllWork>(works ? std::move(*works) : std::vector<WorkPtr>());
    }

    c10::intrusive_ptr<c10d::Backend> split(const c10::intrusive_ptr<c10d::Store> &store, const std::vector<int> &ranks,
                                            const c10::intrusive_ptr<Options> &opts) override {
        auto found = std::find(ranks.begin(), ranks.end(), getRank());
        if (found == ranks.end())
            return {};
        Untraced untraced;
        double seconds = (opts ? opts->timeout : limit_).count() / 1e3;
        py::object made = group_.get().attr("split")(store, found - ranks.begin(), ranks.size(),
                                                     opts ? opts->group_name : "", seconds);
        return made.cast<c10::intrusive_ptr<c10d::Backend>>();
    }

#ifdef C10D_BACKEND_HAS_WINDOW
    bool supportsWindow() const override {
        return true;
    }
    c10::intrusive_ptr<c10d::Window> new_window(const std::optional<at::Tensor> &tensor) override {
        Untraced untraced;
        return c10::make_intrusive<Window>(group_.get().attr("new_window")(tensor), limit_);
    }
#endif

    void abort() override {
        end("abort");
    }
    void shutdown() override {
        end("shutdown");
    }

  private:
    Millis limit_of(Millis timeout) const {
        return timeout.count() > 0 ? timeout : limit_;
    }

    Given give(c10d::OpType op, const char *title, const Tensors *inputs) {
        const char *name = titles_.at(title).c_str();
        return {op, name, inputs, limit_, false, false, calls_, calls_->begin(title, inputs)};
    }
    // A call whose time is torch's default is done where its caller waits; one with less has a thread, so that a wait
    // can end before it.
    template <class Opts> Given give(c10d::OpType op, const char *title, const Tensors *inputs, const Opts &opts) {
        auto about = give(op, title, inputs);
        about.limit = limit_of(opts.timeout);
        about.waited = !opts.asyncOp;
        about.at_once = about.waited && about.limit >= kBackendDefaultTimeout;
        return about;
    }

    template <class... Arguments> WorkPtr call(const char *method, const Given &about, const Arguments &...arguments) {
        Untraced untraced;
        Giving giving(about);
        py::object work;
        try {
            work = group_.get().attr(method)(arguments...);
        } catch (...) {
            about.become(Calls::State::FAILED);
            throw;
        }
        take("host_collectives", on_host_);
        take("stream_collectives", on_stream_);
        return begun(work.cast<WorkPtr>());
    }
    // What the group in Python makes once its members compare no more calls.
    template <class Kind> void take(const char *name, std::shared_ptr<Kind> &found) {
        if (found)
            return;
        py::object made = group_.get().attr(name);
        if (!made.is_none())
            found = made.cast<std::shared_ptr<Kind>>();
    }
    // The call on a tensor like this one without Python; none: it goes by Python.
    template <class Call> WorkPtr quickly(const at::Tensor &like, const Call &call) {
        WorkPtr work;
        if (like.is_cuda()) {
            if (on_stream_)
                work = call(*on_stream_);
        } else if (on_host_) {
            work = call(*on_host_);
        }
        return work ? begun(std::move(work)) : work;
    }
    WorkPtr begun(WorkPtr work) {
        if (begun_)
            begun_->push_back(work);
        return work;
    }
    void end(const char *method) {
        Untraced untraced;
        on_host_.reset();
        on_stream_.reset();
        group_.get().attr(method)();
    }

    const Held group_;
    const std::string name_;
    Millis limit_;
    std::map<std::string, std::string> titles_; // never changed: works keep what c_str() says
    std::shared_ptr<HostCollectives> on_host_;
    std::shared_ptr<StreamCollectives> on_stream_;
    std::optional<std::vector<WorkPtr>> begun_; // since startCoalescing
    const std::shared_ptr<Calls> calls_ = std::make_shared<Calls>();
};

} // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
    py::register_exception_translator([](std::exception_ptr pointer) {
        try {
            if (pointer)
                std::rethrow_exception(pointer);
        } catch (const Failure &failure) {
            PyErr_SetObject(reinterpret_cast<PyObject *>(Py_TYPE(failure.value().ptr())), failure.value().ptr());
        }
    });
    module.def("set_hooks", [](py::object make_future, py::object take, py::object timeout, py::object closed,
                               py::object set_eval_frame, py::object stream_handle, uintptr_t capturing) {
        hooks = new Hooks{make_future, take, timeout, closed, set_eval_frame, stream_handle};
        stream_capturing = reinterpret_cast<Capturing *>(capturing);
    });
    module.def("set_depth", [](int here) { depth = here; });
    module.def("close_all", &HostQueue::close_all, py::call_guard<py::gil_scoped_release>());

    py::class_<HostWork, c10d::Work, c10::intrusive_ptr<HostWork>>(module, "HostWork")
        .def_readonly("depth", &HostWork::depth)
        .def("set_future", &HostWork::set_future, py::call_guard<py::gil_scoped_release>())
        .def("get_future", &HostWork::future_for_python);
    py::class_<HostQueue, std::shared_ptr<HostQueue>>(module, "HostQueue")
        .def(py::init<std::string>())
        .def("submit",
             [](HostQueue &queue, py::object call, Tensors outputs) {
                 auto about = std::exchange(given, nullptr);
                 bool receives = about && (about->op == c10d::OpType::RECV || about->op == c10d::OpType::RECVANYSOURCE);
                 auto said = receives ? std::make_shared<std::atomic<int64_t>>(-1) : nullptr;
                 return queue.submit(call_of(std::move(call), said), std::move(outputs), about, said);
             })
        .def("do", [](HostQueue &queue,
                      py::object call) { queue.submit(call_of(std::move(call)), {}, nullptr)->wait(Millis(0)); })
        .def("close", &HostQueue::close, py::arg("wait") = true, py::arg("seconds") = std::nullopt);
    py::class_<StreamQueue, std::shared_ptr<StreamQueue>>(module, "StreamQueue")
        .def(py::init<py::object>())
        .def("submit", [](StreamQueue &queue, const py::object &call, Tensors outputs,
                          const Tensors &used) { return queue.submit(call, std::move(outputs), used); })
        .def("synchronize", &StreamQueue::synchronize, py::call_guard<py::gil_scoped_release>())
        .def_property_readonly("stream", &StreamQueue::stream);
    py::class_<HostCollectives, std::shared_ptr<HostCollectives>>(module, "HostCollectives").def(py::init<py::object>());
    py::class_<StreamCollectives, std::shared_ptr<StreamCollectives>>(module, "StreamCollectives").def(py::init<py::object>());
    py::class_<Backend, c10d::Backend, c10::intrusive_ptr<Backend>>(module, "Backend")
        .def(py::init<py::object, int, int, std::string, double>())
        .def_property_readonly("group", &Backend::group);
}
