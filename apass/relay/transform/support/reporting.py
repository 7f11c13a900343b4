"""Remarks and statistics of Relay passes.

Passes call these functions only if a hook receives the result.
"""

from collections import Counter
from collections.abc import Mapping

from apass.core.context import PassContext
from apass.core.remarks import Remark
from apass.relay.ir.calls import op_name
from apass.relay.ir.expr import Call, Constant, Expr, GlobalVar, Let, Op
from apass.relay.ir.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.ir.post_order import post_order
from apass.relay.op.define.registry import OpPattern

__all__ = [
    "count_dropped",
    "count_folded",
    "count_merged",
    "remark_on_dropping",
    "remark_on_folding",
    "remark_on_fusing",
    "remark_on_inlining",
    "remark_on_merging",
]


def remark_on_folding(ctx: PassContext, memo: Mapping[Expr, Expr]) -> None:
    """Emit remarks on the calls that FoldConstant computed, and those it left.

    The latter are calls whose arguments are all constants.
    """
    for old, new in memo.items():
        if not op_name(old):
            continue
        if isinstance(new, Constant):
            message = f"{op_name(old)} computed: a constant of shape {new.data.shape}"
            ctx.remark(Remark.passed("Folded", message, old.span, op=op_name(old), shape=str(new.data.shape)))
        elif isinstance(new, Call) and new.args and all(isinstance(arg, Constant) for arg in new.args):
            message = f"{op_name(old)} not computed, though its arguments are constants: it has effects or no kernel"
            ctx.remark(Remark.missed("NotFolded", message, old.span, op=op_name(old)))


def remark_on_merging(ctx: PassContext, memo: Mapping[Expr, Expr]) -> None:
    """Emit remarks on the calls that EliminateCommonSubexpr merged."""
    counts = Counter(new for old, new in memo.items() if op_name(old) and op_name(new))
    for new, count in counts.items():
        if count > 1:
            message = f"merged {count} calls of {op_name(new)} on the same arguments"
            ctx.remark(Remark.passed("Merged", message, new.span, count=count, op=op_name(new)))


def remark_on_dropping(ctx: PassContext, func: Function, result: Function) -> None:
    """Emit remarks on the bindings that DeadCodeElimination dropped."""
    if result is func:
        return
    remaining = {node.var for node in post_order(result) if isinstance(node, Let)}
    for let in post_order(func):
        if isinstance(let, Let) and let.var not in remaining:
            name = f"%{let.var.name_hint}"
            ctx.remark(Remark.passed("Dropped", f"dropped the binding of {name}", let.span, variable=name))


def remark_on_fusing(ctx: PassContext, result: Function) -> None:
    """Emit remarks on the operators that FuseOps fused, and those it left unfused."""
    for call in post_order(result):
        if not isinstance(call, Call) or not isinstance(call.op, Function) or not call.op.attrs.get("Primitive"):
            continue
        ops = [op_name(node) for node in post_order(call.op.body) if op_name(node)]
        if len(ops) > 1:
            fused = " + ".join(ops)
            message = f"fused {len(ops)} operators: {fused}"
            ctx.remark(Remark.passed("Fused", message, call.span, count=len(ops), ops=fused))
        elif ops:
            message = f"{ops[0]} not fused: {_why_unfused(call.op)}"
            ctx.remark(Remark.missed("NotFused", message, call.span, op=ops[0]))


def remark_on_inlining(ctx: PassContext, before: IRModule, after: IRModule) -> None:
    """Emit remarks on the functions that Inline inlined, and those it could not."""
    remaining = {gvar.name_hint: set(_called(after[gvar])) for gvar in after.get_global_vars()}
    for gvar in before.get_global_vars():
        caller = gvar.name_hint
        for callee in _called(before[gvar]):
            if callee not in before or not before[callee].attrs.get("Inline") or caller not in remaining:
                continue
            values = {"callee": f"@{callee}", "caller": f"@{caller}"}
            if callee in remaining[caller]:
                message = f"@{callee} not inlined into @{caller}: it calls itself, or functions that were not inlined"
                ctx.remark(Remark.missed("NotInlined", message, None, **values))
            else:
                ctx.remark(Remark.passed("Inlined", f"@{callee} inlined into @{caller}", None, **values))


def _called(func: Function) -> list[str]:
    return list(dict.fromkeys(node.name_hint for node in post_order(func) if isinstance(node, GlobalVar)))


def _why_unfused(func: Function) -> str:
    ops = [node.op for node in post_order(func.body) if isinstance(node, Call) and isinstance(node.op, Op)]
    if any(op.get_attr("TOpPattern", OpPattern.OPAQUE) == OpPattern.OPAQUE for op in ops):
        return "the operator cannot be fused"
    return "no compatible operator is the only user of its result"


def count_folded(ctx: PassContext, memo: Mapping[Expr, Expr]) -> None:
    """Count the calls that FoldConstant computed."""
    _count(ctx, "folded", sum(1 for old, new in memo.items() if op_name(old) and isinstance(new, Constant)))


def count_merged(ctx: PassContext, memo: Mapping[Expr, Expr]) -> None:
    """Count the calls that EliminateCommonSubexpr removed."""
    counts = Counter(new for old, new in memo.items() if op_name(old) and op_name(new))
    _count(ctx, "eliminated", sum(count - 1 for count in counts.values()))


def count_dropped(ctx: PassContext, func: Function, result: Function) -> None:
    """Count the bindings that DeadCodeElimination dropped or inlined."""
    if result is not func:
        _count(ctx, "dropped", _bindings(func) - _bindings(result))


def _bindings(func: Function) -> int:
    return sum(1 for node in post_order(func) if isinstance(node, Let))


def _count(ctx: PassContext, name: str, amount: int) -> None:
    if amount:
        ctx.statistic(name, amount)
