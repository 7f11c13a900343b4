"""Log messages of retries: emitted only through configured loggers."""

import logging
import subprocess
import sys

import pytest

pytestmark = pytest.mark.process

RUN = """
import sys
import anyio
from apass.external import Backoff, Policy, Service

async def ask(question):
    asked.append(question)
    if len(asked) < 3:
        raise ConnectionError("down")
    return "up"

asked = []
SETUP = sys.argv[1]
exec(SETUP)
print(anyio.run(Service(ask, Policy(attempts=3, backoff=Backoff(initial=0, jitter=0))).ask, "q"))
"""


def run(setup: str) -> tuple[list[str], list[str]]:
    """Run a program with a logging setup; return the lines of both its outputs."""
    done = subprocess.run([sys.executable, "-c", RUN, setup], capture_output=True, text=True, check=True)
    return done.stdout.splitlines(), done.stderr.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("hook", ["StructlogOnRetryHook", "LoggingOnRetryHook"])
def test_unconfigured_program_prints_no_retries(hook: str) -> None:
    # stamina's defaults, with structlog installed and without it.
    setup = f"from stamina import instrumentation as i; i.set_on_retry_hooks([i.{hook}])"
    assert run(setup) == (["up"], [])
    assert run("") == (["up"], [])


def test_configured_structlog_receives_retries() -> None:
    out, err = run("import structlog; structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))")
    assert out == ["up"]
    assert [line for line in err if "stamina.retry_scheduled" in line] == err
    assert len(err) == 2


def test_configured_logging_receives_retries() -> None:
    out, err = run("import logging; logging.basicConfig(format='%(name)s %(message)s')")
    # structlog is installed for the tests, but not configured.
    line = "apass.external attempt {} failed, retrying in 0.00 s: ConnectionError: down"
    assert (out, err) == (["up"], [line.format(1), line.format(2)])
    out, err = run(
        "import logging; logging.basicConfig(format='%(name)s %(message)s')\n"
        "from stamina import instrumentation as i; i.set_on_retry_hooks([i.LoggingOnRetryHook])"
    )
    assert (out, err) == (["up"], ["stamina stamina.retry_scheduled"] * 2)


def test_hooks_of_the_program_are_unchanged() -> None:
    hook = "lambda details: print(details.retry_num)"
    setup = f"from stamina.instrumentation import set_on_retry_hooks; set_on_retry_hooks([{hook}])"
    assert run(setup) == (["1", "2", "up"], [])


def test_logger_has_only_a_null_handler() -> None:
    assert [type(handler) for handler in logging.getLogger("apass.external").handlers] == [logging.NullHandler]
