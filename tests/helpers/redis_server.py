"""A Redis server of a test, which the test may kill, restart and reconfigure."""

import socket
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from shutil import which
from tempfile import TemporaryDirectory

import pytest

__all__ = ["RedisServer", "needs_redis", "running_redis"]

needs_redis = pytest.mark.skipif(which("redis-server") is None, reason="redis-server is not installed")


class RedisServer:
    """A server on a free port of this machine.

    Parameters:
        folder: the working directory of the server.
        options: further arguments of the command.

    """

    def __init__(self, folder: str, *options: str) -> None:
        self._options = ("--save", "", "--dir", folder, *options)
        # Another process may take the free port before the server does. The server then exits; try another port.
        for _ in range(10):
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                self.port = int(free.getsockname()[1])
            if self.start():
                return
        raise AssertionError("the server did not start")

    @property
    def url(self) -> str:
        """The URL of its first database."""
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> bool:
        """Start the server, and wait until it is ready; return False if it exits instead."""
        command = ["redis-server", "--port", str(self.port), *self._options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        if any("eady to accept connections" in line for line in self.process.stdout):
            return True
        self.kill()
        return False

    def kill(self) -> None:
        """Kill the server; its data are lost."""
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


@contextmanager
def running_redis(*options: str) -> Generator[RedisServer]:
    """Run a server during the block."""
    with TemporaryDirectory() as folder:
        server = RedisServer(folder, *options)
        try:
            yield server
        finally:
            server.kill()
