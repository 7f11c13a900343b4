"""Functions with checks that record undefined behaviour.

A pass may change the result of a function for an input for which its behaviour is undefined. A checked copy of the
function finds such inputs:

- Before or after an instruction, a call of `note_if` sets a flag if the instruction breaks a rule of LLVM.
- A division gets a divisor that cannot trap, and `unreachable` returns zero, so that the process goes on.
- `take` returns the flag and resets it.

The checks may report too much. Poison counts when an instruction computes it, even if nothing uses it. An
instruction that may compute poison and has no check always counts. No check splits a block.

Checked instructions lose their flags. Otherwise the compiler removes checks of what the flags promise.
"""

import ctypes
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from apass.adapters.llvm.reductions import Block
from apass.adapters.llvm.skeleton import TOKEN

__all__ = ["LIFETIME", "MEMORY", "SCALARS", "Checks"]

SCALARS: Final[Mapping[str, Any]] = {
    "i1": ctypes.c_bool,
    "i8": ctypes.c_int8,
    "i16": ctypes.c_int16,
    "i32": ctypes.c_int32,
    "i64": ctypes.c_int64,
    "float": ctypes.c_float,
    "double": ctypes.c_double,
}
"""The types that a function of scalars has in its header and in memory."""

_SCALAR: Final = "|".join(SCALARS)
MEMORY: Final = re.compile(
    rf"  (?:(?P<new>%\S+) = alloca (?P<size>{_SCALAR})|%\S+ = load (?P<read>{_SCALAR}), ptr (?P<source>%\S+)"
    rf"|store (?P<written>{_SCALAR}) [^ ,]+, ptr (?P<target>%\S+)), align [0-9]+$"
)
"""An instruction that uses the memory of one scalar."""
LIFETIME: Final = re.compile(
    r"  call void @llvm\.lifetime\.(?:start|end)\.p0\((?:i64 [^,]+, )?ptr (?:nonnull )?(%\S+)\)$"
)
"""A mark of where a variable is in use. Its value is lost there."""

_INT: Final = r"i[0-9]+|<[0-9]+ x i[0-9]+>"
_FLOAT: Final = r"float|double|<[0-9]+ x (?:float|double)>"
_VALUE: Final = r'%"[^"]*"|<[^>]*>|splat \([^)]*\)|[^ ,()]+'
_RESULT: Final = r'  (?P<result>%(?:"[^"]*"|[^ ]+)) = '
_INTEGERS: Final = re.compile(
    rf"{_RESULT}(?P<opcode>add|sub|mul|shl|lshr|ashr|udiv|sdiv|urem|srem|or)(?P<flags>(?: (?:nuw|nsw|exact|disjoint))*)"
    rf" (?P<kind>{_INT}) (?P<a>{_VALUE}), (?P<b>{_VALUE})$"
)
_FLOATS: Final = re.compile(
    rf"{_RESULT}(?P<opcode>fadd|fsub|fmul|fdiv|fneg|fcmp)"
    r"(?P<flags>(?: (?:fast|reassoc|contract|afn|arcp|nsz|nnan|ninf))*)"
    rf"(?: [a-z]+)? (?P<kind>{_FLOAT}) (?P<a>{_VALUE})(?:, (?P<b>{_VALUE}))?$"
)
_CAST: Final = re.compile(
    rf"{_RESULT}(?P<opcode>zext|uitofp|trunc|fptosi|fptoui)(?P<flags>(?: (?:nneg|nuw|nsw))*)"
    rf" (?P<kind>{_INT}|{_FLOAT}) (?P<a>{_VALUE}) to (?P<to>{_INT}|{_FLOAT})$"
)
_SAME_SIGN: Final = re.compile(rf"{_RESULT}icmp samesign [a-z]+ (?P<kind>{_INT}) (?P<a>{_VALUE}), (?P<b>{_VALUE})$")
_ELEMENT: Final = re.compile(
    rf"{_RESULT}(?:extract|insert)element <(?P<count>[0-9]+) x .*, i(?P<bits>[0-9]+) (?P<index>{_VALUE})$"
)
_FLAGGED_CALL: Final = re.compile(
    rf"{_RESULT}call (?:range\([^)]*\) )?(?:{_INT}) @llvm\.(?P<opcode>abs|ctlz|cttz)\.[a-z0-9]+\("
    rf"(?P<kind>{_INT})(?: noundef)? (?P<a>{_VALUE}), i1 (?P<flag>{_VALUE})\)$"
)
_RANGE: Final = re.compile(r"range\((i[0-9]+) (-?[0-9]+), (-?[0-9]+)\)")
_VALUE_IN_RANGE: Final = re.compile(rf'{_RANGE.pattern}(?: [a-z]+)* (%(?:"[^"]*"|[^ ,()]+)|-?[0-9]+)')
_PHI_INCOMING: Final = re.compile(r'\[ ((?:[^\[\]"]|"[^"]*")*), (%(?:"[^"]*"|[-A-Za-z0-9$._]+)) \]')
_LANES: Final = re.compile(r"  %\S+ = (?:insertelement|shufflevector|insertvalue) ")
_UNDEFINED: Final = re.compile(r"\b(?:undef|poison)\b")
_MAY_BE_POISON: Final = re.compile(
    r"\b(?:nsw|nuw|exact|disjoint|nneg|samesign|fast|nnan|ninf|shl|lshr|ashr|[us]div|[us]rem|fpto[su]i)\b"
)

