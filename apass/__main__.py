"""`python -m apass` and the command `apass`: the command line."""

import sys
from pathlib import Path

if __name__ == "__main__" and sys.path[:1] == [str(Path.cwd())]:
    # `python -m` searches the working directory first. A file there, such as `rich.py`, must not run.
    del sys.path[0]

try:
    from apass.cli import main
except ModuleNotFoundError as _error:
    if _error.name not in ("rich", "typer"):
        raise
    raise SystemExit(f"apass: the command line needs typer and rich ({_error}): pip install 'apass[cli]'") from _error
except KeyboardInterrupt:
    # Ctrl-C during the import, as later (`apass.cli.errors`); nothing was begun.
    sys.stderr.write("apass: interrupted\n")
    raise SystemExit(130) from None

if __name__ == "__main__":
    main()
