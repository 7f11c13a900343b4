"""`extract_fused_functions`: the kernels that FuseOps has made of a program."""

from apass.relay.expr import GlobalVar
from apass.relay.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.ir.post_order import post_order
from apass.relay.structural.equality import fingerprint

__all__ = ["extract_fused_functions"]


def extract_fused_functions(mod: IRModule) -> dict[GlobalVar, Function]:
    """Return the primitive functions in `main`, under names made of their structure: those that are alike once.

    Raises:
        KeyError: if the module has no `main`.

    """
    made: dict[str, Function] = {}
    for node in post_order(mod["main"]):
        if isinstance(node, Function) and node.attrs.get("Primitive"):
            made.setdefault(fingerprint(node), node)
    return {GlobalVar(name): func for name, func in made.items()}
