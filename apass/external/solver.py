"""Proofs by the SMT solver z3, in worker processes. For `apass[prove]`.

Source: translation validation of Alive2 (Lopes et al., PLDI 2021).
"""

from collections.abc import Iterable
from ctypes import ArgumentError
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from anyio import to_process

from apass.concurrency.processes.pool import LostCall, call_in_worker
from apass.core.ir_plugin import Proof
from apass.errors import MissingExtraError

__all__ = ["Answer", "NotEncodedError", "counterexample", "prove_in_worker"]

TIME_LIMIT: Final = 60.0
"""Seconds for one search, after which the worker process is killed."""

MOST_RESOURCES: Final = 20_000_000
"""The `rlimit` of z3: a limit of its work that, unlike a time limit, does not depend on the machine."""


class NotEncodedError(Exception):
    """A module has something that is not encoded for the solver; the message names it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of the solver."""

    model: Any
    """Values for which a claim does not hold, as z3's `ModelRef`; None if there is no such model."""
    reason: str
    """The reason why the solver found neither a model nor a proof; empty if it did."""


async def prove_in_worker(encoder: str, before: bytes, after: bytes) -> Proof:
    """Search for a proof that two modules are equivalent, in a worker process.

    A search may not terminate, and z3 is a native library.

    Parameters:
        encoder: the name of a Python module with a function `search(before, after) -> Proof`. It imports z3, so it is
            imported in the worker only.
        before: the module before, as the adapter writes it.
        after: the module after.

    Raises:
        MissingExtraError: if z3 is not installed.

    """
    if find_spec("z3") is None:
        raise MissingExtraError("proofs need z3-solver: pip install 'apass[prove]'")
    limiter = to_process.current_default_process_limiter()
    proof = await call_in_worker(_search, (encoder, before, after), TIME_LIMIT, limiter)
    return Proof(None, proof.reason) if isinstance(proof, LostCall) else proof


def _search(encoder: str, before: bytes, after: bytes) -> Proof:
    module: Any = import_module(encoder)
    try:
        found: Proof = module.search(before, after)
    except NotEncodedError as error:
        return Proof(None, f"not encoded for the solver: {error}")
    except (RecursionError, ArgumentError):  # z3 raises the latter if the stack ends within its calls
        return Proof(None, "not encoded for the solver: expressions that are nested too deep")
    return found


def counterexample(assumptions: Iterable[Any], differs: Any) -> Answer:
    """Ask z3 for values for which all assumptions hold and `differs` is true."""
    z3: Any = import_module("z3")
    solver = z3.Solver()
    solver.set("rlimit", MOST_RESOURCES)
    solver.add(*assumptions, differs)
    result = solver.check()
    if result == z3.sat:
        return Answer(solver.model(), "")
    if result == z3.unsat:
        return Answer(None, "")
    return Answer(None, f"z3 found neither a proof nor a counterexample: {solver.reason_unknown()}")
