"""`CanonicalForm`: numbers that are equal if and only if programs are.

`apass.relay.structural.equality` defines structural equality.
"""

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any as Anything
from typing import Final, TypeAlias, TypeGuard, cast

import numpy as np

from apass.relay.ir.adt import (
    Clause,
    Constructor,
    Match,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    PatternWildcard,
    TypeData,
)
from apass.relay.ir.attrs import Attrs, DictAttrs
from apass.relay.ir.dim import Quotient
from apass.relay.ir.expr import (
    Call,
    Constant,
    GlobalVar,
    If,
    Let,
    Op,
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    TupleGetItem,
    Var,
)
from apass.relay.ir.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.ir.ndarray import NDArray
from apass.relay.ir.ty import (
    Any,
    DimExpr,
    FuncType,
    GlobalTypeVar,
    IncompleteType,
    RefType,
    ShapeVar,
    SizeVar,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeRelation,
    TypeVar,
)

__all__ = ["CanonicalForm", "FloatText", "Head", "Token", "floats_in"]

Head: TypeAlias = tuple[object, ...]
"""The data of a node without its children: its class and its fields that are not nodes."""
Token: TypeAlias = tuple[Head, tuple[int, ...]]
"""A node as its head and the numbers of its children."""
_READY: Final = object()
_Parts: TypeAlias = tuple[Head, tuple[object, ...]]

_VARIABLES: Final = frozenset({Var, TypeVar, ShapeVar, SizeVar, IncompleteType})
_BINDERS: Final = frozenset({Function, Let, Match, FuncType, TypeData})
_NUMPY_SCALAR: Final[type] = np.generic
_DTYPE: Final[type] = np.dtype
_SCALARS: Final[tuple[type, ...]] = (str, int, float, bytes, type(None), _NUMPY_SCALAR, _DTYPE)


