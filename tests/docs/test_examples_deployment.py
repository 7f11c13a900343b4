"""`examples/service/`: the container, the composition and the unit are valid."""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from shutil import which
from typing import Any

import pytest
import yaml

from apass.cli.app import load_command
from apass.cli.commands.serve import GRACE_SECONDS, LATE_SECONDS, LINGER_SECONDS
from apass.cli.quantities import duration_of
from tests.helpers.repository import ROOT

FOLDER = ROOT / "examples/service"


def composition() -> dict[str, Any]:
    """Return the contents of `compose.yaml`."""
    contents: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text())
    return contents


def container() -> dict[str, list[tuple[str, ...]]]:
    """Return the arguments of each instruction of the container file."""
    # It is an extension module without types.
    parser: Any = import_module("dockerfile")
    instructions: dict[str, list[tuple[str, ...]]] = {}
    for line in parser.parse_file(str(FOLDER / "Containerfile")):
        instructions.setdefault(line.cmd, []).append(tuple(line.value))
    return instructions


def served() -> Iterator[tuple[str, list[str]]]:
    """Iterate over the files, with the arguments of `apass serve` in each."""
    (entry,), (default,) = container()["ENTRYPOINT"], container()["CMD"]
    yield "Containerfile", [*entry[2:], *default]
    yield "compose.yaml", [*entry[2:], *composition()["services"]["apass"]["command"]]
    unit = (FOLDER / "apass.service").read_text()
    (start,) = (line for line in unit.splitlines() if line.startswith("ExecStart="))
    yield "apass.service", shlex.split(start)[2:]


@pytest.mark.parametrize(("file", "arguments"), list(served()), ids=[file for file, _ in served()])
def test_arguments_are_those_of_the_command(file: str, arguments: list[str]) -> None:
    context = load_command("serve").make_context("serve", list(arguments))
    # Files that the user of the server can read.
    assert str(context.params["token_file"]) in ("/data/tokens.jsonl", "${CREDENTIALS_DIRECTORY}/tokens"), file


def seconds_of(text: str) -> float:
    seconds = duration_of("the time", text)
    assert seconds is not None
    return seconds


def test_server_has_the_time_to_stop() -> None:
    unit = dict(line.split("=", 1) for line in (FOLDER / "apass.service").read_text().splitlines() if "=" in line)
    given = {"apass.service": unit["TimeoutStopSec"]}
    given["compose.yaml"] = composition()["services"]["apass"]["stop_grace_period"]
    for file, arguments in served():
        if file in given:
            context = load_command("serve").make_context("serve", list(arguments))
            needed = seconds_of(context.params["drain"]) * 2 + LINGER_SECONDS + GRACE_SECONDS + LATE_SECONDS
            assert seconds_of(given[file]) > needed, file


def test_unit_reads_the_tokens_of_root() -> None:
    lines = (FOLDER / "apass.service").read_text().splitlines()
    assert "LoadCredential=tokens:/etc/apass/tokens.jsonl" in lines
    assert {"Type=notify", "DynamicUser=yes"} <= set(lines)


def test_stages_of_the_container_exist() -> None:
    stages = [value[2] for value in container()["FROM"] if len(value) > 2]
    assert stages == ["build"]
    assert container()["USER"] == [("apass",)]


def test_composition_has_no_severe_finding() -> None:
    command = [sys.executable, "-m", "compose_lint", "check", "--fail-on", "high", str(FOLDER / "compose.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_composition_refers_to_what_it_defines() -> None:
    contents = composition()
    for service in contents["services"].values():
        assert set(service.get("networks", ())) <= set(contents["networks"])
        named = {volume.partition(":")[0] for volume in service.get("volumes", ())}
        assert all((FOLDER / name).exists() for name in named - set(contents["volumes"]))
        assert set(service.get("depends_on", ())) <= set(contents["services"])
    build = contents["services"]["apass"]["build"]
    assert (FOLDER / build["context"] / build["dockerfile"]).exists()


@pytest.mark.skipif(which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_unit_is_valid(tmp_path: Path) -> None:
    # The program of the unit must exist.
    text = (FOLDER / "apass.service").read_text().replace("/opt/apass/bin/apass", sys.executable)
    (tmp_path / "apass.service").write_text(text)
    command = ["systemd-analyze", "verify", str(tmp_path / "apass.service")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.skipif(which("haproxy") is None, reason="haproxy is not installed")
def test_proxies_are_valid(tmp_path: Path) -> None:
    page = (ROOT / "docs/how-to/serve.md").read_text()
    snippets = re.findall(r'```text title="haproxy.cfg"\n(.+?)```', page, re.DOTALL)
    assert len(snippets) == 2
    # The names of the machines of the page do not exist.
    known = [re.sub(r"[\w-]+\.example:", "127.0.0.1:", snippet) for snippet in snippets]
    for index, text in enumerate([*known, (FOLDER / "haproxy.cfg").read_text()]):
        path = tmp_path / f"{index}.cfg"
        path.write_text(text)
        done = subprocess.run(["haproxy", "-c", "-f", str(path)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
