"""What the parser makes of expressions."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, NamedTuple

from apass.core.diagnostics import Span
from apass.errors import did_you_mean
from apass.relay.adt import Clause, Constructor, Match
from apass.relay.expr import OPS, Call, Constant, Expr, GlobalVar, If, Let, Op, Tuple, TupleGetItem, Var
from apass.relay.ir.attrs import Attrs
from apass.relay.ir.ndarray import NDArray
from apass.relay.ref import RefCreate, RefRead, RefWrite
from apass.relay.text.literals import LiteralError, scalar_of, string_of
from apass.relay.text.metadata import MetaTable
from apass.relay.text.parsing.attrs import AttrsBuilder, Entry
from apass.relay.text.parsing.precedence import Operand, Operation, resolve
from apass.relay.text.parsing.source import Source, TextError
from apass.relay.ty import GlobalTypeVar, Type

__all__ = ["Bound", "ExprBuilder"]

_TRUE: Final = NDArray.of(True)
_FALSE: Final = NDArray.of(False)


class Bound(NamedTuple):
    """A variable that is in scope from here on, and what its name stood for before."""

    var: Var
    word: str
    hidden: Var | None
    start: int


class Statement(NamedTuple):
    """What stands before the value of a body: it is undone at its end, and a Let is made of it if it has a value."""

    undo: Callable[[], None] | None
    var: Var | None = None
    value: Expr | None = None
    start: int = 0


class ExprBuilder(AttrsBuilder):
    """Makes expressions; knows what each name stands for at each place."""

    def __init__(
        self,
        source: Source,
        meta: MetaTable,
        types: Mapping[str, GlobalTypeVar],
        constructors: Mapping[str, Constructor],
        globals_: Mapping[str, GlobalVar],
    ) -> None:
        super().__init__(source, meta, types)
        self._span = source.span
        self._constructors = dict(constructors)
        self._globals = dict(globals_)
        self._vars: dict[str, Var] = {}
        self._free: dict[str, Var] = {}
        self._graph: dict[str, Expr] = {}
        self._meta_constants: dict[str, Constant] = {}
        self._defaults: dict[str, Attrs | None] = {}  # of the operators that were called without attributes

    # Variables.

    def bind(self, picked: str, start: int, end: int) -> Bound:
        """Bind a variable, until `_unbind` is called."""
        return self._bind(picked, None, start)

    def bind_of_type(self, picked: tuple[str, Type], start: int, end: int) -> Bound:
        """Bind a variable of a type."""
        return self._bind(*picked, start)

    def _bind(self, word: str, ty: Type | None, start: int) -> Bound:
        var = self._variable(word, ty, start)
        bound = Bound(var, word, self._vars.get(word), start)
        self._vars[word] = var
        return bound

    def _variable(self, word: str, ty: Type | None, start: int) -> Var:
        name = string_of(word[1:]) if word[1] == '"' else word[1:]
        return Var(name, ty, span=self._span(start, start + len(word)))

    def _unbind(self, bound: Bound) -> None:
        if bound.hidden is None:
            self._vars.pop(bound.word, None)
        else:
            self._vars[bound.word] = bound.hidden

    def local(self, picked: str, start: int, end: int) -> Expr:
        """Look up a variable."""
        found = self._vars.get(picked) or self._free.get(picked)
        if found is None:
            hint = did_you_mean(picked, [*self._vars, *self._free], listing="there are: ")
            raise TextError(f"there is no variable `{picked}` here{hint}", start, end)
        return found

    def graph(self, picked: str, start: int, end: int) -> Expr:
        """Look up a graph variable."""
        found = self._graph.get(picked)
        if found is None:
            hint = did_you_mean(picked, self._graph) if self._graph else ""
            raise TextError(f"there is no graph variable `{picked}` yet{hint}", start, end)
        return found

    def global_var(self, picked: str, start: int, end: int) -> GlobalVar:
        """Return the global variable of a name, the same one each time."""
        if picked not in self._globals:
            name = string_of(picked[1:]) if picked[1] == '"' else picked[1:]
            self._globals[picked] = GlobalVar(name, span=self._span(start, end))
        return self._globals[picked]

    def name(self, picked: str, start: int, end: int) -> Expr:
        """Look up a constructor, or else an operator."""
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
        """Begin the statements of a body."""
        return [] if picked is None else [picked]

    def next_statement(self, picked: tuple[list[Statement], Statement | None], start: int, end: int) -> list[Statement]:
        """Go on with the statements of a body."""
        statements, statement = picked
        if statement is not None:
            statements.append(statement)
        return statements

    def first_bind(self, picked: tuple[str, Expr], start: int, end: int) -> list[Statement]:
        """Begin the statements of a body with a graph variable."""
        return self.next_bind(([], *picked), start, end)

    def next_bind(self, picked: tuple[list[Statement], str, Expr], start: int, end: int) -> list[Statement]:
        """Let a graph variable stand for an expression.

        It keeps its meaning after the body, as the printer shares expressions among branches, unless it had one before.
        """
        statements, word, value = picked
        word = word[:-1].rstrip()
        hidden = self._graph.get(word)
        self._graph[word] = value
        if hidden is not None:
            statements.append(Statement(partial(self._graph.__setitem__, word, hidden)))
        return statements

    def let(self, picked: tuple[Bound, Expr], start: int, end: int) -> Statement:
        """Return a Let that has no body yet."""
        bound, value = picked
        return Statement(partial(self._unbind, bound), bound.var, value, start)

    def ignore(self, picked: Expr, start: int, end: int) -> Statement:
        """Return a Let, without a body yet, of a value that is not used."""
        return Statement(None, Var("_", span=self._span(start, end)), picked, start)

    def free_var(self, picked: str, start: int, end: int) -> None:
        """Declare a free variable."""
        self.free_var_of_type((picked, None), start, end)

    def free_var_of_type(self, picked: tuple[str, Type | None], start: int, end: int) -> None:
        """Declare a free variable of a type."""
        word, ty = picked
        self._free[word] = self._variable(word, ty, self._source.text.index("%", start))

    def sequence(self, picked: tuple[list[Statement], Expr], start: int, end: int) -> Expr:
        """Put the statements before the value, and end their scope."""
        statements, body = picked
        source, last = self._source, self._source.place(end)
        for one in reversed(statements):
            if one.undo is not None:
                one.undo()
            if one.var is not None and one.value is not None:
                body = Let(one.var, one.value, body, span=Span(source.name, *source.place(one.start), *last))
        return body

    # Operations.

    def operand(self, picked: Expr, start: int, end: int) -> Operand:
        """Return a term together with its place."""
        return Operand(picked, start, end)

    def first_operation(self, picked: tuple[Operand, str, Operand], start: int, end: int) -> Operation:
        """Begin a sequence of operators and operands."""
        left, operator, right = picked
        return Operation([left, right], [operator])

    def next_operation(self, picked: tuple[Operation, str, Operand], start: int, end: int) -> Operation:
        """Go on with a sequence of operators and operands."""
        operation, operator, operand = picked
        operation.operators.append(operator)
        operation.operands.append(operand)
        return operation

    def resolve(self, picked: Operation, start: int, end: int) -> Expr:
        """Return the calls that the operators stand for."""
        return resolve(picked, self._span)

    # Terms.

    def number(self, picked: str, start: int, end: int) -> Constant:
        """Return a scalar."""
        try:
            return Constant(scalar_of(picked), span=self._span(start, end))
        except LiteralError as error:
            raise TextError(str(error), start, end) from None

    def true(self, picked: object, start: int, end: int) -> Constant:
        """Return the constant true."""
        return Constant(_TRUE, span=self._span(start, end))

    def false(self, picked: object, start: int, end: int) -> Constant:
        """Return the constant false."""
        return Constant(_FALSE, span=self._span(start, end))

    def meta_expr(self, picked: str, start: int, end: int) -> object:
        """Look up an expression, or the attributes of a call."""
        if picked in self._meta_constants:
            return self._meta_constants[picked]
        found = self.meta_object(picked, start, end)
        if isinstance(found, Constant):
            self._meta_constants[picked] = Constant(found.data, span=self._span(start, end))
            return self._meta_constants[picked]
        if not isinstance(found, Expr | Attrs):
            raise TextError(f"`{picked}` is no expression, but {found!r}", start, end)
        return found

    def get_field(self, picked: tuple[Expr, str], start: int, end: int) -> TupleGetItem:
        """Return a field of a tuple."""
        value, field = picked
        return TupleGetItem(value, int(field[1:]), span=self._span(start, end))

    def call_of_names(self, picked: str, start: int, end: int) -> Call:
        """Call with arguments that are variables, `name(%x, %0)`, spaced as the printer does it."""
        name, _, names = picked[:-1].partition("(")
        args: list[Expr] = []
        for word in names.split(", "):
            found = self._vars.get(word) or self._graph.get(word)
            if found is None:
                at = start + len(name) + 1 + sum(len(before) + 2 for before in names.split(", ")[: len(args)])
                look_up = self.graph if word[1:].isdigit() else self.local
                found = look_up(word, at, at + len(word))
            args.append(found)
        return self.call((self.name(name, start, start + len(name)), args), start, end)

    def call_empty(self, picked: Expr, start: int, end: int) -> Expr:
        """Call without arguments; a constructor that takes none was called by its name already."""
        con = picked.op if isinstance(picked, Call) else None
        if isinstance(con, Constructor) and self._source.text.startswith(con.name_hint, start):
            return picked
        return self.call((picked, []), start, end)

    def call(self, picked: tuple[Expr, list[Expr]], start: int, end: int) -> Call:
        """Call with arguments alone."""
        callee, args = picked
        attrs = None
        if isinstance(callee, Op) and callee.attrs_type is not None:
            if args and isinstance(args[-1], Attrs):
                return Call(callee, args[:-1], args[-1], span=self._span(start, end))
            if callee.name not in self._defaults:
                self._defaults[callee.name] = self._attrs_of_op(callee, [], start, end)
            attrs = self._defaults[callee.name]
        return Call(callee, args, attrs, span=self._span(start, end))

    def call_attrs(self, picked: tuple[Expr, list[Entry]], start: int, end: int) -> Call:
        """Call with attributes alone."""
        callee, attrs = picked
        return self.call_values_attrs((callee, [], attrs), start, end)

    def call_values_attrs(self, picked: tuple[Expr, list[Expr], list[Entry]], start: int, end: int) -> Call:
        """Call with arguments and attributes."""
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
        """Return a tuple of one field."""
        return Tuple((picked,), span=self._span(start, end))

    def tuple_of(self, picked: tuple[Expr, list[Expr]], start: int, end: int) -> Tuple:
        """Return a tuple."""
        first, others = picked
        return Tuple((first, *others), span=self._span(start, end))

    def ref(self, picked: Expr, start: int, end: int) -> RefCreate:
        """Return a new reference."""
        return RefCreate(picked, span=self._span(start, end))

    def ref_read(self, picked: Expr, start: int, end: int) -> RefRead:
        """Return what a reference holds."""
        return RefRead(picked, span=self._span(start, end))

    def ref_write(self, picked: tuple[Expr, Expr], start: int, end: int) -> RefWrite:
        """Change what a reference holds."""
        return RefWrite(*picked, span=self._span(start, end))

    def if_else(self, picked: tuple[Expr, Expr, Expr], start: int, end: int) -> If:
        """Return a choice."""
        return If(*picked, span=self._span(start, end))

    # Matches.

    def match(self, picked: tuple[Expr, list[Clause]], start: int, end: int) -> Match:
        """Return a match that some clause must fit."""
        return Match(*picked, span=self._span(start, end))

    def match_some(self, picked: tuple[str, Expr, list[Clause]], start: int, end: int) -> Match:
        """Return a match that perhaps no clause fits."""
        _, data, clauses = picked
        return Match(data, clauses, False, span=self._span(start, end))
