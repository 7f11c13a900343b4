"""Comparison of outputs: functions of scalars run on the same inputs.

IR is code of an unknown author, so only functions that cannot reach anything else run:

- Parameters and result are integers of 1 to 64 bits, `float` or `double`.
- Instructions compute with values. Memory is only that of an `alloca` of one scalar, loaded and stored by its name.
- Calls are those of such functions of the module, and of intrinsics that become instructions.
- Attributes, metadata and everything outside of these functions are removed.

They run in a worker process with a time limit. The compiler gets no symbol of the process. Inputs for which
behaviour is undefined before are left out; see `checked_source`.
"""

import ctypes
import math
import random
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from anyio import BrokenWorkerProcess, move_on_after

from apass.adapters.llvm.checked_source import LIFETIME, MEMORY, SCALARS, Checks, size_of
from apass.adapters.llvm.library import llvm, parse
from apass.adapters.llvm.module import Module
from apass.adapters.llvm.reductions import Block, blocks_of
from apass.adapters.llvm.skeleton import TOKEN, rename, tokens
from apass.concurrency.processes.pool import LostCall, run_in_worker
from apass.core.ir_plugin import Comparison
from apass.util.other_inputs import OtherInputs, same_value

__all__ = ["Signature", "compare_outputs", "run_function", "runnable", "source_text"]

SECONDS: Final = 10.0
"""Time limit for all inputs of one function, before or after, with the start of the process."""

INPUTS: Final = 8
"""On how many inputs a function runs."""

MAX_LOST: Final = 3
"""How many functions may exceed the time limit before the comparison ends."""

MAX_FUNCTIONS: Final = 100
"""How many functions of a module run."""

_TYPE: Final = rf"(?:{'|'.join(SCALARS)})"
_HEADER: Final = re.compile(
    rf"define (?:(?:internal|private|dso_local|hidden|fastcc|noundef|signext|zeroext|range\([^)]*\)|weak|linkonce|"
    rf'weak_odr|linkonce_odr) )*({_TYPE}) (@(?:"[^"]*"|[-A-Za-z0-9$._]+))\((.*?)\)(?: (?:local_)?unnamed_addr)?'
    r"(?: #[0-9]+)?(?: comdat)?(?: ![a-z]+ ![0-9]+)* \{$"
)
_PARAMETER: Final = re.compile(
    rf'({_TYPE})(?: (?:noundef|signext|zeroext|returned|range\([^)]*\)))* (%(?:"[^"]*"|[-A-Za-z0-9$._]+))(?:, |$)'
)
_OPCODE: Final = re.compile(r'  (?:%(?:"[^"]*"|[-A-Za-z0-9$._]+) = )?(?:(?:tail|notail|musttail) )?([a-z]+)')
_CALL: Final = re.compile(
    r"  (?:%\S+ = )?(?:tail |notail )?call (?:(?:fastcc|fast|nnan|ninf|nsz|arcp|contract|afn|reassoc|noundef|signext|"
    r"zeroext|range\([^)]*\)) )*(?:\{[^}]*\}|<[^>]*>|[a-z0-9]+) (@[-A-Za-z0-9$._]+)\("
)
_COMPUTING: Final = re.compile(
    r"add|sub|mul|udiv|sdiv|urem|srem|shl|lshr|ashr|and|or|xor|fneg|fadd|fsub|fmul|fdiv|icmp|fcmp|select"
    r"|phi|br|switch|ret|unreachable|zext|sext|trunc|fptosi|fptoui|sitofp|uitofp|fpext|fptrunc|bitcast"
    r"|freeze|extractelement|insertelement|shufflevector|extractvalue|insertvalue"
)
"""Opcodes that reach no memory and become no call. `frem` becomes one."""
_INTRINSICS: Final = re.compile(
    r"@llvm\.(?:[su](?:max|min)|abs|ctpop|ctlz|cttz|bswap|bitreverse|fsh[lr]|fabs|copysign|sqrt|[su](?:add|sub|mul)"
    r"\.with\.overflow|[su](?:add|sub)\.sat|vector\.reduce\.(?:add|mul|and|or|xor|[su](?:max|min)))\.[a-z0-9.]+"
)
_STRANGE: Final = re.compile(r"\b(?:ptr|x86_fp80|fp128|ppc_fp128|half|bfloat|blockaddress|asm|token|x86_amx)\b")
_WIDE: Final = re.compile(r"\bi([0-9]+)\b")
_LOOSE: Final = re.compile(r"\b(?:fast|reassoc|contract|afn|arcp|nsz|nnan|ninf)\b")
_LIMITED: Final = re.compile(r"\b(?:nsw|nuw|exact|disjoint|nneg|samesign|shl|lshr|ashr)\b")
"""Instructions whose behaviour is defined for some operands only. Large ones mostly break their rules."""
_REMOVED: Final = re.compile(r", ![A-Za-z_.]+ ![0-9]+| #[0-9]+|\b(?:musttail|notail|tail|fastcc|signext|zeroext) ")
"""What the text to run does not have. Without `zeroext` of a result, a caller expects nothing of unused bits."""


