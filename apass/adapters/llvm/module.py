"""`Module` and `Function`: LLVM IR as values."""

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final
from weakref import WeakKeyDictionary

from apass.adapters.llvm.library import HAS_LLVMLITE, MAGIC, bitcode, llvm, printed, without_predecessors
from apass.adapters.llvm.opt import find_opt, printed_by_opt, written_by_opt
from apass.adapters.llvm.skeleton import Skeleton, closure, declaration, plain_name, rename, split, tokens
from apass.adapters.programs import OPT
from apass.errors import AdapterError

__all__ = ["Function", "GroupResults", "Module", "state_of"]

_MODULE_ID: Final = re.compile(r"; ModuleID = .*\n")
"""The first line of a printed text. It depends on the way in which LLVM got the module."""
_ID: Final = "; ModuleID = '<string>'\n"
"""The first line for a text that has no file."""
_INSTRUCTION: Final = re.compile(
    r"^[ \t]+(?:"
    r'%(?:"[^"\n]*"|[-A-Za-z0-9$._]+)[ \t]*=|\#dbg_|(?:(?:tail|musttail|notail)[ \t]+)?call\b|store\b|br\b|ret\b'
    r"|unreachable\b|switch\b|invoke\b|fence\b|resume\b|indirectbr\b|callbr\b|cleanupret\b|catchret\b)",
    re.MULTILINE,
)
"""The start of an instruction: its result, or the opcode of one that may have no result."""
_MARK: Final = re.compile(r'(?<![\w"=-])"SkipOptimization"(?!="(?:0|false|no|off|)")', re.IGNORECASE)
_UNIT: Final = "!DICompileUnit("
GROUP_SIZE: Final = 2**13
"""Maximum size in characters of the functions that LLVM reads and prints together.

A slow pipeline then takes about 25 ms.
"""
_NOTHING: Final[Mapping[str, str]] = {}


@dataclass(frozen=True, eq=False)
class Function:
    """A function with a body, immutable.

    Its text refers to attribute groups and metadata by the numbers of its module.
    """

    token: str
    """The name as the text writes it: `@f`, or `@"a name"`."""
    definition: str
    """The text of the definition, with the module's numbers."""
    skeleton: Skeleton = field(repr=False)
    """The rest of its module."""
    extra: Mapping[str, str] = field(default_factory=lambda: _NOTHING, repr=False)
    """Entries that the function uses and its module does not have yet."""
    outside: Mapping[str, str] = field(default_factory=lambda: _NOTHING, repr=False)
    """Entries of the module that the pass would have changed as well."""

    @property
    def name(self) -> str:
        """The name of the function."""
        return plain_name(self.token)

    @property
    def header(self) -> str:
        """The first line of the definition."""
        return self.definition.partition("\n")[0]

    @cached_property
    def entries(self) -> Mapping[str, str]:
        """What the function uses, directly or not."""
        return closure(self.definition, self.skeleton, self.extra.get)

    @cached_property
    def groups(self) -> str:
        """The attributes of the function itself, as text."""
        lines = [self.find(token) for token in tokens(self.header) if token[0] == "#"]
        return " ".join(line.partition(" = ")[2] for line in lines if line is not None)

    @property
    def is_marked(self) -> bool:
        """Whether the function has a true attribute `"SkipOptimization"`."""
        return _MARK.search(self.groups) is not None

    @cached_property
    def text(self) -> str:
        """The text, with attribute groups and metadata that are numbered from 0."""
        numbers: dict[str, str] = {}
        counts = {"#": 0, "!": 0}
        lines: list[str] = []
        position, open_texts = 0, [self.definition]
        while position < len(open_texts):
            for token in tokens(open_texts[position]):
                if token[0] not in counts or token in numbers:
                    continue
                line = self.find(token)
                numbers[token] = f"{token[0]}{counts[token[0]]}"
                counts[token[0]] += 1
                # A compile unit refers to the whole module.
                if line is not None and _UNIT not in line:
                    lines.append(line)
                    open_texts.append(line)
            position += 1
        parts = [self.definition.rstrip("\n"), *sorted(lines, key=lambda line: line[0] == "!")]
        return "\n".join(rename(part, numbers) for part in parts) + "\n"

    def __str__(self) -> str:
        """Return the text."""
        return self.text

    def find(self, token: str) -> str | None:
        """Return the line of an entry that the function may use."""
        return self.skeleton.find(token) or self.extra.get(token)

    def with_definition(self, definition: str) -> "Function":
        """Return the function with another definition, which uses the same numbers.

        Raises:
            AdapterError: if the text defines another function, or none.

        """
        definition = definition.rstrip("\n") + "\n"
        skeleton, definitions = split(definition)
        if list(definitions) != [self.token] or len(skeleton.functions) != 1:
            found = ", ".join(definitions) or "none"
            raise AdapterError(f"expected the text of the definition of {self.token}, got that of {found}")
        return replace(self, definition=definition)


