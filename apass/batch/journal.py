"""`Journal`: what is finished of a run over many modules, kept in a file, so that the next run goes on from there."""

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from anyio import CancelScope

from apass.batch.journal_file import Entry, JournalFile
from apass.core.adapter import IRAdapter, ModT, adapter_by_name, adapter_for, aside, type_name
from apass.core.context import PassContext
from apass.errors import JournalError
from apass.passes.base import Pass
from apass.runner.result_cache import own_version
from apass.util.fingerprint import fingerprint_value

__all__ = ["Journal", "JournalChoice", "OpenJournal", "check_journal", "describe_run", "finish"]

_RUN: Final = "run"
"""The field of the first record's head, which says what run the journal is of."""
_DO: Final = "give that run's pipeline and options again, give another journal, or delete this one to begin anew"


@dataclass(frozen=True, slots=True)
class Journal:
    """Where a run keeps what is finished; given to `optimize_all` or `optimize_stream`, in place of the bare path.

    What is finished outlives the process, however it ends. One process at a time uses a journal.
    """

    path: Path | str
    """The file; it is made if it is not there."""
    fsync: bool = field(default=False, kw_only=True)
    """Whether each result is on the disk before it is given out, and so outlives a power failure as well; without it,
    the last seconds before one may be done again."""


JournalChoice = Journal | Path | str | None
"""A journal, the path of one, or None for none."""


def check_journal(choice: JournalChoice) -> Journal | None:
    """Return the journal that is meant; TypeError if it is none."""
    if choice is None or isinstance(choice, Journal):
        return choice
    if isinstance(choice, str | Path):
        return Journal(choice)
    raise TypeError(f"journal must be a path or an apass.Journal(path), not {choice!r}")


def describe_run(passes: Mapping[str, Pass[Any]], ctx: PassContext, **more: object) -> dict[str, Any]:
    """Return what results depend on beside the modules: pipelines, options of the context, and `more`; all of it JSON.

    Raises:
        JournalError: if a pipeline has no text to know it by.

    """
    try:
        texts = {name: str(pass_) for name, pass_ in passes.items()}
    except TypeError as error:
        raise JournalError(f"a journal knows a pipeline by its text, and this one has none: {error}") from error
    every = [one for pass_ in passes.values() for one in _walk(pass_)]
    return {
        "version of apass": own_version(),
        "pipeline": texts if len(texts) != 1 else next(iter(texts.values())),
        "versions of passes": {one.info.name: one.version for one in every if one.version != "1"},
        "opt_level": ctx.opt_level,
        "disabled passes": sorted(ctx.disabled_pass),
        "required passes": sorted(ctx.required_pass),
        "config": {key: fingerprint_value(ctx.config[key]) for key in sorted(ctx.config)},
        **more,
    }


class OpenJournal:
    """A journal in use by one run; safe for many threads at once.

    Parameters:
        journal: which.
        run: what `describe_run` says of the run.

    Raises:
        JournalError: if it is the journal of another run, or the file cannot be used.

    """

    def __init__(self, journal: Journal, run: Mapping[str, Any]) -> None:
        self._entries: dict[str, Entry] = {}
        self._file = JournalFile(Path(journal.path), fsync=journal.fsync)
        try:
            self._go_over(json.loads(json.dumps(run)))
        except BaseException:
            self._file.close()
            raise

    def __len__(self) -> int:
        """Return how many results there are."""
        return len(self._entries)

    def find(self, key: str) -> tuple[Mapping[str, Any], bytes] | None:
        """Return head and data of what was added under `key` last, None if there is nothing whole."""
        entry = self._entries.get(key)
        data = None if entry is None else self._file.read(entry)
        return None if entry is None or data is None else (entry.head, data)

    def add(self, key: str, head: Mapping[str, Any], data: bytes = b"") -> None:
        """Keep `data`, described by `head`, under `key`; JournalError if it cannot be written."""
        self._entries[key] = self._file.append({"key": key, **head}, data)

    def close(self) -> None:
        """Close the file, and let others open it."""
        self._file.close()

    def _go_over(self, run: dict[str, Any]) -> None:
        known: Mapping[str, Any] | None = None
        for entry in self._file:
            if known is None:
                known = entry.head.get(_RUN, {})
            else:
                self._entries[entry.head["key"]] = entry
        if known is None:
            self._file.append({_RUN: run})
        elif known != run:
            raise JournalError(f"the journal {str(self._file.path)!r} is of another run: {_difference(known, run)}")


async def finish(
    journal: OpenJournal, name: str, mod: ModT, run: Callable[[ModT], Awaitable[ModT]]
) -> tuple[ModT, bool]:
    """Return what `run` makes of a module, and whether that was found in the journal; what was not is kept there.

    Raises:
        JournalError: if the result cannot be written there.
        AdapterError: if the adapter of its IR cannot make bytes of it.
        Exception: what `run` raised, of which nothing is kept.

    """
    adapter = adapter_for(mod)
    key, found = await aside(adapter, partial(_find, journal, adapter, name, mod))
    if found is not None:
        return found, True
    made = await run(mod)
    try:
        # What is done is kept, even where nobody waits for it any more.
        with CancelScope(shield=True):
            await aside(adapter, partial(_keep, journal, key, name, mod, made))
    except Exception as error:
        error.add_note("the passes are through, but the result cannot be kept in the journal")
        raise
    return made, False


def _find(journal: OpenJournal, adapter: IRAdapter[Any, Any], name: str, mod: Any) -> tuple[str, Any]:
    """Return a module's key, and its result, None if that is not there."""
    key = sha256(f"{adapter.fingerprint(mod)} {name}".encode()).hexdigest()
    found = journal.find(key)
    if found is None:
        return key, None
    kind, data = found[0]["type"], found[1]
    if kind is None:
        return key, mod
    made_by: Any = adapter if kind == type_name(mod) else adapter_by_name(kind)
    if made_by is None:
        return key, None
    made, facts = made_by.loads(data), found[0].get("facts")
    return key, made if facts is None else made_by.restore(made, facts)


def _keep(journal: OpenJournal, key: str, name: str, mod: Any, made: Any) -> None:
    if made is mod:
        journal.add(key, {"name": name, "type": None})
        return
    adapter: Any = adapter_for(made)
    # What the bytes leave out, such as types.
    facts = {"facts": adapter.facts(made)} if hasattr(adapter, "facts") else {}
    journal.add(key, {"name": name, "type": type_name(made), **facts}, adapter.dumps(made))


def _walk(pass_: Pass[Any]) -> Iterator[Pass[Any]]:
    yield pass_
    for child in pass_.children():
        yield from _walk(child)


def _difference(known: Mapping[str, Any], run: Mapping[str, Any]) -> str:
    """Return a text that says in what two runs differ, and what to do."""
    differ = [name for name in {**known, **run} if known.get(name) != run.get(name)]
    parts = [f"{name} {_shown(known, name)}, not {_shown(run, name)}" for name in differ if name != "config"]
    if "config" in differ:
        old, new = known.get("config", {}), run.get("config", {})
        keys = [key for key in sorted({*old, *new}) if old.get(key) != new.get(key)]
        parts.append(f"other values of config {', '.join(keys)}")
    return f"{'; '.join(parts)}; {_DO}"


def _shown(run: Mapping[str, Any], name: str) -> str:
    return repr(run[name]) if run.get(name) else "none"
