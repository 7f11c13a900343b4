"""`onnx.Best`: the best verified result of all installed optimizers."""

from collections.abc import Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from typing import Any, Final, Literal

import onnx_ir as ir
from anyio import create_task_group, fail_after

from apass.adapters.onnx import ADAPTER, count_nodes
from apass.adapters.onnx.costs import count_bytes, is_slower, latency
from apass.adapters.onnx.outputs import compare_outputs
from apass.adapters.onnx.passes.table import DEFAULT
from apass.adapters.onnx.traversal import all_graphs
from apass.core.context import PassContext
from apass.core.pass_info import PassInfo
from apass.core.remarks import Remark
from apass.errors import AdapterError, MissingExtraError, UnknownPassError
from apass.passes.alternatives import Alternatives
from apass.passes.base import Pass
from apass.passes.registry import get_pass, provide_pass
from apass.passes.sequential import Sequential
from apass.runner.changes import tentative_changes
from apass.util.text import text_of_error

__all__ = ["Best", "Objective", "installed_peers"]

Objective = Literal["nodes", "bytes", "latency"]
"""What is made as small as possible: nodes without Constants, the size of the file, or the time in onnxruntime."""

PEERS: Final = (
    "onnxslim.Slim",
    "onnxsim.Simplify",
    "onnxscript.Optimize",
    "onnxoptimizer.Optimize",
    "ort.Basic",
)
"""The passes of other libraries, those that usually remove most nodes first."""

TIME_LIMIT: Final = 60.0
"""Default number of seconds for an alternative."""


class Best(Alternatives[ir.Model]):
    """Runs all optimizers at once, and takes the best result that is verified.

    - Each optimizer runs on the model. Then apass runs on the results of the others, and the others on that of apass.
    - A result is taken only if its outputs equal those of the model, its file is not larger, and onnxruntime does not
      run it slower beyond noise. The best one is checked first, and the next only if it is rejected.
    - An optimizer that fails, or exceeds the time limit, is left out. One that changes outputs is named in a warning.
    - If all better results are rejected, the model is returned unchanged, with a warning.

    Parameters:
        passes: the alternatives; the first one also runs after each of the others.
        objective: what is made as small as possible.
        time_limit: seconds for each alternative.

    """

    def __init__(
        self, passes: Sequence[Pass[ir.Model]], objective: Objective = "nodes", time_limit: float = TIME_LIMIT
    ) -> None:
        super().__init__(passes, {"objective": objective, "time_limit": time_limit}, 0, "onnx.Best", None)
        self.objective: Objective = objective
        self.time_limit = time_limit

    async def transform(self, mod: ir.Model, ctx: PassContext) -> ir.Model:
        """Return the best verified result, or `mod`."""
        return await _Search(self, mod, ctx).run()


@dataclass(frozen=True, slots=True)
class _Result:
    """The result of one or two optimizers."""

    names: tuple[str, ...]
    """The optimizers, in the order in which they ran."""
    mod: ir.Model
    score: tuple[float, float]
    """The objective, and what counts if it is equal."""
    size: int
    """The number of bytes."""
    changes: Any
    """The changes that count if the result is taken."""

    @property
    def text(self) -> str:
        """The names of the optimizers."""
        return ", then ".join(self.names)


