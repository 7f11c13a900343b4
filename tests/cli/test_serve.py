"""`apass serve`: the start, the end and the tokens of a server."""

import signal
import socket
from pathlib import Path
from threading import Timer
from time import monotonic, sleep

import anyio
import httpx
import psutil
import pytest
from anyio import to_thread

from apass.cli import server_option
from apass.cli.commands.serve import default_store
from apass.cli.quantities import bytes_of, duration_of
from apass.errors import InputError
from apass.service import Client, JobState, RemoteJob
from tests.helpers.command_line import apass, nodes_of, write_model
from tests.helpers.folders import files
from tests.helpers.servers import command, server_process

GATE = '''
import os
import anyio
import apass
from apass.core.run import current_module_name

@apass.register_pass("test.Gate")
@apass.module_pass(opt_level=0, name="test.Gate")
async def gate(mod, ctx):
    """Wait until the file `open` exists."""
    folder = os.path.dirname(__file__)
    with open(f"{folder}/log", "a") as log:
        log.write(f"{current_module_name()}\\n")
    while not os.path.exists(f"{folder}/open"):
        await anyio.sleep(0.01)
    return mod
'''
"""Registers a pass that waits, and records each run."""


class Gate:
    """The pass of `GATE`, seen from outside."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.source = folder / "gate_pass.py"
        self.source.write_text(GATE)
        self.options = ("--load", self.source, "--pipeline", "gate=test.Gate", "--store", folder / "jobs.db")

    @property
    def runs(self) -> list[str]:
        """The models of all runs of the pass."""
        log = self.folder / "log"
        return log.read_text().split() if log.exists() else []

    def wait_for(self, count: int) -> None:
        """Wait until the pass has begun so often."""
        end = monotonic() + 60
        while len(self.runs) < count:
            assert monotonic() < end, self.runs
            sleep(0.01)

    def open(self) -> None:
        """Let all runs end."""
        (self.folder / "open").touch()

    def close(self) -> None:
        """Let runs wait again."""
        (self.folder / "open").unlink()


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    folder = tmp_path / "gate"
    folder.mkdir()
    return Gate(folder)


def submit(url: str, *models: Path) -> list[str]:
    """Submit models to the pipeline `gate`, and return the ids of the jobs."""

    async def main() -> list[str]:
        async with Client(url) as client:
            return [(await client.submit(model, pipeline="gate")).id for model in models]

    return anyio.run(main)


def finished(url: str, *ids: str) -> list[RemoteJob]:
    """Wait for the end of jobs, and return them."""

    async def main() -> list[RemoteJob]:
        async with Client(url) as client:
            jobs = [await client.find(job_id) for job_id in ids]
            for job in jobs:
                await job.wait()
            return jobs

    return anyio.run(main)


@pytest.fixture(autouse=True)
def data_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep the jobs of the user."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path / "data"


@pytest.mark.process
@pytest.mark.slow
def test_server_runs_jobs_in_processes_by_default(tmp_path: Path, data_home: Path) -> None:
    model = write_model(tmp_path / "m.onnx")
    with server_process("--workers", 1) as server:
        expected = (
            f"keeps them in {data_home}/apass/jobs.db, runs them in 1 worker process of at most 4 GiB; Ctrl-C stops"
        )
        assert server.banner == f"apass: {server.url} accepts jobs, {expected}\n"
        assert apass("submit", model, "-o", tmp_path / "out.onnx", "--server", server.url).exit_code == 0
        workers = psutil.Process(server.process.pid).children()
        assert server.end(signal.SIGTERM) == (0, "apass: stopped\n", "")
    assert nodes_of(tmp_path / "out.onnx") == ["Relu", "Neg"]
    assert [worker.is_running() for worker in workers] == [False]
    assert default_store() == data_home / "apass" / "jobs.db"
    assert (data_home / "apass").stat().st_mode & 0o777 == 0o700


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_drains_the_server(gate: Gate, tmp_path: Path, number: int) -> None:
    model, other = write_model(tmp_path / "m.onnx"), write_model(tmp_path / "n.onnx", identities=3)
    options = (*gate.options, "--executor", "inline", "--workers", 1, "--drain", "60s")
    with server_process(*options) as server:
        running, queued = submit(server.url, model, other)
        gate.wait_for(1)
        server.process.send_signal(number)
        line = "apass: stopping; 1 running job may take 60 s; a second signal ends at once\n"
        assert server.line() == line
        end = monotonic() + 60
        while httpx.get(f"{server.url}/readyz").status_code != 503:
            assert monotonic() < end
        assert httpx.post(f"{server.url}/v1/jobs?suffix=onnx", content=b"x").status_code == 503
        gate.open()
        out, err = server.process.communicate(timeout=60)
        kept = "apass: stopped; 1 unfinished job kept for the next start\n"
        assert (server.process.returncode, out, err) == (0, kept, "")
    # The next server runs what is left, and nothing twice.
    with server_process(*options) as server:
        jobs = finished(server.url, running, queued)
        assert [job.record.state for job in jobs] == [JobState.DONE] * 2
    assert gate.runs == ["m.onnx", "n.onnx"]


@pytest.mark.process
@pytest.mark.slow
def test_clients_get_results_while_server_stops(gate: Gate, tmp_path: Path) -> None:
    models = [write_model(tmp_path / f"m{index}.onnx", identities=index) for index in range(4)]
    nodes: dict[str, int | None] = {}

    async def optimize(client: Client, model: Path) -> None:
        job = await client.submit(model, pipeline="gate")
        await job.save(model.with_suffix(".out"))
        nodes[model.name] = None if job.record.summary is None else job.record.summary.after

    async def main() -> None:
        # A client that repeats requests only until the server has ended.
        async with Client(server.url, retry_seconds=1) as client, anyio.create_task_group() as group:
            for model in models:
                group.start_soon(optimize, client, model)
            await to_thread.run_sync(gate.wait_for, len(models))
            server.process.send_signal(signal.SIGTERM)
            assert (await to_thread.run_sync(server.line)).startswith("apass: stopping; 4 running jobs may take")
            gate.open()

    with server_process(*gate.options, "--executor", "inline", "--drain", "60s") as server:
        anyio.run(main)
        out, err = server.process.communicate(timeout=60)
    assert (server.process.returncode, out, err) == (0, "apass: stopped\n", "")
    assert nodes == {f"m{index}.onnx": index + 2 for index in range(4)}


@pytest.mark.process
@pytest.mark.slow
def test_job_that_exceeds_the_drain_runs_again(gate: Gate, tmp_path: Path) -> None:
    model = write_model(tmp_path / "m.onnx")
    with server_process(*gate.options, "--drain", "100ms") as server:
        ids = submit(server.url, model)
        gate.wait_for(1)
        workers = psutil.Process(server.process.pid).children()
        status, out, err = server.end(signal.SIGTERM)
        assert (status, out.splitlines()[-1], err) == (
            0,
            "apass: stopped; 1 unfinished job kept for the next start",
            "",
        )
        assert not any(worker.is_running() for worker in workers)
    gate.open()
    with server_process(*gate.options) as server:
        (job,) = finished(server.url, *ids)
        assert (job.record.state, job.record.attempts) == (JobState.DONE, 1)


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("executor", ["process", "inline"])
def test_second_signal_ends_at_once(gate: Gate, tmp_path: Path, executor: str) -> None:
    model = write_model(tmp_path / "m.onnx")
    options = ("--drain", "1h", "--executor", executor)
    with server_process(*gate.options, *options) as server:
        ids = submit(server.url, model)
        gate.wait_for(1)
        workers = psutil.Process(server.process.pid).children()
        server.process.send_signal(signal.SIGTERM)
        assert server.line().startswith("apass: stopping; 1 running job")
        assert server.end(signal.SIGTERM) == (143, "", "apass: ended at once by a second signal\n")
        # They look for their parent once a second.
        _, alive = psutil.wait_procs(workers, timeout=30)
        assert alive == []
    gate.open()
    with server_process(*gate.options) as server:
        (job,) = finished(server.url, *ids)
        assert (job.record.state, job.record.attempts) == (JobState.DONE, 2)


@pytest.mark.process
@pytest.mark.slow
def test_killed_server_loses_nothing_and_repeats_nothing(gate: Gate, tmp_path: Path) -> None:
    models = [write_model(tmp_path / f"m{index}.onnx", identities=index) for index in range(8)]
    options = (*gate.options, "--workers", 2)
    gate.open()
    with server_process(*options) as server:
        done = submit(server.url, *models[:3])
        finished(server.url, *done)
        gate.close()
        left = submit(server.url, *models[3:])
        gate.wait_for(5)
        server.process.kill()
        server.process.wait()
    gate.open()
    with server_process(*options) as server:
        jobs = finished(server.url, *done, *left)
    assert [job.record.state for job in jobs] == [JobState.DONE] * 8
    assert [job.record.attempts for job in jobs] == [1, 1, 1, 2, 2, 1, 1, 1]
    counts = {model.name: gate.runs.count(model.name) for model in models}
    assert counts == {f"m{index}.onnx": 2 if index in (3, 4) else 1 for index in range(8)}


@pytest.mark.process
@pytest.mark.slow
def test_client_that_never_reads_is_left(tmp_path: Path) -> None:
    model = tmp_path / "large.onnx"
    model.write_bytes(bytes(40_000_000))

    async def submit_and_wait() -> str:
        async with Client(server.url) as client:
            job = await client.submit(model)
            await job.wait()
            return job.id

    with server_process("--store", tmp_path / "jobs.db", "--executor", "inline") as server:
        job_id = anyio.run(submit_and_wait)
        with socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2]))) as stuck:
            stuck.sendall(f"GET /v1/jobs/{job_id}/model HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            assert stuck.recv(100).startswith(b"HTTP/1.1 200")
            status, out, err = server.end(signal.SIGTERM)
    assert (status, out, "Traceback" in err) == (0, "apass: stopped\n", False)


@pytest.mark.process
def test_jobs_in_memory_are_lost_with_a_message(gate: Gate, tmp_path: Path) -> None:
    model = write_model(tmp_path / "m.onnx")
    options = ("--load", gate.source, "--pipeline", "gate=test.Gate", "--memory", "--executor", "inline")
    with server_process(*options, "--drain", "100ms") as server:
        assert "keeps them in memory, runs them in the event loop" in server.banner
        submit(server.url, model)
        gate.wait_for(1)
        status, out, err = server.end(signal.SIGINT)
    assert (status, err, files(tmp_path)) == (0, "", ["gate/gate_pass.py", "gate/log", "m.onnx"])
    assert out.splitlines()[-1] == "apass: stopped; 1 unfinished job lost, because of --memory"


@pytest.mark.process
@pytest.mark.slow
def test_two_servers_do_not_share_a_file(tmp_path: Path) -> None:
    store = tmp_path / "jobs.db"
    second = command(["serve", "--port", 0, "--store", store])
    with server_process("--store", store, "--executor", "inline") as server, second as process:
        out, err = process.communicate(timeout=60)
        holder = f"is in use by process {server.process.pid} on {socket.gethostname()}"
    advice = "stop that process, or wait for its end as a standby (--standby, or `standby=True`)"
    assert (process.returncode, out, err) == (2, "", f"apass: the store '{store}' {holder}; {advice}\n")


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_standby_takes_over_all_jobs(gate: Gate, tmp_path: Path, number: int) -> None:
    models = [write_model(tmp_path / f"m{index}.onnx", identities=index) for index in range(4)]
    options = (*gate.options, "--executor", "inline", "--workers", 2, "--drain", "100ms")
    with server_process(*options) as first, server_process(*options, "--standby") as second:
        place = gate.folder / "jobs.db"
        assert second.banner == f"apass: {second.url} is a standby: another server uses {place}; Ctrl-C stops\n"
        ids = submit(first.url, *models)
        gate.wait_for(2)
        assert httpx.get(f"{second.url}/healthz").status_code == 200
        assert httpx.get(f"{second.url}/readyz").json()["reason"] == "standby"
        first.process.send_signal(number)
        assert second.line().startswith(f"apass: {second.url} accepts jobs, keeps them in {place}")
        assert httpx.get(f"{second.url}/readyz").status_code == 200
        gate.open()
        jobs = finished(second.url, *ids)
        lost = int(number == signal.SIGKILL)
        assert [job.record.attempts for job in jobs] == [1 + lost, 1 + lost, 1, 1]
        assert [job.record.state for job in jobs] == [JobState.DONE] * 4
        assert second.end(signal.SIGTERM) == (0, "apass: stopped\n", "")


@pytest.mark.process
@pytest.mark.slow
def test_submission_waits_for_standby(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_option, "FIRST_SECONDS", 0.1)
    options, model = ("--store", tmp_path / "jobs.db", "--executor", "inline"), write_model(tmp_path / "m.onnx")
    with server_process(*options) as first, server_process(*options, "--standby") as second:
        end = Timer(1, first.process.kill)
        end.start()
        assert apass("submit", model, "-o", tmp_path / "out.onnx", "--server", second.url).exit_code == 0
        end.join()
    assert nodes_of(tmp_path / "out.onnx") == ["Relu", "Neg"]


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_waiting_standby_ends_at_once(tmp_path: Path, number: int) -> None:
    options = ("--store", tmp_path / "jobs.db", "--executor", "inline")
    with server_process(*options), server_process(*options, "--standby") as second:
        assert second.end(number) == (0, "apass: stopped\n", "")


@pytest.mark.process
@pytest.mark.slow
def test_server_without_lock_ends_with_status_1(tmp_path: Path) -> None:
    store = tmp_path / "jobs.db"
    options = ("--store", store, "--executor", "inline", "--standby")
    with server_process(*options) as first:
        Path(f"{store}.lock").unlink()
        with server_process(*options) as second:
            out, err = first.process.communicate(timeout=60)
            message = f"apass: another server has taken over the store '{store}'; end this one, or start it again as a"
            assert (first.process.wait(), out, err) == (1, "", f"{message} standby\n")
            assert second.end(signal.SIGTERM)[0] == 0


@pytest.mark.process
def test_tokens_are_required_and_sufficient(tmp_path: Path) -> None:
    tokens, model = tmp_path / "tokens.jsonl", write_model(tmp_path / "m.onnx")
    created = [apass("serve", "--new-token", name, "--token-file", tokens) for name in ("alice", "bob")]
    assert [result.exit_code for result in created] == [0, 0]
    alice, bob = (result.stdout.strip() for result in created)
    assert created[0].stderr == (
        f"apass: this token of 'alice' permits read, submit; it is shown only once, and {tokens} has its hash\n"
    )
    assert (tokens.stat().st_mode & 0o777, alice in tokens.read_text()) == (0o600, False)
    with server_process("--memory", "--executor", "inline", "--token-file", tokens, "--host", "0.0.0.0") as server:
        url = server.url.replace("0.0.0.0", "127.0.0.1")
        advice = "set a valid one with --token or APASS_TOKEN\n"
        refused = apass("submit", model, "-o", tmp_path / "out.onnx", "--server", url)
        assert (refused.exit_code, refused.stderr) == (2, f"apass: the server {url} needs a token; {advice}")
        refused = apass("jobs", "--server", url, "--token", "x" * 50)
        assert (refused.exit_code, refused.stderr) == (
            2,
            f"apass: the server {url} does not accept the token; {advice}",
        )
        assert apass("submit", model, "-o", tmp_path / "out.onnx", "--server", url, "--token", alice).exit_code == 0
        listed = [apass("jobs", "--server", url, "--token", token).stdout for token in (alice, bob)]
    assert ["m.onnx" in text for text in listed] == [True, False]


@pytest.mark.process
def test_submission_needs_one_scope_only(tmp_path: Path) -> None:
    tokens, model = tmp_path / "tokens.jsonl", write_model(tmp_path / "m.onnx")
    submit, read = (
        apass("serve", "--new-token", "alice", "--scope", scope, "--token-file", tokens).stdout.strip()
        for scope in ("submit", "read")
    )
    with server_process("--memory", "--executor", "inline", "--token-file", tokens) as server:

        def run(*arguments: object) -> tuple[int, str]:
            result = apass("submit", model, *arguments, "--server", server.url)
            return result.exit_code, result.stderr

        advice = "set another token with --token or APASS_TOKEN\n"
        assert run("--no-wait", "--token", submit) == (0, "")
        status, err = run("--token", submit)
        assert (status, err) == (
            2,
            f"apass: the token has the scopes submit; this command needs read and submit; {advice}",
        )
        status, err = run("--no-wait", "--token", read)
        assert (status, err) == (2, f"apass: the token has the scopes read; this command needs submit; {advice}")
        # Such a token cannot ask for the plan, so that the server rejects each model.
        status, err = run("--no-wait", "--token", submit, "-p", "NoSuchPass")
        assert (status, err.count("m.onnx: "), "'NoSuchPass'" in err) == (2, 1, True)
        assert len(apass("jobs", "--server", server.url, "--token", read).stdout.strip().splitlines()) == 3
    assert files(tmp_path) == ["m.onnx", "tokens.jsonl"]


@pytest.mark.process
def test_unix_socket_needs_no_token(tmp_path: Path) -> None:
    path, model = tmp_path / "s", write_model(tmp_path / "m.onnx")
    with server_process("--memory", "--executor", "inline", "--uds", path) as server:
        assert server.url == f"unix:{path}"
        assert apass("submit", model, "-o", tmp_path / "out.onnx", "--server", server.url).exit_code == 0
        assert server.end(signal.SIGTERM)[0] == 0
    assert files(tmp_path) == ["m.onnx", "out.onnx"]


@pytest.mark.process
@pytest.mark.slow
def test_options_limit_the_jobs(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m.onnx")
    options = ("--max-model-size", "100", "--max-deadline", "1m", "--pipeline", f"clean=@{tmp_path / 'p.txt'}")
    (tmp_path / "p.txt").write_text("onnx.IdentityElimination # remove them\n")
    small = write_model(tmp_path / "small.onnx", identities=0)
    with server_process("--memory", "--executor", "inline", "--allow", "onnx.*", *options) as server:

        def run(*arguments: object) -> tuple[int, str]:
            result = apass("submit", *arguments, "-o", tmp_path / "out.onnx", "--server", server.url)
            return result.exit_code, result.stdout + result.stderr

        assert "the limit is 100" in run(model)[1] or "which is the limit" in run(model)[1]
        assert run(small, "-p", "clean")[0] == 0
        assert run(small, "-p", "onnx.Simplify,onnx.Inline")[0] == 0
        status, text = run(small, "-p", "PrintIR")
        assert (status, "there is no pipeline 'PrintIR', and no allowed pass of this name" in text) == (2, True)
        status, text = run(small, "--deadline", "2m")
        assert (status, "deadline must be at most 60 s here" in text) == (2, True)


@pytest.mark.process
def test_names_of_the_server_are_accepted() -> None:
    with server_process("--memory", "--executor", "inline", "--host-name", "build.example") as server:

        def get(host: str) -> httpx.Response:
            return httpx.get(f"{server.url}/v1/jobs", headers={"host": host})

        assert [get(host).status_code for host in ("build.example", "localhost:80")] == [200, 200]
        refused = get("evil.example")
        assert (refused.status_code, "add it with --host-name of `apass serve`" in refused.json()["detail"]) == (
            403,
            True,
        )


def test_help_of_patterns_has_no_backslash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    text = apass("serve", "--help").stdout
    assert ("such as 'onnx.*'" in text, "\\" in text) == (True, False)


@pytest.mark.process
def test_rate_of_a_tenant_is_limited(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m.onnx").read_bytes()
    with server_process("--memory", "--executor", "inline", "--tenant-rate", "0.001") as server:
        first, second = (httpx.post(f"{server.url}/v1/jobs?suffix=onnx", content=model) for _ in range(2))
        assert (first.status_code, second.status_code) == (202, 429)
        assert (second.json()["detail"], second.headers["retry-after"]) == (
            "a tenant may submit 0.001 jobs per second",
            "1000",
        )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--host", "0.0.0.0"], "--host 0.0.0.0 lets other machines use the server, which needs tokens"),
        (["--behind-proxy"], "--behind-proxy lets other machines use the server, which needs tokens"),
        (["--memory", "--store", "x.db"], "--memory and --store x.db cannot be used together"),
        (["--store", "/"], "--store / is a folder; name a file"),
        (["--store", "/proc/new/jobs.db"], "--store cannot create the folder /proc/new"),
        (["--store", "mysql://host/db"], "--store: "),
        (["--executor", "thread"], "--executor: jobs cannot run in 'thread'; expected process, inline, dask"),
        (["--executor", "proces"], "did you mean 'process'?"),
        (["--executor", "dask://"], "--executor names the executor 'dask://' without an address"),
        (["--worker-memory", "much"], "--worker-memory must be a size such as 4GiB, 500MB or none, got 'much'"),
        (["--max-age", "7 years"], "--max-age must be a duration such as 90s, 12h, 7d or none, got '7 years'"),
        (["--drain", "none"], "--drain must be a duration such as 30s, got none"),
        (["--tenant-rate", "0"], "--tenant-rate must be a positive number of jobs per second, got 0"),
        (["--tenant-rate", "nan"], "--tenant-rate must be a positive number of jobs per second, got nan"),
        (["--pipeline", "onnx.Simplify"], "--pipeline must be NAME=TEXT, such as fast=onnx.Simplify"),
        (["--pipeline", "a=NoSuchPass"], "no pass is registered under the name 'NoSuchPass'"),
        (["--allow-config", "no.such"], "no.such"),
        (["--token-file", "no-file"], "--token-file no-file does not exist; create it with --new-token TENANT"),
        (["--token-file", "/proc"], "apass: cannot read the tokens in /proc: Is a directory\n"),
        (["--scope", "read"], "--scope is for a new token; add --new-token TENANT"),
        (["--allow", "onx.*"], "--allow: no pass that can be used matches 'onx.*'; did you mean 'onnx.*'?"),
        (["--allow", "onnx.Simplfy"], "--allow: no pass that can be used matches 'onnx.Simplfy'"),
        (["--allow", "0*"], "--allow: no pass that can be used matches '0*'; `apass passes` lists all"),
        (["--uds", "/no/such/s"], "apass: cannot listen on /no/such/s: No such file or directory; create its folder"),
        (["--uds", "/proc/version"], "apass: cannot listen on /proc/version: another file has this name; choose "),
        (["--new-token", "alice"], "--new-token needs a file for the hash of the token"),
        (["--new-token", "a", "--token-file", "t", "--scope", "admim"], "--scope: unknown scope 'admim'; did you mean"),
        (["--new-token", "", "--token-file", "t"], "the tenant of a token must be a name"),
    ],
)
def test_misuse_is_one_line(options: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = apass("serve", "--port", 0, *options)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
    assert result.stderr.startswith("apass: ")
    assert files(tmp_path) in ([], ["data/apass/jobs.db"]), result.stderr


def test_port_in_use_is_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        result = apass("serve", "--memory", "--port", port)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"apass: cannot listen on 127.0.0.1:{port}: Address already in use; ")


def test_store_that_is_no_database_is_kept(tmp_path: Path) -> None:
    store = tmp_path / "notes.txt"
    store.write_text("These are my notes, and no database. " * 100)
    result = apass("serve", "--port", 0, "--store", store)
    assert (result.exit_code, result.stdout) == (2, "")
    assert str(store) in result.stderr
    assert store.read_text().startswith("These are my notes")


def test_token_file_without_tokens_is_rejected(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("# none yet\n")
    result = apass("serve", "--memory", "--port", 0, "--token-file", tokens)
    assert (result.exit_code, "has no token; add one with --new-token TENANT" in result.stderr) == (2, True)


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("name", ["uvicorn", "starlette", "prometheus_client"])
def test_missing_library_names_the_extra(name: str) -> None:
    body = f"import sys\nsys.modules[{name!r}] = None"
    with command(["serve", "--memory", "--port", 0], body) as process:
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err.count("\n")) == (2, "", 1)
    assert err.endswith("pip install 'apass[serve]'\n")


@pytest.mark.parametrize(
    ("text", "size"),
    [("4GiB", 4 * 2**30), ("500 MB", 500_000_000), ("1.5kib", 1536), ("17", 17), ("none", None), ("NONE", None)],
)
def test_sizes_have_units(text: str, size: int | None) -> None:
    assert bytes_of("--size", text) == size


@pytest.mark.parametrize("text", ["", "0", "-1", "1e5", "GiB", "4 XB", "nan", "inf", "9" * 400])
def test_invalid_sizes_are_rejected(text: str) -> None:
    with pytest.raises(InputError, match="--size must be a size"):
        bytes_of("--size", text)


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("1.5m", 90), ("2h", 7200), ("7d", 604_800), ("100ms", 0.1)]
)
def test_durations_have_units(text: str, seconds: float) -> None:
    assert duration_of("--time", text) == pytest.approx(seconds)
    assert duration_of("--time", "none") is None
