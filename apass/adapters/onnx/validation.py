"""Structural rules of ONNX models, checked before onnx_ir reads a model.

onnx_ir reads models that break these rules. Its passes then fail, run forever, or discard parts.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from graphlib import CycleError, TopologicalSorter
from typing import Any, Final, cast

import onnx
import onnx_ir as ir
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass
from onnx.helper import tensor_dtype_to_field

from apass.adapters.onnx.calls import call_order, cycle_text, function_name
from apass.errors import AdapterError

__all__ = [
    "MAX_CALLS",
    "MAX_NESTING",
    "MAX_TEXT_NESTING",
    "check_model",
    "check_structure",
    "is_text_too_deep",
    "kind_of",
    "quoted",
]

MAX_NESTING: Final = 32
"""Maximum depth of subgraphs. protobuf decodes 100 nested messages, and each subgraph is three of them."""

MAX_TEXT_NESTING: Final = 4 * MAX_NESTING
"""Maximum depth of brackets in a text; a subgraph is two of them, and a type or an attribute may add some."""

MAX_CALLS: Final = 100
"""Maximum depth of calls of functions, as in onnx."""

LONGEST_NAME: Final = 80
"""Maximum number of characters of a name in a message."""

_ONNX: Final = "ai.onnx"
"""The other name of the default domain."""

_FIRST_IR_WITH_OPSETS: Final = 3
"""The first IR version in which a model must import its operator sets."""

_SMALL: Final = 2**20
"""Maximum size in bytes of a model that is copied to check its texts; that is ten times as fast as a loop."""

_SHOWN: Final = 5
"""Maximum number of dimensions of a shape in a message."""

_Body = onnx.GraphProto | onnx.FunctionProto


def check_structure(proto: onnx.ModelProto, encoded: bytes | None = None) -> None:
    """Raise for the first structural error of a model.

    The time is linear in the size of the model. Nodes may have any order, but no cycles.

    Parameters:
        proto: the model.
        encoded: the bytes that were decoded to it, if they are at hand.

    Raises:
        AdapterError: if the model breaks a rule; the message names the node and the value.

    """
    for problem in _problems(proto, encoded):
        raise AdapterError(problem)


def _problems(proto: onnx.ModelProto, encoded: bytes | None) -> Iterator[str]:
    if not 1 <= proto.ir_version <= onnx.IR_VERSION:
        yield f"the IR version is {proto.ir_version}, expected 1 to {onnx.IR_VERSION}; upgrade onnx if it is newer"
    if proto.training_info:
        yield "the model has training information, which onnx_ir would discard; remove this part first"
    for kind in _undecoded(proto, encoded):
        yield f"the model has a text in {kind} that is not valid UTF-8"
        return
    bodies: list[tuple[str, _Body]] = [(f"graph {quoted(proto.graph.name)}", proto.graph)]
    bodies += [(f"function {quoted(function_name(_identifier(func)))}", func) for func in proto.functions]
    # The other checks recurse into subgraphs, so this one comes first.
    too_deep = [where for where, body in bodies if _is_too_deep(body)]
    if too_deep:
        yield f"{too_deep[0]} has more than {MAX_NESTING} nested subgraphs, the limit of protobuf; flatten them"
        return
    yield from _function_problems(proto.functions)
    for where, body in bodies:
        # Before IR version 3, models import version 1 of the default domain implicitly.
        implicit = {""} if proto.ir_version < _FIRST_IR_WITH_OPSETS else set[str]()
        imports = (proto if isinstance(body, onnx.GraphProto) else body).opset_import
        yield from _import_problems(where, imports)
        check = _GraphCheck(where, {_domain(entry.domain) for entry in imports} | implicit)
        yield from check.run(body)
        if isinstance(body, onnx.FunctionProto):
            for attr in body.attribute_proto:
                yield from _default_problems(attr, f"attribute {quoted(attr.name)} of {where}")
        for name, user in check.undefined.items():
            yield f"{user} reads {quoted(name)}, which no node, input or initializer defines"


def is_text_too_deep(text: bytes) -> bool:
    """Return whether a text in ONNX's syntax has too many nested brackets."""
    depth = 0
    for bracket in _BRACKETS.findall(text):
        if len(bracket) == 1:
            depth += 1 if bracket in b"([{<" else -1
        if depth > MAX_TEXT_NESTING:
            return True
    return False


