"""The folder format of reproducers, which hold what is needed to repeat a failure."""

import json
import re
import secrets
import shutil
import traceback
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from platform import platform, python_version
from types import MappingProxyType
from typing import Any, Final

from apass.concurrency.interleaving import Schedule
from apass.core.adapter import adapter_by_name, adapter_for, facts_of, load_with_facts
from apass.core.context import PassContext
from apass.core.ir_plugin import data_suffix
from apass.core.run_settings import RunSettings
from apass.errors import ReproducerError
from apass.external.answers.format import ANSWERS_FILE
from apass.instruments.reproducer.reading import Record, check_bare_name, read_record
from apass.util.files import write_whole

__all__ = [
    "ContextSettings",
    "Failure",
    "Reproducer",
    "dump_module",
    "free_folder",
    "load_module",
    "move_folder",
    "read_reproducer",
    "versions",
    "write_reproducer",
]

FORMAT: Final = 1
"""Version of the folder format that this version of apass writes."""
FACTS: Final = "reproducer.json"
"""The file with the fields of `Reproducer`."""
TRACEBACK: Final = "traceback.txt"
"""The file with the traceback, for human readers."""

_LIBRARIES: Final = (
    *("apass", "anyio", "trio", "numpy", "apache-tvm", "xdsl", "llvmlite", "onnx", "onnx-ir"),
    *("onnxscript", "onnxslim", "onnxsim", "onnxoptimizer", "onnxruntime"),
)
_ADDRESS: Final = re.compile(r"\b0x[0-9a-f]{4,}\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The exception that a pass raised, as values that JSON can hold."""

    type: str
    """The full name of the exception's class."""
    message: str
    """The exception's message."""

    @classmethod
    def of(cls, error: BaseException) -> "Failure":
        """Return the type and the message of an error.

        >>> Failure.of(KeyError("f"))
        Failure(type='builtins.KeyError', message="'f'")
        """
        kind = type(error)
        return cls(type=f"{kind.__module__}.{kind.__qualname__}", message=str(error))

    def is_same_as(self, other: "Failure") -> bool:
        """Return whether type and message are equal, ignoring memory addresses."""
        return self.type == other.type and _ADDRESS.sub("0x", self.message) == _ADDRESS.sub("0x", other.message)

    def __str__(self) -> str:
        return f"{self.type.removeprefix('builtins.')}: {self.message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextSettings:
    """The settings of a `PassContext`, as far as JSON can hold them."""

    opt_level: int
    """The context's `opt_level`."""
    disabled: tuple[str, ...] = ()
    """The context's `disabled_pass`, sorted."""
    required: tuple[str, ...] = ()
    """The context's `required_pass`, sorted."""
    config: Mapping[str, Any]
    """The config options whose values JSON can hold."""
    lost: tuple[str, ...] = ()
    """The keys of the config options whose values JSON cannot hold."""
    schedule: Schedule | None = None
    """The order of the steps of concurrent bodies, if it was set (see `apass.testing.scheduled`)."""

    @classmethod
    def of(cls, ctx: PassContext) -> "ContextSettings":
        """Return the settings of a context."""
        config = {key: ctx.config[key] for key in ctx.config if _is_plain(ctx.config[key])}
        return cls(
            opt_level=ctx.opt_level,
            disabled=tuple(sorted(ctx.disabled_pass)),
            required=tuple(sorted(ctx.required_pass)),
            config=config,
            lost=tuple(sorted(set(ctx.config) - set(config))),
            schedule=ctx.run_settings.schedule,
        )

    @classmethod
    def read(cls, data: Record) -> "ContextSettings":
        """Return the settings that a JSON object holds.

        Raises:
            ReproducerError: if a field is missing or invalid.

        """
        values = {field.name: data.field(field.name, field.type) for field in fields(cls) if field.name != "schedule"}
        if data.field("schedule", Any) is not None:
            schedule = data.record("schedule")
            functions = schedule.field("functions", tuple[str, ...] | None)
            values["schedule"] = Schedule(schedule.field("seed", int), functions)
        return cls(**values)

    def make(self, instruments: Iterable[object] = ()) -> PassContext:
        """Return a context with these settings.

        Raises:
            UnknownConfigError: if a config option does not exist.
            ConfigTypeError: if a config option has another type now.

        """
        return PassContext(
            self.opt_level,
            disabled_pass=self.disabled,
            required_pass=self.required,
            config=dict(self.config),
            instruments=[*instruments, *([] if self.schedule is None else [RunSettings(schedule=self.schedule)])],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Reproducer:
    """One failure, or the state, of one pass, with what is needed to repeat it."""

    pass_name: str
    """The innermost pass that failed, or the pass whose state was saved."""
    pipeline: str | None
    """The text of this pass alone, or None if one of its options has no text."""
    rest: str | None
    """The text of the rest of the pipeline after this pass, or None if it cannot be determined."""
    defined_in: str | None
    """The Python module that defined the pass, for human readers: a replay does not import it."""
    loaded: tuple[str, ...]
    """What `--load` named, which may register the pass, for human readers: a replay does not import it."""
    module: str | None
    """The name of the IR module, or None if it has no name."""
    position: str
    """The position of the pass in the pipeline, as `Position.text`."""
    function: str | None
    """The function whose body failed, or None if no function body failed."""
    failure: Failure | None
    """The exception that the pass raised, or None if the state of a pass was saved that had not failed."""
    context: ContextSettings
    """The settings of the context that the pass ran in."""
    verify: str | None
    """The `when` of the context's `VerifyInstrument`, which may have raised the error, or None."""
    verify_outputs: str | None = None
    """How a `VerifyOutputsInstrument` of the context compared outputs, `each` or `prove`; None if there was none."""
    backend: str
    """The event loop: asyncio or trio."""
    versions: Mapping[str, str]
    """The versions of Python, of the platform and of the libraries."""
    module_type: str
    """The class of the module, as `package.module:Class`."""
    module_file: str | None
    """The file with the module as it was before the pass; None if it could not be written."""
    answers_file: str | None = None
    """The file with the answers that the pass asked for, as `AnswerReplayer` reads it; None if it asked for none."""
    facts: Any
    """Additional data that the adapter needs to restore the module (see `dump_module`)."""
    trouble: str | None
    """The reason why there is no module file or no pipeline text, or None."""


@cache
def versions() -> Mapping[str, str]:
    """Return the versions of Python, the platform and the relevant libraries."""
    result = {"python": python_version(), "platform": platform()}
    for name in _LIBRARIES:
        try:
            result[name] = version(name)
        except PackageNotFoundError:
            continue
    return MappingProxyType(result)


def dump_module(mod: Any) -> tuple[str, bytes, Any]:
    """Return the file suffix of a module, its bytes, and its facts.

    The facts are None if the adapter has none (see `OptionalMethods`).

    Raises:
        AdapterError: if the module cannot be written.

    """
    adapter = adapter_for(mod)
    return data_suffix(mod), adapter.dumps(mod), facts_of(adapter, mod)


def load_module(kind: str, data: bytes, facts: Any) -> Any:
    """Return the module that `dump_module` wrote as `data` and `facts`.

    Raises:
        ReproducerError: if the class does not exist, or has no adapter.
        AdapterError: or another exception of the adapter, if `data` holds no module.

    """
    adapter: Any = adapter_by_name(kind)
    if adapter is None:
        raise ReproducerError(f"no IR adapter for modules of type {kind}; register one before reading the reproducer")
    return load_with_facts(adapter, data, facts)


def write_reproducer(
    folder: Path, reproducer: Reproducer, data: bytes | None, cause: BaseException | str, answers: bytes | None = None
) -> Path:
    """Write a reproducer folder and return its path.

    The path is `folder`, or `folder~2` and so on if the name is taken.

    The folder is written under a temporary name and then renamed, so that a reader never sees a partial folder.

    Raises:
        OSError: if the folder cannot be written. The temporary folder is removed.

    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    part = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}.part")
    try:
        part.mkdir()
        facts = json.dumps({"format": FORMAT, **asdict(reproducer)}, indent=2, ensure_ascii=False)
        # A name may have a lone surrogate, for which UTF-8 has no code. Its escape is valid in JSON.
        write_whole(part / FACTS, (facts + "\n").encode(errors="backslashreplace"))
        text = cause if isinstance(cause, str) else "".join(traceback.format_exception(cause))
        write_whole(part / TRACEBACK, text.encode(errors="backslashreplace"))
        if data is not None and reproducer.module_file is not None:
            write_whole(part / reproducer.module_file, data)
        if answers is not None and reproducer.answers_file is not None:
            write_whole(part / reproducer.answers_file, answers)
        return move_folder(part, folder)
    except BaseException as error:
        shutil.rmtree(part, ignore_errors=True)
        # The error of a full disk names no file.
        if isinstance(error, OSError) and error.filename is None:
            raise OSError(error.errno, error.strerror, str(folder)) from error
        raise


def free_folder(folder: Path, number: int) -> Path:
    """Return the path to try as `number`: `folder`, then `folder~2` and so on."""
    return folder if number == 1 else folder.with_name(f"{folder.name}~{number}")


def read_reproducer(folder: Path) -> Reproducer:
    """Return the reproducer that `write_reproducer` wrote to a folder.

    Every field is checked, because the folder may come from a stranger. Nothing is imported.

    Raises:
        ReproducerError: if the folder holds no reproducer, or one of another format version; the message names the
            file and the field.

    """
    record = read_record(folder, FACTS)
    if record.field("format", Any) != FORMAT:
        raise ReproducerError(f"{folder} was written by another version of apass; its format must be {FORMAT}")
    failure = None if record.field("failure", Any) is None else record.record("failure")
    context = record.record("context")
    types: dict[str, Any] = {field.name: field.type for field in fields(Reproducer)}
    values = {name: record.field(name, tp) for name, tp in types.items() if name not in ("failure", "context")}
    record.choice("backend", ("asyncio", "trio"))
    record.choice("verify", (None, "changed", "always"))
    record.choice("verify_outputs", (None, "each", "prove"))
    record.choice("answers_file", (None, ANSWERS_FILE))
    try:
        check_bare_name(values["module_file"], (FACTS, TRACEBACK, ANSWERS_FILE))
    except ValueError as error:
        raise record.error("module_file", str(error)) from None
    return Reproducer(
        **values,
        failure=None
        if failure is None
        else Failure(type=failure.field("type", str), message=failure.field("message", str)),
        context=ContextSettings.read(context),
    )


def move_folder(part: Path, folder: Path) -> Path:
    """Rename a complete folder to the first free candidate; return its path.

    Raises:
        OSError: if it cannot be renamed, or all candidates exist.

    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    for number in range(1, 10_000):
        path = free_folder(folder, number)
        if path.exists():
            continue
        try:
            return part.rename(path)
        except OSError:
            # Another process may have taken the name since the check. Any other error is real.
            if not path.exists():
                raise
    raise FileExistsError(f"{folder} and all names up to {folder.name}~9999 exist; remove folders in {folder.parent}")


def _is_plain(value: object) -> bool:
    try:
        return bool(json.loads(json.dumps(value)) == value)
    except (TypeError, ValueError):
        return False
