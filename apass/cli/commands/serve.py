"""`apass serve`: a server for jobs over HTTP."""

import gc
import os
import sys
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping
from contextlib import AbstractContextManager, AsyncExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from threading import Timer
from typing import Annotated, Any, ClassVar, Final, cast

import anyio
import typer
from anyio.abc import TaskStatus

from apass.cli.access_log import access_log
from apass.cli.command import Command
from apass.cli.completion import completes
from apass.cli.errors import errors_as_lines, warnings_as_lines
from apass.cli.event_loop import run_until_stopped
from apass.cli.executor_option import INLINE, PROCESS, ExecutorScope, executor_scope
from apass.cli.exit_status import FAILED
from apass.cli.options import with_options
from apass.cli.planning import pipeline_text, read_pipeline
from apass.cli.quantities import bytes_of, duration_of
from apass.cli.server_tokens import TokenOptions, add_token, tokens_of
from apass.cli.terminal import echo, print_error
from apass.cli.user_modules import LoadOption
from apass.concurrency.processes.memory import machine_memory
from apass.core.config import find_option
from apass.core.pass_factories import known_names
from apass.errors import ApassError, InputError, did_you_mean
from apass.executors import ProcessExecutor
from apass.loading.entry_points import plugins
from apass.service.jobs import ENDED, JobEvent, JobRecord, JobState
from apass.service.limits import Limits
from apass.util.checks import is_seconds
from apass.util.text import count_of, size_text

__all__ = ["app", "default_store"]

app: Final = typer.Typer(add_completion=False)


GRACE_SECONDS: Final = 3.0
"""Seconds that requests have to end, after the jobs."""

MEMORY_SHARE: Final = 0.8
"""The share of the machine's memory that the jobs which run at once may be expected to need."""

LINGER_SECONDS: Final = 3.0
"""Seconds for which clients can fetch what became of the jobs that ended while the server drained."""

QUIET_SECONDS: Final = 1.0
"""Seconds without a request after which no client is expected to fetch anything."""

