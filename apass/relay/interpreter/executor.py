"""`create_executor`: TVM's interface to run programs, based on `evaluate`."""

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from apass.errors import did_you_mean
from apass.relay.errors import EvaluationError
from apass.relay.interpreter.evaluate import evaluate
from apass.relay.interpreter.values import ADTValue, RefValue, Value, to_argument
from apass.relay.ir.expr import Constant, Expr, GlobalVar, Var
from apass.relay.ir.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.ir.ndarray import NDArray
from apass.relay.rewrite.bind import bind, bind_params_by_name

__all__ = ["Executor", "create_executor", "register_executor"]

Runner: TypeAlias = Callable[..., object]
"""A callable that returns NDArrays, tuples of NDArrays, or other values of the evaluator."""


class Executor:
    """Evaluator of expressions with the functions of a module.

    >>> from apass.relay.ir.expr import const
    >>> from apass.relay.op.elementwise.arithmetic import add
    >>> create_executor("debug").evaluate(add(const(1), const(2))).numpy()
    array(3, dtype=int32)
    """

    def __init__(self, mod: IRModule) -> None:
        """Use the functions of `mod`, including functions added later."""
        self.mod = mod

    def evaluate(self, expr: Expr | None = None, binds: Mapping[Var, npt.ArrayLike | Expr] | None = None) -> object:
        """Return the value of an expression, or a callable for a function.

        Parameters:
            expr: the expression, `main` by default.
            binds: values of the free variables.

        Raises:
            ValueError: if `binds` lacks a free variable of a function.
            EvaluationError: if an expression has no value.

        """
        if binds and expr is not None:
            values = {var: value if isinstance(value, Expr) else Constant(value) for var, value in binds.items()}
            expr = bind(expr, values)
        if expr is None:
            expr = self.mod["main"]
        if not isinstance(expr, Function | GlobalVar):
            return self._run(Function([], expr), (), {})
        func = self.mod[expr] if isinstance(expr, GlobalVar) else expr

        def run(*args: object, **params: object) -> object:
            if func.params and not args and not params:
                raise EvaluationError(f"the function requires {len(func.params)} arguments, got none")
            values: list[object] = [_argument(arg, param) for arg, param in zip(args, func.params, strict=False)]
            values += args[len(func.params) :]
            by_name = {param.name_hint: param for param in func.params}
            named: dict[str, object] = {name: _argument(arg, by_name.get(name)) for name, arg in params.items()}
            return self._run(func, tuple(values), named)

        return run

    def _run(self, func: Function, args: tuple[object, ...], params: dict[str, object]) -> object:
        """Return the value of a call of a function."""
        return _to_tvm(evaluate(func, *args, mod=self.mod, **params))


KINDS: Final[dict[str, Callable[[IRModule], Executor]]] = dict.fromkeys(("debug", "graph", "vm", "aot"), Executor)
"""The executors by kind. All of TVM's kinds behave alike here."""


def register_executor(kind: str, make: Callable[[IRModule], Executor]) -> None:
    """Add a kind of executors. Rooms below that of the evaluator have their own."""
    KINDS[kind] = make


def create_executor(
    kind: str = "debug",
    mod: IRModule | None = None,
    device: object = None,
    target: object = "llvm",
    params: Mapping[str, npt.ArrayLike | Constant] | None = None,
) -> Executor:
    """Return an executor for a module.

    Parameters:
        kind: one of TVM's kinds of executors, all of which run on numpy; or `onnxruntime`, which exports functions with
            `to_onnx` and runs them with onnxruntime.
        mod: the module, empty by default.
        device: TVM's device. Ignored.
        target: TVM's compilation target. Ignored.
        params: values for parameters of `main`, by name.

    Raises:
        ValueError: if the kind does not exist.
        MissingExtraError: if onnx or onnxruntime is needed and not installed.

    """
    if kind not in KINDS:
        raise ValueError(f"unknown executor kind {kind!r}{did_you_mean(kind, KINDS, listing='expected one of: ')}")
    module = IRModule() if mod is None else mod
    if params is not None:
        module = module.with_functions({"main": bind_params_by_name(module["main"], params)})
    return KINDS[kind](module)


def _argument(arg: object, param: Var | None) -> Value:
    if param is None:  # `evaluate` reports that there is no such parameter
        return to_argument(arg, None)
    return to_argument(arg, param.type_annotation, f"argument {param.name_hint}")


def _to_tvm(value: Value) -> Value:
    """Return a value with all arrays converted to NDArrays, without recursion."""
    converted: dict[int, Value] = {}
    cells: list[tuple[RefValue, RefValue]] = []
    stack: list[Value] = [value]
    while stack:
        node = stack[-1]
        pending = [] if id(node) in converted else [field for field in _fields(node) if id(field) not in converted]
        if pending:
            stack += pending
            continue
        stack.pop()
        if id(node) in converted:
            continue
        converted[id(node)] = new = _rebuilt(node, converted)
        if isinstance(node, RefValue) and isinstance(new, RefValue):
            cells.append((node, new))
            stack.append(node.value)
    for old, new in cells:
        new.value = converted[id(old.value)]
    return converted[id(value)]


def _fields(value: Value) -> tuple[Value, ...]:
    if isinstance(value, ADTValue):
        return value.fields
    return value if isinstance(value, tuple) else ()


def _rebuilt(value: Value, converted: Mapping[int, Value]) -> Value:
    if isinstance(value, ADTValue):
        return ADTValue(value.constructor, tuple(converted[id(field)] for field in value.fields))
    if isinstance(value, tuple):
        return tuple(converted[id(field)] for field in value)
    if isinstance(value, RefValue):
        return RefValue(value.value)  # a cell may contain itself, so `_to_tvm` sets its value last
    return NDArray.of(value) if isinstance(value, np.ndarray) else value
