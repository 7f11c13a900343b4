"""`diff_pipelines`: runs two pipelines alternately, and compares them."""

import gc
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, cast

from apass.core.adapter import ModT, adapter_for
from apass.core.context import PassContext, current_scope
from apass.core.instrument import pass_instrument
from apass.core.run import enter_module, leave_module
from apass.debugging.run_diff.diff import RunDiff
from apass.debugging.run_diff.recorded_run import PassOutput, RecordedModule, RecordedRun, merged_module
from apass.instruments.report.instrument import ReportInstrument
from apass.instruments.support.events import Event, EventInstrument, EventKind
from apass.passes.base import Pass
from apass.pipelines.parser import as_pass
from apass.util.checks import is_count

__all__ = ["diff_pipelines"]


async def diff_pipelines(
    modules: Mapping[str, ModT] | Iterable[tuple[str, ModT]],
    first: Pass[ModT] | str,
    second: Pass[ModT] | str,
    *,
    rounds: int = 5,
    sizes: Callable[[ModT], Mapping[str, int]] | None = None,
    report: Callable[[str], object] | None = None,
) -> RunDiff:
    """Run two pipelines alternately on the same modules, and compare the runs.

    Each module runs through both pipelines once for their results and once more for each round, of which the times are
    compared. The order alternates, so that a host that becomes slower affects both. One module runs at a time. The
    passes run in contexts like the current one, without its instruments, store, executor and deadline. Modules and
    results are compared by the fingerprints of their adapters. A pipeline that fails on a module is part of the result.

    Parameters:
        modules: the modules by name, or pairs of name and module, read one after the other.
        first: a pass, or the text of a pipeline.
        second: another one.
        rounds: how many times each pipeline is measured. From 5 on, change differs from noise.
        sizes: returns sizes of a result by what they count, to compare beside the bytes of its text.
        report: called with a line about each module.

    Raises:
        TypeError: if a pipeline is neither a pass nor a text.
        ValueError: if `rounds` is not a positive int.

    >>> import anyio
    >>> from apass import Sequential, module_pass
    >>> add = module_pass(lambda mod, ctx: {"f": mod["f"] + 1}, opt_level=0, name="Add")
    >>> double = module_pass(lambda mod, ctx: {"f": 2 * mod["f"]}, opt_level=0, name="Double")
    >>> diff = anyio.run(diff_pipelines, {"m": {"f": 3}}, Sequential([add, double]), Sequential([double, add]))
    >>> print(diff)
    1 module compared: 1 with another result

    """
    if not is_count(rounds):
        raise ValueError(f"rounds must be an int of at least 1, got {rounds!r}")
    passes = [as_pass("diff_pipelines(modules, first, second)", pipeline) for pipeline in (first, second)]
    texts = [pipeline if isinstance(pipeline, str) else _text(pipeline) for pipeline in (first, second)]
    ctx = current_scope().ctx
    recorded: tuple[dict[str, RecordedModule], dict[str, RecordedModule]] = ({}, {})
    # `isinstance` of a type parameter leaves the types of its items unknown.
    pairs = cast("Iterable[tuple[str, ModT]]", modules.items() if isinstance(modules, Mapping) else modules)
    for name, mod in pairs:
        if report is not None:
            report(name)
        comparison = _Comparison(name, mod, passes, ctx, sizes)
        await comparison.run(rounds)
        for side, module in zip(recorded, comparison.recorded(), strict=True):
            side[name] = module
    runs = [
        RecordedRun(source=text, identity="values", modules=side, samples=rounds)
        for text, side in zip(texts, recorded, strict=True)
    ]
    return RunDiff.of(*runs)


