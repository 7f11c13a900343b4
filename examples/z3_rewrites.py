"""Rewrites that are made only if a solver proves them, in worker processes.

    pip install 'apass[prove]'
    python examples/z3_rewrites.py [asyncio | trio]

A function is an expression over signed 8-bit integers, as text; `//` and `%` are those of C. The pass has rewrites that
often hold, but not always: a division by a power of two is a shift, but not for negative numbers. It asks z3 whether
the new expression has the same value for every input. A proof uses a whole core and may run forever, so the bodies run
in processes: the event loop stays free, and a worker that takes longer than two minutes is killed.
"""

import argparse
import ast
import time
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any, Final

import anyio

import apass
from apass.executors import ProcessExecutor

z3: Final[Any] = import_module("z3")
"""The solver; the package has no type annotations."""
BITS: Final = 8

Module = dict[str, str]

_OPERATORS: Final[Mapping[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: lambda a, b: a + b,
    ast.BitAnd: lambda a, b: a & b,
    ast.FloorDiv: lambda a, b: a / b,  # for bit vectors: signed division, towards zero
    ast.LShift: lambda a, b: a << b,
    ast.Mod: z3.SRem,
    ast.Mult: lambda a, b: a * b,
    ast.RShift: lambda a, b: a >> b,
    ast.Sub: lambda a, b: a - b,
}


def is_valid(before: ast.expr, after: ast.expr) -> bool:
    """Return whether two expressions are equal for all values of their variables."""
    solver = z3.Solver()
    solver.add(_term(before) != _term(after))
    return bool(solver.check() == z3.unsat)


def _term(node: ast.expr) -> Any:
    match node:
        case ast.Name(id=name):
            return z3.BitVec(name, BITS)
        case ast.Constant(value=int(value)):
            return z3.BitVecVal(value, BITS)
        case ast.BinOp(left=left, op=op, right=right):
            return _OPERATORS[type(op)](_term(left), _term(right))
        case _:
            raise ValueError(f"not an expression over integers: {ast.unparse(node)}")


def candidates(node: ast.expr) -> Iterator[ast.expr]:
    """Iterate over possible rewrites of an expression, the cheapest first.

    They are not proved yet.
    """
    match node:
        case ast.BinOp(left=left, op=ast.FloorDiv(), right=ast.Constant(value=int(by))):
            yield ast.BinOp(left, ast.RShift(), ast.Constant(by.bit_length() - 1))
        case ast.BinOp(left=left, op=ast.Mod(), right=ast.Constant(value=int(by))):
            yield ast.BinOp(left, ast.BitAnd(), ast.Constant(by - 1))
        case ast.BinOp(left=left, op=ast.Mult(), right=ast.Constant(value=int(by))):
            yield ast.BinOp(left, ast.LShift(), ast.Constant(by.bit_length() - 1))
        case ast.BinOp(left=ast.BinOp(left=x, op=ast.Mult(), right=y), op=ast.Add(), right=z):
            yield ast.BinOp(x, ast.Mult(), ast.BinOp(y, ast.Add(), ast.Constant(1)))
            yield ast.BinOp(ast.BinOp(x, ast.Add(), z), ast.Mult(), y)
        case _:
            pass


@apass.function_pass(opt_level=2, executor=ProcessExecutor(timeout=120))
def RewriteProved(func: str, mod: Module, ctx: apass.PassContext) -> str:
    """Rewrite a function to the first candidate that is proved equal."""
    node = ast.parse(func, mode="eval").body
    for candidate in candidates(node):
        if is_valid(node, candidate):
            return ast.unparse(candidate)
    return func


MODULE: Final[Module] = {
    "halve": "x // 2",
    "halve_positive": "(x & 127) // 2",
    "wrap": "x % 16",
    "wrap_positive": "(x & 127) % 16",
    "third": "(x & 127) // 3",
    "times_eight": "x * 8",
    "times_nine": "x * 9",
    "factor": "x * y + x",
    "no_factor": "x * y + z",
    "no_rewrite": "x - y",
}


async def main() -> None:
    """Rewrite `MODULE`; print the result and the longest pause of the event loop."""
    pauses: list[float] = []

    async def measure_pauses() -> None:
        while True:
            start = time.perf_counter()
            await anyio.sleep(0.001)
            pauses.append(time.perf_counter() - start)

    result: Module = {}
    async with anyio.create_task_group() as group:
        group.start_soon(measure_pauses)
        result.update(await RewriteProved(MODULE))
        group.cancel_scope.cancel()
    for name, before in MODULE.items():
        after = result[name] if result[name] != before else "(unchanged)"
        print(f"{name:15} {before:15} -> {after}")
    print(f"longest pause of the event loop: {1000 * max(pauses):.0f} ms")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("backend", nargs="?", choices=("asyncio", "trio"), default="asyncio")
    anyio.run(main, backend=parser.parse_args().backend)
