"""`Schema`: the type key and the fields of each class of nodes in JSON."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import reduce
from operator import attrgetter
from types import MappingProxyType
from typing import Any as Anything
from typing import Final, TypeAlias, get_type_hints

from apass.core.diagnostics import Span
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
from apass.relay.ir.base import Id, SourceName
from apass.relay.ir.dim import Dim, DimExpr, Quotient, SymbolicDim
from apass.relay.ir.expr import (
    Call,
    Constant,
    Expr,
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
    set_field,
)
from apass.relay.ir.field_types import check_of, title_of
from apass.relay.ir.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.ir.ty import (
    Any,
    FuncType,
    GlobalTypeVar,
    IncompleteType,
    Kind,
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
from apass.relay.text.literals import DTYPES

__all__ = ["DimOperation", "EnvFunc", "Field", "Form", "Schema", "operation_of", "schema_of_key", "schema_of_node"]


class Form(Enum):
    """How a field is written. All fields are strings in JSON."""

    NODE = "node"
    """The number of a node."""
    STRING = "string"
    """The number of a node that contains a string. Old versions wrote the string itself."""
    TEXT = "text"
    """The string itself."""
    DTYPE = "dtype"
    """The name of an element type."""
    INT = "int"
    """The digits of an integer."""
    BOOL = "bool"
    """`1` or `0`."""
    FLOAT = "float"
    """The digits of a number."""
    TENSOR = "tensor"
    """The number of a tensor in the list of tensors."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a class of nodes."""

    key: str
    """The name in JSON."""
    form: Form
    """How the value is written."""
    get: Callable[[Anything], object]
    """Returns the value that is written for a node."""
    name: str | None = None
    """The parameter of `Schema.make`, or None if the value is ignored when it is read."""
    check: Callable[[object], bool] = lambda _: True
    """Returns whether a value that was read has the right type."""
    wanted: str = ""
    """The right type, for messages."""
    null: object = None
    """The value in place of a null that does not have the right type, and of an absent field."""


@dataclass(frozen=True, slots=True)
class Schema:
    """The form of a class of nodes in JSON."""

    type_key: str
    """The name of the class in TVM."""
    fields: tuple[Field, ...]
    """The fields in the order in which TVM visits them."""
    make: Callable[..., object]
    """Returns a node, with the fields as keyword arguments."""


@dataclass(frozen=True, slots=True)
class EnvFunc:
    """A global function of TVM: the relation of a `TypeRelation`."""

    name: str


@dataclass(frozen=True, slots=True)
class DimOperation:
    """An operation on dimensions. A `DimExpr` is written as a tree of these."""

    a: "_Operand"
    """The left operand."""
    b: "_Operand"
    """The right operand."""
    dtype: str = "int32"
    """The element type of the result."""


_Operand: TypeAlias = int | SymbolicDim | DimOperation


class _Sum(DimOperation):
    __slots__ = ()


class _Difference(DimOperation):
    __slots__ = ()


class _Product(DimOperation):
    __slots__ = ()


class _Quotient(DimOperation):
    __slots__ = ()


class _Remainder(DimOperation):
    __slots__ = ()


def operation_of(dim: DimExpr) -> DimOperation:
    """Return a symbolic dimension as TVM writes it: sums of products of two operands."""
    result = _operand(dim)
    assert isinstance(result, DimOperation), "a DimExpr is more than a number or a variable"
    return result


def _operand(dim: Dim) -> _Operand:
    if not isinstance(dim, DimExpr):
        return dim
    terms: list[_Operand] = []
    for monomial, coefficient in dim.terms.items():
        factors: list[_Operand] = []
        for factor, power in sorted(monomial, key=lambda item: str(item[0])):
            if isinstance(factor, Quotient):
                factors += [_Quotient(_operand(factor.dividend), _operand(factor.divisor))] * power
            else:
                factors += [factor] * power
        if coefficient != 1 or not factors:
            factors.append(coefficient)
        terms.append(reduce(_Product, factors))
    return reduce(_Sum, terms)


@dataclass(frozen=True, slots=True)
class _Source:
    source_name: SourceName
    source: str


@dataclass(frozen=True, slots=True)
class _SourceMap:
    source_map: Mapping[SourceName, _Source]


def schema_of_node(node: object) -> Schema | None:
    """Return the schema of a node, or None for attributes of operators."""
    return _BY_CLASS.get(type(node))


def schema_of_key(type_key: str) -> Schema | None:
    """Return the schema of a type key, or None if it has none."""
    return _BY_KEY.get(type_key)


def _schema(
    kind: type,
    type_key: str,
    spec: str,
    make: Callable[..., object] | None = None,
    getters: Mapping[str, Callable[[Anything], object]] = MappingProxyType({}),
    **types: object,
) -> tuple[type, Schema]:
    """Return a class and its schema.

    Parameters:
        kind: the class.
        type_key: its type key.
        spec: a word `key=attribute:form` for each field. The attribute is the key by default, and the form follows from
            its type. A key in parentheses is ignored when it is read, and null without a getter.
        make: returns a node, if the class does not.
        getters: functions that return the values of fields, in place of attributes.
        types: types of attributes that differ from their annotations.

    """
    hints = {**get_type_hints(kind), **types}
    return kind, Schema(type_key, tuple(_field(word, hints, getters) for word in spec.split()), make or kind)


