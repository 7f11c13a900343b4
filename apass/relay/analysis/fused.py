"""`extract_fused_functions`: the kernels of a module.

The counterpart of TVM's `extract_fused_functions.cc`.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

from apass.relay.ir.expr import GlobalVar
from apass.relay.ir.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.ir.post_order import post_order
from apass.relay.structural.equality import structural_hash

__all__ = ["extract_fused_functions", "provide_fusion"]

Fusion: TypeAlias = Callable[[IRModule], IRModule]
"""Returns a module with its operators in primitive functions."""

_FUSIONS: Final[list[Fusion]] = []


def provide_fusion(fusion: Fusion) -> Fusion:
    """Set how `extract_fused_functions` fuses a module, and return it.

    The passes are above the analyses, so they provide it when `apass.relay` is imported.
    """
    _FUSIONS[:] = [fusion]
    return fusion


def extract_fused_functions(mod: IRModule) -> dict[GlobalVar, Function]:
    """Return the primitive functions of `main` after SimplifyInference and FuseOps(3).

    As in TVM, each is named by its structural hash, so that functions of equal structure are listed once.

    Raises:
        KeyError: if the module has no `main`.
        TypeInferenceError: if the module is ill-typed.

    >>> from apass.relay.ir.expr import var
    >>> from apass.relay.op.elementwise.math import exp
    >>> x = var("x", shape=(2,))
    >>> (kernel,) = extract_fused_functions(IRModule.from_expr(exp(exp(x)))).values()
    >>> kernel.attrs["Primitive"]
    1
    """
    (fusion,) = _FUSIONS
    functions: dict[str, Function] = {}
    for node in post_order(fusion(mod)["main"]):
        if isinstance(node, Function) and node.attrs.get("Primitive"):
            functions.setdefault(str(structural_hash(node)), node)
    return {GlobalVar(name): func for name, func in functions.items()}
