"""The `Node` values of Relax bindings and TIR blocks, and artificial spans."""

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from apass.adapters.nodes import Node
from apass.adapters.tvm.library import BaseFunc, IRModule, tvm, tvm_ffi

__all__ = ["function_nodes", "with_spans"]

_relax: Final[Any] = tvm.relax
_ROOT: Final = "root"
"""The name of the block around all others, which TVM adds to each TIR function."""


def function_nodes(func: BaseFunc) -> Iterator[Node]:
    """Iterate over the bindings of a Relax function, or the blocks of a TIR function.

    They are named after their variables or blocks. If several have one name, they are numbered.
    """
    is_relax = isinstance(func, _relax.Function)
    items = list(_bindings(func.body) if is_relax else _blocks(func))
    counts = Counter(name for name, _ in items)
    numbers: Counter[str] = Counter()
    for name, item in items:
        is_named = counts[name] == 1
        numbers[name] += 1
        shown = name if is_named else f"{name}#{numbers[name] - 1}"
        text = _relax_text(item.value) if is_relax else f"block #{_digest(item)}"
        yield Node(
            name=shown,
            text=text,
            results=(shown,),
            location=_location(item),
            # Passes over TIR make blocks without spans, and `with_spans` gives them to calls only.
            has_location=is_relax and isinstance(item.value, _relax.Call),
            is_named=is_named,
            # TVM compares references to objects by the object.
            identity=item,
            display=f"{shown} = {text}",
        )


def with_spans(mod: IRModule) -> IRModule:
    """Return a module in which each call of a Relax function has a span."""
    line = 0

    def located(call: Any) -> Any:
        nonlocal line
        if call.span is not None:
            return call
        line += 1
        span = tvm.ir.Span(tvm.ir.SourceName("apass"), line, line, 1, 1)
        return _relax.Call(call.op, call.args, call.attrs, call.ty_args, span)

    result = mod.clone()
    for var, func in mod.functions_items():
        if isinstance(func, _relax.Function):
            result.update_func(
                result.get_global_var(var.name_hint), tvm_ffi.structural_map(func, (_relax.Call, located))
            )
    # It infers the types of the new calls.
    return _relax.transform.Normalize()(result) if line else mod


def _bindings(body: Any) -> Iterator[tuple[str, Any]]:
    """Iterate over the names and bindings of a body and of its branches."""
    for block in getattr(body, "blocks", ()):
        for binding in block.bindings:
            if isinstance(binding.value, _relax.If):
                yield from _bindings(binding.value.true_branch)
                yield from _bindings(binding.value.false_branch)
            yield binding.var.name, binding


def _blocks(func: BaseFunc) -> Iterator[tuple[str, Any]]:
    found: list[Any] = []
    tvm_ffi.structural_walk(func.body, ((tvm.s_tir.SBlock, found.append),))
    return ((block.name_hint, block) for block in found if block.name_hint != _ROOT)


def _relax_text(value: Any) -> str:
    """Return TVMScript, with a digest in place of the data of constants."""
    text = " ".join(value.script(show_meta=False).split())
    return f"{text} #{_digest(value)}" if "metadata[" in text else text


def _digest(node: Any) -> str:
    return f"{tvm_ffi.structural_hash(node, map_free_vars=True):016x}"


def _location(item: Any) -> str:
    span = getattr(getattr(item, "value", None), "span", None) or item.span
    return "" if span is None else f"{span.source_name.name}:{span.line}:{span.column}"