@dataclass(slots=True)
class CanonicalForm:
    """The added nodes as numbers, in post-order: head and children of each node.

    - Nodes compared by identity (calls, tuples, functions, variables, ...) have a unique number each.
    - Equal nodes compared by value (types, constants, operators, ...) share a number.
    - A bound variable is identified by its number only. The form does not contain its name or address.
    """

    free: Callable[[object], object] | None
    """Returns the identity of a free variable. If None, free variables are treated like bound ones."""
    ignores_floats: bool = False
    """Whether the values of floats in attributes are left out."""
    heads: dict[Head, int] = field(default_factory=dict[Head, int])
    """The number of each head."""
    stream: list[int] = field(default_factory=list[int])
    """For each node: the number of its head, the number of children, and their numbers."""
    nodes: list[object] = field(default_factory=list[object])
    """The first node of each number."""
    _numbers: dict[int, int] = field(default_factory=dict[int, int])
    _values: dict[tuple[int, ...], int] = field(default_factory=dict[tuple[int, ...], int])
    _bound: set[int] = field(default_factory=set[int])
    _entries: dict[int, tuple[object, ...]] = field(default_factory=dict[int, tuple[object, ...]])
    """The keys and values of each map with variables as keys, in the order of the variables."""

    def __eq__(self, other: object) -> bool:
        """Return whether the added nodes are structurally equal."""
        if not isinstance(other, CanonicalForm):
            return NotImplemented
        return self.stream == other.stream and list(self.heads) == list(other.heads)

    def digest(self) -> str:
        """Return a hash that identifies the form."""
        hasher = blake2b(repr(list(self.heads)).encode(), digest_size=16)
        hasher.update(array("q", self.stream).tobytes())
        return hasher.hexdigest()

    def tokens(self) -> list[Token]:
        """Return the nodes by number."""
        heads, stream, tokens = list(self.heads), self.stream, list[Token]()
        start = 0
        while start < len(stream):
            end = start + 2 + stream[start + 1]
            tokens.append((heads[stream[start]], tuple(stream[start + 2 : end])))
            start = end
        return tokens

    def add(self, root: object) -> None:
        """Add a node and its descendants, without recursion.

        Raises:
            TypeError: if a node is not part of a program.

        """
        numbers = self._numbers
        stack: list[object] = [root]
        entered: list[object] = []
        while stack:
            node = stack.pop()
            if node is _READY:  # all children of the last of `entered` have numbers
                node = entered.pop()
                head, children = self.parts(node)
                self._number(node, head, tuple([numbers[id(child)] for child in children]))
                continue
            if id(node) in numbers:
                continue
            if isinstance(node, IRModule):
                self._add_module(node)
                continue
            head, children = _parts(node)
            if not children:
                self._number(node, head, ())
                continue
            if head[0] == _NODE_MAP:
                children = self._entries[id(node)] = self._sorted(children)
            if type(node) in _BINDERS:
                self._bound.update(map(id, _bound_by(node)))
            entered.append(node)
            stack.append(_READY)
            stack += children[::-1]

    def parts(self, node: object) -> tuple[Head, tuple[object, ...]]:
        """Return the head and the children of a node that was added."""
        head, children = _parts(node)
        return head, self._entries.get(id(node), children) if self._entries else children

    def _sorted(self, entries: tuple[object, ...]) -> tuple[object, ...]:
        """Return the keys and values of a map, in the order of the numbers of the keys."""

        def order(pair: tuple[object, object]) -> tuple[int, str]:
            key = pair[0]
            if id(key) in self._numbers:
                return self._numbers[id(key)], ""
            is_variable = type(key) in _VARIABLES
            name = getattr(key, "name_hint", "") if not is_variable or self.free is None else self.free(key)
            return len(self.nodes), str(name)

        pairs = sorted(zip(entries[::2], entries[1::2], strict=True), key=order)
        return tuple([item for pair in pairs for item in pair])

    def _add_module(self, mod: IRModule) -> None:
        """Add a module. Nodes shared between functions count as distinct."""
        # Functions are evaluated separately, so sharing between them has no meaning.
        outer_numbers = self._numbers.copy()
        head, parts = _parts(mod)
        children: list[int] = []
        for part in parts:
            self.add(part)
            children.append(self._numbers[id(part)])
            self._numbers.clear()
        self._numbers.update(outer_numbers)
        self._number(mod, head, tuple(children))

    def _number(self, node: object, head: Head, children: tuple[int, ...]) -> None:
        """Assign to a node the number of an equal node, or the next number."""
        kind = type(node)
        if self.ignores_floats and kind not in _SHARED:
            head = _without_floats(head)
        if kind in _VARIABLES and self.free is not None and id(node) not in self._bound:
            head = (*head, "free", self.free(node))
        token = (self.heads.setdefault(head, len(self.heads)), len(children), *children)
        number = len(self.nodes)
        if kind not in _SHARED or (kind is Tuple and not children):
            number = self._values.setdefault(token, number)
        self._numbers[id(node)] = number
        if number == len(self.nodes):
            self.nodes.append(node)
            self.stream += token


def _bound_by(node: object) -> Iterator[object]:
    """Iterate over the variables that a node binds, and the variables in their types."""
    if isinstance(node, Function | FuncType):
        yield from node.type_params
    if isinstance(node, TypeData):
        yield from node.type_vars
    for var in _vars_bound_by(node):
        # A call instantiates the variables in the types of parameters, such as symbolic dimensions.
        yield var
        yield from _variables_of(var.type_annotation)


def _vars_bound_by(node: object) -> Iterable[Var]:
    if isinstance(node, Function):
        return node.params
    if isinstance(node, Let):
        return (node.var,)
    return [var for clause in node.clauses for var in clause.lhs.bound] if isinstance(node, Match) else ()


def _variables_of(ty: Type | None) -> Iterator[object]:
    if isinstance(ty, TensorType) and ty.is_static:
        return
    stack: list[object] = [] if ty is None else [ty]
    seen = set[int]()  # a type that shares parts may be exponentially large as a tree
    while stack:
        node = stack.pop()
        if type(node) in _VARIABLES:
            yield node
        if id(node) not in seen:
            seen.add(id(node))
            stack += _parts(node)[1]


def _parts(node: object) -> _Parts:
    """Return the head and the children of a node."""
    reader = _READERS.get(type(node))
    if reader is None:
        reader = _READERS[type(node)] = _reader_of(type(node))
    return reader(node)


