"""Cost of walking a Relay chain of calls, in microseconds per node."""

import gc
from collections.abc import Callable
from time import perf_counter

from apass.relay.expr import Call, Expr, GlobalVar, Var
from apass.relay.expr_functor import ExprMutator, ExprVisitor
from apass.relay.structural.equality import structural_hash

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
    """Return the shortest time of a walk, in seconds."""
    durations: list[float] = []
    for _ in range(times):
        start = perf_counter()
        walk(expr)
        durations.append(perf_counter() - start)
    return min(durations)


def main() -> None:
    """Print a line for each walk with a column for each length."""
    print(f"{'us a node':>22}", *(f"{length:>10,}" for length in LENGTHS))
    chains = {length: chain(length) for length in LENGTHS}
    gc.freeze()
    for name, walk in WALKS.items():
        costs = [best(walk, expr, 3 if length > 10_000 else 20) / length * 1e6 for length, expr in chains.items()]
        print(f"{name:>22}", *(f"{cost:10.2f}" for cost in costs))


if __name__ == "__main__":
    main()
