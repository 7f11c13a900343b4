"""The models that a command line names, and the paths of their results."""

import os
import shlex
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from glob import glob, has_magic
from os.path import commonpath
from pathlib import Path

from apass.core.ir_plugin import file_suffix
from apass.errors import InputError, did_you_mean

__all__ = [
    "Job",
    "check_model_file",
    "check_writable",
    "find_models",
    "names_file",
    "plan_jobs",
    "split_command",
]

_RESULT_MARK = ".opt"

_SHARED = ".json"
"""The suffix of dict modules, and of many other files: a folder, or a glob such as `*`, does not select them."""


@dataclass(frozen=True, slots=True)
class Job:
    """One model to optimize."""

    name: str
    """The name of the model in tables and messages: the shortest path that is unique among the models."""
    source: Path
    """The file that is read."""
    target: Path
    """The file that the result is written to."""

    @property
    def suffix(self) -> str:
        """The suffix of the file that is read, in lower case."""
        return file_suffix(self.source)


def split_command(option: str, text: str, example: str) -> list[str]:
    """Return the words of the command that an option has.

    Raises:
        InputError: if `text` is empty, or a quote is not closed. The message of the former shows `example`.

    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise InputError(f"cannot parse {option} {text!r}: {error}; quote it as for a shell") from None
    if not words:
        raise InputError(f"{option} is empty; expected a command, such as {example!r}")
    return words


def find_models(arguments: Iterable[str], suffixes: Iterable[str], output: Path | None = None) -> list[Path]:
    """Return the models that files, directories and globs name.

    Each model is returned once, in the order of the arguments. Directories are searched recursively. JSON files count
    only if they are named, or by a glob such as `*.json`.

    Results of earlier runs are skipped unless they are named themselves. These are `*.opt.onnx`, and in a directory
    `output` and all files below it.

    Raises:
        InputError: if a path does not exist, or a directory or glob contains no model.

    """
    known, resolver = tuple(suffixes), _Resolver()
    by_location: dict[str, Path] = {}
    for argument in arguments:
        searched = known if argument.lower().endswith(_SHARED) else tuple(one for one in known if one != _SHARED)
        models = list(_models_of(argument, searched, output, resolver))
        if not models:
            raise InputError(f"no model ({', '.join(searched)}) found in {argument!r}")
        for model in models:
            by_location.setdefault(resolver.location(model), model)
    return list(by_location.values())


def names_file(output: Path | None, suffixes: Iterable[str]) -> bool:
    """Return whether `output` is the file of one result rather than a directory.

    It is if it has the suffix of a model, and no directory has this name.
    """
    return output is not None and file_suffix(output) in suffixes and not output.is_dir()


def plan_jobs(
    models: Iterable[Path], output: Path | None, *, in_place: bool, suffix: str | None = None, file: Path | None = None
) -> list[Job]:
    """Return a job for each model, with the path of its result.

    The result replaces the model (`in_place`), or is written below `output`, or beside the model as `NAME.opt.onnx`.
    Below `output`, results keep the folders that make their paths unique. If `suffix` is set, it becomes the suffix of
    the result. With `file`, the result of the only model is that file.

    Raises:
        InputError: if a result would overwrite another result, or a model without `in_place`.

    """
    models = list(models)
    if file is not None and len(models) > 1:
        raise InputError(f"-o {file} is the file of one result, got {len(models)} models; name a folder, or one model")
    resolver = _Resolver()
    by_location = {resolver.location(model): model for model in models}
    root = os.path.join(commonpath([os.path.dirname(location) for location in by_location]), "")
    jobs = [
        _job(model, location.removeprefix(root), output, in_place=in_place, suffix=suffix or model.suffix)
        for location, model in by_location.items()
    ]
    if file is not None:
        jobs = [replace(job, target=file) for job in jobs]
    _check_targets(jobs, resolver, in_place=in_place)
    return jobs


def check_writable(jobs: Iterable[Job], output: Path | None) -> None:
    """Create the directory `output`, and check that all results can be written.

    If `output` is the file of a result, create its directory.

    Raises:
        InputError: if a directory cannot be created or written.

    """
    jobs = list(jobs)
    if output is not None:
        if [job.target for job in jobs] == [output]:
            output = output.parent
        try:
            output.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot write to {output}: {error.strerror}") from None
    for folder in [output] if output is not None else dict.fromkeys(job.target.parent for job in jobs):
        if not os.access(folder, os.W_OK | os.X_OK):
            raise InputError(f"cannot write to {folder}: permission denied")


class _Resolver:
    """Resolves the paths of files; each folder is resolved once."""

    # With strings: a path object takes ten times as long to compare and to hash.

    def __init__(self) -> None:
        self._folders: dict[str, str] = {}

    def location(self, path: Path) -> str:
        """Return the absolute path of a file; a link itself is not followed."""
        parent, name = os.path.split(path)
        folder = self._folders.get(parent)
        if folder is None:
            folder = self._folders[parent] = os.path.join(os.path.realpath(parent), "")
        return folder + name

    def resolve(self, path: Path) -> str:
        """Return the absolute path of a file; links are followed."""
        if path.name in ("", ".."):
            return os.path.realpath(path)
        location = self.location(path)
        return os.path.realpath(location) if os.path.islink(location) else location


def _check_targets(jobs: Iterable[Job], resolver: _Resolver, *, in_place: bool) -> None:
    sources = {} if in_place else {resolver.resolve(job.source): job for job in jobs}
    job_of_target: dict[str, Job] = {}
    for job in jobs:
        target = resolver.resolve(job.target)
        if target in sources:
            raise InputError(f"the result of {job.source} would overwrite {job.target}; use another -o, or --in-place")
        other = job_of_target.setdefault(target, job)
        if other is not job:
            raise InputError(
                f"the results of {other.source} and {job.source} would both be written to {target}; "
                f"name only one of them"
            )


def _models_of(argument: str, suffixes: tuple[str, ...], output: Path | None, resolver: _Resolver) -> Iterator[Path]:
    path = Path(argument)
    if not argument:
        raise InputError("the path of a model is empty; name a file, a directory or a glob")
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        mode = 0
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    if stat.S_ISDIR(mode):
        # If `output` is the directory itself or contains it, every model is below `output`.
        results = None if output is None or _contains(output, path) else os.path.join(output.resolve(), "")
        models = map(Path, _models_below(path, suffixes))
        # The separator makes `output` itself, a file, start with `results`.
        yield from (
            model
            for model in models
            if results is None or not os.path.join(resolver.resolve(model), "").startswith(results)
        )
    elif mode:
        yield path
    elif has_magic(argument):
        paths = sorted(glob(argument, recursive=True))
        yield from (Path(match) for match in paths if _is_model(match, suffixes))
    else:
        raise InputError(f"no such file or directory: {argument!r}{_suggestion(path)}")


def check_model_file(path: Path) -> None:
    """Raise InputError if a path is not one file, for commands that take one model."""
    if path.is_dir():
        raise InputError(f"{str(path)!r} is a folder; give one model file")
    if not path.is_file():
        hint = "; give one model file" if str(path) == "-" or has_magic(str(path)) else _suggestion(path)
        raise InputError(f"no such file: {str(path)!r}{hint}")


def _models_below(folder: Path, suffixes: tuple[str, ...]) -> list[str]:
    """Return the models below a folder, sorted. Unreadable subfolders are skipped."""

    def on_error(error: OSError) -> None:
        if Path(error.filename) == folder:
            raise InputError(f"cannot read {folder}: {error.strerror}") from None

    files = (os.path.join(parent, name) for parent, _, names in os.walk(folder, onerror=on_error) for name in names)
    return sorted((file for file in files if _is_model(file, suffixes)), key=lambda file: file.split(os.sep))


def _contains(output: Path, folder: Path) -> bool:
    """Return whether `output` is `folder` or one of its parents."""
    return output.resolve() in (folder.resolve(), *folder.resolve().parents)


def _is_model(path: str, suffixes: tuple[str, ...]) -> bool:
    stem, suffix = os.path.splitext(path)
    if suffix.lower() not in suffixes or stem.endswith(_RESULT_MARK):
        return False
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except PermissionError:
        # Keep the model, so that loading it fails with an error that names it.
        return True
    except OSError:
        return False


def _suggestion(path: Path) -> str:
    siblings = [sibling.name for sibling in path.parent.iterdir() if sibling != path] if path.parent.is_dir() else []
    return did_you_mean(path.name, siblings)


def _job(model: Path, name: str, output: Path | None, *, in_place: bool, suffix: str) -> Job:
    if in_place:
        # Write to the file that a link points to. Writing to the link would replace it and leave the file unchanged.
        return Job(name, model, model.resolve())
    if output is not None:
        return Job(name, model, output / f"{os.path.splitext(name)[0]}{suffix}")
    return Job(name, model, model.with_name(f"{model.stem}{_RESULT_MARK}{suffix}"))