def _reader_of(kind: type) -> "Callable[[Anything], _Parts]":
    for base in kind.__mro__:
        if base in _READERS:
            return _READERS[base]
    raise TypeError(
        f"cannot compare a {kind.__name__} by structure; "
        "expected an expression, type, module, array, number or string, attributes, or a list, tuple or dict of these"
    )


def _call(call: Call) -> _Parts:
    type_args = () if type(call.op) is Op else call.type_args
    if call.attrs is None and not type_args:
        return _CALL, (call.op, *call.args)
    attrs = () if call.attrs is None else (call.attrs,)
    return ("Call", len(call.args), len(attrs)), (call.op, *call.args, *attrs, *type_args)


_CALL: Final = ("Call",)


def _function(fn: Function) -> _Parts:
    ret_type = () if fn.ret_type is None else (fn.ret_type,)
    attrs = (fn.attrs,) if len(fn.attrs) else ()
    head = ("Function", len(fn.params), len(fn.type_params), len(ret_type))
    return head, (*fn.params, *fn.type_params, *ret_type, *attrs, fn.body)


def _constructor(con: Constructor) -> _Parts:
    return ("Constructor", con.name_hint, con.belong_to.name_hint, len(con.inputs)), ()


def _type_data(data: TypeData) -> _Parts:
    names = tuple((constructor.name_hint, len(constructor.inputs)) for constructor in data.constructors)
    inputs = [ty for constructor in data.constructors for ty in constructor.inputs]
    return ("TypeData", data.header.name_hint, len(data.type_vars), *names), (*data.type_vars, *inputs)


def _tensor_type(ty: TensorType) -> _Parts:
    if ty.is_static:
        return ("TensorType", ty.dtype, ty.shape), ()
    return ("TensorType", ty.dtype), ty.shape


def _dim_expr(dim: DimExpr) -> _Parts:
    head: list[object] = ["DimExpr"]
    factors: list[object] = []
    for monomial, coefficient in dim.terms.items():
        head.append((coefficient, len(monomial)))
        for factor, power in sorted(monomial, key=lambda item: str(item[0])):
            head.append(power)
            factors.append(factor)
    return tuple(head), tuple(factors)


def _func_type(ty: FuncType) -> _Parts:
    head = ("FuncType", len(ty.type_params), len(ty.arg_types))
    return head, (*ty.type_params, *ty.arg_types, ty.ret_type, *ty.type_constraints)


def _type_relation(ty: TypeRelation) -> _Parts:
    attrs = () if ty.attrs is None else (ty.attrs,)
    return ("TypeRelation", ty.func, ty.num_inputs, len(attrs)), (*attrs, *ty.args)


def _module(mod: IRModule) -> _Parts:
    functions = sorted((gvar.name_hint, func) for gvar, func in mod.functions.items())
    types = sorted((gvar.name_hint, data) for gvar, data in mod.type_definitions.items())
    head = ("IRModule", tuple(name for name, _ in functions), tuple(name for name, _ in types))
    attrs = (mod.attrs,) if len(mod.attrs) else ()
    return head, (*(func for _, func in functions), *(data for _, data in types), *attrs)


def _attrs(attrs: Attrs) -> _Parts:
    return _named(type(attrs).__name__, attrs.items())


def _mapping(entries: Mapping[Anything, object] | DictAttrs) -> _Parts:
    if all(isinstance(key, str) for key in entries):
        return _named("Map", sorted(entries.items()))
    return (_NODE_MAP, len(entries)), tuple([item for pair in entries.items() for item in pair])


_NODE_MAP: Final = "NodeMap"
"""The kind of a map whose keys are nodes, such as the parameters of a function."""


def _named(kind: str, entries: Iterable[tuple[str, object]]) -> _Parts:
    """Return head and children of a node with named fields; scalars are in the head."""
    head: list[object] = [kind]
    children: list[object] = []
    for name, value in entries:
        if _is_scalar(value):
            head.append((name, _scalar(value)))
        else:
            head.append(name)
            children.append(value)
    return tuple(head), tuple(children)


def _sequence(values: Iterable[object]) -> _Parts:
    return _named("Array", (("", value) for value in values))


def _is_scalar(value: object) -> bool:
    return isinstance(value, _SCALARS)


