"""`apass jobs`: the jobs of a server of `apass serve`."""

import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from time import time
from typing import Annotated, Any, Final, cast

import typer
from rich.console import Console

from apass.cli.command import Command, Group
from apass.cli.errors import errors_as_lines, failure_text, warnings_as_lines
from apass.cli.event_loop import check_backend, run_until_interrupted
from apass.cli.exit_status import FAILED
from apass.cli.options import with_options
from apass.cli.output_files import check_file, named, write_file
from apass.cli.server_option import ServerOptions, check_server, client_of
from apass.cli.streams import DataOutput, reserved_output
from apass.cli.terminal import Color, ColorOption, FormatOption, OutputFormat, echo, print_error, print_json
from apass.errors import ApassError, InputError
from apass.instruments.support.table_layout import Column, fitted_table, keep_ends
from apass.service.errors import JobCancelledError, JobFailedError, NoResultError
from apass.service.jobs import JobEvent, JobRecord, JobState
from apass.service.reproducers import write_job_reproducer
from apass.util.printable import printable
from apass.util.text import size_text

__all__ = ["app"]

_LIST: Final = "list"
"""The command without a name."""


class _Group(Group):
    """The commands; `apass jobs` alone lists the jobs."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        words = [arg for arg in args if not arg.startswith("-")]
        if not {"-h", "--help"} & set(args) and (not words or not args or args[0].startswith("-")):
            args = [_LIST, *args]
        return super().parse_args(ctx, args)


app: Final = typer.Typer(
    name="jobs",
    cls=_Group,
    add_completion=False,
    help="List, show, cancel, repeat or remove the jobs of a server, and get their results.",
)

_Id = Annotated[str, typer.Argument(metavar="ID", help="The id of the job, or a beginning of it that no other has.")]
_Output = Annotated[
    Path, typer.Option("--output", "-o", metavar="FILE|-", help="Write to this file, or to standard output (-).")
]

_STREAM: Final = Path("-")
_ID_LENGTH: Final = 32
_WIDE: Final = 10_000
"""Columns of a table in a pipe or a file."""

_EXAMPLES: Final = (
    "Examples:",
    "apass jobs list --state running --state queued",
    "apass jobs list --text resnet --limit 10 --output-format json | jq .id",
)
"""Shown above the options; one line for each."""


@app.command(_LIST, cls=Command, epilog="\n\n".join(_EXAMPLES))
@with_options(ServerOptions)
def list_jobs(
    *,
    states: Annotated[
        list[JobState] | None, typer.Option("--state", help="List jobs in this state only; may be repeated.")
    ] = None,
    text: Annotated[
        str, typer.Option("--text", metavar="TEXT", help="List jobs with this in the name or the pipeline.")
    ] = "",
    tenant: Annotated[
        str | None, typer.Option("--tenant", metavar="NAME", help="List jobs of this tenant; needs the scope admin.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="List at most this many, the latest first.")] = 50,
    options: tuple[ServerOptions],
    output_format: FormatOption = OutputFormat.TEXT,
    color: ColorOption = Color.AUTO,
) -> None:
    """List jobs, the latest first. `apass jobs` without a command does this."""
    found: list[Any] = []
    has_more = False

    async def work(client: Any) -> None:
        nonlocal has_more
        async for job in client.jobs(states=states or (), text=text, tenant=tenant, page=min(200, limit + 1)):
            if len(found) == limit:
                has_more = True
                return
            found.append(job)

    _run(options[0], work)
    with errors_as_lines():
        if output_format is OutputFormat.JSON:
            for job in found:
                print_json(job.as_json())
            return
        if found:
            _print_table([job.record for job in found])
        else:
            print_error("there are no such jobs")
        if has_more:
            print_error(f"there are more than {limit} jobs; --limit lists more, --state and --text fewer")


@app.command("show", cls=Command)
@with_options(ServerOptions)
def show(
    job_id: _Id,
    *,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the end of the job.")] = False,
    options: tuple[ServerOptions],
    output_format: FormatOption = OutputFormat.TEXT,
) -> None:
    """Show a job.

    Exit status: 0; 1 if the job has failed or was cancelled.
    """

    async def work(client: Any) -> None:
        job = await _find(client, job_id)
        if wait:
            await job.wait()
        if output_format is OutputFormat.JSON:
            print_json(job.as_json())
        else:
            for name, value in _details(job.record):
                echo(f"{name + ':':<11} {printable(value)}")
            if job.record.failure is not None and job.record.state is JobState.FAILED:
                error = JobFailedError(job.record.failure)
                Console(highlight=False).print(failure_text(job.record.name, error), soft_wrap=True)
        if job.record.state in (JobState.FAILED, JobState.CANCELLED):
            raise typer.Exit(FAILED)

    _run(options[0], work)


@app.command("result", cls=Command)
@with_options(ServerOptions)
def result(job_id: _Id, *, output: _Output, options: tuple[ServerOptions]) -> None:
    """Wait for the end of a job, and write its result.

    Exit status: 0; 1 if the job has no result.
    """

    async def work(client: Any, data: DataOutput | None) -> None:
        job = await _find(client, job_id)
        try:
            if data is not None:
                data.write(await job.result())
            else:
                await job.save(output)
        except JobFailedError as error:
            text = failure_text(f"{job.record.name} (job {job.id})", error)
            Console(stderr=True, highlight=False).print(text, soft_wrap=True)
            raise typer.Exit(FAILED) from None
        except (JobCancelledError, NoResultError) as error:
            print_error(f"{error}, and has no result" if isinstance(error, JobCancelledError) else str(error))
            raise typer.Exit(FAILED) from None
        except OSError as error:
            raise (error if isinstance(error, ApassError) else named(error, output)) from None

    _run_with_output(options[0], output, work)


@app.command("report", cls=Command)
@with_options(ServerOptions)
def report(job_id: _Id, *, output: _Output, options: tuple[ServerOptions]) -> None:
    """Wait for the end of a job, and write its report, an HTML page.

    Exit status: 0; 1 if the job has no report.
    """

    async def work(client: Any, data: DataOutput | None) -> None:
        try:
            text = await (await _find(client, job_id)).report()
        except NoResultError as error:
            print_error(str(error))
            raise typer.Exit(FAILED) from None
        if data is None:
            write_file("-o", output, text)
        else:
            data.write(text.encode())

    _run_with_output(options[0], output, work)


@app.command("reproducer", cls=Command)
@with_options(ServerOptions)
def reproducer(
    job_id: _Id,
    *,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="Write to this folder.")],
    options: tuple[ServerOptions],
) -> None:
    """Write a reproducer of a failed job, for `apass replay` and `apass reduce`."""

    async def work(client: Any) -> None:
        job = await _find(client, job_id)
        texts = {pipeline["name"]: pipeline["text"] for pipeline in await client.pipelines()}
        echo(str(await write_job_reproducer(await job.wait(), await job.model(), texts, output)))

    _run(options[0], work)


@app.command("cancel", cls=Command)
@with_options(ServerOptions)
def cancel(
    job_ids: Annotated[list[str], typer.Argument(metavar="ID", help="The ids of the jobs.")],
    *,
    options: tuple[ServerOptions],
) -> None:
    """Cancel jobs that have not ended.

    Exit status: 0; 1 if a job has ended before.
    """

    async def work(client: Any) -> None:
        jobs = [await _find(client, job_id) for job_id in job_ids]
        is_late = False
        for job in jobs:
            has_ended = job.record.ended
            if not has_ended:
                await job.cancel()
            has_ended = has_ended or job.record.state in (JobState.DONE, JobState.FAILED)
            is_late |= has_ended
            state = f"is {job.record.state} already" if has_ended else "is cancelled"
            echo(f"{job.id}  {printable(job.record.name)} {state}")
        if is_late:
            raise typer.Exit(FAILED)

    _run(options[0], work)


@app.command("retry", cls=Command)
@with_options(ServerOptions)
def retry(
    job_ids: Annotated[list[str], typer.Argument(metavar="ID", help="The ids of the jobs.")],
    *,
    options: tuple[ServerOptions],
) -> None:
    """Submit the models of jobs again, and print the ids of the new jobs.

    The new jobs have the same pipelines and options.
    """

    async def work(client: Any) -> None:
        for job in [await _find(client, job_id) for job_id in job_ids]:
            again = await job.retry()
            echo(f"{again.id}  {printable(again.record.name)}")

    _run(options[0], work)


@app.command("remove", cls=Command)
@with_options(ServerOptions)
def remove(
    job_ids: Annotated[list[str], typer.Argument(metavar="ID", help="The ids of the jobs.")],
    *,
    options: tuple[ServerOptions],
) -> None:
    """Remove jobs that have ended, with their models and results.

    Exit status: 0; 1 if a job has not ended, which is kept.
    """

    async def work(client: Any) -> None:
        is_early = False
        for job in [await _find(client, job_id) for job_id in job_ids]:
            name = f"{job.id}  {printable(job.record.name)}"
            try:
                await job.remove()
            except NoResultError:
                is_early = True
                echo(f"{name} has not ended; cancel it first")
            else:
                echo(f"{name} is removed")
        if is_early:
            raise typer.Exit(FAILED)

    _run(options[0], work)


@app.command("events", cls=Command)
@with_options(ServerOptions)
def events(
    job_id: _Id,
    *,
    after: Annotated[int, typer.Option("--after", min=0, help="Begin after the event with this number.")] = 0,
    options: tuple[ServerOptions],
    output_format: FormatOption = OutputFormat.TEXT,
) -> None:
    """Print the events of a job as they happen, until its end.

    With `--output-format json`, the lines have all fields, such as the texts of the model.
    """

    async def work(client: Any) -> None:
        job = await _find(client, job_id)
        async with job.events(after) as stream:
            async for event in stream:
                if output_format is OutputFormat.JSON:
                    print_json(event.as_json())
                else:
                    echo(printable(_event_text(event, job.record)))
                # The reader of a pipe wants them at once.
                sys.stdout.flush()

    _run(options[0], work)


async def _find(client: Any, job_id: str) -> Any:
    """Return the job with an id, or the only one whose id begins so.

    Raises:
        InputError: if several ids begin so.
        UnknownJobError: if none does.

    """
    if len(job_id) < _ID_LENGTH and job_id:
        # The search also finds names, but few names are hexadecimal numbers.
        matches = [job async for job in client.jobs(text=job_id, page=50) if job.id.startswith(job_id)]
        if len(matches) > 1:
            raise InputError(f"{len(matches)} ids begin with {job_id!r}; write more of the id")
        if matches:
            return matches[0]
    return await client.find(job_id)


def _run_with_output(
    options: ServerOptions, output: Path, work: Callable[[Any, DataOutput | None], Awaitable[None]]
) -> None:
    """Run `work` with a client, and standard output if `output` is `-`."""
    with errors_as_lines():
        if output != _STREAM:
            check_file("-o", output)
    if output != _STREAM:
        _run(options, lambda client: work(client, None))
        return
    with errors_as_lines(), reserved_output() as data:
        _run(options, lambda client: work(client, data))


def _run(options: ServerOptions, work: Callable[[Any], Awaitable[None]]) -> None:
    """Run `work` with a client of the server, with errors as lines."""

    async def main() -> None:
        await check_server(options)
        async with client_of(options) as client:
            await work(client)

    with errors_as_lines(), warnings_as_lines():
        check_backend(options.backend)
        client_of(options)  # checks the URL
        run_until_interrupted(main, options.backend)


def _print_table(records: Sequence[JobRecord]) -> None:
    """Print a table of jobs, which has fewer columns if the terminal is narrow."""
    out = Console(highlight=False)
    is_narrow = out.file.isatty()
    width = out.width if is_narrow else _WIDE
    ids = Column(title="id", cells=[record.id for record in records])
    columns = [
        Column(
            title="state",
            cells=[str(record.state) for record in records],
            style=lambda row: _STYLES[records[row].state],
        ),
        Column(title="name", cells=[printable(record.name) for record in records], shorten=keep_ends),
        Column(title="pipeline", cells=[_short(record.pipeline) for record in records]),
        Column(title="age", cells=[_age(record.created) for record in records], justify="right"),
        Column(title="seconds", cells=[_seconds(record) for record in records], justify="right"),
        Column(title="result", cells=[_result(record) for record in records]),
    ]
    tenants = {record.tenant for record in records}
    if tenants != {""}:
        columns.insert(2, Column(title="tenant", cells=[printable(record.tenant) for record in records]))
    drop = ("seconds", "pipeline", "tenant", "result", "age", "state")
    out = out if is_narrow else Console(highlight=False, width=_WIDE)
    out.print(fitted_table(ids, columns, width, drop=drop, padding=None if is_narrow else 40))


_STYLES: Final[Mapping[JobState, str]] = {
    JobState.QUEUED: "",
    JobState.RUNNING: "cyan",
    JobState.DONE: "green",
    JobState.FAILED: "red",
    JobState.CANCELLED: "yellow",
}
"""The styles of states."""


def _short(text: str) -> str:
    shown = printable(text)
    return shown if len(shown) <= 40 else f"{shown[:37]}..."


def _age(at: float) -> str:
    """Return the time since an event, as text."""
    seconds = max(0, round(time() - at))
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def _seconds(record: JobRecord) -> str:
    """Return the seconds from the start of a job to its end, or to now."""
    if record.started is None:
        return ""
    end = time() if record.finished is None else record.finished
    return f"{max(0.0, end - record.started):.3f}"


def _result(record: JobRecord) -> str:
    """Return what became of a job, as text."""
    if record.failure is not None:
        where = f" in {record.failure.pass_name}" if record.failure.pass_name is not None else ""
        return printable(f"{record.failure.kind}{where}")
    summary = record.summary
    if summary is None:
        return ""
    counts = "" if summary.before is None else f"{summary.before:,} nodes"
    if summary.before is not None and summary.after not in (None, summary.before):
        counts = f"{summary.before:,} -> {summary.after:,} nodes"
    return counts if summary.changed else f"{counts}, unchanged".removeprefix(", ")


def _details(record: JobRecord) -> Iterator[tuple[str, str]]:
    """Iterate over the names and the values of a job."""
    yield "id", record.id
    yield "name", record.name
    yield "state", f"{record.state}{', by an earlier job' if record.reused else ''}"
    if record.tenant:
        yield "tenant", record.tenant
    yield "pipeline", record.pipeline
    for name, value in record.options.as_json().items():
        names: list[object] = cast("list[object]", value) if isinstance(value, list) else [value]
        yield name, ", ".join(map(str, names))
    yield "model", f"{record.kind}, {size_text(record.model_size)}"
    if record.result_size is not None:
        yield "result", f"{record.result_kind}, {size_text(record.result_size)}"
    if record.priority:
        yield "priority", str(record.priority)
    for name, at in (("created", record.created), ("started", record.started), ("finished", record.finished)):
        if at is not None:
            yield name, _date(at)
    if record.deadline is not None:
        yield "deadline", _date(record.deadline)
    if record.attempts != 1:
        yield "attempts", str(record.attempts)
    if record.summary is not None:
        yield "outcome", _result(record)
        for title, counts in (("changed by", record.summary.changed_by), ("cached", record.summary.cached)):
            if counts:
                yield title, ", ".join(name if count == 1 else f"{name} x{count}" for name, count in counts.items())
        for item in record.summary.diagnostics:
            yield str(item.get("level", "note")), str(item.get("message", ""))


def _date(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).astimezone().isoformat(" ", "seconds")


def _event_text(event: JobEvent, record: JobRecord) -> str:
    """Return an event as a line; it has no text of the model, and no index of one."""
    at = max(0.0, event.time - record.created)
    data = dict(event.data)
    if event.kind == "text":
        return f"{at:9.3f}  {event.kind:<9} number {data['text']}, {size_text(int(data['size']))}"
    data.pop("text", None)
    parts = [str(data.pop("pass"))] if "pass" in data else []
    data.pop("path", None)
    parts += [str(data.pop("function"))] if "function" in data else []
    parts += [str(data.pop("state"))] if "state" in data else []
    parts += [f"{key}={f'{value:.4g}' if isinstance(value, float) else value}" for key, value in data.items()]
    return f"{at:9.3f}  {event.kind:<9} {' '.join(parts)}"
