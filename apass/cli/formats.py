"""The formats of model files: what the command line does with an `IRPlugin`.

The library of a format is imported when the first file of that format is used.
"""

import os
import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import isawaitable
from pathlib import Path
from typing import Any, Final

from anyio import CapacityLimiter, to_thread

from apass.cli.inputs import InputError
from apass.concurrency.coroutines import is_async
from apass.core.ir_plugin import (
    Comparison,
    IRPlugin,
    Measures,
    checked_plugin,
    file_suffix,
    irs_of_suffix,
    known_suffixes,
    plugin_for_suffix,
)
from apass.core.plugins import plugins
from apass.errors import AdapterError
from apass.util.files import PartFile, Prepared, naming

__all__ = ["Comparison", "Measures", "ModelFormat", "check_format", "format_of", "ir_of_pipeline", "suffixes"]

_CONVERSIONS: Final = "apass.model_conversions"


@dataclass(frozen=True, slots=True)
class ModelFormat:
    """The operations of the command line on one kind of model file."""

    plugin: IRPlugin[Any]
    """The plug-in of the modules, which may read files of another suffix."""

    @property
    def default_pipeline(self) -> str:
        """The pipeline that runs if none is given; empty if the plug-in has none."""
        return self.plugin.default_pipeline

    def load(self, path: Path) -> Any:
        """Read a model.

        Raises:
            InputError: if the file cannot be read.
            Exception: an error of the plug-in, if the file is not a model.

        """
        try:
            with _exits_as_errors(f"reading {path}"):
                mod = self.plugin.read(path)
        except (OSError, UnicodeDecodeError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"cannot read {path}: {error}") from None
        kind = self.plugin.module_type
        if kind is not None and not isinstance(mod, kind):
            found = type(mod).__qualname__
            raise AdapterError(f"{path}: load of the IR plug-in returned {found}, expected {kind.__qualname__}")
        return mod

    def companions(self, path: Path) -> list[Path]:
        """Return the additional files of a model file, such as external weights."""
        return [] if self.plugin.companions is None else self.plugin.companions(path)

    def save(self, mod: Any, path: Path, prepared: Prepared | None = None) -> None:
        """Write a model to temporary files beside `path`, and rename them.

        `prepared` is called before the files are renamed.

        Raises:
            AdapterError: if the plug-in exits, or writes nothing.
            OSError: if a file cannot be written.
            Exception: an error of the plug-in.

        """
        plugin = self.plugin
        if plugin.save_files is not None:
            plugin.save_files(mod, path, prepared)
            return
        part = PartFile(path)
        try:
            if plugin.save is None:
                part.write(plugin.adapter.dumps(mod))
            else:
                with naming(path, part.path), _exits_as_errors(f"writing {path}"):
                    # A module may have no text: its empty file has a new time.
                    os.utime(part.path, (0, 0))
                    plugin.save(mod, part.path)
                if not _is_written(part.path):
                    raise AdapterError(
                        f"{path}: save of the IR plug-in of {type(plugin.adapter).__qualname__} wrote nothing; "
                        f"it must write the file that its second argument names"
                    )
            part.close()
            if prepared is not None:
                prepared({path: part.path})
            part.replace()
        finally:
            part.discard()

    def size(self, mod: Any) -> int:
        """Return the number of nodes in all functions of the model."""
        if self.plugin.size is None:
            return sum(1 for _ in self.plugin.adapter.functions(mod))
        return self.plugin.size(mod)

    async def compare_outputs(self, before: Any, after: Any, workers: CapacityLimiter) -> Comparison:
        """Run both models on the same inputs, and compare their outputs.

        `workers` limits the threads that call a plain function of the plug-in.
        """
        compare = self.plugin.compare_outputs
        if compare is None:
            return Comparison(False, "outputs not compared: the IR plug-in cannot compare them")
        if self.plugin.adapter.thread_safe and not is_async(compare):
            result: Any = await to_thread.run_sync(compare, before, after, limiter=workers)
        else:
            result = compare(before, after)
        comparison: Comparison = await result if isawaitable(result) else result
        return comparison

    async def measure(self, mods: Sequence[Any]) -> Sequence[Measures]:
        """Return the measures of models that have the inputs of the first.

        The plug-in must have `measure`.
        """
        assert self.plugin.measure is not None
        result: Any = self.plugin.measure(mods)
        measures: Sequence[Measures] = await result if isawaitable(result) else result
        return measures


def _is_written(path: Path) -> bool:
    """Return whether a file exists, and has contents or a time other than 0."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return False
    return status.st_size > 0 or status.st_mtime_ns != 0


@contextmanager
def _exits_as_errors(what: str) -> Generator[None]:
    """Raise AdapterError if a plug-in exits, which would end the whole run."""
    try:
        yield
    except SystemExit as error:
        raise AdapterError(f"the IR plug-in exited with {error.code!r} while {what}") from error


def suffixes() -> tuple[str, ...]:
    """Return the suffixes of model files."""
    return tuple(known_suffixes())


def check_format(path: Path, result: str | None = None) -> None:
    """Check that files of a suffix can be read, and written as `result`.

    Nothing is imported. `result` is in lower case; if it is None, both suffixes are the same.

    Raises:
        InputError: if no format has the suffix, or no conversion to `result` exists.

    """
    suffix = file_suffix(path)
    if suffix not in suffixes():
        raise InputError(f"model file {path} has the suffix {path.suffix!r}; expected one of {', '.join(suffixes())}")
    if result not in (None, suffix) and _conversion(suffix, result) not in plugins(_CONVERSIONS):
        known = ", ".join(sorted(plugins(_CONVERSIONS))).replace("-to-", " to ")
        raise InputError(f"{path} cannot be converted to a {result} file; supported conversions: {known}")


def ir_of_pipeline(path: Path, pipeline: str | None) -> str | None:
    """Return the IR of a model file; None for the default one of its suffix.

    If several IRs share the suffix, it is the first one that prefixes a pass of the pipeline. Nothing is imported.
    """
    names = irs_of_suffix(file_suffix(path))
    words = _PREFIX.findall(pipeline or "") if names else ()
    return next((word for word in words if word in names), None)


_PREFIX: Final = re.compile(r"(?<![\w.])\w+(?=\.)")
"""The first part of a name such as `onnx.Inline`."""


def format_of(path: Path, result: str | None = None, ir: str | None = None) -> ModelFormat:
    """Return the format of a file, by its suffix and that of its result.

    Parameters:
        path: the file.
        result: the suffix of its result in lower case; None for the same.
        ir: the IR, if several share the suffix (see `ir_of_pipeline`).

    Raises:
        InputError: if no format has the suffix, or no conversion to `result` exists.
        MissingExtraError: if the library of the format is not installed.
        PluginError: if an entry point does not name an `IRPlugin`.

    """
    check_format(path, result)
    suffix = file_suffix(path)
    if result in (None, suffix):
        return ModelFormat(plugin_for_suffix(suffix, ir))
    offer = plugins(_CONVERSIONS)[_conversion(suffix, result)]
    return ModelFormat(checked_plugin(offer.load(), offer.value))


def _conversion(source: str, result: str | None) -> str:
    return f"{source}-to-{result}"
