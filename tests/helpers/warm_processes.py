"""Programs in processes that have imported the package before.

An interpreter that imports the package and numpy, onnx and Relay takes a second, which the tests of a few hundred
processes would spend again and again. Each program here is a process of its own, forked from one that has only imported
these.
"""

import multiprocessing
import os
import subprocess
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing.context import ForkServerProcess
from multiprocessing.reduction import DupFd
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, Final, Self, TextIO

__all__ = ["WarmProcess"]

_CONTEXT: Final = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["tests.helpers.preloaded"])


class WarmProcess:
    """A process that runs Python code, with methods of `subprocess.Popen`.

    Parameters:
        code: the program, as for `python -c`.
        arguments: those of the program.
        environ: the environment.
        folder: the working directory; by default that of this process.

    """

    def __init__(
        self, code: str, arguments: Sequence[object] = (), *, environ: Mapping[str, str], folder: Path | None = None
    ) -> None:
        pipes = [os.pipe() for _ in range(2)]
        with Path(os.devnull).open() as nothing:
            files = [nothing.fileno(), *(sender for _, sender in pipes)]
            self._process: ForkServerProcess = _CONTEXT.Process(
                target=_run_program,
                args=(
                    code,
                    [*map(str, arguments)],
                    dict(environ),
                    str(folder or Path.cwd()),
                    [*map(_Inherited, files)],
                ),
            )
            self._process.start()
        for _, sender in pipes:
            os.close(sender)
        self.returncode: int | None = None
        """The exit status when it has been waited for; negative for a signal."""
        self.stdout: Final[TextIO] = os.fdopen(pipes[0][0])
        """The output."""
        self.stderr: Final[TextIO] = os.fdopen(pipes[1][0])
        """The error output."""

    @property
    def pid(self) -> int:
        """The number of the process."""
        assert self._process.pid is not None
        return self._process.pid

    def send_signal(self, number: int) -> None:
        """Send a signal."""
        os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill the process, unless it has ended."""
        if self.returncode is None:
            self._process.kill()

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end, and return the exit status."""
        if self.returncode is not None:
            return self.returncode
        self._process.join(timeout)
        self.returncode = self._process.exitcode
        if self.returncode is None:
            raise subprocess.TimeoutExpired(self._process.name, timeout or 0)
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Wait for the end, and return the rest of the output and the error output."""
        texts = ["", ""]

        def read(index: int, stream: TextIO) -> None:
            with suppress(ValueError):  # closed
                texts[index] = stream.read()

        readers = [threading.Thread(target=read, args=item) for item in enumerate((self.stdout, self.stderr))]
        for reader in readers:
            reader.start()
        try:
            self.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        finally:
            for reader in readers:
                reader.join()
        return texts[0], texts[1]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if exc is not None:
            self.kill()
        self.wait()
        self.stdout.close()
        self.stderr.close()
        self._process.close()


class _Inherited:
    """A file descriptor that the process receives."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __reduce__(self) -> Any:
        return _detach, (DupFd(self._number),)


def _detach(duplicate: Any) -> int:
    return int(duplicate.detach())


def _run_program(
    code: str, arguments: Sequence[str], environ: Mapping[str, str], folder: str, files: Sequence[int]
) -> None:
    """Run code as the main module, as a new interpreter would."""
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w", buffering=1)
    os.environ.clear()
    os.environ.update(environ)
    os.chdir(folder)
    sys.argv = ["-c", *arguments]
    first = [] if environ.get("PYTHONSAFEPATH") else [""]
    added = filter(None, environ.get("PYTHONPATH", "").split(os.pathsep))
    sys.path[:] = dict.fromkeys([*first, *added, *filter(None, sys.path)])
    main = sys.modules["__main__"] = ModuleType("__main__")
    try:
        exec(compile(code, "<string>", "exec"), main.__dict__)
    except SystemExit:
        raise
    except BaseException:
        traceback.print_exc()
        raise SystemExit(1) from None
    finally:
        sys.stdout.flush()
