"""`Inferencer`: finds the type of every expression below a root, as TVM's `TypeInferencer` does; for `type_infer`."""

from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial
from typing import Final, TypeAlias

from apass.relay.adt import Constructor, Match
from apass.relay.errors import TypeInferenceError
from apass.relay.expr import Call, Constant, Expr, GlobalVar, If, Let, Op, Tuple, TupleGetItem, Var
from apass.relay.function import Function
from apass.relay.ir.attrs import Attrs
from apass.relay.ir.module import IRModule
from apass.relay.ref import RefCreate, RefRead, RefWrite
from apass.relay.ty import FuncType, IncompleteType, Kind, RefType, TensorType, TupleType, Type, TypeCall, scalar_type
from apass.relay.type_inference.calls import CallTyper, type_of_op
from apass.relay.type_inference.errors import TypeErrors, describe, describe_pattern
from apass.relay.type_inference.kinds import check_kind
from apass.relay.type_inference.patterns import bind_pattern
from apass.relay.type_inference.solver import Constraint, TypeSolver
from apass.relay.type_inference.unify import type_text
from apass.relay.type_inference.unmatched_cases import unmatched_cases

__all__ = ["Inferencer", "TypeOfGlobal"]

TypeOfGlobal: TypeAlias = Callable[[GlobalVar], Type | str | None]
"""Gives the type of a global variable, or says why there is none; None if that has been said."""

_Steps: TypeAlias = Generator[Expr, None, Type]
"""How a node with scopes is typed: it yields the expressions that are to be typed first, and returns its own type."""

_BOOL: Final = scalar_type("bool")
_UNIT: Final = TupleType()


