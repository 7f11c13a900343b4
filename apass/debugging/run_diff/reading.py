"""`read_run`: reads a run from a report, a journal or a folder of reports."""

import json
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from os.path import commonpath
from pathlib import Path
from typing import Any, Final

from apass.batch.journal_file import JournalFile, JournalRecord, is_journal
from apass.debugging.run_diff.recorded_run import RecordedModule, RecordedRun
from apass.errors import InputError
from apass.instruments.report.reading import is_page, read_page
from apass.util.text import shorten
from apass.util.typed_values import convert

__all__ = ["read_run"]

_MOST_BYTES: Final = 2**30
"""Maximum size of a report; those within the default limits have at most a third of it."""
_START: Final = 16
"""Number of bytes by which a journal is recognized."""
_EXPECTED: Final = "expected a report that `apass opt --report` wrote, a journal of --journal, or a folder of reports"


def read_run(path: Path | str) -> RecordedRun:
    """Return the run that a file or a folder records.

    - A page of `apass opt --report`, or of `ReportInstrument.write`, has texts, times, statistics and remarks.
    - A journal has results only. It is not changed, and another process may still write it.
    - The pages `*.html` of a folder are repetitions of one run. Their times can be compared by statistics.

    Raises:
        InputError: if the file cannot be read, is damaged, or is of another kind.
        JournalError: if a record of the journal was written by another program.

    """
    path = Path(path)
    try:
        if path.is_dir():
            pages = sorted(file for file in path.iterdir() if file.suffix == ".html")
            if not pages:
                raise InputError(f"{path} contains no *.html file; {_EXPECTED}")
            return RecordedRun.merged([_page(page, _contents(page)) for page in pages], str(path))
        data = _contents(path)
    except OSError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:  # a path that contains a null character
        raise InputError(f"cannot read {str(path)!r}: {error}") from None
    return _read_journal(path) if is_journal(data) else _page(path, data)


def _contents(path: Path) -> bytes:
    """Return the contents of a report, or the first bytes of a journal."""
    # Opened once: a pipe, such as that of `<(...)` in a shell, has its data only once.
    with path.open("rb") as file:
        start = file.read(_START)
        return start if is_journal(start) else start + file.read(_MOST_BYTES + 1 - len(start))


def _page(path: Path, data: bytes) -> RecordedRun:
    """Return the run of the page of a report."""
    text = data.decode("utf-8", "replace")
    if not is_page(text):
        raise InputError(f"{path} is neither a report nor a journal; {_EXPECTED}")
    if len(data) > _MOST_BYTES:
        raise InputError(f"{path} has more than {_MOST_BYTES:,} bytes; write a report of fewer models")
    try:
        return RecordedRun.of(read_page(text), str(path))
    except ValueError as error:
        raise InputError(f"the report {path} cannot be read: {shorten(str(error))}; write it again") from None


def _read_journal(path: Path) -> RecordedRun:
    file = JournalFile(path, read_only=True)
    try:
        settings: dict[str, str] = {}
        modules: dict[str, RecordedModule] = {}
        for record in file:
            if record.number == 1 and "key" not in record.head:
                settings = _settings(record, file)
                continue
            module = _module_of(record, file)
            modules[module.name] = module
    finally:
        file.close()
    # The modules of `optimize_all` have names that are no paths.
    identity = "files" if all(Path(name).is_absolute() for name in modules) else "values"
    if identity == "files":
        modules = _with_short_names(modules)
    return RecordedRun(source=str(path), identity=identity, modules=modules, settings=settings)


def _settings(record: JournalRecord, file: JournalFile) -> dict[str, str]:
    """Return what the results of a journal depend on, as texts."""
    try:
        values: dict[str, Any] = convert(record.head.get("run"), dict[str, Any])
    except TypeError as error:
        raise file.error(record.number, f"does not describe a run ({shorten(str(error))})") from None
    return {
        key: value if isinstance(value, str) else json.dumps(value, sort_keys=True) for key, value in values.items()
    }


def _module_of(record: JournalRecord, file: JournalFile) -> RecordedModule:
    """Return the module of a record of `optimize_all` or of `apass opt`."""
    head = record.head
    try:
        key = convert(head.get("key"), str)
        return _file_module(key, head) if "targets" in head else _value_module(key, record, file)
    except (TypeError, ValueError) as error:
        raise file.error(record.number, f"does not describe a finished module ({shorten(str(error))})") from None


def _value_module(key: str, record: JournalRecord, file: JournalFile) -> RecordedModule:
    name: str = convert(record.head.get("name"), str)
    if record.head.get("type", ...) is None:  # the passes returned the module unchanged
        return RecordedModule(name=name, input=key, result=key)
    data = file.read(record)
    result = None if data is None else sha256(data).hexdigest()
    return RecordedModule(name=name, input=key, result=result, sizes={"bytes": record.size})


def _file_module(key: str, head: Mapping[str, Any]) -> RecordedModule:
    source, _target = convert(json.loads(key), tuple[str, str])
    states = dict[str, tuple[int, str]]
    sources, targets = (convert(head.get(name), states) for name in ("sources", "targets"))
    finished: dict[str, Any] = convert(head.get("finished"), dict[str, Any])
    nodes: int | None = convert(finished.get("after"), int | None)
    return RecordedModule(
        name=source,
        input=_identity(sources),
        result=_identity(targets),
        sizes={"bytes": sum(size for size, _ in targets.values())} | ({} if nodes is None else {"nodes": nodes}),
    )


def _identity(states: Mapping[str, tuple[int, str]]) -> str:
    """Return the identity of the contents of files, whatever their folder."""
    return " ".join(sorted(f"{Path(path).name}:{digest}" for path, (_, digest) in states.items()))


def _with_short_names(modules: Mapping[str, RecordedModule]) -> dict[str, RecordedModule]:
    """Return modules whose paths are relative to their common folder.

    The same models may be in another folder when they are optimized again.
    """
    if not modules:
        return {}
    root = Path(commonpath([Path(name).parent for name in modules]))
    short = {name: Path(name).relative_to(root).as_posix() for name in modules}
    return {short[name]: replace(module, name=short[name]) for name, module in modules.items()}
