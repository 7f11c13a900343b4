"""Cost of printing and parsing Relay text, in microseconds per node.

    python -m benchmarks.relay_text [--quick]

The programs are chains of calls, graphs and Let chains of growing size. The time per node must not grow with the size:
each is compared with that of the smallest program of its kind. The last rows are whole models. The garbage collector is
disabled, as in the other benchmarks.
"""

import gc
import sys
from collections.abc import Callable
from time import process_time
from typing import TypeVar

from apass import relay
from apass.relay.ir.post_order import post_order
from apass.relay.structural.equality import structural_equal
from apass.relay.testing import densenet, inception_v3
from apass.relay.text.parsing.reader import read_module
from apass.relay.text.printing.printer import astext
from benchmarks.area import Benchmark, main
from benchmarks.measure import record, session

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
    """Print and parse a module; record and return the seconds per node."""
    nodes = sum(1 for func in mod.functions.values() for _ in post_order(func))
    costs: dict[str, float] = {}
    text = timed("print", lambda: astext(mod), nodes, costs)
    again = timed("parse", lambda: read_module(text), nodes, costs)
    assert structural_equal(again, mod)
    for job, cost in costs.items():
        row = f"{job} a node of {name}, {nodes:,} nodes"
        if bases is None:
            record(row, cost)
        else:
            record(row, cost, bases[job], GROWTH, "smallest program")
    return costs


def timed(job: str, run: Callable[[], R], nodes: int, costs: dict[str, float]) -> R:
    """Run a job and store its seconds per node under its name."""
    gc.collect()
    gc.disable()
    try:
        start = process_time()
        result = run()
        costs[job] = (process_time() - start) / nodes
        return result
    finally:
        gc.enable()


def programs(rounds: int) -> None:
    """Print and parse programs of growing size."""
    read_module('#[version = "0.0.5"]')  # builds the tables of the parser, once for the process
    for make in (chain, diamonds, lets):
        bases = None
        for size in SIZES[:2] if session().quick else SIZES:
            times = measure(make.__name__, relay.IRModule.from_expr(make(size)), bases)
            bases = bases or times


def models(rounds: int) -> None:
    """Print and parse whole models."""
    read_module('#[version = "0.0.5"]')
    for model in (densenet, inception_v3):
        measure(model.__name__.rpartition(".")[2], model.get_workload()[0])


BENCHMARKS = (Benchmark(programs, rounds=1), Benchmark(models, rounds=1, quick=True))

if __name__ == "__main__":
    sys.exit(main(__file__, BENCHMARKS))