def quoted(name: str) -> str:
    r"""Return a name in quotes, shortened, with control characters as escapes.

    >>> print(quoted("a\x1b[2J"))
    'a\x1b[2J'
    """
    return repr(name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}...")


def check_model(user: str, value: object) -> None:
    """Raise AdapterError unless a value is an `onnx_ir.Model`.

    The message shows how to get one. `user` is what needs it.
    """
    if isinstance(value, ir.Model):
        return
    kind = kind_of(value)
    if isinstance(value, onnx.ModelProto):
        hint = "convert it with onnx_ir.from_proto(model)"
    elif isinstance(value, bytes | bytearray | memoryview):
        hint = "read it with apass.adapters.onnx.model_from_bytes(data)"
    elif isinstance(value, ir.Graph):
        hint = "put it into a model with onnx_ir.Model(graph, ir_version=...)"
    elif kind == "apass.relay.ir.module.IRModule":
        hint = "convert it with onnx.FromRelay"
    else:
        hint = "load it with apass.adapters.onnx.load_model(path)"
    raise AdapterError(f"{user} needs an onnx_ir.Model, got {kind}; {hint}")


def kind_of(value: object) -> str:
    """Return the name of the type of a value, for messages."""
    return f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")


class _GraphCheck:
    """The checks of a graph or of a function, and of the subgraphs in it."""

    def __init__(self, where: str, domains: set[str], outer: tuple["_GraphCheck", int] | None = None) -> None:
        self.where = where
        self.domains = domains
        self.outer = outer
        """The check of the outer graph, and the index of the node with this subgraph in it."""
        """The domains of operators that are imported."""
        self.undefined: dict[str, str] = {}
        """After `run`: the values that are read but not defined here, with the first reader of each."""

    def run(self, body: _Body) -> Iterator[str]:
        """Iterate over the errors, except for undefined values."""
        yield from self._definitions(body)
        dependencies: list[list[str]] = []
        for index, node in enumerate(body.node):
            captured: dict[str, str] = {}
            yield from self._node(index, node, captured)
            names = [*filter(None, node.input), *captured]
            dependencies.append(names)
            for name in names:
                if name not in self.defined:
                    self.undefined.setdefault(name, captured.get(name) or self._describe(index, node))
            for name, reader in captured.items():
                # onnx_ir would create another value of that name.
                if (self.defined.get(name) or 0) > index:
                    yield f"{reader} reads {quoted(name)}, which a later node of {self.where} defines; sort the nodes"
        yield from self._cycle(body.node, dependencies)
        for output in body.output:
            name = output if isinstance(output, str) else output.name
            if name not in self.defined:
                yield f"{self.where} has the output {quoted(name)}, which no node, input or initializer defines"

    def _definitions(self, body: _Body) -> Iterator[str]:
        """Set `defined` to the producer of each value; None for inputs and initializers."""
        self.defined: dict[str, int | None] = {}
        for entry in body.input:
            name = entry if isinstance(entry, str) else entry.name
            if name in self.defined or not name:
                yield f"{self.where} has {'two inputs' if name else 'an input'} named {quoted(name)}"
            self.defined[name] = None
        if isinstance(body, onnx.GraphProto):
            if body.sparse_initializer:
                yield f"the model has sparse initializers in {self.where}, which onnx_ir would discard; remove them"
            yield from self._initializers(body.initializer)
        for index, node in enumerate(body.node):
            for name in filter(None, node.output):
                if name in self.defined:
                    other = self.defined[name]
                    first = "an input or initializer" if other is None else self._describe(other, body.node[other])
                    yield f"{self._describe(index, node)} defines {quoted(name)} again; {first} defines it first"
                self.defined[name] = index
                yield from self._hidden(name, self._describe(index, node))

    def _initializers(self, tensors: Iterable[onnx.TensorProto]) -> Iterator[str]:
        names: set[str] = set()
        for tensor in tensors:
            name = tensor.name
            if name in names or not name:
                yield f"{self.where} has {'two initializers' if name else 'an initializer'} named {quoted(name)}"
            names.add(name)
            yield from self._hidden(name, f"the initializer of {self.where}")
            for problem in _tensor_problems(tensor):
                yield f"initializer {quoted(name)} {problem}"
        self.defined.update(dict.fromkeys(names))

    def _hidden(self, name: str, definition: str) -> Iterator[str]:
        """Report a definition in a subgraph that hides a value of an outer graph."""
        # ONNX forbids it. The reference evaluator reads the outer value, onnxruntime the inner one.
        outer = self.outer
        while outer is not None:
            check, end = outer
            if name in check.defined and ((index := check.defined[name]) is None or index < end):
                yield f"{definition} hides the value {quoted(name)} of {check.where}; rename one of them"
                return
            outer = check.outer

    def _node(self, index: int, node: onnx.NodeProto, captured: dict[str, str]) -> Iterator[str]:
        """Check a node; add the outer values that its subgraphs read to `captured`."""
        if _domain(node.domain) not in self.domains:
            yield f"{self._describe(index, node)} uses the operator set {quoted(node.domain)}, which is not imported"
        names: set[str] = set()
        for attr in node.attribute:
            name = attr.name
            if name in names:
                yield f"{self._describe(index, node)} has two attributes named {quoted(name)}"
            names.add(name)
            if attr.type == _UNDEFINED:
                yield f"attribute {quoted(name)} of {self._describe(index, node)} has no known type"
            for tensor in _tensors(attr):
                for problem in _tensor_problems(tensor):
                    yield f"attribute {quoted(name)} of {self._describe(index, node)} {problem}"
            for graph in _subgraphs(attr):
                where = f"subgraph {quoted(graph.name)} of {self._describe(index, node)}"
                inner = _GraphCheck(where, self.domains, (self, index))
                yield from inner.run(graph)
                for name, reader in inner.undefined.items():
                    captured.setdefault(name, reader)

    def _cycle(self, nodes: Sequence[onnx.NodeProto], dependencies: Sequence[Sequence[str]]) -> Iterator[str]:
        producers = [[self.defined.get(name) for name in names] for names in dependencies]
        edges = [[item for item in sources if item is not None] for sources in producers]
        if all(source < index for index, sources in enumerate(edges) for source in sources):
            return
        try:
            TopologicalSorter(dict(enumerate(edges))).prepare()
        except CycleError as error:
            indices: list[int] = error.args[1]
            yield f"the nodes form a cycle: {cycle_text([self._describe(index, nodes[index]) for index in indices])}"

    def _describe(self, index: int, node: onnx.NodeProto) -> str:
        name = quoted(node.name) if node.name else f"{index}"
        return f"node {name} ({quoted(node.op_type)[1:-1]}) of {self.where}"


