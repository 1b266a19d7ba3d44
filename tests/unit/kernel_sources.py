# SPDX-License-Identifier: BSD-3-Clause
"""Kernels whose source alone says whether compilers for GPUs take them: ``compiled_sources.py`` asks."""

import math
import time

import pyshmem  # noqa: F401  (before numba: lends numba-cuda what NumPy 2.5 lacks)

# isort: split
import numpy as np
from numba import cuda
from numpy import zeros as imported


def refused_ones(a, b):
    a[:] = np.ones(4)


def refused_zeros(a, b):
    mine = imported(4)
    a[0] = mine[0]


def refused_array(a, b):
    mine = np.array([1.0, 2.0])
    a[0] = mine[0]


def refused_where(a, b):
    mine = np.where(a > 0, a, b)
    a[0] = mine[0]


def refused_random(a, b):
    a[0] = np.random.random()


def refused_copy(a, b):
    mine = a.copy()
    b[0] = mine[0]


def refused_flatten(a, b):
    b[0] = a[1:].flatten()[0]


def refused_ravel(a, b):
    b[0] = a.ravel()[0]


def refused_f_string(a, b):
    print(f"thread {cuda.threadIdx.x}")


def refused_percent(a, b):
    print("%d" % a[0])  # noqa: UP031


def refused_format(a, b):
    print("{}".format(a[0]))  # noqa: UP032


def refused_str(a, b):
    print(str(1))


def refused_dict(a, b):
    known = {"x": 1}
    a[0] = known["x"]


def refused_set(a, b):
    a[0] = len({1, 2})


def refused_list(a, b):
    mine = [1, 2]
    mine.append(3)
    a[0] = mine[0]


def refused_empty_list(a, b):
    mine = []
    for i in range(4):
        mine.append(i)
    a[0] = mine[0]


def refused_comprehension(a, b):
    mine = [x for x in range(4)]  # noqa: C416
    a[0] = mine[0]


def refused_generator(a, b):
    a[0] = sum(x for x in range(4))


def refused_try(a, b):
    try:
        a[0] = 1
    except ValueError:
        a[0] = 2


def refused_finally(a, b):
    try:
        a[0] = 1
    finally:
        a[0] = 2


def refused_with(a, b):
    with open("x") as file:
        a[0] = file.fileno()


def refused_import(a, b):
    import time

    a[0] = time.time()


def refused_global(a, b):
    global COUNT
    COUNT = 3


def refused_del(a, b):
    x = a[0]
    b[0] = x
    del x


def refused_return(a, b):
    return a[0]


LIST, DICT, CONSTANT = [1, 2, 3], {"x": 1}, np.arange(4.0)


def refused_global_list(a, b):
    a[0] = LIST[1]


def refused_global_dict(a, b):
    a[0] = DICT["x"]


def refused_global_array(a, b):
    CONSTANT[1] = 3


def refused_star(a, b):
    first, *_ = (1, 2, 3)
    a[0] = first


def refused_sorted(a, b):
    a[0] = sorted(b)[0]


def refused_list_of(a, b):
    mine = list(b)
    a[0] = mine[0]


def refused_local_of_a_size(a, b):
    mine = cuda.local.array(len(a), np.float64)
    mine[0] = 1


def plain(x):
    return x + 1


class Holder:
    value = 3


MIXED, WORD, SET, FOUR = (1, 2.5, 3), "abc", frozenset((1, 2)), 4


def refused_plain_function(a, b):
    a[0] = plain(b[0])


def refused_class(a, b):
    a[0] = Holder.value


def refused_clock(a, b):
    a[0] = time.time()


def refused_length_of_a_global_list(a, b):
    a[0] = len(LIST)


def refused_loop_over_a_global_list(a, b):
    for x in LIST:
        a[0] += x


def refused_in_a_global_set(a, b):
    a[0] = 1 in SET


def refused_in_a_global_dict(a, b):
    a[0] = "x" in DICT


def refused_any(a, b):
    a[0] = any((True, False))


def refused_reversed(a, b):
    for k in reversed(range(3)):
        a[k] = k


def refused_map(a, b):
    for x in map(lambda q: q + 1, b):  # noqa: C417
        a[0] = x


