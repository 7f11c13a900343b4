"""`apass submit`: optimizes models on a server of `apass serve`."""

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any, ClassVar, Final

import anyio
import typer
from anyio.to_thread import run_sync
from rich.console import Console

from apass.cli.command import Command
from apass.cli.completion import complete_format
from apass.cli.display import DisplayOptions, Reporter, RunDisplay
from apass.cli.errors import errors_as_lines, warnings_as_lines
from apass.cli.event_loop import check_backend, run_until_interrupted
from apass.cli.exit_status import FAILED, MISUSED
from apass.cli.inputs import Job, check_writable
from apass.cli.instruments import RunObserver
from apass.cli.optimize import JobResult
from apass.cli.options import with_options
from apass.cli.output_files import named
from apass.cli.planning import pipeline_contents, plan_files, result_format
from apass.cli.quantities import duration_of
from apass.cli.server_option import ServerOptions, check_server, client_of
from apass.cli.streams import DataOutput, ModelStreams, model_streams, reserved_output
from apass.cli.terminal import OutputFormat, echo, print_error, print_json, safe_name
from apass.core.diagnostic_context import DiagnosticContext
from apass.core.diagnostics import Diagnostic, DiagnosticLevel, Span
from apass.core.ir_plugin import file_suffix
from apass.errors import ApassError, InputError
from apass.service.errors import (
    InvalidJobError,
    JobCancelledError,
    JobFailedError,
    NoResultError,
    UnknownJobError,
)
from apass.service.jobs import JobOptions, JobRecord, JobState
from apass.util.printable import printable
from apass.util.text import count_of

__all__ = ["app"]

app: Final = typer.Typer(add_completion=False)


_CHUNK: Final = 1 << 20
"""Bytes that are read at once."""

