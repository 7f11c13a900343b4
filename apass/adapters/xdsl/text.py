"""The text of xDSL modules: contexts, parsing and printing."""

import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from io import StringIO
from typing import Any, Final

from xdsl.context import Context
from xdsl.dialect_interfaces.op_asm import OpAsmDialectInterface
from xdsl.dialects.builtin import AnyFloat, Builtin, LocationAttr, ModuleOp, UnknownLoc, UnregisteredOp
from xdsl.dialects.test import Test
from xdsl.ir import Attribute, BlockArgument, Dialect, Operation, SSAValue
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.universe import Universe
from xdsl.utils.exceptions import DiagnosticException, ParseError, VerifyException
from xdsl.utils.lexer import Span

from apass.concurrency.run_locals import RunLocal
from apass.core.config import provide_config_option
from apass.core.context import PassContext
from apass.errors import AdapterError, VerifyError
from apass.util.text import raising_line, short_reason

__all__ = [
    "ALLOW_UNREGISTERED",
    "PRINT_GENERIC",
    "PRINT_LOCATIONS",
    "full_message",
    "new_context",
    "parse_module",
    "print_module",
    "print_operation",
    "to_bytes",
    "verify_module",
]

ALLOW_UNREGISTERED: Final = provide_config_option(
    "xdsl.allow_unregistered_dialect", bool, False, "accept operations, types and attributes of unknown dialects"
)
PRINT_GENERIC: Final = provide_config_option("xdsl.print_generic", bool, False, "write files in the generic format")
PRINT_LOCATIONS: Final = provide_config_option(
    "xdsl.print_locations", bool, True, "write the locations of modules that have some"
)

RESOURCE_DIALECTS: Final = (Builtin, Test)
"""The dialects that keep large data, `dense_resource<...>`, outside of the operations."""


CONTEXT: Final[RunLocal[Context | None]] = RunLocal("xdsl_context", None)
"""The context of all passes of a run; None for one of its own for each pass."""

VERIFY: Final[RunLocal[bool]] = RunLocal("xdsl_verify", True)
"""Whether the results of passes are verified."""

DIALECTS: Final[dict[str, Callable[[], Dialect]]] = {}
"""The dialects of users, by name; see `register_dialect`."""


def new_context(*, allow_unregistered: bool | None = None) -> Context:
    """Return a context with every dialect of the installation, none of them loaded.

    A context changes while it is used, so concurrent modules must not share one.

    Parameters:
        allow_unregistered: whether unknown dialects are accepted; None for the config option of the current context.

    """
    given = CONTEXT.get()
    if given is not None:
        return given
    if allow_unregistered is None:
        allow_unregistered = PassContext.current().config[ALLOW_UNREGISTERED]
    context = Context(allow_unregistered)
    for name, dialect in {**_dialects(), **DIALECTS}.items():
        context.register_dialect(name, dialect)
    return context


@cache
def _dialects() -> Mapping[str, Callable[[], Dialect]]:
    """Return the dialects of the installation, by name."""
    # To find them takes 20 ms, and each pass needs a context.
    return Universe.get_multiverse().all_dialects


def parse_module(text: str, name: str, *, allow_unregistered: bool | None = None) -> ModuleOp:
    """Return the module that a text describes.

    Operations outside of a `builtin.module` are placed in one.

    Parameters:
        text: the text, in the generic format or in that of the dialects.
        name: the name of the file in error messages.
        allow_unregistered: see `new_context`.

    Raises:
        AdapterError: if the text cannot be parsed; the message gives line and column.

    """
    context = new_context(allow_unregistered=allow_unregistered)
    try:
        return _Parser(context, text, name).parse_module()
    except RecursionError:
        raise AdapterError(f"cannot parse {name}: its regions, types or attributes are nested too deeply") from None
    except ParseError as error:
        raise AdapterError(f"cannot parse {str(error).strip()}") from error
    except Exception as error:  # dialects raise many types, such as VerifyException for an invalid attribute
        raise AdapterError(f"cannot parse {name}: {short_reason(error)}") from error


_HEAD: Final = re.compile(r'(?:%(?P<result>[\w$.-]+) = )?"(?P<name>[\w$.]+)"\((?P<operands>[\w$.%, -]*)\)', re.ASCII)
"""The beginning of an operation in the generic format, as it is printed: at most one result, the name, and operands."""


@dataclass(frozen=True, slots=True)
class _Form:
    """An operation in the generic format, without its operands and its result.

    The rest of the line describes it.
    """

    kind: type[Operation]
    operand_types: Sequence[Attribute]
    result_types: Sequence[Attribute]
    properties: Mapping[str, Attribute]
    attributes: Mapping[str, Attribute]
    location: LocationAttr