def refused_getattr(a, b):
    a[0] = getattr(a, "size")  # noqa: B009


def refused_hash(a, b):
    a[0] = hash(3)


def refused_id(a, b):
    a[0] = id(a) != 0


def refused_eval(a, b):
    a[0] = eval("1")


def refused_strict_zip(a, b):
    for x, y in zip(a, b, strict=True):
        a[0] = x + y


def refused_enumerate_from(a, b):
    for k, x in enumerate(b, start=1):
        a[0] = k + x


def refused_default(a, b):
    a[0] = max((1, 2), default=0)


def refused_power_of_three(a, b):
    a[0] = pow(3, 2, 5)


def refused_is_an_array(a, b):
    a[0] = isinstance(a, np.ndarray)


def refused_int_of_a_text(a, b):
    a[0] = int("3")


def refused_gcd(a, b):
    a[0] = math.gcd(4, 6)


def refused_long_hypot(a, b):
    a[0] = math.hypot(3.0, 4.0, 5.0)


def refused_log_to_a_base(a, b):
    a[0] = math.log(8.0, 2)


def refused_root_of_numpy(a, b):
    a[0] = np.sqrt(b[0])


def refused_floor_of_numpy(a, b):
    a[0] = np.floor(b[0])


def refused_nditer(a, b):
    for x in np.nditer(b):
        a[0] = x


def refused_loop_over_two_types(a, b):
    for x in (1, 2.5):
        a[0] += x


def refused_item_of_two_types(a, b):
    pair = (1, 2.5)
    a[0] = pair[a.size - 3]


def refused_item_of_a_global(a, b):
    a[0] = MIXED[a.size - 3]


def refused_letter(a, b):
    a[0] = WORD[1] == "b"


def refused_part_of_a_range(a, b):
    a[0] = range(5)[a.size - 3]


def refused_repeated_tuple(a, b):
    a[0] = len((1,) * a.size)


def refused_chosen_function(a, b):
    f = math.sin if a[0] > 1 else math.cos
    a[0] = f(1.0)


def refused_walrus(a, b):
    if (m := b[0] * 2) > 1:
        a[0] = m


def refused_raise_of_a_value(a, b):
    if a[0] > 9:
        raise ValueError(b[0])


def refused_assertion_of_a_value(a, b):
    assert a[0] < 9, b[0]


def refused_separator(a, b):
    print(1, 2, sep=",")


def refused_print_none(a, b):
    print(None)


def refused_print_complex(a, b):
    print(1j)


def refused_print_dtype(a, b):
    print(a.dtype)


def refused_itemsize_of_a_dtype(a, b):
    a[0] = a.dtype.itemsize


def refused_dtype_compared(a, b):
    if a.dtype == np.float64:
        a[0] = 1


def refused_dtype_set(a, b):
    a.dtype = np.int64


def refused_bit_length(a, b):
    n = 3
    a[0] = n.bit_length()


def refused_element_as_type(a, b):
    a[0] = b[0].astype(np.float32)


def refused_huge(a, b):
    a[0] = 100000000000000000000000


def refused_division_in_a_loop(a, b):
    x = 7
    for _ in range(2):
        x /= 2
    a[0] = x


def refused_local_of_python(a, b):
    mine = cuda.local.array(4, float)
    mine[0] = 1


def refused_local_of_a_sum(a, b):
    mine = cuda.local.array(FOUR * 2, np.float64)
    mine[0] = 1


def refused_atomic_in_a_tuple(a, b):
    cuda.atomic.add(a, (1,), 1.0)


def refused_inner_star(a, b):
    def first(*q):
        return q[0]

    a[0] = first(1)


def array_new_axis(a, b):
    a[0] = b[None][0, 1]


def array_by_a_bool(a, b):
    a[b[0] > 0] = 3


def array_all_of_it(a, b):
    a[0] = b[...][1]


def array_flags(a, b):
    a[0] = a.flags.c_contiguous


def array_base(a, b):
    a[0] = a.base is None


def array_shape_set(a, b):
    a.shape = (2, 2)


def array_none(a, b):
    a[0] = None


def array_printed(a, b):
    print(a)


def array_part_printed(a, b):
    print("a part", a[1:3])


def array_sum_of_an_axis(a, b):
    a[0] = a.sum(0)