CANCEL_SECONDS: Final = 10.0
"""Seconds for the cancellation of jobs after Ctrl-C."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineOptions:
    """The options of the jobs."""

    PANEL: ClassVar[str] = "Job"

    pipeline: Annotated[
        str,
        typer.Option(
            "--pipeline",
            "-p",
            metavar="PIPELINE",
            help="Run this pipeline of the server, or the passes of a text, or those in a file: @pipeline.txt.",
        ),
    ] = "default"
    opt_level: Annotated[
        int, typer.Option("--opt-level", "-O", min=0, help="Run the passes of this level and below.")
    ] = 2
    disable: Annotated[list[str] | None, typer.Option("--disable", metavar="NAME", help="Skip this pass.")] = None
    require: Annotated[
        list[str] | None, typer.Option("--require", metavar="NAME", help="Run this pass regardless of its level.")
    ] = None
    config: Annotated[
        list[str] | None,
        typer.Option(
            "--config",
            metavar="KEY=VALUE",
            help="Set a config option that the server allows; the value is JSON, or else a text.",
        ),
    ] = None
    deadline: Annotated[
        str,
        typer.Option(
            "--deadline", metavar="DURATION|none", help="Fail jobs that have not ended after this time on the server."
        ),
    ] = "none"
    priority: Annotated[
        int, typer.Option("--priority", min=-1000, max=1000, help="Run jobs before yours with a lower priority.")
    ] = 0
    report: Annotated[
        bool, typer.Option("--report/--no-report", help="Let the server record a report of each job.")
    ] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOptions:
    """The options of the models and the results."""

    PANEL: ClassVar[str] = "Results"

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
    source_format: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="FORMAT",
            autocompletion=complete_format,
            help="Read this format from standard input, such as onnx, mlir or ll.",
        ),
    ] = None
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="FORMAT",
            autocompletion=complete_format,
            help="Convert results to this format, such as relay.",
        ),
    ] = None
    wait: Annotated[
        bool,
        typer.Option("--wait/--no-wait", help="Wait for the results and write them, or print the ids of the jobs."),
    ] = True
    jobs: Annotated[
        int, typer.Option("--jobs", "-j", min=1, help="Have at most this many jobs on the server at once.")
    ] = 32
    cancel_on_interrupt: Annotated[
        bool | None,
        typer.Option(
            "--cancel-on-interrupt/--keep-on-interrupt",
            help=r"Cancel unfinished jobs after Ctrl-C, or leave them running \[ask on a terminal, else leave them].",
        ),
    ] = None


_EXAMPLES: Final = (
    "Examples:",
    "apass submit models/ -o out/ --server http://build:8000",
    "apass submit model.onnx -o smaller.onnx -p 'onnx.Inline,onnx.Simplify' --deadline 5m",
    "apass submit models/ --no-wait",
)
"""Shown above the options; one line for each."""


@app.command("submit", cls=Command, epilog="\n\n".join(_EXAMPLES))
@with_options(PipelineOptions, FileOptions, DisplayOptions, ServerOptions)
def submit(
    *,
    models: Annotated[
        list[str], typer.Argument(metavar="MODEL", help="Model files, directories and globs; - for standard input.")
    ],
    options: tuple[PipelineOptions, FileOptions, DisplayOptions, ServerOptions],
) -> None:
    """Optimize models on a server, and write the results.

    Each model is a job. Jobs of the server go on if this command ends: `apass jobs` shows them.

    Exit status: 0, 1 if a model failed (the others are written), 2 if nothing was started, for example because the
    server knows no such pass; 130 after Ctrl-C, 143 after SIGTERM.
    """
    pipeline, files, display, server = options
    with errors_as_lines(), warnings_as_lines(), ExitStack() as stack:
        check_backend(server.backend)
        display.check()
        if not files.wait:
            # These options are about results.
            for name, is_used in (("-o", files.output is not None), ("--in-place", files.in_place)):
                if is_used:
                    raise InputError(f"--no-wait writes no results, so that {name} cannot be used with it")
        client_of(server)  # checks the URL
        streams = stack.enter_context(
            model_streams(
                models,
                files.output,
                files.source_format,
                needs_files=["--in-place"] if files.in_place else [],
                writes=files.wait,
            )
        )
        prints_lines = display.output_format is OutputFormat.JSON
        if streams.writes and prints_lines:
            raise InputError("--output-format json and the result both need standard output; name a file with -o FILE")
        has_data = files.wait and (streams.writes or prints_lines)
        output = stack.enter_context(reserved_output()) if has_data else None
        files = replace(files, output=streams.output, to=result_format(streams.output, files.to))
        jobs = plan_files(streams.models, streams.output, in_place=files.in_place, to=files.to)
        streams.check_number(jobs)
        nameless = next((job.source for job in jobs if not job.suffix), None)
        if nameless is not None:
            raise InputError(
                f"model file {nameless} has no suffix, by which the server knows its format; rename it, or send it to "
                f"standard input with --from FORMAT"
            )
        if files.wait:
            check_writable(jobs, streams.output)
        run = _Run(jobs, streams, output, options=(pipeline, files, display, server))
        try:
            run_until_interrupted(run.work if files.wait else run.submit_all, server.backend)
        except KeyboardInterrupt:
            run.leave(is_interrupted=True)
            raise
        run.leave(is_interrupted=False)
        if not run.is_complete:
            raise typer.Exit(FAILED if run.has_started else MISUSED)
        if streams.writes and output is not None:
            streams.send(jobs[0], output)


class _Run:
    """One run of the command.

    Parameters:
        jobs: the models, and where their results are written.
        streams: replaces the temporary files of `-`.
        output: standard output, if it is reserved for a model or for JSON.
        options: the options.

    """

    def __init__(
        self,
        jobs: Sequence[Job],
        streams: ModelStreams,
        output: DataOutput | None,
        *,
        options: tuple[PipelineOptions, FileOptions, DisplayOptions, ServerOptions],
    ) -> None:
        pipeline, self._files, self._display_options, self._server = options
        self._jobs = jobs
        self._streams = streams
        self._output = output
        self._pipeline = pipeline_contents(pipeline.pipeline)
        self._options = JobOptions(
            opt_level=pipeline.opt_level,
            required_pass=tuple(pipeline.require or ()),
            disabled_pass=tuple(pipeline.disable or ()),
            config=dict(map(_config_item, pipeline.config or ())),
            report=pipeline.report,
        )
        self._priority = pipeline.priority
        self._deadline = duration_of("--deadline", pipeline.deadline)
        self._diagnostics = DiagnosticContext()
        self._remote: dict[str, Any] = {}
        """The jobs of the server whose results are not written, by the names of the models."""
        self._ids: dict[str, str] = {}
        """The ids of all jobs."""
        self._uploading: set[str] = set()
        self.is_complete = False
        """Whether every model has a result."""

    @property
    def has_started(self) -> bool:
        """Whether the server has accepted a model."""
        return bool(self._ids)

    async def work(self) -> None:
        """Submit all models, and write their results."""
        await check_server(self._server, "read", "submit")
        async with client_of(self._server) as client:
            await self._check_pipeline(client)
        reporter = Reporter(len(self._jobs), self._display_options, renamed=self._streams.renamed)
        observers: list[RunObserver] = []
        if self._display_options.output_format is OutputFormat.JSON:
            # Few runs print JSON lines.
            from apass.cli.json_lines import JsonLines

            assert self._output is not None, "the output is reserved"
            more = partial(_id_of, self._ids)
            observers = [JsonLines(self._output, self._diagnostics, self._streams, more)]
        display = RunDisplay(reporter, observers, {})
        with display.closing(self._diagnostics):
            async with client_of(self._server) as client:
                await self._for_each(partial(self._optimize, client, display))
        self.is_complete = display.is_complete

    async def submit_all(self) -> None:
        """Submit all models, and print the ids of the jobs."""
        scopes = await check_server(self._server, "submit")
        failed: list[str] = []

        async def submit(job: Job) -> None:
            try:
                remote = await self._submit(client, job)
            except (ApassError, OSError) as error:
                failed.append(job.name)
                print_error(f"{job.name}: {error}")
                return
            if self._display_options.output_format is OutputFormat.JSON:
                print_json({"model": job.name, "job": remote.id})
            else:
                echo(f"{remote.id}  {printable(job.name)}")

        async with client_of(self._server) as client:
            if scopes & {"read", "admin"}:
                await self._check_pipeline(client)
            await self._for_each(submit)
        # The ids are printed; nothing is left to cancel.
        self._remote.clear()
        self.is_complete = not failed

    async def _check_pipeline(self, client: Any) -> None:
        """Check the pipeline and the options before models are sent, as `apass opt` does.

        Raises:
            InvalidJobError: if the server accepts them for none of the models.

        """
        error: InvalidJobError | None = None
        for suffix in sorted({job.suffix for job in self._jobs}):
            try:
                await client.plan(self._pipeline, kind=suffix, options=self._options)
            except InvalidJobError as raised:
                error = raised
            else:
                return
        if error is not None:
            raise error

    async def _for_each(self, work: Callable[[Job], Any]) -> None:
        """Do some work on each model, on as many at once as `--jobs` says."""
        left: Iterator[Job] = iter(self._jobs)

        async def worker() -> None:
            for job in left:
                await work(job)

        async with anyio.create_task_group() as group:
            for _ in range(min(self._files.jobs, len(self._jobs))):
                group.start_soon(worker)

    async def _submit(self, client: Any, job: Job) -> Any:
        """Submit a model."""
        self._uploading.add(job.name)
        try:
            remote = await client.submit(
                job.source,
                result_kind=None if file_suffix(job.target) == job.suffix else file_suffix(job.target),
                pipeline=self._pipeline,
                name=self._streams.renamed(job.name),
                priority=self._priority,
                deadline=self._deadline,
                options=self._options,
            )
        finally:
            self._uploading.discard(job.name)
        self._remote[job.name] = remote
        self._ids[job.name] = remote.id
        return remote

    async def _optimize(self, client: Any, display: RunDisplay, job: Job) -> None:
        """Submit a model, wait for its job, and write the result."""
        start = perf_counter()
        try:
            display.phase(job, "uploading")
            remote = await self._submit(client, job)
            record = await self._wait(remote, partial(display.phase, job))
            display.phase(job, "writing")
            result = await self._write(job, remote, record)
        except (ApassError, OSError) as error:
            if isinstance(error, JobFailedError | JobCancelledError | UnknownJobError | NoResultError):
                del self._remote[job.name]
            self._streams.explain(error)
            result = JobResult(job, None, None, 0.0, error=error)
        display.phase(job, "done")
        display.result(replace(result, seconds=perf_counter() - start))

    async def _wait(self, remote: Any, show: Callable[[str], None]) -> JobRecord:
        """Wait for the end of a job, and show its phases."""
        async with remote.events() as events:
            async for event in events:
                if event.kind == "state":
                    show({"queued": "queued", "running": "optimizing"}.get(event.data["state"], "writing"))
        # The events do not contain the record.
        record: JobRecord = await remote.wait()
        return record

    async def _write(self, job: Job, remote: Any, record: JobRecord) -> JobResult:
        """Write the result of a job that has ended."""
        summary, size, remark = record.summary, record.model_size, ""
        is_unchanged = summary is not None and not summary.changed and file_suffix(job.target) == job.suffix
        if is_unchanged:
            remark = "unchanged" if self._files.in_place else "unchanged, copied"
        if not (is_unchanged and self._files.in_place):
            if self._files.in_place and record.state is JobState.DONE:
                await run_sync(_check_unchanged, job.source, record.model_digest)
            try:
                size = await remote.save(job.target)
            except OSError as error:
                if isinstance(error, ApassError):
                    raise
                raise named(error, job.target) from error
        del self._remote[job.name]
        if record.reused:
            remark = f"{remark}, by an earlier job" if remark else "by an earlier job"
        if summary is None:
            return JobResult(job, None, None, 0.0, remark, bytes_before=record.model_size, bytes_after=size)
        for item in summary.diagnostics:
            self._diagnostics.emit(_diagnostic_of(item, job.name))
        return JobResult(
            job,
            summary.before,
            summary.after,
            0.0,
            remark,
            changed=summary.changed,
            bytes_before=record.model_size,
            bytes_after=size,
            changed_by=summary.changed_by,
            cached=summary.cached,
        )

    def leave(self, *, is_interrupted: bool) -> None:
        """Print the ids of the jobs whose results are not written.

        After Ctrl-C, cancel them if the user wants it.
        """
        running = {name: remote for name, remote in self._remote.items() if not remote.record.ended}
        what = "the server goes on with these jobs"
        if is_interrupted and running:
            decision = self._files.cancel_on_interrupt
            if decision is None and sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty():
                decision = _ask(f"{count_of(len(running), 'job')} of the server may not have ended. Cancel?")
            ended = self._cancel(running) if decision else None
            if ended is not None:
                print_error(f"{count_of(len(running) - len(ended), 'job')} cancelled")
                what = "these jobs had ended before"
                for name in running.keys() - ended:
                    del self._remote[name]
        if self._uploading:
            print_error(
                f"{count_of(len(self._uploading), 'model')} had been sent in part, and may be jobs of the server"
            )
        if self._remote:
            print_error(f"{what}; `apass jobs result ID -o FILE` writes a result:")
        console = Console(stderr=True, highlight=False, soft_wrap=True)
        for name, remote in self._remote.items():
            console.print(f"  {safe_name(remote.id)}  {safe_name(name)}")

    def _cancel(self, running: Mapping[str, Any]) -> set[str] | None:
        """Cancel jobs, and return the names of those that had ended before.

        Return None if that was not possible.
        """

        async def cancel_all() -> set[str] | None:
            ended: set[str] = set()
            with anyio.move_on_after(CANCEL_SECONDS):
                async with client_of(self._server, retry_seconds=CANCEL_SECONDS) as client:
                    for name, remote in running.items():
                        record = await (await client.find(remote.id)).cancel()
                        if record.state in (JobState.DONE, JobState.FAILED):
                            ended.add(name)
                return ended
            return None

        try:
            return anyio.run(cancel_all, backend=self._server.backend)
        except (ApassError, OSError, KeyboardInterrupt) as error:
            print_error(f"the jobs cannot be cancelled: {error}")
            return None


def _ask(question: str) -> bool:
    """Ask a question on the terminal; a further Ctrl-C is a no."""
    try:
        return typer.confirm(printable(question), default=False, err=True)
    except (typer.Abort, KeyboardInterrupt):
        return False


def _id_of(ids: Mapping[str, str], result: JobResult) -> Mapping[str, Any]:
    return {"job": ids.get(result.job.name)}


def _config_item(text: str) -> tuple[str, Any]:
    """Return the key and the value of a config option.

    Raises:
        InputError: if the text is not KEY=VALUE.

    """
    key, equals, value = text.partition("=")
    if not equals:
        raise InputError(f"--config must be KEY=VALUE, got {text!r}")
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value


def _check_unchanged(path: Path, digest: str) -> None:
    """Raise InputError if a file is not the model that was sent."""
    current = sha256()
    with path.open("rb") as file:
        while data := file.read(_CHUNK):
            current.update(data)
    if current.hexdigest() != digest:
        raise InputError(f"{path} has changed since it was sent, and was left as it is")


def _diagnostic_of(values: Mapping[str, Any], module: str) -> Diagnostic:
    """Return a diagnostic from its values of JSON."""
    line, column = values.get("line"), values.get("column")
    span = None
    if isinstance(line, int) and isinstance(column, int):
        span = Span(str(values.get("source", "")), line, line, column, column)
    name = values.get("pass")
    level = str(values.get("level", "")).upper()
    return Diagnostic(
        DiagnosticLevel[level] if level in DiagnosticLevel.__members__ else DiagnosticLevel.NOTE,
        str(values.get("message", "")),
        span,
        None if name is None else str(name),
        None,
        module,
    )
