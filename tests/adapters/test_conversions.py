"""Pipelines that convert models from one IR to another."""

import ctypes
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir
import pytest

import apass
from apass.adapters.llvm import Module
from apass.adapters.llvm.library import llvm
from apass.adapters.mlir import MLIRModule
from apass.adapters.onnx import ADAPTER as ONNX
from apass.adapters.onnx import load_model
from tests.helpers import command_line
from tests.helpers.mlir_modules import NEEDS_MLIR
from tests.helpers.xdsl_modules import module as xdsl_module

TVM_TO_LLVM = "onnx.Default,tvm.FromONNX,tvm.Default,tvm.ToLLVM"
XDSL_TO_LLVM = (
    "xdsl.canonicalize,mlir.FromXDSL,mlir.convert-arith-to-llvm,mlir.convert-func-to-llvm,"
    "mlir.reconcile-unrealized-casts,mlir.ToLLVM"
)
PRODUCT = """
func.func @product(%a: i32, %b: i32) -> i32 {
  %zero = arith.constant 0 : i32
  %sum = arith.addi %a, %zero : i32
  %result = arith.muli %sum, %b : i32
  return %result : i32
}
"""

_FLOAT_TYPE = (2, 32, 1)
"""Code, bits and lanes of `float32` in DLPack."""
_TENSOR_POINTER = 7
"""The index of the type `DLTensor*` in TVM's interface for functions."""


class DLTensor(ctypes.Structure):
    """An array, as compiled functions of TVM receive it."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("ndim", ctypes.c_int32),
        ("dtype", ctypes.c_uint8 * 2),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    ]


class FFIAny(ctypes.Structure):
    """An argument, as compiled functions of TVM receive it."""

    _fields_ = [("type_index", ctypes.c_int32), ("padding", ctypes.c_uint32), ("value", ctypes.c_void_p)]


def compiled(mod: Module, name: str) -> tuple[Any, int]:
    """Return the library of a module, to be kept, and the address of a function."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    jit = llvm.create_lljit_compiler()
    library = llvm.JITLibraryBuilder().add_ir(mod.text).add_current_process().export_symbol(name).link(jit, "test")
    return (jit, library), library[name]


def call_kernel(mod: Module, name: str, *arrays: npt.NDArray[np.float32]) -> None:
    """Call a function that TVM compiled; the last array receives the result."""
    info: Any = import_module("tvm_ffi.libinfo")
    llvm.load_library_permanently(str(info.find_libtvm_ffi()))
    owner, address = compiled(mod, f"__tvm_ffi_{name}")
    shapes = [(ctypes.c_int64 * array.ndim)(*array.shape) for array in arrays]
    code, bits, lanes = _FLOAT_TYPE
    tensors = [
        DLTensor(
            array.ctypes.data,
            (ctypes.c_int32 * 2)(1, 0),
            array.ndim,
            (ctypes.c_uint8 * 2)(code, bits),
            lanes,
            ctypes.addressof(shape),
            None,
            0,
        )
        for array, shape in zip(arrays, shapes, strict=True)
    ]
    arguments = (FFIAny * len(tensors))(*(FFIAny(_TENSOR_POINTER, 0, ctypes.addressof(one)) for one in tensors))
    kind = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32, ctypes.POINTER(FFIAny))
    assert kind(address)(None, arguments, len(tensors), ctypes.byref(FFIAny())) == 0
    assert owner


@pytest.mark.anyio
async def test_onnx_model_is_lowered_to_llvm(tmp_path: Path) -> None:
    model = ONNX.loads(command_line.write_model(tmp_path / "m.onnx").read_bytes())
    mod = await apass.parse_pipeline(f"{TVM_TO_LLVM},llvm.O2")(model)
    assert isinstance(mod, Module)
    x = np.array([-1.5, 2.0], np.float32)
    y, z = np.zeros(2, np.float32), np.zeros(2, np.float32)
    call_kernel(mod, "relu", x, y)
    call_kernel(mod, "tir_negative", y, z)
    assert (y.tolist(), z.tolist()) == ([0.0, 2.0], [0.0, -2.0])


@pytest.mark.anyio
async def test_equal_models_give_equal_llvm() -> None:
    text = '<ir_version: 10, opset_import: ["": 21]> g (float[16] x) => (float y) { y = ReduceSum(x) }'
    # TVM names nodes by addresses in memory, which differ as all models are alive.
    models = [onnx_ir.from_onnx_text(text) for _ in range(3)]
    pipeline = apass.parse_pipeline("tvm.FromONNX,tvm.ToLLVM")
    texts = {result.text for result in [await pipeline(model) for model in models]}
    assert (len(texts), "0x" in texts.pop()) == (1, False)


@NEEDS_MLIR
@pytest.mark.process
@pytest.mark.anyio
async def test_xdsl_module_is_lowered_to_llvm() -> None:
    mod = await apass.parse_pipeline(f"{XDSL_TO_LLVM},llvm.O2")(xdsl_module(PRODUCT))
    owner, address = compiled(mod, "product")
    assert ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32, ctypes.c_int32)(address)(6, 7) == 42
    assert owner


