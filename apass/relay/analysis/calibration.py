"""`get_calibration_data`: inputs and outputs of functions for other compilers."""

from collections.abc import Mapping

from apass.relay.errors import EvaluationError
from apass.relay.interpreter.evaluate import evaluate
from apass.relay.interpreter.values import Value
from apass.relay.ir.adt import Match
from apass.relay.ir.expr import Call, Expr, GlobalVar, If, Let, Tuple
from apass.relay.ir.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.ir.post_order import post_order

__all__ = ["get_calibration_data"]


def get_calibration_data(mod: IRModule, data: Mapping[str, object]) -> dict[GlobalVar, dict[str, list[Value]]]:
    """Return the inputs and outputs of each function for another compiler in a run.

    These are the functions of the module with the attribute `Compiler` that `main` calls. If a function is called
    several times, its last call counts. A tuple that a function returns is several outputs.

    Parameters:
        mod: the module. Its `main` must be a graph: without Let, If, Match and nested functions.
        data: the arguments of `main` by parameter name.

    Raises:
        EvaluationError: if the arguments do not match the parameters, or an expression has no value.
        KeyError: if the module has no `main`.
        ValueError: if `main` is not a graph.

    >>> from apass.relay.parser import parse
    >>> text = 'def @f(%a: int32, Compiler="other") { negative(%a) } def @main(%x: int32) { @f(@f(%x)) }'
    >>> data = get_calibration_data(parse('#[version = "0.0.5"]' + text), {"x": 3})
    >>> {gvar.name_hint: values for gvar, values in data.items()}
    {'f': {'inputs': [array(-3, dtype=int32)], 'outputs': [array(3, dtype=int32)]}}
    """
    main = mod["main"]
    nodes = list(post_order(main.body))
    scoped = next((node for node in nodes if isinstance(node, Let | If | Match | Function)), None)
    if scoped is not None:
        raise ValueError(f"get_calibration_data requires a main without control flow, found {scoped!r} in it")
    calls = [(node.op, node) for node in nodes if isinstance(node, Call) and isinstance(node.op, GlobalVar)]
    external = [(gvar, call) for gvar, call in calls if gvar in mod and "Compiler" in mod[gvar].attrs]
    recorded: list[Expr] = [Tuple([*call.args, call]) for _, call in external]
    results = evaluate(Function(main.params, Tuple(recorded)), mod=mod, **data) if recorded else ()
    if not isinstance(results, tuple):
        raise EvaluationError(f"main must be called with arguments: {', '.join(var.name_hint for var in main.params)}")
    names = {gvar.name_hint: mod.get_global_var(gvar.name_hint) for gvar, _ in external}
    return {names[gvar.name_hint]: _entry(values) for (gvar, _), values in zip(external, results, strict=True)}


def _entry(values: Value) -> dict[str, list[Value]]:
    assert isinstance(values, tuple), "a recorded call is a tuple"
    *inputs, output = values
    return {"inputs": inputs, "outputs": list(output) if isinstance(output, tuple) else [output]}