def _undecoded(proto: onnx.ModelProto, encoded: bytes | None) -> Iterator[str]:
    """Iterate over the messages that have a text which is not valid UTF-8."""
    if (proto.ByteSize() if encoded is None else len(encoded)) <= _SMALL:
        with suppress(DecodeError):
            _strict_model().FromString(proto.SerializeToString() if encoded is None else encoded)
            return
    messages: list[Any] = [proto]
    while messages:
        message = messages.pop()
        kind = message.DESCRIPTOR.name
        # Do not read the data of tensors, which may be large.
        names = ("name", "doc_string", "external_data", "metadata_props") if kind == "TensorProto" else None
        fields = (
            message.ListFields()
            if names is None
            else [(_TENSOR_FIELDS[name], getattr(message, name)) for name in names]
        )
        for descriptor, value in fields:
            is_message, is_text, is_repeated = _field_kind(descriptor)
            if is_message:
                if is_repeated:
                    messages += value
                else:
                    messages.append(value)
            # protobuf returns bytes for such a text.
            elif is_text and bytes in (map(type, value) if is_repeated else (type(value),)):
                yield f"a {kind}"


@cache
def _strict_model() -> Any:
    """Return a class of models that rejects texts which are not valid UTF-8."""
    # Messages of the syntax proto3 do so.
    file = FileDescriptorProto()
    descriptor: Any = cast("Any", onnx.ModelProto).DESCRIPTOR
    descriptor.file.CopyToProto(file)
    file.syntax = "proto3"
    pool: Any = DescriptorPool()
    pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName(descriptor.full_name))


