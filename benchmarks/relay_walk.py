"""Cost of walking a Relay chain of calls, for each node.

python -m benchmarks.relay_walk [--quick]
"""

import gc
import sys
from collections.abc import Callable
from time import process_time

from apass.relay.expr import Call, Expr, GlobalVar, Var
from apass.relay.expr_functor import ExprMutator, ExprVisitor
from apass.relay.structural.equality import structural_hash
from benchmarks.area import Benchmark, main
from benchmarks.measure import record, session

LENGTHS = (1_000, 10_000, 100_000, 1_000_000)
OLD, NEW = GlobalVar("f"), GlobalVar("g")


class Identity(ExprMutator):
    """Mutator that changes nothing."""


class IdentityByMethod(ExprMutator):
    """Mutator that changes nothing and overrides a method."""

    def visit_call(self, call: Call) -> Expr:
        """Call the inherited method."""
        return super().visit_call(call)


class Rename(ExprMutator):
    """Mutator that rebuilds every call."""

    def visit_global_var(self, gvar: GlobalVar) -> Expr:
        """Return the new name of the old variable."""
        return NEW if gvar is OLD else gvar


class Count(ExprVisitor):
    """Visitor that counts calls."""

    count = 0

    def visit_call(self, call: Call) -> None:
        """Count a call."""
        super().visit_call(call)
        self.count += 1


WALKS: dict[str, Callable[[Expr], object]] = {
    "identity": lambda expr: Identity().visit(expr),
    "identity, overridden": lambda expr: IdentityByMethod().visit(expr),
    "visitor": lambda expr: Count().visit(expr),
    "all made anew": lambda expr: Rename().visit(expr),
    "structural_hash": structural_hash,
}


def chain(length: int) -> Expr:
    """Return calls nested `length` deep."""
    expr: Expr = Var("x")
    for _ in range(length):
        expr = Call(OLD, (expr,))
    return expr


def best(walk: Callable[[Expr], object], expr: Expr, times: int) -> float:
    """Return the shortest processor time of a walk, in seconds."""
    durations: list[float] = []
    for _ in range(times):
        start = process_time()
        walk(expr)
        durations.append(process_time() - start)
    return min(durations)


def walks(rounds: int) -> None:
    """Walk chains of growing size; the time for a node should not grow."""
    chains = {length: chain(length) for length in (LENGTHS[:3] if session().quick else LENGTHS)}
    gc.freeze()
    for name, walk in WALKS.items():
        costs = {length: best(walk, expr, 3 if length > 10_000 else 20) / length for length, expr in chains.items()}
        for length, cost in costs.items():
            row = f"a node in {name}, {length:,} nodes"
            if length == LENGTHS[0]:
                record(row, cost)
            else:
                record(row, cost, costs[LENGTHS[0]], None, f"{LENGTHS[0]:,} nodes")


BENCHMARKS = (Benchmark(walks, rounds=1, quick=True),)

if __name__ == "__main__":
    sys.exit(main(__file__, BENCHMARKS))
