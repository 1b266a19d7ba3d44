// SPDX-License-Identifier: BSD-3-Clause
// Works and queues: what runs a group's calls in order, and what waits for them.
//
// Threads: a queue's mutex guards its calls, a work's that of c10d::Work. Nobody takes the interpreter's lock while
// holding one of them, but for that of a queue of a stream, which nobody waits for with the interpreter's lock.
#pragma once

#include "last_calls.hpp"
#include "python.hpp"

#include <ATen/record_function.h>
#include <c10/core/Event.h>
#include <c10/core/GradMode.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <thread>

namespace {

using Clock = std::chrono::steady_clock;
using Millis = std::chrono::milliseconds;
using Tensors = std::vector<at::Tensor>;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;
using FuturePtr = c10::intrusive_ptr<c10::ivalue::Future>;

// ---- Python's objects and errors
// --------------------------------------------------------------------------------------------------

// What this file needs of Python: set once by native.py, never freed.
struct Hooks {
    py::object make_future, take, timeout, closed, set_eval_frame, stream_handle;
};
Hooks *hooks;

// The interpreter's lock, for methods of Python that a call in a compiled program comes by: torch.compile would trace
// them too, as it does each function of Python that runs in this thread meanwhile.
class Untraced {
  public:
    Untraced() : before_(hooks->set_eval_frame(py::none())) {}
    Untraced(const Untraced &) = delete;
    Untraced &operator=(const Untraced &) = delete;
    ~Untraced() {
        hooks->set_eval_frame(before_);
    }

  private:
    py::gil_scoped_acquire gil_;
    py::object before_;
};

// An exception of Python's on its way through C++, where many may look at it and in any thread.
class Failure : public std::exception {
  public:
    explicit Failure(const py::error_already_set &error)
        : value_(std::make_shared<Held>(error.value())), text_(shown(error)) {}
    const char *what() const noexcept override {
        return text_.c_str();
    }
    py::handle value() const {
        return value_->get();
    }

  private:
    // What C++ that raises it again tells the program: without the notes and frames of what() of pybind.
    static std::string shown(const py::error_already_set &error) {
        try {
            return std::string(py::str(error.type().attr("__name__"))) + ": " + std::string(py::str(error.value()));
        } catch (const py::error_already_set &) { // it has no text
            return error.what();
        }
    }

    std::shared_ptr<Held> value_;
    std::string text_;
};

[[noreturn]] void fail(const py::object &type, const std::string &text) {
    py::gil_scoped_acquire gil;
    PyErr_SetString(type.ptr(), text.c_str());
    throw py::error_already_set();
}

// Runs handlers of signals, as Python's own waits do; in the main thread, elsewhere nothing.
void look_for_signals() {
    py::gil_scoped_acquire gil;
    if (PyErr_CheckSignals())
        throw py::error_already_set();
}

// In how many callbacks of futures, one in the other, this thread is (worker_queues.Callers).
thread_local int depth = 0;

// ---- works
// ------------------------------------------------------------------------------------------------------------------------

// What torch says of a call, for the queue that gets it.
struct Given {
    c10d::OpType op = c10d::OpType::UNKNOWN;
    const char *title = nullptr;
    const Tensors *inputs = nullptr; // that the profiler shows
    Millis limit{0};                 // of a wait; 0: none
    bool waited = false;             // the caller waits for it
    bool at_once = false;            // so it does, as long as it takes
    std::shared_ptr<Calls> calls;    // of the group
    uint64_t number = 0;             // of this call among them

    void become(Calls::State state) const {
        if (calls)
            calls->become(number, state);
    }
};
thread_local const Given *given = nullptr;

class Giving {
  public:
    explicit Giving(const Given &one) : before_(given) {
        given = &one;
    }
    ~Giving() {
        given = before_;
    }

