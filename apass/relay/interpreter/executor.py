"""`create_executor`: TVM's way to run a program, on `apass.relay.evaluate`."""

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from apass.errors import did_you_mean
from apass.relay.errors import EvaluationError
from apass.relay.expr import Constant, Expr, GlobalVar, Var
from apass.relay.function import Function
from apass.relay.interpreter.evaluate import evaluate
from apass.relay.interpreter.values import ADTValue, RefValue, Value
from apass.relay.ir.module import IRModule
from apass.relay.ir.ndarray import NDArray
from apass.relay.rewrite.bind import bind, bind_params_by_name

__all__ = ["Executor", "create_executor"]

KINDS: Final = ("debug", "graph", "vm", "aot")
"""TVM's ways to run a program. Here they are all one."""

Runner: TypeAlias = Callable[..., object]
"""Something to call with arguments: it returns NDArrays, tuples of these, or the values of the evaluator."""


class Executor:
    """Runs expressions among the functions of a module.

    >>> from apass.relay.make import const
    >>> from apass.relay.op.elementwise.arithmetic import add
    >>> create_executor("debug").evaluate(add(const(1), const(2))).numpy()
    array(3, dtype=int32)
    """

    def __init__(self, mod: IRModule) -> None:
        """Take the module, which may be given more functions later."""
        self.mod = mod

    def evaluate(self, expr: Expr | None = None, binds: Mapping[Var, npt.ArrayLike | Expr] | None = None) -> object:
        """Return the value of an expression; of a function, or without an expression of `main`, something to call.

        Raises:
            ValueError: if a function has free variables that `binds` does not give.
            EvaluationError: if something has no value.

        """
        if binds and expr is not None:
            expr = bind(expr, {var: one if isinstance(one, Expr) else Constant(one) for var, one in binds.items()})
        if expr is None:
            expr = self.mod["main"]
        if not isinstance(expr, Function | GlobalVar):
            return _of_tvm(evaluate(expr, mod=self.mod))
        func = self.mod[expr] if isinstance(expr, GlobalVar) else expr

        def run(*args: object, **params: object) -> object:
            if func.params and not args and not params:
                raise EvaluationError(f"the function takes {len(func.params)} arguments and was given none")
            return _of_tvm(evaluate(func, *args, mod=self.mod, **params))

        return run


def create_executor(
    kind: str = "debug",
    mod: IRModule | None = None,
    device: object = None,
    target: object = "llvm",
    params: Mapping[str, npt.ArrayLike | Constant] | None = None,
) -> Executor:
    """Return what runs the functions of a module, and expressions that call them, on numpy.

    Parameters:
        kind: one of TVM's; what they do is the same here.
        mod: the module; an empty one without it.
        device: what TVM runs on; not looked at.
        target: what TVM compiles for; not looked at.
        params: values for parameters of `main`, by name.

    Raises:
        ValueError: if TVM has no such kind.

    """
    if kind not in KINDS:
        raise ValueError(f"there is no kind of executor {kind!r}{did_you_mean(kind, KINDS, listing='there are: ')}")
    made = IRModule() if mod is None else mod
    if params is not None:
        made = made.with_functions({"main": bind_params_by_name(made["main"], params)})
    return Executor(made)


def _of_tvm(value: Value) -> Value:
    """Return a value as TVM gives it: arrays as NDArrays, within tuples, data types and cells too, however deep."""
    made: dict[int, Value] = {}
    cells: list[tuple[RefValue, RefValue]] = []
    work: list[Value] = [value]
    while work:
        node = work[-1]
        missing = [] if id(node) in made else [one for one in _fields(node) if id(one) not in made]
        if missing:
            work += missing
            continue
        work.pop()
        if id(node) in made:
            continue
        made[id(node)] = new = _rebuilt(node, made)
        if isinstance(node, RefValue) and isinstance(new, RefValue):
            cells.append((node, new))
            work.append(node.value)
    for old, new in cells:
        new.value = made[id(old.value)]
    return made[id(value)]


def _fields(value: Value) -> tuple[Value, ...]:
    if isinstance(value, ADTValue):
        return value.fields
    return value if isinstance(value, tuple) else ()


def _rebuilt(value: Value, made: Mapping[int, Value]) -> Value:
    if isinstance(value, ADTValue):
        return ADTValue(value.constructor, tuple(made[id(one)] for one in value.fields))
    if isinstance(value, tuple):
        return tuple(made[id(one)] for one in value)
    if isinstance(value, RefValue):
        return RefValue(value.value)  # what it holds may lead back to it: that is put in last
    return NDArray.of(value) if isinstance(value, np.ndarray) else value
