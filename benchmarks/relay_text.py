"""Cost of printing and parsing Relay text, in microseconds per node.

    python benchmarks/relay_text.py [--largest 1000000]

The programs are chains of calls, graphs and Let chains of growing size. The time per node must not grow with the size:
each is compared with that of the smallest program of its kind. The last rows are whole models. The garbage collector is
disabled, as in the other benchmarks.
"""

import argparse
import gc
from collections.abc import Callable
from time import perf_counter
from typing import TypeVar

from apass import relay
from apass.relay.ir.post_order import post_order
from apass.relay.structural.equality import structural_equal
from apass.relay.testing import densenet, inception_v3
from apass.relay.text.parsing.reader import read_module
from apass.relay.text.printing.printer import astext

R = TypeVar("R")

SIZES = (10_000, 100_000, 1_000_000)
GROWTH = 1.5
"""Largest acceptable ratio of the times per node in a large and in the smallest program."""


def chain(size: int) -> relay.Expr:
    """Return a chain of nested calls."""
    x = relay.var("x", shape=(10,))
    expr: relay.Expr = x
    for _ in range(size):
        expr = relay.add(expr, x)
    return relay.Function([x], expr)


def diamonds(size: int) -> relay.Expr:
    """Return a graph that uses each value twice; every third call has attributes."""
    x = relay.var("x", shape=(1, 8, 8, 8))
    expr: relay.Expr = x
    for _ in range(size // 3):
        left = relay.nn.max_pool2d(expr, pool_size=(3, 3), padding=(1, 1))
        expr = relay.add(left, relay.nn.relu(expr))
    return relay.Function([x], expr)


def lets(size: int) -> relay.Expr:
    """Return a Let chain."""
    x = relay.var("x", shape=(10,))
    names = [relay.var(f"x{number}") for number in range(size // 2)]
    expr: relay.Expr = names[-1]
    for before, name in reversed(list(zip([x, *names], names, strict=False))):
        expr = relay.Let(name, relay.add(before, x), expr)
    return relay.Function([x], expr)


def measure(name: str, mod: relay.IRModule, bases: dict[str, float] | None = None) -> dict[str, float]:
    """Print and parse a module; print and return the microseconds per node."""
    nodes = sum(1 for func in mod.functions.values() for _ in post_order(func))
    costs: dict[str, float] = {}
    text = timed("print", lambda: astext(mod), nodes, costs)
    again = timed("parse", lambda: read_module(text), nodes, costs)
    assert structural_equal(again, mod)
    for job, cost in costs.items():
        base = (bases or costs)[job]
        mark = "ok  " if cost <= base * GROWTH else "OVER"
        print(
            f"{mark} {job} {name:<24} {nodes:>9} nodes {cost:7.2f} us a node, {cost / base:5.2f} of the smallest",
            flush=True,
        )
    return costs


def timed(job: str, run: Callable[[], R], nodes: int, costs: dict[str, float]) -> R:
    """Run a job and store its microseconds per node under its name."""
    gc.collect()
    gc.disable()
    try:
        start = perf_counter()
        result = run()
        costs[job] = (perf_counter() - start) / nodes * 1e6
        return result
    finally:
        gc.enable()


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--largest", type=int, default=SIZES[-1])
    largest = arguments.parse_args().largest
    read_module('#[version = "0.0.5"]')  # builds the tables of the parser, once for the process
    for make in (chain, diamonds, lets):
        bases = None
        for size in (size for size in SIZES if size <= largest):
            times = measure(make.__name__, relay.IRModule.from_expr(make(size)), bases)
            bases = bases or times
    for model in (densenet, inception_v3):
        measure(model.__name__.rpartition(".")[2], model.get_workload()[0])


if __name__ == "__main__":
    main()
