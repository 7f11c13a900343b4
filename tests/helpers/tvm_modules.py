"""Modules of TVM, small and from ONNX models."""

import threading
import warnings
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
import onnx

from apass.adapters.tvm import IRModule, from_script
from apass.adapters.tvm.library import tvm

__all__ = [
    "HEAD",
    "ONNX_MODELS",
    "Pausing",
    "crowd",
    "from_onnx",
    "legalized",
    "light_models",
    "mixed",
    "shared",
    "skipped",
]

HEAD = "from tvm.script import ir as I\nfrom tvm.script import tirx as T\nfrom tvm.script import relax as R\n\n"

_SHARED = """
@I.ir_module
class Module:
    @R.function
    def first(x: R.Tensor((4,), dtype="float32")) -> R.Tensor((4,), dtype="float32"):
        with R.dataflow():
            a = R.add(x, x)
            b = R.add(x, x)
            unused = R.exp(x)
            c = R.multiply(a, b)
            R.output(c)
        return c

    @R.function
    def second(y: R.Tensor((4,), dtype="float32")) -> R.Tensor((4,), dtype="float32"):
        cls = Module
        with R.dataflow():
            d = R.negative(y)
            e = R.negative(y)
            f = R.add(d, e)
            R.output(f)
        g: R.Tensor((4,), dtype="float32") = cls.first(f)
        return g
"""

_MIXED = """
@I.ir_module
class Module:
    @T.prim_func
    def scale(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        T.func_attr({"global_symbol": "scale"})
        for i in range(8 + 0):
            B[i] = A[i] * T.float32(2) + T.float32(0)

    @T.prim_func
    def shift(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        for i in range(8):
            if i + 1 > i:
                B[i] = A[i] + T.float32(1)

    @R.function
    def main(x: R.Tensor((8,), dtype="float32")) -> R.Tensor((8,), dtype="float32"):
        cls = Module
        with R.dataflow():
            a = R.call_tir(cls.scale, (x,), out_ty=R.Tensor((8,), dtype="float32"))
            b = R.call_tir(cls.scale, (x,), out_ty=R.Tensor((8,), dtype="float32"))
            c = R.call_tir(cls.shift, (b,), out_ty=R.Tensor((8,), dtype="float32"))
            d = R.add(a, c)
            R.output(d)
        return d
"""

ONNX_MODELS = Path(onnx.__file__).parent / "backend" / "test" / "data"


def shared() -> IRModule:
    """Return two Relax functions with common subexpressions; one calls the other."""
    return from_script(HEAD + _SHARED)


def mixed() -> IRModule:
    """Return a Relax function that calls two TIR functions."""
    return from_script(HEAD + _MIXED)


def skipped(mod: IRModule, *names: str) -> IRModule:
    """Return `mod` with the attribute `SkipOptimization` on the named functions."""
    result = mod.clone()
    for name in names:
        result.update_func(mod.get_global_var(name), mod[name].with_attr("SkipOptimization", True))
    return result


def crowd(count: int) -> IRModule:
    """Return a module with `count` functions of each kind; every third is skipped.

    With 20 of them, it is not small.
    """
    functions: dict[str, Any] = {}
    for index in range(count):
        one = mixed()
        if index % 3 == 0:
            one = skipped(one, "main", "shift")
        functions[f"main{index}"] = one["main"].with_attr("global_symbol", f"main{index}")
        functions[f"shift{index}"] = one["shift"].with_attr("global_symbol", f"shift{index}")
    return tvm.IRModule({tvm.ir.GlobalVar(name): func for name, func in functions.items()})


def legalized(*, is_small: bool) -> IRModule:
    """Return a module with Relax and TIR functions."""
    mod = tvm.relax.transform.LegalizeOps()(shared())
    for index in range(0 if is_small else 40):
        func = tvm.relax.utils.copy_with_new_vars(mod["first"])
        mod[f"first{index}"] = func.with_attr("global_symbol", f"first{index}")
    return mod


class Pausing:
    """Two passes of TVM; the first waits in its thread."""

    def __init__(self) -> None:
        self.started = anyio.Event()
        """Set when the first pass runs."""
        self.release = threading.Event()
        """Ends the first pass."""
        self.ran: list[str] = []
        """The passes that have ended."""
        self.wait: Any = tvm.transform.module_pass(self._wait, opt_level=0, name="Wait")
        """The first pass."""
        self.later: Any = tvm.transform.module_pass(self._later, opt_level=0, name="Later")
        """The second pass."""

    def _wait(self, mod: IRModule, _ctx: Any) -> IRModule:
        anyio.from_thread.run_sync(self.started.set)
        self.release.wait(60)
        self.ran.append("wait")
        return mod

    def _later(self, mod: IRModule, _ctx: Any) -> IRModule:
        self.ran.append("later")
        return mod


@cache
def from_onnx(path: Path) -> IRModule | None:
    """Return the module that TVM imports from an ONNX model; None if it cannot."""
    frontend: Any = import_module("tvm.relax.frontend.onnx")
    with warnings.catch_warnings(), suppress(Exception):  # TVM raises errors of many types for what it does not support
        warnings.simplefilter("ignore")
        return frontend.from_onnx(onnx.load_model_from_string(path.read_bytes()))
    return None


def light_models() -> list[Path]:
    """Return the real networks among ONNX's test data, without their weights."""
    return sorted(ONNX_MODELS.glob("light/*.onnx"))
