"""Compilers for tests of partitioning, which support a set of operators."""

from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager

import apass
from apass.relay.expr import Call, GlobalVar
from apass.relay.function import Function
from apass.relay.ir.expr import OP_ATTRS
from apass.relay.ir.module import IRModule
from apass.relay.ir.post_order import post_order
from apass.relay.op.annotation import COMPILER_BEGIN, COMPILER_END, compiler_of
from apass.relay.transform.annotate_target import AnnotateTarget
from apass.relay.transform.merge_compiler_regions import MergeCompilerRegions
from apass.relay.transform.partition_graph import PartitionGraph

__all__ = ["compiled", "for_compiler", "marks", "partitioned", "supporting"]


@contextmanager
def supporting(compiler: str, ops: Iterable[str], check: Callable[[Call], bool] = lambda _: True) -> Generator[None]:
    """Let a compiler support operators within a `with` block."""
    OP_ATTRS[f"target.{compiler}"] = dict.fromkeys(ops, (10, check))
    try:
        yield
    finally:
        del OP_ATTRS[f"target.{compiler}"]


def partitioned(mod: IRModule, targets: str | list[str], include_non_call_ops: bool = True) -> IRModule:
    """Return a module after TVM's three steps: annotate, merge, partition."""
    steps = (AnnotateTarget(targets, include_non_call_ops), MergeCompilerRegions(), PartitionGraph())
    return apass.run(apass.Sequential(steps), mod)


def for_compiler(mod: IRModule, compiler: str) -> list[Function]:
    """Return the functions of a module for one compiler."""
    functions = (mod[gvar] for gvar in mod.get_global_vars())
    return [func for func in functions if func.attrs.get("Compiler") == compiler]


def compiled(mod: IRModule) -> list[str]:
    """Return the names of the functions for compilers that `main` uses, in order."""
    names = (node.name_hint for node in post_order(mod["main"]) if isinstance(node, GlobalVar))
    return [name for name in names if "Compiler" in mod[name].attrs]


def marks(func: Function) -> list[str]:
    """Return the compilers of all marks: with `+` at a begin, with `-` at an end."""
    found: list[str] = []
    for node in post_order(func):
        for sign, mark in (("+", COMPILER_BEGIN), ("-", COMPILER_END)):
            compiler = compiler_of(node, mark)
            found += [] if compiler is None else [sign + compiler]
    return found
