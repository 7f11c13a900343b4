"""The gradient of any function, by references and closures.

The counterpart of TVM's `gradient.cc`. Each tensor becomes a pair of the tensor and a reference to its gradient. Each
function gets another parameter `bp`, a reference to the closure that passes the gradients on. A call of an operator
puts a new closure there. It adds to the gradients of the arguments, and then calls the closure that was there before.

Programs are converted to A-normal form first. So an expression with several users is evaluated and differentiated once;
TVM refuses such programs.
"""

from collections.abc import Sequence
from itertools import count
from typing import Final

from apass.relay.errors import shortened
from apass.relay.ir.adt import (
    Clause,
    Constructor,
    Match,
    Pattern,
    PatternConstructor,
)
from apass.relay.ir.calls import call_op, known_type, op_name
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
from apass.relay.ir.scope_builder import ScopeBuilder
from apass.relay.ir.ty import FuncType, RefType, TensorType, TupleType, Type
from apass.relay.ir.variables import free_vars
from apass.relay.rewrite.renaming import copied
from apass.relay.transform.autodiff.support import (
    argument_gradients,
    check_gradients,
    check_signature,
    gradient_type,
    over_tensors,
    tensors_within,
)
from apass.relay.transform.normal_forms.anf import to_a_normal_form
from apass.relay.type_inference.infer import infer_function, infer_module
from apass.relay.visitors.expr_functor import ExprMutator, rewrite_function
from apass.relay.visitors.patterns import rewrite_pattern
from apass.relay.visitors.recursion import Walk, walk_deep
from apass.relay.visitors.type_functor import TypeMutator, Visited

__all__ = ["higher_order_gradient"]

_UNIT: Final = TupleType([])
_BP: Final = RefType(FuncType([], _UNIT))
"""The type of the reference to the closure that passes gradients on."""
_CHECKPOINT: Final = "Checkpoint"
"""The attribute of a function whose values are computed again for the gradient."""


def higher_order_gradient(func: Function, mod: IRModule | None = None) -> Function:
    """Return a function that also computes the gradients of its parameters.

    The result is `(result, (gradient of parameter 1, ...))`. The gradients are those of the sum of all elements of the
    result; of a tuple, of its first tensor, as in TVM. The functions of the module that `func` calls get counterparts
    with the suffix `_grad`, which are added to `mod` in place.

    Raises:
        OpNotImplementedError: if operators have no gradient. The message names all of them.
        TypeInferenceError: if the program is ill-typed.
        ValueError: if the function is polymorphic, has a parameter that is not a tensor, or uses a value without a
            gradient.

    """
    callees = _reachable(func, mod)
    typed_mod = infer_module(callees)
    typed = infer_function(func, typed_mod)
    check_signature(typed)
    for param in typed.params:
        if not isinstance(param.type_annotation, TensorType):
            raise ValueError(f"the parameters must be tensors, got {param!r} of type {param.type_annotation}")
    check_gradients([typed, *typed_mod.functions.values()])
    reverse = _Reverse(typed_mod, set() if mod is None else {gvar.name_hint for gvar in mod.get_global_vars()})
    result = to_a_normal_form(reverse.with_gradients(typed))
    assert isinstance(result, Function), "the A-normal form of a function is a function"
    added = {name: to_a_normal_form(code) for name, code in reverse.global_functions().items()}
    whole = infer_module(typed_mod.with_functions(added))
    if mod is not None:
        for name in added:
            mod[name] = whole[name]
    return infer_function(result, whole)


def _reachable(func: Function, mod: IRModule | None) -> IRModule:
    """Return the module with only the functions that `func` may call."""
    if mod is None:
        return IRModule()
    pending, names = [func], set[str]()
    while pending:
        for node in post_order(pending.pop()):
            if isinstance(node, GlobalVar) and node.name_hint not in names and node in mod:
                names.add(node.name_hint)
                pending.append(mod[node])
    return mod.without_functions([gvar.name_hint for gvar in mod.get_global_vars() if gvar.name_hint not in names])


class _Marker(ExprMutator):
    """Replaces checkpoints by calls of functions with the attribute `Checkpoint`."""

    def visit_call(self, call: Call) -> Expr:
        new = super().visit_call(call)
        if op_name(new) != "annotation.checkpoint" or not isinstance(new, Call):
            return new
        return Call(Function([], new.args[0], attrs={_CHECKPOINT: 1}), [], span=new.span)

    def visit_function(self, fn: Function) -> Expr:
        new = super().visit_function(fn)
        # With references in its body, the function is no kernel.
        return new.without_attr("Primitive") if isinstance(new, Function) and new.attrs.get("Primitive") else new


