"""`ExprBuilder`: grammar actions for expressions."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, NamedTuple

from apass.core.diagnostics import Span
from apass.errors import did_you_mean
from apass.relay.ir.adt import Clause, Constructor, Match
from apass.relay.ir.attrs import Attrs
from apass.relay.ir.expr import (
    OPS,
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
from apass.relay.ir.ndarray import NDArray
from apass.relay.ir.ty import GlobalTypeVar, IncompleteType, Type
from apass.relay.text.limits import TextLimits
from apass.relay.text.literals import scalar_of, string_of, whole_of
from apass.relay.text.metadata import MetaTable
from apass.relay.text.parsing.attrs import AttrEntry, AttrsBuilder
from apass.relay.text.parsing.precedence import Operand, Operation, resolve
from apass.relay.text.parsing.source import Source, TextError

__all__ = ["Bound", "ExprBuilder", "annotation"]

_TRUE: Final = NDArray.of(True)
_FALSE: Final = NDArray.of(False)


class Bound(NamedTuple):
    """A variable in scope, and the variable of the same name that it shadows."""

    var: Var
    word: str
    hidden: Var | None
    start: int


class Statement(NamedTuple):
    """A statement of a body. It becomes a Let if it has a value."""

    undo: Callable[[], None] | None  # closes the scope of the statement at the end of the body
    var: Var | None = None
    value: Expr | None = None
    start: int = 0


def annotation(ty: Type | None) -> Type | None:
    """Return the annotation of a type in the text.

    The type `_` is no annotation, as in TVM.
    """
    return None if isinstance(ty, IncompleteType) else ty


class ExprBuilder(AttrsBuilder):
    """Builder of expressions, with the names in scope."""

    def __init__(
        self,
        source: Source,
        meta: MetaTable,
        types: Mapping[str, GlobalTypeVar],
        constructors: Mapping[str, Constructor],
        globals_: Mapping[str, GlobalVar],
        limits: TextLimits,
    ) -> None:
        super().__init__(source, meta, types, limits)
        self._span = source.span
        self._constructors = dict(constructors)
        self._globals = dict(globals_)
        self._vars: dict[str, Var] = {}
        self._free: dict[str, Var] = {}
        self._graph: dict[str, Expr] = {}
        self._meta_constants: dict[str, Constant] = {}
        self._defaults: dict[str, Attrs | None] = {}  # default attributes by operator name

    # Variables.

    def bind(self, picked: str, start: int, end: int) -> Bound:
        """Bind a variable until `_unbind` is called."""
        return self._bind(picked, None, start)

    def bind_of_type(self, picked: tuple[str, Type], start: int, end: int) -> Bound:
        """Bind a variable with a type annotation."""
        return self._bind(*picked, start)

    def _bind(self, word: str, ty: Type | None, start: int) -> Bound:
        var = self._variable(word, ty, start)
        bound = Bound(var, word, self._vars.get(word), start)
        self._vars[word] = var
        return bound

    def _variable(self, word: str, ty: Type | None, start: int) -> Var:
        name = string_of(word[1:]) if word[1] == '"' else word[1:]
        return Var(name, annotation(ty), span=self._span(start, start + len(word)))

    def _unbind(self, bound: Bound) -> None:
        if bound.hidden is None:
            self._vars.pop(bound.word, None)
        else:
            self._vars[bound.word] = bound.hidden

    def local(self, picked: str, start: int, end: int) -> Expr:
        """Look up a local or free variable."""
        expr = self._vars.get(picked) or self._free.get(picked)
        if expr is None:
            hint = did_you_mean(picked, [*self._vars, *self._free], listing="there are: ")
            raise TextError(f"there is no variable `{picked}` here{hint}", start, end)
        return expr

    def graph(self, picked: str, start: int, end: int) -> Expr:
        """Look up a graph variable."""
        expr = self._graph.get(picked)
        if expr is None:
            hint = did_you_mean(picked, self._graph) if self._graph else ""
            raise TextError(f"there is no graph variable `{picked}` yet{hint}", start, end)
        return expr

    def global_var(self, picked: str, start: int, end: int) -> GlobalVar:
        """Return the global variable of a name, the same object for each use."""
        if picked not in self._globals:
            name = string_of(picked[1:]) if picked[1] == '"' else picked[1:]
            self._globals[picked] = GlobalVar(name, span=self._span(start, end))
        return self._globals[picked]

    def name(self, picked: str, start: int, end: int) -> Expr:
        """Look up a constructor or an operator; a constructor takes precedence."""
        op = OPS.get(picked)
        con = self._constructors.get(picked) if op is None or self._constructors else None
        if con is not None:
            return con if con.inputs else Call(con, (), span=self._span(start, end))
        if op is None:
            hint = did_you_mean(picked, [*OPS, *self._constructors])
            raise TextError(f"there is no operator or constructor `{picked}`{hint}", start, end)
        return op

    # Bodies.

    def first_statement(self, picked: Statement | None, start: int, end: int) -> list[Statement]:
        """Start the statements of a body."""
        return [] if picked is None else [picked]

    def next_statement(self, picked: tuple[list[Statement], Statement | None], start: int, end: int) -> list[Statement]:
        """Append to the statements of a body."""
        statements, statement = picked
        if statement is not None:
            statements.append(statement)
        return statements

    def first_bind(self, picked: tuple[str, Expr], start: int, end: int) -> list[Statement]:
        """Start the statements of a body with a graph variable."""
        return self.next_bind(([], *picked), start, end)

    def next_bind(self, picked: tuple[list[Statement], str, Expr], start: int, end: int) -> list[Statement]:
        """Set a graph variable to an expression.

        The value stays visible after the body, because the printer shares expressions among branches. If the variable
        had a value before the body, that value is restored.
        """
        statements, word, value = picked
        word = word[:-1].rstrip()
        hidden = self._graph.get(word)
        self._graph[word] = value
        if hidden is not None:
            statements.append(Statement(partial(self._graph.__setitem__, word, hidden)))
        return statements

    def let(self, picked: tuple[Bound, Expr], start: int, end: int) -> Statement:
        """Return a Let without a body."""
        bound, value = picked
        return Statement(partial(self._unbind, bound), bound.var, value, start)

    def ignore(self, picked: Expr, start: int, end: int) -> Statement:
        """Return a Let of an unused value, without a body."""
        return Statement(None, Var("_", span=self._span(start, end)), picked, start)

    def free_var(self, picked: str, start: int, end: int) -> None:
        """Declare a free variable."""
        self.free_var_of_type((picked, None), start, end)

    def free_var_of_type(self, picked: tuple[str, Type | None], start: int, end: int) -> None:
        """Declare a free variable with a type annotation."""
        word, ty = picked
        self._free[word] = self._variable(word, ty, self._source.text.index("%", start))

    def sequence(self, picked: tuple[list[Statement], Expr], start: int, end: int) -> Expr:
        """Return the value inside the Lets of the statements, and close their scopes."""
        statements, body = picked
        end_line, end_column = self._source.position(end)
        for statement in reversed(statements):
            if statement.undo is not None:
                statement.undo()
            if statement.var is not None and statement.value is not None:
                line, column = self._source.position(statement.start)
                span = Span(self._source.name, line, end_line, column, end_column)
                body = Let(statement.var, statement.value, body, span=span)
        return body

    # Operations.

    def operand(self, picked: Expr, start: int, end: int) -> Operand:
        """Return a term with its location."""
        return Operand(picked, start, end)

    def first_operation(self, picked: tuple[Operand, str, Operand], start: int, end: int) -> Operation:
        """Start a sequence of operands and operators."""
        left, operator, right = picked
        return Operation([left, right], [operator])

    def next_operation(self, picked: tuple[Operation, str, Operand], start: int, end: int) -> Operation:
        """Append to a sequence of operands and operators."""
        operation, operator, operand = picked
        operation.operators.append(operator)
        operation.operands.append(operand)
        return operation

    def resolve(self, picked: Operation, start: int, end: int) -> Expr:
        """Return the nested calls for a sequence of operands and operators."""
        return resolve(picked, self._span)

    # Terms.

    def number(self, picked: str, start: int, end: int) -> Constant:
        """Return a scalar constant."""
        return Constant(self._literal(scalar_of, picked, start, end), span=self._span(start, end))

    def true(self, picked: object, start: int, end: int) -> Constant:
        """Return the constant true."""
        return Constant(_TRUE, span=self._span(start, end))

    def false(self, picked: object, start: int, end: int) -> Constant:
        """Return the constant false."""
        return Constant(_FALSE, span=self._span(start, end))

    def meta_expr(self, picked: str, start: int, end: int) -> object:
        """Look up an expression or the attributes of a call in the metadata."""
        if picked in self._meta_constants:
            return self._meta_constants[picked]
        expr = self.meta_object(picked, start, end)
        if isinstance(expr, Constant):
            self._meta_constants[picked] = Constant(expr.data, span=self._span(start, end))
            return self._meta_constants[picked]
        if not isinstance(expr, Expr | Attrs):
            raise TextError(f"`{picked}` must be an expression, got {expr!r}", start, end)
        return expr

    def get_field(self, picked: tuple[Expr, str], start: int, end: int) -> TupleGetItem:
        """Return a field of a tuple."""
        value, field = picked
        return TupleGetItem(value, self._literal(whole_of, field[1:], start, end), span=self._span(start, end))

    def call_of_names(self, picked: str, start: int, end: int) -> Call:
        """Return a call of variables in the printer's spacing: `name(%x, %0)`."""
        name, _, names = picked[:-1].partition("(")
        args: list[Expr] = []
        for word in names.split(", "):
            expr = self._vars.get(word) or self._graph.get(word)
            if expr is None:
                offset = start + len(name) + 1 + sum(len(before) + 2 for before in names.split(", ")[: len(args)])
                look_up = self.graph if word[1:].isdigit() else self.local
                expr = look_up(word, offset, offset + len(word))
            args.append(expr)
        return self.call((self.name(name, start, start + len(name)), args), start, end)

    def call_empty(self, picked: Expr, start: int, end: int) -> Expr:
        """Return a call without arguments."""
        # The name of a constructor without arguments is a call already; see `name`.
        con = picked.op if isinstance(picked, Call) else None
        if isinstance(con, Constructor) and self._source.text.startswith(con.name_hint, start):
            return picked
        return self.call((picked, []), start, end)

    def call(self, picked: tuple[Expr, list[Expr]], start: int, end: int) -> Call:
        """Return a call without attributes in the text."""
        callee, args = picked
        attrs = None
        if isinstance(callee, Op) and callee.attrs_type is not None:
            if args and isinstance(args[-1], Attrs):
                return Call(callee, args[:-1], args[-1], span=self._span(start, end))
            if callee.name not in self._defaults:
                self._defaults[callee.name] = self._attrs_of_op(callee, [], start, end)
            attrs = self._defaults[callee.name]
        return Call(callee, args, attrs, span=self._span(start, end))

    def call_attrs(self, picked: tuple[Expr, list[AttrEntry]], start: int, end: int) -> Call:
        """Return a call with attributes only."""
        callee, attrs = picked
        return self.call_values_attrs((callee, [], attrs), start, end)

    def call_values_attrs(self, picked: tuple[Expr, list[Expr], list[AttrEntry]], start: int, end: int) -> Call:
        """Return a call with arguments and attributes."""
        callee, args, entries = picked
        if isinstance(callee, Op):
            attrs = self._attrs_of_op(callee, entries, start, end)
        else:
            attrs = self._attrs_by_key(entries, start, end)
        return Call(callee, args, attrs, span=self._span(start, end))

    def unit(self, picked: object, start: int, end: int) -> Tuple:
        """Return the empty tuple."""
        return Tuple((), span=self._span(start, end))

    def tuple_of_one(self, picked: Expr, start: int, end: int) -> Tuple:
        """Return a tuple with one field."""
        return Tuple((picked,), span=self._span(start, end))

    def tuple_of(self, picked: tuple[Expr, list[Expr]], start: int, end: int) -> Tuple:
        """Return a tuple with two or more fields."""
        first, others = picked
        return Tuple((first, *others), span=self._span(start, end))

    def ref(self, picked: Expr, start: int, end: int) -> RefCreate:
        """Return the creation of a reference."""
        return RefCreate(picked, span=self._span(start, end))

    def ref_read(self, picked: Expr, start: int, end: int) -> RefRead:
        """Return a read of a reference."""
        return RefRead(picked, span=self._span(start, end))

    def ref_write(self, picked: tuple[Expr, Expr], start: int, end: int) -> RefWrite:
        """Return a write to a reference."""
        return RefWrite(*picked, span=self._span(start, end))

    def if_else(self, picked: tuple[Expr, Expr, Expr], start: int, end: int) -> If:
        """Return a conditional expression."""
        return If(*picked, span=self._span(start, end))

    # Matches.

    def match(self, picked: tuple[Expr, list[Clause]], start: int, end: int) -> Match:
        """Return a complete match."""
        return Match(*picked, span=self._span(start, end))

    def match_some(self, picked: tuple[str, Expr, list[Clause]], start: int, end: int) -> Match:
        """Return a match that need not be complete."""
        _, data, clauses = picked
        return Match(data, clauses, False, span=self._span(start, end))
