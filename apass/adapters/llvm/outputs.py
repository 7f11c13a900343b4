"""Comparison of outputs: functions of scalars run on the same inputs.

IR is code of an unknown author, so only functions that cannot reach anything else run:

- Parameters and result are integers of 1 to 64 bits, `float` or `double`.
- Instructions compute with values. Memory is only that of an `alloca` of one scalar, loaded and stored by its name.
- Calls are those of such functions of the module, and of intrinsics that become instructions.
- Attributes, metadata and everything outside of these functions are removed.

They run in a worker process with a time limit. The compiler gets no symbol of the process.
"""

import ctypes
import math
import random
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from anyio import BrokenWorkerProcess, move_on_after

from apass.adapters.llvm.library import llvm, parse
from apass.adapters.llvm.module import Module
from apass.adapters.llvm.reductions import blocks_of
from apass.adapters.llvm.skeleton import TOKEN, plain_name, tokens
from apass.concurrency.processes.pool import run_in_worker
from apass.core.ir_plugin import Comparison

__all__ = ["Signature", "compare_outputs", "run_function", "runnable"]

SECONDS: Final = 10.0
"""Time limit for all inputs of one function, before or after, with the start of the process."""

MAX_LOST: Final = 3
"""How many functions may exceed the time limit before the comparison ends."""

MAX_FUNCTIONS: Final = 100
"""How many functions of a module run."""

_SCALARS: Final[Mapping[str, Any]] = {
    "i1": ctypes.c_bool,
    "i8": ctypes.c_int8,
    "i16": ctypes.c_int16,
    "i32": ctypes.c_int32,
    "i64": ctypes.c_int64,
    "float": ctypes.c_float,
    "double": ctypes.c_double,
}
_TYPE: Final = rf"(?:{'|'.join(_SCALARS)})"
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
_MEMORY: Final = re.compile(
    rf"  (?:(%\S+) = alloca {_TYPE}, align [0-9]+|%\S+ = load {_TYPE}, ptr (%\S+), align [0-9]+|store {_TYPE} "
    r"[^,]+, ptr (%\S+), align [0-9]+)$"
)
_LIFETIME: Final = re.compile(
    r"  call void @llvm\.lifetime\.(?:start|end)\.p0\((?:i64 [^,]+, )?ptr (?:nonnull )?(%\S+)\)$"
)
"""A note of where a variable is in use. It computes nothing."""
_STRANGE: Final = re.compile(r"\b(?:ptr|x86_fp80|fp128|ppc_fp128|half|bfloat|blockaddress|asm|token|x86_amx)\b")
_WIDE: Final = re.compile(r"\bi([0-9]+)\b")
_LOOSE: Final = re.compile(r"\b(?:fast|reassoc|contract|afn|arcp|nsz|nnan|ninf)\b")
_POISON: Final = re.compile(r"\b(?:nsw|nuw|exact|disjoint|nneg|samesign|shl|lshr|ashr|poison|undef)\b")
_REMOVED: Final = re.compile(r", ![A-Za-z_.]+ ![0-9]+| #[0-9]+|\b(?:musttail|notail|tail|fastcc) ")


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
    lines = [line for block in blocks_of(definition) for line in block.lines if not line.startswith("    #dbg_")]
    own: set[str] = set()
    for line in lines:
        line = _REMOVED.sub("", line)
        opcode = _OPCODE.match(line)
        lifetime = _LIFETIME.match(line)
        if lifetime is not None and lifetime[1] in own:
            continue
        memory = _MEMORY.match(line)
        if memory is not None and (memory[1] or memory[2] in own or memory[3] in own):
            if memory[1]:
                own.add(memory[1])
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


def _source(mod: Module, chosen: Mapping[str, Signature]) -> str:
    """Return the text of the functions alone, without attributes and metadata."""
    parts: list[str] = []
    used: set[str] = set()
    for token, signature in chosen.items():
        parameters = ", ".join(f"{kind} {name}" for kind, name in signature.parameters)
        parts.append(f"define {signature.result} {token}({parameters}) {{")
        for block in blocks_of(mod.definitions[token]):
            parts.append(f"{block.label[1:]}:")
            lines = [_REMOVED.sub("", line) for line in block.lines if not line.startswith("    #dbg_")]
            parts += lines
            used.update(name for line in lines for name in tokens(line) if name.startswith("@llvm."))
        parts.append("}")
    declared = (line for token, line in mod.skeleton.functions.items() if token in used)
    return "\n".join([*(re.sub(r" #[0-9]+", "", line) for line in declared), *parts]) + "\n"