  private:
    const Given *before_;
};

const char *title_of(const Given *about) {
    return about && at::hasCallbacks() ? about->title : nullptr;
}

std::optional<Tensors> inputs_of(const Given *about) {
    return title_of(about) && about->inputs ? std::optional(*about->inputs) : std::nullopt;
}

FuturePtr future_of_tensors(std::vector<c10::Device> devices = {}) {
    return c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()), std::move(devices));
}

// A call on a queue of the host. wait() blocks the thread until it is done.
class HostWork final : public c10d::Work {
  public:
    using Call = std::function<void()>;

    // `said`: where the call says whose message it has received.
    using Said = std::shared_ptr<std::atomic<int64_t>>;

    HostWork(const Given *about, Tensors outputs, Call call, Said said = {})
        : Work(-1, about ? about->op : c10d::OpType::UNKNOWN, title_of(about), inputs_of(about)), depth(::depth),
          outputs_(std::move(outputs)), call_(std::move(call)), said_(std::move(said)), limit_(about ? about->limit : Millis(0)) {
        if (about) {
            calls_ = about->calls;
            number_ = about->number;
        }
    }

    const int depth;

    // By the queue. What the call holds is the program's again before anybody hears of its end.
    void run() {
        std::exception_ptr failed;
        try {
            c10::NoGradGuard no_grad;
            call_();
        } catch (...) {
            failed = std::current_exception();
        }
        call_ = nullptr;
        if (failed && calls_)
            tell_calls(failed);
        if (calls_)
            calls_->become(number_, failed ? Calls::State::FAILED : Calls::State::DONE);
        finish(failed);
        bool asked;
        {
            std::lock_guard lock(mutex_);
            asked = future_ || for_python_;
        }
        if (!asked)
            return;
        try {
            with_python(
                [this] { hooks->take(py::cast(c10::intrusive_ptr<HostWork>::unsafe_reclaim_from_nonowning(this))); });
        } catch (const std::exception &) { // no thread for callbacks can be had: they run in this one
            set_future();
        }
    }

    bool wait(Millis timeout) override {
        Millis limit = timeout.count() > 0 ? timeout : limit_;
        std::optional<py::gil_scoped_release> released;
        if (PyGILState_Check())
            released.emplace(); // the queue may need it
        auto begin = Clock::now();
        std::unique_lock lock(mutex_);
        while (!cv_.wait_for(lock, limit.count() ? std::min(limit, POLL) : POLL, [this] { return completed_; })) {
            lock.unlock();
            if (limit.count() && Clock::now() - begin >= limit)
                fail(hooks->timeout, c10::str("not done: its timeout of ", std::chrono::duration<double>(limit).count(),
                                              " s is over", calls_ ? std::string(SAID) + calls_->text() : ""));
            look_for_signals();
            lock.lock();
        }
        auto failed = exception_;
        lock.unlock();
        if (failed)
            std::rethrow_exception(failed);
        return true;
    }

    void synchronize() override {
        wait(Millis(0));
    }
    Tensors result() override {
        return outputs_;
    }
    int sourceRank() const override {
        int64_t source = said_ ? said_->load() : -1;
        TORCH_CHECK(source >= 0, "only a receive that is over has a source rank");
        return int(source);
    }

    FuturePtr getFuture() override {
        bool over;
        FuturePtr future;
        {
            std::lock_guard lock(mutex_);
            if (future_)
                return future_;
            future_ = future = future_of_tensors();
            over = completed_;
        }
        if (over)
            set_future();
        return future;
    }

    // For Python, whose waits in a callback set the future themselves.
    py::object future_for_python() {
        std::shared_ptr<Held> kept;
        {
            std::lock_guard lock(mutex_);
            kept = for_python_;
        }
        if (kept)
            return py::reinterpret_borrow<py::object>(kept->get());
        Untraced untraced;
        py::object future =
            hooks->make_future(py::cast(c10::intrusive_ptr<HostWork>::unsafe_reclaim_from_nonowning(this)));
        kept = std::make_shared<Held>(future);
        bool over;
        {
            std::lock_guard lock(mutex_);
            if (for_python_) // another thread's, which has asked meanwhile
                return py::reinterpret_borrow<py::object>(for_python_->get());
            for_python_ = kept;
            over = completed_;
        }
        if (over)
            set_future();
        return future;
    }

