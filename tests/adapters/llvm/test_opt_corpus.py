"""Random pipelines on C programs, compared with `opt` byte for byte.

The programs are Brotli and LZ4, whose sources npm's packages iltorb and lz4 carry.
"""

import random
import shutil
import subprocess
import tarfile
from collections.abc import Sequence
from pathlib import Path

import pytest

import apass
from apass.adapters.llvm import load_module, save_text
from apass.adapters.llvm.catalogue import Catalogue, PassEntry
from apass.adapters.llvm.opt import find_opt
from apass.adapters.programs import OPT
from tests.helpers.amounts import some
from tests.helpers.kept_files import kept_folder
from tests.helpers.llvm_modules import needs_opt
from tests.helpers.rows import row

pytestmark = [
    needs_opt,
    pytest.mark.process,
    pytest.mark.network,
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("clang-22") is None, reason="needs clang-22"),
]

PACKAGES = {"iltorb@2.4.5": "brotli/c", "lz4@0.6.5": "deps/lz4/lib"}
"""The packages, and the folder of each with programs."""

LEFT_OUT = ("dot-", "view-", "print", "trigger-", "dxil", "attributor")
"""Passes that crash on purpose, write files or need minutes."""


@pytest.fixture(scope="module")
def programs() -> Sequence[Path]:
    """Return the programs as clang gives them to the passes."""
    folder = kept_folder()
    found: list[Path] = []
    for package, sources in PACKAGES.items():
        archive = folder / f"{package.replace('@', '-')}.tgz"
        if not archive.exists():
            if shutil.which("npm") is None:
                pytest.skip("needs npm")
            done = subprocess.run(["npm", "pack", "--silent", package], cwd=folder, capture_output=True, check=False)
            if done.returncode or not archive.exists():
                pytest.skip(f"npm cannot fetch {package}")
        target = folder / archive.stem
        if not target.exists():
            with tarfile.open(archive) as packed:
                packed.extractall(target, filter="data")
        for source in sorted((target / "package" / sources).rglob("*.c")):
            text = source.with_suffix(".ll")
            if not text.exists():
                options = ["-O2", "-Xclang", "-disable-llvm-passes", "-S", "-emit-llvm"]
                include = ["-I", str(target / "package" / sources / "include")]
                subprocess.run(["clang-22", *options, *include, source, "-o", text], check=True, timeout=120)
            found.append(text)
    return found


class Texts:
    """Draws pipelines in the language of `opt`."""

    def __init__(self, catalogue: Catalogue, seed: object) -> None:
        self.random = random.Random(str(seed))
        entries = [entry for entry in catalogue.passes if not entry.analyses and not entry.name.startswith(LEFT_OUT)]
        self.by_level = {
            level: [entry for entry in entries if entry.levels == (level,)]
            for level in ("module", "cgscc", "function", "loop")
        }

    def draw(self) -> str:
        """Return a pipeline."""
        return ",".join(self.element() for _ in range(self.random.randint(1, 4)))

    def element(self) -> str:
        kind = self.random.choice(("module", "function", "function", "cgscc", "pipeline"))
        if kind == "module":
            return self.named("module")
        if kind == "pipeline":
            return f"default<{self.random.choice(('O0', 'O1', 'O2', 'O3', 'Os', 'Oz'))}>"
        inner = ",".join(self.function() for _ in range(self.random.randint(1, 4)))
        return f"function({inner})" if kind == "function" else f"cgscc({self.named('cgscc')},function({inner}))"

    def function(self) -> str:
        if self.random.random() < 0.25:
            return f"loop-mssa({self.named('loop')},{self.named('loop')})"
        return self.named("function")

    def named(self, level: str) -> str:
        """Return a pass with some of its parameters."""
        entry: PassEntry = self.random.choice(self.by_level[level])
        words: list[str] = []
        for parameter in entry.parameters:
            if parameter.kind == "level":
                words.append(self.random.choice(parameter.choices))
            elif self.random.random() < 0.2 and parameter.kind == "switch":
                words.append(self.random.choice((parameter.name, f"no-{parameter.name}")))
        return entry.name + (f"<{';'.join(words)}>" if words else "")


def bytes_of_opt(program: Path, text: str) -> bytes | None:
    """Return what `opt` writes; None if it fails."""
    command = [str(OPT.find()), "-S", f"-passes={text}", str(program), "-o", "-"]
    done = subprocess.run(command, capture_output=True, check=False, timeout=300)
    return None if done.returncode else done.stdout


FAILURES = (apass.errors.AdapterError, apass.errors.HelperError, apass.errors.PipelineSyntaxError)


def test_random_pipelines_give_the_bytes_of_opt(programs: Sequence[Path], tmp_path: Path) -> None:
    opt = find_opt()
    assert opt is not None
    equal, varying, written = 0, list[str](), tmp_path / "written.ll"
    for number in some(range(500)):
        texts = Texts(opt.catalogue, number)
        program, text = texts.random.choice(programs), texts.draw()
        expected = bytes_of_opt(program, text)
        with row((program.name, text)):
            if expected is None:
                with pytest.raises(FAILURES):
                    apass.run(apass.parse_pipeline(f"llvm:{text}"), load_module(program))
                continue
            save_text(apass.run(apass.parse_pipeline(f"llvm:{text}"), load_module(program)), written)
            if written.read_bytes() == expected:
                equal += 1
            else:
                # Some passes of LLVM, such as `normalize`, depend on addresses.
                assert len({bytes_of_opt(program, text) for _ in range(8)}) > 1, "opt always gives the same result"
                varying.append(text)
    print(f"{equal} equal, {len(varying)} for which opt itself varies")
    assert equal > 20 * len(varying)
