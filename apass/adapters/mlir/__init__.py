"""The adapter for MLIR modules, whose passes run in `mlir-opt`."""

from apass.adapters.mlir.adapter import ADAPTER, MLIRAdapter, module_from_bytes, module_to_bytecode
from apass.adapters.mlir.module import MLIRFunction, MLIRModule
from apass.adapters.mlir.reproducers import read_mlir_reproducer

__all__ = [
    "ADAPTER",
    "MLIRAdapter",
    "MLIRFunction",
    "MLIRModule",
    "module_from_bytes",
    "module_to_bytecode",
    "read_mlir_reproducer",
]
