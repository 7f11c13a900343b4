"""`RemarksInstrument`: what passes had to say, gathered, and written as LLVM writes it; for whoever reads remarks."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Final

import anyio
from anyio.to_thread import run_sync

from apass.core.info import PassInfo
from apass.core.instrument import pass_instrument
from apass.core.position import Numbering
from apass.core.remarks import Remark
from apass.core.run import Run, current_run
from apass.util.files import write_whole

__all__ = ["RemarksInstrument", "render_remarks"]

_PLAIN: Final = re.compile(r"[A-Za-z_][\w./<>-]*", re.ASCII)
"""Strings that are no other value without quotes, but for the words below."""
_WORDS: Final = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
_ESCAPES: Final = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
_KEY_WIDTH: Final = 16
"""How wide keys are with their colon, as in LLVM."""


def render_remarks(remarks: Iterable[Remark]) -> str:
    r"""Return remarks as a stream of YAML documents, in the form of LLVM's `-pass-remarks-output`.

    The values of `Args`, one after the other, read as the message; what it does not name comes after. Numbers and
    booleans stay what they are, and everything else is a string.

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
    return "".join(line + "\n" for one in remarks for line in _document(one))


@pass_instrument
class RemarksInstrument:
    """Gathers the remarks that passes make by `ctx.remark`, from any number of modules, tasks and threads at once.

    Parameters:
        passes: a regular expression; only remarks of passes in whose name it is found are kept. None keeps all.
        limit: how many are kept; what comes after is only counted, in `dropped`.

    Raises:
        ValueError: if `passes` is no regular expression, or `limit` is less than 1.

    >>> import apass
    >>> remarks = RemarksInstrument()
    >>> @apass.function_pass(opt_level=0)
    ... def Halve(func, mod, ctx):
    ...     ctx.remark(apass.Remark.passed("Halved", f"{func} is half as much now", value=func))
    ...     return func // 2
    >>> apass.run(Halve, {"f": 8}, context=apass.PassContext(instruments=[remarks]))
    {'f': 4}
    >>> [(one.pass_name, one.function, one.message) for one in remarks.remarks]
    [('Halve', 'f', '8 is half as much now')]

    """

    def __init__(self, passes: str | None = None, *, limit: int = 100_000) -> None:
        if limit < 1:
            raise ValueError(f"limit must be at least 1, not {limit!r}")
        try:
            self._passes = re.compile(passes or "")
        except re.error as error:
            raise ValueError(f"{passes!r} is no regular expression for names of passes: {error}") from None
        self._limit = limit
        self._numbering = Numbering()
        self._lock = Lock()
        self._made: list[_Made] = []
        self._dropped = 0

    def run_before_pass(self, mod: object, info: PassInfo) -> None:
        """Note where the pass stands, for the order of its remarks."""
        run = current_run()
        if run is not None and self._numbering.position(run) is None:
            self._numbering.begin(run)

    def on_remark(self, remark: Remark) -> None:
        """Keep the remark."""
        if not self._passes.search(remark.pass_name or ""):
            return
        place = self._place(current_run())
        with self._lock:
            if len(self._made) < self._limit:
                self._made.append(_Made((remark.module or "", place), remark))
            else:
                self._dropped += 1

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """What was kept: by module, in the order of the pipeline, by function, in the order in which it was said.

        So it is the same whichever module or function was done first.
        """
        with self._lock:
            made = list(self._made)
        # Those of one place stay in the order in which they came.
        return tuple(one.remark for one in sorted(made, key=_order))

    @property
    def dropped(self) -> int:
        """How many came after there were `limit`."""
        return self._dropped

    def render(self) -> str:
        """Return `remarks` as YAML (see `render_remarks`)."""
        return render_remarks(self.remarks)

    async def write(self, path: Path | str) -> None:
        """Write `render()` to a file, whole, without holding the loop.

        Raises:
            OSError: if it cannot be written.

        """
        with anyio.CancelScope(shield=True):
            await run_sync(lambda: write_whole(Path(path), self.render()))

    def _place(self, run: Run | None) -> tuple[tuple[int, str], ...]:
        """Return where a run stands in its module, such that places sort in the order of the pipeline."""
        position = None if run is None else self._numbering.position(run)
        if run is None or position is None:
            return ()
        *above, (number, _, _) = position.steps
        return (*((number, func or "") for number, _, func in above), (number, run.function or ""))


@dataclass(frozen=True, slots=True)
class _Made:
    """A remark, and what it sorts by."""

    order: tuple[str, tuple[tuple[int, str], ...]]
    remark: Remark


def _order(made: _Made) -> tuple[str, tuple[tuple[int, str], ...]]:
    return made.order


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
    yield from (f"  - {one}" for one in args)
    yield "..."


def _args(remark: Remark) -> Iterator[tuple[str, object]]:
    """Give the message in pieces, each value that it names under its key, and then the values that it does not name."""
    text, extra = remark.message, list[tuple[str, object]]()
    for key, value in remark.args.items():
        found = re.search(rf"(?<!\w){re.escape(_text(value))}(?!\w)", text) if _text(value) else None
        if found is None:
            extra.append((key, value))
            continue
        if found.start():
            yield "String", text[: found.start()]
        yield key, value
        text = text[found.end() :]
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
    """Return a float as YAML has it: with a point, or by its name if it is none."""
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
