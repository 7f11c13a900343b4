"""Conversions that fail: each message names the reason and the place."""

import re
from collections.abc import Callable
from typing import Any

import onnx_ir
import pytest

import apass
from apass.adapters.llvm import Module
from apass.adapters.mlir import MLIRModule
from apass.adapters.tvm import from_script
from apass.core.conversions import conversions
from apass.relay.parser import parse
from tests.helpers.mlir_modules import NEEDS_MLIR
from tests.helpers.repository import ROOT
from tests.helpers.rows import row


def onnx_model(text: str) -> Any:
    return onnx_ir.from_onnx_text(f'<ir_version: 9, opset_import: ["": 17]> g {text}')


def relax_module(*lines: str, shape: str = "(4, 4)") -> Any:
    body = "\n".join(f"        {line}" for line in lines)
    head = f'    @R.function\n    def main(x: R.Tensor({shape}, "float32"), s: R.Tensor((2,), "float32")):\n'
    return from_script(f"@I.ir_module\nclass Module:\n{head}{body}\n")


THREADS = """
@I.ir_module
class Module:
    @T.prim_func
    def kernel(a: T.Buffer((4,), "float32"), b: T.Buffer((4,), "float32")):
        for i in T.thread_binding(4, thread="threadIdx.x"):
            b[i] = a[i]
"""

FAILURES: list[tuple[str, Callable[[], Any], list[str]]] = [
    (
        "mlir.ToLLVM",
        lambda: MLIRModule("func.func @f(%a: i32) {\n  %r = arith.addi %a, %a : i32\n  return\n}\n", "k.mlir"),
        ["at k.mlir:2:8", "arith.addi", "lower other dialects before, for example with mlir.convert-to-llvm"],
    ),
    (
        "mlir.ToLLVM",
        lambda: MLIRModule("func.func @f() {\n  return\n}\n", "k.mlir"),
        ["at k.mlir:1:1", "for op: func.func", "lower other dialects before"],
    ),
    (
        "mlir.FromLLVM",
        lambda: Module.parse(
            'define void @f() {\n  callbr void asm "", "!i"() to label %a [label %b]\n'
            "a:\n  ret void\nb:\n  ret void\n}\n"
        ),
        ["unhandled instruction", "callbr void asm"],
    ),
    (
        "xdsl.FromMLIR",
        lambda: MLIRModule("func.func @f(%a: f32) {\n  %s = spirv.GL.Exp %a : f32\n  return\n}\n", "k.mlir"),
        ["k.mlir:2:", "Operation spirv.GL.Exp is not registered"],
    ),
    (
        "relay.FromONNX",
        lambda: onnx_model("(float[2] x) => (float[2] y) { y = NoSuchOperator(x) }"),
        ["NoSuchOperator of operator set 17"],
    ),
    (
        "relay.FromONNX",
        lambda: onnx_model("(float[2,3] x, float[2,3] w) => (float[2,3] y) { [up] y = MatMul(x, w) }"),
        ["the second operand must have the shape (3, 3)", "in node 'up' (MatMul) of the ONNX model"],
    ),
    (
        "onnx.FromRelay",
        lambda: parse('#[version = "0.0.5"]\ndef @main(%x: float32) { fn (%z: int32) { %z } }'),
        ["fn (int32) -> int32 has no ONNX form"],
    ),
    (
        "tvm.FromONNX",
        lambda: onnx_model("(float[2] x) => (float[2] y) { [up] r = NoSuchOperator(x) y = Relu(r) }"),
        ["not supported for frontend ONNX: NoSuchOperator", "in node 'up' (NoSuchOperator) of the ONNX model"],
    ),
    (
        "tvm.FromONNX",
        lambda: onnx_model("(float[3] x, int64[1] k) => (float[n] y, int64[n] i) { y, i = TopK(x, k) }"),
        ["ValueError: TopK k must be a constant", "in node 'y' (TopK) of the ONNX model"],
    ),
    (
        "tvm.FromONNX",
        lambda: onnx_model("(string[2] x) => (string[2] y) { y = Identity(x) }"),
        ["unknown dtype `object`", "at input 'x' of the ONNX model"],
    ),
    (
        "tvm.ToLLVM",
        lambda: relax_module("y = R.nn.relu(x)", "z = R.nn.prelu(y, s, axis=1)", "return z"),
        [
            "AssertionError: assert get_const_int(slope.shape[0]) == get_const_int(x.shape[axis]) (line ",
            "at R.nn.prelu(y, s, axis=1), the value of 'z' in function 'main', line 6 of <str>",
        ],
    ),
    (
        "tvm.ToLLVM",
        lambda: relax_module("y = R.nn.pixel_shuffle(x, 2)", "return y", shape="(1, 4, 4, 4)"),
        ["has no attribute 'pixel_shuffle'", "at R.nn.pixel_shuffle(x, upscale_factor=2), the value of 'y'"],
    ),
    ("tvm.ToLLVM", lambda: from_script(THREADS), ["not implemented", "at TIR function 'kernel'"]),
]
"""Passes, modules that they cannot convert, and parts of the message or the notes."""


@NEEDS_MLIR
@pytest.mark.process
@pytest.mark.filterwarnings("ignore:No Op registered:UserWarning", "ignore:Tag 'broadcast':UserWarning")  # of TVM
def test_failure_has_a_reason_and_a_place() -> None:
    for name, make, expected in FAILURES:
        with row(f"{name} {expected[0]}"):
            mod = make()
            with pytest.raises(apass.errors.ApassError) as caught:
                apass.run(name, mod)
            text = "\n".join([str(caught.value), *caught.value.__notes__])
            assert [part for part in expected if part not in text] == [], text


def test_every_conversion_has_a_failure() -> None:
    # Any module of xDSL has a generic format.
    assert {one.name for one in conversions()} - {name for name, _, _ in FAILURES} == {"mlir.FromXDSL"}


def test_no_adapter_shows_only_the_error_type() -> None:
    pattern = re.compile(r"\{type\((?:error|other|cause|raised)\)\.__(?:qual)?name__\}(?!:(?: |\\n)\{full_message\()")
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in sorted((ROOT / "apass/adapters").rglob("*.py"))
        for line in path.read_text().splitlines()
        if pattern.search(line)
    ]
    # `short_reason` and `full_message` show the line that raised an error without a message.
    assert found == []
