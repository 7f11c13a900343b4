"""The functions of an xDSL module, and private modules of some of them."""

from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar, cast

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, SymbolRefAttr
from xdsl.ir import Attribute, Block, Operation, ParametrizedAttribute, Region
from xdsl.traits import IsolatedFromAbove, SymbolOpInterface, SymbolTable
from xdsl.utils.exceptions import DiagnosticException, VerifyException

__all__ = [
    "alone",
    "copy_of",
    "function_name",
    "functions_of",
    "is_divisible",
    "is_function",
    "module_of",
    "move_contents",
    "references_in",
    "replace_functions",
    "symbol_of",
    "with_functions",
]

OpT = TypeVar("OpT", bound=Operation)


def symbol_of(op: Operation) -> str | None:
    """Return the name of the symbol that an operation defines; None if there is none."""
    interface = op.get_trait(SymbolOpInterface)
    if interface is None:
        return None
    try:
        name = interface.get_sym_attr_name(op)
    except VerifyException:
        return None
    return None if name is None else name.data


def is_function(op: Operation) -> bool:
    """Return whether an operation is a function: a symbol with a body of its own.

    These are `func.func` and the functions of all other dialects. The following belong to the rest of the module:

    - declarations, and other symbols without a body;
    - symbol tables, such as a nested `builtin.module` or `gpu.module`, with everything inside of them;
    - operations whose body uses values from outside, which exist in the generic format only.
    """
    return (
        any(region.blocks for region in op.regions)
        and symbol_of(op) is not None
        and not op.has_trait(SymbolTable)
        and not op.operands
        and not op.results
        and (op.has_trait(IsolatedFromAbove) or _is_closed(op))
    )


def functions_of(mod: ModuleOp) -> Iterator[tuple[str, Operation]]:
    """Iterate over names and functions of a module, in its order."""
    for op in mod.body.ops:
        if is_function(op):
            yield function_name(op), op


def function_name(op: Operation) -> str:
    """Return the name of a function."""
    name = symbol_of(op)
    assert name is not None, "a function is a symbol"
    return name


def copy_of(op: OpT) -> OpT:
    """Return a copy of an operation that uses no value from outside."""
    copy = op.clone()
    # xDSL 0.74 clones the names of values, but not those of blocks.
    for old, new in zip(op.walk_blocks(), copy.walk_blocks(), strict=True):
        new.name_hint = old.name_hint
    return copy


def with_functions(mod: ModuleOp, updates: Mapping[str, Operation]) -> ModuleOp:
    """Return a copy of a module with `updates` for functions of the same name."""
    copy = copy_of(mod)
    replace_functions(copy, {name: copy_of(func) for name, func in updates.items()})
    return copy


def replace_functions(mod: ModuleOp, updates: Mapping[str, Operation]) -> None:
    """Replace functions of a private module by those of the same name."""
    for op in list(mod.body.ops) if updates else ():
        new = updates.get(symbol_of(op) or "")
        if new is not None and is_function(op):
            mod.body.block.insert_op_before(new, op)
            mod.body.block.erase_op(op)


def is_divisible(mod: ModuleOp) -> bool:
    """Return whether a module contains only functions, and symbols without a body."""
    return all(is_function(op) or _is_plain_symbol(op) for op in mod.body.ops)


def _is_plain_symbol(op: Operation) -> bool:
    """Return whether an operation is a symbol without a body."""
    return symbol_of(op) is not None and not op.results and not any(region.blocks for region in op.regions)


@contextmanager
def alone(mod: ModuleOp, func: Operation) -> Generator[ModuleOp]:
    """Move a function from a private module to one of its own, and back."""
    block, following = mod.body.block, func.next_op
    block.detach_op(func)
    part = _module(mod, Region(Block([func])))
    yield part
    for op in list(part.body.ops):
        part.body.block.detach_op(op)
        if following is None:
            block.add_op(op)
        else:
            block.insert_op_before(op, following)


def module_of(mod: ModuleOp, names: Iterable[str]) -> ModuleOp:
    """Return a private module with copies of the named functions.

    If they are all functions, it is a copy of the module. Otherwise it contains what the functions refer to: functions
    as declarations, all other symbols whole, with what these refer to.
    """
    chosen = set(names)
    if all(name in chosen for name, _ in functions_of(mod)):
        return copy_of(mod)
    symbols = {name: op for op in mod.body.ops if (name := symbol_of(op)) is not None}
    needed: dict[str, Operation] = {}
    pending = list(chosen)
    while pending:
        name = pending.pop()
        if name in needed or name not in symbols:
            continue
        op = symbols[name]
        declaration = None if name in chosen or not is_function(op) else _declaration(op)
        needed[name] = copy_of(op) if declaration is None else declaration
        pending += references_in(needed[name])
    return _module(mod, Region(Block([needed[name] for name in symbols if name in needed])))


def move_contents(mod: ModuleOp) -> ModuleOp:
    """Return a module with the operations of another one, which is empty afterwards."""
    region = mod.detach_region(mod.body)
    mod.add_region(Region(Block()))
    return _module(mod, region)


def _module(mod: ModuleOp, region: Region) -> ModuleOp:
    """Return a module with the attributes of another one."""
    copy = ModuleOp(region, dict(mod.attributes), mod.sym_name)
    copy.location = mod.location
    return copy


def _declaration(op: Operation) -> Operation | None:
    """Return a function without its body; None if the dialect has no declarations."""
    declaration = op.clone_without_regions()
    try:
        declaration.verify()
    except (VerifyException, DiagnosticException):
        return None
    return declaration


def references_in(op: Operation) -> set[str]:
    """Return the symbols that an operation, or one inside of it, refers to."""
    found: set[str] = set()
    seen: set[int] = set()
    pending: list[Attribute] = []
    for inner in op.walk():
        pending += inner.attributes.values()
        pending += inner.properties.values()
    while pending:
        attribute = pending.pop()
        if id(attribute) in seen:
            continue
        seen.add(id(attribute))
        if isinstance(attribute, SymbolRefAttr):
            found.add(attribute.root_reference.data)
        elif isinstance(attribute, ArrayAttr):
            pending += cast("ArrayAttr[Attribute]", attribute)
        elif isinstance(attribute, DictionaryAttr):
            pending += attribute.data.values()
        elif isinstance(attribute, ParametrizedAttribute):
            pending += attribute.parameters
    return found


def _is_closed(op: Operation) -> bool:
    """Return whether all values used inside of an operation are from inside."""
    return all(op.is_ancestor(value.owner) for inner in op.walk() for value in inner.operands)