NAN: Final = 0x003
"""The classes of NaN in `llvm.is.fpclass`."""
INFINITE: Final = 0x204
"""The classes of infinity in `llvm.is.fpclass`."""


class Checks:
    """Adds checks to the functions of one module.

    The functions may only have instructions that `outputs.runnable` allows.
    """

    def __init__(self, definitions: Iterable[str]) -> None:
        self._prefix, text = "apass.check", "\n".join(definitions)
        while self._prefix in text:
            self._prefix += "."

    @property
    def take(self) -> str:
        """The name of the function that returns and resets the flag."""
        return f"{self._prefix}.take"

    def helpers(self) -> str:
        """Return the text of the flag and of its functions."""
        flag = f"@{self._prefix}.flag"
        return (
            f"{flag} = internal global i1 false\n"
            f"define internal void @{self._prefix}.note_if(i1 %x) {{\n  %old = load i1, ptr {flag}\n"
            f"  %new = or i1 %old, %x\n  store i1 %new, ptr {flag}\n  ret void\n}}\n"
            f"define i1 @{self.take}() {{\n  %old = load i1, ptr {flag}\n"
            f"  store i1 false, ptr {flag}\n  ret i1 %old\n}}\n"
        )

    def checked(self, header: str, result: str, blocks: Sequence[Block]) -> list[Block]:
        """Return the blocks of a function with checks.

        Parameters:
            header: the first line of the function, with attributes of parameters and result.
            result: the type of the result.
            blocks: the blocks, without attributes and metadata.

        """
        return _FunctionChecks(self._prefix, header, result, blocks).blocks()