    // Gives the futures the tensors or the error, once there are any; runs their callbacks.
    void set_future() {
        {
            std::optional<py::gil_scoped_release> released;
            if (PyGILState_Check())
                released.emplace();
            std::unique_lock lock(mutex_);
            cv_.wait(lock, [this] { return completed_; });
        }
        FuturePtr future;
        std::shared_ptr<Held> for_python;
        {
            std::lock_guard lock(mutex_);
            if (!std::exchange(future_set_, bool(future_)))
                future = future_;
            for_python.swap(for_python_); // the future holds the work: it may not hold that for ever
        }
        if (future && exception_)
            future->setError(exception_);
        else if (future)
            future->markCompleted(c10::IValue(outputs_));
        if (for_python)
            set(for_python->get());
    }

  private:
    static constexpr Millis POLL{100};
    static constexpr const char *SAID = "; this rank's last calls of the group:";

    // A note of the last calls behind a time-out.
    void tell_calls(const std::exception_ptr &failed) const {
        try {
            std::rethrow_exception(failed);
        } catch (const Failure &failure) {
            with_python([&] {
                if (PyObject_IsInstance(failure.value().ptr(), hooks->timeout.ptr()) == 1)
                    failure.value().attr("add_note")(std::string(SAID + 2) + calls_->text());
            });
        } catch (...) { // of C++: no time-out of pyshmem's
        }
    }

    void set(py::handle future) {
        py::gil_scoped_acquire gil;
        if (!exception_) {
            future.attr("set_result")(outputs_);
            return;
        }
        try {
            std::rethrow_exception(exception_);
        } catch (const Failure &failure) {
            future.attr("set_exception")(failure.value());
        } catch (const std::exception &error) {
            future.attr("set_exception")(py::module_::import("builtins").attr("RuntimeError")(error.what()));
        }
    }

    Tensors outputs_;
    Call call_;
    const Said said_;
    Millis limit_;
    std::shared_ptr<Calls> calls_; // of the group; none: it is no call of torch's
    uint64_t number_ = 0;
    FuturePtr future_;
    std::shared_ptr<Held> for_python_;
    bool future_set_ = false;
};

// ---- queues
// ------------------------------------------------------------------------------------------------------------------------

// A call of Python's as one of C++, in a thread without the interpreter's lock.
HostWork::Call call_of(py::object function, HostWork::Said said = {}) {
    return [held = std::make_shared<Held>(std::move(function)), said = std::move(said)] {
        with_python([&] {
            PyObject *result = PyObject_CallNoArgs(held->get().ptr());
            if (!result)
                throw Failure(py::error_already_set());
            if (said && PyLong_Check(result))
                said->store(PyLong_AsLongLong(result));
            Py_DECREF(result);
        });
    };
}

// A thread that runs calls one after the other; it begins with the first that its caller does not wait for.
class HostQueue : public std::enable_shared_from_this<HostQueue> {
  public:
    explicit HostQueue(std::string name) : name_(std::move(name)) {}

    // Queues a call. One whose caller waits is done here, in the caller's thread, where nothing is before it.
    c10::intrusive_ptr<HostWork> submit(HostWork::Call call, Tensors outputs, const Given *about,
                                        HostWork::Said said = {}) {
        auto work = c10::make_intrusive<HostWork>(about, std::move(outputs), std::move(call), std::move(said));
        if (getpid() != process_)
            fail(hooks->closed, name_ + " is of the process that this one was forked from");
        bool closed, here;
        {
            std::lock_guard lock(mutex_);
            closed = closed_;
            here = about && about->at_once && !busy_ && queue_.empty();
            if (here && !closed) {
                busy_ = true;
            } else if (!closed) {
                queue_.push_back(work);
                begin();
            }
        }
        if (closed)
            fail(hooks->closed, name_ + " was destroyed");
        if (here) {
            work->run();
            std::lock_guard lock(mutex_);
            busy_ = false;
            changed_.notify_all();
        }
        return work;
    }

