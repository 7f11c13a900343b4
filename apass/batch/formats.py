"""The formats of model files: what the command line does with an `IRPlugin`.

The library of a format is imported when the first file of that format is used.

A pipeline may convert a model to another IR. Its result is then written by the plug-in of the new IR.
"""

import os
import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from inspect import isawaitable
from pathlib import Path
from typing import Any, Final

from anyio import CapacityLimiter

from apass.core.ir_plugin import (
    Comparison,
    GivenInputs,
    IRPlugin,
    Measures,
    checked_plugin,
    compare_outputs,
    file_suffix,
    irs_of_suffix,
    known_suffixes,
    plugin_for,
    plugin_for_suffix,
    plugin_for_type,
    require_plugin,
)
from apass.errors import AdapterError, ApassError, InputError, MissingExtraError, PluginError
from apass.loading.entry_points import plugins
from apass.passes.base import Pass
from apass.pipelines.parser import parse_pipeline
from apass.util.files import PartFile, Prepared, naming

__all__ = [
    "Comparison",
    "Measures",
    "ModelFormat",
    "check_format",
    "check_installed",
    "format_of",
    "installed_suffixes",
    "suffixes",
]

_CONVERSIONS: Final = "apass.model_conversions"


@dataclass(frozen=True, slots=True)
class ModelFormat:
    """The operations of the command line on one kind of model file."""

    plugin: IRPlugin[Any]
    """The plug-in of the modules before the pipeline, which may read files of another suffix."""

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
        return self._checked(mod, str(path), "load")

    def load_bytes(self, data: bytes, name: str) -> Any:
        """Read a model from the bytes of a file, if the plug-in can.

        Parameters:
            data: the bytes.
            name: a name for messages.

        Returns:
            the model; None if the plug-in reads files only.

        Raises:
            Exception: an error of the plug-in, if the bytes are not a model.

        """
        if self.plugin.load_bytes is None:
            return None
        with _exits_as_errors(f"reading {name}"):
            mod = self.plugin.load_bytes(data, name)
        return self._checked(mod, name, "load_bytes")

    def _checked(self, mod: Any, source: str, function: str) -> Any:
        kind = self.plugin.module_type
        if kind is not None and not isinstance(mod, kind):
            found = type(mod).__qualname__
            raise AdapterError(f"{source}: {function} of the IR plug-in returned {found}, expected {kind.__qualname__}")
        return mod

    def companions(self, path: Path) -> list[Path]:
        """Return the additional files of a model file, such as external weights."""
        return [] if self.plugin.companions is None else self.plugin.companions(path)

    def save(self, mod: Any, path: Path, prepared: Prepared | None = None) -> None:
        """Write a model to temporary files beside `path`, and rename them.

        `prepared` is called before the files are renamed.

        Raises:
            AdapterError: if the plug-in exits or writes nothing, or the module has another IR than files of the suffix.
            OSError: if a file cannot be written.
            Exception: an error of the plug-in.

        """
        plugin = self._plugin_of(mod, file_suffix(path))
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

    def save_bytes(self, mod: Any, suffix: str) -> bytes | None:
        """Return the bytes of a model's file; None if the plug-in has files only.

        Raises:
            AdapterError: if the module has another IR than files of the suffix.
            Exception: an error of the plug-in.

        """
        plugin = self._plugin_of(mod, suffix)
        return None if plugin.load_bytes is None else plugin.adapter.dumps(mod)

    def size(self, mod: Any) -> int:
        """Return the number of nodes in all functions of the model."""
        plugin = self._plugin_of(mod)
        if plugin.size is None:
            return sum(1 for _ in plugin.adapter.functions(mod))
        return plugin.size(mod)

    def fingerprint(self, mod: Any) -> str:
        """Return the fingerprint of a model, which shows changes in place."""
        return self._plugin_of(mod).adapter.fingerprint(mod)

    def path_of(self, mod: Any, path: Path) -> Path:
        """Return a path with the suffix of the module, which may have another IR."""
        plugin = self._plugin_of(mod)
        return path if plugin is self.plugin or not plugin.suffixes else path.with_suffix(plugin.suffixes[0])

    def _plugin_of(self, mod: Any, suffix: str | None = None) -> IRPlugin[Any]:
        """Return the plug-in of a module that writes files of a suffix, or of any.

        Raises:
            AdapterError: if the module is written to files of other suffixes.

        """
        kind = self.plugin.module_type
        if kind is None or isinstance(mod, kind):
            # A pass that converts may have been skipped.
            return _writer(self.plugin, suffix) if suffix in suffixes() else self.plugin
        plugin = plugin_for(mod)
        return plugin if suffix is None else _writer(plugin, suffix)

    async def compare_outputs(
        self, before: Any, after: Any, workers: CapacityLimiter, given: GivenInputs | None = None
    ) -> Comparison:
        """Run both models on the same inputs, and compare their outputs.

        `workers` limits the threads that call a plain function of the plug-in.
        """
        if self._plugin_of(after) is not self.plugin:
            return Comparison.unverified("the pipeline converts the model to another IR")
        return await compare_outputs(self.plugin, before, after, workers, given=given)

    async def measure(self, mods: Sequence[Any]) -> Sequence[Measures]:
        """Return the measures of models that have the inputs of the first of their IR.

        If the plug-in of an IR has no `measure`, they are the bytes that its adapter writes.
        """
        plugins = [self._plugin_of(mod) for mod in mods]
        measures: dict[int, Measures] = {}
        for plugin in {id(plugin): plugin for plugin in plugins}.values():
            indices = [index for index, other in enumerate(plugins) if other is plugin]
            chosen = [mods[index] for index in indices]
            if plugin.measure is None:
                result: Any = [Measures(len(plugin.adapter.dumps(mod)), None) for mod in chosen]
            else:
                result = plugin.measure(chosen)
            measures |= zip(indices, await result if isawaitable(result) else result, strict=True)
        return [measures[index] for index in range(len(mods))]


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


