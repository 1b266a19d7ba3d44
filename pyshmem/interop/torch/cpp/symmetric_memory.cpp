// SPDX-License-Identifier: BSD-3-Clause
// What torch's symmetric memory wants of who has the memory: an allocator, and the members' copies of what it gave.
//
// It decides nothing: each call goes to an object in Python (symmetric_memory.py). native.py compiles this file for the
// torch that is there.

#include "python.hpp"

#include <torch/csrc/distributed/c10d/symm_mem/SymmetricMemory.hpp>

#include <map>
#include <mutex>

namespace {

namespace symmetric = c10d::symmetric_memory;

using Name = std::optional<std::string>;

// One tensor's memory at all members of a group. What is asked for often is read once.
class Memory final : public symmetric::SymmetricMemory {
  public:
    explicit Memory(const py::object &of)
        : of_(of), buffers_(addresses(of, "buffers")), pads_(addresses(of, "pads")),
          buffers_dev_(address(of, "buffers_dev")), pads_dev_(address(of, "pads_dev")),
          ranks_dev_(address(of, "ranks_dev")), ranks_(of.attr("ranks").cast<std::vector<int>>()),
          nbytes_(of.attr("nbytes").cast<size_t>()), rank_(of.attr("rank").cast<int>()),
          device_(of.attr("device").cast<c10::Device>()) {}

    std::vector<void *> get_buffer_ptrs() override {
        return buffers_;
    }
    std::vector<void *> get_signal_pad_ptrs() override {
        return pads_;
    }
    void **get_buffer_ptrs_dev() override {
        return static_cast<void **>(buffers_dev_);
    }
    void **get_signal_pad_ptrs_dev() override {
        return static_cast<void **>(pads_dev_);
    }
    size_t get_buffer_size() override {
        return nbytes_;
    }
    size_t get_offset() override {
        return 0;
    }
    bool has_multicast_support() override {
        return false;
    }
    void *get_multicast_ptr() override {
        return nullptr;
    }
    void barrier(int channel, size_t milliseconds) override {
        py::gil_scoped_acquire gil;
        of_.get().attr("barrier")(channel, milliseconds / 1e3);
    }
    void put_signal(int to, int channel, size_t milliseconds) override {
        py::gil_scoped_acquire gil;
        of_.get().attr("put_signal")(to, channel, milliseconds / 1e3);
    }
    void wait_signal(int from, int channel, size_t milliseconds) override {
        py::gil_scoped_acquire gil;
        of_.get().attr("wait_signal")(from, channel, milliseconds / 1e3);
    }
    int get_rank() override {
        return rank_;
    }
    int get_world_size() override {
        return int(buffers_.size());
    }
    c10::Device get_device() override {
        return device_;
    }
    const std::vector<int> &get_rank_to_global_rank() override {
        return ranks_;
    }
    int *get_rank_to_global_rank_dev() override {
        return static_cast<int *>(ranks_dev_);
    }
    bool world_within_direct_access() override {
        return true; // a rendezvous of others fails
    }

  private:
    static void *address(const py::object &of, const char *name) {
        return reinterpret_cast<void *>(of.attr(name).cast<uintptr_t>());
    }
    static std::vector<void *> addresses(const py::object &of, const char *name) {
        std::vector<void *> found;
        for (py::handle one : of.attr(name))
            found.push_back(reinterpret_cast<void *>(one.cast<uintptr_t>()));
        return found;
    }

    const Held of_;
    const std::vector<void *> buffers_, pads_;
    void *const buffers_dev_, *const pads_dev_, *const ranks_dev_;
    const std::vector<int> ranks_;
    const size_t nbytes_;
    const int rank_;
    const c10::Device device_;
};

// Gives parts of a block that the PEs have on a heap.
class Allocator final : public symmetric::SymmetricMemoryAllocator {
  public:
    Allocator(py::object of, std::string name, c10::DeviceType type)
        : of_(std::move(of)), name_(std::move(name)), type_(type) {}

    void *alloc(size_t nbytes, int, const Name &) override {
        py::gil_scoped_acquire gil;
        return reinterpret_cast<void *>(of_.get().attr("allocate")(nbytes).cast<uintptr_t>());
    }
    void free(void *memory) override {
        {
            std::lock_guard lock(mutex_);
            auto first = met_.lower_bound({memory, ""});
            while (first != met_.end() && first->first.first == memory)
                first = met_.erase(first);
        }
        if (Py_IsInitialized())
            with_python([&] { of_.get().attr("free")(number(memory)); });
    }
    size_t get_alloc_size(void *memory) override {
        py::gil_scoped_acquire gil;
        return of_.get().attr("size_of")(number(memory)).cast<size_t>();
    }
    bool has_allocation(void *memory) {
        py::gil_scoped_acquire gil;
        return of_.get().attr("has")(number(memory)).cast<bool>();
    }
    // Collective over the group; what a first call found is what later ones get.
    c10::intrusive_ptr<symmetric::SymmetricMemory> rendezvous(void *memory, const Name &group) override {
        std::pair key(memory, group.value_or("0"));
        {
            std::lock_guard lock(mutex_);
            auto found = met_.find(key);
            if (found != met_.end())
                return found->second;
        }
        c10::intrusive_ptr<symmetric::SymmetricMemory> made;
        {
            py::gil_scoped_acquire gil;
            py::object met = of_.get().attr("rendezvous")(number(memory), key.second);
            if (met.is_none())
                return {};
            made = c10::make_intrusive<Memory>(met);
        }
        std::lock_guard lock(mutex_);
        return met_[key] = made;
    }
    bool has_multicast_support(int) override {
        return false;
    }
    c10::DeviceType supported_device_type() override {
        return type_;
    }
    std::string name() override {
        return name_;
    }

  private:
    static uintptr_t number(void *memory) {
        return reinterpret_cast<uintptr_t>(memory);
    }

    const Held of_;
    const std::string name_;
    const c10::DeviceType type_;
    std::mutex mutex_; // of what follows; nobody takes the interpreter's lock while holding it
    std::map<std::pair<void *, std::string>, c10::intrusive_ptr<symmetric::SymmetricMemory>> met_;
};

} // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
    module.def("offer", [](py::object of, const std::string &name, const c10::Device &device) {
        symmetric::register_availability(name, c10::make_intrusive<Allocator>(of, name, device.type()));
        symmetric::set_backend(name);
    });
}
