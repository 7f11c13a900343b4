"""Parts of an xDSL module that `reduce` can remove."""

from collections.abc import Callable, Iterator
from typing import Final

from xdsl.dialects import cf, func
from xdsl.dialects.builtin import FunctionType, ModuleOp, UnrealizedConversionCastOp, UnregisteredOp
from xdsl.ir import Block, Operation
from xdsl.traits import IsTerminator
from xdsl.utils.exceptions import DiagnosticException, VerifyException

from apass.adapters.xdsl.symbols import copy_of, references_in, symbol_of
from apass.util.delta_debugging import Shrinking

__all__ = ["shrinkings"]

Change = Callable[[ModuleOp, frozenset[int]], None]
"""Removes the parts with these indices from a private module."""


def shrinkings(mod: ModuleOp) -> Iterator[Shrinking[ModuleOp]]:
    """Iterate over the kinds of removable parts; a result is valid if `mod` is valid."""
    is_valid = _is_valid(mod)
    for what, parts, change in _KINDS:

        def without(removed: frozenset[int], change: Change = change) -> ModuleOp:
            copy = copy_of(mod)
            change(copy, removed)
            if is_valid:
                copy.verify()
            return copy

        yield Shrinking(what, len(parts(mod)), without)


def _is_valid(mod: ModuleOp) -> bool:
    try:
        mod.verify()
    except (VerifyException, DiagnosticException):
        return False
    return True


def _operations(mod: ModuleOp) -> list[Operation]:
    """Return the operations of the module itself."""
    return [op for op in mod.body.ops if not _is_substitute(op)]


def _inner_operations(mod: ModuleOp) -> list[Operation]:
    """Return the operations inside of others, except for those that end a block."""
    return [
        op
        for outer in mod.body.ops
        for op in outer.walk()
        if op is not outer and not op.has_trait(IsTerminator, value_if_unregistered=False) and not _is_substitute(op)
    ]


def _is_substitute(op: Operation) -> bool:
    """Return whether an operation only replaces another one, which was removed."""
    return isinstance(op, UnrealizedConversionCastOp) and not op.operands and any(result.uses for result in op.results)


def _erase(ops: list[Operation]) -> None:
    """Erase operations; a cast without inputs replaces each value still in use."""
    removed = set(ops)
    outermost = [op for op in ops if not _is_below(op.parent_op(), removed)]
    for op in outermost:
        block = op.parent
        assert block is not None, "the operation is part of a module"
        for result in op.results:
            if not all(_is_below(use.operation, removed) for use in result.uses):
                substitute = UnrealizedConversionCastOp.get([], [result.type])
                block.insert_op_before(substitute, op)
                substitute.results[0].name_hint = result.name_hint
                result.replace_all_uses_with(substitute.results[0])
        block.detach_op(op)
    for op in outermost:
        op.drop_all_references()


def _is_below(op: Operation | None, removed: set[Operation]) -> bool:
    while op is not None:
        if op in removed:
            return True
        op = op.parent_op()
    return False


def _without_operations(mod: ModuleOp, indices: frozenset[int]) -> None:
    _erase([op for index, op in enumerate(_operations(mod)) if index in indices])


def _without_inner_operations(mod: ModuleOp, indices: frozenset[int]) -> None:
    _erase([op for index, op in enumerate(_inner_operations(mod)) if index in indices])


def _branches(mod: ModuleOp) -> list[cf.ConditionalBranchOp]:
    return [op for op in mod.walk() if isinstance(op, cf.ConditionalBranchOp)]


def _with_first_successor(mod: ModuleOp, indices: frozenset[int]) -> None:
    """Replace conditional branches by branches to their first successor."""
    for index, op in enumerate(_branches(mod)):
        if index in indices:
            _replace_branch(op, cf.BranchOp(op.then_block, *op.then_arguments))


