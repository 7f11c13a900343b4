"""Fixtures and checks for all tests: event loops, amounts, the order of files."""

import compileall
import gc
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from apass.concurrency.limits import usable_cores
from tests.helpers.amounts import load_profiles
from tests.helpers.distributions import installed
from tests.helpers.repository import ROOT

BOTH_LOOPS: Final = {
    *(
        "batch",
        "concurrency",
        "conformance",
        "core",
        "executors",
        "external",
        "passes",
        "properties",
        "runner",
        "search",
    ),
    "service",
}
"""Folders whose tests depend on the event loop: each runs on asyncio and on trio."""

load_profiles()


@pytest.fixture
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Return the event loop of an async test."""
    return str(request.param)


@pytest.fixture
def packages(tmp_path: Path) -> Iterator[Path]:
    """Yield a folder whose distributions are installed (see `write_distribution`)."""
    with installed(tmp_path):
        yield tmp_path


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that chooses the event loop."""
    parser.addoption(
        "--loop",
        choices=["asyncio", "trio", "both"],
        help="run all tests on this event loop; by default on asyncio, and on both where the loop matters",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Choose the event loops of a test, unless its own `parametrize` does.

    An async test uses `anyio_backend`. The argument `backend` is for a test that starts an event loop, or a program.
    """
    names = {"anyio_backend", "backend"} & set(metafunc.fixturenames)
    for mark in metafunc.definition.iter_markers("parametrize"):
        names -= {mark.args[0]} if isinstance(mark.args[0], str) else set(mark.args[0])
    loop = metafunc.config.getoption("--loop")
    if loop is None:
        folder = metafunc.definition.path.relative_to(ROOT / "tests").parts[0]
        matters = folder in BOTH_LOOPS or metafunc.definition.get_closest_marker("both_loops")
        loop = "both" if matters else "asyncio"
    if metafunc.definition.get_closest_marker("asyncio_only"):
        loop = "asyncio"
    for name in names:
        loops = ["asyncio", "trio"] if loop == "both" else [loop]
        metafunc.parametrize(name, loops, indirect=name == "anyio_backend")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return two more than the processors: many tests wait for other processes."""
    return usable_cores() + 2


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
    # In a new checkout, each worker would compile the package. Where PYTHONDONTWRITEBYTECODE is set, so would each
    # process that a test starts. What is compiled already is left alone.
    is_parallel = getattr(config.option, "numprocesses", None) is not None
    if (sys.dont_write_bytecode or is_parallel) and not hasattr(config, "workerinput"):
        compileall.compile_dir(ROOT / "apass", quiet=2, workers=0)


def pytest_collection_finish() -> None:
    """Let the garbage collector run seldom.

    It takes a sixth of the time of the tests otherwise.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


@pytest.fixture(scope="module", autouse=True)
def _small_heap() -> Iterator[None]:
    """Leave what earlier files have imported and cached out of later collections.

    With a thousand files in memory, one `gc.collect()` of a measurement takes a second otherwise.
    """
    yield
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Reject test ids that contain object addresses.

    Such ids differ between processes, and pytest-xdist then runs no test at all.
    """
    unstable = [item.nodeid for item in items if " at 0x" in item.nodeid]
    if unstable:
        raise pytest.UsageError(f"test ids contain addresses of objects; pass `ids` to parametrize: {unstable}")
