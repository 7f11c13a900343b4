"""Programs as modules of LLVM IR without optimizations, and their checks."""

import os
import shlex
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Literal

from benchmarks.phase_order.sources import folder, unpacked

__all__ = ["DRIVERS", "Level", "Program"]

DRIVERS: Final = Path(__file__).parent / "drivers"
"""The programs that use a library, and the inputs of those that have a `main`."""

TARGET: Final = "--target=x86_64-unknown-linux-gnu"
Level = Literal["O0", "Oz"]
"""The options of clang for a module."""

UNOPTIMIZED: Final[Mapping[Level, Sequence[str]]] = {
    "O0": ("-O0", "-Xclang", "-disable-O0-optnone", TARGET, "-w"),
    "Oz": ("-Oz", "-Xclang", "-disable-llvm-passes", TARGET, "-w"),
}
"""Options for code that passes can optimize later.

`-O0` marks all functions `noinline`, as in the programs of CompilerGym. The other one is what `clang -Oz` gives to
LLVM.
"""

SECONDS: Final = 60
"""Maximum time of a check. Each program runs for a part of a second."""


@dataclass(frozen=True)
class Program:
    """A program in C, or a part of one, of which the passes get one module.

    The rest of it is compiled as it is. A check links both, so that a module without a function of its interface
    fails.
    """

    name: str
    """Name in the table."""
    domain: str
    """What it does."""
    archive: str
    """Its archive in `sources.ARCHIVES`; "" if `generator` writes its source."""
    root: str = ""
    """Folder in the archive from which it is compiled."""
    files: str = ""
    """Patterns of the files in the module."""
    rest: str = ""
    """Patterns of the other files that a check needs."""
    flags: str = ""
    """Options of the compiler."""
    driver: str = ""
    """File in `DRIVERS` with a `main` that uses the library; "" if the program has one."""
    arguments: str = ""
    """Arguments of the program, which a check runs in `DRIVERS`; `{source}` is `source`."""
    stdin: str = ""
    """File in `DRIVERS` that a check gives to the program."""
    prepare: str = ""
    """Shell command that writes headers and libraries into the folder, once."""
    libraries: str = ""
    """What a check links: libraries in the folder, and options."""
    only: str = ""
    """Pattern of the names of functions in the module; the others belong to the rest. "" is all functions."""
    generator: str = ""
    """Shell command that prints the source of a whole program."""
    level: Level = "O0"
    """How clang compiles the module."""

    @property
    def key(self) -> str:
        """The name, with the level if it is not `O0`."""
        return self.name if self.level == "O0" else f"{self.name}-{self.level}"

    @property
    def kept(self) -> Path:
        """The folder of what is made of the program."""
        return folder() / "programs" / self.key

    @cached_property
    def source(self) -> Path:
        """The folder with the sources, fetched and prepared if they are not kept.

        Raises:
            FetchError: if the archive cannot be fetched.
            subprocess.CalledProcessError: if the preparation fails.

        """
        if self.generator:
            path = self.kept / "source" / f"{self.name}.c"
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                _write(path, _run(["sh", "-c", self.generator], path.parent))
            return path.parent
        root = unpacked(self.archive) / self.root
        done = root / ".prepared"
        if self.prepare and not done.exists():
            _run(["sh", "-c", self.prepare], root)
            done.touch()
        return root

    def module(self) -> Path:
        """Return the file with the module. It is compiled if it is not kept.

        Raises:
            FetchError: if the archive cannot be fetched.
            subprocess.CalledProcessError: if a command fails.

        """
        path = self.kept / "module.ll"
        if not path.exists():
            self._compile(self._found(self.files or "*.c"), path)
            if self.only:
                self._divide(path)
        return path

    def check(self, module: Path) -> bool:
        """Return whether the program still works with a changed module.

        It is linked and run, and must end and print as the module without optimizations. A program that cannot be
        run is only linked.

        Parameters:
            module: a file with the suffix `.ll` or `.bc`.

        Raises:
            FetchError: if the archive cannot be fetched.
            subprocess.CalledProcessError: if the module without optimizations, or the rest, cannot be compiled.

        """
        expected = self.kept / "expected"
        if not expected.exists():
            found = self._result(self.module())
            if found is None:
                raise ValueError(f"{self.name} fails without optimizations; fix its driver or its flags")
            _write(expected, found)
        return self._result(module) == expected.read_bytes()

    def _result(self, module: Path) -> bytes | None:
        """Return status and output of the program; None if it cannot be linked or run."""
        with TemporaryDirectory() as text:
            program = f"{text}/program"
            parts = [str(path) for path in (module, *self._objects())]
            link = ["clang-22", "-O0", TARGET, "-w", *parts, *self._libraries(), "-o", program]
            command = [program, *shlex.split(self.arguments.format(source=self.source))]
            given = (DRIVERS / self.stdin).read_bytes() if self.stdin else b""
            try:
                subprocess.run(link, check=True, capture_output=True, timeout=SECONDS)
                done = subprocess.run(
                    command, input=given, check=False, capture_output=True, timeout=SECONDS, cwd=DRIVERS, env={}
                )
            except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
                return None
            return b"%d\n%b" % (done.returncode, done.stdout) if done.returncode >= 0 else None

    def _objects(self) -> Iterable[Path]:
        """Return the object files of the rest and of the driver."""
        files = self._found(self.rest) if self.rest else []
        if self.driver:
            files.append(DRIVERS / self.driver)
        if self.only:
            self.module()
            files.append(self.kept / "rest.ll")
        for file in files:
            path = self.kept / "objects" / f"{file.parent.name}-{file.name}.o"
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                _run(["clang-22", "-O1", TARGET, "-w", *self._flags(), "-c", str(file), "-o", str(path)], self.source)
            yield path

    def _libraries(self) -> list[str]:
        words = shlex.split(self.libraries)
        return [word if word.startswith("-") else str(self.source / word) for word in words]

    def _flags(self) -> list[str]:
        return [*shlex.split(self.flags), f"-I{DRIVERS}", f"-I{DRIVERS / 'config'}"]

    def _found(self, patterns: str) -> list[Path]:
        """Return the files of patterns, sorted."""
        return [path for pattern in patterns.split() for path in sorted(self.source.glob(pattern))]

    def _compile(self, files: Sequence[Path], path: Path) -> None:
        """Compile files, and link them into one module."""
        with TemporaryDirectory() as text:
            parts: list[str] = []
            for number, file in enumerate(files):
                parts.append(f"{text}/{number}.bc")
                options = [*UNOPTIMIZED[self.level], *self._flags(), "-emit-llvm", "-c", "-o", parts[-1]]
                _run(["clang-22", *options, os.path.relpath(file, self.source)], self.source)
            self.kept.mkdir(parents=True, exist_ok=True)
            _write(path, _run(["llvm-link-22", "-S", *parts, "-o", "-"], self.source))

    def _divide(self, path: Path) -> None:
        """Move the functions that do not match `only` to another module."""
        command = ["llvm-extract-22", "-S", f"--rfunc={self.only}", str(path), "-o", "-"]
        chosen = _run(command, self.kept)
        _write(self.kept / "rest.ll", _run([*command, "--delete"], self.kept))
        _write(path, chosen)


def _run(command: Sequence[str], where: Path) -> bytes:
    return subprocess.run(command, cwd=where, check=True, capture_output=True, timeout=600).stdout


def _write(path: Path, data: bytes) -> None:
    """Write a file at once: another process must not read a part of it."""
    part = path.with_name(f"{path.name}.{os.getpid()}")
    part.write_bytes(data)
    part.replace(path)
