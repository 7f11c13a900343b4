"""`apass search`: finds the best pipeline of a space for each model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final

import anyio
import typer
from anyio.to_thread import run_sync

from apass.batch.formats import ModelFormat, format_of
from apass.cli.command import Command
from apass.cli.completion import complete_backend, completes
from apass.cli.errors import errors_as_lines, warnings_as_lines
from apass.cli.event_loop import check_backend, run_until_interrupted
from apass.cli.executor_option import PROCESS, executor_scope
from apass.cli.exit_status import FAILED
from apass.cli.inputs import Job, check_writable
from apass.cli.options import with_options
from apass.cli.output_files import check_file, named, write_file
from apass.cli.panels import OUTPUT, PIPELINE, RUN, VERIFY
from apass.cli.planning import pipeline_contents, pipeline_text, plan_files
from apass.cli.quantities import bytes_of
from apass.cli.search_display import SearchDisplay, change_of
from apass.cli.settings import ConfigOptions, make_context, seconds_of
from apass.cli.terminal import FormatOption, OutputFormat, print_warning
from apass.cli.user_modules import LoadOption
from apass.core.executor import EXECUTOR_NAMES
from apass.core.ir_plugin import irs_of_suffix
from apass.errors import InputError
from apass.executors.processes import ProcessExecutor
from apass.search.ablation import Effect
from apass.search.named_objectives import find_objective
from apass.search.named_spaces import find_space
from apass.search.options import Budget, SearchOptions
from apass.search.report import report_page
from apass.search.result import SearchResult
from apass.search.session import Search
from apass.search.space import Space, pipeline_of
from apass.search.template import examples_of, first_of
from apass.util.files import write_whole

__all__ = ["app"]

app: Final = typer.Typer(add_completion=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class GoalOptions:
    """The options of what is searched."""

    PANEL: ClassVar[str] = PIPELINE

    space: Annotated[
        str,
        typer.Option(
            "--space",
            "-s",
            metavar="SPACE",
            help="Choose from this space: a name, such as llvm.phases, a pipeline with holes, as "
            "'?{1..9}(A|B{level=?1..3}|C)', or @FILE.",
        ),
    ]
    objective: Annotated[
        list[str] | None,
        typer.Option(
            "--objective",
            metavar="NAME",
            help="Minimize this value: nodes, bytes, latency, time:PROGRAM, command:PROGRAM or a registered callable; "
            r"repeat it for several, the first one decides \[nodes].",
        ),
    ] = None
    constraint: Annotated[
        list[str] | None,
        typer.Option("--constraint", metavar="NAME<=VALUE", help="Reject candidates with a greater value."),
    ] = None
    baseline: Annotated[
        str | None,
        typer.Option(
            "--baseline", metavar="PIPELINE", help=r"Compare with the result of this pipeline \[the model as it is]."
        ),
    ] = None
    strategy: Annotated[
        str,
        typer.Option(
            "--strategy",
            metavar="NAME",
            autocompletion=completes("coreset", "evolution", "greedy", "nsga2", "random", "tpe"),
            help="Propose candidates by: random, greedy, evolution, coreset, coreset:FILE, tpe, gp, cmaes, nsga2, "
            "nevergrad:NAME.",
        ),
    ] = "evolution"
    seed: Annotated[int, typer.Option("--seed", help="Set the seed of random choices.")] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRunOptions:
    """The options of the run."""

    PANEL: ClassVar[str] = RUN

    evaluations: Annotated[
        int | None,
        typer.Option(
            "--evaluations", "-n", metavar="N", min=1, help="Build at most this many candidates, for all models."
        ),
    ] = None
    seconds: Annotated[
        float | None, typer.Option("--seconds", metavar="SECONDS", help="Search at most for this time.")
    ] = None
    journal: Annotated[
        Path | None,
        typer.Option("--journal", metavar="FILE", help="Record trials in FILE; the same command continues from it."),
    ] = None
    executor: Annotated[
        str | None,
        typer.Option(
            "--executor",
            autocompletion=completes(*EXECUTOR_NAMES),
            help="Build candidates in: inline, process, thread, interpreter, dask or dask://HOST:PORT.",
        ),
    ] = None
    workers: Annotated[
        int | None,
        typer.Option("--workers", "-j", metavar="N", min=1, help=r"Build this many candidates at once \[all cores]."),
    ] = None
    timeout: Annotated[
        float | None,
        typer.Option(
            "--timeout", metavar="SECONDS", help="Fail a candidate that takes longer to build, or to be rated."
        ),
    ] = 60.0
    memory: Annotated[
        str | None,
        typer.Option(
            "--worker-memory",
            metavar="SIZE",
            help="Fail a candidate whose process uses more memory, such as 2GiB; needs --executor process.",
        ),
    ] = None
    backend: Annotated[
        str, typer.Option("--backend", autocompletion=complete_backend, help="Set the event loop: asyncio or trio.")
    ] = "asyncio"

    def budget(self) -> Budget:
        """Return how long the search lasts."""
        seconds_of("--seconds", self.seconds)
        if self.evaluations is None and self.seconds is None:
            return Budget()
        return Budget(self.evaluations, self.seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOutputOptions:
    """The options of the results."""

    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="DIR",
            help="Write the best models to DIR, each with its pipeline as NAME.txt, for `apass opt -p @NAME.txt`.",
            rich_help_panel=OUTPUT,
        ),
    ] = None
    verify_outputs: Annotated[
        bool,
        typer.Option(
            "--verify-outputs/--no-verify-outputs",
            help="Compare the outputs of each better candidate with those of the model.",
            rich_help_panel=VERIFY,
        ),
    ] = True
    reproducers: Annotated[
        Path | None,
        typer.Option(
            "--reproducer",
            metavar="DIR",
            help="Write a folder for `apass replay` if a candidate fails.",
            rich_help_panel=VERIFY,
        ),
    ] = None
    ablate: Annotated[
        bool,
        typer.Option(
            "--ablate",
            help="At the end, leave out the passes of the best pipelines one by one, and drop those without effect.",
            rich_help_panel=OUTPUT,
        ),
    ] = False
    report: Annotated[
        Path | None,
        typer.Option(
            "--report",
            metavar="FILE",
            help="Write an HTML page: convergence, Pareto front, passes that matter (--ablate), all trials.",
            rich_help_panel=OUTPUT,
        ),
    ] = None
    output_format: FormatOption = OutputFormat.TEXT


_EXAMPLES: Final = (
    "Examples:",
    "apass search *.ll --space llvm.phases --baseline 'llvm:default<Oz>' --strategy coreset -n 200 -o best/",
    "apass search model.onnx -s 'Repeat{times=?1..3}(?{1..4,once}(onnx.Simplify|ort.Basic|onnxslim.Slim))'",
    "apass search kernel.ll -s llvm.phases --objective 'command:./size.sh {}' --seconds 600 --journal study.db",
)
"""Shown above the options; one line for each."""


@app.command("search", cls=Command, epilog="\n\n".join(_EXAMPLES))
@with_options(GoalOptions, SearchRunOptions, SearchOutputOptions, ConfigOptions)
def search(
    *,
    models: Annotated[list[str], typer.Argument(metavar="MODEL", help="Model files, directories and globs.")],
    options: tuple[GoalOptions, SearchRunOptions, SearchOutputOptions, ConfigOptions],
    _load: LoadOption = None,
) -> None:
    """Find the best pipeline of a space for each model, and write the results.

    Candidates that fail are failed trials, and the search goes on. Ctrl-C writes the best so far. Exit status: 0, 1 if
    all candidates failed, 2 if nothing was started; 130 after Ctrl-C, 143 after SIGTERM.
    """
    goal, run, output, config = options
    with errors_as_lines(), warnings_as_lines():
        check_backend(run.backend)
        seconds_of("--timeout", run.timeout)
        if output.output is not None and output.output.exists() and not output.output.is_dir():
            raise InputError(f"-o needs a folder for several results, got the file {output.output}")
        if output.report is not None:
            check_file("--report", output.report)
        jobs = plan_files(models, output.output, in_place=False, to=None)
        if output.output is not None:
            check_writable(jobs, output.output)
        _Run(jobs, goal, run, output, config).run()


class _Run:
    """One run of the command."""

    def __init__(
        self,
        jobs: Sequence[Job],
        goal: GoalOptions,
        run: SearchRunOptions,
        output: SearchOutputOptions,
        config: ConfigOptions,
    ) -> None:
        self._jobs = {job.name: job for job in jobs}
        self._goal = goal
        self._run = run
        self._output = output
        self._space = find_space(pipeline_contents(goal.space).strip())
        suffixes = sorted({job.suffix for job in jobs})
        irs = [ir for suffix in suffixes for ir in irs_of_suffix(suffix)]
        self._objective = find_objective(goal.objective or ["nodes"], irs)
        self._baseline = "" if goal.baseline is None else pipeline_text(goal.baseline, suffixes)
        self._context = make_context(config, [self._example(self._space)])
        self._warn_of_levels(config.opt_level)
        self._formats: dict[str, ModelFormat] = {}
        self._budget = run.budget()
        self._display = SearchDisplay(self._budget, output.output_format)
        self._results: list[SearchResult[Any]] = []
        self._effects: Mapping[str, Sequence[Effect]] = {}
        self._has_ablation = output.ablate or output.report is not None

    def _warn_of_levels(self, level: int) -> None:
        """Warn of passes in the space that do not run at the level of the context."""
        passes = [pass_ for text in examples_of(self._space.items) for pass_ in pipeline_of([text]).passes]
        skipped = {pass_.info.name: pass_.info.opt_level for pass_ in passes if pass_.info.opt_level > level}
        if skipped:
            names, most = ", ".join(sorted(skipped)), max(skipped.values())
            print_warning(f"at level {level} these do not run: {names}; use -O {most}, also to repeat the result")

    @staticmethod
    def _example(space: Space) -> Any:
        return space.passes_of(space.draw(first_of))

    def run(self) -> None:
        """Search, write the results, and print a summary."""
        options = SearchOptions(
            strategy=self._goal.strategy,
            budget=self._budget,
            baseline=self._baseline,
            constraints=dict(map(_constraint, self._goal.constraint or ())),
            journal=self._run.journal,
            workers=self._run.workers,
            timeout=self._run.timeout,
            verify_outputs=self._output.verify_outputs,
            reproducers=self._output.reproducers,
            seed=self._goal.seed,
        )
        try:
            run_until_interrupted(partial(self._search, options), self._run.backend)
        finally:
            if self._results:
                self._display.print(self._results[0], self._effects)
        if self._results and self._results[0].failed == self._results[0].evaluations > 0:
            raise typer.Exit(FAILED)

    async def _search(self, options: SearchOptions) -> None:
        modules = {name: await run_sync(self._load, job) for name, job in self._jobs.items()}
        async with self._context, self._executor() as executor:
            running = Search(modules, self._space, self._objective, _with_executor(options, executor))
            async with running:
                is_interrupted = True
                try:
                    with self._display:
                        async for trial in running:
                            self._display.show(trial, running.ratio)
                    is_interrupted = False
                finally:
                    with anyio.CancelScope(shield=True):
                        if self._has_ablation and not is_interrupted:
                            self._effects = await running.ablate()
                        result = await running.finish(checked=not is_interrupted)
                        await run_sync(self._write, result)
                        self._results.append(result)
                        self._write_report(running, result, modules)

    def _executor(self) -> Any:
        if self._run.memory is None:
            return executor_scope(self._run.executor, {})
        if self._run.executor != PROCESS:
            raise InputError("--worker-memory needs --executor process")
        return ProcessExecutor(self._run.workers, memory=bytes_of("--worker-memory", self._run.memory))

    def _load(self, job: Job) -> Any:
        if job.suffix not in self._formats:
            self._formats[job.suffix] = format_of(job.source, None, self._example(self._space))
        return self._formats[job.suffix].load(job.source)

    def _write(self, result: SearchResult[Any]) -> None:
        """Write the best models and their pipelines."""
        if self._output.output is None:
            return
        for name, found in result.modules.items():
            job = self._jobs[name]
            model_format = self._formats[job.suffix]
            target = model_format.path_of(found.module, job.target)
            text = target.with_name(f"{target.name.removesuffix(target.suffix)}.txt")
            try:
                model_format.save(found.module, target)
                write_whole(text, f"# {change_of(found)}\n{found.pipeline or 'Sequential'}\n")
            except OSError as error:
                raise named(error, target) from None

    def _write_report(self, running: Search[Any], result: SearchResult[Any], modules: Mapping[str, Any]) -> None:
        if self._output.report is None:
            return
        trials = {name: list(found) for name, found in running.trials().items()}
        write_file("--report", self._output.report, report_page(result, trials, self._effects, modules))


def _with_executor(options: SearchOptions, executor: Any) -> SearchOptions:
    return options if executor is None else options.using(executor)


def _constraint(text: str) -> tuple[str, float]:
    name, sign, value = text.partition("<=")
    try:
        number = float(value)
    except ValueError:
        number = float("nan")
    if not sign or number != number:
        raise InputError(f"--constraint must be NAME<=VALUE, as 'bytes<=100000', got {text!r}")
    return name.strip(), number