class _Comparison(Generic[ModT]):
    """The runs of two pipelines on one module."""

    def __init__(
        self,
        name: str,
        mod: ModT,
        passes: Sequence[Pass[ModT]],
        ctx: PassContext,
        sizes: Callable[[ModT], Mapping[str, int]] | None,
    ) -> None:
        self.name: Final = name
        self.mod: Final = mod
        self.passes: Final = passes
        self.ctx: Final = ctx
        self.sizes: Final = sizes
        self.samples: Final[tuple[list[RecordedModule], list[RecordedModule]]] = ([], [])

    async def run(self, rounds: int) -> None:
        """Run both pipelines, the first time for their results."""
        token = enter_module(self.name)
        try:
            for number in range(rounds + 1):
                for side in (0, 1) if number % 2 == 0 else (1, 0):
                    self.samples[side].append(await self.sample(self.passes[side], is_timed=number > 0))
        finally:
            leave_module(token)

    def recorded(self) -> tuple[RecordedModule, RecordedModule]:
        """Return the records of both pipelines."""
        first, second = (merged_module(samples, [0, *[1] * (len(samples) - 1)]) for samples in self.samples)
        return first, second

    async def sample(self, pass_: Pass[ModT], *, is_timed: bool) -> RecordedModule:
        """Run a pipeline, and return the record."""
        report, values = ReportInstrument(), _Values(self.mod)
        # The first run imports modules and fills caches, so it is not timed. It can afford fingerprints.
        instruments: list[object] = [report] if is_timed else [report, values]
        instruments.append(self.ctx.run_settings)
        context = self.ctx.replace(instruments=instruments, diag_ctx=None, executor=None, deadline=None, store=None)
        result: Any = None
        has_result = False
        # A collection in the middle of a pass would be part of its time.
        gc.collect()
        try:
            async with context:
                result, inner = await pass_(self.mod), current_scope()
                # Names that match no pass are reported by the caller's context, not by each run's.
                inner.expected.update(self.ctx.disabled_pass, self.ctx.required_pass)
            has_result = True
        except (Exception, SystemExit) as error:  # a pass that calls `sys.exit` has failed
            report.fail(self.name, error)
        module = RecordedRun.of(report.record(), self.name).modules.get(self.name, RecordedModule(name=self.name))
        module = replace(module, input=_fingerprint(self.mod))
        if has_result:
            sizes = module.sizes if self.sizes is None else {**module.sizes, **self.sizes(result)}
            module = replace(module, result=_fingerprint(result), sizes=sizes)
        return module if is_timed else replace(module, times={}, outputs=values.outputs_of(module))


@dataclass(frozen=True, slots=True)
class _Value:
    """The output of a pass."""

    fingerprint: str
    is_changed: bool


@pass_instrument
class _Values(EventInstrument):
    """Records the fingerprints of the outputs of passes.

    A text may leave out values, such as large weights.
    """

    reads_modules = True

    def __init__(self, mod: Any) -> None:
        kinds: tuple[EventKind, ...] = ("finished",)
        super().__init__(kinds, ())
        self._last = (mod, _fingerprint(mod))
        self._values: dict[tuple[tuple[int, str, str | None], ...], _Value] = {}

    def handle(self, event: Event, subject: Any) -> None:
        if event.position is None:
            return
        before = self._last[1]
        if subject is not self._last[0]:
            self._last = (subject, _fingerprint(subject))
        self._values[event.position.steps] = _Value(self._last[1], event.changed and self._last[1] != before)

    def outputs_of(self, module: RecordedModule) -> tuple[PassOutput, ...]:
        """Return the outputs of a module, identified by fingerprints."""
        return tuple(
            output
            if (value := self._values.get(output.position.steps)) is None
            else replace(output, digest=value.fingerprint, is_changed=value.is_changed)
            for output in module.outputs
        )


def _fingerprint(mod: Any) -> str:
    return f"{type(mod).__qualname__} {adapter_for(mod).fingerprint(mod)}"


def _text(pass_: Any) -> str:
    try:
        return str(pass_)
    except TypeError:  # a pass that cannot be written as text
        return repr(pass_)
