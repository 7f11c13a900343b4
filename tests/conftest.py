"""Fixtures and checks for all tests; async tests run on asyncio and trio."""

import compileall
import gc
import signal
import sys

import pytest
from hypothesis import HealthCheck, settings

from apass.concurrency.limits import usable_cores
from tests.helpers.repository import ROOT

# The time of an example depends on the machine more than on the code.
settings.register_profile("apass", deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("thorough", settings.get_profile("apass"), max_examples=1000)
settings.load_profile("apass")


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Return the event loop of an async test."""
    return str(request.param)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return one more than the processors: many tests wait for other processes."""
    return usable_cores() + 1


def pytest_configure(config: pytest.Config) -> None:
    """Prepare a run: the order of the files, Ctrl-C, and the compiled package.

    By default, pytest-xdist runs files with few tests last. These hold the longest tests, which one worker would run
    alone.
    """
    # A background job of a shell ignores Ctrl-C, and so would the programs that the tests start and interrupt.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False
    # Where PYTHONDONTWRITEBYTECODE is set, each of the hundreds of processes that tests start would compile the package
    # again, for half a second. What is compiled already is left alone.
    if sys.dont_write_bytecode and not hasattr(config, "workerinput"):
        compileall.compile_dir(ROOT / "apass", quiet=2)


def pytest_collection_finish() -> None:
    """Let the garbage collector run seldom, and leave out the test modules.

    It takes a sixth of the time of the tests otherwise.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Reject test ids that contain object addresses.

    Such ids differ between processes, and pytest-xdist then runs no test at all.
    """
    unstable = [item.nodeid for item in items if " at 0x" in item.nodeid]
    if unstable:
        raise pytest.UsageError(f"test ids contain addresses of objects; pass `ids` to parametrize: {unstable}")