def _scalar(value: object) -> str:
    """Return the text of a scalar; numpy scalars and enum members equal plain ones."""
    if isinstance(value, _NUMPY_SCALAR):
        value = np.asarray(value).tolist()
    if isinstance(value, _DTYPE):
        return repr(str(value))
    if isinstance(value, float):
        return FloatText(float(value))
    for kind in (bool, int, str):
        if isinstance(value, kind):
            return repr(kind(value))
    return repr(value)


class FloatText(str):
    """The text of a float in a head."""

    __slots__ = ()


def floats_in(head: Head) -> Iterator[float]:
    """Iterate over the floats in a head."""
    for item in head:
        if type(item) is FloatText:
            yield float(item)
        elif _is_float_field(item):
            yield float(item[1])


def _without_floats(head: Head) -> Head:
    zero = FloatText(0)
    return tuple(
        [zero if type(item) is FloatText else (item[0], zero) if _is_float_field(item) else item for item in head]
    )


def _is_float_field(item: object) -> "TypeGuard[tuple[str, FloatText]]":
    """Return whether an item of a head is the name and the value of a float."""
    if type(item) is not tuple:
        return False
    field = cast("tuple[object, ...]", item)
    return len(field) == 2 and type(field[1]) is FloatText


_READERS: Final[dict[type, Callable[[Anything], _Parts]]] = {
    Var: lambda var: (("Var",), () if var.type_annotation is None else (var.type_annotation,)),
    GlobalVar: lambda gvar: (("GlobalVar", gvar.name_hint), ()),
    Constant: lambda const: (("Constant", const.data.digest), ()),
    Op: lambda op: (("Op", op.name), ()),
    Constructor: _constructor,
    Tuple: lambda tup: (("Tuple",), tup.fields),
    TupleGetItem: lambda get: (("TupleGetItem", get.index), (get.tuple_value,)),
    Call: _call,
    Let: lambda let: (("Let",), let.children),
    If: lambda ite: (("If",), ite.children),
    Function: _function,
    Match: lambda match: (("Match", match.complete), (match.data, *match.clauses)),
    Clause: lambda clause: (("Clause",), (clause.lhs, clause.rhs)),
    PatternWildcard: lambda _: (("PatternWildcard",), ()),
    PatternVar: lambda pattern: (("PatternVar",), (pattern.var,)),
    PatternConstructor: lambda pattern: (("PatternConstructor",), (pattern.constructor, *pattern.patterns)),
    PatternTuple: lambda pattern: (("PatternTuple",), pattern.patterns),
    RefCreate: lambda ref: (("RefCreate",), ref.children),
    RefRead: lambda ref: (("RefRead",), ref.children),
    RefWrite: lambda ref: (("RefWrite",), ref.children),
    TypeData: _type_data,
    Any: lambda _: (("Any",), ()),
    ShapeVar: lambda var: (("ShapeVar", var.dtype), ()),
    SizeVar: lambda var: (("SizeVar", var.dtype), ()),
    DimExpr: _dim_expr,
    Quotient: lambda quotient: (("Quotient",), (quotient.dividend, quotient.divisor)),
    TensorType: _tensor_type,
    TupleType: lambda ty: (("TupleType",), ty.fields),
    RefType: lambda ty: (("RefType",), (ty.value,)),
    TypeVar: lambda var: (("TypeVar", int(var.kind)), ()),
    GlobalTypeVar: lambda gvar: (("GlobalTypeVar", gvar.name_hint), ()),
    TypeCall: lambda ty: (("TypeCall",), (ty.func, *ty.args)),
    IncompleteType: lambda ty: (("IncompleteType", int(ty.kind)), ()),
    FuncType: _func_type,
    TypeRelation: _type_relation,
    IRModule: _module,
    Attrs: _attrs,
    DictAttrs: _mapping,
    dict: _mapping,
    list: _sequence,
    tuple: _sequence,
    np.ndarray: lambda array: (("NDArray", NDArray.of(array).digest), ()),
    **{kind: lambda value: (("scalar", _scalar(value)), ()) for kind in _SCALARS},
}
"""Functions that return head and children by class of node. Subclasses are added on first use."""
_SHARED: Final = _VARIABLES | {Call, Tuple, Let, If, Function, Match, RefCreate, RefRead, RefWrite}
"""Classes compared by identity, so that sharing matters."""
