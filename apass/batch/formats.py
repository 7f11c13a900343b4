"""The formats of model files: what the command line does with an `IRPlugin`.

The library of a format is imported when the first file of that format is used.

A pipeline may convert a model to another IR. Its result is then written by the plug-in of the new IR. If a result has
another format than its model, the conversions that the pipeline lacks are added to it.
"""

import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from inspect import isawaitable
from pathlib import Path
from typing import Any

from anyio import CapacityLimiter

from apass.batch.ways import converted_type, find_way, possible_results
from apass.core.context import PassContext
from apass.core.conversions import require_conversion, route_between
from apass.core.ir_plugin import (
    Comparison,
    GivenInputs,
    IRPlugin,
    Measures,
    compare_outputs,
    file_suffix,
    irs_of_suffix,
    known_suffixes,
    plugin_for,
    plugin_for_suffix,
    plugin_for_type,
    require_plugin,
)
from apass.errors import AdapterError, InputError, MissingExtraError, PluginError
from apass.passes.base import Pass
from apass.passes.registry import get_pass
from apass.passes.sequential import Sequential
from apass.util.files import PartFile, Prepared, naming

__all__ = [
    "Comparison",
    "Measures",
    "ModelFormat",
    "added_conversions",
    "check_format",
    "check_installed",
    "conversion_format",
    "format_of",
    "installed_suffixes",
    "suffixes",
]


@dataclass(frozen=True, slots=True)
class ModelFormat:
    """The operations of the command line on one kind of model file."""

    plugin: IRPlugin[Any]
    """The plug-in that reads the files."""
    before: tuple[str, ...] = ()
    """The names of the conversions before the pipeline."""
    after: tuple[str, ...] = ()
    """The names of the conversions after the pipeline."""
    converted: IRPlugin[Any] | None = None
    """The plug-in of the modules after the conversions `before`; None if there are none."""

    @property
    def default_pipeline(self) -> str:
        """The pipeline that runs if none is given; empty if the IR has none."""
        return (self.converted or self.plugin).default_pipeline

    def with_conversions(self, pipeline: Pass[Any]) -> Pass[Any]:
        """Return a pipeline between the conversions before and after it.

        Raises:
            MissingExtraError: if a conversion needs a library that is not installed.

        """
        if not self.before and not self.after:
            return pipeline
        # The result is what a user would write: `tvm.FromONNX,tvm.Default`.
        is_plain = pipeline.spec == ("Sequential", {})
        passes: Sequence[Pass[Any]] = pipeline.children() if is_plain else (pipeline,)
        return Sequential([*map(get_pass, self.before), *passes, *map(get_pass, self.after)])

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
        plugin = self.converted or self.plugin
        if self._plugin_of(after).adapter is not plugin.adapter:
            return Comparison.unverified("the pipeline converts the model to another IR")
        if self.before:
            # What is compared is the pipeline, whose input the conversions made.
            async with PassContext():
                before = await Sequential(list(map(get_pass, self.before)))(before)
        return await compare_outputs(plugin, before, after, workers, given=given)

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
    if result not in (None, suffix) and not isinstance(pipeline, str):
        find_way(path, result, pipeline)


def added_conversions(path: Path, result: str | None = None, pipeline: Pass[Any] | None = None) -> tuple[str, ...]:
    """Return the names of the passes that `with_conversions` adds to a pipeline.

    Nothing is imported. See `check_format` for parameters and errors.
    """
    check_format(path, result, pipeline)
    way = find_way(path, result, pipeline)
    return (*way.before, *way.after)