def _field(word: str, hints: Mapping[str, object], getters: Mapping[str, Callable[[Anything], object]]) -> Field:
    path, _, form = word.strip("()").partition(":")
    key, _, name = path.partition("=")
    name = name or key
    if word.startswith("("):
        return Field(key, Form.NODE, getters.get(key, lambda _: None))
    hint = hints[name]
    form = form or ("string" if hint is str else "node")
    return Field(key, Form(form), getters.get(key, attrgetter(name)), name, check_of(hint), title_of(hint))


def _own_attrs(node: Function | IRModule) -> DictAttrs | None:
    return node.attrs if len(node.attrs) else None


def _var(vid: Id, type_annotation: Type | None, span: Span | None, checked_type_: Type | None) -> Var:
    return Var(vid.name_hint, checked_type_ if type_annotation is None else type_annotation, span=span)


def _call(op: Expr, attrs: Attrs | None, **fields: Anything) -> Call:
    # In TVM, dynamic operators have the attributes of static ones, without values.
    is_dynamic = isinstance(op, Op) and op.name.startswith("dyn.") and op.attrs_type is None
    return Call(op, attrs=None if is_dynamic else attrs, **fields)


def _let(var: Var, **fields: Anything) -> Let:
    return Let(var, **fields)


def _tuple_get_item(index: int, **fields: Anything) -> TupleGetItem:
    if index < 0:
        raise ValueError(f"the index of a TupleGetItem must not be negative, got {index}")
    return TupleGetItem(index=index, **fields)


def _constructor(tag: int, **fields: Anything) -> Constructor:
    constructor = Constructor(**fields)
    set_field(constructor, "tag", tag)
    return constructor


def _type_var(name_hint: str, kind: int) -> TypeVar:
    return TypeVar(name_hint, Kind(kind))


def _global_type_var(name_hint: str, kind: int) -> GlobalTypeVar:
    return GlobalTypeVar(name_hint, Kind(kind))


def _incomplete_type(kind: int) -> IncompleteType:
    return IncompleteType(Kind(kind))


def _tensor_type(shape: tuple[int | Any | ShapeVar, ...], dtype: str) -> TensorType:
    if not DTYPES.fullmatch(dtype):
        raise ValueError(f"{dtype!r} is not an element type")
    if any(isinstance(dim, int) and not 0 <= dim < 2**63 for dim in shape):
        raise ValueError("a dimension must be between 0 and 2**63 - 1")
    return TensorType(shape, dtype)


def _computed(operation: Callable[[Dim, Dim], Dim]) -> Callable[..., Dim]:
    def make(a: Dim, b: Dim, dtype: str) -> Dim:
        try:
            result = operation(a, b)
        except ZeroDivisionError:
            raise ValueError("a dimension is divided by zero") from None
        if isinstance(result, int) and not -(2**63) <= result < 2**63:
            # A square of a square grows without bound.
            raise ValueError("an operation on dimensions has a result beyond 64 bits")
        return result

    return make


