"""`--access-log`: the lines of a server, and outputs that cannot take them."""

import json
import logging
import os
import signal
from pathlib import Path
from threading import Event
from typing import Any

import httpx
import pytest

from apass.cli import access_log as access_log_module
from apass.cli.access_log import LOGGER, access_log
from apass.errors import InputError
from apass.service import new_token
from tests.helpers.command_line import apass, write_model
from tests.helpers.servers import server_process


def lines_of(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines() if line]


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("is_file", [False, True])
def test_each_request_is_a_line(tmp_path: Path, is_file: bool) -> None:
    tokens, log, model = tmp_path / "tokens", tmp_path / "new" / "log", write_model(tmp_path / "m.onnx")
    secret, token = new_token("alice")
    tokens.write_text(json.dumps(token.as_json()))
    options = ("--memory", "--executor", "inline", "--token-file", tokens)
    with server_process(*options, "--access-log", log if is_file else "-") as server:
        result = apass("submit", model, "-o", tmp_path / "out.onnx", "--server", server.url, "--token", secret)
        assert result.exit_code == 0
        httpx.get(f"{server.url}/v1/jobs", params={"token": secret})
        _, _, err = server.end(signal.SIGTERM)
    text = log.read_text() if is_file else err
    assert (secret in text, err == "") == (False, is_file)
    lines = lines_of(text)
    submitted = next(line for line in lines if line["method"] == "POST" and line["path"] == "/v1/jobs")
    assert (submitted["status"], submitted["tenant"], submitted["client"]) == (202, "alice", "127.0.0.1")
    last = lines[-1]
    assert (last["path"], last["status"], "tenant" in last) == ("/v1/jobs", 401, False)


def log(text: str) -> None:
    logging.getLogger(LOGGER).info("%s", json.dumps({"path": text}))


def test_file_is_private_and_may_be_renamed(tmp_path: Path) -> None:
    path, old = tmp_path / "log", tmp_path / "log.1"
    for name in ("first", "second"):
        with access_log(path):
            log(name)
        if name == "first":
            assert path.stat().st_mode & 0o007 == 0
            path.rename(old)
    assert (lines_of(old.read_text()), lines_of(path.read_text())) == ([{"path": "first"}], [{"path": "second"}])
    # The logger is as before.
    log("third")
    assert "third" not in path.read_text()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
def test_full_disk_is_reported_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    link = tmp_path / "log"
    link.symlink_to("/dev/full")
    with access_log(link):
        log("first")
        log("second")
    assert capsys.readouterr().err == (
        f"apass: --access-log cannot write {link}: No space left on device; requests are not logged until it can\n"
    )


def test_requests_beyond_the_queue_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log"
    os.mkfifo(path)
    monkeypatch.setattr(access_log_module, "MOST_LINES", 2)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with access_log(path):
            fill = "x" * 200_000  # more than a pipe holds: the thread waits for the reader
            log(fill)
            data = b""
            while not data:
                data = read_now(reader)
            for number in range(5):
                log(str(number))
            while data.count(b"\n") < 4:
                data += read_now(reader)
    finally:
        os.close(reader)
    assert lines_of(data.decode()) == [{"path": fill}, {"lost": 3}, {"path": "0"}, {"path": "1"}]


def read_now(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 1000)
    except BlockingIOError:
        Event().wait(0.01)
        return b""


def test_unwritable_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"--access-log must name a file, but {tmp_path} is a folder"):
        access_log(tmp_path).__enter__()
    result = apass("serve", "--memory", "--port", 0, "--access-log", "/proc/log")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("apass: --access-log cannot write /proc/log: ")
