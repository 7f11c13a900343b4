"""Reproducers: a failure of a pass as a folder, with all that it takes to make it happen again."""

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
from pkgutil import resolve_name
from platform import platform, python_version
from types import MappingProxyType
from typing import Any, Final

from apass.core.adapter import adapter_for, adapter_of_type
from apass.core.context import PassContext
from apass.errors import ApassError, ReproducerError

__all__ = [
    "ContextSettings",
    "Failure",
    "Reproducer",
    "dump_module",
    "free_folder",
    "load_module",
    "read_reproducer",
    "versions",
    "write_reproducer",
]

FORMAT: Final = 1
"""What this version of apass writes."""
FACTS: Final = "reproducer.json"
"""The file with the facts."""
TRACEBACK: Final = "traceback.txt"
"""The file with the traceback, for a person to read."""

_LIBRARIES: Final = ("apass", "anyio", "trio", "numpy", "onnx", "onnx-ir")
_ADDRESS: Final = re.compile(r"\b0x[0-9a-f]{4,}\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """What a pass raised, as it can be told again."""

    type: str
    """The full name of the exception's class."""
    message: str
    """What it says."""

    @classmethod
    def of(cls, error: BaseException) -> "Failure":
        """Return what can be told of an error.

        >>> Failure.of(KeyError("f"))
        Failure(type='builtins.KeyError', message="'f'")
        """
        kind = type(error)
        return cls(type=f"{kind.__module__}.{kind.__qualname__}", message=str(error))

    def is_same_as(self, other: "Failure") -> bool:
        """Tell whether type and message are the same; addresses of objects in a message make no difference."""
        return self.type == other.type and _ADDRESS.sub("0x", self.message) == _ADDRESS.sub("0x", other.message)

    def __str__(self) -> str:
        return f"{self.type.removeprefix('builtins.')}: {self.message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextSettings:
    """What a `PassContext` said, as far as it can be written down."""

    opt_level: int
    """Its level."""
    disabled: tuple[str, ...] = ()
    """Its `disabled_pass`, sorted."""
    required: tuple[str, ...] = ()
    """Its `required_pass`, sorted."""
    config: Mapping[str, Any]
    """The options given, those that JSON can hold."""
    lost: tuple[str, ...] = ()
    """The keys of the others."""

    @classmethod
    def of(cls, ctx: PassContext) -> "ContextSettings":
        """Return what a context says."""
        kept = {key: ctx.config[key] for key in ctx.config if _is_plain(ctx.config[key])}
        return cls(
            opt_level=ctx.opt_level,
            disabled=tuple(sorted(ctx.disabled_pass)),
            required=tuple(sorted(ctx.required_pass)),
            config=kept,
            lost=tuple(sorted(set(ctx.config) - set(kept))),
        )

    @classmethod
    def read(cls, found: Mapping[str, Any]) -> "ContextSettings":
        """Return what was written as JSON."""
        disabled, required, lost = (tuple(found[key]) for key in ("disabled", "required", "lost"))
        return cls(
            opt_level=found["opt_level"], disabled=disabled, required=required, config=found["config"], lost=lost
        )

    def make(self, instruments: Iterable[object] = ()) -> PassContext:
        """Return such a context; UnknownConfigError or ConfigTypeError where an option is not what it was."""
        return PassContext(
            self.opt_level,
            disabled_pass=self.disabled,
            required_pass=self.required,
            config=dict(self.config),
            instruments=instruments,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Reproducer:
    """What is known of one failure of one pass."""

    pass_name: str
    """The pass that failed, the innermost of those that did."""
    pipeline: str | None
    """The text of just that pass; None if an option of it has none."""
    rest: str | None
    """The text of what was left of the pipeline after it; None if that cannot be told."""
    defined_in: str | None
    """The module of Python that defines the pass, imported where the pass is not registered."""
    module: str | None
    """The name of the module that it worked on."""
    position: str
    """Where in the pipeline it stood, as `Position.text`."""
    function: str | None
    """The function whose body failed, if it was one."""
    failure: Failure
    """What it raised."""
    context: ContextSettings
    """What it ran under."""
    verify: str | None
    """When a `VerifyInstrument` verified, which may be what raised; None if there was none."""
    backend: str
    """The event loop: asyncio or trio."""
    versions: Mapping[str, str]
    """Of Python, the machine and the libraries."""
    module_type: str
    """The class of the module, as `package.module:Class`."""
    module_file: str | None
    """The file with the module as it was before the pass; None if it could not be written."""
    facts: Any
    """What else the adapter has to know to make the module as it was (see `dump_module`)."""
    trouble: str | None
    """Why there is no module or no pipeline, if there is none."""


@cache
def versions() -> Mapping[str, str]:
    """Return the versions that a failure may depend on."""
    found = {"python": python_version(), "platform": platform()}
    for name in _LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return MappingProxyType(found)


def dump_module(mod: Any) -> tuple[str, bytes, Any]:
    """Return the ending of a file for the module, its bytes, and what an adapter's `facts(mod)` says, where it has one.

    `dumps` may leave out what a pass goes by, such as types that are inferred: `facts` says, in terms of JSON, what
    there was, and `restore(mod, facts)` makes it again.

    Raises:
        AdapterError: if the module cannot be written.

    """
    adapter: Any = adapter_for(mod)
    facts = adapter.facts(mod) if hasattr(adapter, "facts") else None
    return getattr(adapter, "suffix", ".bin"), adapter.dumps(mod), facts


def load_module(kind: str, data: bytes, facts: Any) -> Any:
    """Return the module of the class `kind` that `dump_module` gave `data` and `facts` of.

    Raises:
        ReproducerError: if there is no such class, or no adapter for it.
        AdapterError: or what else the adapter raises if `data` holds no module.

    """
    try:
        adapter: Any = adapter_of_type(resolve_name(kind))
    except (ImportError, AttributeError, ValueError) as error:
        raise ReproducerError(f"modules of type {kind} are not to be found here: {error}") from error
    if adapter is None:
        raise ReproducerError(f"no IR adapter for modules of type {kind}; register it before")
    mod = adapter.loads(data)
    return mod if facts is None else adapter.restore(mod, facts)


def write_reproducer(folder: Path, reproducer: Reproducer, data: bytes | None, error: BaseException | str) -> Path:
    """Write a folder beside its place, rename it, and return the place: `folder`, or `folder~2` where that is taken.

    Raises:
        OSError: if it cannot be written; nothing is left then.

    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    part = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}.part")
    try:
        part.mkdir()
        facts = json.dumps({"format": FORMAT, **asdict(reproducer)}, indent=2, ensure_ascii=False)
        (part / FACTS).write_text(facts + "\n", encoding="utf-8")
        told = error if isinstance(error, str) else "".join(traceback.format_exception(error))
        (part / TRACEBACK).write_text(told, encoding="utf-8", errors="backslashreplace")
        if data is not None and reproducer.module_file is not None:
            (part / reproducer.module_file).write_bytes(data)
        return _put(part, folder)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise


def free_folder(folder: Path, number: int) -> Path:
    """Return the folder to try as that number: itself, then `folder~2` and so on."""
    return folder if number == 1 else folder.with_name(f"{folder.name}~{number}")


def read_reproducer(folder: Path) -> Reproducer:
    """Return what `write_reproducer` wrote.

    Raises:
        ReproducerError: if there is no reproducer in the folder, or of a later format.

    """
    try:
        found = json.loads((folder / FACTS).read_text(encoding="utf-8"))
        if found.pop("format") != FORMAT:
            raise ReproducerError(f"{folder} is of another version of apass; its format must be {FORMAT}")
        found["failure"] = Failure(**found["failure"])
        found["context"] = ContextSettings.read(found["context"])
        return Reproducer(**{one.name: found[one.name] for one in fields(Reproducer)})
    except OSError as error:
        raise ReproducerError(f"no reproducer in {str(folder)!r}: {error}; give a folder that has a {FACTS}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, ApassError):
            raise
        raise ReproducerError(f"{folder / FACTS} is no reproducer: {type(error).__name__}: {error}") from error


def _put(part: Path, folder: Path) -> Path:
    """Rename a finished folder to the first free name; another process may take names at the same time."""
    for number in range(1, 10_000):
        place = free_folder(folder, number)
        if place.exists():
            continue
        try:
            return part.rename(place)
        except OSError:
            if not place.exists():
                raise
    raise FileExistsError(f"{folder} and thousands after it are taken; clear {folder.parent}")


def _is_plain(value: object) -> bool:
    try:
        return bool(json.loads(json.dumps(value)) == value)
    except (TypeError, ValueError):
        return False