def array_numpys_sum_of_an_axis(a, b):
    a[0] = np.sum(a, axis=0)


def array_as_a_condition(a, b):
    if a[:1]:
        a[0] = 1


def refused_sum_of_an_element(a, b):
    a[0] = np.sum(b[1])


def refused_mean_of_a_number(a, b):
    x = a[0] + 2 * b[a.size - 1]
    y = -x
    a[0] = np.mean(y) if False else np.mean(x)


def refused_product_of_a_constant(a, b):
    a[0] = np.prod(1.5)


def refused_size_of_an_element(a, b):
    a[0] = np.size(b[int(a[1])])


def refused_wide_shift(a, b):
    a[0] = 1 << 70


def refused_wide_power(a, b):
    a[0] = b[0] + 3**41


def refused_low_integer(a, b):
    a[0] = -(1 << 63) - 1


def array_item_of_an_index(a, b):
    a[0] = b.item(1)


def array_viewed_by_a_text(a, b):
    a[0] = b.view("int64")[0]


def array_viewed_by_a_type_of_python(a, b):
    a[0] = b.view(float)[0]


def array_viewed_by_a_keyword(a, b):
    a[0] = b.view(dtype=np.int64)[0]


def array_viewed_as_it_is(a, b):
    a[0] = b.view()[0]


def array_of_integers_divided_by_an_element(a, b):
    mine = cuda.local.array(2, np.int64)
    mine[0] = mine[1] = 6
    for k in range(2):
        mine[k] /= mine[1 - k]


def taken_numbers(a, b):
    mine = cuda.local.array(2, np.int64)
    mine[0] = 7
    mine[0] /= 2.0
    for k in range(2):
        mine[k] /= b[k]
        mine[k] /= float(a[k])
    a[0] = b[1:2].item() + b.view(np.int64)[0] + mine.view(b.dtype)[1] + b.view(np.dtype("u8"))[1]
    a[1] = np.sum(b) + np.sum(b[1:2]) + np.any(b[1]) + (1 << 62) + 2**70 - 2**69
    a[2] = (1 << 63) - 1


def array_of_integers_divided(a, b):
    mine = cuda.local.array(2, np.int64)
    mine[0] = 6
    mine[0] /= 2


def taken_divisions(a, b):
    y = 1.0
    for _ in range(2):
        y /= 2
    mine = cuda.local.array(2, np.int64)
    mine[0] = 7 / 2
    mine[0] //= 2
    a[0] /= 2
    a[1] = y


def taken_forms(a, b):
    a[...] = 1
    a[None] = 2
    a[()] = 3
    for x in (1, 2, 3):
        a[x] = b[None, :][0, x] + b[x]
    a[0] = (1, 2, 3)[a.size - 3] + MIXED[1] + len(WORD)
    y = abs(-3)
    a[1] = y + math.hypot(3.0, 4.0) + math.log(2.0) + sum((1, 2), start=1)
    if a[0] > 99:
        raise ValueError("too large", 1)
    assert a[0] < 99, WORD
    word = WORD
    if a[0] > 99:
        raise ValueError(word, FOUR, MIXED)
    a[2] = isinstance(y, int) + (a.dtype == b.dtype) + float("3.5") + ord("a") + round(2.5)
    for k, (x, y) in enumerate(zip(a, b)):  # noqa: B905
        a[k] = x + y


def taken_shapes(a, b):
    n = 2
    mine = cuda.local.array((n, 3), np.float64)
    ours = cuda.shared.array(shape=FOUR, dtype=np.int32)
    third = cuda.local.array(2 * 2, np.float32)
    ours[0], mine[1, 2], third[3] = 3, 4, 5
    a[0] = ours[0] + mine[1][2] + third[3]


def array_row_of_a_row(a, b):
    mine = cuda.local.array((2, 2), np.float64)
    mine[1][:] = b[0:2]


def array_row(a, b):
    mine = cuda.local.array((2, 2), np.float64)
    mine[1] = b[0:2]


def array_into_local(a, b):
    mine = cuda.local.array(4, np.float64)
    mine[:] = a


def taken_values(a, b):
    a[0:2] = (1, 2)


def array_add_in_place(a, b):
    a += 1