@dataclass(frozen=True, slots=True)
class Signature:
    """The types of a function of scalars."""

    result: str
    """The type of the result."""
    is_local: bool
    """Whether only this module calls the function. LLVM may then use what it knows of the arguments."""
    parameters: tuple[tuple[str, str], ...]
    """Types and names of the parameters."""

    @staticmethod
    def of(header: str) -> "Signature | None":
        """Return the signature of a header; None if there are other types."""
        match = _HEADER.match(header)
        if match is None:
            return None
        found = list(_PARAMETER.finditer(match[3]))
        if "".join(one[0] for one in found) != match[3]:
            return None
        is_local = header.startswith(("define internal ", "define private "))
        return Signature(match[1], is_local, tuple((one[1], one[2]) for one in found))

    @property
    def types(self) -> tuple[str, ...]:
        """The types of result and parameters."""
        return (self.result, *(kind for kind, _ in self.parameters))


def runnable(mod: Module) -> Mapping[str, Signature]:
    """Return the functions that may run, by token, with their signatures."""
    signatures = {token: Signature.of(text.partition("\n")[0]) for token, text in mod.definitions.items()}
    found = {token: signature for token, signature in signatures.items() if signature is not None}
    calls = {token: _calls(mod.definitions[token]) for token in found}
    while True:
        safe = {
            token for token in found if (called := calls[token]) is not None and all(other in found for other in called)
        }
        if len(safe) == len(found):
            return found
        found = {token: signature for token, signature in found.items() if token in safe}


def _calls(definition: str) -> set[str] | None:
    """Return the functions that a function calls; None if it may not run."""
    called: set[str] = set()
    own: dict[str, int] = {}
    for line in (line for block in blocks_of(definition) for line in _plain_lines(block)):
        opcode = _OPCODE.match(line)
        lifetime, memory = LIFETIME.match(line), MEMORY.match(line)
        if lifetime is not None and lifetime[1] in own:
            continue
        if memory is not None and memory["new"]:
            own[memory["new"]] = size_of(memory["size"])
            continue
        # No access may reach beyond the variable: it could write the return address.
        if memory is not None and size_of(memory["read"] or memory["written"]) <= own.get(
            memory["source"] or memory["target"], 0
        ):
            continue
        types = TOKEN.sub("", line)
        if opcode is None or _STRANGE.search(types) or any(int(bits) > 64 for bits in _WIDE.findall(types)):
            return None
        symbols = [token for token in tokens(line) if token[0] == "@"]
        if opcode[1] == "call":
            call = _CALL.match(line)
            if call is None or symbols != [call[1]]:
                return None
            if not _INTRINSICS.fullmatch(call[1]):
                called.add(call[1])
        elif not _COMPUTING.fullmatch(opcode[1]) or symbols:
            return None
    return called


def _plain_lines(block: Block) -> list[str]:
    """Return the lines of a block without attributes and metadata."""
    return [_REMOVED.sub("", line) for line in block.lines if not line.startswith("    #dbg_")]