    // Takes no more calls; waits for those that are queued, as long as it takes or `seconds`.
    void close(bool wait, std::optional<double> seconds) {
        if (getpid() != process_)
            return;
        std::optional<py::gil_scoped_release> released;
        if (PyGILState_Check())
            released.emplace();
        std::unique_lock lock(mutex_);
        closed_ = true;
        changed_.notify_all();
        auto over = [this] { return !busy_ && queue_.empty() && (ended_ || !begun_); };
        if (wait && seconds)
            changed_.wait_for(lock, std::chrono::duration<double>(std::max(*seconds, 0.0)), over);
        else if (wait)
            changed_.wait(lock, over);
    }

    static void close_all(double seconds) {
        std::vector<std::shared_ptr<HostQueue>> queues;
        {
            std::lock_guard lock(all_mutex);
            for (auto &queue : all)
                if (auto found = queue.lock())
                    queues.push_back(found);
        }
        auto end = Clock::now() + std::chrono::duration<double>(seconds);
        for (auto &queue : queues)
            queue->close(true, std::chrono::duration<double>(end - Clock::now()).count());
    }

  private:
    void begin() {
        if (!begun_) {
            begun_ = true;
            std::thread([self = shared_from_this()] { self->serve(); }).detach();
            std::lock_guard lock(all_mutex);
            all.erase(std::remove_if(all.begin(), all.end(), [](auto &one) { return one.expired(); }), all.end());
            all.push_back(weak_from_this());
        }
        changed_.notify_all();
    }

    void serve() {
        pthread_setname_np(pthread_self(), name_.substr(0, 15).c_str());
        std::unique_lock lock(mutex_);
        for (;;) {
            changed_.wait(lock, [this] { return !busy_ && (closed_ || !queue_.empty()); });
            if (queue_.empty())
                break;
            auto work = std::move(queue_.front());
            queue_.pop_front();
            busy_ = true;
            lock.unlock();
            work->run();
            work.reset(); // its tensors are the program's again
            lock.lock();
            busy_ = false;
        }
        ended_ = true;
        changed_.notify_all();
    }

    static std::mutex all_mutex;
    static std::vector<std::weak_ptr<HostQueue>> all; // whose thread has begun
    const std::string name_;
    const pid_t process_ = getpid();
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<c10::intrusive_ptr<HostWork>> queue_;
    bool begun_ = false, ended_ = false, closed_ = false, busy_ = false;
};
std::mutex HostQueue::all_mutex;
std::vector<std::weak_ptr<HostQueue>> HostQueue::all;

// Events that are used again: to make one takes longer than to record it.
class Events : public std::enable_shared_from_this<Events> {
  public:
    explicit Events(c10::DeviceType type) : type_(type) {}

    // Goes back when nobody asks it any more. Waits for what it has recorded are of that, whatever it records next.
    std::shared_ptr<c10::Event> take() {
        std::unique_ptr<c10::Event> event;
        {
            std::lock_guard lock(mutex_);
            if (!free_.empty()) {
                event = std::move(free_.back());
                free_.pop_back();
            }
        }
        if (!event)
            event = std::make_unique<c10::Event>(type_);
        return {event.release(), [self = shared_from_this()](c10::Event *over) { self->give_back(over); }};
    }

  private:
    static constexpr size_t MOST = 64;

    void give_back(c10::Event *over) {
        std::unique_ptr<c10::Event> event(over);
        std::lock_guard lock(mutex_);
        if (free_.size() < MOST)
            free_.push_back(std::move(event));
    }

    const c10::DeviceType type_;
    std::mutex mutex_;
    std::vector<std::unique_ptr<c10::Event>> free_;
};

// What the library knows streams of torch by.
using StreamHandle = void *;
using Capturing = int(StreamHandle, int *);
Capturing *stream_capturing; // ishmemx_stream_capturing