@dataclass(eq=False)
class GroupResults:
    """What a pass made of functions of a module that it was run on together."""

    expected: Sequence[str] = ()
    """The names of the functions whose bodies run next."""
    changed: dict[str, tuple[Function, Function]] = field(default_factory=dict[str, tuple[Function, Function]])
    """Old and new functions, by token."""


class Module:
    """A module of LLVM IR, immutable.

    It is a value: it belongs to no context of LLVM, can be pickled, and passes return another one. Create it with
    `Module.parse`, `Module.from_bitcode`, `Module.from_llvm` or `apass.adapters.llvm.load_module`.
    """

    source: str = ""
    """The file that the module was read from, for messages and for the first line of its text."""
    added: frozenset[str] = frozenset()
    """The declarations that functions brought along; LLVM keeps them, even if no function uses them."""
    outside: Mapping[str, Mapping[str, str]] = MappingProxyType({})
    """For each function, the entries that a pass over it would have changed as well."""

    def __init__(
        self,
        skeleton: Skeleton,
        definitions: Mapping[str, str],
        outside: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
        added: frozenset[str] = frozenset(),
    ) -> None:
        vars(self).update(skeleton=skeleton, definitions=definitions)
        self.outside, self.added = outside, added

    @classmethod
    def parse(cls, text: str) -> "Module":
        """Return the module of a text in LLVM's syntax.

        Raises:
            AdapterError: if LLVM cannot read it; the message has line and column.
            VerifyError: if the module is invalid.

        """
        return cls.of_printed(_printed(text))

    @classmethod
    def from_bitcode(cls, data: bytes) -> "Module":
        """Return the module of bitcode.

        LLVM aborts the process for some damaged files. `apass.adapters.llvm.load_module` reads a file in a process of
        its own.

        Raises:
            AdapterError: if LLVM cannot read it.
            VerifyError: if the module is invalid.

        """
        return cls.of_printed(_printed(data))

    @classmethod
    def from_llvm(cls, source: Any) -> "Module":
        """Return the module of a `ModuleRef` or an `llvmlite.ir.Module`.

        The source is copied, so it may change later.
        """
        return cls.parse(str(source))

    @classmethod
    def unread(cls, data: bytes, source: str = "", state: tuple[int, ...] | None = None) -> "Module":
        """Return the module in the contents of a file, which `opt` reads later.

        They are text or bitcode. The first pass, or whatever needs a part of the module, raises AdapterError for
        contents that are no module.

        Parameters:
            data: the contents.
            source: the file.
            state: the `state_of` the file before it was read; None if a pass must not read it again.

        """
        mod = cls.__new__(cls)
        vars(mod).update(contents=data, source=source, _state=state)
        return mod

    @classmethod
    def of_opt(cls, text: str, data: bytes = b"", source: str = "") -> "Module":
        """Return the module that `opt` printed.

        Parameters:
            text: the text.
            data: the bitcode, which the next pass reads; empty for the text.
            source: the file of the module before.

        """
        mod = cls.__new__(cls)
        if source:
            text = _MODULE_ID.sub(lambda _: f"; ModuleID = '{source}'\n", text, count=1)
        vars(mod).update(text=text, contents=data, source=source)
        return mod

    @classmethod
    def of_printed(cls, text: str) -> "Module":
        """Return the module of a text that LLVM printed."""
        return cls.restored(_ID + _MODULE_ID.sub("", text, count=1))

    @classmethod
    def restored(cls, text: str, outside: Mapping[str, Mapping[str, str]] = MappingProxyType({})) -> "Module":
        """Return the module with a `saved_text`.

        LLVM does not read it before it is needed.

        Raises:
            AdapterError: if the text is another one.

        """
        mod = cls(*split(without_predecessors(text)), outside)
        if _MODULE_ID.match(text):
            vars(mod).update(text=text, saved_text=text)
        return mod

    def to_llvm(self, context: Any = None) -> Any:
        """Return a new `llvmlite.binding.ModuleRef`, by default in a context of its own."""
        return llvm.parse_assembly(self.text, llvm.create_context() if context is None else context)

    @cached_property
    def text(self) -> str:
        """The text, as LLVM prints it."""
        contents: bytes | None = vars(self).get("contents")
        if contents is None:
            return _printed(self.saved_text, verified=False)
        path = self.source if self.is_on_disk() else "-"
        return Module.of_opt(printed_by_opt(_program(), contents, self.source, path), source=self.source).text

    @cached_property
    def _parts(self) -> tuple[Skeleton, Mapping[str, str]]:
        return split(without_predecessors(self.text))

    @cached_property
    def skeleton(self) -> Skeleton:
        """The rest of the module."""
        return self._parts[0]

    @cached_property
    def definitions(self) -> Mapping[str, str]:
        """The text of each function with a body, by token."""
        return self._parts[1]

    @property
    def is_printed(self) -> bool:
        """Whether LLVM printed the text, so that equal modules have equal texts."""
        return "text" in vars(self)

    def keep_printed(self, text: str) -> None:
        """Note the text that `opt` has printed for the module."""
        vars(self)["text"] = text

    @property
    def data(self) -> bytes:
        """What `opt` reads: bitcode or text."""
        contents: bytes | None = vars(self).get("contents")
        # Some programs write no bitcode beside the text.
        if contents is None or (self.is_printed and not contents):
            return self.raw_text.encode("utf-8", "surrogateescape")
        return contents

    def is_on_disk(self) -> bool:
        """Return whether the file of the module has the contents that were read."""
        state: tuple[int, ...] | None = vars(self).get("_state")
        return state is not None and state == state_of(Path(self.source))

    @property
    def raw_text(self) -> str:
        """A text of the module, if possible without a call of LLVM.

        Its numbers may differ from those of `text`.
        """
        return vars(self).get("text") or self.saved_text

    @property
    def countable_text(self) -> str:
        """A text with the same instructions, which LLVM need not have printed."""
        contents: bytes | None = vars(self).get("contents")
        if contents is not None and not self.is_printed and not contents.startswith(MAGIC):
            return contents.decode("utf-8", "surrogateescape")
        return self.raw_text

    @cached_property
    def instructions(self) -> int:
        """The number of instructions and debug records in all functions.

        Each begins a line, also in a text that LLVM has not printed.
        """
        return len(_INSTRUCTION.findall(self.countable_text))

    @cached_property
    def saved_text(self) -> str:
        """A text of the module with the numbers of its entries.

        If LLVM printed the module, it is that text: LLVM would print another one after it has read it, because it
        resets the attributes of intrinsics.
        """
        # A module that is not read has no parts yet.
        return self.text if "contents" in vars(self) else self.skeleton.text(self.definitions)

    @property
    def bitcode(self) -> bytes:
        """The bitcode of the module."""
        opt = find_opt()
        if opt is not None and "contents" in vars(self):
            return written_by_opt(opt.path, self.data, self.source)
        return bitcode(self.raw_text) if HAS_LLVMLITE else written_by_opt(_program(), self.data, self.source)

    @cached_property
    def comparable(self) -> str:
        """The text without what depends on the way in which LLVM got the module."""
        return without_predecessors(_MODULE_ID.sub("", self.text, count=1))

    @cached_property
    def functions(self) -> Mapping[str, Function]:
        """The functions with bodies, by name, in the order of the module."""
        outside = self.outside
        functions = (
            Function(token, text, self.skeleton, outside=outside.get(token, _NOTHING))
            for token, text in self.definitions.items()
        )
        return {func.name: func for func in functions}

    @cached_property
    def digest(self) -> str:
        """A digest of the text."""
        return blake2b(self.comparable.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()

    def __str__(self) -> str:
        """Return the text, as LLVM prints it."""
        return self.text

    def __repr__(self) -> str:
        """Return the number of functions."""
        return f"<LLVM module with {len(self.definitions)} functions>"

    def __getstate__(self) -> tuple[str, dict[str, Mapping[str, str]], bytes | None, str]:
        """Return the text and the contents, for pickle."""
        contents: bytes | None = vars(self).get("contents")
        text = self.saved_text if contents is None else vars(self).get("text", "")
        return text, dict(self.outside), contents, self.source

    def __setstate__(self, state: tuple[str, dict[str, Mapping[str, str]], bytes | None, str]) -> None:
        """Restore the module."""
        text, outside, contents, source = state
        if contents is not None:
            vars(self).update(contents=contents, source=source, **({"text": text} if text else {}))
        else:
            vars(self).update(vars(Module.restored(text, outside)))

    def results_of(self, pass_: object) -> "GroupResults":
        """Return the results of a pass so far."""
        results: WeakKeyDictionary[object, GroupResults] = vars(self).setdefault("_results", WeakKeyDictionary())
        return results.setdefault(pass_, GroupResults())

    def group_of(self, func: Function) -> list[Function]:
        """Return the group of consecutive functions to which one belongs."""
        return self._groups[func.token]

    @cached_property
    def _groups(self) -> Mapping[str, list[Function]]:
        groups: dict[str, list[Function]] = {}
        group: list[Function] = []
        size = GROUP_SIZE
        for func in self.functions.values():
            size += len(func.definition)
            if size > GROUP_SIZE:
                group, size = [], len(func.definition)
            group.append(func)
            groups[func.token] = group
        return groups

    def with_functions(self, updates: Mapping[str, Function]) -> "Module":
        """Return a module with other functions in place of those of the same names.

        What the functions use and the module does not have is added to it.

        Raises:
            AdapterError: if an update has another name.

        """
        merge = _Merge(self)
        for name, func in updates.items():
            if name != func.name:
                raise AdapterError(f"the update of function {name!r} is named {func.name!r}")
        for name in self.functions:
            if name in updates:
                merge.add(updates[name])
        return merge.result()

    def private(self, names: Iterable[str]) -> "Module":
        """Return a module with some of the functions and what they use.

        The others have no body.
        """
        chosen = {self.functions[name].token: self.functions[name] for name in names}
        used: dict[str, str] = dict(self.skeleton.always)
        for func in chosen.values():
            used.update(closure(func.definition, self.skeleton))
        used.update((token, "") for token in (*chosen, *self.added))
        kept = {token: text for token, text in self.definitions.items() if token in chosen}
        outside = {token: changes for token, changes in self.outside.items() if token in chosen}
        return Module(self.skeleton.only(used), kept, outside)


def state_of(path: Path) -> tuple[int, ...] | None:
    """Return what changes when a file does; None if it cannot be read."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino, status.st_dev


def _program() -> Path:
    """Return the program `opt`.

    Raises:
        MissingExtraError: if there is none.

    """
    opt = find_opt()
    return OPT.find() if opt is None else opt.path


def _printed(source: str | bytes, *, verified: bool = True) -> str:
    """Return the text that LLVM prints for a module.

    The library is much faster than a process. The program may know a later version of the language.
    """
    opt = find_opt()
    try:
        if HAS_LLVMLITE:
            return printed(source, verified=verified)
    except AdapterError:
        if opt is None:
            raise
        with suppress(AdapterError):
            return printed_by_opt(opt.path, _bytes_of(source))
        raise
    return printed_by_opt(_program(), _bytes_of(source))


def _bytes_of(source: str | bytes) -> bytes:
    return source if isinstance(source, bytes) else source.encode("utf-8", "surrogateescape")


class _Merge:
    """Inserts functions into a module."""

    def __init__(self, mod: Module) -> None:
        self._old = mod.skeleton
        self._definitions = dict(mod.definitions)
        self._headers: dict[str, str] = {}
        self._entries: dict[str, str] = {}
        self._groups = dict(mod.skeleton.groups)
        self._free = {"#": mod.skeleton.free_group, "!": mod.skeleton.free_node}
        self._outside = dict(mod.outside)
        self._known: tuple[Skeleton | None, Mapping[str, str]] = None, _NOTHING
        """The skeleton of the last function, and the numbers of its entries in the module."""

    def add(self, func: Function) -> None:
        """Insert a function, with the entries that the module lacks."""
        names: Mapping[str, str]
        if func.skeleton is self._old:
            names = self._adopt(func.extra) if func.extra else _NOTHING
        else:
            if self._known[0] is not func.skeleton or func.extra:
                # Only what the function uses would do. But most of these functions come from a private module, which
                # has nothing else, and several functions come from one.
                entries = {token: func.skeleton.find(token) or "" for token in func.skeleton.positions}
                self._known = None if func.extra else func.skeleton, self._adopt({**entries, **func.extra})
            names = self._known[1]
        used = {token: new for token, new in names.items() if token != new and token in func.definition}
        definition = rename(func.definition, names) if used else func.definition
        self._definitions[func.token] = definition
        header = definition.partition("\n")[0]
        if header != self._old.functions[func.token]:
            self._headers[func.token] = header
        if func.outside:
            self._outside[func.token] = func.outside
        else:
            self._outside.pop(func.token, None)

    def _adopt(self, entries: Mapping[str, str]) -> Mapping[str, str]:
        """Add what the module lacks, and return the numbers of the entries in the module."""
        names: dict[str, str] = {}
        for token, line in entries.items():
            if token[0] == "#" and self._old.attributes.get(token) != line:
                contents = line.partition(" = ")[2]
                if contents not in self._groups:
                    self._groups[contents] = self._fresh("#")
                names[token] = self._groups[contents]
        names.update((token, self._fresh("!")) for token in self._other_nodes(entries))
        for token, line in entries.items():
            new = names.get(token, token)
            if self._old.find(new) is None and new not in self._entries:
                self._entries[new] = rename(declaration(line), names)
        return names

    def _other_nodes(self, entries: Mapping[str, str]) -> Iterable[str]:
        """Return the metadata nodes that the module does not have.

        A node with the same number and the same line is the same one, if that also holds for all nodes that it uses.
        """
        nodes = [token for token in entries if token[0] == "!"]
        others = {token: None for token in nodes if self._old.nodes.get(token) != entries[token]}
        users: dict[str, list[str]] = {}
        if others:
            for token in nodes:
                for used in tokens(entries[token].partition(" = ")[2]):
                    users.setdefault(used, []).append(token)
        open_tokens = list(others)
        while open_tokens:
            for user in users.get(open_tokens.pop(), ()):
                if user not in others:
                    others[user] = None
                    open_tokens.append(user)
        return others

    def _fresh(self, sigil: str) -> str:
        number = self._free[sigil]
        self._free[sigil] += 1
        return f"{sigil}{number}"

    def result(self) -> Module:
        """Return the module."""
        skeleton = self._old
        if self._entries or self._headers:
            skeleton = skeleton.with_entries(self._entries, self._headers)
        added = frozenset(token for token, line in self._entries.items() if line.startswith("declare "))
        return Module(skeleton, self._definitions, self._outside, added)
