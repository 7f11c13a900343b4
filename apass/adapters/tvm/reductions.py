"""Smaller modules of TVM, for `apass reduce`.

A removed binding of a Relax function becomes a parameter of its type, so that the rest needs no other value.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final

from apass.adapters.tvm.library import BaseFunc, IRModule, functions_of, tvm, tvm_ffi
from apass.util.delta_debugging import Shrinking

__all__ = ["shrinkings"]

_relax: Final[Any] = tvm.relax

Change = Callable[[BaseFunc, frozenset[int]], BaseFunc]
"""Returns a function without the parts of the given indices."""


def shrinkings(mod: IRModule) -> Iterator[Shrinking[IRModule]]:
    """Iterate over the parts that can be removed.

    - Functions that no other function refers to.
    - Parts of the Relax functions among them: results, bindings, unused parameters.
    """
    called = _called(mod)
    free = [(name, func) for name, func in functions_of(mod) if name not in called]
    yield Shrinking("functions", len(free), lambda removed: _without(mod, [free[index][0] for index in removed]))
    for name, func in free:
        if isinstance(func, _relax.Function) and isinstance(func.body, _relax.SeqExpr):
            parts: tuple[tuple[str, int, Change], ...] = (
                ("results", len(_results(func)), _without_results),
                ("bindings", sum(len(block.bindings) for block in func.body.blocks), _without_bindings),
                ("unused parameters", len(_unused(func)), _without_parameters),
            )
            for noun, count, change in parts:
                yield Shrinking(f"{noun} of {name}", count, partial(_changed, mod, name, change))


def _called(mod: IRModule) -> frozenset[str]:
    """Return the names of the functions that other functions refer to."""
    found: set[str] = set()
    for var, func in mod.functions_items():
        own = var.name_hint
        if isinstance(func, _relax.Function):
            found |= {other.name_hint for other in _relax.analysis.all_global_vars(func) if other.name_hint != own}
    return frozenset(found)


def _without(mod: IRModule, names: Sequence[str]) -> IRModule:
    result = mod.clone()
    for name in names:
        del result[name]
    return result


def _changed(mod: IRModule, name: str, change: Change, removed: frozenset[int]) -> IRModule:
    """Return `mod` with a change of function `name`; `mod` if nothing is removed."""
    if not removed:
        return mod
    func = change(mod[name], removed)
    result = _without(mod, [name])
    # A new variable, because the type of the function is another one.
    result[tvm.ir.GlobalVar(name)] = func
    # It infers the types of new expressions.
    return _relax.transform.Normalize()(result)


def _rebuilt(func: BaseFunc, params: Sequence[Any], blocks: Sequence[Any], body: Any) -> BaseFunc:
    is_tuple = isinstance(body, _relax.Tuple)
    kind = _relax.TupleType([field.ty for field in body.fields]) if is_tuple else body.ty
    rebuilt = _relax.Function(params, _relax.SeqExpr(blocks, body), kind, func.is_pure)
    return rebuilt.with_attrs(func.attrs) if func.attrs else rebuilt


def _results(func: BaseFunc) -> Sequence[Any]:
    """Return the fields of the result, if it is a tuple of several."""
    body = func.body.body
    binding = next(
        (one for block in func.body.blocks for one in block.bindings if one.var.same_as(body)),
        None,
    )
    value = body if binding is None else binding.value
    return list(value.fields) if isinstance(value, _relax.Tuple) and len(value.fields) > 1 else []


def _without_results(func: BaseFunc, removed: frozenset[int]) -> BaseFunc:
    fields = [field for index, field in enumerate(_results(func)) if index not in removed]
    body = fields[0] if len(fields) == 1 else _relax.Tuple(fields)
    return _rebuilt(func, func.params, func.body.blocks, body)


def _without_bindings(func: BaseFunc, removed: frozenset[int]) -> BaseFunc:
    """Return a function in which the results of the removed bindings are parameters."""
    params = list(func.params)
    replaced: list[tuple[Any, Any]] = []
    blocks: list[Any] = []
    index = 0
    for block in func.body.blocks:
        kept: list[Any] = []
        for binding in block.bindings:
            if index in removed:
                param = _relax.Var(binding.var.name, binding.var.ty)
                params.append(param)
                replaced.append((binding.var, param))
            else:
                kept.append(_substituted(binding, replaced))
            index += 1
        if kept:
            blocks.append(type(block)(kept))
    return _rebuilt(func, params, blocks, _mapped(func.body.body, replaced))


def _substituted(binding: Any, replaced: Sequence[tuple[Any, Any]]) -> Any:
    value = _mapped(binding.value, replaced)
    if isinstance(binding, _relax.MatchCast):
        return _relax.MatchCast(binding.var, value, binding.ty)
    return _relax.VarBinding(binding.var, value)


def _mapped(expr: Any, replaced: Sequence[tuple[Any, Any]]) -> Any:
    """Return an expression with other variables."""

    def other(var: Any) -> Any:
        return next((new for old, new in replaced if old.same_as(var)), var)

    return tvm_ffi.structural_map(expr, (_relax.Var, other)) if replaced else expr


def _unused(func: BaseFunc) -> list[int]:
    """Return the indices of the parameters that the body does not use."""
    used = list(_relax.analysis.free_vars(func.body))
    return [index for index, param in enumerate(func.params) if not any(param.same_as(var) for var in used)]


def _without_parameters(func: BaseFunc, removed: frozenset[int]) -> BaseFunc:
    left_out = {index for number, index in enumerate(_unused(func)) if number in removed}
    params = [param for index, param in enumerate(func.params) if index not in left_out]
    return _rebuilt(func, params, func.body.blocks, func.body.body)
