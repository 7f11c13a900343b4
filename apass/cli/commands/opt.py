"""`apass opt`: optimizes models concurrently, in one event loop or on all cores."""

from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final

import typer

from apass.cli.command import Command
from apass.cli.completion import complete_backend, complete_format, complete_pipeline, completes
from apass.cli.display import DisplayOptions, Reporter, RunDisplay
from apass.cli.errors import errors_as_lines, warnings_as_lines
from apass.cli.event_loop import check_backend, run_until_interrupted
from apass.cli.executor_option import PROCESS, executor_scope
from apass.cli.exit_status import FAILED, OUTPUT_FAILED
from apass.cli.growth import MaxGrowth
from apass.cli.inputs import Job, check_writable
from apass.cli.instruments import OBSERVER_OPTIONS, DataOptions, ObserverOptions, RunObserver, RunPlan
from apass.cli.instruments.snapshots import SnapshotObserver
from apass.cli.instruments.verify import VerifyingOutputs
from apass.cli.journal import file_journal
from apass.cli.optimize import JobResult, optimize_files
from apass.cli.options import ManyValues, options_in_use, with_options
from apass.cli.panels import OUTPUT, REPRODUCE, RUN, VERIFY
from apass.cli.planning import Plan, check_formats, make_plan, pipeline_text, plan_files, result_format
from apass.cli.settings import ContextOptions, PipelineOption, make_context, seconds_of
from apass.cli.streams import DataOutput, ModelStreams, model_streams, reserved_output
from apass.cli.terminal import OutputFormat, print_error
from apass.cli.user_modules import LoadOption
from apass.cli.verification import Verification, VerificationOptions, VerifyOutputs
from apass.concurrency.limits import usable_cores
from apass.core.context import PassContext
from apass.core.executor import EXECUTOR_NAMES
from apass.errors import InputError
from apass.executors.instrument_twins import why_not_portable
from apass.pipelines.languages import language_names, languages_of

__all__ = ["app"]

app: Final = typer.Typer(add_completion=False)

_SKIPPING: Final = {"--opt-bisect", "--opt-bisect-limit"}
"""Options with which passes of the pipeline do not run."""