@NEEDS_MLIR
@pytest.mark.process
@pytest.mark.anyio
async def test_llvm_module_returns_through_mlir() -> None:
    mod = Module.parse("define i32 @product(i32 %a, i32 %b) {\n  %r = mul i32 %a, %b\n  ret i32 %r\n}\n")
    result = await apass.parse_pipeline("mlir.FromLLVM,mlir.canonicalize,mlir.ToLLVM")(mod)
    assert result.functions["product"].text.splitlines()[1:] == ["  %3 = mul i32 %0, %1", "  ret i32 %3", "}"]


@NEEDS_MLIR
@pytest.mark.process
@pytest.mark.anyio
async def test_xdsl_reads_what_mlir_made() -> None:
    result = await apass.parse_pipeline("mlir.canonicalize,xdsl.FromMLIR,xdsl.cse")(MLIRModule(PRODUCT))
    assert [op.name for op in apass.adapter_for(result).get(result, "product").walk()] == [
        "func.func",
        "arith.muli",
        "func.return",
    ]


@NEEDS_MLIR
@pytest.mark.parametrize(
    ("name", "needed"),
    [
        ("tvm.FromONNX", "an onnx_ir.Model"),
        ("relay.FromONNX", "an onnx_ir.Model"),
        ("onnx.FromRelay", "an apass.relay.IRModule"),
        ("tvm.ToLLVM", "a tvm.IRModule"),
        ("mlir.ToLLVM", "an MLIRModule"),
        ("mlir.FromLLVM", "an LLVM module"),
        ("mlir.FromXDSL", "a ModuleOp of xDSL"),
        ("xdsl.FromMLIR", "an MLIRModule"),
    ],
)
def test_conversions_name_the_ir_they_need(name: str, needed: str) -> None:
    with pytest.raises(apass.errors.AdapterError, match=f"pass '{name}' takes {needed}, got dict"):
        apass.run(apass.get_pass(name), {"f": "abc"})


@NEEDS_MLIR
def test_passes_name_the_conversion_they_need() -> None:
    pairs = [
        ("xdsl.cse", MLIRModule(PRODUCT), "xdsl.FromMLIR"),
        ("mlir.cse", xdsl_module(PRODUCT), "mlir.FromXDSL"),
        ("mlir.cse", Module.parse(""), "mlir.FromLLVM"),
    ]
    for name, mod, conversion in pairs:
        with pytest.raises(apass.errors.AdapterError, match=f"pass '{name}' takes .*; convert it with {conversion}"):
            apass.run(name, mod)


@pytest.mark.anyio
async def test_onnx_model_returns_through_relay() -> None:
    model = onnx_ir.from_onnx_text("""
    <ir_version: 9, opset_import: ["": 15]>
    twice (float[N] x) => (float[N] first, float[N] second) { a = Identity(x) first = Relu(a) second = Relu(x) }
    """)
    pipeline = apass.parse_pipeline("relay.FromONNX,EliminateCommonSubexpr,onnx.FromRelay")
    async with apass.PassContext(opt_level=3):
        result = await pipeline(model)
    assert isinstance(result, onnx_ir.Model)
    assert (result.ir_version, result.opset_imports[""], result.graph.name) == (9, 15, "twice")
    assert [node.op_type for node in result.graph] == ["Relu", "Identity"]
    assert [value.name for value in result.graph.outputs] == ["first", "second"]
    assert [str(value.shape) for value in result.graph.outputs] == ["[N]", "[N]"]


def test_output_that_is_an_input_returns_through_relay() -> None:
    model = onnx_ir.from_onnx_text("""
    <ir_version: 9, opset_import: ["": 15]> g (float[2] x) => (float[2] x, float[2] y) { y = Neg(x) }
    """)
    result = apass.run("relay.FromONNX,onnx.FromRelay", model)
    assert [value.name for value in result.graph.outputs] == ["x", "y"]
    assert [node.op_type for node in result.graph] == ["Neg"]


def test_tvm_errors_are_short(tmp_path: Path) -> None:
    model = ONNX.loads(command_line.write_model(tmp_path / "m.onnx").read_bytes())
    with pytest.raises(apass.errors.AdapterError, match="TVM cannot compile the module for target 'abacus': "):
        apass.run(apass.parse_pipeline("tvm.FromONNX,tvm.ToLLVM{target=abacus}"), model)
    with pytest.raises(apass.errors.AdapterError, match=r"made code that LLVM IR cannot hold \(cuda\)"):
        apass.run(apass.parse_pipeline("tvm.FromONNX,tvm.ToLLVM{target=cuda}"), model)
    model.graph[0].op_type = "NoSuchOperator"
    with pytest.raises(apass.errors.AdapterError, match=r"TVM cannot import the ONNX model: .*NoSuchOperator"):
        apass.run(apass.get_pass("tvm.FromONNX"), model)


def test_tvm_imports_external_weights(tmp_path: Path) -> None:
    model = load_model(command_line.write_external(tmp_path / "m.onnx"))
    mod: Any = apass.run("tvm.FromONNX", model)
    assert "R.add(x, metadata" in mod.script()
