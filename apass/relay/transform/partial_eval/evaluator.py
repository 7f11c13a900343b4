"""`PartialEvaluator`: an evaluator of partially static values.

It evaluates an expression to a `Partial`. Code for the unknown parts is added to the bindings of the residual program,
in the order of evaluation. An operand in a residual program is an atom, so that no code is copied and no effect moves.
"""

from collections.abc import Generator, Iterable, Mapping, Sequence
from enum import Enum, auto
from typing import Final, TypeAlias, TypeVar

from apass.relay.interpreter.constants import computed
from apass.relay.interpreter.evaluate import evaluate
from apass.relay.interpreter.values import Value, is_array
from apass.relay.ir.adt import (
    Clause,
    Constructor,
    Match,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
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
from apass.relay.ir.ndarray import NDArray
from apass.relay.ir.post_order import post_order
from apass.relay.ir.ty import IncompleteType, Type
from apass.relay.ir.variables import free_vars
from apass.relay.rewrite.renaming import renewed
from apass.relay.transform.fold_constant import is_foldable
from apass.relay.transform.partial_eval.values import (
    Cell,
    Closure,
    Data,
    Fields,
    Fuel,
    Kernel,
    Partial,
    Scope,
    Static,
    Store,
    burned,
    fuel_of,
)
from apass.relay.transform.support.lets import Lets
from apass.relay.transform.support.type_subst import substitute_type, substitute_types
from apass.relay.visitors.patterns import rewrite_pattern
from apass.relay.visitors.recursion import Walk, walk_deep

__all__ = ["PartialEvaluator", "is_opaque"]

ResultT = TypeVar("ResultT")

_Steps: TypeAlias = Generator[Walk[Partial], Partial, ResultT]
"""A part of a `Walk`, for `yield from`."""

_OPAQUE: Final = ("Primitive", "Composite", "Compiler")


def is_opaque(func: Expr) -> bool:
    """Return whether an expression is a function that is kept as a whole."""
    return isinstance(func, Function) and any(func.attrs.get(name) for name in _OPAQUE)


class _Fit(Enum):
    """Whether a value matches a pattern."""

    YES = auto()
    NO = auto()
    UNKNOWN = auto()


class PartialEvaluator:
    """An evaluator of the functions of a module.

    `budget` is the number of expressions that calls may copy from their functions, in all.
    """

    def __init__(self, functions: Mapping[str, Function], budget: int) -> None:
        self._budget = budget
        self._store = Store()
        self._fuels: dict[Function, Fuel] = {}
        self._sizes: dict[Expr, int] = {}
        self._globals = {name: _global(name, func) for name, func in functions.items()}
        for func in functions.values():
            for node in post_order(func, is_opaque):
                below = () if is_opaque(node) else node.children
                self._sizes[node] = 1 + sum(map(self._sizes.__getitem__, below))

    def residual(self, name: str) -> Function:
        """Return the residual program of a function of the module."""
        value = self._globals[name]
        assert isinstance(value.static, Closure), "an opaque function has no residual program"
        func = walk_deep(self._define(value.static)).dynamic
        assert isinstance(func, Function), "`_define` returns a function"
        return func

    def _eval(self, expr: Expr, scope: Scope, lets: Lets) -> Walk[Partial]:
        while isinstance(expr, Let):
            yield from self._let(expr, scope, lets)
            expr = expr.body
        match expr:
            case Var():
                return scope.find(expr)
            case Constant():
                return Partial(lets.push(expr), expr.data)
            case Op() | Constructor():
                return Partial(expr, expr)
            case GlobalVar():
                return self._globals.get(expr.name_hint, Partial(expr))
            case Call():
                return (yield from self._call(expr, scope, lets))
            case Function():
                return (yield from self._function(expr, Var("x"), scope, lets))
            case Tuple():
                fields = yield from self._all(expr.fields, scope, lets)
                return Partial(lets.push(Tuple(_atoms(fields), span=expr.span)), Fields(fields))
            case TupleGetItem():
                whole = yield self._eval(expr.tuple_value, scope, lets)
                known = whole.static
                if isinstance(known, Fields) and 0 <= expr.index < len(known.fields):
                    return known.fields[expr.index]
                return Partial(lets.push(TupleGetItem(whole.dynamic, expr.index, span=expr.span)))
            case If():
                return (yield from self._if(expr, scope, lets))
            case Match():
                return (yield from self._match(expr, scope, lets))
            case RefCreate():
                value = yield self._eval(expr.value, scope, lets)
                cell = Cell()
                self._store.write(cell, value)
                return Partial(lets.push(RefCreate(value.dynamic, span=expr.span)), cell)
            case RefRead():
                ref = yield self._eval(expr.ref, scope, lets)
                content = self._store.read(ref.static) if isinstance(ref.static, Cell) else None
                return content or Partial(lets.push(RefRead(ref.dynamic, span=expr.span)))
            case RefWrite():
                ref, value = yield from self._all(expr.children, scope, lets)
                if isinstance(ref.static, Cell):
                    self._store.write(ref.static, value)
                else:
                    self._forget()
                return Partial(lets.push(RefWrite(ref.dynamic, value.dynamic, span=expr.span)), Fields(()))
            case _:
                raise TypeError(f"cannot evaluate {expr!r}: expected a Relay expression")

    def _all(self, exprs: Iterable[Expr], scope: Scope, lets: Lets) -> _Steps[list[Partial]]:
        values: list[Partial] = []
        for expr in exprs:
            value = yield self._eval(expr, scope, lets)
            values.append(value)
        return values

    def _forget(self) -> None:
        """Forget the contents of all cells, after code that may write to any of them."""
        self._store = Store()

    def _block(self, expr: Expr, scope: Scope) -> _Steps[Expr]:
        """Return the residual program of code that may not run."""
        before, lets = self._store, Lets()
        self._store = Store(before)
        result = yield self._eval(expr, scope, lets)
        self._store = before
        return lets.close(result.dynamic)

    def _let(self, let: Let, scope: Scope, lets: Lets) -> _Steps[None]:
        if isinstance(let.value, Function):
            var = Var(let.var.name_hint, self._type(let.var.type_annotation, scope), span=let.var.span)
            scope.values[let.var] = yield from self._function(let.value, var, scope, lets, let.var)
        else:
            scope.values[let.var] = yield self._eval(let.value, scope, lets)

    def _type(self, ty: Type | None, scope: Scope) -> Type | None:
        return ty if ty is None else substitute_type(ty, scope.types)

    def _fresh(self, var: Var, scope: Scope) -> Var:
        """Return an unknown variable of the residual program for one of the program."""
        new = Var(var.name_hint, self._type(var.type_annotation, scope), span=var.span)
        scope.values[var] = Partial(new)
        return new

    def _function(
        self, func: Function, var: Var, scope: Scope, lets: Lets, self_var: Var | None = None
    ) -> _Steps[Partial]:
        """Bind a function to a variable, and return its value.

        `self_var` is the variable through which the function may call itself.
        """
        if is_opaque(func):
            value = Partial(var, Kernel(func))
            if self_var is not None:
                scope.values[self_var] = value
            lets.push(_kept(func, scope), var)
            return value
        closure = Closure(func, scope)
        value = Partial(var, closure)
        if self_var is not None:
            scope.values[self_var] = value
        residual = yield self._define(closure)
        lets.push(residual.dynamic, var)
        return value

    def _define(self, closure: Closure) -> Walk[Partial]:
        """Return the residual program of a function, with unknown arguments and cells."""
        func, before, fuel = closure.func, self._store, self._fuels.get(closure.func)
        self._forget()
        scope = Scope(closure.scope, closure.scope.types)
        params = [self._fresh(param, scope) for param in func.params]
        # Unlike in TVM, the fuel does not decide here: without its body, the function would call only itself.
        self._fuels[func], _ = burned(fuel, fuel_of([scope.values[param] for param in func.params]))
        inner = Lets()
        result = yield self._eval(func.body, scope, inner)
        self._refuel(func, fuel)
        self._store = before
        signature = (self._type(func.ret_type, scope), func.type_params, func.attrs)
        return Partial(Function(params, inner.close(result.dynamic), *signature, span=func.span), closure)

    def _refuel(self, func: Function, fuel: Fuel | None) -> None:
        if fuel is None:
            del self._fuels[func]
        else:
            self._fuels[func] = fuel

    def _call(self, call: Call, scope: Scope, lets: Lets) -> _Steps[Partial]:
        args = yield from self._all(call.args, scope, lets)
        if is_opaque(call.op):
            assert isinstance(call.op, Function), "only functions are opaque"
            return self._kernel(call, call.op, _kept(call.op, scope), args, lets)
        callee = yield self._eval(call.op, scope, lets)
        type_args = [substitute_type(ty, scope.types) for ty in call.type_args]
        match callee.static:
            case Closure() as closure:
                if len(args) == len(closure.func.params):
                    result = yield from self._unfold(closure, args, type_args, lets)
                    if result is not None:
                        return result
            case Op() as op:
                return self._op(call, op, args, lets)
            case Constructor() as con:
                return Partial(
                    lets.push(Call(con, _atoms(args), call.attrs, type_args, span=call.span)), Data(con, args)
                )
            case Kernel(func):
                return self._kernel(call, func, callee.dynamic, args, lets)
            case _:
                pass
        self._forget()
        return Partial(lets.push(Call(callee.dynamic, _atoms(args), call.attrs, type_args, span=call.span)))

    def _unfold(
        self, closure: Closure, args: Sequence[Partial], type_args: Sequence[Type], lets: Lets
    ) -> _Steps[Partial | None]:
        """Evaluate the body of a function for a call. Return None if that might not end."""
        func, fuel = closure.func, self._fuels.get(closure.func)
        less, is_less = burned(fuel, fuel_of(args))
        cost = self._sizes[func]
        if not is_less or cost > self._budget:
            return None
        self._budget -= cost
        self._fuels[func] = less
        unknown = [IncompleteType(param.kind) for param in func.type_params[len(type_args) :]]
        chosen = dict(zip(func.type_params, (*type_args, *unknown), strict=False))
        inner = Scope(closure.scope, {**closure.scope.types, **chosen}, dict(zip(func.params, args, strict=True)))
        result = yield self._eval(func.body, inner, lets)
        self._refuel(func, fuel)
        return result

    def _op(self, call: Call, op: Op, args: Sequence[Partial], lets: Lets) -> Partial:
        """Compute a call of an operator on known arguments, or add the call."""
        # As in FoldConstant, a call without arguments is smaller than the constant it would become.
        if args and is_foldable(op):
            values = _values(args)
            result = None if values is None else computed(call, op, values)
            if result is not None:
                return _known(result, lets)
        return Partial(lets.push(Call(op, _atoms(args), call.attrs, call.type_args, span=call.span)))

    def _kernel(self, call: Call, func: Function, callee: Expr, args: Sequence[Partial], lets: Lets) -> Partial:
        """Compute a call of a primitive function on known arguments, or add the call."""
        values = _values(args) if args and func.attrs.get("Primitive") and _is_pure(func) else None
        result = None if values is None else _constant(func, values)
        if result is not None:
            return _known(result, lets)
        return Partial(lets.push(Call(callee, _atoms(args), call.attrs, call.type_args, span=call.span)))

    def _if(self, ite: If, scope: Scope, lets: Lets) -> _Steps[Partial]:
        cond = yield self._eval(ite.cond, scope, lets)
        if isinstance(cond.static, NDArray) and cond.static.size == 1:
            return (yield self._eval(ite.true_branch if cond.static.item() else ite.false_branch, scope, lets))
        true_branch = yield from self._block(ite.true_branch, scope)
        false_branch = yield from self._block(ite.false_branch, scope)
        self._forget()
        return Partial(lets.push(If(cond.dynamic, true_branch, false_branch, span=ite.span)))

    def _match(self, match: Match, scope: Scope, lets: Lets) -> _Steps[Partial]:
        data = yield self._eval(match.data, scope, lets)
        for clause in match.clauses:
            fit = self._fit(clause.lhs, data, scope)
            if fit is _Fit.YES:
                return (yield self._eval(clause.rhs, scope, lets))
            if fit is _Fit.UNKNOWN:
                break
        clauses: list[Clause] = []
        for clause in match.clauses:
            pattern = rewrite_pattern(clause.lhs, lambda var: self._fresh(var, scope))
            clauses.append(Clause(pattern, (yield from self._block(clause.rhs, scope))))
        self._forget()
        return Partial(lets.push(Match(data.dynamic, clauses, match.complete, span=match.span)))

    def _fit(self, pattern: Pattern, value: Partial, scope: Scope) -> _Fit:
        """Return whether a value matches, and bind the variables of the pattern if so."""
        fit = _Fit.YES
        stack = [(pattern, value)]
        while stack:
            part, part_value = stack.pop()
            known: Static | None = part_value.static
            if isinstance(part, PatternVar):
                scope.values[part.var] = part_value
            elif isinstance(part, PatternConstructor | PatternTuple):
                if isinstance(part, PatternTuple):
                    is_known = isinstance(known, Fields)
                else:
                    is_known = isinstance(known, Data)
                    if isinstance(known, Data) and not _same_constructor(known.constructor, part.constructor):
                        return _Fit.NO
                if isinstance(known, Data | Fields) and is_known and len(known.fields) == len(part.patterns):
                    stack += zip(part.patterns, known.fields, strict=True)
                else:
                    fit = _Fit.UNKNOWN
        return fit


def _global(name: str, func: Function) -> Partial:
    gvar = GlobalVar(name)
    if func.attrs.get("Compiler"):
        return Partial(gvar)
    return Partial(gvar, Kernel(func) if is_opaque(func) else Closure(func, Scope()))


def _kept(func: Function, scope: Scope) -> Expr:
    """Return a copy of an opaque function that captures residual code."""
    binds = {var: scope.find(var).dynamic for var in free_vars(func)}
    return renewed(substitute_types(func, scope.types, binds))


def _same_constructor(left: Constructor, right: Constructor) -> bool:
    # Equal modules may have distinct constructor objects, so compare names as well.
    return left is right or (left.name_hint == right.name_hint and left.belong_to == right.belong_to)


def _atoms(values: Iterable[Partial]) -> list[Expr]:
    return [value.dynamic for value in values]


def _values(args: Iterable[Partial]) -> list[Value] | None:
    """Return known tensors and tuples of tensors as values of the evaluator, or None."""
    values: list[Value] = []
    for arg in args:
        if isinstance(arg.static, NDArray):
            values.append(arg.static.numpy())
        elif isinstance(arg.static, Fields):
            fields = [field.static for field in arg.static.fields]
            tensors = [field.numpy() for field in fields if isinstance(field, NDArray)]
            if len(tensors) < len(fields):
                return None
            values.append(tuple(tensors))
        else:
            return None
    return values


def _known(expr: Expr, lets: Lets) -> Partial:
    """Bind the parts of a constant expression."""
    if isinstance(expr, Constant):
        return Partial(lets.push(expr), expr.data)
    fields = [_known(field, lets) for field in expr.children]
    return Partial(lets.push(Tuple(_atoms(fields), span=expr.span)), Fields(fields))


def _is_pure(func: Function) -> bool:
    return not any(isinstance(node, Op) and not is_foldable(node) for node in post_order(func))


def _constant(func: Function, values: Sequence[Value]) -> Expr | None:
    """Return the result of a function as a constant, or None if it has none."""
    try:
        result = evaluate(func, *values)
    except Exception:
        return None  # the error is raised when the program runs
    if is_array(result):
        return Constant(result, span=func.span)
    if not isinstance(result, tuple):
        return None
    fields = [field for field in result if is_array(field)]
    return Tuple(map(Constant, fields), span=func.span) if len(fields) == len(result) else None
