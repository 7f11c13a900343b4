"""The part of a model at which TVM failed, for messages.

TVM's own errors rarely name it: those of lowering name a line of TVM at most.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

from apass.adapters.tvm.library import IRModule, functions_of, relax, tirx, tvm

__all__ = ["failing_part", "imported_node"]

MOST_TRIED: Final = 256
"""How many operators and functions are tried separately, each of which takes some milliseconds."""

_SHOWN: Final = 3
"""How many nodes with unsupported operators a message names."""


def failing_part(mod: IRModule, attempt: Callable[[IRModule], object], error: Exception) -> str:
    """Return the operator or function that makes an attempt fail on a module.

    Each of them is tried by itself. The result is empty if none fails with the same error.

    Parameters:
        mod: the module.
        attempt: the work that failed on it.
        error: the error of that work.

    """
    for number, (described, part) in enumerate(_parts(mod)):
        if number == MOST_TRIED:
            break
        try:
            attempt(part)
        except Exception as other:  # TVM raises errors of many types
            if type(other) is type(error) and str(other).partition("\n")[0] == str(error).partition("\n")[0]:
                return described
    return ""


def _parts(mod: IRModule) -> Iterator[tuple[str, IRModule]]:
    """Iterate over modules with one operator or TIR function, and their descriptions."""
    functions = list(functions_of(mod))
    seen = set[str]()
    for name, func in functions:
        if isinstance(func, tirx.PrimFunc):
            yield f"TIR function {name!r}", tvm.IRModule({name: func})
            continue
        for binding in _calls(func.body):
            value = binding.value
            text = " ".join(value.script(show_meta=False).split())
            # Equal operators on other values fail alike.
            key = str([value.op, value.attrs, [arg.ty for arg in value.args]])
            if key not in seen:
                seen.add(key)
                part = mod.clone()
                for other, _ in functions:
                    if isinstance(mod[other], relax.Function):
                        del part[other]
                part[name] = _function_of(binding)
                place = "" if value.span is None else f", line {value.span.line} of {value.span.source_name.name}"
                yield f"{text}, the value of {binding.var.name!r} in function {name!r}{place}", part


def _calls(body: Any) -> Iterator[Any]:
    """Iterate over the bindings of calls of operators, those of branches too."""
    for block in getattr(body, "blocks", ()):
        for binding in block.bindings:
            value: Any = getattr(binding, "value", None)
            if isinstance(value, relax.If):
                yield from _calls(value.true_branch)
                yield from _calls(value.false_branch)
            elif isinstance(value, relax.Call):
                yield binding


def _function_of(binding: Any) -> Any:
    """Return a function of one binding; its parameters are the values it uses."""
    var = relax.Var(binding.var.name, binding.var.ty)
    params = relax.analysis.free_vars(binding.value)
    body = relax.SeqExpr([relax.BindingBlock([relax.VarBinding(var, binding.value)])], var)
    return relax.Function(params, body, binding.var.ty, is_pure=False)


def imported_node(error: BaseException) -> str:
    """Return where in an ONNX model the importer raised an error, or ""."""
    found = ""
    entry = error.__traceback__
    while entry is not None:
        values = entry.tb_frame.f_locals
        match entry.tb_frame.f_code.co_name:
            case "_construct_nodes" | "_convert_subgraph":
                found = f"in {_described(values['node'])} of the ONNX model" if "node" in values else ""
            case "_check_for_unsupported_ops":
                nodes = [node for node in values["graph"].node if node.op_type in values.get("unsupported_ops", ())]
                found = f"in {', '.join(map(_described, nodes[:_SHOWN]))} of the ONNX model" if nodes else ""
            case "_parse_graph_input":
                found = f"at input {values['i_name']!r} of the ONNX model" if "i_name" in values else ""
            case _:
                pass
        entry = entry.tb_next
    return found


def _described(node: Any) -> str:
    name = node.name or next((output for output in node.output if output), "")
    return f"node {name!r} ({node.op_type})"