class _FunctionChecks:
    """Adds checks to one function."""

    def __init__(self, prefix: str, header: str, result: str, blocks: Sequence[Block]) -> None:
        self._prefix, self._header, self._result, self._old = prefix, header, result, blocks
        self._lines: list[str] = []
        self._count = 0
        self._sizes: dict[str, str] = {}
        for block in blocks:
            for line in block.lines:
                memory = MEMORY.match(line)
                if memory is not None and memory["new"]:
                    self._sizes[memory["new"]] = memory["size"]
        unsure = set(self._sizes) - _always_stored(blocks, self._sizes)
        self._shadows = {name: self._name() for name in self._sizes if name in unsure}
        """For variables that may be read before they are written: a variable that is true after a store."""

    def blocks(self) -> list[Block]:
        """Return the blocks with checks."""
        result: list[Block] = []
        for number, block in enumerate(self._old):
            self._lines = []
            if number == 0:
                self._lines += [f"  {shadow} = alloca i1" for shadow in self._shadows.values()]
                self._note_ranges(self._header)
            phis = [line for line in block.lines if " = phi " in line]
            # Phis must be the first instructions of a block.
            self._lines += phis
            for condition in [self._phi(line) for line in phis]:
                if condition:
                    self._note(condition)
            for line in block.lines[len(phis) :]:
                self._instruction(line)
            result.append(Block(block.label, self._lines))
        return result

    def _name(self) -> str:
        self._count += 1
        return f"%{self._prefix}.{self._count}"

    def _value(self, code: str) -> str:
        """Add an instruction; return the name of its result."""
        name = self._name()
        self._lines.append(f"  {name} = {code}")
        return name

    def _note(self, condition: str, kind: str = "i1") -> None:
        """Set the flag if a condition is true; if it is a vector, if one element is true."""
        if kind != "i1":
            condition = self._value(f"call i1 @llvm.vector.reduce.or.{_suffix(kind)}({kind} {condition})")
        self._lines.append(f"  call void @{self._prefix}.note_if(i1 {condition})")

    def _phi(self, line: str) -> str:
        """Add a phi that is true where one takes an undefined value.

        Return its name, or "" if there is none.
        """
        types = TOKEN.sub("", line)
        if _MAY_BE_POISON.search(types):
            return "true"
        if not _UNDEFINED.search(types):
            return ""
        edges = [(bool(_UNDEFINED.search(TOKEN.sub("", value))), label) for value, label in _PHI_INCOMING.findall(line)]
        incoming = ", ".join(f"[ {str(is_undefined).lower()}, {label} ]" for is_undefined, label in edges)
        return self._value(f"phi i1 {incoming}")

    def _instruction(self, line: str) -> None:
        """Add an instruction with its checks."""
        types = TOKEN.sub("", line)
        if _UNDEFINED.search(types) and not _LANES.match(line):
            self._note("true")
        if line == "  unreachable":
            self._note("true")
            self._lines.append(f"  ret {self._result} zeroinitializer")
        elif self._memory(line):
            pass
        elif match := _INTEGERS.match(line):
            self._integers(**match.groupdict())
        elif match := _FLOATS.match(line):
            self._floats(line, **match.groupdict())
        elif match := _CAST.match(line):
            self._cast(**match.groupdict())
        elif match := _SAME_SIGN.match(line):
            kind = match["kind"]
            self._lines.append(line.replace(" samesign ", " ", 1))
            self._note_negative(kind, self._value(f"xor {kind} {match['a']}, {match['b']}"))
        elif match := _ELEMENT.match(line):
            self._lines.append(line)
            if int(match["count"]) < 1 << int(match["bits"]):
                self._note(self._value(f"icmp uge i{match['bits']} {match['index']}, {match['count']}"))
        elif match := _FLAGGED_CALL.match(line):
            self._lines.append(_RANGE.sub("", line).replace(", i1 true)", ", i1 false)"))
            kind = match["kind"]
            bad = 1 << _bits(kind) - 1 if match["opcode"] == "abs" else 0
            if match["flag"] != "false":
                self._note_compared("eq", kind, match["a"], -bad)
        else:
            self._other(line, types)

    def _other(self, line: str, types: str) -> None:
        """Add an instruction that only ranges of values restrict."""
        if _MAY_BE_POISON.search(types):
            self._note("true")
        result, call, rest = line.partition(" call ")
        if call:
            head, _, arguments = rest.partition("@")
            self._note_ranges(arguments)
            self._lines.append(_RANGE.sub("", line))
            self._note_result_range(head, result.strip().removesuffix(" ="))
        else:
            if line.startswith("  ret "):
                self._note_result_range(self._header.partition("@")[0], line.split(" ", 4)[4])
            self._lines.append(line)

    def _memory(self, line: str) -> bool:
        """Add an instruction that uses memory; return whether it is one."""
        lifetime, memory = LIFETIME.match(line), MEMORY.match(line)
        if lifetime is not None:
            self._lines.append(line)
            self._set_shadow(lifetime[1], is_stored=False)
            return True
        if memory is None:
            return False
        shadow = self._shadows.get(memory["source"] or "")
        if shadow is not None:
            stored = self._value(f"load i1, ptr {shadow}")
            self._note(self._value(f"xor i1 {stored}, true"))
        self._lines.append(line)
        if memory["new"]:
            self._set_shadow(memory["new"], is_stored=False)
        elif memory["target"] and size_of(memory["written"]) == size_of(self._sizes[memory["target"]]):
            # A store of a smaller type leaves the rest of the variable as it is.
            self._set_shadow(memory["target"], is_stored=True)
        return True

    def _set_shadow(self, name: str, *, is_stored: bool) -> None:
        if name in self._shadows:
            self._lines.append(f"  store i1 {str(is_stored).lower()}, ptr {self._shadows[name]}")

    def _integers(self, result: str, opcode: str, flags: str, kind: str, a: str, b: str) -> None:
        """Add arithmetic of integers, without flags."""
        mask = _mask(kind)
        plain = f"  {result} = {opcode} {kind} "
        if opcode in ("add", "sub", "mul"):
            for flag in flags.split():
                name = f"@llvm.{'s' if flag == 'nsw' else 'u'}{opcode}.with.overflow.{_suffix(kind)}"
                pair = self._value(f"call {{ {kind}, {mask} }} {name}({kind} {a}, {kind} {b})")
                self._note(self._value(f"extractvalue {{ {kind}, {mask} }} {pair}, 1"), mask)
            self._lines.append(f"{plain}{a}, {b}")
        elif opcode == "or":
            if flags:
                self._note_compared("ne", kind, self._value(f"and {kind} {a}, {b}"), 0)
            self._lines.append(f"{plain}{a}, {b}")
        elif opcode in ("shl", "lshr", "ashr"):
            self._note_compared("uge", kind, b, _bits(kind))
            self._lines.append(f"{plain}{a}, {b}")
            for flag in flags.split():
                reverse = {"exact": "shl", "nuw": "lshr", "nsw": "ashr"}[flag]
                back = self._value(f"{reverse} {kind} {result}, {b}")
                self._note(self._value(f"icmp ne {kind} {back}, {a}"), mask)
        else:
            bad = self._value(f"icmp eq {kind} {b}, {_constant(kind, 0)}")
            if opcode[0] == "s":
                smallest = self._value(f"icmp eq {kind} {a}, {_constant(kind, -(1 << _bits(kind) - 1))}")
                negated = self._value(f"icmp eq {kind} {b}, {_constant(kind, -1)}")
                overflow = self._value(f"and {mask} {smallest}, {negated}")
                bad = self._value(f"or {mask} {bad}, {overflow}")
            self._note(bad, mask)
            one = _constant(kind, 1)
            divisor = self._value(f"select {mask} {bad}, {kind} {one}, {kind} {b}")
            self._lines.append(f"{plain}{a}, {divisor}")
            if flags:
                back = self._value(f"mul {kind} {result}, {divisor}")
                self._note(self._value(f"icmp ne {kind} {back}, {a}"), mask)

    def _floats(self, line: str, result: str, opcode: str, flags: str, kind: str, a: str, b: str | None) -> None:
        """Add arithmetic of floats: `nnan` and `ninf` forbid some operands and results."""
        words = flags.split()
        classes = (NAN if {"nnan", "fast"} & set(words) else 0) | (INFINITE if {"ninf", "fast"} & set(words) else 0)
        self._lines.append(re.sub(r" (?:nnan|ninf|fast)\b", "", line) if classes else line)
        if classes:
            for value in dict.fromkeys((a, b, result if opcode != "fcmp" else None)):
                if value is not None:
                    call = f"call {_mask(kind)} @llvm.is.fpclass.{_suffix(kind)}({kind} {value}, i32 {classes})"
                    self._note(self._value(call), _mask(kind))

    def _cast(self, result: str, opcode: str, flags: str, kind: str, a: str, to: str) -> None:
        """Add a conversion, without flags."""
        self._lines.append(f"  {result} = {opcode} {kind} {a} to {to}")
        if opcode in ("zext", "uitofp"):
            if flags:
                self._note_negative(kind, a)
        elif opcode == "trunc":
            for flag in flags.split():
                back = self._value(f"{'zext' if flag == 'nuw' else 'sext'} {to} {result} to {kind}")
                self._note(self._value(f"icmp ne {kind} {back}, {a}"), _mask(kind))
        else:
            bits, exact = _bits(to), 24 if "float" in kind else 53
            low, high = (-1, 1 << bits) if opcode == "fptoui" else (-(1 << bits - 1) - 1, 1 << bits - 1)
            # If the type does not have `low`, its next value above is the smallest integer.
            below = ("ule", low) if opcode == "fptoui" or bits <= exact else ("ult", low + 1)
            for predicate, bound in (below, ("uge", high)):
                self._note(self._value(f"fcmp {predicate} {kind} {a}, {_constant(kind, float(bound))}"), _mask(kind))

    def _note_compared(self, predicate: str, kind: str, value: str, constant: int) -> None:
        self._note(self._value(f"icmp {predicate} {kind} {value}, {_constant(kind, constant)}"), _mask(kind))

    def _note_negative(self, kind: str, value: str) -> None:
        self._note_compared("slt", kind, value, 0)

    def _note_ranges(self, text: str) -> None:
        """Add checks for the ranges of parameters or arguments."""
        for kind, low, high, value in _VALUE_IN_RANGE.findall(text):
            self._note_range(kind, int(low), int(high), value)

    def _note_result_range(self, head: str, value: str) -> None:
        for kind, low, high in _RANGE.findall(head):
            self._note_range(kind, int(low), int(high), value)

    def _note_range(self, kind: str, low: int, high: int, value: str) -> None:
        """Add a check for a range, which may wrap around."""
        count = (high - low) % (1 << _bits(kind))
        offset = self._value(f"sub {kind} {value}, {low}")
        self._note(self._value(f"icmp uge {kind} {offset}, {count}"))