LATE_SECONDS: Final = 10.0
"""Seconds after which the process exits, although a connection or the store has not been closed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkOptions:
    """The options of the connections."""

    PANEL: ClassVar[str] = "Network"

    host: Annotated[
        str, typer.Option("--host", help="Listen on this address; others than those of this machine need --token-file.")
    ] = "127.0.0.1"
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Listen on this port; 0 is any that is free.")
    ] = 8000
    host_names: Annotated[
        list[str] | None,
        typer.Option(
            "--host-name",
            metavar="NAME",
            help="Accept requests to this name of the server; may be repeated "
            r"\[with tokens, any name; else those of this machine].",
        ),
    ] = None
    uds: Annotated[
        Path | None, typer.Option("--uds", metavar="PATH", help="Listen on this Unix socket in place of a port.")
    ] = None
    behind_proxy: Annotated[
        bool,
        typer.Option(
            "--behind-proxy", help="Trust the headers X-Forwarded-For, -Proto, -Host and -Prefix; needs --token-file."
        ),
    ] = False
    access_log: Annotated[
        Path | None,
        typer.Option(
            "--access-log",
            metavar="FILE|-",
            help="Append a line of JSON for each request to this file, or to standard error (-).",
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """The options of the jobs: where they are kept, and what they may run."""

    PANEL: ClassVar[str] = "Jobs"

    store: Annotated[
        str | None,
        typer.Option(
            "--store",
            metavar="PATH|URL",
            help=r"Keep jobs in this SQLite file, or a database such as postgresql://USER@HOST/NAME "
            r"\[apass/jobs.db in the user's data folder].",
        ),
    ] = None
    memory: Annotated[
        bool, typer.Option("--memory", help="Keep jobs in memory only; they are lost with the server.")
    ] = False
    standby: Annotated[
        bool,
        typer.Option(
            "--standby", help="If another server uses the store, wait for its end, and then take its jobs over."
        ),
    ] = False
    pipelines: Annotated[
        list[str] | None,
        typer.Option(
            "--pipeline",
            "-p",
            metavar="NAME=TEXT",
            help="Offer this pipeline, whose text may be in a file: NAME=@FILE; may be repeated "
            r"\[default, that of the model's format].",
        ),
    ] = None
    allow: Annotated[
        list[str] | None,
        typer.Option(
            "--allow",
            metavar="PATTERN",
            help="Accept texts of pipelines that name these passes, such as 'onnx.*'; may be repeated "
            r"\[named pipelines only].",
        ),
    ] = None
    allow_config: Annotated[
        list[str] | None,
        typer.Option("--allow-config", metavar="KEY", help="Let jobs set this config option; may be repeated."),
    ] = None
    cache: Annotated[
        str | None,
        typer.Option(
            "--cache", metavar="LOCATION", help="Cache results of passes in a file, redis://HOST:PORT, or 'default'."
        ),
    ] = None
    otel: Annotated[
        bool, typer.Option("--otel", help="Send spans of jobs and passes to the exporters of OTEL_TRACES_EXPORTER.")
    ] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """The options of the workers."""

    PANEL: ClassVar[str] = "Workers"

    executor: Annotated[
        str,
        typer.Option(
            "--executor",
            autocompletion=completes(PROCESS, INLINE, "dask"),
            help="Run jobs in: process, inline (the event loop of the server), dask or dask://HOST:PORT.",
        ),
    ] = PROCESS
    workers: Annotated[
        int | None,
        typer.Option("--workers", min=1, help=r"Run this many jobs at once \[one for each core; 64 inline]."),
    ] = None
    worker_memory: Annotated[
        str,
        typer.Option(
            "--worker-memory",
            metavar="SIZE|none",
            help="End a worker process that uses more memory, with the programs that it starts.",
        ),
    ] = "4GiB"
    max_memory: Annotated[
        str | None,
        typer.Option(
            "--max-memory",
            metavar="SIZE|none",
            help="Run as many jobs at once as are expected to need this much memory together "
            r"\[80% of this machine's; none with dask].",
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitOptions:
    """The limits of the jobs."""

    PANEL: ClassVar[str] = "Limits"

    max_model_size: Annotated[
        str, typer.Option("--max-model-size", metavar="SIZE|none", help="Refuse larger models.")
    ] = "256MiB"
    max_queue: Annotated[int, typer.Option("--max-queue", min=1, help="Refuse jobs if this many wait.")] = 10_000
    deadline: Annotated[
        str, typer.Option("--deadline", metavar="DURATION|none", help="End jobs that name no deadline after this time.")
    ] = "none"
    max_deadline: Annotated[
        str,
        typer.Option(
            "--max-deadline", metavar="DURATION|none", help="Refuse longer deadlines, and end all jobs after this time."
        ),
    ] = "none"
    tenant_running: Annotated[
        int | None, typer.Option("--tenant-running", min=1, help="Run at most this many jobs of a tenant at once.")
    ] = None
    tenant_queue: Annotated[
        int | None, typer.Option("--tenant-queue", min=1, help="Refuse jobs of a tenant if this many wait.")
    ] = None
    tenant_rate: Annotated[
        float | None,
        typer.Option(
            "--tenant-rate",
            metavar="NUMBER",
            help="Accept at most this many jobs per second of a tenant, with bursts of as many.",
        ),
    ] = None
    attempts: Annotated[
        int,
        typer.Option(
            "--attempts", min=1, help="Fail a job after this many attempts that lost their worker or the server."
        ),
    ] = 5
    max_age: Annotated[
        str, typer.Option("--max-age", metavar="DURATION|none", help="Remove jobs this long after their end.")
    ] = "7d"
    max_stored: Annotated[
        str,
        typer.Option(
            "--max-stored",
            metavar="SIZE|none",
            help="Remove the oldest ended jobs if all models and results are larger.",
        ),
    ] = "10GiB"
    drain: Annotated[
        str,
        typer.Option("--drain", metavar="DURATION", help="Give running jobs this time to end when the server stops."),
    ] = "10s"


_EXAMPLES: Final = (
    "Examples:",
    "apass serve",
    "apass serve --allow 'onnx.*' --pipeline fast=onnx.Simplify --workers 4",
    "apass serve --new-token alice --token-file tokens.jsonl",
    "apass serve --host 0.0.0.0 --token-file tokens.jsonl --store postgresql://apass@db/apass --standby",
)
"""Shown above the options; one line for each."""


@app.command("serve", cls=Command, epilog="\n\n".join(_EXAMPLES))
@with_options(NetworkOptions, JobOptions, WorkerOptions, LimitOptions, TokenOptions)
def serve(
    *,
    options: tuple[NetworkOptions, JobOptions, WorkerOptions, LimitOptions, TokenOptions],
    _load: LoadOption = None,
) -> None:
    """Serve jobs over HTTP, until Ctrl-C or SIGTERM.

    Accepted jobs are kept in the store. The first signal ends the server: running jobs have the time of --drain, and
    those that have not ended run at the next start. A second signal ends it at once.

    Exit status: 0 after a signal, 1 if the server failed, 2 if it did not start; 130 or 143 after a second signal.
    """
    network, jobs, workers, limits, tokens = options
    with errors_as_lines(), warnings_as_lines():
        if tokens.new_token is not None:
            add_token(tokens, tokens.new_token)
            return
        server = _Server(network, jobs, workers, _limits_of(limits, workers, jobs), tokens_of(tokens))
        run_until_stopped(server.run)
        if server.has_failed:
            raise typer.Exit(FAILED)


def default_store() -> Path:
    """Return the path of the user's jobs.

    It is `apass/jobs.db` in the system's data directory.
    """
    base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(base) / "apass" / "jobs.db"


class _Server:
    """One run of the server.

    Parameters:
        network: the options of the connections.
        jobs: the options of the jobs.
        workers: the options of the workers.
        limits: the limits.
        tokens: the tokens; None for no authentication.

    """

    def __init__(
        self, network: NetworkOptions, jobs: JobOptions, workers: WorkerOptions, limits: Limits, tokens: Any
    ) -> None:
        self.has_failed = False
        """Whether the server ended without a signal."""
        self._failure = ""
        """Why the optimizer ended without a signal."""
        self._network = network
        self._workers = workers
        self._tokens = tokens
        self._executor = _executor_of(workers)
        self._place, store = _store_of(jobs)
        self._is_durable = store is not None
        cache: Any = None
        if jobs.cache is not None:
            # SQLite is not needed without a cache.
            from apass.cli.cache_location import OptionalStore, store_at

            cache = OptionalStore(store_at(jobs.cache))
        self._cache = cache
        # The libraries of the server are not needed for `--help`.
        from apass import service
        from apass.service import server

        self._service, self._http = service, server
        self._unfinished = _UnfinishedJobs()
        observers: list[Any] = [self._service.ServiceMetrics(), self._unfinished]
        self._flush: Callable[[], None] | None = None
        if jobs.otel:
            # OpenTelemetry is an extra.
            from apass.cli.instruments.otel_provider import flush, provide

            provide()
            self._flush = flush
            observers.append(self._service.ServiceTracing())
        self._make_optimizer = partial(
            self._service.Optimizer,
            _pipelines_of(jobs),
            allow=jobs.allow or (),
            limits=limits,
            store=store,
            cache=cache,
            observers=observers,
            standby=jobs.standby,
        )
        self._drain = limits.drain

    async def run(self, stop: anyio.Event) -> None:
        """Serve until `stop` is set."""
        failures: list[ApassError] = []
        try:
            with access_log(self._network.access_log), self._listening() as sock:
                async with AsyncExitStack() as stack:
                    executor = await stack.enter_async_context(self._executor)
                    if self._cache is not None:
                        await stack.enter_async_context(self._cache)
                    try:
                        optimizer = self._make_optimizer(executor=executor)
                    except ValueError as error:
                        raise InputError(f"--store: {error}") from None
                    await stack.enter_async_context(optimizer)
                    await self._serve(optimizer, executor, sock, stop)
        except* ApassError as group:
            failures.append(cast("ApassError", self._http.innermost(group)))
        if self._flush is not None:
            self._flush()
        for failure in failures:
            raise failure
        if not stop.is_set():
            self.has_failed = True
            print_error(self._failure or "the HTTP server has ended without a signal")

    async def _serve(self, optimizer: Any, executor: Any, sock: Any, stop: anyio.Event) -> None:
        network = self._network
        app = _Requests(
            self._service.create_app(
                optimizer, auth=self._tokens, hosts=network.host_names or (), behind_proxy=network.behind_proxy
            )
        )
        http_stop, left = anyio.Event(), 0
        # The server closes the socket.
        url = self._http.url_of(sock, self._shown_host)

        async def run_http(*, task_status: TaskStatus[None]) -> None:
            await self._http.serve(app, sock, stop=http_stop, grace=GRACE_SECONDS, task_status=task_status)
            group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            await group.start(run_http)
            # A collection of garbage then visits what jobs have created. To visit all modules takes 50 ms.
            gc.collect()
            gc.freeze()
            await self._wait(optimizer, stop, url, self._where(executor))
            self._http.notify_systemd("STOPPING=1")
            count = optimizer.status().running
            if count and optimizer.failure is None:
                jobs = count_of(count, "running job")
                _announce(f"stopping; {jobs} may take {self._drain:g} s; a second signal ends at once")
            # A connection that cannot be closed must not keep the process.
            late = Timer(self._drain * 2 + LINGER_SECONDS + GRACE_SECONDS + LATE_SECONDS, _exit_late)
            late.daemon = True
            late.start()
            self._unfinished.is_draining = True
            before = set(self._unfinished.ids)
            await optimizer.drain()
            left = len(self._unfinished.ids)
            if before - self._unfinished.ids:
                # Clients learn of the end of a job by one request, and fetch its result by the next.
                await app.wait_quiet()
            http_stop.set()
        if optimizer.failure is not None:
            self._failure = str(optimizer.failure)
            return
        outcome = "kept for the next start" if self._is_durable else "lost, because of --memory"
        _announce(f"stopped; {count_of(left, 'unfinished job')} {outcome}" if left else "stopped")

    async def _wait(self, optimizer: Any, stop: anyio.Event, url: str, where: str) -> None:
        """Wait for the signal, or for the end of the optimizer by itself."""

        async def end(wait: Callable[[], Awaitable[None]]) -> None:
            await wait()
            group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            group.start_soon(end, stop.wait)
            group.start_soon(end, optimizer.wait_drained)
            if optimizer.is_standby:
                _announce(f"{url} is a standby: another server uses {self._place}; Ctrl-C stops")
                self._http.notify_systemd("READY=1\nSTATUS=standby")
                await optimizer.wait_active()
            _announce(f"{url} accepts jobs, {where}; Ctrl-C stops")
            self._http.notify_systemd("READY=1\nSTATUS=active")

    @property
    def _shown_host(self) -> str:
        """The host in the URL: that of the option, unless it means all addresses."""
        return "" if self._network.host in ("0.0.0.0", "::") else self._network.host

    @contextmanager
    def _listening(self) -> Generator[Any]:
        """Yield the socket.

        Raises:
            InputError: if others than this machine could use a server without tokens.

        """
        network = self._network
        if network.behind_proxy and self._tokens is None:
            raise InputError(
                "--behind-proxy lets other machines use the server, which needs tokens; "
                "create one with --new-token TENANT --token-file FILE, and add --token-file FILE"
            )
        listening: AbstractContextManager[Any] = (
            self._http.listen(network.host, network.port)
            if network.uds is None
            else self._http.listen_unix(network.uds)
        )
        with listening as sock:
            name: Any = sock.getsockname()
            if (
                self._tokens is None
                and not isinstance(name, str)
                and not ip_address(name[0].partition("%")[0]).is_loopback
            ):
                raise InputError(
                    f"--host {network.host} lets other machines use the server, which needs tokens; "
                    "create one with --new-token TENANT --token-file FILE, and add --token-file FILE"
                )
            yield sock

    def _where(self, executor: Any) -> str:
        """Return where jobs are kept and run, as text."""
        if executor is None:
            where = "the event loop"
        elif isinstance(executor, ProcessExecutor):
            limit = "" if executor.memory is None else f" of at most {size_text(executor.memory)}"
            where = f"{executor.workers} worker process{'' if executor.workers == 1 else 'es'}{limit}"
        else:
            where = f"{count_of(int(executor.slots().total_tokens), 'worker')} of {self._workers.executor}"
        return f"keeps them in {self._place}, runs them in {where}"


class _UnfinishedJobs:
    """Knows the jobs that have not ended; an observer of the optimizer."""

    def __init__(self) -> None:
        self.ids: set[str] = set()
        """The ids of the jobs."""
        self.is_draining = False
        """Whether the server ends. Jobs that are cancelled from then on are lost."""

    def on_event(self, record: JobRecord, event: JobEvent) -> None:
        """Note the state of a job."""
        if event.kind != "state":
            return
        state = event.data["state"]
        if state not in ENDED:
            self.ids.add(record.id)
        elif not (self.is_draining and state == JobState.CANCELLED):
            self.ids.discard(record.id)

    async def run(self, optimizer: Any) -> None:
        """Do nothing besides."""


class _Requests:
    """Knows which requests are being answered; an ASGI middleware.

    Parameters:
        app: the application.

    """

    def __init__(self, app: Any) -> None:
        self._app = app
        self._begun = 0
        self._ended = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        self._begun += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._ended += 1

    async def wait_quiet(self) -> None:
        """Wait until there is no request for `QUIET_SECONDS`.

        The longest time is `LINGER_SECONDS`.
        """
        with anyio.move_on_after(LINGER_SECONDS):
            is_quiet = False
            while not is_quiet:
                ended = self._ended
                await anyio.sleep(QUIET_SECONDS)
                is_quiet = self._ended == self._begun == ended


def _announce(text: str) -> None:
    """Print a line on standard output at once."""
    # The reader of a pipe may have gone. That is no reason to end.
    with suppress(OSError):
        echo(f"apass: {text}")
        sys.stdout.flush()


def _exit_late() -> None:
    """Exit although something has not ended; the store is safe."""
    sys.stderr.write("apass: a connection or the store could not be closed in time\n")
    sys.stderr.flush()
    os._exit(FAILED)


def _limits_of(options: LimitOptions, workers: WorkerOptions, jobs: JobOptions) -> Limits:
    """Return the limits that the options describe.

    Raises:
        InputError: if a value is invalid, or there is no pass that jobs may name.
        UnknownConfigError: if jobs may set a config option that does not exist.

    """
    for key in jobs.allow_config or ():
        find_option(key)
    _check_allowed(jobs.allow or ())
    drain = duration_of("--drain", options.drain)
    if drain is None:
        raise InputError("--drain must be a duration such as 30s, got none; a server must end at some time")
    if options.tenant_rate is not None and not is_seconds(options.tenant_rate):
        raise InputError(f"--tenant-rate must be a positive number of jobs per second, got {options.tenant_rate:g}")
    return Limits(
        running=workers.workers,
        queued=options.max_queue,
        tenant_running=options.tenant_running,
        tenant_queued=options.tenant_queue,
        tenant_rate=options.tenant_rate,
        model_bytes=bytes_of("--max-model-size", options.max_model_size),
        memory_bytes=_memory_of(workers),
        deadline=duration_of("--deadline", options.deadline),
        max_deadline=duration_of("--max-deadline", options.max_deadline),
        attempts=options.attempts,
        max_age=duration_of("--max-age", options.max_age),
        stored_bytes=bytes_of("--max-stored", options.max_stored),
        config=frozenset(jobs.allow_config or ()),
        drain=drain,
    )


def _memory_of(options: WorkerOptions) -> int | None:
    """Return the memory of the jobs that run at once; None for no limit."""
    if options.max_memory is not None:
        return bytes_of("--max-memory", options.max_memory)
    # The workers of a cluster may have more together.
    memory = None if options.executor.startswith("dask") else machine_memory()
    return None if memory is None else int(MEMORY_SHARE * memory)


def _check_allowed(patterns: Iterable[str]) -> None:
    """Check that each pattern of `--allow` has a pass.

    Raises:
        InputError: if one has none.

    """
    # Starlette is not needed for `--help`.
    from apass.service.http.catalogue import allowed_names

    for pattern in patterns:
        # Names with a colon are those of callables, which are imported when a job names them.
        if ":" not in pattern and not any(allowed_names([pattern])):
            near = did_you_mean(pattern, [*plugins("apass.pass_modules").keys() - {"*"}, *known_names()])
            hint = near or "; `apass passes` lists all"
            raise InputError(f"--allow: no pass that can be used matches {pattern!r}{hint}")


def _executor_of(options: WorkerOptions) -> ExecutorScope:
    """Return the executor of the jobs.

    Raises:
        InputError: if there is no such executor for jobs.

    """
    if options.executor == INLINE:
        return nullcontext(None)
    if options.executor == PROCESS:
        return ProcessExecutor(options.workers, memory=bytes_of("--worker-memory", options.worker_memory))
    if not options.executor.startswith("dask"):
        known = (PROCESS, INLINE, "dask")
        hint = did_you_mean(options.executor, known) or f"; expected {', '.join(known)} or dask://HOST:PORT"
        raise InputError(f"--executor: jobs cannot run in {options.executor!r}{hint}")
    return executor_scope(options.executor, {})


def _store_of(options: JobOptions) -> tuple[str, Path | str | None]:
    """Return the store of the jobs as text, and its location; None for memory.

    Raises:
        InputError: if options exclude each other, or the folder of a file cannot be created.

    """
    if options.memory:
        if options.store is not None:
            raise InputError(f"--memory and --store {options.store} cannot be used together")
        if options.standby:
            raise InputError("--memory and --standby cannot be used together: no other server uses this memory")
        return "memory", None
    if options.store is not None and "://" in options.store:
        # The URL may contain a password.
        scheme, _, rest = options.store.partition("://")
        return f"{scheme}://{rest.rpartition('@')[2].partition('?')[0]}", options.store
    path = default_store() if options.store is None else Path(options.store)
    if path.is_dir():
        raise InputError(f"--store {path} is a folder; name a file, such as {path / 'jobs.db'}")
    try:
        # Models and results are no business of other users.
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"--store cannot create the folder {path.parent}: {error.strerror}; name another file"
        ) from None
    return str(path), path


def _pipelines_of(options: JobOptions) -> Mapping[str, str]:
    """Return the pipelines by name.

    Raises:
        InputError: if a value is not NAME=TEXT.
        PipelineSyntaxError: if a text does not parse.
        UnknownPassError: if a text names an unknown pass.

    """
    pipelines = {"default": ""}
    for item in options.pipelines or ():
        name, equals, text = item.partition("=")
        if not equals or not name.strip() or not text.strip():
            raise InputError(f"--pipeline must be NAME=TEXT, such as fast=onnx.Simplify, got {item!r}")
        pipelines[name.strip()] = pipeline_text(text.strip())
        read_pipeline(pipelines[name.strip()])
    return pipelines