def array_add_to_a_part(a, b):
    a[1:3] += 1


def array_of_shared_add(a, b):
    mine = cuda.shared.array(2, np.float64)
    mine += 1


def array_sum_of_two(a, b):
    a[0] = (a + b)[0]


def array_negative(a, b):
    a[0] = (-b)[0]


def array_comparison(a, b):
    a[a > 1] = 0


def refused_root(a, b):
    a[0] = np.sqrt(b)[0]


def array_product(a, b):
    a[0] = np.dot(a, b)


def array_matmul(a, b):
    a[0] = a @ b


def array_largest(a, b):
    a[0] = b.max()


def refused_as_type(a, b):
    a[0] = b.astype(np.float32)[0]


def array_sorted(a, b):
    a.sort()


def array_as_list(a, b):
    a[0] = b.tolist()[0]


def array_item(a, b):
    a[0] = b.item(0)


def array_reshaped_in_order(a, b):
    a.reshape(4, order="F")[0] = 1


def array_reshaped_by_numpy(a, b):
    np.reshape(a, 4)[0] = 1


def array_part_reshaped(a, b):
    a.reshape((2, 2))[:, 0:1].reshape(2)[0] = 1


def array_with_axes(a, b):
    a.reshape((2, 2)).transpose(1, 0)[0, 0] = 1


def taken_parts(a, b):
    a[1:3] = 5
    a[:] = b[0]
    c = a.reshape((2, 2))
    c[1] = 7
    c[:, 1] = 3
    c.T[0, 1] = c.transpose()[1, 0]
    a[1] += 1
    a.fill(2)


def taken_reductions(a, b):
    a[0] = b.sum() + b.mean() + np.prod(b) + b.argmax() + np.std(b)
    a[1] = 3.0 in b
    a[2] = CONSTANT[1]


def taken_loop(a, b):
    """A text of its own."""
    for i in range(4):
        a[i] = b[i]


def taken_constants(a, b):
    if a[0] in [3, 4]:
        a[1] = 1


def taken_tuple(a, b):
    pair = (1, 2)
    a[0] = pair[1]


def taken_print(a, b):
    print("x is", a[0])
    print(f"plain")  # noqa: F541


def taken_local(a, b):
    mine = cuda.local.array(4, np.float64)
    mine[:] = 0
    a[0] = mine[0] + np.float64(3) + np.inf


def refused_ufunc_out(a, b):
    np.sin(a, out=b)


def refused_length_of_a_function(a, b):
    b[0] = _first_of(a, len(a))


def refused_length_by_name(a, b):
    b[0] = _first_of(a, length=FOUR * 2)


def array_ufunc_of_no_gpu(a, b):
    np.deg2rad(a, b)
    np.matmul(a, b, a)


def array_part_in_place(a, b):
    a[1:] /= b[1:]


def taken_inner(a, b):
    def add(x):
        return x + 1

    a[0] = add(a[0])
    b[0] = (lambda x: x + 2)(b[0])


def taken_return(a, b):
    if a[0] > 1:
        return
    a[0] = np.isnan(a[1])
    return None  # noqa: RET501


def taken_sizes(a, b):
    a[0] = a.size + a.shape[0] + len(a)


def taken_sum(a, b):
    a[0] = a.sum() + np.sum(b) + max(a[0], b[0])
    a[1:3] = 0


def taken_reshape(a, b):
    b[0] = a.reshape((2, 2))[1, 1]


def taken_ufunc_of_whole_arrays(a, b):
    np.sin(a, b)
    np.fmax(a, b, a)
    np.arctan2(1.0, a, b)


@cuda.jit(device=True)
def _first_of(x, length):
    ours = cuda.shared.array(length, np.float64)
    ours[0] = x[0]
    return ours[0]


@cuda.jit(device=True)
def _first_by_another(x, length):
    return _first_of(x, length)


def taken_length_of_a_function(a, b):
    k = 4
    b[0] = _first_of(a, length=k)


def taken_length_of_an_inner_function(a, b):
    b[0] = _first_by_another(a, FOUR)


def taken_own_name(a, b):
    str = a[0]
    b[0] = str


KERNELS = {n: f for n, f in globals().items() if n.startswith(("refused_", "array_", "taken_"))}