def _always_stored(blocks: Sequence[Block], sizes: Mapping[str, str]) -> set[str]:
    """Return the variables that the entry block writes before anything reads them.

    Most variables are of this kind. They need no checks, which take time.
    """
    fresh, stored = set[str](), set[str]()
    for line in blocks[0].lines:
        memory, lifetime = MEMORY.match(line), LIFETIME.match(line)
        if memory is not None and memory["new"]:
            fresh.add(memory["new"])
        elif memory is not None and memory["target"] in fresh:
            if size_of(memory["written"]) == size_of(sizes[memory["target"]]):
                stored.add(memory["target"])
                fresh.discard(memory["target"])
        elif memory is not None:
            fresh.discard(memory["source"])
        elif lifetime is not None and lifetime[1] in stored:
            stored.discard(lifetime[1])
    marks = (LIFETIME.match(line) for block in blocks[1:] for line in block.lines)
    return stored - {mark[1] for mark in marks if mark is not None}


def size_of(kind: str) -> int:
    """Return the bytes that a scalar takes in memory."""
    return ctypes.sizeof(SCALARS[kind])


def _element(kind: str) -> str:
    """Return the type of the elements of a vector; of a scalar, the type."""
    return kind[1:-1].partition(" x ")[2] if kind.startswith("<") else kind


def _bits(kind: str) -> int:
    return int(_element(kind)[1:])


def _mask(kind: str) -> str:
    """Return the type of a comparison of values of a type."""
    return f"{kind.partition(' x ')[0]} x i1>" if kind.startswith("<") else "i1"


def _suffix(kind: str) -> str:
    """Return a type as the names of intrinsics have it, such as `v4i32`."""
    element = {"float": "f32", "double": "f64"}.get(_element(kind), _element(kind))
    return f"v{kind[1:].partition(' x ')[0]}{element}" if kind.startswith("<") else element


def _constant(kind: str, value: float) -> str:
    """Return the text of a number, which every element of a vector gets."""
    text = str(value) if isinstance(value, int) else f"0x{_double_bits(value):016X}"
    return f"splat ({_element(kind)} {text})" if kind.startswith("<") else text


def _double_bits(value: float) -> int:
    return int.from_bytes(bytes(ctypes.c_double(value)), "little")