StreamHandle handle_of(const c10::Stream &stream) {
    static std::mutex mutex;
    static std::map<c10::StreamId, StreamHandle> known; // torch's streams live for ever; others' numbers are handles
    {
        std::lock_guard lock(mutex);
        auto found = known.find(stream.id());
        if (found != known.end())
            return found->second;
    }
    StreamHandle handle;
    with_python([&] {
        auto type = static_cast<int64_t>(stream.device_type());
        auto number = hooks->stream_handle(stream.id(), stream.device_index(), type).cast<uintptr_t>();
        handle = reinterpret_cast<StreamHandle>(number);
    });
    std::lock_guard lock(mutex);
    return known[stream.id()] = handle;
}

// Whether a graph is made of the stream's calls. The default stream has none.
bool is_captured(const c10::Stream &stream) {
    int yes = 0;
    auto handle = handle_of(stream);
    return handle && !stream_capturing(handle, &yes) && yes;
}

// A call on a stream. wait() makes the current stream wait, not the thread.
class StreamWork final : public c10d::Work {
  public:
    StreamWork(const Given *about, c10::Stream stream, Tensors outputs, Events &events)
        : Work(-1, about ? about->op : c10d::OpType::UNKNOWN, title_of(about), inputs_of(about)), stream_(stream),
          event_(events.take()), outputs_(std::move(outputs)) {}

    // The call is on the stream. The profiler's event is of the host's part, as NCCL's is.
    std::shared_ptr<c10::Event> started() {
        event_->record(stream_);
        if (recordFunctionEndCallback_) {
            recordFunctionEndCallback_();
            recordFunctionEndCallback_ = nullptr;
        }
        return event_;
    }

    bool wait(Millis = Millis(0)) override {
        c10::impl::VirtualGuardImpl guard(stream_.device_type());
        auto current = guard.getStream(stream_.device());
        if (current != stream_) // what is behind the call in its own stream waits as it is
            event_->block(current);
        return true;
    }
    void synchronize() override {
        wait();
    }
    void blockCurrentStream() override {
        wait();
    }
    bool isCompleted() override {
        return event_->query();
    }
    bool isSuccess() const override {
        return event_->query();
    } // what kernels find wrong the next call raises
    Tensors result() override {
        return outputs_;
    }

    // Waiters' streams wait for all that the call's stream has when somebody asks first.
    FuturePtr getFuture() override {
        std::lock_guard lock(mutex_);
        if (!future_) {
            c10::StreamGuard guard(stream_);
            future_ = future_of_tensors({stream_.device()});
            future_->markCompleted(c10::IValue(outputs_));
        }
        return future_;
    }

  private:
    c10::Stream stream_;
    const std::shared_ptr<c10::Event> event_;
    Tensors outputs_;
    FuturePtr future_;
};

// A stream of torch's, in whose order calls are; each waits for the current stream's work. A call that its caller waits
// for may be on the current stream itself, which then needs no events of both; calls of a queue are in order all the
// same. In a capture all are on the queue's: no event of a capture may be waited for outside of it, nor the reverse.
class StreamQueue {
  public:
    StreamQueue(py::object stream)
        : stream_(c10::Stream::unpack3(stream.attr("stream_id").cast<int64_t>(),
                                       stream.attr("device_index").cast<c10::DeviceIndex>(),
                                       static_cast<c10::DeviceType>(stream.attr("device_type").cast<int64_t>()))),
          events_(std::make_shared<Events>(stream_.device_type())), begin_(stream_.device_type()),
          last_stream_(stream_), given_(std::move(stream)) {}

    // With the interpreter's lock. `used`: tensors whose memory torch's allocator keeps until the stream is past the
    // call.
    WorkPtr submit(const py::object &call, Tensors outputs, const Tensors &used) {
        std::unique_lock lock(mutex_, std::defer_lock);
        {
            py::gil_scoped_release released; // who has the mutex may want it
            lock.lock();
        }
        const Given *about = std::exchange(given, nullptr);
        auto current = current_stream();
        return beside(about, current, is_captured(current), std::move(outputs), used, [&] { call(given_); });
    }

