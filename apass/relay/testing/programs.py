"""`programs()`: random well-typed Relay programs with inputs, for Hypothesis.

Floats are whole numbers, small enough for float32 to hold every result exactly, except results of `tanh`. Comparisons
and conditions use exact values only. A pass may therefore reorder arithmetic without changing the results.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

import numpy as np

from apass.errors import MissingExtraError
from apass.relay.expr import Call, Constant, Expr, GlobalVar, If, Let, Tuple, TupleGetItem, Var
from apass.relay.function import Function
from apass.relay.ir.expr import RefCreate, RefRead, RefWrite
from apass.relay.ir.module import IRModule
from apass.relay.ir.ndarray import Array
from apass.relay.op.elementwise.arithmetic import add, maximum, minimum, multiply, subtract
from apass.relay.op.elementwise.compare import equal, greater, less
from apass.relay.op.elementwise.convert import cast
from apass.relay.op.elementwise.logical import logical_and, logical_not
from apass.relay.op.elementwise.math import negative
from apass.relay.op.elementwise.trigonometry import tanh
from apass.relay.op.index.gather import where
from apass.relay.op.nn.activation import relu
from apass.relay.op.nn.dense.dense import dense
from apass.relay.op.reduce import max as max_
from apass.relay.op.reduce import sum as sum_
from apass.relay.op.shape.axes import expand_dims, transpose
from apass.relay.op.shape.join import concatenate
from apass.relay.op.shape.reshape import reshape
from apass.relay.ty import TensorType, TupleType, Type

try:
    from hypothesis import strategies as st
except ImportError as _error:
    raise MissingExtraError(f"random programs need hypothesis ({_error}): pip install 'apass[testing]'") from _error

__all__ = ["Program", "programs"]

Program: TypeAlias = tuple[IRModule, list[Array]]
"""A module with a `main`, and its arguments."""

SHAPES: Final = ((2, 3), (), (2, 3), (3,), (2,), (3, 2), (1, 3), (2, 1))
DTYPES: Final = ("float32", "float32", "int32", "bool")
LIMIT: Final = 2**20
"""Greatest magnitude of a value; float32 is exact up to 2**24."""
ARGUMENT_LIMIT: Final = 2**6
"""Greatest magnitude of an argument."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """An expression that is a tensor, with known facts about its value."""

    expr: Expr
    shape: tuple[int, ...]
    dtype: str
    bound: int = 1
    """The greatest magnitude."""
    exact: bool = True
    """Whether the value was computed without rounding."""

    @property
    def type(self) -> TensorType:
        """The type of the expression."""
        return TensorType(self.shape, self.dtype)


@dataclass(frozen=True, slots=True)
class Routine:
    """A function that can be called."""

    expr: Expr
    params: tuple[TensorType, ...]
    result: Tensor
    """A tensor like the result of a call, without its expression."""


@dataclass(slots=True)
class Scope:
    """The expressions available at a point of the program, and the bindings so far."""

    tensors: list[Tensor]
    tuples: list[tuple[Expr, tuple[Tensor, ...]]] = field(default_factory=list[tuple[Expr, tuple[Tensor, ...]]])
    routines: list[Routine] = field(default_factory=list[Routine])
    bindings: list[tuple[Var, Expr]] = field(default_factory=list[tuple[Var, Expr]])

    def inner(self) -> "Scope":
        """Return a scope nested in this scope."""
        return Scope(self.tensors.copy(), self.tuples.copy(), self.routines.copy())

    def close(self, result: Expr) -> Expr:
        """Return an expression with the bindings of this scope around it."""
        for var, value in reversed(self.bindings):
            result = Let(var, value, result)
        return result


@st.composite
def programs(draw: st.DrawFn, *, max_steps: int = 16, refs: bool = False) -> Program:
    """Return a strategy for untyped programs, with arguments for their `main`.

    Programs have constants, operator calls, shared nodes, lets, tuples, projections, ifs, closures and global
    functions. Global functions call each other without recursion. With `refs`, programs also write and read cells.
    """
    writer = _Writer(draw, refs)
    helpers: list[Routine] = []
    functions: dict[GlobalVar, Expr] = {}
    for number in range(draw(st.integers(0, 2))):
        gvar = GlobalVar(f"f{number}")
        functions[gvar], routine = writer.function(Scope([], routines=helpers.copy()), gvar, max_steps // 2)
        helpers.append(routine)
    functions[GlobalVar("main")], params = writer.main(Scope([], routines=helpers), max_steps)
    order = draw(st.permutations(list(functions)))
    return IRModule({gvar: functions[gvar] for gvar in order}), [draw(_arrays(ty)) for ty in params]


@st.composite
def _arrays(draw: st.DrawFn, ty: TensorType) -> Array:
    size = math.prod(ty.concrete_shape)
    low, high = (0, 1) if ty.dtype == "bool" else (-4, 4)
    values = draw(st.lists(st.integers(low, high), min_size=size, max_size=size))
    return np.array(values, ty.dtype).reshape(ty.concrete_shape)


class _Writer:
    """Builds a program; each step adds an expression to a scope."""

    def __init__(self, draw: st.DrawFn, refs: bool) -> None:
        self.draw = draw
        self.count = 0
        steps: list[Callable[[Scope, int], None]] = [
            self.unary,
            self.binary,
            self.binary,
            self.compare,
            self.choose,
            self.reduce,
            self.reorder,
            self.join,
            self.constant,
            self.group,
            self.let,
            self.let,
            self.branch,
            self.closure,
            self.call,
            self.call,
        ]
        self.steps = [*steps, self.cell] if refs else steps

    def var(self, hint: str, ty: Type | None) -> Var:
        """Return a new variable with a unique name."""
        self.count += 1
        return Var(f"{hint}{self.count}", ty)

    def pick(self, tensors: Sequence[Tensor], fits: Callable[[Tensor], bool] = lambda _: True) -> Tensor | None:
        """Return a tensor that fits, more often a later element; None if nothing fits."""
        fitting = [tensor for tensor in tensors if fits(tensor)]
        return fitting[-1 - self.draw(st.integers(0, min(len(fitting), 6) - 1))] if fitting else None

    def literal(self, shape: tuple[int, ...], dtype: str) -> Tensor:
        """Return a constant."""
        return Tensor(Constant(self.draw(_arrays(TensorType(shape, dtype)))), shape, dtype, 4)

    def of_type(self, scope: Scope, ty: TensorType, limit: int = LIMIT) -> Tensor:
        """Return an exact tensor of a type within a limit; a constant if there is none."""
        tensor = self.pick(scope.tensors, lambda item: item.type == ty and item.exact and item.bound <= limit)
        return tensor or self.literal(ty.concrete_shape, ty.dtype)

    def write(self, scope: Scope, steps: int) -> None:
        """Add some expressions to a scope."""
        count = st.integers(1, max(1, steps))
        for _ in range(max(self.draw(count), self.draw(count))):
            self.draw(st.sampled_from(self.steps))(scope, steps)

    def function(self, scope: Scope, name: Expr, steps: int) -> tuple[Function, Routine]:
        """Return a function with a random body, and the routine that describes its calls."""
        params, types = self.params(scope)
        self.write(scope, steps)
        result = self.pick(scope.tensors) or self.literal((), "float32")
        func = Function(params, scope.close(result.expr), self.draw(st.sampled_from([None, result.type])))
        return func, Routine(name, tuple(types), replace(result, expr=name))

    def params(self, scope: Scope) -> tuple[list[Var], list[TensorType]]:
        """Add the parameters of a function to its scope, and return them with their types."""
        types = [self.tensor_type() for _ in range(self.draw(st.integers(1, 3)))]
        params = [self.var("x", ty) for ty in types]
        pairs = zip(params, types, strict=True)
        scope.tensors += [Tensor(param, ty.concrete_shape, ty.dtype, ARGUMENT_LIMIT) for param, ty in pairs]
        return params, types

    def tensor_type(self) -> TensorType:
        return TensorType(self.draw(st.sampled_from(SHAPES)), self.draw(st.sampled_from(DTYPES)))

    def main(self, scope: Scope, steps: int) -> tuple[Function, list[TensorType]]:
        """Return a function of random steps, and the types of its parameters.

        It returns a tensor, or a tuple of tensors.
        """
        params, types = self.params(scope)
        self.write(scope, steps)
        others = self.draw(st.lists(st.sampled_from(scope.tensors), max_size=2))
        exprs = [tensor.expr for tensor in (scope.tensors[-1], *others)]
        return Function(params, scope.close(exprs[0] if len(exprs) == 1 else Tuple(exprs))), types

    def unary(self, scope: Scope, steps: int) -> None:
        tensor = self.pick(scope.tensors)
        if tensor is None:
            return
        if tensor.dtype == "bool":
            scope.tensors.append(replace(tensor, expr=logical_not(tensor.expr)))
            return
        op = self.draw(st.sampled_from([negative, relu, tanh] if tensor.dtype == "float32" else [negative, relu]))
        rounded = replace(tensor, expr=op(tensor.expr), bound=1, exact=False)
        scope.tensors.append(rounded if op is tanh else replace(tensor, expr=op(tensor.expr)))

    def operands(self, scope: Scope, fits: Callable[[Tensor], bool]) -> tuple[Tensor, Tensor] | None:
        """Return two tensors of the same element type that broadcast to a common shape."""
        first = self.pick(scope.tensors, fits)
        if first is None:
            return None
        left = first  # a name that is never None, for the type checkers
        right = self.pick(
            scope.tensors, lambda item: fits(item) and item.dtype == left.dtype and _broadcast(left, item)
        )
        return (left, right) if right is not None and _broadcast(left, right) else None

    def binary(self, scope: Scope, steps: int) -> None:
        pair = self.operands(scope, lambda _: True)
        if pair is None:
            return
        shape, exact = np.broadcast_shapes(pair[0].shape, pair[1].shape), pair[0].exact and pair[1].exact
        if pair[0].dtype == "bool":
            scope.tensors.append(Tensor(logical_and(pair[0].expr, pair[1].expr), shape, "bool"))
            return
        lhs, rhs = pair[0].bound, pair[1].bound
        bounds = {add: lhs + rhs, subtract: lhs + rhs, multiply: lhs * rhs, maximum: max(lhs, rhs)}
        bounds[minimum] = bounds[maximum]
        op = self.draw(st.sampled_from([op for op, bound in bounds.items() if bound <= LIMIT]))
        result = Tensor(op(pair[0].expr, pair[1].expr), shape, pair[0].dtype, bounds[op], exact)
        scope.tensors.append(result)

    def compare(self, scope: Scope, steps: int) -> None:
        pair = self.operands(scope, lambda item: item.exact and item.dtype != "bool")
        if pair is not None:
            op = self.draw(st.sampled_from([less, greater, equal]))
            shape = np.broadcast_shapes(pair[0].shape, pair[1].shape)
            scope.tensors.append(Tensor(op(pair[0].expr, pair[1].expr), shape, "bool"))

    def choose(self, scope: Scope, steps: int) -> None:
        condition = self.pick(scope.tensors, lambda item: item.dtype == "bool")
        if condition is None:
            return
        shape = condition.shape
        x = self.pick(scope.tensors, lambda item: item.shape == shape)
        if x is not None:
            other = self.of_type(scope, x.type)
            chosen = where(condition.expr, x.expr, other.expr)
            scope.tensors.append(replace(x, expr=chosen, bound=max(x.bound, other.bound)))

    def reduce(self, scope: Scope, steps: int) -> None:
        numbers = [item for item in scope.tensors if item.dtype != "bool"]
        tensor = self.pick(numbers, lambda item: bool(item.shape) and item.bound * 6 <= LIMIT)
        if tensor is None:
            return
        axis, keepdims = self.draw(st.integers(0, len(tensor.shape) - 1)), self.draw(st.booleans())
        shape = (*tensor.shape[:axis], *((1,) if keepdims else ()), *tensor.shape[axis + 1 :])
        op = self.draw(st.sampled_from([sum_, max_]))
        bound = tensor.bound * tensor.shape[axis]
        scope.tensors.append(replace(tensor, expr=op(tensor.expr, axis, keepdims), shape=shape, bound=bound))

    def reorder(self, scope: Scope, steps: int) -> None:
        tensor = self.pick(scope.tensors, lambda item: len(item.shape) in (1, 2))
        if tensor is None:
            return
        kind = self.draw(st.sampled_from(["transpose", "reshape", "expand_dims", "cast"]))
        if kind == "transpose":
            scope.tensors.append(replace(tensor, expr=transpose(tensor.expr), shape=tensor.shape[::-1]))
        elif kind == "reshape":
            scope.tensors.append(replace(tensor, expr=reshape(tensor.expr, (-1,)), shape=(math.prod(tensor.shape),)))
        elif kind == "expand_dims" and len(tensor.shape) == 1:
            scope.tensors.append(replace(tensor, expr=expand_dims(tensor.expr, 0), shape=(1, *tensor.shape)))
        elif tensor.exact:
            scope.tensors.append(replace(tensor, expr=cast(tensor.expr, "float32"), dtype="float32"))

    def join(self, scope: Scope, steps: int) -> None:
        tensor = self.pick(scope.tensors, lambda item: len(item.shape) == 2)
        if tensor is None:
            return
        first = tensor
        rows = self.pick(scope.tensors, lambda item: item.dtype == first.dtype and item.shape[1:] == first.shape[1:])
        other = rows if rows is not None and len(rows.shape) == 2 else tensor
        bound, exact = tensor.bound * other.bound * tensor.shape[1], tensor.exact and other.exact
        if tensor.dtype == "float32" and bound <= LIMIT and self.draw(st.booleans()):
            shape = (tensor.shape[0], other.shape[0])
            scope.tensors.append(Tensor(dense(tensor.expr, other.expr), shape, "float32", bound, exact))
            return
        shape = (tensor.shape[0] + other.shape[0], tensor.shape[1])
        joined = concatenate([tensor.expr, other.expr], 0)
        scope.tensors.append(Tensor(joined, shape, tensor.dtype, max(tensor.bound, other.bound), exact))

    def constant(self, scope: Scope, steps: int) -> None:
        scope.tensors.append(self.literal(self.draw(st.sampled_from(SHAPES)), self.draw(st.sampled_from(DTYPES))))

    def group(self, scope: Scope, steps: int) -> None:
        """Add a tuple, or a field of an existing tuple."""
        is_new = self.draw(st.booleans()) or not scope.tuples
        if is_new and scope.tensors:
            parts = tuple(self.draw(st.lists(st.sampled_from(scope.tensors), min_size=1, max_size=3)))
            scope.tuples.append((Tuple([part.expr for part in parts]), parts))
        if scope.tuples:
            whole, fields = self.draw(st.sampled_from(scope.tuples))
            index = self.draw(st.integers(0, len(fields) - 1))
            scope.tensors.append(replace(fields[index], expr=TupleGetItem(whole, index)))

    def let(self, scope: Scope, steps: int) -> None:
        """Bind a tensor, a tuple or a closure to a variable."""
        kind = self.draw(st.sampled_from(["tensor", "tensor", "tuple", "routine"]))
        if kind == "tuple" and scope.tuples:
            whole, fields = scope.tuples[-1]
            var = self.bind(scope, whole, TupleType([field.type for field in fields]))
            scope.tuples.append((var, fields))
        elif kind == "routine" and scope.routines:
            routine = scope.routines[-1]
            scope.routines.append(replace(routine, expr=self.bind(scope, routine.expr, None)))
        else:
            tensor = self.pick(scope.tensors)
            if tensor is not None:
                scope.tensors.append(replace(tensor, expr=self.bind(scope, tensor.expr, tensor.type)))

    def bind(self, scope: Scope, value: Expr, ty: Type | None) -> Var:
        """Bind an expression to a new variable, with or without an annotation."""
        var = self.var("v", self.draw(st.sampled_from([None, ty])))
        scope.bindings.append((var, value))
        return var

    def branch(self, scope: Scope, steps: int) -> None:
        """Add an If."""
        if steps < 2:
            return
        condition = self.of_type(scope, TensorType((), "bool"))
        ty = self.tensor_type()
        branches: list[Expr] = []
        for _ in range(2):
            inner = scope.inner()
            self.write(inner, steps // 3)
            branches.append(inner.close(self.of_type(inner, ty).expr))
        result = Tensor(If(condition.expr, branches[0], branches[1]), ty.concrete_shape, ty.dtype, LIMIT)
        scope.tensors.append(result)

    def closure(self, scope: Scope, steps: int) -> None:
        """Add a function that may capture variables, and a call of it."""
        if steps < 2:
            return
        func, routine = self.function(scope.inner(), GlobalVar("closure"), steps // 3)
        scope.routines.append(replace(routine, expr=func))
        self.apply(scope, scope.routines[-1])

    def call(self, scope: Scope, steps: int) -> None:
        if scope.routines:
            self.apply(scope, self.draw(st.sampled_from(scope.routines)))

    def apply(self, scope: Scope, routine: Routine) -> None:
        args = [self.of_type(scope, ty, ARGUMENT_LIMIT).expr for ty in routine.params]
        scope.tensors.append(replace(routine.result, expr=Call(routine.expr, args)))

    def cell(self, scope: Scope, steps: int) -> None:
        """Create a cell, write to the cell and read it, in this order."""
        tensor = self.pick(scope.tensors)
        if tensor is None:
            return
        other = self.of_type(scope, tensor.type)
        cell = self.bind(scope, RefCreate(tensor.expr), None)
        self.bind(scope, RefWrite(cell, other.expr), TupleType())
        scope.tensors.append(replace(other, expr=self.bind(scope, RefRead(cell), tensor.type)))


def _broadcast(left: Tensor, right: Tensor) -> bool:
    """Return whether two tensors broadcast to a common shape."""
    pairs = zip(reversed(left.shape), reversed(right.shape), strict=False)
    return all(a == b or 1 in (a, b) for a, b in pairs)