@cache
def _field_kind(descriptor: Any) -> tuple[bool, bool, bool]:
    """Return whether a field holds messages, whether texts, and whether several."""
    is_text = descriptor.type == descriptor.TYPE_STRING
    return descriptor.message_type is not None, is_text, descriptor.is_repeated


def _function_problems(functions: Sequence[onnx.FunctionProto]) -> Iterator[str]:
    calls: dict[ir.OperatorIdentifier, set[ir.OperatorIdentifier]] = {}
    for func in functions:
        name = _identifier(func)
        if name in calls:
            yield f"there are two functions {quoted(function_name(name))}"
        calls[name] = {(_domain(node.domain), node.op_type, node.overload) for node in _all_nodes(func)}
    depths: dict[ir.OperatorIdentifier, int] = {}
    local = {name: called & calls.keys() for name, called in calls.items()}
    for name in call_order(local):
        depths[name] = 1 + max((depths[called] for called in local[name]), default=0)
    deepest = max(depths, key=depths.__getitem__, default=None)
    if deepest is not None and depths[deepest] > MAX_CALLS:
        depth = f"{depths[deepest]:,} deep, but onnx allows {MAX_CALLS}"
        yield f"calls from function {quoted(function_name(deepest))} are nested {depth}; inline some of them"


def _default_problems(attr: onnx.AttributeProto, where: str) -> Iterator[str]:
    """Iterate over the errors in the default value of an attribute of a function."""
    if attr.type == onnx.AttributeProto.UNDEFINED:
        yield f"{where} has no known type"
    if _subgraphs(attr):
        yield f"{where} has a graph as its default value, which onnx_ir does not support"
    for tensor in _tensors(attr):
        for problem in _tensor_problems(tensor):
            yield f"{where} {problem}"


def _import_problems(where: str, imports: Iterable[onnx.OperatorSetIdProto]) -> Iterator[str]:
    versions: dict[str, int] = {}
    for entry in imports:
        domain, version = _domain(entry.domain), entry.version
        newest = _NEWEST.get(domain)
        if not 1 <= version <= (newest or _BIGGEST_VERSION):
            expected = f"1 to {newest or _BIGGEST_VERSION}"
            hint = "; upgrade onnx if it is newer" if newest else ""
            yield f"{where} imports operator set {quoted(domain)} of version {version}, expected {expected}{hint}"
        if versions.setdefault(domain, version) != version:
            yield f"{where} imports two versions of operator set {quoted(domain)}: {versions[domain]} and {version}"


def _tensor_problems(tensor: onnx.TensorProto) -> Iterator[str]:
    """Iterate over the errors of a tensor, as what follows its name in a message."""
    if tensor.HasField("segment"):
        yield "is one segment of a tensor, which onnx_ir does not support"
    try:
        dtype = ir.DataType(tensor.data_type)
    except ValueError:
        dtype = ir.DataType.UNDEFINED
    if dtype is ir.DataType.UNDEFINED:
        yield f"has the unknown data type {tensor.data_type}"
        return
    dims = list(tensor.dims)
    # numpy multiplies the dimensions other than 0, and rejects a product that overflows.
    if min(dims, default=0) < 0 or math.prod(filter(None, dims)) > _BIGGEST_COUNT:
        yield f"has the shape {_shown(dims)}, expected up to {_BIGGEST_COUNT:,} elements in each direction"
        return
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        for entry in tensor.external_data:
            if entry.key in ("offset", "length") and not (entry.value.isascii() and entry.value.isdecimal()):
                yield f"has the {entry.key} {quoted(entry.value)} of external data, expected a number of bytes"
        return
    size, expected, unit = _sizes(tensor, dtype, math.prod(dims))
    if size != expected:
        yield f"has {size:,} {unit} of data, but its shape {_shown(dims)} needs {expected:,}"