class _Search:
    """One execution of `Best`."""

    def __init__(self, best: Best, mod: ir.Model, ctx: PassContext) -> None:
        self._best = best
        self._mod = mod
        self._ctx = ctx
        self._results: list[_Result] = []

    async def run(self) -> ir.Model:
        """Return the best verified result, or the model."""
        entrants = self._best.enabled(self._ctx)
        if not entrants:
            return self._mod
        await self._all([((), self._mod, entrant) for entrant in entrants])
        own, *others = entrants
        first = [result for result in self._results if len(result.names) == 1]
        ours = next((result for result in first if result.names == (_name(own),)), None)
        after_others = [(result.names, result.mod, own) for result in first if result is not ours]
        after_ours = [] if ours is None else [(ours.names, ours.mod, other) for other in others]
        await self._all([*after_others, *after_ours])
        return await self._verified()

    async def _all(self, trials: Sequence[tuple[tuple[str, ...], ir.Model, Sequential[ir.Model]]]) -> None:
        async with create_task_group() as group:
            for trial in trials:
                group.start_soon(self._try, *trial)

    async def _try(self, before: tuple[str, ...], mod: ir.Model, entrant: Sequential[ir.Model]) -> None:
        """Run an optimizer on a model, and record the result if it is another one."""
        names = (*before, _name(entrant))
        text = ", then ".join(names)
        try:
            with tentative_changes() as changes, fail_after(self._best.time_limit):
                result = await entrant.transform(mod, self._ctx)
            if result is mod:
                return
            size, score = await self._score(result)
        except TimeoutError:
            self._ctx.remark(Remark.missed("TimeLimit", f"{text}: {self._best.time_limit:g} s are over"))
        except Exception as error:  # optimizers raise errors of many types
            self._ctx.remark(Remark.missed("Failed", f"{text}: {text_of_error(error)}"))
        else:
            self._results.append(_Result(names, result, score, size, changes))
            self._ctx.remark(Remark.analysis("Score", f"{text}: {score[0]:g} {self._best.objective}"))

    async def _score(self, mod: ir.Model) -> tuple[int, tuple[float, float]]:
        """Return the number of bytes of a model, and its score."""
        size = await count_bytes(mod)
        match self._best.objective:
            case "nodes":
                return size, (_plain_nodes(mod), size)
            case "bytes":
                return size, (size, _plain_nodes(mod))
            case "latency":
                return size, (await latency(mod), size)

    async def _verified(self) -> ir.Model:
        """Return the first result in order that passes all checks."""
        size, original = await self._score(self._mod)
        rejected: set[str] = set()
        for result in sorted(self._results, key=lambda item: (*item.score, len(item.names), item.names)):
            if result.score >= original:
                break
            mark = ADAPTER.fingerprint(result.mod)
            if mark in rejected:
                continue
            if await self._is_accepted(result, size):
                result.changes.accept()
                return result.mod
            rejected.add(mark)
        if rejected:
            self._ctx.diag_ctx.warning(f"pass 'onnx.Best': none of {len(self._results)} results is better and verified")
        return self._mod

    async def _is_accepted(self, result: _Result, size: int) -> bool:
        """Return whether a result may replace a model of `size` bytes, or warn."""
        if result.size > size:
            self._ctx.remark(Remark.missed("Larger", f"{result.text}: the file would be larger"))
            return False
        verdict = await compare_outputs(self._mod, result.mod)
        if verdict.comparison.changed is not False:
            self._ctx.diag_ctx.warning(f"pass 'onnx.Best' rejects {result.text}: {verdict.comparison.text}")
            return False
        with suppress(MissingExtraError, AdapterError):
            if await is_slower(self._mod, result.mod):
                self._ctx.remark(Remark.missed("Slower", f"{result.text}: onnxruntime runs it slower, or not at all"))
                return False
        return True


def _name(entrant: Sequential[ir.Model]) -> str:
    return entrant.passes[0].info.name


def _plain_nodes(mod: ir.Model) -> int:
    """Return the number of nodes without Constants, which are no computation."""
    constants = sum(node.op_type == "Constant" for graph in all_graphs(mod) for node in graph)
    return count_nodes(mod) - constants


def _own() -> Sequential[ir.Model]:
    """Return the passes of `onnx.Default`, which run at each level of the context."""
    passes: list[Pass[ir.Model]] = []
    for name in DEFAULT:
        pass_ = copy(get_pass(f"onnx.{name}"))
        pass_.info = PassInfo(0, pass_.info.name, pass_.info.required)
        passes.append(pass_)
    return Sequential(passes, name="onnx.Default")


def _best(*, objective: Objective = "nodes", time_limit: float = TIME_LIMIT) -> Best:
    """Take the best verified result of all installed optimizers.

    Runs onnxslim, onnxsim, onnxscript, onnxoptimizer and onnxruntime where they are installed, in worker processes.
    `objective` is nodes, bytes or latency. No result is larger, and none is slower beyond noise.
    """
    return Best([_own(), *installed_peers()], objective, time_limit)


def installed_peers() -> list[Pass[ir.Model]]:
    """Return the passes of `PEERS` whose libraries are installed."""
    peers: list[Pass[ir.Model]] = []
    for name in PEERS:
        with suppress(MissingExtraError, UnknownPassError):
            peers.append(get_pass(name))
    return peers


provide_pass("onnx.Best")(_best)
