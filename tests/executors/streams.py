"""Functions that use file descriptors 0, 1 and 2 directly, past Python's streams."""

import os
import subprocess
import sys


def write(text: str) -> int:
    """Write to both outputs, like a C library."""
    return os.write(1, text.encode()) + os.write(2, text.encode())


def read(size: int) -> bytes:
    """Read standard input, like a C library."""
    return os.read(0, size)


def run(text: str) -> int:
    """Run a child process that prints `text` and reads its standard input to the end."""
    code = "import sys; print(sys.argv[1], flush=True); sys.exit(len(sys.stdin.read()))"
    return subprocess.run([sys.executable, "-c", code, text], check=False).returncode