def source_text(mod: Module, chosen: Mapping[str, Signature], checks: Checks | None = None) -> str:
    """Return the text of the functions alone, with checks if there are some."""
    parts: list[str] = [] if checks is None else [checks.helpers()]
    for token, signature in chosen.items():
        definition = mod.definitions[token]
        parameters = ", ".join(f"{kind} {name}" for kind, name in signature.parameters)
        parts.append(f"define {signature.result} {token}({parameters}) {{")
        blocks = [Block(block.label, _plain_lines(block)) for block in blocks_of(definition)]
        if checks is not None:
            blocks = checks.checked(definition.partition("\n")[0], signature.result, blocks)
        for block in blocks:
            parts += [f"{block.label[1:]}:", *block.lines]
        parts.append("}")
    # LLVM declares the intrinsics by itself.
    return "\n".join(parts) + "\n"


def run_function(
    text: str, name: str, types: Sequence[str], inputs: Sequence[Sequence[float]], take: str | None = None
) -> list[float | None]:
    """Return the results of a function for inputs. Runs in a worker process.

    Parameters:
        text: the module.
        name: the name of the function.
        types: types of result and parameters.
        inputs: the arguments of each call.
        take: the function that returns whether behaviour was undefined since its last call. Such a result is None.

    """
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    ref = parse(text)
    jit = llvm.create_lljit_compiler()
    builder = llvm.JITLibraryBuilder().add_ir(ref).export_symbol(name)
    if take is not None:
        builder.export_symbol(take)
    # Without `add_current_process`, no symbol of this process can be called.
    library = builder.link(jit, "apass")
    # LLVM sets only the lowest bit of an `i1`.
    result = ctypes.c_uint8 if types[0] == "i1" else SCALARS[types[0]]
    function: Any = ctypes.CFUNCTYPE(result, *(SCALARS[kind] for kind in types[1:]))(library[name])
    was_undefined: Any = ctypes.CFUNCTYPE(ctypes.c_uint8)(library[take]) if take is not None else int
    results: list[float | None] = []
    for values in inputs:
        value = function(*values)
        results.append(None if was_undefined() & 1 else value & 1 if types[0] == "i1" else value)
    return results


def _inputs(signature: Signature, name: str, *, small: bool) -> list[list[float]]:
    """Return inputs that are the same in each run.

    Parameters:
        signature: the types.
        name: the name of the function, the seed.
        small: whether large numbers are left out, with which loops may take too long.

    """
    generator = random.Random(name)
    rows: list[list[float]] = []
    for number in range(INPUTS):
        row: list[float] = []
        for kind, _ in signature.parameters:
            if kind in ("float", "double"):
                row.append([0.0, 1.0, -2.5, generator.uniform(-100, 100)][min(number, 3)])
            elif kind == "i1":
                row.append(generator.randrange(2))
            elif small or number < 4:
                row.append([0, 1, 2, generator.randrange(1, 30)][min(number, 3)])
            elif number == 4:
                row.append(generator.randrange(-30, 30))
            else:
                bits = int(kind[1:])
                row.append(generator.randrange(-(2 ** (bits - 1)), 2 ** (bits - 1)))
        rows.append(row)
    return rows