@dataclass(frozen=True, slots=True)
class _BitPattern:
    """A hexadecimal element of `dense<...>`: bits of a float, or an integer."""

    element: Any
    """The element of xDSL, whose value is an integer."""

    def to_type(self, parser: AttrParser, tp: Any) -> Any:
        """Return the number of that type."""
        if not isinstance(tp, AnyFloat):
            return self.element.to_type(parser, tp)
        bits: int = self.element.value
        if bits.bit_length() > tp.bitwidth:
            parser.raise_error(f"{bits:#x} has more bits than {tp}", at_position=self.element.span)
        return next(tp.iter_unpack(bits.to_bytes(tp.compile_time_size, "little")))


class _Parser(Parser):
    """A parser that is fast for the generic format, and reads what xDSL loses.

    The operations of a module often differ in their operands only. The rest of a line is parsed once.

    The data of `dense_resource<key>` is kept by the dialect, for all modules of the process. If it has a key already,
    xDSL 0.74 chooses another one at each use of the key in the text, none of which has data.
    """

    def __init__(self, context: Context, text: str, name: str) -> None:
        super().__init__(context, text, name)
        self._text = text
        self._handles: dict[tuple[str, str], str] = {}
        self._forms: dict[tuple[str, str], _Form] = {}

    def _parse_tensor_literal_element(self) -> Any:
        """Parse an element of `dense<...>`, in hexadecimal as bits."""
        # xDSL 0.75 prints floats in hexadecimal, and reads them as integers.
        is_hexadecimal = self._current_token.text[:2] == "0x"
        element = super()._parse_tensor_literal_element()
        return _BitPattern(element) if is_hexadecimal else element

    def _parse_dialect_resource_handle(self, dialect_name: str, interface: OpAsmDialectInterface) -> str:
        key = self.parse_identifier(context_msg=" for resource handle")
        handle = self._handles.get((dialect_name, key))
        if handle is None:
            handle = self._handles[dialect_name, key] = interface.declare_resource(key)
        return handle

    def parse_operation(self) -> Operation:
        """Parse an operation, with the form of an equal line if there was one."""
        start = self._current_token.span.start
        head = _HEAD.match(self._text, start)
        end = -1 if head is None else self._text.find("\n", head.end())
        if head is None or end < 0:
            return super().parse_operation()
        key = head["name"], self._text[head.end() : end]
        form = self._forms.get(key)
        op = None if form is None else self._made(form, head["operands"], head["result"])
        if op is None:
            op = super().parse_operation()
            is_whole_line = self._text[end : self._current_token.span.start].isspace()
            if is_whole_line and not op.regions and not op.successors and not isinstance(op, UnregisteredOp):
                self._forms[key] = _Form(
                    type(op), op.operand_types, op.result_types, op.properties.copy(), op.attributes.copy(), op.location
                )
        else:
            if head["result"] is not None:
                span = Span(head.start("result") - 1, head.end("result"), self.lexer.input)
                self._register_ssa_definition(head["result"], op.results, span)
            self._resume_from(end)
        return op

    def _made(self, form: _Form, operands: str, result: str | None) -> Operation | None:
        """Return an operation of that form; None if it needs the whole parser."""
        names = operands.split(", ") if operands else []
        if len(names) != len(form.operand_types) or (result is not None and len(form.result_types) != 1):
            return None
        values: list[SSAValue] = []
        for name, tp in zip(names, form.operand_types, strict=True):
            known = self.ssa_values.get(name[1:])
            if known is None or known[0].type != tp:
                return None
            values.append(known[0])
        return form.kind.create(
            operands=values,
            result_types=form.result_types,
            properties=dict(form.properties),
            attributes=dict(form.attributes),
            location=form.location,
        )


def verify_module(mod: Operation, subject: str) -> None:
    """Check the rules of the dialects, in a module or a function.

    Raises:
        VerifyError: if the module breaks one, or a verifier fails.

    """
    try:
        mod.verify()
    except (VerifyException, DiagnosticException) as error:
        raise VerifyError(f"{subject}:\n{full_message(error)}") from error
    except RecursionError:
        raise VerifyError(f"{subject}: its regions are nested too deeply") from None
    except Exception as error:  # a bug of a dialect: `x86_scf.rof` of xDSL 0.74 raises AttributeError
        reason = f"{type(error).__name__}: {full_message(error)}"
        raise VerifyError(f"{subject}: a verifier of xDSL failed with {reason}") from error


def full_message(error: Exception) -> str:
    """Return the message of an error of xDSL, and its notes on further lines.

    An error without a message has the line of code that raised it instead.
    """
    notes: list[str] = getattr(error, "__notes__", [])
    return "\n".join([str(error).strip() or raising_line(error), *notes])


