"""`Inferencer`: types all subexpressions, like TVM's `TypeInferencer`."""

from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial
from typing import Final, TypeAlias

from apass.relay.errors import TypeInferenceError
from apass.relay.ir.adt import Constructor, Match
from apass.relay.ir.attrs import Attrs
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
from apass.relay.ir.ty import (
    FuncType,
    IncompleteType,
    Kind,
    RefType,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    scalar_type,
)
from apass.relay.type_inference.calls import CallTyper, type_of_op
from apass.relay.type_inference.errors import TypeErrors, describe, describe_pattern
from apass.relay.type_inference.kinds import check_kind
from apass.relay.type_inference.patterns import bind_pattern
from apass.relay.type_inference.solver import Constraint, TypeSolver
from apass.relay.type_inference.unify import type_text
from apass.relay.type_inference.unmatched_cases import unmatched_cases

__all__ = ["Inferencer", "TypeOfGlobal"]

TypeOfGlobal: TypeAlias = Callable[[GlobalVar], Type | str | None]
"""Returns the type of a global variable, an error message, or None if the error was reported before."""

_Steps: TypeAlias = Generator[Expr, None, Type]
"""Typing of a node with scopes: yields the expressions to type first, and returns the type of the node."""

_BOOL: Final = scalar_type("bool")
_UNIT: Final = TupleType()


