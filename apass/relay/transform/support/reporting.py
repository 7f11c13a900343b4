"""What some passes of Relay have to say of their work; called by their shells, and only where somebody listens."""

from collections import Counter
from collections.abc import Mapping

from apass.core.context import PassContext
from apass.core.remarks import Remark
from apass.relay.expr import Call, Constant, Expr, GlobalVar, Let, Op
from apass.relay.function import Function
from apass.relay.ir.calls import op_name
from apass.relay.ir.module import IRModule
from apass.relay.ir.post_order import post_order
from apass.relay.op.define.registry import OpPattern

__all__ = ["remark_on_dropping", "remark_on_folding", "remark_on_fusing", "remark_on_inlining", "remark_on_merging"]


def remark_on_folding(ctx: PassContext, memo: Mapping[Expr, Expr]) -> None:
    """Say which calls FoldConstant has computed, and which it has not although all their arguments are constants."""
    for old, new in memo.items():
        if not op_name(old):
            continue
        if isinstance(new, Constant):
            message = f"{op_name(old)} computed: a constant of shape {new.data.shape}"
            ctx.remark(Remark.passed("Folded", message, old.span, op=op_name(old), shape=str(new.data.shape)))
        elif isinstance(new, Call) and new.args and all(isinstance(one, Constant) for one in new.args):
            message = f"{op_name(old)} not computed, though its arguments are constants: it has effects or no kernel"
            ctx.remark(Remark.missed("NotFolded", message, old.span, op=op_name(old)))


def remark_on_merging(ctx: PassContext, memo: Mapping[Expr, Expr]) -> None:
    """Say which calls EliminateCommonSubexpr has made one."""
    counts = Counter(new for old, new in memo.items() if op_name(old) and op_name(new))
    for new, count in counts.items():
        if count > 1:
            message = f"{count} calls of {op_name(new)} on the same arguments are one"
            ctx.remark(Remark.passed("Merged", message, new.span, count=count, op=op_name(new)))


def remark_on_dropping(ctx: PassContext, func: Function, made: Function) -> None:
    """Say which bindings DeadCodeElimination has dropped."""
    if made is func:
        return
    kept = {node.var for node in post_order(made) if isinstance(node, Let)}
    for let in post_order(func):
        if isinstance(let, Let) and let.var not in kept:
            name = f"%{let.var.name_hint}"
            ctx.remark(Remark.passed("Dropped", f"the binding of {name} is gone", let.span, variable=name))


def remark_on_fusing(ctx: PassContext, made: Function) -> None:
    """Say which operators FuseOps has put together, and which stand alone."""
    for call in post_order(made):
        if not isinstance(call, Call) or not isinstance(call.op, Function) or not call.op.attrs.get("Primitive"):
            continue
        ops = [op_name(node) for node in post_order(call.op.body) if op_name(node)]
        if len(ops) > 1:
            together = " + ".join(ops)
            ctx.remark(
                Remark.passed("Fused", f"{len(ops)} in one: {together}", call.span, count=len(ops), ops=together)
            )
        elif ops:
            message = f"{ops[0]} stands alone: {_why_alone(call.op)}"
            ctx.remark(Remark.missed("NotFused", message, call.span, op=ops[0]))


def remark_on_inlining(ctx: PassContext, before: IRModule, after: IRModule) -> None:
    """Say which functions Inline has put where, and which it could not."""
    left = {gvar.name_hint: set(_called(after[gvar])) for gvar in after.get_global_vars()}
    for gvar in before.get_global_vars():
        caller = gvar.name_hint
        for callee in _called(before[gvar]):
            if callee not in before or not before[callee].attrs.get("Inline") or caller not in left:
                continue
            values = {"callee": f"@{callee}", "caller": f"@{caller}"}
            if callee in left[caller]:
                message = f"@{callee} not inlined into @{caller}: it calls itself, or others that remain"
                ctx.remark(Remark.missed("NotInlined", message, None, **values))
            else:
                ctx.remark(Remark.passed("Inlined", f"@{callee} inlined into @{caller}", None, **values))


def _called(func: Function) -> list[str]:
    return list(dict.fromkeys(node.name_hint for node in post_order(func) if isinstance(node, GlobalVar)))


def _why_alone(func: Function) -> str:
    ops = [node.op for node in post_order(func.body) if isinstance(node, Call) and isinstance(node.op, Op)]
    if any(op.get_attr("TOpPattern", OpPattern.OPAQUE) == OpPattern.OPAQUE for op in ops):
        return "it is never fused"
    return "nothing that uses its result alone fits to it"
