"""`programs()`: random well-typed Relay programs with random inputs, as a Hypothesis strategy.

Floats are whole numbers, small enough for float32 to hold every result exactly, but for those that come out of `tanh`.
Decisions (comparisons, conditions) are made on exact values alone. So a pass may reorder arithmetic, and the program
still computes the same.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

import numpy as np
from hypothesis import strategies as st

from apass.relay.expr import Call, Constant, Expr, GlobalVar, If, Let, Tuple, TupleGetItem, Var
from apass.relay.function import Function
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
from apass.relay.ref import RefCreate, RefRead, RefWrite
from apass.relay.ty import TensorType, TupleType, Type

__all__ = ["Program", "programs"]

Program: TypeAlias = tuple[IRModule, list[Array]]
"""A module with a `main`, and an argument for each of its parameters."""

SHAPES: Final = ((2, 3), (), (2, 3), (3,), (2,), (3, 2), (1, 3), (2, 1))
DTYPES: Final = ("float32", "float32", "int32", "bool")
LIMIT: Final = 2**20
"""No value is greater; float32 is exact up to 2**24."""
ARGUMENT_LIMIT: Final = 2**6
"""No argument of a function is greater."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """An expression that is a tensor, with what is known of its value."""

    expr: Expr
    shape: tuple[int, ...]
    dtype: str
    bound: int = 1
    """The greatest magnitude."""
    exact: bool = True
    """Whether no rounding went into it."""

    @property
    def type(self) -> TensorType:
        return TensorType(self.shape, self.dtype)


@dataclass(frozen=True, slots=True)
class Routine:
    """A function that can be called."""

    expr: Expr
    params: tuple[TensorType, ...]
    result: Tensor
    """What a call gives, but for the expression."""


@dataclass(slots=True)
class Scope:
    """What an expression can be built from at some place, and the variables that were bound so far."""

    tensors: list[Tensor]
    tuples: list[tuple[Expr, tuple[Tensor, ...]]] = field(default_factory=list[tuple[Expr, tuple[Tensor, ...]]])
    routines: list[Routine] = field(default_factory=list[Routine])
    bindings: list[tuple[Var, Expr]] = field(default_factory=list[tuple[Var, Expr]])

    def inner(self) -> "Scope":
        """Return a scope within this one."""
        return Scope(self.tensors.copy(), self.tuples.copy(), self.routines.copy())

    def close(self, result: Expr) -> Expr:
        """Return an expression with the variables around it that were bound in this scope."""
        for var, value in reversed(self.bindings):
            result = Let(var, value, result)
        return result


@st.composite
def programs(draw: st.DrawFn, *, max_steps: int = 16, refs: bool = False) -> Program:
    """Return a strategy for programs: modules that are not typed yet, with arguments for their `main`.

    They have constants, calls of operators, shared nodes, lets, tuples and projections, ifs, closures, and global
    functions that call each other, none of them recursive. With `refs`, also cells that are written and read.
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
    return IRModule({gvar: functions[gvar] for gvar in order}), [draw(_arrays(one)) for one in params]


@st.composite
def _arrays(draw: st.DrawFn, ty: TensorType) -> Array:
    size = math.prod(ty.concrete_shape)
    low, high = (0, 1) if ty.dtype == "bool" else (-4, 4)
    values = draw(st.lists(st.integers(low, high), min_size=size, max_size=size))
    return np.array(values, ty.dtype).reshape(ty.concrete_shape)


