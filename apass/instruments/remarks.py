"""`RemarksInstrument`: collects remarks, and writes them as LLVM does."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, Final, Self

import anyio
from anyio.to_thread import run_sync

from apass.core.displayed import Displayed
from apass.core.instrument import pass_instrument
from apass.core.pass_info import PassInfo
from apass.core.position import PositionTracker
from apass.core.remarks import Remark, RemarkKind
from apass.core.run import Run, current_run
from apass.errors import did_you_mean
from apass.executors.instrument_twins import remote_run
from apass.util.files import write_whole

__all__ = ["RemarksInstrument", "render_remarks"]

_PLAIN: Final = re.compile(r"[A-Za-z_][\w./<>-]*", re.ASCII)
"""Matches strings that YAML reads as strings without quotes, except for `_WORDS`."""
_WORDS: Final = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
_ESCAPES: Final = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
_KEY_WIDTH: Final = 16
"""Width of keys with their colon, as in LLVM."""


def render_remarks(remarks: Iterable[Remark]) -> str:
    r"""Return remarks as YAML documents in the format of LLVM's `-pass-remarks-output`.

    The values of `Args`, joined, are the message. Arguments that the message does not contain come after it. Numbers
    and booleans keep their type, and all other values become strings.

    >>> remark = Remark.missed("TooBig", "not inlined: 120 nodes", nodes=120, limit=100)
    >>> print(render_remarks([remark.made_by(None)]), end="")
    --- !Missed
    Name:            TooBig
    Args:
      - String:          "not inlined: "
      - nodes:           120
      - String:          " nodes"
      - limit:           100
    ...
    """
    return "".join(line + "\n" for remark in remarks for line in _document(remark))


@pass_instrument
class RemarksInstrument(Displayed):
    """Collects the remarks that passes make with `ctx.remark`.

    Any number of modules, tasks and threads may make remarks at once.

    Parameters:
        passes: a regular expression. If given, only remarks of passes whose name it matches somewhere are kept.
        limit: the maximum number of remarks. Later ones are only counted, in `dropped`.
        kinds: the kinds of remarks that are kept, such as `RemarkKind.MISSED` or `"missed"`; None keeps all.

    Raises:
        ValueError: if `passes` is no regular expression, `limit` is less than 1, or a kind is unknown.

    >>> import apass
    >>> remarks = RemarksInstrument()
    >>> @apass.function_pass(opt_level=0)
    ... def Halve(func, mod, ctx):
    ...     ctx.remark(apass.Remark.passed("Halved", f"{func} is half as much now", value=func))
    ...     return func // 2
    >>> apass.run(Halve, {"f": 8}, context=apass.PassContext(instruments=[remarks]))
    {'f': 4}
    >>> [(remark.pass_name, remark.function, remark.message) for remark in remarks.remarks]
    [('Halve', 'f', '8 is half as much now')]

    """

    def __init__(
        self, passes: str | None = None, *, limit: int = 100_000, kinds: Iterable[RemarkKind | str] | None = None
    ) -> None:
        if limit < 1:
            raise ValueError(f"limit must be at least 1, got {limit!r}")
        if isinstance(kinds, str):
            raise ValueError(f"kinds must be a list of kinds, got {kinds!r}; write [{kinds!r}]")
        self._kinds = frozenset(RemarkKind if kinds is None else map(_kind, kinds))
        try:
            self._passes = re.compile(passes or "")
        except re.error as error:
            raise ValueError(f"passes must be a regular expression for pass names, got {passes!r}: {error}") from None
        self._limit = limit
        self._positions = PositionTracker()
        self._lock = Lock()
        self._entries: list[_Entry] = []
        self._dropped = 0

    def run_before_pass(self, mod: object, info: PassInfo) -> None:
        """Record the position of the pass, which the remarks are sorted by."""
        run = current_run()
        if run is not None and self._positions.position(run) is None:
            self._positions.begin(run)

    def on_remark(self, remark: Remark) -> None:
        """Store the remark, if its pass is selected and the limit is not reached."""
        if remark.kind not in self._kinds or not self._passes.search(remark.pass_name or ""):
            return
        key = self._sort_key(current_run())
        with self._lock:
            if len(self._entries) < self._limit:
                self._entries.append(_Entry((remark.module or "", key), remark))
            else:
                self._dropped += 1

    def for_worker(self) -> Callable[[], object]:
        """Return a function that creates the twin for a worker (see `PortableInstrument`)."""
        first = self._positions.reserve(remote_run())
        return partial(RemarksInstrument._make_twin, self._passes.pattern, self._limit, self._kinds, first)

    def worker_records(self) -> "_Records":
        """Return the remarks, for `merge_records` of the original."""
        return _Records(self._entries, self._dropped)

    def merge_records(self, records: "_Records") -> None:
        """Add the remarks of a twin, up to the limit."""
        with self._lock:
            room = max(0, self._limit - len(self._entries))
            self._entries += records.entries[:room]
            self._dropped += records.dropped + len(records.entries[room:])

    @classmethod
    def _make_twin(cls, passes: str, limit: int, kinds: Iterable[RemarkKind], first: Mapping[str | None, int]) -> Self:
        twin = cls(passes, limit=limit, kinds=kinds)
        twin._positions = PositionTracker(first)
        return twin

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """The stored remarks, sorted by module, pipeline position and function.

        The order does not depend on which module or function finished first.
        """
        with self._lock:
            entries = list(self._entries)
        # The sort is stable: remarks with equal keys stay in the order in which they were made.
        return tuple(entry.remark for entry in sorted(entries, key=lambda entry: entry.order))

    @property
    def dropped(self) -> int:
        """The number of remarks that exceeded `limit`."""
        return self._dropped

    def __block__(self) -> object:
        # Most programs show none.
        from apass.display.blocks import Group, Span

        remarks: Any = Remark.__block_of__(self.remarks)
        dropped = self.dropped
        return Group([remarks, (Span(f"{dropped:,} more exceeded the limit", "warning"),)]) if dropped else remarks

    def render(self) -> str:
        """Return `remarks` as YAML (see `render_remarks`)."""
        return render_remarks(self.remarks)

    async def write(self, path: Path | str) -> None:
        """Write `render()` to a file atomically, without blocking the event loop.

        Raises:
            OSError: if the file cannot be written.

        """
        with anyio.CancelScope(shield=True):
            await run_sync(lambda: write_whole(Path(path), self.render()))

    def _sort_key(self, run: Run | None) -> tuple[tuple[int, str], ...]:
        """Return a key that sorts runs of a module by pipeline position and function."""
        position = None if run is None else self._positions.position(run)
        if run is None or position is None:
            return ()
        *above, (number, _, _) = position.steps
        return (*((number, func or "") for number, _, func in above), (number, run.function or ""))


@dataclass(frozen=True, slots=True)
class _Entry:
    """A remark with its sort key."""

    order: tuple[str, tuple[tuple[int, str], ...]]
    remark: Remark


@dataclass(frozen=True, slots=True)
class _Records:
    """What a twin has recorded."""

    entries: Sequence[_Entry]
    dropped: int


def _document(remark: Remark) -> Iterator[str]:
    yield f"--- !{remark.kind.value.capitalize()}"
    for key, value in (("Pass", remark.pass_name), ("Name", remark.name)):
        if value is not None:
            yield _pair(key, _scalar(value))
    if remark.span is not None:
        span = remark.span
        file = _scalar(span.source_name)
        yield _pair("DebugLoc", f"{{ File: {file}, Line: {span.line}, Column: {span.column} }}")
    for key, value in (("Function", remark.function), ("Module", remark.module)):
        if value is not None:
            yield _pair(key, _scalar(value))
    args = [_pair(_scalar(key), _scalar(value)) for key, value in _args(remark)]
    yield "Args:" if args else "Args:            []"
    yield from (f"  - {arg}" for arg in args)
    yield "..."


def _args(remark: Remark) -> Iterator[tuple[str, object]]:
    """Iterate over the parts of a message: strings and arguments.

    An argument takes the place of its value in the message. Arguments that do not occur in the message come last.
    """
    text, extra = remark.message, list[tuple[str, object]]()
    for key, value in remark.args.items():
        match = re.search(rf"(?<!\w){re.escape(_text(value))}(?!\w)", text) if _text(value) else None
        if match is None:
            extra.append((key, value))
            continue
        if match.start():
            yield "String", text[: match.start()]
        yield key, value
        text = text[match.end() :]
    if text:
        yield "String", text
    yield from extra


def _pair(key: str, value: str) -> str:
    return f"{key + ':':<{_KEY_WIDTH}} {value}"


def _text(value: object) -> str:
    return value if isinstance(value, str) else str(value)


def _scalar(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, float):
        return _number(float(value))
    text = _text(value)
    is_plain = _PLAIN.fullmatch(text) and text.lower() not in _WORDS
    return text if is_plain else '"' + "".join(map(_escaped, text)) + '"'


def _number(value: float) -> str:
    """Return a float in YAML syntax: with a point, or as `.inf` or `.nan`."""
    text = repr(value)
    if text.lstrip("-") in ("inf", "nan"):
        return f"-.{text[1:]}" if text.startswith("-") else f".{text}"
    if "." not in text:
        text = text.replace("e", ".0e")
    return text


def _escaped(char: str) -> str:
    if char in _ESCAPES or char.isprintable():
        return _ESCAPES.get(char, char)
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _kind(value: RemarkKind | str) -> RemarkKind:
    try:
        return RemarkKind(value)
    except ValueError:
        names = [kind.value for kind in RemarkKind]
        near = did_you_mean(str(value), names, listing="expected one of ")
        raise ValueError(f"unknown kind of remarks {value!r}{near}") from None
