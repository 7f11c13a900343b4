"""Retries that are logged where somebody listens, and print nothing where nobody does."""

import logging
import subprocess
import sys

import pytest

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
SET_UP = sys.argv[1]
exec(SET_UP)
print(anyio.run(Service(ask, Policy(attempts=3, backoff=Backoff(initial=0, jitter=0))).ask, "q"))
"""


def run(set_up: str) -> tuple[list[str], list[str]]:
    """Return what a program prints that has set up logging so: to standard output, and to standard error."""
    done = subprocess.run([sys.executable, "-c", RUN, set_up], capture_output=True, text=True, check=True)
    return done.stdout.splitlines(), done.stderr.splitlines()


@pytest.mark.parametrize("hook", ["StructlogOnRetryHook", "LoggingOnRetryHook"])
def test_a_program_that_set_nothing_up_prints_what_it_prints(hook: str) -> None:
    # As stamina does by default, where structlog is installed and where it is not.
    set_up = f"from stamina import instrumentation as i; i.set_on_retry_hooks([i.{hook}])"
    assert run(set_up) == (["up"], [])
    assert run("") == (["up"], [])


def test_who_configures_structlog_has_the_lines_there() -> None:
    out, err = run("import structlog; structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))")
    assert out == ["up"]
    assert [line for line in err if "stamina.retry_scheduled" in line] == err
    assert len(err) == 2


def test_who_sets_logging_up_has_the_lines_there() -> None:
    out, err = run("import logging; logging.basicConfig(format='%(name)s %(message)s')")
    # structlog is installed with the tests, and is not configured.
    line = "apass.external attempt {} failed, the next is in 0.00 s: ConnectionError: down"
    assert (out, err) == (["up"], [line.format(1), line.format(2)])
    out, err = run(
        "import logging; logging.basicConfig(format='%(name)s %(message)s')\n"
        "from stamina import instrumentation as i; i.set_on_retry_hooks([i.LoggingOnRetryHook])"
    )
    assert (out, err) == (["up"], ["stamina stamina.retry_scheduled"] * 2)


def test_hooks_of_the_program_stay() -> None:
    set_up = (
        "from stamina.instrumentation import set_on_retry_hooks; set_on_retry_hooks([lambda one: print(one.retry_num)])"
    )
    assert run(set_up) == (["1", "2", "up"], [])


def test_the_logger_says_nothing_by_itself() -> None:
    assert [type(one) for one in logging.getLogger("apass.external").handlers] == [logging.NullHandler]