class _Writer:
    """Writes a program, step by step: each step adds an expression to a scope."""

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
        """Return a new variable, of a name that no other has."""
        self.count += 1
        return Var(f"{hint}{self.count}", ty)

    def pick(self, tensors: Sequence[Tensor], fits: Callable[[Tensor], bool] = lambda _: True) -> Tensor | None:
        """Return one of the tensors that fit, the later the likelier; None if there is none."""
        fitting = [one for one in tensors if fits(one)]
        return fitting[-1 - self.draw(st.integers(0, min(len(fitting), 6) - 1))] if fitting else None

    def literal(self, shape: tuple[int, ...], dtype: str) -> Tensor:
        """Return a constant."""
        return Tensor(Constant(self.draw(_arrays(TensorType(shape, dtype)))), shape, dtype, 4)

    def of_type(self, scope: Scope, ty: TensorType, limit: int = LIMIT) -> Tensor:
        """Return a tensor of a type that is within a limit and exact; a constant if the scope has none."""
        found = self.pick(scope.tensors, lambda one: one.type == ty and one.exact and one.bound <= limit)
        return found or self.literal(ty.concrete_shape, ty.dtype)

    def write(self, scope: Scope, steps: int) -> None:
        """Add some expressions to a scope."""
        count = st.integers(1, max(1, steps))
        for _ in range(max(self.draw(count), self.draw(count))):
            self.draw(st.sampled_from(self.steps))(scope, steps)

    def function(self, scope: Scope, name: Expr, steps: int) -> tuple[Function, Routine]:
        """Return a function whose body is written in a scope, and what is to be known of its calls."""
        params, types = self.params(scope)
        self.write(scope, steps)
        result = self.pick(scope.tensors) or self.literal((), "float32")
        func = Function(params, scope.close(result.expr), self.draw(st.sampled_from([None, result.type])))
        return func, Routine(name, tuple(types), replace(result, expr=name))

    def params(self, scope: Scope) -> tuple[list[Var], list[TensorType]]:
        """Add the parameters of a function to its scope, and return them with their types."""
        types = [self.tensor_type() for _ in range(self.draw(st.integers(1, 3)))]
        params = [self.var("x", ty) for ty in types]
        scope.tensors += [
            Tensor(one, ty.concrete_shape, ty.dtype, ARGUMENT_LIMIT) for one, ty in zip(params, types, strict=True)
        ]
        return params, types

    def tensor_type(self) -> TensorType:
        return TensorType(self.draw(st.sampled_from(SHAPES)), self.draw(st.sampled_from(DTYPES)))

    def main(self, scope: Scope, steps: int) -> tuple[Function, list[TensorType]]:
        """Return a function of one tensor or a tuple of several, and the types of its parameters."""
        params, types = self.params(scope)
        self.write(scope, steps)
        others = self.draw(st.lists(st.sampled_from(scope.tensors), max_size=2))
        exprs = [one.expr for one in (scope.tensors[-1], *others)]
        return Function(params, scope.close(exprs[0] if len(exprs) == 1 else Tuple(exprs))), types

    def unary(self, scope: Scope, steps: int) -> None:
        one = self.pick(scope.tensors)
        if one is None:
            return
        if one.dtype == "bool":
            scope.tensors.append(replace(one, expr=logical_not(one.expr)))
            return
        op = self.draw(st.sampled_from([negative, relu, tanh] if one.dtype == "float32" else [negative, relu]))
        rounded = replace(one, expr=op(one.expr), bound=1, exact=False)
        scope.tensors.append(rounded if op is tanh else replace(one, expr=op(one.expr)))

    def operands(self, scope: Scope, fits: Callable[[Tensor], bool]) -> tuple[Tensor, Tensor] | None:
        """Return two tensors of one element type whose shapes can be broadcast."""
        one = self.pick(scope.tensors, fits)
        if one is None:
            return None
        both = one
        other = self.pick(scope.tensors, lambda it: fits(it) and it.dtype == both.dtype and _broadcast(both, it))
        return (one, other) if other is not None and _broadcast(one, other) else None

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
        made = Tensor(op(pair[0].expr, pair[1].expr), shape, pair[0].dtype, bounds[op], exact)
        scope.tensors.append(made)

    def compare(self, scope: Scope, steps: int) -> None:
        pair = self.operands(scope, lambda one: one.exact and one.dtype != "bool")
        if pair is not None:
            op = self.draw(st.sampled_from([less, greater, equal]))
            shape = np.broadcast_shapes(pair[0].shape, pair[1].shape)
            scope.tensors.append(Tensor(op(pair[0].expr, pair[1].expr), shape, "bool"))

    def choose(self, scope: Scope, steps: int) -> None:
        condition = self.pick(scope.tensors, lambda one: one.dtype == "bool")
        if condition is None:
            return
        shape = condition.shape
        x = self.pick(scope.tensors, lambda one: one.shape == shape)
        if x is not None:
            other = self.of_type(scope, x.type)
            made = where(condition.expr, x.expr, other.expr)
            scope.tensors.append(replace(x, expr=made, bound=max(x.bound, other.bound)))

    def reduce(self, scope: Scope, steps: int) -> None:
        one = self.pick(scope.tensors, lambda it: it.dtype != "bool" and bool(it.shape) and it.bound * 6 <= LIMIT)
        if one is None:
            return
        axis, keepdims = self.draw(st.integers(0, len(one.shape) - 1)), self.draw(st.booleans())
        shape = (*one.shape[:axis], *((1,) if keepdims else ()), *one.shape[axis + 1 :])
        op = self.draw(st.sampled_from([sum_, max_]))
        bound = one.bound * one.shape[axis]
        scope.tensors.append(replace(one, expr=op(one.expr, axis, keepdims), shape=shape, bound=bound))

    def reorder(self, scope: Scope, steps: int) -> None:
        one = self.pick(scope.tensors, lambda it: len(it.shape) in (1, 2))
        if one is None:
            return
        kind = self.draw(st.sampled_from(["transpose", "reshape", "expand_dims", "cast"]))
        if kind == "transpose":
            scope.tensors.append(replace(one, expr=transpose(one.expr), shape=one.shape[::-1]))
        elif kind == "reshape":
            scope.tensors.append(replace(one, expr=reshape(one.expr, (-1,)), shape=(math.prod(one.shape),)))
        elif kind == "expand_dims" and len(one.shape) == 1:
            scope.tensors.append(replace(one, expr=expand_dims(one.expr, 0), shape=(1, *one.shape)))
        elif one.exact:
            scope.tensors.append(replace(one, expr=cast(one.expr, "float32"), dtype="float32"))

    def join(self, scope: Scope, steps: int) -> None:
        one = self.pick(scope.tensors, lambda it: len(it.shape) == 2)
        if one is None:
            return
        first = one
        rows = self.pick(scope.tensors, lambda it: it.dtype == first.dtype and it.shape[1:] == first.shape[1:])
        other = rows if rows is not None and len(rows.shape) == 2 else one
        bound, exact = one.bound * other.bound * one.shape[1], one.exact and other.exact
        if one.dtype == "float32" and bound <= LIMIT and self.draw(st.booleans()):
            shape = (one.shape[0], other.shape[0])
            scope.tensors.append(Tensor(dense(one.expr, other.expr), shape, "float32", bound, exact))
            return
        shape = (one.shape[0] + other.shape[0], one.shape[1])
        made = concatenate([one.expr, other.expr], 0)
        scope.tensors.append(Tensor(made, shape, one.dtype, max(one.bound, other.bound), exact))

    def constant(self, scope: Scope, steps: int) -> None:
        scope.tensors.append(self.literal(self.draw(st.sampled_from(SHAPES)), self.draw(st.sampled_from(DTYPES))))

    def group(self, scope: Scope, steps: int) -> None:
        """Make a tuple, or take a field of one that there is."""
        is_new = self.draw(st.booleans()) or not scope.tuples
        if is_new and scope.tensors:
            parts = tuple(self.draw(st.lists(st.sampled_from(scope.tensors), min_size=1, max_size=3)))
            scope.tuples.append((Tuple([one.expr for one in parts]), parts))
        if scope.tuples:
            whole, fields = self.draw(st.sampled_from(scope.tuples))
            place = self.draw(st.integers(0, len(fields) - 1))
            scope.tensors.append(replace(fields[place], expr=TupleGetItem(whole, place)))

    def let(self, scope: Scope, steps: int) -> None:
        """Bind a tensor, a tuple or a closure to a variable."""
        kind = self.draw(st.sampled_from(["tensor", "tensor", "tuple", "routine"]))
        if kind == "tuple" and scope.tuples:
            whole, fields = scope.tuples[-1]
            var = self.bind(scope, whole, TupleType([one.type for one in fields]))
            scope.tuples.append((var, fields))
        elif kind == "routine" and scope.routines:
            one = scope.routines[-1]
            scope.routines.append(replace(one, expr=self.bind(scope, one.expr, None)))
        else:
            tensor = self.pick(scope.tensors)
            if tensor is not None:
                scope.tensors.append(replace(tensor, expr=self.bind(scope, tensor.expr, tensor.type)))

    def bind(self, scope: Scope, value: Expr, ty: Type | None) -> Var:
        """Bind an expression to a new variable, which may be annotated."""
        var = self.var("v", self.draw(st.sampled_from([None, ty])))
        scope.bindings.append((var, value))
        return var

    def branch(self, scope: Scope, steps: int) -> None:
        """Make an If."""
        if steps < 2:
            return
        condition = self.of_type(scope, TensorType((), "bool"))
        ty = self.tensor_type()
        branches: list[Expr] = []
        for _ in range(2):
            inner = scope.inner()
            self.write(inner, steps // 3)
            branches.append(inner.close(self.of_type(inner, ty).expr))
        made = Tensor(If(condition.expr, *branches), ty.concrete_shape, ty.dtype, LIMIT)
        scope.tensors.append(made)

    def closure(self, scope: Scope, steps: int) -> None:
        """Make a function that may use what is around it, and call it."""
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
        """Make a cell, write to it and read it, in this order."""
        one = self.pick(scope.tensors)
        if one is None:
            return
        other = self.of_type(scope, one.type)
        cell = self.bind(scope, RefCreate(one.expr), None)
        self.bind(scope, RefWrite(cell, other.expr), TupleType())
        scope.tensors.append(replace(other, expr=self.bind(scope, RefRead(cell), one.type)))


def _broadcast(one: Tensor, other: Tensor) -> bool:
    """Tell whether two tensors can be broadcast to a shape of at most two dimensions."""
    pairs = zip(reversed(one.shape), reversed(other.shape), strict=False)
    return all(a == b or 1 in (a, b) for a, b in pairs)
