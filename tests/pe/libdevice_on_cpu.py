# SPDX-License-Identifier: BSD-3-Clause
"""All of ``cuda.libdevice`` in kernels compiled for the CPU: run by test_device_cpu.py."""

import math
from fractions import Fraction

import numpy as np
from numba import cuda
from numba.cuda import libdevice
from numba.cuda.libdevicefuncs import create_signature, functions

from pyshmem import device

assert device.put

FLOATS = (0.1, -0.1, 1.0, 3.0, 1e-15, -7.7e10, 2.5)
NAMES = {"add": "__add__", "sub": "__sub__", "mul": "__mul__", "div": "__truediv__"}


def kernel_of(name: str, given: int):
    """A kernel that stores what a function returns, of as many arguments."""
    arguments = ", ".join(f"a[{k}]" for k in range(given))
    names: dict = {"f": getattr(libdevice, name), "cuda": cuda}
    exec(f"def kernel(out, {'a' if given else '_'}):\n    out[0] = f({arguments})", names)
    return cuda.jit(names["kernel"])


def check_rounding(single: bool) -> None:
    """Against exact fractions: no float is nearer on the side that is asked for."""
    kind, letter = (np.float32, "f") if single else (np.float64, "d")
    for op, method in NAMES.items():
        for mode in ("rn", "rz", "rd", "ru"):
            if not hasattr(libdevice, f"{letter}{op}_{mode}"):  # it is missing there, too
                assert (op, letter) == ("sub", "d")
                continue
            kernel, out = kernel_of(f"{letter}{op}_{mode}", 2), np.zeros(1, kind)
            for a in map(kind, FLOATS):
                for b in map(kind, FLOATS):
                    kernel[1, 1](out, np.array([a, b], kind))
                    exact = getattr(Fraction(float(a)), method)(Fraction(float(b)))
                    check_one(out[0], exact, mode, kind)


def check_one(found, exact: Fraction, mode: str, kind) -> None:
    value = Fraction(float(found))
    below = Fraction(float(np.nextafter(found, kind(-np.inf))))
    above = Fraction(float(np.nextafter(found, kind(np.inf))))
    if mode == "rz":
        mode = "rd" if exact >= 0 else "ru"
    if mode == "rd":
        assert value <= exact < above, (found, exact)
    elif mode == "ru":
        assert below < exact <= value, (found, exact)
    else:
        assert abs(value - exact) <= min(abs(below - exact), abs(above - exact))


def one(name: str, *given, kind=np.float64, out=np.float64):
    made = np.zeros(1, out)
    kernel_of(name, len(given))[1, 1](made, np.array(given, kind))
    return made[0]


#: A function, the dtypes of its arguments and of its result, the arguments, the result.
F64, F32, I16, I32, I64 = np.float64, np.float32, np.int16, np.int32, np.int64
ROWS = (
    ("double2int_rd", F64, I32, (-1.5,), -2), ("double2int_ru", F64, I32, (-1.5,), -1),
    ("double2int_rn", F64, I32, (2.5,), 2), ("double2int_rz", F64, I32, (1e30,), 2**31 - 1),
    ("float2int_rz", F32, I32, (math.nan,), 0), ("double2ll_rn", F64, I64, (math.nan,), -(2**63)),
    ("double2uint_rn", F64, I32, (4e9,), 4 * 10**9 - 2**32),
    ("double2float_ru", F64, F32, (0.1,), float(F32(0.1))),
    ("double2float_rd", F64, F32, (0.1,), float(np.nextafter(F32(0.1), F32(0)))),
    ("ull2double_rd", I64, F64, (-1,), 2.0**64 - 2048), ("ull2double_ru", I64, F64, (-1,), 2.0**64),
    ("ull2float_rz", I64, F32, (-1,), 2.0**64 - 2.0**40),
    ("int2float_rd", I32, F32, (2**24 + 1,), 2**24),
    ("fma_ru", F64, F64, (0.1, 10.0, -1.0), 2.0**-54),
    ("dsqrt_rd", F64, F64, (2.0,), 1.4142135623730950),
    ("dsqrt_ru", F64, F64, (2.0,), 1.4142135623730952),
    ("drcp_ru", F64, F64, (3.0,), 0.33333333333333337),
    ("frcp_rz", F32, F32, (3.0,), float(np.nextafter(F32(1) / F32(3), F32(0)))),
    ("mul24", I32, I32, (0xFFFFFF, 5), -5), ("umul24", I32, I32, (0x1000003, 5), 15),
    ("mul64hi", I64, I64, (-(2**62), 8), -2), ("umul64hi", I64, I64, (-1, -1), -2),
    ("byte_perm", I32, I32, (0x33221100, 0x77665544, 0x7351), 0x77335511),
    ("double2hiint", F64, I32, (-2.0,), -(2**30)), ("double2loint", F64, I32, (0.1,), -1717986918),
    ("hiloint2double", I32, F64, (0x3FF80000, 0), 1.5),
    ("float2half_rn", F32, I16, (1.5,), 0x3E00), ("half2float", I16, F32, (0x3E00,), 1.5),
    ("llround", F64, I64, (-2.5,), -3), ("llrint", F64, I64, (2.5,), 2),
    ("erfinv", F64, F64, (1.0,), math.inf), ("erfcinv", F64, F64, (2.0,), -math.inf),
    ("sinpi", F64, F64, (3.0,), 0), ("cospi", F64, F64, (2.5,), 0), ("sinpi", F64, F64, (-2.5,), -1),
)  # fmt: skip
#: A function, its argument, and the result within some units of the last place.
NEAR = (
    ("erfcx", -1.0, 5.00898008076228), ("erfcx", 0.0, 1.0), ("erfcx", 3.0, 0.17900115118138996),
    ("erfcx", 50.0, 0.011281536265323772), ("normcdfinv", 0.975, 1.959963984540054),
)  # fmt: skip


