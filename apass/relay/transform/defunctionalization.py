"""Defunctionalization: replace functions that are values by values of data types.

The counterpart of TVM's `defunctionalization.cc`.

For each type of functions, there is a data type with a constructor for each function of that type, and a function
`apply` that calls the function that a value represents. The fields of a constructor are the variables that the function
captures. Generic functions are copied for the types that they are called with.

TVM supports functions as arguments only. Here, a function may also be bound by a Let, returned, or stored in a tuple, a
cell or a generic data type. TVM names the definitions after types, as in `applyfn (int32) -> int32`. Here, names are
identifiers, so that the text can be parsed.
"""

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from typing import Final, TypeAlias
from typing import TypeVar as ResultVar

from apass.relay.analysis.feature import has_shared_nodes
from apass.relay.ir.adt import (
    Clause,
    Constructor,
    Match,
    PatternConstructor,
    PatternVar,
    TypeData,
)
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
)
from apass.relay.ir.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.ir.post_order import post_order
from apass.relay.ir.ty import FuncType, GlobalTypeVar, IncompleteType, TupleType, Type, TypeCall, TypeVar
from apass.relay.ir.variables import free_vars
from apass.relay.rewrite.bind import substitute
from apass.relay.rewrite.renaming import with_unique_binders
from apass.relay.structural.equality import fingerprint
from apass.relay.transform.normal_forms.anf import to_a_normal_form
from apass.relay.transform.partial_eval.evaluator import is_opaque
from apass.relay.transform.support.lets import Lets
from apass.relay.transform.support.type_subst import (
    has_function_type,
    map_function_types,
    substitute_type,
    substitute_types,
)
from apass.relay.type_inference.infer import ensure_typed
from apass.relay.type_inference.unify import TypeUnifier
from apass.relay.visitors.patterns import rewrite_pattern
from apass.relay.visitors.recursion import Walk, walk_deep

__all__ = ["MAX_COPIES", "Defunctionalization", "defunctionalize"]

MAX_COPIES: Final = 1000
"""The most copies of generic functions for one program."""

ResultT = ResultVar("ResultT")

_Steps: TypeAlias = Generator[Walk[Expr], Expr, ResultT]
"""A part of a `Walk`, for `yield from`."""


def defunctionalize(func: Function, mod: IRModule) -> Function:
    """Return a function that computes the same without functions as values.

    The data types and functions that it uses are added to `mod`, as in TVM.

    Parameters:
        func: the function, without type parameters, and without functions in its parameters and its result.
        mod: the module with the functions and data types that `func` uses.

    Raises:
        KeyError: if `mod` lacks a function.
        TypeInferenceError: if a function is ill-typed.
        ValueError: if `func` is not of that form. Also if an operator or a generic function is a value, a constructor
            has parameters with functions, or a primitive function captures a function. Also if a generic function
            would be copied more than `MAX_COPIES` times.

    >>> from apass.relay.parser import parse
    >>> mod = parse(
    ...     '#[version = "0.0.5"]'
    ...     "def @twice(%f: fn (int32) -> int32, %x: int32) -> int32 { %f(%f(%x)) }"
    ...     "def @main(%x: int32) -> int32 { @twice(fn (%y: int32) -> int32 { add(%y, %x) }, 1) }"
    ... )
    >>> print(defunctionalize(mod["main"], mod))
    fn (%x: int32) -> int32 {
      %0 = Defunc_0(%x);
      @twice_defunc(%0, 1)
    }
    >>> print(mod["apply"])
    fn (%x: Defunc[], %y: int32) -> int32 {
      match (%x) {
        Defunc_0(%x1: int32) => {
          add(%y, %x1)
        },
      }
    }
    """
    program = _Program(mod)
    typed = program.prepared(func)
    signature = [*(param.checked_type for param in typed.params), *([typed.ret_type] if typed.ret_type else [])]
    if typed.type_params or any(map(has_function_type, signature)):
        raise ValueError(
            f"Defunctionalization requires {func!r} without type parameters, and without functions in its parameters "
            "and its result"
        )
    result = program.converted(typed)
    program.add_definitions()
    return result


