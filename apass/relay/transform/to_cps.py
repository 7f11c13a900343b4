"""`to_cps` and `un_cps`: continuation-passing style.

The counterpart of TVM's `to_cps.cc`.

A function of type `fn (A) -> B` becomes a function of type `fn (A, fn (B) -> answer) -> answer`. It passes its result
to its last parameter, the continuation. `answer` is a new type parameter of the outermost function. Every call of a
function is then a tail call. The code after a conditional becomes a function, which both branches call. PartialEvaluate
can thus specialize that code for each branch.

The order of effects is that of the evaluator: arguments come before the callee, where TVM evaluates the callee first.
"""

from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import TypeAlias
from typing import TypeVar as ResultVar

from apass.relay.analysis.feature import has_shared_nodes
from apass.relay.ir.adt import (
    Clause,
    Constructor,
    Match,
    PatternConstructor,
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
from apass.relay.ir.ty import FuncType, Type, TypeVar
from apass.relay.ir.variables import bound_vars
from apass.relay.rewrite.renaming import with_unique_binders
from apass.relay.transform.eta_expand import eta_expand
from apass.relay.transform.support.type_subst import (
    has_function_type,
    map_function_types,
    substitute_type,
    type_contains,
)
from apass.relay.type_inference.infer import ensure_typed
from apass.relay.visitors.patterns import rewrite_pattern
from apass.relay.visitors.recursion import Walk, walk_deep

__all__ = ["ToCPS", "to_cps", "un_cps"]

ResultT = ResultVar("ResultT")

_Steps: TypeAlias = Generator[Walk[Expr], Expr, ResultT]
"""A part of a `Walk`, for `yield from`."""


class _Frames(list[Callable[[Expr], Expr]]):
    """The code around the rest, outermost first; each frame returns the enclosed code."""


def to_cps(func: Function, mod: IRModule | None = None) -> Function:
    """Return a function in continuation-passing style.

    Each global function that it reaches is converted as well. As in TVM, the result is added to `mod`. Its name is
    `@f_cps` for `@f`, or the first unused name of `@f_cps_1`, `@f_cps_2` and so on.

    Parameters:
        func: the function, without shared expressions.
        mod: the module with the functions and data types that `func` uses.

    Raises:
        KeyError: if `mod` lacks a function.
        TypeInferenceError: if a function is ill-typed.
        ValueError: if a function contains shared expressions, a primitive function, an operator as a value, or a
            constructor with parameters that contain functions.

    >>> from apass.relay.ir.expr import var
    >>> x = var("x", "int32")
    >>> print(to_cps(Function([x], x)))
    fn [answer](%x: int32, %k: fn (int32) -> answer) -> answer {
      %k(%x)
    }
    """
    context = IRModule() if mod is None else mod
    conversion = _Conversion(context)
    result = conversion.converted(func)
    context.update(conversion.finish())
    return result


def ToCPS(expr: Function, mod: IRModule | None = None) -> Function:
    """Return `to_cps(expr, mod)`; TVM's other name for it."""
    return to_cps(expr, mod)


def un_cps(func: Function) -> Function:
    """Return a direct function for one in continuation-passing style.

    It calls `func` with the identity function. Parameters that are functions remain in continuation-passing style, with
    the type of the result as their answer type.

    Raises:
        ValueError: if `func` is not in continuation-passing style, or its result contains functions.

    >>> from apass.relay.ir.expr import var
    >>> x = var("x", "int32")
    >>> print(un_cps(to_cps(Function([x], x))).ret_type)
    int32
    """
    cont_type = func.params[-1].checked_type if func.params else None
    answer = func.type_params[-1] if func.type_params else None
    if not isinstance(cont_type, FuncType) or len(cont_type.arg_types) != 1 or cont_type.ret_type != answer:
        raise ValueError(
            "un_cps requires a function whose last parameter is a continuation to its last type parameter, got "
            f"{func!r}; convert it with to_cps first"
        )
    type_params = [TypeVar(param.name_hint, param.kind) for param in func.type_params[:-1]]
    chosen: dict[TypeVar, Type] = dict(zip(func.type_params, type_params, strict=False))
    ret_type = substitute_type(cont_type.arg_types[0], chosen)
    if type_contains(ret_type, lambda part: part == answer):
        raise ValueError(f"un_cps cannot convert {func!r}: its result contains functions, which need the answer type")
    chosen[func.type_params[-1]] = ret_type
    params = [Var(param.name_hint, substitute_type(param.checked_type, chosen)) for param in func.params[:-1]]
    x = Var("x", ret_type)
    call = Call(func, [*params, Function([x], x, ret_type)], None, [*type_params, ret_type])
    return Function(params, call, ret_type, type_params, func.attrs, span=func.span)


class _CPSTypes:
    """The types of converted values, for one answer type."""

    def __init__(self, answer: TypeVar) -> None:
        self._answer = answer
        self._memo: dict[int, tuple[Type, Type]] = {}

    def continuation(self, ty: Type) -> FuncType:
        """Return the type of a function that takes a result of type `ty`."""
        return FuncType([self.converted(ty)], self._answer)

    def converted(self, ty: Type) -> Type:
        """Return a type with the types of functions in it converted."""
        return map_function_types(ty, self._convert, self._memo)

    def _convert(self, ty: FuncType) -> Type:
        continuation = FuncType([ty.ret_type], self._answer)
        return FuncType([*ty.arg_types, continuation], self._answer, ty.type_params, ty.type_constraints)


class _Conversion:
    """The conversion of a function and of the global functions that it reaches."""

    def __init__(self, mod: IRModule) -> None:
        self._mod = mod
        self._names: dict[str, GlobalVar] = {}
        self._pending: list[str] = []

    def converted(self, func: Function) -> Function:
        """Return a converted function, with the type parameter `answer`."""
        unique = with_unique_binders(eta_expand(func, self._mod, expand_constructor=True))
        assert isinstance(unique, Function), "the renaming preserves the class of an expression"
        typed = ensure_typed(unique, self._mod)
        if has_shared_nodes(typed):
            raise ValueError(f"to_cps requires {func!r} without shared expressions; run ToANormalForm first")
        answer = TypeVar("answer")
        types = _CPSTypes(answer)
        # A free variable is the caller's and stays.
        variables = {var: _converted_var(var, types) for var in bound_vars(typed)}
        new = walk_deep(_Converter(self, types, answer, variables).function(typed))
        assert isinstance(new, Function), "the conversion of a function is a function"
        return Function(new.params, new.body, answer, [*new.type_params, answer], new.attrs, span=func.span)

    def gvar(self, gvar: GlobalVar) -> GlobalVar:
        """Return the name of the converted function of a global one."""
        name = gvar.name_hint
        if name not in self._names:
            self._mod[name]  # raises KeyError with a suggestion
            taken = {new.name_hint for new in self._names.values()}
            names = (f"{name}_cps_{number}" if number else f"{name}_cps" for number in count())
            self._names[name] = GlobalVar(next(new for new in names if new not in self._mod and new not in taken))
            self._pending.append(name)
        return self._names[name]

    def finish(self) -> dict[GlobalVar, Expr]:
        """Return the converted functions by their new names."""
        functions: dict[GlobalVar, Expr] = {}
        while self._pending:
            name = self._pending.pop()
            functions[self._names[name]] = self.converted(self._mod[name])
        return functions


def _converted_var(var: Var, types: _CPSTypes) -> Var:
    return Var(var.name_hint, types.converted(var.checked_type), span=var.span)


@dataclass(frozen=True, slots=True)
class _Converter:
    """Converts the expressions of one function.

    `_value` returns an expression without effects for the value of another. The code to run before it is added to the
    frames. The code that uses the value is in the hole of the last frame, and uses the value once.
    """

    conversion: _Conversion
    types: _CPSTypes
    answer: TypeVar
    variables: Mapping[Var, Var] = field(default_factory=dict[Var, Var])

    def function(self, func: Function) -> Walk[Expr]:
        """Return a converted function, without its own type parameter `answer`."""
        if func.attrs.get("Primitive"):
            raise ValueError(f"to_cps cannot convert the primitive {func!r}; convert the program before FuseOps")
        func_type = func.checked_type
        assert isinstance(func_type, FuncType), "a function has a function type"
        k = Var("k", self.types.continuation(func_type.ret_type))
        body = yield self._block(func.body, k)
        params = [*map(self._var, func.params), k]
        return Function(params, body, self.answer, func.type_params, func.attrs, span=func.span)

    def _var(self, var: Var) -> Var:
        return self.variables.get(var, var)

    def _block(self, expr: Expr, cont: Var) -> Walk[Expr]:
        """Return code that passes the value of an expression to a continuation."""
        frames = _Frames()
        value = yield self._value(expr, frames)
        return _closed(frames, Call(cont, [value]))

    def _value(self, expr: Expr, frames: _Frames) -> Walk[Expr]:
        while isinstance(expr, Let):
            value = yield self._value(expr.value, frames)
            frames.append(_let(self._var(expr.var), value))
            expr = expr.body
        match expr:
            case Constant():
                return expr
            case Var():
                return self._var(expr)
            case GlobalVar():
                return self.conversion.gvar(expr)
            case Function():
                return (yield self.function(expr))
            case Tuple():
                return Tuple((yield from self._values(expr.fields, frames)), span=expr.span)
            case TupleGetItem():
                whole = yield self._value(expr.tuple_value, frames)
                return TupleGetItem(whole, expr.index, span=expr.span)
            case RefCreate():
                return RefCreate((yield self._value(expr.value, frames)), span=expr.span)
            case RefRead():
                return _bound(frames, RefRead((yield self._value(expr.ref, frames)), span=expr.span))
            case RefWrite():
                cell, value = yield from self._values(expr.children, frames)
                return _bound(frames, RefWrite(cell, value, span=expr.span))
            case Call():
                return (yield from self._call(expr, frames))
            case If():
                return (yield from self._if(expr, frames))
            case Match():
                return (yield from self._match(expr, frames))
            case _:
                raise ValueError(f"to_cps cannot convert {expr!r} as a value; call it in a function")

    def _values(self, exprs: Iterable[Expr], frames: _Frames) -> _Steps[list[Expr]]:
        values: list[Expr] = []
        for expr in exprs:
            value = yield self._value(expr, frames)
            values.append(value)
        return values

    def _call(self, call: Call, frames: _Frames) -> _Steps[Expr]:
        args = yield from self._values(call.args, frames)
        type_args = list(map(self.types.converted, call.type_args))
        if isinstance(call.op, Op | Constructor):
            if isinstance(call.op, Constructor):
                _check_constructor(call.op)
            return _bound(frames, Call(call.op, args, call.attrs, type_args, span=call.span))
        callee = yield self._value(call.op, frames)
        arg = self._argument(call)

        def with_rest(rest: Expr) -> Expr:
            return Call(callee, [*args, Function([arg], rest)], call.attrs, type_args, span=call.span)

        frames.append(with_rest)
        return arg

    def _if(self, ite: If, frames: _Frames) -> _Steps[Expr]:
        join, inner = Var("x"), _Frames()
        cond = yield self._value(ite.cond, inner)
        true_branch = yield self._block(ite.true_branch, join)
        false_branch = yield self._block(ite.false_branch, join)
        return self._joined(ite, join, _closed(inner, If(cond, true_branch, false_branch, span=ite.span)), frames)

    def _match(self, match: Match, frames: _Frames) -> _Steps[Expr]:
        join, inner = Var("x"), _Frames()
        data = yield self._value(match.data, inner)
        clauses: list[Clause] = []
        for clause in match.clauses:
            result = yield self._block(clause.rhs, join)
            for part in clause.lhs.parts():
                if isinstance(part, PatternConstructor):
                    _check_constructor(part.constructor)
            clauses.append(Clause(rewrite_pattern(clause.lhs, self._var), result))
        return self._joined(match, join, _closed(inner, Match(data, clauses, match.complete, span=match.span)), frames)

    def _joined(self, expr: Expr, join: Var, code: Expr, frames: _Frames) -> Expr:
        """Make the rest of the code a function that `code` calls as `join`."""
        arg = self._argument(expr)
        frames.append(lambda rest: Let(join, Function([arg], rest), code))
        return arg

    def _argument(self, expr: Expr) -> Var:
        """Return the parameter of the continuation that takes the value of an expression."""
        return Var("arg", self.types.converted(expr.checked_type))


def _check_constructor(con: Constructor) -> None:
    if any(map(has_function_type, con.inputs)):
        raise ValueError(f"to_cps cannot convert the parameters of {con!r}, which contain functions")


def _let(var: Var, value: Expr) -> Callable[[Expr], Expr]:
    return lambda rest: Let(var, value, rest)


def _bound(frames: _Frames, value: Expr) -> Var:
    """Bind a value, so that its effects happen at this point."""
    var = Var("x")
    frames.append(_let(var, value))
    return var


def _closed(frames: _Frames, expr: Expr) -> Expr:
    for enclose in reversed(frames):
        expr = enclose(expr)
    return expr