def _with_second_successor(mod: ModuleOp, indices: frozenset[int]) -> None:
    """Replace conditional branches by branches to their second successor."""
    for index, op in enumerate(_branches(mod)):
        if index in indices:
            _replace_branch(op, cf.BranchOp(op.else_block, *op.else_arguments))


def _replace_branch(op: cf.ConditionalBranchOp, branch: cf.BranchOp) -> None:
    block = op.parent
    assert block is not None, "the branch is part of a module"
    block.insert_op_before(branch, op)
    block.erase_op(op)


def _unreached_blocks(mod: ModuleOp) -> list[Block]:
    """Return the blocks that no operation branches to, without entry blocks."""
    targets = {block for op in mod.walk() for block in op.successors}
    return [block for block in mod.walk_blocks() if block.prev_block is not None and block not in targets]


def _without_blocks(mod: ModuleOp, indices: frozenset[int]) -> None:
    blocks = [block for index, block in enumerate(_unreached_blocks(mod)) if index in indices]
    for block in blocks:
        _erase([op for op in block.ops if op.results])
        region = block.parent
        assert region is not None, "the block is part of a module"
        region.erase_block(block)


def _free_functions(mod: ModuleOp) -> list[func.FuncOp]:
    """Return the `func.func` that nothing in the module refers to."""
    used = references_in(mod)
    return [op for op in mod.body.ops if isinstance(op, func.FuncOp) and op.body.blocks and symbol_of(op) not in used]


def _functions_with_results(mod: ModuleOp) -> list[func.FuncOp]:
    return [op for op in _free_functions(mod) if op.function_type.outputs]


def _without_results(mod: ModuleOp, indices: frozenset[int]) -> None:
    for index, op in enumerate(_functions_with_results(mod)):
        if index in indices:
            for inner in op.walk():
                if isinstance(inner, func.ReturnOp):
                    inner.operands = ()
            op.function_type = FunctionType.from_lists(list(op.function_type.inputs), [])
            op.properties.pop("res_attrs", None)


def _unused_parameters(mod: ModuleOp) -> list[tuple[func.FuncOp, int]]:
    return [
        (op, argument.index)
        for op in _free_functions(mod)
        if "arg_attrs" not in op.properties
        for argument in op.args
        if not argument.uses
    ]


def _without_parameters(mod: ModuleOp, indices: frozenset[int]) -> None:
    removed = [part for index, part in enumerate(_unused_parameters(mod)) if index in indices]
    for op, number in reversed(removed):
        block = op.body.blocks[0]
        block.erase_arg(block.args[number])
        inputs = [argument.type for argument in block.args]
        op.function_type = FunctionType.from_lists(inputs, list(op.function_type.outputs))


def _attributes(mod: ModuleOp) -> list[tuple[Operation, str]]:
    """Return the attributes that are no properties of an operation."""
    return [(op, name) for op in mod.walk() if not isinstance(op, UnregisteredOp) for name in sorted(op.attributes)]


def _without_attributes(mod: ModuleOp, indices: frozenset[int]) -> None:
    for index, (op, name) in enumerate(_attributes(mod)):
        if index in indices:
            del op.attributes[name]


_KINDS: Final[tuple[tuple[str, Callable[[ModuleOp], list[object]], Change], ...]] = (
    ("functions and other symbols", lambda mod: [*_operations(mod)], _without_operations),
    ("operations", lambda mod: [*_inner_operations(mod)], _without_inner_operations),
    ("branches", lambda mod: [*_branches(mod)], _with_first_successor),
    ("branches, by the second successor", lambda mod: [*_branches(mod)], _with_second_successor),
    ("blocks", lambda mod: [*_unreached_blocks(mod)], _without_blocks),
    ("results of functions", lambda mod: [*_functions_with_results(mod)], _without_results),
    ("parameters of functions", lambda mod: [*_unused_parameters(mod)], _without_parameters),
    ("attributes", lambda mod: [*_attributes(mod)], _without_attributes),
)
"""The kinds of parts: their name, a function that lists them, and one that removes them."""
