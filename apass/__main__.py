"""`python -m apass` and the command `apass`: the command line."""

import signal
import sys
from pathlib import Path

if __name__ == "__main__" and sys.path[:1] == [str(Path.cwd())]:
    # `python -m` searches the working directory first. A file there, such as `rich.py`, must not run.
    del sys.path[0]

try:
    from apass.cli import main as _run
except ModuleNotFoundError as _error:
    if _error.name not in ("rich", "typer"):
        raise
    raise SystemExit(f"apass: the command line needs typer and rich ({_error}): pip install 'apass[cli]'") from _error
except KeyboardInterrupt:
    # Ctrl-C during the import, as later (`apass.cli.errors`); nothing was begun.
    sys.stderr.write("apass: interrupted\n")
    raise SystemExit(130) from None


def main() -> None:
    """Run the command line as the program of this process."""
    try:
        _run()
    finally:
        # The work is done. While the interpreter ends, Ctrl-C would kill the process by the signal.
        signal.signal(signal.SIGINT, signal.SIG_IGN)


if __name__ == "__main__":
    main()
