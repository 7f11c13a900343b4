"""`RecordedRun`: what a report, a journal or repeated runs record."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final, Self

from apass.core.position import Position
from apass.core.remarks import Remark
from apass.errors import InputError
from apass.instruments.report.record import PassRun, Record, RunStatus
from apass.instruments.report.recorder import module_name
from apass.instruments.report.texts import StoredText, text_at, text_digests

__all__ = ["PassOutput", "RecordedModule", "RecordedRun", "RecordedTexts", "merged_module"]

_TEXTS_BYTES: Final = 2**32
"""Maximum size of all texts of a report; a few bytes of a damaged page may expand to any number."""
_ENDS: Final = {RunStatus.CANCELLED: "cancelled", RunStatus.UNFINISHED: "unfinished"}


@dataclass(frozen=True, slots=True)
class RecordedTexts:
    """The texts of modules, decompressed when they are read."""

    stored: Sequence[StoredText] = ()
    """The texts by index."""

    def text(self, index: int, limit: int) -> str | None:
        """Return a text.

        It is None if it was not stored, has more than `limit` bytes or is damaged.
        """
        if not 0 <= index < len(self.stored):
            return None
        try:
            return text_at(self.stored, index, limit)
        except ValueError:
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class PassOutput:
    """The output of a pass without inner passes."""

    position: Position
    """The position of the pass."""
    digest: str | None
    """The identity of its output; None if it is unknown."""
    is_changed: bool
    """Whether the output differs from the input."""
    text: int = -1
    """The index of the text of its output, or -1."""

    @property
    def name(self) -> str:
        """The name of the pass."""
        return self.position.steps[-1][1]


def _empty() -> Mapping[Any, Any]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedModule:
    """What is recorded of one module."""

    name: str
    """The name of the module."""
    input: str | None = None
    """The identity of the input; None if it is unknown."""
    result: str | None = None
    """The identity of the result; None if it is unknown."""
    failure: str | None = None
    """The reason why there is no result."""
    sizes: Mapping[str, int] = field(default_factory=_empty)
    """The sizes of the result, by what they count, such as `nodes`."""
    outputs: tuple[PassOutput, ...] = ()
    """The outputs of the passes, in the order of the pipeline."""
    statistics: Mapping[tuple[str, str], float] = field(default_factory=_empty)
    """The statistics, by the names of the pass and of the statistic."""
    remarks: tuple[str, ...] = ()
    """The remarks as lines, sorted."""
    times: Mapping[str, tuple[float, ...]] = field(default_factory=_empty)
    """The seconds of each pass, a number for each repetition."""
    is_repeatable: bool = True
    """Whether all repetitions have the same result."""
    input_text: int = -1
    """The index of the text of the input, or -1."""
    texts: RecordedTexts = field(default_factory=RecordedTexts, compare=False, repr=False)
    """The texts to which the outputs refer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRun:
    """A run over some modules, perhaps repeated.

    `read_run` returns one from a file, `RecordedRun.of` from the record of a `ReportInstrument`.

    >>> import apass
    >>> from apass.instruments import ReportInstrument
    >>> report = ReportInstrument()
    >>> Halve = apass.function_pass(lambda func, mod, ctx: func // 2, opt_level=0, name="Halve")
    >>> apass.run(Halve, {"f": 8}, context=apass.PassContext(instruments=[report]))
    {'f': 4}
    >>> module = RecordedRun.of(report.record(), "a run").modules["(unnamed 1)"]
    >>> [(output.name, output.is_changed) for output in module.outputs]
    [('Halve', True)]

    """

    source: str
    """Where the run comes from, such as the name of a file."""
    identity: str = "text"
    """What the identities of modules are made from: their `text`, their `values`, or their `files`.

    Identities of another kind differ for equal modules.
    """
    modules: Mapping[str, RecordedModule]
    """The modules by name."""
    settings: Mapping[str, str] = field(default_factory=_empty)
    """What the results depend on, such as the pipeline, as far as it is known."""
    samples: int = 0
    """How many times each pass was measured; 0 if there are no times."""
    notes: tuple[str, ...] = ()
    """What the record lacks."""

    @classmethod
    def of(cls, record: Record, source: str) -> Self:
        """Return the run of a report.

        Raises:
            ValueError: if the texts are damaged.

        """
        stored, digests = RecordedTexts(record.texts), text_digests(record.texts, _TEXTS_BYTES)
        by_module: defaultdict[str, list[PassRun]] = defaultdict(list)
        remarks: defaultdict[str, list[str]] = defaultdict(list)
        for run in record.runs:
            by_module[run.module].append(run)
        for item in record.remarks:
            name = item.remark.module if item.position is None else module_name(item.position)
            remarks[name or ""].append(_remark_line(item.remark))
        modules = {name: _module(name, runs, stored, digests, remarks[name]) for name, runs in by_module.items()}
        for name, failure in record.failures.items():
            module = modules.get(name, RecordedModule(name=name))
            modules[name] = replace(module, result=None, failure=f"{failure.kind}: {failure.message}")
        notes = [f"{source}: {count:,} {kind} were beyond a limit" for kind, count in record.left_out.items()]
        return cls(source=source, modules=modules, samples=1, notes=tuple(notes))

    @classmethod
    def merged(cls, runs: Sequence[Self], source: str) -> Self:
        """Return one run for repetitions of it.

        Raises:
            InputError: if there is no run, or a run has other modules than the first.

        """
        if not runs:
            raise InputError(f"{source} has no runs; expected reports that `apass opt --report` wrote")
        first = runs[0]
        for run in runs[1:]:
            other = sorted(run.modules.keys() ^ first.modules.keys())
            if other:
                raise InputError(
                    f"{first.source} and {run.source} are not repetitions: only one of them has {other[0]!r}; "
                    "put reports of the same models into a folder"
                )
        counts = [run.samples for run in runs]
        modules = {name: merged_module([run.modules[name] for run in runs], counts) for name in first.modules}
        notes = tuple(dict.fromkeys(note for run in runs for note in run.notes))
        samples = sum(run.samples for run in runs) if all(run.samples for run in runs) else 0
        return replace(first, source=source, modules=modules, samples=samples, notes=notes)