def check_format(path: Path, result: str | None = None, pipeline: Pass[Any] | str | None = None) -> None:
    """Check that files of a suffix can be read, and written as `result`.

    Nothing is imported. Parameters are those of `format_of`. If the pipeline is a text, it is not known whether it
    converts models.

    Raises:
        InputError: if no format has the suffix, or no conversion to `result` exists.

    """
    suffix = file_suffix(path)
    if suffix not in suffixes():
        raise InputError(f"model file {path} has the suffix {path.suffix!r}; expected one of {', '.join(suffixes())}")
    if result in (None, suffix) or _conversion(suffix, result) in plugins(_CONVERSIONS):
        return
    if pipeline is None or (isinstance(pipeline, Pass) and converted_type(pipeline) is None):
        known = ", ".join(sorted(plugins(_CONVERSIONS))).replace("-to-", " to ")
        raise InputError(
            f"{path} cannot be converted to a {result} file; supported conversions: {known}, and passes such as "
            "tvm.ToLLVM in the pipeline"
        )


def converted_type(pipeline: Pass[Any]) -> type[Any] | None:
    """Return the class of a pipeline's results; None if no pass changes the IR."""
    for child in reversed(pipeline.children()):
        kind = converted_type(child)
        if kind is not None:
            return kind
    return pipeline.execution.result_type


def format_of(path: Path, result: str | None = None, pipeline: Pass[Any] | str | None = None) -> ModelFormat:
    """Return the format of a file, by its suffix and that of its result.

    Parameters:
        path: the file.
        result: the suffix of its result in lower case; None for the same.
        pipeline: the pipeline or its text. If several IRs share the suffix of the file, the first one that prefixes a
            pass of the pipeline is that of the file. It may also follow `From` in the name of that pass. Without such a
            prefix, it is the IR of the first pass that takes one class of modules only. A pass that converts models
            decides how results are written.

    Raises:
        InputError: if no format has the suffix, if no conversion to `result` exists, or if the pipeline converts models
            to an IR that has other suffixes.
        MissingExtraError: if the library of the format is not installed.
        PluginError: if an entry point does not name an `IRPlugin`.

    """
    check_format(path, result, pipeline)
    suffix = file_suffix(path)
    kind = converted_type(pipeline) if isinstance(pipeline, Pass) else None
    if kind is not None:
        try:
            _writer(plugin_for_type(kind), result or suffix)
        except AdapterError as error:
            raise InputError(f"{path}: {error}") from None
    elif result not in (None, suffix) and (offer := plugins(_CONVERSIONS).get(_conversion(suffix, result))):
        return ModelFormat(checked_plugin(offer.load(), offer.value))
    return ModelFormat(plugin_for_suffix(suffix, _ir_of(suffix, pipeline)))