class Inferencer:
    """Type inference of expressions, without recursion.

    Dataflow nodes are typed in post-order. Nodes with scopes are typed in steps by generators. If `trusting`, existing
    complete types of expressions are used. Errors are added to `errors`.
    """

    def __init__(self, mod: IRModule, type_of_global: TypeOfGlobal, errors: TypeErrors, *, trusting: bool) -> None:
        self.types: dict[Expr, Type] = {}
        """The unresolved type of each visited expression, in post-order."""
        self.trusted: list[Expr] = []
        """The expressions whose existing types were used."""
        self.solver: TypeSolver = TypeSolver(errors.add)
        """The solver of type constraints."""
        self.calls: CallTyper = CallTyper(self.solver, errors)
        """The typing rules of calls."""
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
        """Infer the types of an expression and its subexpressions, and return its type."""
        types, queue, plain = self.types, self.solver.queue, self._plain
        if self._trusting and root.checked_type_ is not None:
            # Use the type of the root even if it is incomplete: there is no context that could complete it.
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
                required = self._step(node)
                stack += () if required is None else (required,)
                continue
            pending = [operand for operand in _operands(node) if operand not in types]
            if pending:
                stack += reversed(pending)
                continue
            stack.pop()
            types[node] = find_type(node)
            if queue:
                self.solver.solve()
        return types[root]

    def signature(self, func: Function) -> FuncType:
        """Return the type of a function by its annotations, with unknown types for others."""
        existing = self._signatures.get(func)
        if existing is None:
            ret_type = IncompleteType() if func.ret_type is None else func.ret_type
            existing = self._signatures[func] = FuncType(self._type_params(func), ret_type, func.type_params)
        return existing

    def _trust(self, node: Expr) -> bool:
        """Use the existing type of an expression, if trusting and if it is complete."""
        ty = node.checked_type_
        if not self._trusting or ty is None or not self.solver.is_complete(ty):
            return False
        self.types[node] = ty
        self.trusted.append(node)
        return True

    def _step(self, node: Expr) -> Expr | None:
        """Advance a node with scopes. Return the next expression to type, None when done."""
        if node not in self._open:
            if type(node) not in self._scoped:
                raise TypeError(f"cannot infer the type of {node!r}: expected a Relay expression")
            self._open[node] = self._scoped[type(node)](node)
        required: Expr | None = None
        try:
            required = next(self._open[node])
        except StopIteration as done:
            self.types[node] = done.value
            del self._open[node]
        self.solver.solve()
        return required

    def _check_annotation(self, expr: Expr, ty: Type) -> None:
        if type(ty) is TensorType or type(ty) is IncompleteType:
            return
        try:
            kind = check_kind(ty, self._mod)
        except TypeInferenceError as error:
            self._errors.add(expr, str(error))
            return
        if kind is not Kind.Type:
            self._errors.add(expr, f"`{ty}` has kind {kind.name}, expected a type of kind Type")

    def _type_var(self, var: Var) -> Type:
        if var.type_annotation is None:
            return IncompleteType()
        self._check_annotation(var, var.type_annotation)
        return var.type_annotation

    def _type_constant(self, const: Constant) -> Type:
        return const.checked_type

    def _type_global_var(self, gvar: GlobalVar) -> Type:
        ty = self._type_of_global(gvar)
        return ty if isinstance(ty, Type) else self.calls.fail(gvar, ty)

    def _type_constructor(self, con: Constructor) -> Type:
        if con.belong_to not in self._mod.type_definitions:
            return self.calls.fail(con, f"the data type `{con.belong_to}` is not defined in the module")
        variables = self._mod.get_type_data(con.belong_to).type_vars
        return FuncType(con.inputs, TypeCall(con.belong_to, variables), variables)

    def _type_tuple(self, tup: Tuple) -> Type:
        return TupleType([self.types[field] for field in tup.fields]) if tup.fields else _UNIT

    def _type_tuple_getitem(self, item: TupleGetItem) -> Type:
        ty = self.types[item.tuple_value]
        if isinstance(ty, TupleType) and 0 <= item.index < len(ty.fields):
            return ty.fields[item.index]
        result = IncompleteType()
        self.solver.relate(Constraint(item, partial(_project, item.index), None, (ty, result)))
        return result

    def _type_call(self, call: Call) -> Type:
        args, op = [self.types[arg] for arg in call.args], call.op
        if type(op) is Op:
            return self.calls.op_call(call, op, args)
        return self.calls.function_call(call, self.types[op], args)

    def _type_ref_create(self, ref: RefCreate) -> Type:
        return RefType(self.types[ref.value])

    def _type_ref_read(self, read: RefRead) -> Type:
        return self._held_by(read, read.ref)

    def _type_ref_write(self, write: RefWrite) -> Type:
        held = self._held_by(write, write.ref)
        summary = partial(_message, "cannot write `{}` to the cell", write.value)
        self.solver.unify_at(write, held, self.types[write.value], summary, write.value)
        return _UNIT

    def _held_by(self, expr: Expr, ref: Expr) -> Type:
        ty = self.solver.find(self.types[ref])
        if isinstance(ty, RefType):
            return ty.value
        held = IncompleteType()
        self.solver.unify_at(expr, RefType(held), ty, partial(_message, "`{}` is not a reference", ref), ref)
        return held

    def _step_let(self, let: Let) -> _Steps:
        var, value, types = let.var, let.value, self.types
        # A function may refer to its variable, so the variable gets a type before the value does.
        may_recur = isinstance(value, Function) and var not in types
        if isinstance(value, Function) and may_recur:
            declared = types[value] if self._trust(value) else self.signature(value)
            types[var] = declared if var.type_annotation is None else self._type_var(var)
        yield value
        if var in types and not may_recur:
            self._errors.add(let, f"`{describe(var)}` is used before it is bound, or bound more than once")
        value_type = types[value]
        if var not in types:
            types[var] = value_type if var.type_annotation is None else self._type_var(var)
        summary = partial(_message, "`{}` is bound to a value of the wrong type", var)
        self.solver.unify_at(let, types[var], value_type, summary, value)
        yield let.body
        return types[let.body]

    def _step_if(self, ite: If) -> _Steps:
        yield ite.cond
        summary = partial(_message, "the condition `{}` must be a scalar of type bool", ite.cond)
        self.solver.unify_at(ite, _BOOL, self.types[ite.cond], summary, ite.cond)
        yield ite.true_branch
        yield ite.false_branch
        branches = [self.types[branch] for branch in (ite.true_branch, ite.false_branch)]
        return self.solver.unify_at(ite, self.solver.find(branches[0]), branches[1], _branches_error, ite.false_branch)

    def _step_function(self, func: Function) -> _Steps:
        signature = self._signatures.get(func)
        params = self._type_params(func) if signature is None else signature.arg_types
        yield func.body
        result = self.solver.known(self.types[func.body])
        if isinstance(result, FuncType):
            result = self.calls.instantiate(result)
        declared = func.ret_type if signature is None else signature.ret_type
        if declared is not None:
            self._check_annotation(func, declared)
            summary = partial(_message, "the body `{}` does not have the result type", func.body)
            self.solver.unify_at(func, declared, result, summary, func.body)
        return signature or FuncType(params, result if declared is None else declared, func.type_params)

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
            result = self.solver.unify_at(match, result, self.types[clause.rhs], _clauses_error, clause.rhs)
        return result

    def _bind(self, match: Match, var: Var, ty: Type) -> None:
        """Set the type of a pattern variable, or unify it with its annotation."""
        if var.type_annotation is None and var not in self.types:
            self.types[var] = ty
            return
        if var not in self.types:
            self.types[var] = self._type_var(var)
        summary = partial(_message, "`{}` is bound to a value of the wrong type", var)
        self.solver.unify_at(match, self.types[var], ty, summary)

    def _check_complete(self, match: Match) -> None:
        try:
            unmatched = unmatched_cases(match, self._mod)
        except TypeInferenceError as error:
            self._errors.add(match, str(error))
            return
        if unmatched:
            cases = ", ".join(f"`{describe_pattern(pattern)}`" for pattern in unmatched)
            self._errors.add(match, f"the match does not handle the following cases: {cases}")


def _operands(node: Expr) -> Sequence[Expr]:
    """Return the children to type before a dataflow node, without a called operator."""
    if isinstance(node, Call):
        return node.args if type(node.op) is Op else (*node.args, node.op)
    return node.children


def _project(index: int, types: Sequence[Type], attrs: Attrs | None) -> Sequence[Type | None] | None:
    """Type relation between a tuple and one of its fields."""
    whole = types[0]
    if isinstance(whole, IncompleteType):
        return None
    if not isinstance(whole, TupleType):
        raise TypeInferenceError(f"expected a tuple, found a value of type `{type_text(whole)}`")
    if not 0 <= index < len(whole.fields):
        raise TypeInferenceError(
            f"field {index} does not exist: the type `{type_text(whole)}` has {len(whole.fields)} fields"
        )
    return [None, whole.fields[index]]


def _message(message: str, expr: Expr) -> str:
    return message.format(describe(expr))


def _branches_error() -> str:
    return "the branches have different types"


def _clauses_error() -> str:
    return "the clauses have different types"