def format_of(path: Path, result: str | None = None, pipeline: Pass[Any] | str | None = None) -> ModelFormat:
    """Return the format of a file, by its suffix and that of its result.

    Parameters:
        path: the file.
        result: the suffix of its result in lower case; None for the same.
        pipeline: the pipeline or its text. If several IRs share the suffix of the file, the first one that prefixes a
            pass of the pipeline is that of the file. It may also follow `From` in the name of that pass. Without such a
            prefix, it is the IR of the first pass that takes one class of modules only. A pass that converts models
            decides how results are written. If `result` is another suffix, conversions are added where the pipeline
            lacks them: before the pipeline, unless its first pass takes the modules of the file.

    Raises:
        InputError: if no format has the suffix, if no conversion to `result` exists, or if the pipeline converts models
            to an IR that has other suffixes.
        MissingExtraError: if the library of the format is not installed.
        PluginError: if an entry point does not name an `IRPlugin`.

    """
    check_format(path, result, pipeline)
    suffix = file_suffix(path)
    kind = converted_type(pipeline) if isinstance(pipeline, Pass) else None
    way = find_way(path, result, pipeline)
    if kind is not None and not way.after:
        try:
            _writer(plugin_for_type(kind), result or suffix)
        except AdapterError as error:
            raise InputError(f"{path}: {error}") from None
    model_format = ModelFormat(plugin_for_suffix(suffix, way.source), way.before, way.after)
    return replace(model_format, converted=_plugin_of_ir(way.inner)) if way.before else model_format


def conversion_format(path: Path, output: Path, source: str | None = None, result: str | None = None) -> ModelFormat:
    """Return the format of a file that is written as another one, without a pipeline.

    Parameters:
        path: the file.
        output: the file of the result.
        source: the name of the IR that the file is read as; None for the one with the fewest conversions.
        result: the name of the IR that is written; None for the one with the fewest conversions.

    Raises:
        InputError: if no format has one of the suffixes, an IR has not its suffix, or no conversion exists.
        MissingExtraError: if the library of the format is not installed.
        PluginError: if an entry point does not name an `IRPlugin`.

    """
    sources, results = _named_irs(path, source), _named_irs(output, result)
    route = route_between(sources, results)
    if route is None:
        raise InputError(
            f"{path} cannot be converted to a {file_suffix(output)} file; {possible_results(file_suffix(path))}"
        )
    return ModelFormat(plugin_for_suffix(file_suffix(path), route.source), route.passes)


def _named_irs(path: Path, name: str | None) -> Sequence[str]:
    """Return the IRs of a file's suffix, or the one of these that the user has named."""
    check_format(path)
    known = irs_of_suffix(file_suffix(path))
    if name is not None and name.lower() not in known:
        raise InputError(f"{name} is no IR of {file_suffix(path)} files; expected one of {', '.join(sorted(known))}")
    return known if name is None else (name.lower(),)


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
    if pipeline is not None and converted_type(pipeline) is not None:
        # The pass that converts has imported its libraries.
        format_of(path, result, pipeline)
    for name in added_conversions(path, result, pipeline):
        require_conversion(name)
    way = find_way(path, result, pipeline)
    require_plugin(suffix, way.source)
    require_plugin(result or suffix, way.result)


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


def _plugin_of_ir(name: str) -> IRPlugin[Any]:
    """Return the plug-in of an IR by its name."""
    return plugin_for_suffix(next(suffix for suffix in suffixes() if name in irs_of_suffix(suffix)), name)


def _writer(plugin: IRPlugin[Any], suffix: str) -> IRPlugin[Any]:
    """Return the plug-in that writes the modules of `plugin` to files of a suffix.

    Raises:
        AdapterError: if there is none.

    """
    if suffix in map(str.lower, plugin.suffixes) or not plugin.suffixes:
        return plugin
    for name in irs_of_suffix(suffix) if suffix in suffixes() else ():
        # Another IR of the suffix may not be installed.
        with suppress(MissingExtraError):
            other = plugin_for_suffix(suffix, name)
            if other.adapter is plugin.adapter:
                return other
    raise AdapterError(
        f"the pipeline returns a model for {' or '.join(plugin.suffixes) or 'no'} files, which cannot be written as "
        f"{suffix}; name the format of the result: -o or --to of the commands, `to` of the service"
    )