def made(name: str, given_kind, kind, given: tuple):
    out = np.zeros(1, kind)
    kernel_of(name, len(given))[1, 1](out, np.array(given, given_kind))
    return out[0]


def check_values() -> None:
    for name, given_kind, kind, given, wanted in ROWS:
        found = made(name, given_kind, kind, given)
        assert found == wanted, (name, given, found)
    for name, value, wanted in NEAR:
        assert math.isclose(made(name, F64, F64, (value,)), wanted, rel_tol=4e-15), name
    assert math.isnan(made("erfcinv", F64, F64, (3.0,)))


@cuda.jit
def inverses(out, x):
    i = cuda.grid(1)
    out[i, 0] = libdevice.erfinv(x[i])
    out[i, 1] = libdevice.erfcinv(x[i])


def check_inverses() -> None:
    """What they return has the value of which it is the inverse."""
    x = np.array([1e-300, 1e-12, 0.1, 0.3, 0.5, 0.7, 0.999, 1 - 1e-12, -0.2, -0.7, 1.2, 1.9])
    out = np.zeros((len(x), 2))
    inverses[1, len(x)](out, x)
    for (inverse, of_rest), value in zip(out.tolist(), x.tolist(), strict=True):
        if abs(value) < 1:
            assert math.isclose(math.erf(inverse), value, rel_tol=4e-15), value
        if value > 0:
            digits = 4e-15 + 3e-16 * of_rest**2  # that the place of the inverse leaves
            assert math.isclose(math.erfc(of_rest), value, rel_tol=digits), value


@cuda.jit
def pairs(out, x):
    out[0, 0], out[0, 1] = libdevice.sincos(x[0])
    out[1, 0], out[1, 1] = libdevice.frexp(x[0])
    out[2, 0], out[2, 1] = libdevice.modf(x[0])
    out[3, 0], out[3, 1] = libdevice.remquo(x[0], 1.5)
    out[4, 0], out[4, 1] = libdevice.sincospi(x[0])


@cuda.jit
def pairs_of_singles(out, x):
    out[0, 0], out[0, 1] = libdevice.fast_sincosf(x[0])
    out[1, 0], out[1, 1] = libdevice.frexpf(x[0])
    out[2, 0], out[2, 1] = libdevice.modff(x[0])
    out[3, 0], out[3, 1] = libdevice.remquof(x[0], 1.5)
    out[4, 0], out[4, 1] = libdevice.sincospif(x[0])


def check_pairs() -> None:
    for kernel, kind in ((pairs, np.float64), (pairs_of_singles, np.float32)):
        out, x = np.zeros((5, 2), kind), 5.25
        kernel[1, 1](out, np.array([x], kind))
        half = math.sqrt(0.5)
        wanted = [
            (math.sin(x), math.cos(x)),
            math.frexp(x),
            math.modf(x),
            (-0.75, 4),
            (-half, -half),
        ]
        np.testing.assert_allclose(out, wanted, rtol=1e-6 if kind is np.float32 else 1e-15)


def check_all_compile() -> None:
    """Each function of the table, in one kernel of them."""
    lines, names = ["def kernel(out):"], {}
    for number, (name, row) in enumerate(functions.items()):
        kind = create_signature(*row)
        names[f"f{number}"] = getattr(libdevice, name.removeprefix("__nv_"))
        given = ", ".join("0.5" if str(one).startswith("float") else "1" for one in kind.args)
        names[f"k{number}"] = kind
        lines.append(f"    r = f{number}({given})")
        many = hasattr(kind.return_type, "__len__")
        lines.append(f"    out[{number}] = {'r[0] + r[1]' if many else 'r'}")
    exec("\n".join(lines), names)
    out = np.full(len(functions), np.nan)
    cuda.jit(names["kernel"])[1, 1](out)
    unset = [name for name, value in zip(functions, out, strict=True) if math.isnan(value)]
    assert unset == ["__nv_acosh", "__nv_acoshf"]  # of a half there is none


check_rounding(single=False)
check_rounding(single=True)
check_values()
check_inverses()
check_pairs()
check_all_compile()
print("ok")