ENOUGH: Final = 32
"""Models for each process that optimizes files by default; with twice as many there are two processes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultOptions:
    """The options of the results: the pipeline and the output paths."""

    PANEL: ClassVar[str] = OUTPUT

    pipeline: PipelineOption = None
    """The passes; None for the default pipeline of each model format."""
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="DIR|FILE|-",
            help=r"Write results to a directory, one result to a file or to standard output (-) "
            r"\[NAME.opt.onnx beside each model].",
        ),
    ] = None
    in_place: Annotated[bool, typer.Option("--in-place", help="Replace each model by its result.")] = False
    compare: Annotated[
        list[str] | None,
        typer.Option(
            "--compare",
            metavar="PIPELINES",
            autocompletion=complete_pipeline,
            help="Run each of these pipelines, print tables of nodes, bytes, latency and outputs, and write nothing.",
        ),
        ManyValues("--compare"),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The options of the run: concurrency, event loop, executor, start and storage."""

    jobs: Annotated[
        int, typer.Option("--jobs", "-j", min=1, help="Keep at most this many models in memory.", rich_help_panel=RUN)
    ] = 16
    backend: Annotated[
        str,
        typer.Option(
            "--backend",
            autocompletion=complete_backend,
            help="Set the event loop: asyncio or trio.",
            rich_help_panel=RUN,
        ),
    ] = "asyncio"
    source_format: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="FORMAT",
            autocompletion=complete_format,
            help="Read this format from standard input, such as onnx, mlir or ll.",
            rich_help_panel=RUN,
        ),
    ] = None
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="FORMAT",
            autocompletion=complete_format,
            help="Convert results to this format, such as relay.",
            rich_help_panel=OUTPUT,
        ),
    ] = None
    resume_from: Annotated[
        Path | None,
        typer.Option(
            "--resume-from",
            metavar="FILE",
            help="Continue after the pass that --dump-ir wrote FILE for.",
            rich_help_panel=REPRODUCE,
        ),
    ] = None
    executor: Annotated[
        str | None,
        typer.Option(
            "--executor",
            autocompletion=completes(*EXECUTOR_NAMES),
            help="Run passes in: inline, process, thread, interpreter, dask or dask://HOST:PORT "
            rf"\[the event loop; from {2 * ENOUGH} models, all cores].",
            rich_help_panel=RUN,
        ),
    ] = None
    max_growth: Annotated[
        str | None,
        typer.Option(
            "--max-growth",
            metavar="BYTES|PERCENT",
            help=r"Keep the model if its result is larger by more, such as 4096 or 5% \[0 for the default pipeline].",
            rich_help_panel=OUTPUT,
        ),
    ] = None
    timeout: Annotated[
        float | None,
        typer.Option(
            "--timeout",
            metavar="SECONDS",
            help="Fail a model whose passes take longer; with --executor process, its process is killed.",
            rich_help_panel=RUN,
        ),
    ] = None
    cache: Annotated[
        str | None,
        typer.Option(
            "--cache",
            metavar="LOCATION",
            help="Cache results in a file, redis://HOST:PORT, or 'default'.",
            rich_help_panel=RUN,
        ),
    ] = None
    journal: Annotated[
        Path | None,
        typer.Option(
            "--journal",
            metavar="FILE",
            help="Record finished models in FILE; the next run skips them, and continues interrupted pipelines.",
            rich_help_panel=RUN,
        ),
    ] = None
    split_input_file: Annotated[
        bool,
        typer.Option(
            "--split-input-file",
            help="Split each file of text at lines such as // -----, and optimize the modules separately.",
            rich_help_panel=RUN,
        ),
    ] = False
    verify_diagnostics: Annotated[
        bool,
        typer.Option(
            "--verify-diagnostics",
            help="Write the error of a failed module in place of its result, for tests of errors.",
            rich_help_panel=VERIFY,
        ),
    ] = False

    def growth(self, *, is_default: bool) -> MaxGrowth | None:
        """Return how much larger a result may be, or None for no limit.

        Parameters:
            is_default: whether the pipeline is the default one, whose results are smaller.

        Raises:
            InputError: if the option is not valid.

        """
        if self.max_growth is not None:
            return MaxGrowth.parse(self.max_growth)
        return MaxGrowth() if is_default else None


class _Opt(Command):
    """The command, whose `-h` shows the options that most users need."""

    common = frozenset(
        {"pipeline", "opt_level", "disable", "output", "in_place", "to", "compare", "quiet", "verbose"}
        | {"print_ir_after", "print_changed", "timing", "verify", "reproducer", "report"}
        | {"verify_outputs", "input_shape", "inputs"}
        | {"jobs", "source_format", "executor", "timeout", "cache"}
    )


_EXAMPLES: Final = (
    "Examples:",
    "apass opt models/ -o out/",
    "apass opt model.onnx -o smaller.onnx -p 'onnx.Inline,Repeat{times=3}(onnx.Simplify)'",
    "apass opt - --from onnx -p @pipeline.txt < model.onnx > smaller.onnx",
    "apass opt models/ -o out/ --output-format json | jq .outcome",
    "apass opt model.onnx --compare onnx.Default ort.Basic",
)
"""Shown above the options; one line for each."""