_DIM_OPERATIONS: Final[Sequence[tuple[type[DimOperation], str, Callable[[Dim, Dim], Dim]]]] = (
    (_Sum, "Add", lambda a, b: a + b),
    (_Difference, "Sub", lambda a, b: a - b),
    (_Product, "Mul", lambda a, b: a * b),
    (_Quotient, "FloorDiv", lambda a, b: a // b),
    (_Remainder, "FloorMod", lambda a, b: a % b),
)


def _any(dtype: str) -> Any:
    return Any()


def _type_relation(func: EnvFunc, **fields: Anything) -> TypeRelation:
    return TypeRelation(func.name.removeprefix(_RELATIONS), **fields)


def _module(
    functions: Mapping[GlobalVar, Function],
    type_definitions: Mapping[GlobalTypeVar, TypeData],
    source_map: _SourceMap | None,
    attrs: DictAttrs | None,
) -> IRModule:
    names = [gvar.name_hint for gvar in functions]
    if len(set(names)) < len(names):
        raise ValueError("two functions of a module have the same name")
    mod = IRModule(functions, type_definitions).with_attr({} if attrs is None else dict(attrs.items()))
    if source_map is not None:
        mod.source_map.update({str(name): source.source for name, source in source_map.source_map.items()})
    return mod


def _source_map_of(mod: IRModule) -> _SourceMap:
    names = {text: SourceName(text) for text in mod.source_map}
    return _SourceMap({name: _Source(name, mod.source_map[text]) for text, name in names.items()})


_RELATIONS: Final = "tvm.relay.type_relation."
_EXPR: Final = "span _checked_type_=checked_type_"
_BY_CLASS: Final[Mapping[type, Schema]] = dict(
    [
        _schema(Id, "relay.Id", "name_hint"),
        _schema(Var, "relay.Var", f"vid type_annotation {_EXPR}", _var, vid=Id),
        _schema(GlobalVar, "GlobalVar", "name_hint span (_checked_type_)"),
        _schema(Constant, "relay.Constant", "data:tensor span (_checked_type_)"),
        _schema(Tuple, "relay.Tuple", f"fields {_EXPR}"),
        _schema(TupleGetItem, "relay.TupleGetItem", f"tuple_value index:int {_EXPR}", _tuple_get_item),
        _schema(Call, "relay.Call", f"op args attrs type_args {_EXPR}", _call),
        _schema(Let, "relay.Let", f"var value body {_EXPR}", _let),
        _schema(If, "relay.If", f"cond true_branch false_branch {_EXPR}"),
        _schema(
            Function,
            "relay.Function",
            f"params body ret_type type_params attrs {_EXPR}",
            getters={"attrs": _own_attrs},
            attrs=DictAttrs | None,
        ),
        _schema(RefCreate, "relay.RefCreate", f"value {_EXPR}"),
        _schema(RefRead, "relay.RefRead", f"ref {_EXPR}"),
        _schema(RefWrite, "relay.RefWrite", f"ref value {_EXPR}"),
        _schema(Match, "relay.Match", f"data clauses complete:bool {_EXPR}"),
        _schema(Clause, "relay.Clause", "lhs rhs"),
        _schema(PatternWildcard, "relay.PatternWildcard", "(span)"),
        _schema(PatternVar, "relay.PatternVar", "var (span)"),
        _schema(PatternConstructor, "relay.PatternConstructor", "constructor patterns (span)"),
        _schema(PatternTuple, "relay.PatternTuple", "patterns (span)"),
        _schema(
            Constructor, "relay.Constructor", "name_hint inputs belong_to tag:int span (_checked_type_)", _constructor
        ),
        _schema(TypeData, "relay.TypeData", "header type_vars constructors (span)"),
        _schema(TypeVar, "TypeVar", "name_hint kind:int (span)", _type_var),
        _schema(GlobalTypeVar, "GlobalTypeVar", "name_hint kind:int (span)", _global_type_var),
        _schema(TensorType, "relay.TensorType", "shape dtype:dtype (span)", _tensor_type),
        _schema(TupleType, "TupleType", "fields (span)"),
        _schema(RefType, "relay.RefType", "value (span)"),
        _schema(FuncType, "FuncType", "arg_types ret_type type_params type_constraints (span)"),
        _schema(TypeCall, "TypeCall", "func args (span)"),
        _schema(IncompleteType, "IncompleteType", "kind:int (span)", _incomplete_type),
        _schema(
            TypeRelation,
            "TypeRelation",
            "func args num_inputs:int attrs (span)",
            _type_relation,
            {"func": lambda ty: EnvFunc(_RELATIONS + ty.func)},
            func=EnvFunc,
        ),
        _schema(ShapeVar, "tir.Var", "dtype:dtype name (type_annotation) (span)"),
        _schema(SizeVar, "tir.SizeVar", "dtype:dtype name (type_annotation) (span)"),
        *(
            _schema(kind, f"tir.{key}", "dtype:dtype a b (span)", _computed(operation), a=Dim, b=Dim)
            for kind, key, operation in _DIM_OPERATIONS
        ),
        _schema(Any, "tir.Any", "dtype:dtype (span)", _any, dtype=str),
        _schema(
            Span,
            "Span",
            "source_name line:int column:int end_line:int end_column:int",
            getters={"source_name": lambda span: SourceName(span.source_name)},
            source_name=SourceName,
        ),
        _schema(
            DictAttrs,
            "DictAttrs",
            "__dict__=entries",
            DictAttrs,
            {"__dict__": lambda attrs: dict(attrs.items())},
            entries=Mapping[str, object],
        ),
        _schema(
            IRModule,
            "IRModule",
            "functions type_definitions (global_var_map_) (global_type_var_map_) source_map attrs",
            _module,
            {
                "global_var_map_": lambda mod: {gvar.name_hint: gvar for gvar in mod.functions},
                "global_type_var_map_": lambda mod: {header.name_hint: header for header in mod.type_definitions},
                "source_map": _source_map_of,
                "attrs": _own_attrs,
            },
            functions=Mapping[GlobalVar, Function],
            type_definitions=Mapping[GlobalTypeVar, TypeData],
            source_map=_SourceMap | None,
            attrs=DictAttrs | None,
        ),
        _schema(_SourceMap, "SourceMap", "source_map"),
        _schema(_Source, "Source", "source_name source (span)"),
    ]
)
_BY_KEY: Final[Mapping[str, Schema]] = {schema.type_key: schema for schema in _BY_CLASS.values()}
