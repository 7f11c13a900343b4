"""FirstOrderGradient: the gradients of functions without control flow.

The counterpart of TVM's `first_order_gradient.cc`. The new function first computes every value of the original one, in
the order of evaluation. Then it goes through the values backwards, and adds up their gradients.
"""

from collections.abc import Callable, Sequence

from apass.core.context import PassContext
from apass.passes.base import ModulePass
from apass.passes.registry import provide_pass
from apass.relay.ir.calls import call_op, known_type
from apass.relay.ir.expr import Call, Constant, Expr, Op, Tuple, TupleGetItem, Var
from apass.relay.ir.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.ir.scope_builder import ScopeBuilder
from apass.relay.ir.ty import TensorType, TupleType, Type
from apass.relay.transform.autodiff.support import (
    argument_gradients,
    check_gradients,
    check_signature,
    gradient_type,
    over_tensors,
)
from apass.relay.transform.support.module_pass import module_pass
from apass.relay.type_inference.infer import ensure_typed, infer_function, infer_module
from apass.relay.visitors.recursion import Walk, walk_deep

__all__ = ["FirstOrderGradient", "first_order_gradient"]


def first_order_gradient(func: Function, mod: IRModule | None = None) -> Function:
    """Return a function that also computes the gradients of its parameters.

    The result is `(result, (gradient of parameter 1, ...))`. The gradients are those of the sum of all elements of the
    result. The body consists of calls of operators and of functions, tuples, constants and variables.

    Raises:
        OpNotImplementedError: if operators have no gradient. The message names all of them.
        TypeInferenceError: if the function is ill-typed.
        ValueError: if the function is polymorphic, or contains another kind of expression.

    >>> from apass.relay.interpreter.evaluate import evaluate
    >>> from apass.relay.ir.expr import const, var
    >>> x = var("x", shape=())
    >>> square = first_order_gradient(Function([x], x * x))
    >>> value, (slope,) = evaluate(Call(square, [const(3.0)]))
    >>> print(value, slope)
    9.0 6.0
    """
    program = IRModule() if mod is None else mod
    return infer_function(_differentiated(ensure_typed(func, program)), program)


@provide_pass("FirstOrderGradient")
def FirstOrderGradient() -> ModulePass[IRModule]:
    """Replace each function by one that also computes gradients; no control flow.

    Each function is differentiated on its own: it cannot call others of the module. See `relay.transform.gradient`.
    """
    return module_pass(_differentiate, opt_level=0, name="FirstOrderGradient")


def _differentiate(mod: IRModule, ctx: PassContext) -> IRModule:
    typed = infer_module(mod)
    names = [gvar.name_hint for gvar in typed.get_global_vars()]
    return infer_module(typed.with_functions({name: _differentiated(typed[name]) for name in names}))


def _differentiated(func: Function) -> Function:
    check_signature(func)
    check_gradients([func])
    forward, backward = ScopeBuilder(), ScopeBuilder()
    tape = _Tape(forward)
    params = [tape.param(param) for param in func.params]
    result = walk_deep(tape.record(func.body, {}))
    result.start(_filled("ones", result.forward, result.type))
    tape.play_back(backward)
    backward.ret(Tuple([param.gradient(backward) for param in params]))
    forward.ret(Tuple([result.forward, backward.get()]))
    return Function(func.params, forward.get(), gradient_type(func), span=func.span)


class _Value:
    """A tensor, or nested tuples of tensors, with the gradient that is known so far."""

    __slots__ = ("_fields", "_reverse", "forward", "type")

    def __init__(self, forward: Expr, reverse: Expr, ty: Type) -> None:
        self.forward, self.type = forward, ty
        self._reverse = reverse
        # A tuple for each field that is added would be quadratic: the tuple is created when the gradient is read.
        self._fields: list[Expr] | None = None

    def gradient(self, scope: ScopeBuilder) -> Expr:
        """Return the gradient so far."""
        if self._fields is not None:
            self.start(scope.let(Var("x", self.type), Tuple(self._fields)))
        return self._reverse

    def start(self, grad: Expr) -> None:
        """Set the gradient."""
        self._reverse, self._fields = grad, None

    def add(self, grad: Expr, scope: ScopeBuilder) -> None:
        """Add to the gradient."""
        self.start(_sum(self.type, self.gradient(scope), grad, scope))

    def add_field(self, index: int, ty: Type, grad: Expr, scope: ScopeBuilder) -> None:
        """Add to the gradient of a field of type `ty`."""
        if self._fields is None:
            assert isinstance(self.type, TupleType), "a field is one of a tuple"
            self._fields = [TupleGetItem(self._reverse, number) for number in range(len(self.type.fields))]
        self._fields[index] = _sum(ty, self._fields[index], grad, scope)