@app.command("opt", cls=_Opt, epilog="\n\n".join(_EXAMPLES))
@with_options(ResultOptions, ContextOptions, RunOptions, VerificationOptions, DisplayOptions, *OBSERVER_OPTIONS)
def opt(
    *,
    models: Annotated[
        list[str], typer.Argument(metavar="MODEL", help="Model files, directories and globs; - for standard input.")
    ],
    options: tuple[
        ResultOptions, ContextOptions, RunOptions, VerificationOptions, DisplayOptions, *tuple[ObserverOptions, ...]
    ],
    _load: LoadOption = None,
) -> None:
    """Optimize models concurrently, and write the results.

    Exit status: 0, 1 if a model failed (the others are written), 2 if nothing was started, 4 if only another output
    (report, trace, times, remarks) could not be written; 130 after Ctrl-C, 143 after SIGTERM.
    """
    result_options, context_options, run_options, verification, display_options, *observer_options = options
    with errors_as_lines(), warnings_as_lines(), ExitStack() as stack:
        check_backend(run_options.backend)
        seconds_of("--timeout", run_options.timeout)
        run_options.growth(is_default=False)
        verification.given()
        display_options.check()
        if result_options.compare is not None:
            _check_compared([result_options, run_options, verification, display_options, *observer_options])
        if run_options.journal is not None:
            _check_journaled(observer_options)
        streams = stack.enter_context(
            model_streams(
                models,
                result_options.output,
                run_options.source_format,
                needs_files=_options_for_files(result_options, run_options),
                writes=result_options.compare is None,
            )
        )
        if result_options.compare is not None:
            _compare(streams, result_options.compare, context_options, run_options, verification)
            return
        prints_lines = display_options.output_format is OutputFormat.JSON
        if streams.writes and prints_lines:
            raise InputError("--output-format json and the result both need standard output; name a file with -o FILE")
        prints_data = any(isinstance(group, DataOptions) and group.prints_data for group in observer_options)
        has_data = streams.writes or prints_lines or prints_data
        output = stack.enter_context(reserved_output()) if has_data else None
        result_options = replace(result_options, output=streams.output)
        run_options = replace(run_options, to=result_format(streams.output, run_options.to))
        jobs = plan_files(streams.models, streams.output, in_place=result_options.in_place, to=run_options.to)
        streams.check_number(jobs)
        if result_options.pipeline is not None:
            text = pipeline_text(result_options.pipeline, [job.suffix for job in jobs])
            result_options = replace(result_options, pipeline=text)
        split = None
        if run_options.split_input_file:
            if run_options.journal is not None:
                raise InputError("--journal cannot be used with --split-input-file: it records files, not their parts")
            check_writable(jobs, streams.output)
            # Few runs split their files.
            from apass.cli.split_files import split_files

            split = streams.parts = stack.enter_context(split_files(jobs, result_options.pipeline))
        stdout = _StandardOutput(streams, output, display_options)
        run = _Run(jobs, split, result_options, context_options, run_options, verification, observer_options, stdout)
        work = run.on_all_cores if run.workers else partial(run.optimize, run.plan(), None)
        limits = [seconds for seconds in (run_options.timeout, context_options.deadline) if seconds is not None]
        run_until_interrupted(work, run_options.backend, limit=min(limits, default=None))
        if not run.display.is_complete:
            raise typer.Exit(FAILED)
        streams.send(jobs[0], output)
        if run.display.failed_outputs:
            raise typer.Exit(OUTPUT_FAILED)


def _options_for_files(results: ResultOptions, run: RunOptions) -> list[str]:
    """Return the options in use that cannot be combined with `-`."""
    values = {"--in-place": results.in_place, "--journal": run.journal is not None}
    return [option for option, is_used in values.items() if is_used]


def _check_journaled(observers: Sequence[ObserverOptions]) -> None:
    """Raise if an option skips passes: the next run would take over the results."""
    for option in chain.from_iterable(map(options_in_use, observers)):
        if option in _SKIPPING:
            raise InputError(
                f"--journal cannot be used with {option}: it would record results of a part of the pipeline"
            )


def _check_compared(groups: Sequence[object]) -> None:
    """Raise if an option does not apply to a comparison."""
    allowed = {"--compare", "--from", "--color", "--jobs", "--backend", "--executor", "--timeout", "--cache"}
    allowed |= {"--input-shape", "--inputs", "--require-verified"}
    for option in chain.from_iterable(map(options_in_use, groups)):
        if option not in allowed:
            raise InputError(f"{option} cannot be used with --compare, which writes nothing; leave one of them out")


def _compare(
    streams: ModelStreams,
    texts: Sequence[str],
    options: ContextOptions,
    run: RunOptions,
    verification: VerificationOptions,
) -> None:
    """Compare pipelines on each model, and print the tables."""
    # Few runs compare pipelines.
    from apass.cli.compare import ComparisonDisplay, compare_pipelines, plan_comparison

    jobs = plan_comparison(streams.models, texts)
    store = _store(run.cache)
    context = make_context(options, [pipeline for _, pipeline in jobs.pipelines], (), store)
    executors = executor_scope(run.executor, {})
    display = ComparisonDisplay([text for text, _ in jobs.pipelines], len(jobs.models))

    def on_result(result: Any) -> None:
        for error in filter(None, (result.error, *(row.error for row in result.rows))):
            streams.explain(error)
        display.result(result)

    async def work() -> None:
        async with store or nullcontext(), context, executors as executor:
            await compare_pipelines(
                jobs,
                executor=executor,
                timeout=run.timeout,
                limit=run.jobs,
                verification=verification.verification() or Verification(),
                on_result=on_result,
            )

    with display:
        run_until_interrupted(work, run.backend)
    if not display.is_complete:
        raise typer.Exit(FAILED)