def Defunctionalization(func: Function, mod: IRModule) -> Function:
    """Return `defunctionalize(func, mod)`; TVM's name for it."""
    return defunctionalize(func, mod)


@dataclass(frozen=True, slots=True)
class _Encoding:
    """The data type for the functions of one type, and the function that calls them."""

    header: GlobalTypeVar
    apply: GlobalVar
    value: Var
    args: Sequence[Var]
    ret_type: Type
    constructors: list[Constructor] = field(default_factory=list[Constructor])
    clauses: list[Clause] = field(default_factory=list[Clause])

    def add(self, captured: Sequence[Var], body: Expr) -> Constructor:
        """Add a function; `body` uses the variables `captured`, `value` and `args`."""
        types = [var.checked_type for var in captured]
        con = Constructor(f"{self.header.name_hint}_{len(self.constructors)}", types, self.header)
        self.constructors.append(con)
        self.clauses.append(Clause(PatternConstructor(con, map(PatternVar, captured)), body))
        return con

    def function(self) -> Function:
        """Return the function that calls the encoded functions."""
        return Function([self.value, *self.args], Match(self.value, self.clauses), self.ret_type)


class _Program:
    """The definitions that are made for a program."""

    def __init__(self, mod: IRModule) -> None:
        self._mod = mod
        self._taken = {gvar.name_hint for gvar in mod.get_global_vars()}
        self._taken |= {var.name_hint for var in mod.get_global_type_vars()}
        self._encodings: dict[str, _Encoding] = {}
        self._encoded: dict[tuple[str, str], Constructor] = {}
        self._encoded_types: dict[int, tuple[Type, Type]] = {}
        self._copies: dict[tuple[str, ...], GlobalVar] = {}
        self._pending: list[tuple[GlobalVar, str, Sequence[Type]]] = []
        self._prepared: dict[str, Function] = {}
        self._first_order = self._without_function_values()

    def prepared(self, func: Function) -> Function:
        """Return a function typed, without shared expressions."""
        result = with_unique_binders(ensure_typed(func, self._mod))
        if has_shared_nodes(result):
            result = to_a_normal_form(result)
        assert isinstance(result, Function), "these rewrites preserve the class of an expression"
        return ensure_typed(result, self._mod)

    def converted(self, func: Function) -> Function:
        """Return a typed function without functions as values."""
        result = walk_deep(_Converter(self).function(func))
        assert isinstance(result, Function), "the conversion of a function is a function"
        return result

    def add_definitions(self) -> None:
        """Add the definitions to the module."""
        functions: dict[GlobalVar, Expr] = {}
        while self._pending:
            gvar, name, types = self._pending.pop()
            functions[gvar] = self.converted(self._copy(name, types))
        for encoding in self._encodings.values():
            self._mod.add_type(TypeData(encoding.header, [], encoding.constructors))
            functions[encoding.apply] = encoding.function()
        self._mod.update(functions)

    def global_function(self, name: str) -> Function:
        """Return a typed function of the module."""
        if name not in self._prepared:
            func = self._mod[name]
            self._prepared[name] = func if is_opaque(func) else self.prepared(func)
        return self._prepared[name]

    def constructor_type(self, con: Constructor, type_args: Sequence[Type]) -> FuncType:
        """Return the type of a constructor for type arguments."""
        if any(map(has_function_type, con.inputs)):
            raise ValueError(f"Defunctionalization cannot convert the parameters of {con!r}, which contain functions")
        params = self._mod.get_type_data(con.belong_to).type_vars
        chosen = dict(zip(params, type_args, strict=False))
        inputs = [substitute_type(ty, chosen) for ty in con.inputs]
        return FuncType(inputs, TypeCall(con.belong_to, [chosen.get(param, param) for param in params]))

    def type_of(self, gvar: GlobalVar, type_args: Sequence[Type]) -> FuncType:
        """Return the type of a global function for type arguments."""
        ty = self.global_function(gvar.name_hint).checked_type
        assert isinstance(ty, FuncType), "a function has a function type"
        plain = FuncType(ty.arg_types, ty.ret_type)
        result = substitute_type(plain, dict(zip(ty.type_params, type_args, strict=False)))
        assert isinstance(result, FuncType), "substitution preserves the class of a type"
        return result

    def type_args_of(self, gvar: GlobalVar, expected: Type | None) -> Sequence[Type]:
        """Return the type arguments with which a global function has a type."""
        ty = self.global_function(gvar.name_hint).checked_type
        assert isinstance(ty, FuncType), "a function has a function type"
        if not ty.type_params:
            return ()
        if expected is None:
            raise ValueError(f"Defunctionalization cannot find the type arguments of the generic {gvar!r}")
        unifier = TypeUnifier()
        chosen: dict[TypeVar, IncompleteType] = {param: IncompleteType(param.kind) for param in ty.type_params}
        unifier.unify(substitute_type(FuncType(ty.arg_types, ty.ret_type), dict(chosen)), expected)
        return [unifier.resolve(unknown) for unknown in chosen.values()]

    def callee(self, gvar: GlobalVar, type_args: Sequence[Type]) -> tuple[GlobalVar, Sequence[Type]]:
        """Return the global function to call, and its type arguments."""
        name = gvar.name_hint
        func = self.global_function(name)
        if is_opaque(func) or (name in self._first_order and not any(map(has_function_type, type_args))):
            return gvar, type_args
        key = (name, *map(fingerprint, type_args))
        if key not in self._copies:
            if len(self._copies) == MAX_COPIES:
                raise ValueError(f"Defunctionalization would copy generic functions more than {MAX_COPIES} times")
            self._copies[key] = GlobalVar(self._unused(f"{name}_defunc"))
            self._pending.append((self._copies[key], name, type_args))
        return self._copies[key], ()

    def encoding(self, ty: Type) -> _Encoding:
        """Return the encoding of the functions of a type."""
        converted = self.converted_parts(ty)
        key = fingerprint(converted)
        if key not in self._encodings:
            header = GlobalTypeVar(self._unused("Defunc"))
            args = [Var("y", arg) for arg in converted.arg_types]
            value = Var("x", TypeCall(header, []))
            apply = GlobalVar(self._unused("apply"))
            self._encodings[key] = _Encoding(header, apply, value, args, converted.ret_type)
        return self._encodings[key]

    def converted_parts(self, ty: Type) -> FuncType:
        """Return a function type with the function types in its parts encoded."""
        if not isinstance(ty, FuncType) or ty.type_params:
            raise ValueError(f"Defunctionalization cannot encode functions of type {ty}")
        return FuncType([self.encoded(arg) for arg in ty.arg_types], self.encoded(ty.ret_type))

    def encoded(self, ty: Type) -> Type:
        """Return a type with the function types in it encoded."""
        return map_function_types(ty, self._encoded_type, self._encoded_types)

    def _encoded_type(self, ty: FuncType) -> Type:
        return TypeCall(self.encoding(ty).header, [])

    def named(self, callee: Expr, key: str, ty: Type) -> Expr:
        """Return the encoded value of a global function or constructor."""
        encoding = self.encoding(ty)
        encoded = (encoding.header.name_hint, key)
        if encoded not in self._encoded:
            self._encoded[encoded] = encoding.add((), Call(callee, encoding.args))
        return Call(self._encoded[encoded], [])

    def _copy(self, name: str, type_args: Sequence[Type]) -> Function:
        """Return a global function for type arguments, typed."""
        func = self.global_function(name)
        if not func.type_params:
            return func
        chosen = dict(zip(func.type_params, type_args, strict=True))
        plain = Function(func.params, func.body, func.ret_type, (), func.attrs, span=func.span)
        result = substitute_types(plain, chosen)
        assert isinstance(result, Function), "substitution preserves the class of an expression"
        return ensure_typed(result, self._mod)

    def _unused(self, base: str) -> str:
        names = chain([base], (f"{base}_{number}" for number in count(1)))
        name = next(name for name in names if name not in self._taken)
        self._taken.add(name)
        return name

    def _without_function_values(self) -> set[str]:
        """Return the functions that use no functions as values, nor call others that do."""
        callers: dict[str, list[str]] = {}
        excluded: list[str] = []
        names = [gvar.name_hint for gvar in self._mod.get_global_vars()]
        for name in names:
            func = self._mod[name]
            for node in post_order(func, is_opaque):
                # A caller of a function that is copied must be copied, too.
                if isinstance(node, GlobalVar):
                    callers.setdefault(node.name_hint, []).append(name)
            nodes = () if is_opaque(func) else (*func.params, *post_order(func.body, is_opaque))
            if not all(map(_is_first_order, nodes)):
                excluded.append(name)
        result = set(names)
        while excluded:
            name = excluded.pop()
            if name in result:
                result.remove(name)
                excluded += callers.get(name, [])
        return result


