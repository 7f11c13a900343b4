"""The search for a proof: encodes two modules, and asks the solver.

Each element of a tensor is a term of the solver. Floats are real numbers: a proof holds up to rounding, overflow and
NaN. Operators such as `exp` are functions about which the solver knows nothing, except that equal arguments have equal
results.

The result of a division by zero, or of a shift by more than the width, is an unknown number that depends on the
operands alone. A counterexample must not depend on it in the module before, and the interpreter must confirm it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import Any, Final

import numpy as np

from apass.core.ir_plugin import Proof
from apass.external.solver import NotEncodedError, counterexample
from apass.relay.equivalence.operators import Claims, apply_operator
from apass.relay.equivalence.terms import (
    Closure,
    Tensor,
    Value,
    as_tensor,
    bits_of,
    constant,
    is_float,
    mapped,
    tensor_type,
    variable,
)
from apass.relay.interpreter.compare_outputs import difference
from apass.relay.interpreter.evaluate import evaluate
from apass.relay.ir.expr import Call, Constant, Expr, GlobalVar, If, Let, Op, Tuple, TupleGetItem, Var
from apass.relay.ir.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.ir.ty import TupleType, Type
from apass.relay.text.parsing.reader import read_module_bytes
from apass.relay.type_inference.infer import infer_module

__all__ = ["search"]

z3: Final[Any] = import_module("z3")

MOST_TERMS: Final = 50_000
"""Elements of all tensors of a module together."""

MOST_CALLS: Final = 40
"""Active and finished calls of functions, so that a recursion ends."""


def search(before: bytes, after: bytes) -> Proof:
    """Search for a proof that the `main` of two modules computes the same.

    Parameters:
        before: the module before, as the adapter writes it.
        after: the module after.

    Raises:
        NotEncodedError: if a module has something that is not encoded for the solver.

    """
    return _search(*(infer_module(read_module_bytes(data)) for data in (before, after)))


def _search(before: IRModule, after: IRModule) -> Proof:
    if "main" not in before or "main" not in after:
        raise NotEncodedError("there is no function main")
    types = [param.checked_type for param in before["main"].params]
    if types != [param.checked_type for param in after["main"].params]:
        raise NotEncodedError("the types of the parameters changed")
    arguments = [_symbols(tp, f"{index}") for index, tp in enumerate(types)]
    encoders = [_Encoder(mod) for mod in (before, after)]
    results = [encoder.call(encoder.closure("main"), arguments) for encoder in encoders]
    differs = z3.Or(*_differences(*results))
    answer = counterexample((), differs)
    if answer.reason:
        return Proof(None, answer.reason)
    if answer.model is None:
        is_real = any(encoder.has_floats for encoder in encoders)
        return Proof(True, "proved for all arguments" + (", with floats as real numbers" if is_real else ""))
    names = sorted({name for encoder in encoders for name in encoder.claims.unknown_functions})
    if names:
        return Proof(None, f"z3 knows nothing about {', '.join(names)}")
    # The result of a division by zero is any number for z3, and should not decide.
    answer = counterexample(encoders[0].claims.defined, differs)
    if answer.model is None:
        return Proof(None, answer.reason or "equal unless the module before divides by zero, or shifts by too much")
    return _confirmed(before, after, [_concrete(argument, answer.model) for argument in arguments])


def _confirmed(before: IRModule, after: IRModule, arguments: Sequence[Any]) -> Proof:
    """Return a counterexample if the interpreter agrees with it."""
    found = difference(evaluate(before, *arguments), evaluate(after, *arguments))
    shown = ", ".join(
        f"{param.name_hint} = {np.array2string(np.asarray(value), separator=', ')}"
        for param, value in zip(before["main"].params, arguments, strict=True)
    )
    if found:
        return Proof(False, f"{found} for {shown}")
    # Real numbers and floats differ, and so do a division by zero and what the interpreter makes of it.
    return Proof(None, f"z3 found {shown}, for which the interpreter has equal results")


def _symbols(tp: Type, name: str) -> Value:
    """Return variables of the solver for a parameter."""
    if isinstance(tp, TupleType):
        return tuple(_symbols(item, f"{name}.{index}") for index, item in enumerate(tp.fields))
    dtype, shape = tensor_type(tp)
    terms = np.empty(shape, object)
    for index in np.ndindex(*shape):
        terms[index] = variable(dtype, f"{name}{list(index)}")
    return Tensor(dtype, terms)


def _differences(left: Value, right: Value) -> list[Any]:
    """Return conditions, one of which holds if two results differ."""
    if isinstance(left, tuple) and isinstance(right, tuple) and len(left) == len(right):
        return [condition for pair in zip(left, right, strict=True) for condition in _differences(*pair)]
    if isinstance(left, Tensor) and isinstance(right, Tensor):
        if (left.dtype, left.terms.shape) != (right.dtype, right.terms.shape):
            return [z3.BoolVal(True)]
        return [a != b for a, b in zip(left.terms.ravel(), right.terms.ravel(), strict=True)]
    raise NotEncodedError("results that are functions")


def _concrete(value: Value, model: Any) -> Any:
    """Return the argument that a model of the solver gives."""
    if isinstance(value, tuple):
        return tuple(_concrete(item, model) for item in value)
    assert isinstance(value, Tensor), "parameters are tensors or tuples"
    numbers = [_number(value.dtype, model.eval(term, model_completion=True)) for term in value.terms.ravel()]
    return np.array(numbers, value.dtype).reshape(value.terms.shape)


def _number(dtype: str, term: Any) -> Any:
    if is_float(dtype):
        term = term if z3.is_rational_value(term) else term.approx(20)
        return term.numerator_as_long() / term.denominator_as_long()
    if bits_of(dtype):
        return term.as_signed_long() if np.dtype(dtype).kind == "i" else term.as_long()
    return z3.is_true(term)


@dataclass
class _Encoder:
    """Evaluates the functions of one module on terms."""

    mod: IRModule
    claims: Claims = field(default_factory=Claims)
    has_floats: bool = False
    terms: int = 0
    calls: int = 0

    def closure(self, name: str) -> Closure:
        """Return a function of the module."""
        return Closure(self.mod[name], {})

    def call(self, closure: Closure, arguments: Sequence[Value]) -> Value:
        """Return the result of a call."""
        self.calls += 1
        if self.calls > MOST_CALLS:
            raise NotEncodedError(f"more than {MOST_CALLS} calls of functions")
        func = closure.func
        values = {**closure.values, **dict(zip(func.params, arguments, strict=True))}
        return self.value(func.body, values, {})

    def value(self, expr: Expr, values: dict[Var, Value], memo: dict[Expr, Value]) -> Value:
        """Return the value of an expression; `memo` has those of shared expressions."""
        while isinstance(expr, Let):
            values[expr.var] = self.value(expr.value, values, memo)
            expr = expr.body
        if isinstance(expr, Var):
            if expr not in values:
                raise NotEncodedError(f"the recursive function {expr.name_hint}")
            return values[expr]
        if expr not in memo:
            memo[expr] = self._count(self._value(expr, values, memo))
        return memo[expr]

    def _count(self, value: Value) -> Value:
        if isinstance(value, Tensor):
            self.terms += value.terms.size
            self.has_floats |= is_float(value.dtype)
            if self.terms > MOST_TERMS:
                raise NotEncodedError(f"more than {MOST_TERMS:,} elements of tensors")
        return value

    def _value(self, expr: Expr, values: dict[Var, Value], memo: dict[Expr, Value]) -> Value:
        match expr:
            case Constant():
                return constant(expr.data.numpy())
            case Function():
                return Closure(expr, dict(values))
            case GlobalVar():
                return self.closure(expr.name_hint)
            case Tuple():
                return tuple(self.value(item, values, memo) for item in expr.fields)
            case TupleGetItem():
                items = self.value(expr.tuple_value, values, memo)
                assert isinstance(items, tuple), "the type checker has checked it"
                return items[expr.index]
            case If():
                return self._choice(expr, values, memo)
            case Call(op=Op()):
                arguments = [self.value(argument, values, memo) for argument in expr.args]
                return apply_operator(self.claims, expr, arguments)
            case Call():
                target = self.value(expr.op, values, memo)
                if isinstance(target, Closure):
                    return self.call(target, [self.value(argument, values, memo) for argument in expr.args])
            case _:
                pass
        raise NotEncodedError(f"expressions such as {type(expr).__name__}")

    def _choice(self, expr: If, values: dict[Var, Value], memo: dict[Expr, Value]) -> Value:
        condition = as_tensor(self.value(expr.cond, values, memo)).terms.item()
        branches: list[Value] = []
        for branch, is_taken in ((expr.true_branch, condition), (expr.false_branch, z3.Not(condition))):
            count = len(self.claims.defined)
            # A branch has its own scope: variables of one branch are not those of the other.
            branches.append(self.value(branch, dict(values), dict(memo)))
            defined = self.claims.defined
            defined[count:] = [z3.Implies(is_taken, needed) for needed in defined[count:]]
        return _merged(condition, *branches)


def _merged(condition: Any, left: Value, right: Value) -> Value:
    """Return the value of an `If`."""
    if isinstance(left, tuple) and isinstance(right, tuple):
        return tuple(_merged(condition, *pair) for pair in zip(left, right, strict=True))
    one, other = as_tensor(left), as_tensor(right)
    return Tensor(one.dtype, mapped(partial(z3.If, condition), one.terms, other.terms))