class Inferencer:
    """Finds types, without recursion: those of dataflow from the operands up, those of scopes step by step.

    Expressions that have a type already are taken at their word if `trusting`. What is wrong goes to `errors`.
    """

    def __init__(self, mod: IRModule, type_of_global: TypeOfGlobal, errors: TypeErrors, *, trusting: bool) -> None:
        self.types: dict[Expr, Type] = {}
        """The type of every expression that was met, what is below an expression before it; not resolved."""
        self.trusted: list[Expr] = []
        """The expressions that were taken at their word."""
        self.solver = TypeSolver(errors.add)
        """What the unknown types stand for."""
        self.calls = CallTyper(self.solver, errors)
        """The types of the calls."""
        self._mod = mod
        self._type_of_global = type_of_global
        self._errors = errors
        self._trusting = trusting
        self._signatures: dict[Function, FuncType] = {}
        self._open: dict[Expr, _Steps] = {}
        self._plain: Mapping[type[Expr], Callable[..., Type]] = {
            Var: self._type_var,
            Constant: self._type_constant,
            GlobalVar: self._type_global_var,
            Op: type_of_op,
            Constructor: self._type_constructor,
            Tuple: self._type_tuple,
            TupleGetItem: self._type_tuple_getitem,
            Call: self._type_call,
            RefCreate: self._type_ref_create,
            RefRead: self._type_ref_read,
            RefWrite: self._type_ref_write,
        }
        self._scoped: Mapping[type[Expr], Callable[..., _Steps]] = {
            Let: self._step_let,
            If: self._step_if,
            Function: self._step_function,
            Match: self._step_match,
        }

    def infer(self, root: Expr) -> Type:
        """Find the types of an expression and of all below it, and return its own."""
        types, queue, plain = self.types, self.solver.queue, self._plain
        if self._trusting and root.checked_type_ is not None:
            # Nothing around it can tell more about it, so it does not matter whether its type leaves something open.
            types[root] = root.checked_type_
            self.trusted.append(root)
        stack = [root]
        while stack:
            node = stack[-1]
            if node in types or (node.checked_type_ is not None and self._trust(node)):
                stack.pop()
                continue
            find_type = plain.get(type(node))
            if find_type is None:
                wanted = self._step(node)
                stack += () if wanted is None else (wanted,)
                continue
            below = [one for one in _operands(node) if one not in types]
            if below:
                stack += reversed(below)
                continue
            stack.pop()
            types[node] = find_type(node)
            if queue:
                self.solver.solve()
        return types[root]

    def signature(self, func: Function) -> FuncType:
        """Return the type of a function as far as its author tells it; what is not told is found with its body."""
        known = self._signatures.get(func)
        if known is None:
            ret_type = IncompleteType() if func.ret_type is None else func.ret_type
            known = self._signatures[func] = FuncType(self._type_params(func), ret_type, func.type_params)
        return known

    def _trust(self, node: Expr) -> bool:
        """Take an expression's own type for granted, if that is allowed and nothing in it is left open."""
        ty = node.checked_type_
        if not self._trusting or ty is None or not self.solver.is_complete(ty):
            return False
        self.types[node] = ty
        self.trusted.append(node)
        return True

    def _step(self, node: Expr) -> Expr | None:
        """Go on with a node that has scopes; return the expression that it wants to be typed next, None when done."""
        if node not in self._open:
            if type(node) not in self._scoped:
                raise TypeError(f"{node!r} is no Relay expression; it has no type")
            self._open[node] = self._scoped[type(node)](node)
        wanted: Expr | None = None
        try:
            wanted = next(self._open[node])
        except StopIteration as done:
            self.types[node] = done.value
            del self._open[node]
        self.solver.solve()
        return wanted

    def _check_annotation(self, expr: Expr, ty: Type) -> None:
        if type(ty) is TensorType or type(ty) is IncompleteType:
            return
        try:
            kind = check_kind(ty, self._mod)
        except TypeInferenceError as error:
            self._errors.add(expr, str(error))
            return
        if kind is not Kind.Type:
            self._errors.add(expr, f"`{ty}` is of kind {kind.name}: it is not the type of any value")

    def _type_var(self, var: Var) -> Type:
        if var.type_annotation is None:
            return IncompleteType()
        self._check_annotation(var, var.type_annotation)
        return var.type_annotation

    def _type_constant(self, const: Constant) -> Type:
        return const.checked_type

    def _type_global_var(self, gvar: GlobalVar) -> Type:
        found = self._type_of_global(gvar)
        return found if isinstance(found, Type) else self.calls.fail(gvar, found)

    def _type_constructor(self, con: Constructor) -> Type:
        if con.belong_to not in self._mod.type_definitions:
            return self.calls.fail(con, f"the data type `{con.belong_to}` is not defined in the module")
        variables = self._mod.get_type_data(con.belong_to).type_vars
        return FuncType(con.inputs, TypeCall(con.belong_to, variables), variables)

    def _type_tuple(self, tup: Tuple) -> Type:
        return TupleType([self.types[one] for one in tup.fields]) if tup.fields else _UNIT

    def _type_tuple_getitem(self, item: TupleGetItem) -> Type:
        found = self.types[item.tuple_value]
        if isinstance(found, TupleType) and 0 <= item.index < len(found.fields):
            return found.fields[item.index]
        result = IncompleteType()
        self.solver.relate(Constraint(item, partial(_project, item.index), None, (found, result)))
        return result

    def _type_call(self, call: Call) -> Type:
        args, op = [self.types[one] for one in call.args], call.op
        if type(op) is Op:
            return self.calls.op_call(call, op, args)
        return self.calls.function_call(call, self.types[op], args)

    def _type_ref_create(self, ref: RefCreate) -> Type:
        return RefType(self.types[ref.value])

    def _type_ref_read(self, read: RefRead) -> Type:
        return self._held_by(read, read.ref)

    def _type_ref_write(self, write: RefWrite) -> Type:
        held = self._held_by(write, write.ref)
        what = partial(_message, "the cell holds another type than `{}`", write.value)
        self.solver.unify_at(write, held, self.types[write.value], what, write.value)
        return _UNIT

    def _held_by(self, expr: Expr, ref: Expr) -> Type:
        found = self.solver.find(self.types[ref])
        if isinstance(found, RefType):
            return found.value
        held = IncompleteType()
        self.solver.unify_at(expr, RefType(held), found, partial(_message, "`{}` is no reference", ref), ref)
        return held

    def _step_let(self, let: Let) -> _Steps:
        var, value, types = let.var, let.value, self.types
        may_recur = isinstance(value, Function) and var not in types
        if isinstance(value, Function) and may_recur:
            given = types[value] if self._trust(value) else self.signature(value)
            types[var] = given if var.type_annotation is None else self._type_var(var)
        yield value
        if var in types and not may_recur:
            self._errors.add(let, f"`{describe(var)}` is used before it is bound, or bound more than once")
        found = types[value]
        if var not in types:
            types[var] = found if var.type_annotation is None else self._type_var(var)
        what = partial(_message, "`{}` is bound to a value of another type", var)
        self.solver.unify_at(let, types[var], found, what, value)
        yield let.body
        return types[let.body]

    def _step_if(self, ite: If) -> _Steps:
        yield ite.cond
        what = partial(_message, "the condition `{}` must be a scalar of type bool", ite.cond)
        self.solver.unify_at(ite, _BOOL, self.types[ite.cond], what, ite.cond)
        yield ite.true_branch
        yield ite.false_branch
        branches = [self.types[one] for one in (ite.true_branch, ite.false_branch)]
        return self.solver.unify_at(ite, self.solver.find(branches[0]), branches[1], _of_branches, ite.false_branch)

    def _step_function(self, func: Function) -> _Steps:
        signature = self._signatures.get(func)
        params = self._type_params(func) if signature is None else signature.arg_types
        yield func.body
        result = self.solver.known(self.types[func.body])
        if isinstance(result, FuncType):
            result = self.calls.instantiate(result)
        told = func.ret_type if signature is None else signature.ret_type
        if told is not None:
            self._check_annotation(func, told)
            what = partial(_message, "the body `{}` does not fit the type of the result", func.body)
            self.solver.unify_at(func, told, result, what, func.body)
        return signature or FuncType(params, result if told is None else told, func.type_params)

    def _type_params(self, func: Function) -> Sequence[Type]:
        for param in func.params:
            if param not in self.types:
                self.types[param] = self._type_var(param)
        return [self.types[param] for param in func.params]

    def _step_match(self, match: Match) -> _Steps:
        yield match.data
        errors_before = len(self._errors)
        for clause in match.clauses:
            context = (self._mod, self.solver, self._errors)
            for var, ty in bind_pattern(match, clause.lhs, self.types[match.data], *context):
                self._bind(match, var, ty)
        if match.complete and len(self._errors) == errors_before:
            self._check_complete(match)
        result: Type = IncompleteType()
        for clause in match.clauses:
            yield clause.rhs
            result = self.solver.unify_at(match, result, self.types[clause.rhs], _of_clauses, clause.rhs)
        return result

    def _bind(self, match: Match, var: Var, ty: Type) -> None:
        """Let a variable of a pattern be of a type."""
        if var.type_annotation is None and var not in self.types:
            self.types[var] = ty
            return
        if var not in self.types:
            self.types[var] = self._type_var(var)
        what = partial(_message, "`{}` is bound to a value of another type", var)
        self.solver.unify_at(match, self.types[var], ty, what)

    def _check_complete(self, match: Match) -> None:
        unmatched = unmatched_cases(match, self._mod)
        if unmatched:
            cases = ", ".join(f"`{describe_pattern(one)}`" for one in unmatched)
            self._errors.add(match, f"the match does not handle the following cases: {cases}")


def _operands(node: Expr) -> Sequence[Expr]:
    """Return what must be typed before a node that has no scopes: all below it but the operator of a call."""
    if isinstance(node, Call):
        return node.args if type(node.op) is Op else (*node.args, node.op)
    return node.children


def _project(index: int, types: Sequence[Type], attrs: Attrs | None) -> Sequence[Type | None] | None:
    """Relate the type of a tuple to the type of one of its fields."""
    whole = types[0]
    if isinstance(whole, IncompleteType):
        return None
    if not isinstance(whole, TupleType):
        raise TypeInferenceError(f"only a tuple has fields, but the value is of type `{type_text(whole)}`")
    if not 0 <= index < len(whole.fields):
        raise TypeInferenceError(
            f"there is no field {index}: the type `{type_text(whole)}` has {len(whole.fields)} fields"
        )
    return [None, whole.fields[index]]


def _message(message: str, expr: Expr) -> str:
    return message.format(describe(expr))


def _of_branches() -> str:
    return "the branches are of different types"


def _of_clauses() -> str:
    return "the clauses are of different types"