class _Tape:
    """The values of a function, and the steps that pass their gradients on."""

    def __init__(self, scope: ScopeBuilder) -> None:
        self._scope = scope
        self._variables: dict[Var, _Value] = {}
        self._steps: list[Callable[[ScopeBuilder], None]] = []

    def param(self, param: Var) -> _Value:
        """Return the value of a parameter."""
        self._variables[param] = value = self._value(param, _type_of(param))
        return value

    def play_back(self, scope: ScopeBuilder) -> None:
        """Pass the gradients on, from the last value to the first."""
        for step in reversed(self._steps):
            step(scope)

    def record(self, expr: Expr, memo: dict[Expr, _Value]) -> Walk[_Value]:
        """Return the value of an expression. `memo` has those of the same call."""
        if isinstance(expr, Var):
            if expr not in self._variables:
                raise ValueError(f"the function must have no free variables, got {expr!r}")
            return self._variables[expr]
        if expr not in memo:
            memo[expr] = yield self._record(expr, memo)
        return memo[expr]

    def _record(self, expr: Expr, memo: dict[Expr, _Value]) -> Walk[_Value]:
        if isinstance(expr, Constant):
            return self._value(expr, expr.checked_type)
        if isinstance(expr, TupleGetItem):
            return self._field((yield self.record(expr.tuple_value, memo)), expr)
        if isinstance(expr, Tuple | Call):
            parts: list[_Value] = []
            for part in expr.fields if isinstance(expr, Tuple) else expr.args:
                parts += [(yield self.record(part, memo))]
            if isinstance(expr, Tuple):
                return self._tuple(parts, expr)
            if isinstance(expr.op, Op):
                return self._operator(parts, expr, expr.op)
            if isinstance(expr.op, Function):
                self._variables.update(zip(expr.op.params, parts, strict=True))
                # A function that is called twice has two values for each expression.
                return (yield self.record(expr.op.body, {}))
        kind = f"calls of {type(expr.op).__name__} nodes" if isinstance(expr, Call) else f"{type(expr).__name__} nodes"
        raise ValueError(f"the first-order gradient does not support {kind}; use the mode higher_order")

    def _value(self, expr: Expr, ty: Type) -> _Value:
        forward = self._scope.let(Var("x", ty), expr)
        return _Value(forward, self._scope.let(Var("x", ty), _filled("zeros", forward, ty)), ty)

    def _operator(self, args: Sequence[_Value], call: Call, op: Op) -> _Value:
        ty = _type_of(call)
        orig = Call(op, [arg.forward for arg in args], call.attrs, call.type_args, span=call.span, checked_type_=ty)
        result = self._value(orig, ty)

        def step(scope: ScopeBuilder) -> None:
            gradients = argument_gradients(orig, result.forward, result.gradient(scope))
            for arg, grad in zip(args, gradients, strict=True):
                arg.add(grad, scope)

        self._steps.append(step)
        return result

    def _tuple(self, fields: Sequence[_Value], tup: Tuple) -> _Value:
        result = self._value(Tuple([field.forward for field in fields], span=tup.span), _type_of(tup))

        def step(scope: ScopeBuilder) -> None:
            whole = result.gradient(scope)
            for index, field in enumerate(fields):
                field.add(TupleGetItem(whole, index), scope)

        self._steps.append(step)
        return result

    def _field(self, whole: _Value, get: TupleGetItem) -> _Value:
        result = self._value(TupleGetItem(whole.forward, get.index, span=get.span), _type_of(get))

        def step(scope: ScopeBuilder) -> None:
            whole.add_field(get.index, result.type, result.gradient(scope), scope)

        self._steps.append(step)
        return result


def _type_of(expr: Expr) -> Type:
    ty = known_type(expr)
    assert ty is not None, "the function is typed"
    return ty


def _filled(name: str, like: Expr, ty: Type) -> Expr:
    """Return zeros or ones of a type; `like` is a value of the type."""

    def leaf(tensor: TensorType, expr: Expr) -> Expr:
        if ty is tensor or not tensor.is_static:
            return call_op(f"{name}_like", expr)
        return call_op(name, shape=tensor.concrete_shape, dtype=tensor.dtype)

    return over_tensors(ty, [like], leaf)


def _sum(ty: Type, x: Expr, y: Expr, scope: ScopeBuilder) -> Expr:
    def leaf(tensor: TensorType, a: Expr, b: Expr) -> Expr:
        return scope.let(Var("x", tensor), call_op("add", a, b))

    return over_tensors(ty, [x, y], leaf, scope)
