"""`python -m apass` and the command `apass`: the command line."""

import faulthandler
import gc
import os
import signal
import sys
from pathlib import Path

if __name__ == "__main__" and sys.path[:1] == [str(Path.cwd())]:
    # `python -m` searches the working directory first. A file there, such as `rich.py`, must not run.
    del sys.path[0]

from apass.cli.loading import import_errors_as_lines

with import_errors_as_lines():
    from apass.cli.app import main as _run


def main() -> None:
    """Run the command line as the program of this process."""
    # Hardly any object of an import is garbage. `collect_seldom` enables the collector, before the work begins.
    gc.disable()
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # A closed standard stream. Its number must not become that of a pipe to a worker.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    if sys.stderr is not None:
        # A crash of native code prints the line of the pass that ran. It costs 30 us here, and nothing later.
        faulthandler.enable(all_threads=False)
    try:
        _run()
    finally:
        # The work is done. While the interpreter ends, Ctrl-C would kill the process by the signal.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        # It also looks for garbage among all objects, several times, which takes a sixth of the time of a short run.
        gc.freeze()


if __name__ == "__main__":
    main()
