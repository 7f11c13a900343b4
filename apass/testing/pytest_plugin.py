"""The plugin for pytest: snapshot cases, FileCheck comments and the idle clock.

pytest loads it in every project of an environment, so it imports nothing before a test uses it.
"""

from argparse import ArgumentError
from collections.abc import Generator, Iterator
from pathlib import Path
from traceback import format_exception
from typing import Any

import pytest

__all__ = ["idle_clock"]

UPDATED = pytest.StashKey[list[str]]()
"""The cases that `--apass-update` has rewritten."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the plugin."""
    group = parser.getgroup("apass", "tests of compiler passes")
    group.addoption("--apass", action="store_true", help="run snapshot cases (*.case) and model files with RUN lines")
    group.addoption(
        "--apass-update",
        action="store_true",
        help="write the results of snapshot cases into their files; --update does so after --apass",
    )


@pytest.hookimpl(hookwrapper=True)
def pytest_load_initial_conftests(early_config: pytest.Config, parser: pytest.Parser) -> Iterator[None]:
    """Add `--update` if `--apass` is given and no conftest has this option."""
    yield
    # Many projects have an option of this name. pytest would fail if both were added.
    if getattr(early_config.known_args_namespace, "apass", False):
        try:
            parser.getgroup("apass").addoption("--update", action="store_true", dest="apass_update", help="see above")
        except (ValueError, ArgumentError):
            return


def pytest_configure(config: pytest.Config) -> None:
    """Prepare the list of rewritten cases."""
    config.stash[UPDATED] = []


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect snapshot cases and model files, if requested."""
    option = parent.config.option
    if not (getattr(option, "apass", False) or getattr(option, "apass_update", False)):
        return None
    # pytest loads this plug-in in every project that has apass installed.
    from apass.testing.cases import CASE_SUFFIX, has_run_lines

    is_case = file_path.suffix == CASE_SUFFIX
    if not is_case and not has_run_lines(file_path):
        return None
    file: Any = CaseFile if is_case else CheckedFile
    collector: pytest.Collector = file.from_parent(parent, path=file_path)
    return collector


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """List the rewritten cases."""
    for line in config.stash.get(UPDATED, list[str]()):
        terminalreporter.write_line(f"updated {line}")


class CaseFile(pytest.File):
    """A file with a snapshot case."""

    def collect(self) -> Iterator[pytest.Item]:
        """Iterate over the one test."""
        # pytest loads this plug-in in every project that has apass installed.
        from apass.testing.cases import Case

        case = _parsed(Case.read, self.path)
        yield _item(self, case.pipeline, case)


class CheckedFile(pytest.File):
    """A model file with RUN lines."""

    def collect(self) -> Iterator[pytest.Item]:
        """Iterate over the tests, one for each RUN line."""
        # pytest loads this plug-in in every project that has apass installed.
        from apass.testing.cases import read_run_lines

        for line in read_run_lines(self.path):
            yield _item(self, line.text, line)


class CaseItem(pytest.Item):
    """A snapshot case, or a RUN line."""

    test: Any = None
    """A `Case` or a `RunLine`."""

    def runtest(self) -> None:
        """Run the test, or rewrite its file."""
        if not (self.config.option.apass_update and hasattr(self.test, "update")):
            self.test.check()
        elif self.test.update():
            self.config.stash[UPDATED].append(str(self.path))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Return the message; for an error of a pass, Python's traceback of the pass.

        The sources that pytest shows would be those of pytest and of the kit.
        """
        # pytest loads this plug-in in every project that has apass installed.
        from apass.errors import ApassError

        error = excinfo.value
        if isinstance(error, AssertionError | ApassError):
            return "\n".join([str(error), *getattr(error, "__notes__", [])])
        frames = excinfo.tb
        while frames.tb_next is not None and frames.tb_frame.f_code.co_filename != __file__:
            frames = frames.tb_next
        return "".join(format_exception(type(error), error, frames.tb_next)).rstrip()

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Return the file and the title of the test."""
        return self.path, None, f"pipeline {self.name}"


def _item(parent: pytest.File, name: str, test: object) -> CaseItem:
    kind: Any = CaseItem
    # A report has one line for each test.
    item: CaseItem = kind.from_parent(parent, name=" ".join(name.split()))
    item.test = test
    return item


def _parsed(read: Any, path: Path) -> Any:
    try:
        return read(path)
    except ValueError as error:
        raise pytest.Collector.CollectError(str(error)) from None


@pytest.fixture
def idle_clock(anyio_backend: Any, request: pytest.FixtureRequest) -> Generator[None]:
    """Run an async test on a clock that advances only while all tasks wait.

    See `apass.testing.idle_clock`. Async fixtures of the test start the event loop before, with a real clock: let the
    fixture `anyio_backend` return the value of `apass.testing.idle_clock` for them.
    """
    # pytest loads this plug-in in every project that has apass installed.
    from apass.testing.event_loops import idle_clock

    name = anyio_backend if isinstance(anyio_backend, str) else anyio_backend[0]
    with idle_clock(name) as backend:
        # The runner of anyio reads the backend from here when the test starts.
        item: Any = request.node
        item.funcargs["anyio_backend"] = backend
        yield
