"""Printing of expressions, with TVM's rules for the placement of graph variables.

An operand that is not a leaf is assigned to a graph variable (`%0 = ...;`) on the line before its first use. The
expression at the end of a scope, or after `let %x =`, is printed in place, unless it has other uses.
"""

from collections import Counter
from collections.abc import Iterable
from itertools import chain
from typing import Final

from apass.core.diagnostics import Span
from apass.relay.ir.adt import Constructor, Match, Pattern
from apass.relay.ir.base import TextName
from apass.relay.ir.expr import (
    Annotate,
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
from apass.relay.text.literals import name_text, scalar_text
from apass.relay.text.metadata import MetadataWriter
from apass.relay.text.printing.doc import NEWLINE, Doc, Indented, braced
from apass.relay.text.printing.names import Names, TypeText
from apass.relay.text.printing.values import AttrsText
from apass.relay.visitors.patterns import pattern_text
from apass.relay.visitors.recursion import Walk

__all__ = ["ExprText"]

_INLINE: Final = frozenset({GlobalVar, Constant, Op, Var, Constructor})
_DATAFLOW: Final = frozenset({Call, Tuple, TupleGetItem, RefCreate, RefRead})


class ExprText:
    """Printer of expressions, shared by the functions of a module for unique names."""

    def __init__(self, meta: MetadataWriter, annotate: Annotate | None, show_meta_data: bool) -> None:
        self.types: TypeText = TypeText(meta, may_cut=not show_meta_data)
        """The printer of types."""
        self._meta = meta
        self._annotate = annotate
        self._attrs = AttrsText(meta, show_meta_data)
        self._names = Names()
        self._temporaries = 0
        self._begin()

    def _begin(self) -> None:
        self._memo: dict[Expr, Doc] = {}  # the text of each expression at its uses
        self._uses: Counter[Expr] = Counter()
        self._left: dict[Expr, int] = {}  # remaining uses of each expression with more than one use
        self._shared: list[tuple[Expr, int]] = []  # those with a line, and the number of scopes around it
        self._typed: set[Expr] = set()
        self._declared: set[Expr] = set()
        self._free: dict[Var, Doc] = {}
        self._lines: list[list[Doc]] = []

    def whole(self, expr: Expr) -> Walk[Doc]:
        """Print an expression. Free variables are declared before their first use."""
        self._begin()
        self._survey(expr)
        return (yield self._scope(expr))

    def definition(self, head: str, func: Function) -> Walk[Doc]:
        """Print a function of a module. `head` is the text before its parameters."""
        self._begin()
        self._survey(func)
        return (yield self._function(head, func))

    def global_name(self, gvar: GlobalVar) -> str:
        """Return the text of a global variable."""
        return f"@{name_text(gvar.name_hint, dots=True)}"

    def pattern(self, pattern: Pattern) -> str:
        """Return the text of a pattern."""
        return pattern_text(pattern, self._binder)

    def _survey(self, root: Expr) -> None:
        """Count the uses of each expression, and collect constants with typed users."""
        uses, stack = self._uses, [root]
        seen: set[Expr] = set()
        while stack:
            node = stack.pop()
            if node in seen:
                continue
            seen.add(node)
            children = _used_by(node)
            for child in children:
                if type(child) not in _INLINE:
                    uses[child] += 1
                    stack.append(child)
                elif node.checked_type_ is not None and isinstance(child, Constant):
                    self._typed.add(child)
        self._left = {expr: count for expr, count in uses.items() if count > 1}

    # Graph variables.

    def _print(self, expr: Expr, at_end: bool) -> Walk[Doc]:
        yield self._visit(expr)
        if at_end and self._uses[expr] <= 1 and type(expr) not in _INLINE:
            doc = self._memo[expr] = self._with_info(expr)
            return doc
        return self._use(expr)

    def _use(self, expr: Expr) -> Doc:
        """Return the text of a use of a visited expression. Add a line if it needs one."""
        if isinstance(expr, Var):
            if expr in self._free and expr not in self._declared:
                self._declared.add(expr)
                self._lines[-1] += [["free_var ", self._free[expr], ";"], NEWLINE]
            return self._memo[expr]
        if expr in self._left:
            self._left[expr] -= 1
        if expr not in self._declared:
            self._declare(expr)
        return self._memo[expr]

    def _declare(self, expr: Expr) -> None:
        self._declared.add(expr)
        doc = self._with_info(expr)
        self._memo[expr] = doc if type(expr) in _INLINE else self._on_a_line(expr, doc)
        if expr in self._left:
            self._shared.append((expr, len(self._lines)))

    def _is_used_after(self, mark: int) -> bool:
        """Return whether a line added in an inner scope since `mark` has further uses."""
        self._shared[mark:] = [entry for entry in self._shared[mark:] if self._left[entry[0]]]
        return any(depth > len(self._lines) for _, depth in self._shared[mark:])

    def _on_a_line(self, expr: Expr, doc: Doc) -> str:
        name = f"%{self._temporaries}"
        self._temporaries += 1
        if isinstance(expr, Let):
            doc = _in_parentheses(doc)
        line: Doc = f"{name} = {doc};" if isinstance(doc, str) else [f"{name} = ", doc, ";"]
        self._lines[-1] += [line, NEWLINE]
        return name

    def _with_info(self, expr: Expr) -> Doc:
        doc, info = self._memo[expr], self._info(expr)
        if not info:
            return doc
        return doc + info if isinstance(doc, str) else [doc, info]

    def _info(self, expr: Expr) -> str:
        if self._annotate is not None:
            return self._annotate(expr)
        if isinstance(expr, Call) and expr.checked_type_ is not None:
            return f" /* ty={self.types.in_comment(expr.checked_type_)} */"
        if isinstance(expr, Constant) and expr in self._typed:
            return f" /* ty={self.types.in_comment(expr.checked_type)} */"
        return ""

    # Kinds of nodes.

    def _visit(self, expr: Expr) -> Walk[Doc]:
        """Set the texts of an expression and its subexpressions, in post-order."""
        memo, stack = self._memo, [expr]
        while stack:
            node = stack[-1]
            if node in memo:
                stack.pop()
                continue
            if type(node) not in _DATAFLOW:
                stack.pop()
                if type(node) in _INLINE:
                    memo[node] = self._leaf(node)
                    continue
                mark = len(self._shared)
                memo[node] = yield self._scoped(node)
                if node is not expr and self._is_used_after(mark):
                    # TVM declares the node later, so that its text uses a graph variable before its definition.
                    self._declare(node)
                continue
            pending = [child for child in node.children if child not in memo]
            if pending:
                pending.reverse()
                stack += pending
                continue
            stack.pop()
            memo[node] = self._call(node) if isinstance(node, Call) else self._dataflow(node)
        return memo[expr]

    def _leaf(self, node: Expr) -> Doc:
        if isinstance(node, Op):
            return node.name
        if isinstance(node, Var):
            self._free[node] = self._binder(node)
            return self._memo[node]
        if isinstance(node, Constant):
            inline = scalar_text(node.data) if node.data.ndim == 0 else None
            return inline or self._meta.reference(node)
        if isinstance(node, GlobalVar):
            return self.global_name(node)
        return node.name_hint if isinstance(node, Constructor) else repr(node)

    def _call(self, call: Call) -> Doc:
        parts = [self._use(arg) for arg in call.args]
        if call.attrs is not None:
            parts += self._attrs.of_call(call.attrs, call.op)
        callee = self._use(call.op)
        if isinstance(call.op, Constructor) and not call.op.inputs:
            return callee
        return f"{callee}({', '.join(map(str, parts))}){_origin_text(call.span)}"

    def _dataflow(self, node: Expr) -> Doc:
        if isinstance(node, Tuple):
            fields = ", ".join(str(self._use(field)) for field in node.fields)
            return f"({fields},)" if len(node.fields) == 1 else f"({fields})"
        (operand,) = node.children
        inner = self._use(operand)
        if isinstance(node, TupleGetItem):
            # Without parentheses, `1.0` would be a float.
            return f"({inner}).{node.index}" if isinstance(operand, Constant) else f"{inner}.{node.index}"
        return f"ref({inner})" if isinstance(node, RefCreate) else f"ref_read({inner})"

    def _scoped(self, node: Expr) -> Walk[Doc]:
        if isinstance(node, Let):
            return (yield self._let(node))
        if isinstance(node, If):
            return (yield self._if(node))
        if isinstance(node, Function):
            return (yield self._function("fn ", node))
        if isinstance(node, Match):
            return (yield self._match(node))
        if isinstance(node, RefWrite):
            cell = yield self._print(node.ref, False)
            value = yield self._print(node.value, False)
            return f"ref_write({cell}, {value})"
        raise TypeError(f"cannot print {node!r}: expected a Relay expression")

    def _scope(self, expr: Expr) -> Walk[Doc]:
        lines: list[Doc] = []
        self._lines.append(lines)
        end = yield self._print(expr, True)
        self._lines.pop()
        return [*lines, end]

    def _let(self, let: Let) -> Walk[Doc]:
        lines: list[Doc] = []
        current: Expr = let
        while isinstance(current, Let) and (current is let or self._uses[current] <= 1):
            name = self._binder(current.var)
            # Lines of the first value go into the enclosing scope; lines of a later value precede its Let.
            value = yield self._print(current.value, True)
            if not lines:
                self._lines.append(lines)
            if isinstance(current.value, Let) and not isinstance(value, str):
                value = _in_parentheses(value)  # the parser could not find the end of the inner body otherwise
            lines += [f"let {name} = {value};" if isinstance(value, str) else [f"let {name} = ", value, ";"], NEWLINE]
            current = current.body
        lines.append((yield self._scope(current)))
        self._lines.pop()
        return lines

    def _if(self, node: If) -> Walk[Doc]:
        cond = yield self._print(node.cond, False)
        then = braced((yield self._scope(node.true_branch)))
        else_ = braced((yield self._scope(node.false_branch)))
        return [f"if ({cond}) ", then, " else ", else_]

    def _function(self, head: str, func: Function) -> Walk[Doc]:
        params = f"[{', '.join(self.types.bind(func.type_params))}]" if func.type_params else ""
        parts = chain(map(self._binder, func.params), self._attrs.of_items(func.attrs.items()))
        signature = f"{head}{params}({', '.join(parts)}) "
        if func.ret_type is not None:
            signature += f"-> {self.types(func.ret_type)} "
        body = braced((yield self._scope(func.body)))
        self.types.release(func.type_params)
        return [signature, body]

    def _match(self, node: Match) -> Walk[Doc]:
        data = yield self._print(node.data, False)
        cases: list[Doc] = []
        for clause in node.clauses:
            lhs = self.pattern(clause.lhs)
            cases += [NEWLINE, f"{lhs} => ", braced((yield self._scope(clause.rhs))), ","]
        return [f"match{'' if node.complete else '?'} ({data}) {{", Indented(cases or [NEWLINE]), NEWLINE, "}"]

    def _binder(self, var: Var) -> str:
        """Return the text of a variable at its binding. Mark a second binding."""
        if var in self._memo:
            return f"{self._memo[var]}-malformed-ir"
        name = self._memo[var] = self._names.of_variable(var.name_hint)
        ty = "" if var.type_annotation is None else f": {self.types(var.type_annotation)}"
        return f"{name}{ty}{'' if self._annotate is None else self._annotate(var)}"


def _used_by(node: Expr) -> Iterable[Expr]:
    """Return the children of a node, without the variables that it binds."""
    if isinstance(node, Let):
        return (node.value, node.body)
    if isinstance(node, Function):
        return (node.body,)
    if isinstance(node, Match):
        return (node.data, *(clause.rhs for clause in node.clauses))
    return node.children


def _origin_text(span: Span | None) -> str:
    """Return a comment with the name of the source.

    It may be the name of a node of an imported model.
    """
    if span is None or isinstance(span.source_name, TextName):
        return ""
    name = span.source_name.replace("*/", "* /").replace("/*", "/ *")  # comments nest
    return f" /* {name} */"


def _in_parentheses(doc: Doc) -> Doc:
    return ["(", Indented([NEWLINE, doc]), NEWLINE, ")"]
