"""The adapter for modules of Apache TVM (`tvm.IRModule`).

The functions of a module are its Relax functions and its TIR functions. Extern functions are left out.
"""

from apass.adapters.tvm.adapter import ADAPTER, TVMAdapter, from_script, to_script
from apass.adapters.tvm.library import BaseFunc, IRModule, short_reason

__all__ = ["ADAPTER", "BaseFunc", "IRModule", "TVMAdapter", "from_script", "short_reason", "to_script"]