def _sizes(tensor: onnx.TensorProto, dtype: ir.DataType, count: int) -> tuple[int, int, str]:
    """Return the actual and the expected amount of data, and its unit."""
    if dtype is ir.DataType.STRING:
        return len(tensor.string_data), count, "strings"
    packed = -(-count * dtype.bitwidth // 8)
    if tensor.HasField("raw_data"):
        return len(tensor.raw_data), packed, "bytes"
    values: Sequence[Any] = getattr(tensor, tensor_dtype_to_field(dtype.value))
    if dtype in (ir.DataType.COMPLEX64, ir.DataType.COMPLEX128):
        return len(values), 2 * count, "values"
    return len(values), packed if dtype.bitwidth < _BYTE else count, "values"


def _is_too_deep(body: _Body) -> bool:
    level: list[_Body] = [body]
    for _ in range(MAX_NESTING + 1):
        level = [graph for item in level for node in item.node for attr in node.attribute for graph in _subgraphs(attr)]
    return bool(level)


def _all_nodes(body: _Body) -> Iterator[onnx.NodeProto]:
    bodies: list[_Body] = [body]
    while bodies:
        for node in bodies.pop().node:
            yield node
            bodies += [graph for attr in node.attribute for graph in _subgraphs(attr)]


def _subgraphs(attr: onnx.AttributeProto) -> Sequence[onnx.GraphProto]:
    """Return the graphs that onnx_ir reads from an attribute."""
    kind = attr.type
    return [attr.g] if kind == _GRAPH else attr.graphs if kind == _GRAPHS else ()


def _tensors(attr: onnx.AttributeProto) -> Sequence[onnx.TensorProto]:
    """Return the tensors that onnx_ir reads from an attribute."""
    kind = attr.type
    return [attr.t] if kind == _TENSOR else attr.tensors if kind == _TENSORS else ()


def _identifier(func: onnx.FunctionProto) -> ir.OperatorIdentifier:
    return _domain(func.domain), func.name, func.overload


def _domain(name: str) -> str:
    return "" if name == _ONNX else name


def _shown(dims: Sequence[int]) -> str:
    return str(list(dims)) if len(dims) <= _SHOWN else f"[{', '.join(map(str, dims[:_SHOWN]))}, ...]"


_TENSOR_FIELDS: Final[Mapping[str, Any]] = cast("Any", onnx.TensorProto).DESCRIPTOR.fields_by_name
_BYTE: Final = 8
_UNDEFINED, _TENSOR, _TENSORS, _GRAPH, _GRAPHS = (
    int(onnx.AttributeProto.AttributeType.Value(name)) for name in ("UNDEFINED", "TENSOR", "TENSORS", "GRAPH", "GRAPHS")
)
_BRACKETS: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|=>|[()\[\]{}<>]')
"""Brackets; strings and arrows match too, so that brackets in them are skipped."""
_BIGGEST_COUNT: Final = 2**55
"""Maximum number of elements of a tensor; numpy counts its bytes, up to 16 for each, in 63 bits."""
_BIGGEST_VERSION: Final = 2**31 - 1
"""Maximum version of an operator set that onnx does not know; onnx stores it in 32 bits."""
_NEWEST: Final[Mapping[str, int]] = {"": onnx.defs.onnx_opset_version()}
"""The newest version of operator sets whose operators the installed onnx knows."""
