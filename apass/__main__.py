"""`python -m apass` and the command `apass`: the command line."""

try:
    from apass.cli import main
except ModuleNotFoundError as _error:
    if _error.name not in ("rich", "typer"):
        raise
    raise SystemExit(f"apass: the command line needs typer and rich ({_error}): pip install 'apass[cli]'") from _error

if __name__ == "__main__":
    main()