class _ReverseType(TypeMutator):
    """Returns the type that a value has in the gradient of a program."""

    def visit_tensor_type(self, tt: TensorType) -> Type:
        return TupleType([tt, RefType(tt)])

    def visit_func_type(self, ft: FuncType) -> Type:
        arg_types = [self.reversed(ty) for ty in ft.arg_types]
        return FuncType([*arg_types, _BP], self.reversed(ft.ret_type), ft.type_params, ft.type_constraints)

    def reversed(self, ty: Type) -> Type:
        new: Visited = self.visit(ty)
        assert isinstance(new, Type), "a TypeMutator returns a type for a type"
        return new


class _Reverse:
    """The differentiation of a program; it knows the counterparts of variables."""

    def __init__(self, mod: IRModule, used_names: set[str]) -> None:
        self._mod = mod
        self._used_names = used_names
        self._types = _ReverseType()
        self._variables: dict[Var, Var] = {}
        self._globals: dict[str, GlobalVar] = {}
        self._thunks: dict[Var, Function] = {}

    def with_gradients(self, func: Function) -> Function:
        """Return a function that also computes the gradients of its parameters."""
        scope = ScopeBuilder()
        bp = scope.let(Var("bp", _BP), _no_step())
        params = [scope.let("x", _with_cell(param)) for param in func.params]
        code = self._of_function(self._prepared(func))
        result = scope.let("x", Call(code, [*params, bp]))
        ty = func.ret_type
        assert ty is not None, "the function is typed"
        _start(ty, result, scope)
        scope.let("x", Call(RefRead(bp), []))
        value = _values(ty, result, scope)
        scope.ret(Tuple([value, Tuple([RefRead(TupleGetItem(param, 1)) for param in params])]))
        return Function(func.params, scope.get(), gradient_type(func), span=func.span)

    def global_functions(self) -> dict[str, Function]:
        """Return the counterparts of the functions of the module that are called."""
        added: dict[str, Function] = {}
        while len(added) < len(self._globals):
            for name, gvar in list(self._globals.items()):
                if gvar.name_hint not in added:
                    added[gvar.name_hint] = self._of_function(self._prepared(self._mod[name]))
        return added

    def _prepared(self, func: Function) -> Function:
        """Return a function in A-normal form, with types of all variables."""
        normal = to_a_normal_form(rewrite_function(_Marker(), func))
        assert isinstance(normal, Function), "the A-normal form of a function is a function"
        return infer_function(normal, self._mod)

    def _of_function(self, func: Function) -> Function:
        result = walk_deep(self._function(func))
        assert isinstance(result, Function), "a function has a function as its counterpart"
        return result

    def _function(self, func: Function) -> Walk[Expr]:
        bp = Var("bp", _BP)
        params = [self._variable(param) for param in func.params]
        body = yield self._scope(func.body, bp)
        ret_type = None if func.ret_type is None else self._types.reversed(func.ret_type)
        attrs = func.without_attr(_CHECKPOINT).attrs
        return Function([*params, bp], body, ret_type, func.type_params, attrs, span=func.span)

    def _scope(self, expr: Expr, bp: Var) -> Walk[Expr]:
        """Return the counterpart of the body of a function or branch."""
        scope = ScopeBuilder()
        while isinstance(expr, Let):
            if isinstance(expr.value, Function) and _is_repeatable(expr.value):
                self._thunks[expr.var] = expr.value
            else:
                value = yield self._value(expr.value, expr.var.type_annotation, bp, scope)
                scope.let(self._variable(expr.var), value)
            expr = expr.body
        scope.ret((yield self._value(expr, known_type(expr), bp, scope)))
        return scope.get()

    def _value(self, node: Expr, ty: Type | None, bp: Var, scope: ScopeBuilder) -> Walk[Expr]:
        """Return the counterpart of an expression of type `ty`, whose operands are atoms."""
        if isinstance(node, Constant):
            return _with_cell(scope.let(Var("x", node.checked_type), node))
        if isinstance(node, Tuple):
            return Tuple(map(self._atom, node.fields), span=node.span)
        if isinstance(node, TupleGetItem):
            return TupleGetItem(self._atom(node.tuple_value), node.index, span=node.span)
        if isinstance(node, RefCreate):
            return RefCreate(self._atom(node.value), span=node.span)
        if isinstance(node, RefRead):
            return RefRead(self._atom(node.ref), span=node.span)
        if isinstance(node, RefWrite):
            return RefWrite(self._atom(node.ref), self._atom(node.value), span=node.span)
        if isinstance(node, Function):
            return (yield self._function(node))
        if isinstance(node, Let):
            return (yield self._scope(node, bp))
        if isinstance(node, If):
            cond = TupleGetItem(self._atom(node.cond), 0)
            true_branch = yield self._scope(node.true_branch, bp)
            return If(cond, true_branch, (yield self._scope(node.false_branch, bp)), span=node.span)
        if isinstance(node, Match):
            clauses: list[Clause] = []
            for clause in node.clauses:
                clauses += [Clause(self._pattern(clause.lhs), (yield self._scope(clause.rhs, bp)))]
            return Match(self._atom(node.data), clauses, node.complete, span=node.span)
        if isinstance(node, Call):
            assert ty is not None, "the program is typed"
            return (yield self._call(node, ty, bp, scope))
        return self._atom(node)

    def _atom(self, node: Expr) -> Expr:
        """Return the counterpart of an operand."""
        if isinstance(node, Var):
            return self._variable(node)
        if isinstance(node, GlobalVar):
            return self._global(node)
        if isinstance(node, Constructor):
            _check_fields(node)
            params = [Var("x") for _ in node.inputs]
            return Function([*params, Var("bp", _BP)], Call(node, params), span=node.span)
        if isinstance(node, Op):
            raise ValueError(f"the operator {node.name} is used as a value; wrap it in a function that calls it")
        raise TypeError(f"expected an expression in A-normal form, got {node!r}")

    def _variable(self, var: Var) -> Var:
        if var not in self._variables:
            ty = var.type_annotation
            new = Var(var.name_hint, None if ty is None else self._types.reversed(ty), span=var.span)
            self._variables[var] = new
        return self._variables[var]

    def _global(self, gvar: GlobalVar) -> GlobalVar:
        name = gvar.name_hint
        if name not in self._globals:
            names = (f"{name}_grad{f'_{number}' if number else ''}" for number in count())
            unused = next(new for new in names if new not in self._used_names)
            self._used_names.add(unused)
            self._globals[name] = GlobalVar(unused)
        return self._globals[name]

    def _pattern(self, pattern: Pattern) -> Pattern:
        for part in pattern.parts():
            if isinstance(part, PatternConstructor):
                _check_fields(part.constructor)
        return rewrite_pattern(pattern, self._variable)

    def _call(self, call: Call, ty: Type, bp: Var, scope: ScopeBuilder) -> Walk[Expr]:
        if isinstance(call.op, Var) and call.op in self._thunks:
            return (yield self._checkpoint(self._thunks[call.op], ty, bp, scope))
        args = [self._atom(arg) for arg in call.args]
        if isinstance(call.op, Op):
            return self._operator(call, call.op, args, ty, bp, scope)
        if isinstance(call.op, Constructor):
            _check_fields(call.op)
            return Call(call.op, args, call.attrs, span=call.span)
        return Call(self._atom(call.op), [*args, bp], call.attrs, span=call.span)

    def _operator(self, call: Call, op: Op, args: Sequence[Expr], ty: Type, bp: Var, scope: ScopeBuilder) -> Expr:
        types = [known_type(arg) for arg in call.args]
        arg_types = [ty for ty in types if ty is not None]
        values = [_values(arg_type, arg, scope) for arg_type, arg in zip(arg_types, args, strict=True)]
        orig = Call(op, values, call.attrs, call.type_args, span=call.span, checked_type_=ty)
        result = scope.let(Var("x", ty), orig)
        pair = _cells(ty, result, scope)
        step = ScopeBuilder()
        gradients = argument_gradients(orig, result, _gradients(ty, pair, step))
        for arg_type, arg, grad in zip(arg_types, args, gradients, strict=True):
            _add_gradient(arg_type, arg, step.let(Var("x", arg_type), grad), step)
        _put_before(bp, step, scope)
        return pair

    def _checkpoint(self, thunk: Function, ty: Type, bp: Var, scope: ScopeBuilder) -> Walk[Expr]:
        captured = free_vars(thunk)
        values: dict[Var, Expr] = {}
        for var in captured:
            assert var.type_annotation is not None, "the program is typed"
            values[var] = _values(var.type_annotation, self._variable(var), scope)
        result = scope.let(Var("x", ty), copied(thunk.body, values))
        pair = _cells(ty, result, scope)
        step = ScopeBuilder()
        inner_bp = step.let(Var("bp", _BP), _no_step())
        again = step.let("x", (yield self._scope(copied(thunk.body), inner_bp)))
        for old, new in tensors_within(ty, [pair, again], step):
            step.let("x", RefWrite(TupleGetItem(new, 1), RefRead(TupleGetItem(old, 1))))
        step.let("x", Call(RefRead(inner_bp), []))
        _put_before(bp, step, scope)
        return pair


