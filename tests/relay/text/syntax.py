"""`modules()`: random Relay modules with all node kinds and shared expressions.

The modules are for tests of syntax only. Most are ill-typed: a call may have any callee and arguments.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from hypothesis import strategies as st

from apass.relay.adt import (
    Clause,
    Constructor,
    Match,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    PatternWildcard,
    TypeData,
)
from apass.relay.expr import Call, Constant, Expr, GlobalVar, If, Let, Op, Tuple, TupleGetItem, Var
from apass.relay.function import Function
from apass.relay.ir.attrs import Attrs, DictAttrs
from apass.relay.ir.expr import RefCreate, RefRead, RefWrite
from apass.relay.ir.module import IRModule
from apass.relay.ty import (
    Any,
    FuncType,
    GlobalTypeVar,
    RefType,
    ShapeVar,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeVar,
)

__all__ = ["constants", "expressions", "modules"]

NAMES: Final = ("x", "x", "x1", "y", "", "_", "0", "input.1", "a b", "gpu_0/data", "é", 'say "hi"', "let", "v1")
GLOBALS: Final = ("main", "f", "tvm.f", "a-b")
DTYPES: Final = ("bool", "int8", "int32", "int64", "uint8", "float16", "float32", "float64")

LIST: Final = GlobalTypeVar("List")
_A: Final = TypeVar("A")
CONS: Final = Constructor("Cons", (_A, TypeCall(LIST, (_A,))), LIST)
NIL: Final = Constructor("Nil", (), LIST)
LIST_DATA: Final = TypeData(LIST, (_A,), (CONS, NIL))
BATCH: Final = ShapeVar("batch")


@st.composite
def constants(draw: st.DrawFn) -> Constant:
    """Return a constant with random bits."""
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    shape = draw(st.sampled_from([(), (), (1,), (2, 3), (0, 2)]))
    size = dtype.itemsize * int(np.prod(shape, dtype=int))
    array = np.frombuffer(draw(st.binary(min_size=size, max_size=size)), np.uint8)
    return Constant((array & 1 if dtype.kind == "b" else array).view(dtype).reshape(shape))


numbers = st.one_of(st.booleans(), st.integers(-(2**40), 2**40), st.floats(allow_nan=False))
attribute_values = st.recursive(
    st.one_of(st.none(), numbers, st.text(max_size=5)),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=5,
)
attribute_names = st.sampled_from(["Primitive", "axis", "a1", "_", "None", "relay.reshape_only", "type", "fn", "a b"])
dict_attrs = st.dictionaries(attribute_names, attribute_values, max_size=3).map(DictAttrs)


def calls_of_operators() -> st.SearchStrategy[tuple[Op, Attrs | None]]:
    """Return operators with their own attributes or those of another operator."""
    strategies: list[st.SearchStrategy[tuple[Op, Attrs | None]]] = [
        st.sampled_from(["add", "nn.relu", "equal"]).map(lambda name: (Op.get(name), None)),
        st.integers(-3, 3).map(lambda axis: _with_attrs("nn.softmax", axis=axis)),
        st.sampled_from(DTYPES).map(lambda dtype: _with_attrs("cast", dtype=dtype)),
        st.tuples(numbers, numbers).map(lambda pair: _with_attrs("clip", a_min=float(pair[0]), a_max=float(pair[1]))),
        st.lists(st.integers(0, 3), max_size=3).map(lambda axes: _with_attrs("transpose", axes=tuple(axes) or None)),
        dict_attrs.map(lambda attrs: (Op.get("nn.softmax"), attrs)),
        st.just((Op.get("nn.softmax"), Op.get("transpose").make_attrs(axes=(1, 0)))),
    ]
    return st.one_of(strategies)


def _with_attrs(name: str, **values: object) -> tuple[Op, Attrs | None]:
    op = Op.get(name)
    return op, op.make_attrs(**values)


@dataclass(slots=True)
class Scope:
    """The expressions and type variables in scope."""

    exprs: list[Expr] = field(default_factory=list[Expr])
    types: list[TypeVar] = field(default_factory=list[TypeVar])

    def inner(self) -> "Scope":
        return Scope(self.exprs.copy(), self.types.copy())


@st.composite
def types(draw: st.DrawFn, scope: Scope, depth: int = 2) -> Type:
    """Return a type that may use the type variables in scope."""
    kind = draw(st.sampled_from(["tensor", "tensor", "any", "var", "tuple", "ref", "list", "function", "incomplete"]))
    if kind == "any":
        return TensorType((Any(), draw(st.integers(0, 9)), BATCH), "int8")
    if kind == "var" and scope.types:
        return draw(st.sampled_from(scope.types))
    if depth and kind == "tuple":
        return TupleType(draw(st.lists(types(scope, depth - 1), max_size=2)))
    if depth and kind == "ref":
        return RefType(draw(types(scope, depth - 1)))
    if depth and kind == "list":
        return TypeCall(LIST, (draw(types(scope, depth - 1)),))
    if depth and kind == "function":
        inner = scope.inner()
        params = [TypeVar(name) for name in draw(st.lists(st.sampled_from("AB"), unique=True, max_size=2))]
        inner.types += params
        args = draw(st.lists(types(inner, depth - 1), max_size=2))
        return FuncType(args, draw(types(inner, depth - 1)), params)
    return TensorType(draw(st.sampled_from([(), (10,), (1, 2)])), draw(st.sampled_from(DTYPES)))


@st.composite
def variables(draw: st.DrawFn, scope: Scope) -> Var:
    """Return a new variable."""
    return Var(draw(st.sampled_from(NAMES)), draw(st.none() | types(scope)))


@st.composite
def patterns(draw: st.DrawFn, scope: Scope, depth: int = 2) -> Pattern:
    """Return a pattern. Its variables are added to the scope."""
    kind = draw(st.sampled_from(["wildcard", "var", "cons", "nil", "tuple"]))
    if kind == "nil":
        return PatternConstructor(NIL)
    if depth and kind == "cons":
        return PatternConstructor(CONS, [draw(patterns(scope, depth - 1)) for _ in range(2)])
    if depth and kind == "tuple":
        return PatternTuple([draw(patterns(scope, depth - 1)) for _ in range(draw(st.integers(0, 2)))])
    if kind == "var":
        var = draw(variables(scope))
        scope.exprs.append(var)
        return PatternVar(var)
    return PatternWildcard()


@st.composite
def expressions(draw: st.DrawFn, scope: Scope, depth: int = 3) -> Expr:
    """Return an expression that uses the scope. Add new expressions to the scope."""
    for _ in range(draw(st.integers(1, 4 if depth == 3 else 2))):
        scope.exprs.append(draw(_nodes(scope, depth)))
    return draw(st.sampled_from(scope.exprs[-2:]))


@st.composite
def _nodes(draw: st.DrawFn, scope: Scope, depth: int) -> Expr:
    def operand() -> Expr:
        if not scope.exprs or draw(st.integers(0, 4)) == 0:
            return draw(constants())
        return draw(st.sampled_from(scope.exprs))

    def operands(least: int, most: int) -> Sequence[Expr]:
        return [operand() for _ in range(draw(st.integers(least, most)))]

    kind = draw(st.sampled_from(FLAT if depth == 0 else (*FLAT, *NESTED)))
    if kind == "op":
        op, attrs = draw(calls_of_operators())
        return Call(op, operands(0, 3), attrs)
    if kind == "call":
        callee = (
            draw(st.sampled_from([CONS, *(GlobalVar(name) for name in GLOBALS)])) if draw(st.booleans()) else operand()
        )
        return Call(callee, operands(0, 2), draw(st.none() | dict_attrs))
    if kind == "nil":
        return Call(NIL, ())
    if kind == "leaf":
        return draw(st.one_of(constants(), st.sampled_from([CONS, GlobalVar("f"), Op.get("add")])))
    if kind == "tuple":
        return Tuple(operands(0, 3))
    if kind == "field":
        return TupleGetItem(operand(), draw(st.integers(0, 2)))
    if kind == "ref":
        return draw(st.sampled_from([RefCreate(operand()), RefRead(operand()), RefWrite(operand(), operand())]))
    return draw(_scoped(scope, kind, operand(), depth - 1))


FLAT: Final = ("op", "op", "call", "nil", "leaf", "tuple", "field", "ref")
NESTED: Final = ("if", "let", "function", "match")


@st.composite
def _scoped(draw: st.DrawFn, scope: Scope, kind: str, operand: Expr, depth: int) -> Expr:
    if kind == "if":
        return If(operand, draw(expressions(scope, depth)), draw(expressions(scope, depth)))
    if kind == "function":
        return draw(functions(scope, depth))
    if kind == "match":
        return Match(operand, draw(st.lists(clauses(scope, depth), max_size=2)), draw(st.booleans()))
    var = draw(variables(scope))
    inner = scope.inner()
    inner.exprs.append(var)
    value = draw(functions(inner, depth)) if draw(st.booleans()) else draw(expressions(scope, depth))
    return Let(var, value, operand if draw(st.booleans()) else draw(expressions(inner, depth)))


@st.composite
def clauses(draw: st.DrawFn, scope: Scope, depth: int) -> Clause:
    """Return a clause of a match."""
    inner = scope.inner()
    return Clause(draw(patterns(inner)), draw(expressions(inner, depth)))


@st.composite
def functions(draw: st.DrawFn, scope: Scope, depth: int) -> Function:
    """Return a function with random parameters and body."""
    inner = scope.inner()
    type_params = [TypeVar(name) for name in draw(st.lists(st.sampled_from("AB"), unique=True, max_size=2))]
    inner.types += type_params
    params = draw(st.lists(variables(inner), max_size=3))
    inner.exprs += params
    result = draw(st.none() | types(inner))
    return Function(params, draw(expressions(inner, depth)), result, type_params, draw(dict_attrs))


@st.composite
def modules(draw: st.DrawFn) -> IRModule:
    """Return a module with one to three functions and a list type."""
    names = draw(st.lists(st.sampled_from(GLOBALS), unique=True, min_size=1, max_size=3))
    return IRModule({GlobalVar(name): draw(functions(Scope(), 2)) for name in names}, {LIST: LIST_DATA})