def check_installed(path: Path, result: str | None = None, pipeline: Pass[Any] | None = None) -> None:
    """Check that `format_of` has no error.

    The library of a format is not imported, unless that is the only way to find out whether it is installed.

    Raises:
        InputError: if no format has the suffix, if no conversion to `result` exists, or if the pipeline converts models
            to an IR that has other suffixes.
        MissingExtraError: if the library of a format is not installed.
        PluginError: if a plug-in cannot be imported.

    """
    check_format(path, result, pipeline)
    suffix = file_suffix(path)
    require_plugin(suffix, _ir_of(suffix, pipeline))
    if pipeline is not None and converted_type(pipeline) is not None:
        # The pass that converts has imported its libraries.
        format_of(path, result, pipeline)
    elif result not in (None, suffix):
        plugins(_CONVERSIONS)[_conversion(suffix, result)].require()


def installed_suffixes() -> tuple[str, ...]:
    """Return the suffixes of model files whose libraries are installed.

    Libraries are imported as by `check_installed`.
    """
    found: list[str] = []
    for suffix in suffixes():
        with suppress(MissingExtraError, PluginError):
            require_plugin(suffix)
            found.append(suffix)
    return tuple(found)


def _ir_of(suffix: str, pipeline: Pass[Any] | str | None) -> str | None:
    """Return the IR that a pipeline chooses for files; None for the default one."""
    names = irs_of_suffix(suffix)
    matches = _PREFIX.finditer(str(pipeline or "")) if names else ()
    # A pass such as `xdsl.FromMLIR` reads another IR than its prefix.
    words = (word.lower() for match in matches for word in (match[2], match[1]) if word is not None)
    named = next((word for word in words if word in names), None)
    if named is not None or not names or pipeline is None:
        return named
    kind = _first_module_type(pipeline)
    # The default IR may have the same suffix, and a name beside.
    kinds = {name: plugin_for_suffix(suffix, name).module_type for name in sorted(names)} if kind is not None else {}
    return next((name for name, known in kinds.items() if known is kind), None)


def _first_module_type(pipeline: Pass[Any] | str) -> type[Any] | None:
    """Return the class of modules that the first pass takes for which it is known."""
    stack: list[Pass[Any]] = []
    # The caller parses the text too, and reports its errors.
    with suppress(ApassError):
        stack = [parse_pipeline(pipeline) if isinstance(pipeline, str) else pipeline]
    while stack:
        top = stack.pop()
        if top.execution.module_type is not None:
            return top.execution.module_type
        stack += reversed(top.children())
    return None


_PREFIX: Final = re.compile(r"(?<![\w.])(\w+)\.(?:From(\w+))?")
"""The first part of a name such as `onnx.Inline`, and that of `mlir.FromXDSL` after `From`."""


def _writer(plugin: IRPlugin[Any], suffix: str) -> IRPlugin[Any]:
    """Return the plug-in that writes the modules of `plugin` to files of a suffix.

    Raises:
        AdapterError: if there is none.

    """
    if suffix in map(str.lower, plugin.suffixes) or not plugin.suffixes:
        return plugin
    other = plugin_for_suffix(suffix) if suffix in suffixes() else plugin
    if suffix in map(str.lower, other.suffixes) and other.adapter is plugin.adapter:
        return other
    raise AdapterError(
        f"the pipeline returns a model for {' or '.join(plugin.suffixes) or 'no'} files, which cannot be written as "
        f"{suffix}; name the format of the result: -o or --to of the commands, `to` of the service"
    )


def _conversion(source: str, result: str | None) -> str:
    return f"{source}-to-{result}"