def _no_step() -> RefCreate:
    return RefCreate(Function([], Tuple([]), _UNIT))


def _put_before(bp: Var, step: ScopeBuilder, scope: ScopeBuilder) -> None:
    """Make `step` the first step of the gradient; it then calls the steps so far."""
    steps = scope.let("bp", RefRead(bp))
    step.ret(Call(steps, []))
    scope.let("x", RefWrite(bp, Function([], step.get(), _UNIT)))


def _with_cell(tensor: Expr) -> Tuple:
    return Tuple([tensor, RefCreate(call_op("zeros_like", tensor))])


def _cells(ty: Type, value: Expr, scope: ScopeBuilder) -> Expr:
    """Return the counterpart of a value: each tensor with a new cell of zeros."""

    def leaf(tensor: TensorType, expr: Expr) -> Expr:
        return scope.let("x", _with_cell(expr))

    return over_tensors(ty, [value], leaf, scope, keeps_type=False)


def _values(ty: Type, pair: Expr, scope: ScopeBuilder) -> Expr:
    """Return the value of type `ty` that a counterpart holds."""

    def leaf(tensor: TensorType, expr: Expr) -> Expr:
        return scope.let(Var("x", tensor), TupleGetItem(expr, 0))

    return over_tensors(ty, [pair], leaf, scope)