async def compare_outputs(before: Module, after: Module) -> Comparison:
    """Run the functions that both modules have on the same inputs, and compare.

    Inputs for which behaviour is undefined before are left out. A function without a result before is not compared: an
    endless loop, for example.
    """
    old, new = runnable(before), runnable(after)
    entries = [token for token in old if not old[token].is_local]
    if not entries:
        return Comparison.unverified("no function of scalars is free of memory, calls and symbols")
    exported = {token: signature.types for token, signature in new.items() if not signature.is_local}
    shared = [token for token in entries if exported.get(token) == old[token].types][:MAX_FUNCTIONS]
    if not shared:
        return Comparison.unverified("no exported function that could run is left after")
    checks = Checks(before.definitions.values())
    ran, lost = 0, 0
    dull: dict[str, str] = {}
    for token in shared:
        if lost == MAX_LOST:
            break
        reached = _reached(before, token, old)
        definitions = [before.definitions[name] for name in reached]
        small = _may_repeat(before, reached) and any(map(_LIMITED.search, definitions))
        rows = _inputs(old[token], token, small=small)
        source = source_text(before, {name: old[name] for name in reached}, checks)
        first = await _results(source, token, old[token], rows, checks.take)
        if isinstance(first, LostCall):
            lost += 1
            continue
        defined = [(row, value) for row, value in zip(rows, first, strict=True) if value is not None]
        if not defined:
            continue
        ran += 1
        source = source_text(after, {name: new[name] for name in _reached(after, token, new)})
        second = await _results(source, token, old[token], [row for row, _ in defined])
        if isinstance(second, LostCall) and second.is_late:
            return Comparison.unverified(f"{token} after: {second.reason}")
        if isinstance(second, LostCall):
            return Comparison.different(f"{token} gives no result after, and {defined[0][1]} before")
        if old[token].parameters:
            # The inputs are large, small and of each sign already.
            dull |= same_value(token, [value for _, value in defined])
        loose = any(map(_LOOSE.search, definitions))
        for (row, a), b in zip(defined, second, strict=True):
            if b is None or not _same(a, b, loose=loose):
                shown = ", ".join(map(str, row))
                return Comparison.different(f"{token}({shown}) is {a} before, and {b} after")
    if not ran:
        return Comparison.unverified(f"none of {len(shared)} functions has a defined result")
    total = len(before.definitions)
    text = f"{ran} of {total} functions ran on up to {INPUTS} inputs each"
    return Comparison.same("; ".join(filter(None, [text, OtherInputs(dull, 0.0).remark])))


def _reached(mod: Module, token: str, chosen: Iterable[str]) -> list[str]:
    """Return a function and those that it calls, in the order of `chosen`."""
    found, open_tokens = set[str](), [token]
    while open_tokens:
        name = open_tokens.pop()
        if name not in found:
            found.add(name)
            open_tokens += _calls(mod.definitions[name]) or ()
    return [name for name in chosen if name in found]


def _may_repeat(mod: Module, reached: Sequence[str]) -> bool:
    """Return whether functions may have a loop or a recursion.

    It is a branch to an earlier block, or a cycle of calls.
    """
    waiting: dict[str, set[str]] = {}
    for name in reached:
        known = set[str]()
        for block in blocks_of(mod.definitions[name]):
            known.add(block.label)
            if not known.isdisjoint(block.targets()):
                return True
        waiting[name] = _calls(mod.definitions[name]) or set()
    while True:
        # In each round, functions that call none of the rest are removed. A cycle remains.
        rest = {name: called for name, called in waiting.items() if not called.isdisjoint(waiting)}
        if len(rest) == len(waiting):
            return bool(rest)
        waiting = rest


async def _results(
    source: str, token: str, signature: Signature, rows: Sequence[Sequence[float]], take: str | None = None
) -> Sequence[float | None] | LostCall:
    """Return the results, or why there are none."""
    # Functions without a name have no symbol, and names in quotes may have escapes.
    odd = {name for name in tokens(source) if name[0] == "@" and (name[1] == '"' or name[1:].isdigit())}
    names = {name: f"@apass.symbol.{index}" for index, name in enumerate(sorted(odd))}
    symbol = names.get(token, token).removeprefix("@")
    with move_on_after(SECONDS):
        try:
            return await run_in_worker(run_function, rename(source, names), symbol, signature.types, rows, take)
        except BrokenWorkerProcess as error:
            return LostCall(str(error), is_late=False)
    return LostCall(f"the evaluation took longer than {SECONDS:g} s", is_late=True)


def _same(a: float, b: float, *, loose: bool) -> bool:
    if math.isnan(a) and math.isnan(b):
        return True
    return math.isclose(a, b, rel_tol=1e-6) if loose else a == b