class LocationPrinter(Printer):
    """A printer that writes only known locations.

    Parameters:
        stream: receives the text.
        is_generic: whether to use the generic format.
        has_locations: whether to write locations.

    """

    def __init__(self, stream: StringIO, *, is_generic: bool = False, has_locations: bool = True) -> None:
        super().__init__(stream, print_generic_format=is_generic)
        self._has_locations = has_locations
        self._forms: dict[tuple[object, ...], str] = {}
        self._equal: dict[Attribute, int] = {}
        self._numbers: dict[int, int] = {}

    def print_op(self, op: Operation) -> None:
        """Print an operation, with its location if that is known."""
        # xDSL prints the location of an argument that has attributes if it prints that of the function.
        arguments = op.regions[0].blocks[0].args if "arg_attrs" in op.properties and op.regions[0].blocks else ()
        with self._debuginfo(op.location, *(arg.location for arg in arguments)):
            super().print_op(op)

    def print_op_with_default_format(self, op: Operation) -> None:
        """Print an operation in the generic format, without its results and its name.

        What follows the operands is printed once for equal attributes and types, which most operations share.
        """
        if op.regions or op.successors or self.print_properties_as_attributes:
            super().print_op_with_default_format(op)
            return
        self.print_operands(op.operands)
        shown: list[Attribute] = [*op.properties.values(), *op.attributes.values(), *op.operand_types, *op.result_types]
        numbers = [self._numbers.get(id(attribute)) or self._number_of(attribute) for attribute in shown]
        key = (*op.properties, "", *op.attributes, len(op.operands), *numbers, self.print_debuginfo and op.location)
        text = self._forms.get(key)
        if text is None:
            self._print_form(op, key)
        else:
            self.print_string(text)

    def _number_of(self, attribute: Attribute) -> int:
        """Return a number other than 0, the same for equal attributes."""
        try:
            number = self._equal.setdefault(attribute, len(self._equal) + 1)
        except TypeError:  # an attribute with a list, which has no hash
            number = -id(attribute)
        # The module keeps the attribute while it is printed. Most attributes are used several times.
        self._numbers[id(attribute)] = number
        return number

    def _print_form(self, op: Operation, key: tuple[object, ...]) -> None:
        stream, self.stream = self.stream, StringIO()
        try:
            self._print_op_properties(op.properties)
            self.print_op_attributes(op.attributes)
            self.print_string(" : ")
            self.print_operation_type(op)
            text = self.stream.getvalue()
        finally:
            self.stream = stream
        print(text, end="", file=stream)
        # The indentation after a line break may differ.
        if "\n" not in text:
            self._forms[key] = text

    def print_operands(self, operands: Sequence[SSAValue]) -> None:
        """Print operands in parentheses, at once if their names are known."""
        names = [self._ssa_values.get(value) for value in operands]
        if None in names:
            super().print_operands(operands)
        else:
            self.print_string(f"({', '.join([f'%{name}' for name in names])})")

    def print_block_argument(self, arg: BlockArgument, print_type: bool = True) -> None:
        """Print a block argument, with its location if that is known."""
        with self._debuginfo(arg.location):
            super().print_block_argument(arg, print_type)

    @contextmanager
    def _debuginfo(self, *locations: LocationAttr) -> Generator[None]:
        """Write locations within the context if one of these is known."""
        outer = self.print_debuginfo
        self.print_debuginfo = self._has_locations and not all(isinstance(one, UnknownLoc) for one in locations)
        yield
        self.print_debuginfo = outer


def print_operation(op: Operation) -> str:
    """Return the text of an operation for people, with names and locations."""
    return _printed(op)


def print_module(mod: ModuleOp) -> str:
    """Return the text of a module for a file, as the config options require."""
    config = PassContext.current().config
    return _printed(mod, is_generic=config[PRINT_GENERIC], has_locations=config[PRINT_LOCATIONS])


def to_bytes(mod: ModuleOp) -> bytes:
    """Return the text of a module with everything that a pass can see."""
    # The generic format depends on no printer of a dialect.
    return _printed(mod, is_generic=True).encode()


def _printed(op: Operation, *, is_generic: bool = False, has_locations: bool = True) -> str:
    stream = StringIO()
    printer = LocationPrinter(stream, is_generic=is_generic, has_locations=has_locations)
    try:
        printer.print_op(op)
    except RecursionError:
        raise AdapterError("cannot print the module: its regions are nested too deeply") from None
    printer.print_metadata(RESOURCE_DIALECTS)
    stream.write("\n")
    return stream.getvalue()
