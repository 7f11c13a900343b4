"""Which models a command line means, and where each result goes."""

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from glob import glob, has_magic
from os.path import commonpath
from pathlib import Path

from apass.errors import ApassError, did_you_mean

__all__ = ["InputError", "Job", "check_places", "find_models", "plan_jobs"]

_RESULT_MARK = ".opt"


class InputError(ApassError, OSError):
    """A model that was named is not there, is not a model, or its result has no place to go."""


@dataclass(frozen=True, slots=True)
class Job:
    """One model to optimize."""

    name: str
    """What the model is called in tables and messages: its path, as short as it can be told apart."""
    source: Path
    """Where it is read from."""
    target: Path
    """Where the result is written to."""


def find_models(arguments: Iterable[str], suffixes: Iterable[str], output: Path | None = None) -> list[Path]:
    """Return the models that files, directories (searched to the bottom) and globs name, each once, in that order.

    Results of earlier runs are left out unless they are named themselves: `*.opt.onnx`, and what a directory has below
    `output`.

    Raises:
        InputError: for a path that is not there, or a directory or glob without a model in it.

    """
    known = tuple(suffixes)
    found: dict[Path, Path] = {}
    for argument in arguments:
        models = list(_models_of(argument, known, output))
        if not models:
            raise InputError(f"no model ({', '.join(known)}) in {argument!r}")
        for model in models:
            found.setdefault(_place(model), model)
    return list(found.values())


def plan_jobs(models: Iterable[Path], output: Path | None, *, in_place: bool, suffix: str | None = None) -> list[Job]:
    """Say where the result of each model goes: over it, below `output`, or beside it as `NAME.opt.onnx`.

    Below `output` results keep the folders that tell their models apart. They get the ending `suffix`, if it is given.

    Raises:
        InputError: if a result would overwrite a model and `in_place` does not say that it may, or another result.

    """
    places = {_place(model): model for model in models}
    root = Path(commonpath([place.parent for place in places]))
    jobs = [
        _job(model, place.relative_to(root), output, in_place=in_place, suffix=suffix or model.suffix)
        for place, model in places.items()
    ]
    _check_targets(jobs, in_place=in_place)
    return jobs


def check_places(jobs: Iterable[Job], output: Path | None) -> None:
    """Make the directory `output`, if there is one, and look whether all the places of results can be written to.

    Raises:
        InputError: if one cannot.

    """
    if output is not None:
        try:
            output.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot write to {output}: {error.strerror}") from None
    for folder in dict.fromkeys(output or job.target.parent for job in jobs):
        if not os.access(folder, os.W_OK | os.X_OK):
            raise InputError(f"cannot write to {folder}: permission denied")


def _place(path: Path) -> Path:
    """Return where a file is; a link is a place of its own, whatever it leads to."""
    return path.parent.resolve() / path.name


def _check_targets(jobs: Iterable[Job], *, in_place: bool) -> None:
    sources = {} if in_place else {job.source.resolve(): job for job in jobs}
    taken: dict[Path, Job] = {}
    for job in jobs:
        target = job.target.resolve()
        if target in sources:
            raise InputError(f"the result of {job.source} would overwrite {job.target}; give another -o, or --in-place")
        other = taken.setdefault(target, job)
        if other is not job:
            raise InputError(f"the results of {other.source} and {job.source} would both be written to {target}")


def _models_of(argument: str, suffixes: tuple[str, ...], output: Path | None) -> Iterator[Path]:
    path = Path(argument)
    if not argument:
        raise InputError("a model was named by an empty text")
    try:
        kind = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        kind = 0
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    if stat.S_ISDIR(kind):
        results = None if output is None or _is_around(output, path) else output.resolve()
        models = (one for one in _files_below(path) if _is_model(one, suffixes))
        yield from (one for one in models if results is None or results not in one.resolve().parents)
    elif kind:
        yield path
    elif has_magic(argument):
        paths = (Path(one) for one in sorted(glob(argument, recursive=True)))  # noqa: PTH207  it takes absolute patterns
        yield from (one for one in paths if _is_model(one, suffixes))
    else:
        raise InputError(f"no such file or directory: {argument!r}{_near_file(path)}")


def _files_below(folder: Path) -> list[Path]:
    """Return the files in a folder and in those below it, sorted; folders below that cannot be read are left out."""

    def stop_at_first(error: OSError) -> None:
        if Path(error.filename) == folder:
            raise InputError(f"cannot read {folder}: {error.strerror}") from None

    return sorted(Path(at, name) for at, _, names in os.walk(folder, onerror=stop_at_first) for name in names)


def _is_around(output: Path, folder: Path) -> bool:
    """Tell whether results would go to `folder` itself or above it, so that being below them says nothing."""
    return output.resolve() in (folder.resolve(), *folder.resolve().parents)


def _is_model(path: Path, suffixes: tuple[str, ...]) -> bool:
    if path.suffix not in suffixes or path.stem.endswith(_RESULT_MARK):
        return False
    try:
        return path.is_file()
    except PermissionError:
        return True  # reading it will say so


def _near_file(path: Path) -> str:
    siblings = [one.name for one in path.parent.iterdir() if one != path] if path.parent.is_dir() else []
    return did_you_mean(path.name, siblings)


def _job(model: Path, name: Path, output: Path | None, *, in_place: bool, suffix: str) -> Job:
    if in_place:
        # What a link leads to is the model; a new file in the place of the link would leave that as it was.
        return Job(str(name), model, model.resolve())
    if output is not None:
        return Job(str(name), model, output / name.with_suffix(suffix))
    return Job(str(name), model, model.with_name(f"{model.stem}{_RESULT_MARK}{suffix}"))
