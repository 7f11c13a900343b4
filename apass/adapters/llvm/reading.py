"""Files of LLVM IR: text (`.ll`) and bitcode (`.bc`)."""

from os import PathLike
from pathlib import Path
from typing import Final

from apass.adapters.file_reader import read_in_process
from apass.adapters.llvm.library import MAGIC, reading_error, without_predecessors
from apass.adapters.llvm.module import Module, state_of
from apass.adapters.llvm.opt import find_opt
from apass.errors import AdapterError, VerifyError

__all__ = ["load_module", "module_from_bytes", "save_bitcode", "save_text"]

_READER: Final = """
import sys
import llvmlite.binding as llvm
data, context = sys.stdin.buffer.read(), llvm.create_context()
try:
    if sys.argv[1] == "bitcode":
        ref = llvm.parse_bitcode(data, context)
    else:
        ref = llvm.parse_assembly(data.decode(), context)
except UnicodeDecodeError as error:
    sys.stdout.buffer.write(b"U" + str(error).encode())
    sys.exit()
except RuntimeError as error:
    sys.stdout.buffer.write(b"E" + str(error).encode())
    sys.exit()
try:
    ref.verify()
except RuntimeError as error:
    sys.stdout.buffer.write(b"V" + str(error).encode())
    sys.exit()
sys.stdout.buffer.write(b"T" + str(ref).encode("utf-8", "surrogatepass"))
"""
"""The program that reads a file. It imports llvmlite alone, in half the time of the adapter."""


def load_module(path: str | PathLike[str]) -> Module:
    """Return the module in a file, text or bitcode.

    If there is a program `opt`, the first pass reads a text, and reports what is wrong with it. Otherwise LLVM reads
    the file in a process of its own, because it aborts for some damaged bitcode, and text may exhaust its stack.

    Raises:
        AdapterError: if LLVM cannot read the file, or crashes.
        VerifyError: if the module is invalid.

    """
    path = Path(path)
    state = state_of(path)
    return _module_of(path.read_bytes(), path, state)


def module_from_bytes(data: bytes, name: str) -> Module:
    """Return the module in the contents of a file; `name` is for messages.

    See `load_module` for errors.
    """
    return _module_of(data, Path(name), None)


def _module_of(data: bytes, path: Path, state: tuple[int, ...] | None) -> Module:
    kind = "bitcode" if data.startswith(MAGIC) else "text"
    if kind == "text" and path.suffix.lower() == ".bc":
        raise AdapterError(f"{path} is no bitcode: it does not begin with b'BC'; rename a text to .ll")
    if find_opt() is not None:
        mod = Module.unread(data, str(path), state)
        # The instructions of bitcode are counted in its text.
        if kind == "bitcode":
            mod.keep_printed(mod.text)
        return mod
    answer = read_in_process(_READER, [kind], data, library="LLVM", path=path)
    status, text = answer[:1], answer[1:].decode("utf-8", "surrogatepass")
    if status == b"V":
        raise VerifyError(f"not a valid LLVM module: {' '.join(text.split())}")
    if status == b"U":
        raise AdapterError(f"{path} is neither text in UTF-8 ({text}) nor bitcode, which begins with b'BC'")
    if status == b"E":
        raise AdapterError(reading_error(data, text))
    return Module.of_printed(without_predecessors(text))


def save_text(mod: Module, path: Path) -> None:
    """Write the text of a module to a file."""
    path.write_text(mod.text, encoding="utf-8", errors="surrogateescape")


def save_bitcode(mod: Module, path: Path) -> None:
    """Write the bitcode of a module to a file."""
    path.write_bytes(mod.bitcode)