    // Without Python: `call(stream)` in the order of the queue.
    template <class Call> WorkPtr submit(const Given &about, Tensors outputs, const Tensors &used, const Call &call) {
        std::lock_guard lock(mutex_);
        auto current = current_stream();
        bool captured = is_captured(current);
        if (!about.waited || captured)
            return beside(&about, current, captured, std::move(outputs), used, [&] { call(stream_); });
        if (last_stream_ != current)
            behind_last(current);
        auto work = c10::make_intrusive<StreamWork>(&about, current, std::move(outputs), *events_);
        {
            c10::NoGradGuard no_grad;
            call(current);
        }
        last_ = work->started();
        last_stream_ = current;
        about.become(Calls::State::ON_STREAM);
        return work;
    }

    // Waits on the host for all calls, wherever they are.
    void synchronize() {
        std::lock_guard lock(mutex_);
        if (last_)
            last_->synchronize();
        stream_.synchronize();
    }

    py::object stream() const {
        return given_;
    }

  private:
    c10::Stream current_stream() const {
        return c10::impl::VirtualGuardImpl(stream_.device_type()).getStream(stream_.device());
    }

    // A call on the queue's stream, beside the current one.
    template <class Call>
    WorkPtr beside(const Given *about, const c10::Stream &current, bool captured, Tensors outputs, const Tensors &used,
                   const Call &call) {
        c10::impl::VirtualGuardImpl guard(stream_.device_type());
        begin_.record(current);
        begin_.block(stream_);
        if (!captured && last_ && last_stream_ != current)
            last_->block(stream_);
        auto work = c10::make_intrusive<StreamWork>(about, stream_, std::move(outputs), *events_);
        {
            c10::StreamGuard on_it(stream_);
            c10::NoGradGuard no_grad;
            call();
            work->started();
        }
        if (!captured) {
            last_.reset();
            last_stream_ = stream_;
        }
        if (about)
            about->become(Calls::State::ON_STREAM);
        for (const auto &tensor : used)
            guard.recordDataPtrOnStream(tensor.storage().data_ptr(), stream_);
        return work;
    }

    // `stream` waits for the queue's last call, which is on another one.
    void behind_last(const c10::Stream &stream) {
        if (last_) {
            last_->block(stream);
        } else {
            begin_.record(stream_);
            begin_.block(stream);
        }
    }

    const c10::Stream stream_;
    const std::shared_ptr<Events> events_;
    std::mutex mutex_;                 // of what follows, and of the order of calls
    c10::Event begin_;                 // of each call: a wait is for what was recorded last before it
    c10::Stream last_stream_;          // of the last call that is in no graph
    std::shared_ptr<c10::Event> last_; // behind it; none: it is on the queue's stream
    const py::object given_;
};

// Several calls as one.
class AllWork final : public c10d::Work {
  public:
    explicit AllWork(std::vector<WorkPtr> works) : works_(std::move(works)) {}

    bool wait(Millis timeout) override {
        for (auto &work : works_)
            work->wait(timeout);
        return true;
    }
    void synchronize() override {
        wait(Millis(0));
    }
    bool isCompleted() override {
        return std::all_of(works_.begin(), works_.end(), [](auto &work) { return work->isCompleted(); });
    }
    bool isSuccess() const override {
        return std::all_of(works_.begin(), works_.end(), [](auto &work) { return work->isSuccess(); });
    }
    Tensors result() override {
        Tensors all;
        for (auto &work : works_)
            for (auto &tensor : work->result())
                all.push_back(tensor);
        return all;
    }
    FuturePtr getFuture() override {
        c10::List<FuturePtr> futures(c10::FutureType::create(c10::ListType::create(c10::TensorType::get())));
        for (auto &work : works_)
            futures.push_back(work->getFuture());
        return c10::collectAll(futures);
    }

  private:
    std::vector<WorkPtr> works_;
};

} // namespace