def _store(location: str | None) -> Any:
    """Return the store at a location, or None."""
    if location is None:
        return None
    # SQLite is not needed without a cache.
    from apass.cli.cache_location import OptionalStore, store_at

    return OptionalStore(store_at(location))


@dataclass(frozen=True, slots=True)
class _StandardOutput:
    """What the run writes to standard output."""

    streams: ModelStreams
    """The models and the output, with files in place of `-`."""
    data: DataOutput | None
    """Standard output, if it is reserved for a model or for JSON."""
    options: DisplayOptions
    """The options of the display."""

    @property
    def has_lines(self) -> bool:
        """Whether there is a line of JSON for each model."""
        return self.options.output_format is OutputFormat.JSON

    @property
    def has_observed(self) -> bool:
        """Whether the output is reserved for the data of observers."""
        return self.data is not None and not self.streams.writes and not self.has_lines

    def print(self, text: str) -> None:
        """Print the data of an observer."""
        assert self.data is not None, "the output is reserved"
        self.data.write(text.encode(errors="backslashreplace") + b"\n")


class _Run:
    """One run of the command, from the plan to the table."""

    def __init__(
        self,
        jobs: Sequence[Job],
        split: Any,
        results: ResultOptions,
        context: ContextOptions,
        options: RunOptions,
        verification: VerificationOptions,
        observers: Sequence[ObserverOptions],
        stdout: _StandardOutput,
    ) -> None:
        self._jobs: Sequence[Job] = jobs if split is None else split.jobs
        self._split = split
        self._results = results
        self._context = context
        self._options = options
        self._verification = verification
        self._observers = observers
        self._stdout = stdout
        self.display: RunDisplay
        """The display, after `optimize`."""

    async def on_all_cores(self) -> None:
        """Start worker processes, plan the run meanwhile, and optimize the models."""
        pipeline, backend = self._results.pipeline, self._options.backend
        formats = check_formats(self._jobs, self._options.to, pipeline)
        # A run in one process needs no workers.
        from apass.cli.file_workers import started_workers

        async with started_workers(self.workers, formats, pipeline, backend) as workers:
            await self.optimize(self.plan(), workers)

    @cached_property
    def workers(self) -> int:
        """How many worker processes read and write files themselves."""
        options = self._options
        # With these, models are read here, and at most their passes run in the executor.
        if (
            options.timeout is not None
            or self._verification.when is not VerifyOutputs.OFF
            or options.resume_from is not None
        ):
            return 0
        # This process does not know which files a lost worker has replaced.
        if options.journal is not None or self._results.in_place:
            return 0
        # Instruments, also those of debug mode and of --record, report to this process.
        context = self._context
        if context.record is not None or context.replay_answers is not None or context.schedule is not None:
            return 0
        if any(map(options_in_use, self._observers)) or self._context.debug or PassContext().instruments:
            return 0
        if self._runs_programs():
            return 0
        cores, models = min(usable_cores(), options.jobs), len(self._jobs)
        if options.executor == PROCESS:
            return min(cores, models)
        # This process is one of those that optimize files. A worker takes a second to start.
        return max(0, min(cores, models // ENOUGH) - 1) if options.executor is None else 0

    def _runs_programs(self) -> bool:
        """Return whether all passes run in processes of other programs."""
        text = self._results.pipeline
        # Passes of other libraries take long to import, and the workers start meanwhile.
        if text is None:
            may_run = any(True for _ in languages_of([job.suffix for job in self._jobs]))
        else:
            may_run = text.partition(".")[0] in language_names()
        return may_run and all(pass_.execution.in_program for pass_ in self.plan().passes.values())

    async def optimize(self, plan: Plan, workers: Any) -> None:
        """Optimize the models, and display the run.

        Parameters:
            plan: the plan of the run.
            workers: the FileWorkers, or None.

        """
        options = self._options
        run = RunPlan(plan=plan, context=self._context, backend=options.backend)
        enabled: list[tuple[Any, RunObserver]] = [
            (group, observer) for group in self._observers if (observer := group.create_observer(run)) is not None
        ]
        verify = self._verification.when
        verification = self._verification.verification()
        if verify in (VerifyOutputs.EACH, VerifyOutputs.PROVE):
            # First: the pass that it blames must fail before the reproducer is written.
            given = None if verification is None else verification.inputs
            observer = VerifyingOutputs(prove=verify is VerifyOutputs.PROVE, inputs=given)
            enabled.insert(0, (self._verification, observer))
        if options.journal is not None:
            # Last: a pass that another instrument rejects has not finished.
            enabled.append((options, SnapshotObserver(options.journal)))
        observers = [observer for _, observer in enabled]
        data = {
            observer: self._stdout.print
            for group, observer in enabled
            if self._stdout.has_observed and isinstance(group, DataOptions) and group.prints_data
        }
        installed = [(group, instrument) for group, observer in enabled for instrument in observer.instruments()]
        store = _store(options.cache)
        context = make_context(self._context, plan.passes.values(), [instrument for _, instrument in installed], store)
        unsupported = {
            option: reason
            for group, instrument in installed
            for option in options_in_use(group)
            if (reason := why_not_portable(instrument)) is not None
        }
        executors = executor_scope(options.executor, unsupported)
        if self._split is None:
            check_writable(plan.jobs, self._results.output)
        has_bar = not any(observer.takes_terminal for observer in observers)
        reporter = Reporter(len(plan.jobs), self._stdout.options, bar=has_bar, renamed=self._stdout.streams.renamed)
        if self._stdout.has_lines:
            # Few runs print JSON lines.
            from apass.cli.json_lines import JsonLines

            assert self._stdout.data is not None, "the output is reserved"
            lines = JsonLines(self._stdout.data, context.diag_ctx, self._stdout.streams)
            observers.insert(0, lines)
        self.display = RunDisplay(reporter, observers, data)
        journals = file_journal(options.journal, plan.passes, context, verify=self._verification.described)
        with journals as journal, self.display.closing(context.diag_ctx):
            async with store or nullcontext(), context, executors as executor:
                if workers is None:
                    await optimize_files(
                        plan.jobs,
                        plan.treatment_of,
                        executor=executor,
                        timeout=options.timeout,
                        journal=journal,
                        limit=options.jobs,
                        verification=verification,
                        max_growth=options.growth(is_default=self._results.pipeline is None),
                        on_phase=self.display.phase,
                        on_result=self._on_result,
                    )
                else:
                    is_default = options.executor is None
                    await workers.optimize(
                        plan.jobs,
                        plan.passes,
                        cache=options.cache,
                        limit=max(1, options.jobs // (workers.count + is_default)),
                        max_growth=options.growth(is_default=self._results.pipeline is None),
                        joins=is_default,
                        on_phase=self.display.phase,
                        on_result=self._on_result,
                    )
            for observer in observers:
                await observer.follow_up()

        unwritten: Sequence[Path] = [] if self._split is None else self._split.unwritten
        for path in unwritten:
            print_error(f"{path} was not written: a module in it failed")

    def _on_result(self, result: JobResult) -> None:
        """Display the result of a model."""
        if result.error is not None:
            self._stdout.streams.explain(result.error)
            if self._options.verify_diagnostics:
                result = self._with_diagnostic(result)
        if self._split is not None:
            self._split.finish(result)
        self.display.result(result)

    def _with_diagnostic(self, result: JobResult) -> JobResult:
        """Write the error of a model in place of its result."""
        # Few runs split their files.
        from apass.cli.split_files import with_diagnostic

        written: JobResult = with_diagnostic(result)
        return written

    def plan(self) -> Plan:
        """Return the plan of the run, after the pass of `--resume-from` if it is set."""
        plan = make_plan(self._jobs, self._results.pipeline, self._options.to)
        if self._options.resume_from is None:
            return plan
        # Few runs resume a pipeline.
        from apass.cli.resume import resume_plan

        context = make_context(self._context, plan.passes.values())
        resumed: Plan = resume_plan(plan, self._options.resume_from, context)
        return resumed
