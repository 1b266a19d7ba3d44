# SPDX-License-Identifier: BSD-3-Clause
"""Kernels whose source alone says whether a GPU's compiler takes them. As a script: asks that compiler.

It prints, as JSON, the names of those that compile; ``test_kernel_source.py`` reads them.
"""

import json
import types as python_types

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


def array_row_of_a_row(a, b):
    mine = cuda.local.array((2, 2), np.float64)
    mine[1][:] = b[0:2]


def array_row(a, b):
    mine = cuda.local.array((2, 2), np.float64)
    mine[1] = b[0:2]


def array_into_local(a, b):
    mine = cuda.local.array(4, np.float64)
    mine[:] = a


def array_values(a, b):
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


def array_root(a, b):
    a[0] = np.sqrt(b)[0]


def array_product(a, b):
    a[0] = np.dot(a, b)


def array_matmul(a, b):
    a[0] = a @ b


def array_largest(a, b):
    a[0] = b.max()


def array_as_type(a, b):
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


def taken_own_name(a, b):
    str = a[0]
    b[0] = str


KERNELS = {n: f for n, f in globals().items() if n.startswith(("refused_", "array_", "taken_"))}


def compiled() -> list[str]:
    """Names of those that Numba compiles for sm_90. Not in a process with its simulator."""
    import numba.cuda.dispatcher as dispatcher
    from numba.cuda import types

    gpu = python_types.SimpleNamespace(compute_capability=(9, 0))
    dispatcher.get_current_device = lambda: gpu
    array, found = types.float64[::1], []
    for name, kernel in KERNELS.items():
        try:
            cuda.compile(kernel, types.void(array, array), cc=(9, 0), output="ptx")
        except Exception:  # each mistake has another class
            continue
        found.append(name)
    return found


if __name__ == "__main__":
    print(json.dumps(compiled()))