def _module(
    name: str,
    runs: Sequence[PassRun],
    stored: RecordedTexts,
    texts: Sequence[tuple[str, int]],
    remarks: Iterable[str],
) -> RecordedModule:
    outermost = [run for run in runs if len(run.steps) == 1]
    # A composite pass is compared by its inner passes. Those that bodies call have modules of their own.
    composite = {
        (*run.steps[:-2], (*run.steps[-2][:2], None)) for run in runs if len(run.steps) > 1 and run.steps[-2][2] is None
    }
    inner = [run for run in runs if run.steps not in composite and all(step[2] is None for step in run.steps)]
    times: defaultdict[str, float] = defaultdict(float)
    for run in inner:
        times[run.steps[-1][1]] += run.end - run.start
    last = outermost[-1] if outermost else None
    is_finished = last is not None and _failure(last) is None
    # The last failure by position is that of the innermost pass. A failure that `First` recovered from is no failure.
    failures = () if is_finished else (text for run in reversed(runs) if (text := _failure(run)) is not None)
    before = outermost[0].before if outermost else -1
    result = last.after if last is not None and is_finished else -1
    statistics: defaultdict[tuple[str, str], float] = defaultdict(float)
    for run in runs:
        for key, amount in run.statistics.items():
            statistics[run.steps[-1][1], key] += amount
    return RecordedModule(
        name=name,
        input=None if before < 0 else texts[before][0],
        result=None if result < 0 else texts[result][0],
        failure=next(iter(failures), None),
        sizes={} if result < 0 else {"bytes of text": texts[result][1]},
        outputs=tuple(
            PassOutput(
                position=Position(run.module, run.steps),
                digest=None if run.after < 0 else texts[run.after][0],
                is_changed=run.status is not RunStatus.UNCHANGED,
                text=run.after,
            )
            for run in inner
        ),
        statistics=dict(statistics),
        remarks=tuple(sorted(remarks)),
        times={key: (seconds,) for key, seconds in times.items()},
        input_text=before,
        texts=stored,
    )


def merged_module(modules: Sequence[RecordedModule], counts: Sequence[int]) -> RecordedModule:
    """Return the record of a module from repetitions, each measured so many times."""
    names = dict.fromkeys(name for module in modules for name in module.times)
    times = {
        name: tuple(
            time
            for module, count in zip(modules, counts, strict=True)
            # A pass that did not run in a repetition took no time in it.
            for time in module.times.get(name, (0.0,) * count)
        )
        for name in names
    }
    # A failure of any repetition counts.
    shown = next((module for module in modules if module.failure is not None), modules[0])
    is_repeatable = all(
        module.is_repeatable and (module.result, module.failure) == (shown.result, shown.failure) for module in modules
    )
    return replace(shown, times=times, is_repeatable=is_repeatable)


def _failure(run: PassRun) -> str | None:
    """Return why a run has no result, with the position of the pass, or None."""
    position = Position(None, run.steps).text
    if run.failure is not None:
        return f"{run.failure.kind}: {run.failure.message} (in {position})"
    end = _ENDS.get(run.status)
    return None if end is None else f"{end} in {position}"


def _remark_line(remark: Remark) -> str:
    where = "" if remark.function is None else f" in {remark.function}"
    return f"{remark.pass_name or 'no pass'}: {remark.kind.value} {remark.name}{where}: {remark.message}"