def _gradients(ty: Type, pair: Expr, scope: ScopeBuilder) -> Expr:
    """Return the gradient of type `ty` that a counterpart holds."""

    def leaf(tensor: TensorType, expr: Expr) -> Expr:
        return scope.let(Var("x", tensor), RefRead(TupleGetItem(expr, 1)))

    return over_tensors(ty, [pair], leaf, scope)


def _add_gradient(ty: Type, pair: Expr, grad: Expr, scope: ScopeBuilder) -> None:
    for whole, part in tensors_within(ty, [pair, grad], scope):
        cell = TupleGetItem(whole, 1)
        scope.let("x", RefWrite(cell, call_op("add", RefRead(cell), part)))


def _start(ty: Type, result: Expr, scope: ScopeBuilder) -> None:
    """Set the gradient of the first tensor of the result to ones."""
    for (whole,) in tensors_within(ty, [result], scope):
        scope.let("x", RefWrite(TupleGetItem(whole, 1), call_op("ones_like", TupleGetItem(whole, 0))))
        return
    raise ValueError(f"the result must contain a tensor, got a result of type {ty}")


def _is_repeatable(func: Function) -> bool:
    """Return whether a function is a checkpoint whose values can be computed again.

    The values that it uses must be tensors or tuples of them.
    """
    if not func.attrs.get(_CHECKPOINT):
        return False
    types = [func.ret_type, *(var.type_annotation for var in free_vars(func))]
    return all(ty is not None and _holds_tensors(ty) for ty in types)


def _holds_tensors(ty: Type) -> bool:
    stack = [ty]
    while stack:
        part = stack.pop()
        if isinstance(part, TupleType):
            stack += part.fields
        elif not isinstance(part, TensorType):
            return False
    return True


def _check_fields(con: Constructor) -> None:
    """Check that the fields of a constructor can hold counterparts of values.

    Raises:
        ValueError: if a field is a tensor, a function or another value that has a counterpart of another type.

    """
    for ty in con.inputs:
        if _ReverseType().reversed(ty) is not ty:
            raise ValueError(
                f"the gradient supports data types with type parameters for tensors and functions, but "
                f"{con.belong_to.name_hint}.{con.name_hint} has a field of type {shortened(str(ty))}"
            )