def run_function(text: str, name: str, types: Sequence[str], inputs: Sequence[Sequence[float]]) -> list[float]:
    """Return the results of a function for inputs. Runs in a worker process."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    ref = parse(text)
    jit = llvm.create_lljit_compiler()
    # Without `add_current_process`, no symbol of this process can be called.
    library = llvm.JITLibraryBuilder().add_ir(ref).export_symbol(name).link(jit, "apass")
    kinds = [_SCALARS[kind] for kind in types]
    function: Any = ctypes.CFUNCTYPE(*kinds)(library[name])
    return [
        float(function(*values)) if types[0] in ("float", "double") else int(function(*values)) for values in inputs
    ]


def _inputs(signature: Signature, name: str, *, small: bool) -> list[list[float]]:
    """Return inputs that are the same in each run.

    Parameters:
        signature: the types.
        name: the name of the function, the seed.
        small: whether large numbers are left out, for which `nsw` and others would be violated.

    """
    generator = random.Random(name)
    rows: list[list[float]] = []
    for number in range(8):
        row: list[float] = []
        for kind, _ in signature.parameters:
            if kind in ("float", "double"):
                row.append([0.0, 1.0, -2.5, generator.uniform(-100, 100)][min(number, 3)])
            elif kind == "i1":
                row.append(generator.randrange(2))
            elif small or number < 4:
                row.append([0, 1, 2, generator.randrange(1, 30)][min(number, 3)])
            else:
                bits = int(kind[1:])
                row.append(generator.randrange(-(2 ** (bits - 1)), 2 ** (bits - 1)))
        rows.append(row)
    return rows


async def compare_outputs(before: Module, after: Module) -> Comparison:
    """Run the functions that both modules have on the same inputs, and compare.

    A function whose run ends without a result before is not compared: a division by zero or an endless loop ends it.
    """
    old, new = runnable(before), runnable(after)
    entries = [token for token in old if not old[token].is_local]
    shared = [token for token in entries if token in new and new[token].types == old[token].types][:MAX_FUNCTIONS]
    if not shared:
        return Comparison(False, "outputs not compared: no function of scalars is free of memory, calls and symbols")
    sources = _source(before, old), _source(after, new)
    ran, lost = 0, 0
    for token in shared:
        if lost == MAX_LOST:
            break
        small = any(_POISON.search(before.definitions[name]) for name in _reached(before, token, old))
        rows = _inputs(old[token], token, small=small)
        first = await _results(sources[0], token, old[token], rows)
        if first is None:
            lost += 1
            continue
        ran += 1
        second = await _results(sources[1], token, old[token], rows)
        if second is None:
            return Comparison(True, f"outputs changed: {token} gives no result after, and {first[0]} before")
        loose = any(_LOOSE.search(before.definitions[name]) for name in _reached(before, token, old))
        for row, a, b in zip(rows, first, second, strict=True):
            if not _same(a, b, loose=loose):
                shown = ", ".join(map(str, row))
                return Comparison(True, f"outputs changed: {token}({shown}) is {a} before, and {b} after")
    return Comparison(False, f"outputs equal: {ran} of {len(before.definitions)} functions ran on 8 inputs each")


def _reached(mod: Module, token: str, chosen: Iterable[str]) -> set[str]:
    """Return a function and those that it calls."""
    known, found, open_tokens = set(chosen), set[str](), [token]
    while open_tokens:
        name = open_tokens.pop()
        if name not in found and name in known:
            found.add(name)
            open_tokens += _calls(mod.definitions[name]) or ()
    return found


async def _results(
    source: str, token: str, signature: Signature, rows: Sequence[Sequence[float]]
) -> Sequence[float] | None:
    """Return the results; None if the process dies or takes too long."""
    with move_on_after(SECONDS):
        try:
            return await run_in_worker(run_function, source, plain_name(token), signature.types, rows)
        except BrokenWorkerProcess:
            return None
    return None


def _same(a: float, b: float, *, loose: bool) -> bool:
    if math.isnan(a) and math.isnan(b):
        return True
    return math.isclose(a, b, rel_tol=1e-6) if loose else a == b
