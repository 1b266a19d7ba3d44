// SPDX-License-Identifier: BSD-3-Clause
// Tensors whose elements are their memory, one behind the other, and how two of them lie.
#pragma once

#include "python.hpp"

#include <ATen/core/Tensor.h>

namespace {

template <class T> T *at_address(const py::object &number) {
    return reinterpret_cast<T *>(number.cast<uintptr_t>());
}

char *bytes(const at::Tensor &tensor) {
    return static_cast<char *>(tensor.data_ptr());
}

// Subclasses in Python may stand for others: those are looked at there.
bool is_plain(const at::Tensor &tensor) {
    return tensor.layout() == at::kStrided && tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg() &&
           !tensor.is_quantized() && tensor.has_storage() && !tensor.key_set().has(c10::DispatchKey::Python);
}

// Whether `whole` has a part as long as `part` for each of `n` members.
bool shares(const at::Tensor &whole, const at::Tensor &part, int64_t n) {
    return whole.scalar_type() == part.scalar_type() && whole.numel() == n * part.numel();
}

// Whether they share no memory, or `part` begins `behind` bytes behind `whole`: of others Python makes copies, as a
// piece may be overwritten before it is read.
bool apart(const at::Tensor &whole, const at::Tensor &part, int64_t behind) {
    const char *begin = bytes(whole), *first = bytes(part);
    return first == begin + behind || first + part.nbytes() <= begin || begin + whole.nbytes() <= first;
}
bool in_place(const at::Tensor &whole, const at::Tensor &part, int me) {
    return apart(whole, part, me * int64_t(part.nbytes()));
}

} // namespace
