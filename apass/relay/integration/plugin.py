"""The `IRPlugin` of Relay."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Final

from apass.core.ir_plugin import Comparison, IRPlugin, Proof
from apass.relay.errors import EvaluationError
from apass.relay.integration.adapter import ADAPTER
from apass.relay.interpreter.compare_outputs import (
    Argument,
    arrays_of,
    changed_argument,
    difference,
    random_arguments,
)
from apass.relay.interpreter.evaluate import evaluate
from apass.relay.ir.expr import Call
from apass.relay.ir.module import IRModule
from apass.relay.ir.post_order import post_order
from apass.relay.parser import parse
from apass.relay.text.printing.printer import astext
from apass.util.dull_outputs import dull_outputs
from apass.util.other_inputs import OtherInputs

__all__ = ["PLUGIN"]


def _load(path: Path) -> IRModule:
    return parse(path.read_text(encoding="utf-8"), str(path))


def _save(mod: IRModule, path: Path) -> None:
    path.write_text(astext(mod), encoding="utf-8")


def _count_calls(mod: IRModule) -> int:
    return sum(isinstance(node, Call) for func in mod.functions.values() for node in post_order(func))


def _compare_outputs(before: IRModule, after: IRModule) -> Comparison:
    """Evaluate both modules on the same random arguments, and compare.

    If the results show little about the program, other arguments are tried.
    """
    try:
        arguments = random_arguments(before["main"])
    except (KeyError, ValueError) as error:
        return Comparison.unverified(str(error))
    start = perf_counter()
    found, dull = _evaluated(before, after, arguments)
    if found:
        return Comparison.different(found)
    # The results of a function without parameters never vary, and show all.
    attempts = OtherInputs(dull if arguments else {}, perf_counter() - start)
    for seed, (name, change) in enumerate(attempts, 1):
        changed = [changed_argument(argument, change) for argument in random_arguments(before["main"], seed)]
        try:
            found, dull = _evaluated(before, after, changed)
        except EvaluationError:  # numbers that become indices may be out of range
            continue
        if found:
            return Comparison.different(f"with {name} inputs, {found}")
        attempts.learn(dull)
    return Comparison.same(attempts.remark)


def _evaluated(before: IRModule, after: IRModule, arguments: Sequence[Argument]) -> tuple[str, Mapping[str, str]]:
    """Return how the results of two modules differ, and which of them show little."""
    result = evaluate(before, *arguments)
    arrays = dict(arrays_of(result))
    return difference(result, evaluate(after, *arguments)), dull_outputs(list(arrays), list(arrays.values()))


async def _prove_equal(before: IRModule, after: IRModule) -> Proof:
    """Search for a proof that the main functions compute the same."""
    # Few runs prove anything.
    from apass.external.solver import prove_in_worker

    data = ADAPTER.dumps(before), ADAPTER.dumps(after)
    return await prove_in_worker("apass.relay.equivalence.search", *data)


PLUGIN: Final = IRPlugin(
    adapter=ADAPTER,
    module_type=IRModule,
    suffixes=(".relay",),
    load=_load,
    save=_save,
    default_pipeline="relay.Default",
    size=_count_calls,
    compare_outputs=_compare_outputs,
    prove_equal=_prove_equal,
    copies_unchanged=False,
)
"""The plug-in: modules in text files."""