def _is_first_order(node: Expr) -> bool:
    """Return whether a node is not, and does not use, a function as a value."""
    if isinstance(node, Var):
        return node.type_annotation is not None and not has_function_type(node.type_annotation)
    if isinstance(node, Function):
        return is_opaque(node)
    values = node.args if isinstance(node, Call) else node.children
    is_called_by_name = (
        not isinstance(node, Call) or isinstance(node.op, Op | Constructor | GlobalVar) or is_opaque(node.op)
    )
    return is_called_by_name and not any(isinstance(value, Op | Constructor | GlobalVar | Function) for value in values)


@dataclass(frozen=True, slots=True)
class _Converter:
    """Converts the expressions of one function."""

    program: _Program
    variables: dict[Var, Var] = field(default_factory=dict[Var, Var])

    def function(self, func: Function) -> Walk[Expr]:
        """Return a function with converted types and body."""
        if is_opaque(func):
            return self._kept(func)
        params = [self._bound(param) for param in func.params]
        body = yield self._value(func.body, func.ret_type)
        ret_type = None if func.ret_type is None else self.program.encoded(func.ret_type)
        return Function(params, body, ret_type, func.type_params, func.attrs, span=func.span)

    def _kept(self, func: Function) -> Expr:
        """Return an opaque function that captures the converted variables."""
        captured = free_vars(func)
        for var in captured:
            if has_function_type(var.checked_type):
                raise ValueError(f"Defunctionalization cannot convert {func!r}, which captures the function {var!r}")
        return substitute(func, {var: self.variables.get(var, var) for var in captured})

    def _bound(self, var: Var) -> Var:
        self.variables[var] = Var(var.name_hint, self.program.encoded(var.checked_type), span=var.span)
        return self.variables[var]

    def _value(self, expr: Expr, expected: Type | None = None) -> Walk[Expr]:
        """Return a converted expression; `expected` is its type, if known."""
        lets = Lets()
        while isinstance(expr, Let):
            var = self._bound(expr.var)
            if isinstance(expr.value, Function):
                value = yield self._closure(expr.value, expr.var)
            else:
                value = yield self._value(expr.value, expr.var.checked_type)
            lets.push(value, var)
            expr = expr.body
        return lets.close((yield self._plain(expr, expected)))

    def _plain(self, expr: Expr, expected: Type | None) -> Walk[Expr]:
        match expr:
            case Constant():
                return expr
            case Var():
                return self.variables.get(expr, expr)
            case GlobalVar():
                type_args = self.program.type_args_of(expr, expected)
                gvar, _ = self.program.callee(expr, type_args)
                key = "@" + " ".join([gvar.name_hint, *map(fingerprint, type_args)])
                return self.program.named(gvar, key, self.program.type_of(expr, type_args))
            case Constructor() if expected is not None:
                return self.program.named(expr, expr.name_hint, expected)
            case Function():
                return (yield self._closure(expr))
            case Call():
                return (yield from self._call(expr))
            case Tuple():
                types = expected.fields if isinstance(expected, TupleType) else [None] * len(expr.fields)
                return Tuple((yield from self._values(expr.fields, types)), span=expr.span)
            case TupleGetItem():
                return TupleGetItem((yield self._value(expr.tuple_value)), expr.index, span=expr.span)
            case If():
                cond, true, false = yield from self._values(expr.children, [None, expected, expected])
                return If(cond, true, false, span=expr.span)
            case Match():
                return (yield from self._match(expr, expected))
            case RefCreate():
                return RefCreate((yield self._value(expr.value)), span=expr.span)
            case RefRead():
                return RefRead((yield self._value(expr.ref)), span=expr.span)
            case RefWrite():
                cell, value = yield from self._values(expr.children, [None, None])
                return RefWrite(cell, value, span=expr.span)
            case _:
                raise ValueError(f"Defunctionalization cannot convert {expr!r} as a value; call it in a function")

    def _values(self, exprs: Iterable[Expr], types: Iterable[Type | None]) -> _Steps[list[Expr]]:
        values: list[Expr] = []
        for expr, ty in zip(exprs, types, strict=True):
            value = yield self._value(expr, ty)
            values.append(value)
        return values

    def _closure(self, func: Function, self_var: Var | None = None) -> Walk[Expr]:
        """Return the encoded value of a function; it may call itself as `self_var`."""
        encoding = self.program.encoding(func.checked_type)
        new = yield self.function(func)
        assert isinstance(new, Function), "the conversion of a function is a function"
        if is_opaque(func):
            body: Expr = Call(new, encoding.args)
        else:
            body = substitute(new.body, dict(zip(new.params, encoding.args, strict=True)))
        own = None if self_var is None else self.variables[self_var]
        captured = [var for var in free_vars(new) if var is not own]
        copies = [Var(var.name_hint, var.type_annotation) for var in captured]
        binds: dict[Var, Expr] = dict(zip(captured, copies, strict=True))
        if own is not None:
            binds[own] = encoding.value
        return Call(encoding.add(copies, substitute(body, binds)), captured, span=func.span)

    def _call(self, call: Call) -> _Steps[Expr]:
        callee = call.op
        if isinstance(callee, Op) or is_opaque(callee):
            args = yield from self._values(call.args, [None] * len(call.args))
            if isinstance(callee, Function):
                callee = self._kept(callee)
            return Call(callee, args, call.attrs, call.type_args, span=call.span)
        if isinstance(callee, Constructor):
            ty = self.program.constructor_type(callee, call.type_args)
            args = yield from self._values(call.args, ty.arg_types)
            return Call(callee, args, call.attrs, map(self.program.encoded, call.type_args), span=call.span)
        if isinstance(callee, GlobalVar):
            args = yield from self._values(call.args, self.program.type_of(callee, call.type_args).arg_types)
            gvar, type_args = self.program.callee(callee, call.type_args)
            return Call(gvar, args, call.attrs, type_args, span=call.span)
        callee_type = callee.checked_type
        if not isinstance(callee_type, FuncType) or callee_type.type_params:
            raise ValueError(f"Defunctionalization cannot convert a call of type {callee_type}")
        args = yield from self._values(call.args, callee_type.arg_types)
        lets = Lets()
        if isinstance(callee, Function):
            for param, arg in zip(callee.params, args, strict=True):
                lets.push(arg, self._bound(param))
            return lets.close((yield self._value(callee.body, callee.ret_type)))
        if not isinstance(callee, Var):
            # The callee is evaluated after the arguments, but is the first argument of `apply`.
            args = [lets.push(arg) for arg in args]
        value = yield self._value(callee)
        return lets.close(Call(self.program.encoding(callee_type).apply, [value, *args], span=call.span))

    def _match(self, match: Match, expected: Type | None) -> _Steps[Expr]:
        data = yield self._value(match.data)
        clauses: list[Clause] = []
        for clause in match.clauses:
            pattern = rewrite_pattern(clause.lhs, self._bound)
            result = yield self._value(clause.rhs, expected)
            clauses.append(Clause(pattern, result))
        return Match(data, clauses, match.complete, span=match.span)
