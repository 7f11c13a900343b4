"""The commands of the README and of the examples install what they need."""

import ast
import re
import sys
from collections.abc import Iterator
from importlib.metadata import packages_distributions, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from benchmarks.arena.tools import TOOLS
from tests.helpers.repository import ROOT

EXAMPLES = sorted(path.name for path in (ROOT / "examples").glob("*.py"))


def installed_by(text: str) -> set[str]:
    """Return the names of the distributions that pip installs for its arguments."""
    names: set[str] = set()
    pending = [Requirement(word.strip("'\"")) for word in text.split()]
    while pending:
        requirement = pending.pop()
        name = requirement.name.lower().replace("_", "-")
        if name in names and not requirement.extras:
            continue
        names.add(name)
        environments = [{"extra": extra} for extra in requirement.extras or {""}]
        pending.extend(
            dependency
            for dependency in map(Requirement, requires(name) or ())
            if dependency.marker is None or any(map(dependency.marker.evaluate, environments))
        )
    return names


def imported_by(path: Path, seen: set[Path]) -> Iterator[str]:
    """Iterate over the libraries that a module imports, also by modules of apass."""
    for node in ast.parse(path.read_text()).body:
        for inner in ast.walk(node) if isinstance(node, ast.Try) else [node]:
            if isinstance(inner, ast.Import):
                names = [alias.name for alias in inner.names]
            elif isinstance(inner, ast.ImportFrom):
                names = [inner.module or "", *(f"{inner.module}.{alias.name}" for alias in inner.names)]
            else:
                continue
            for name in names:
                base = ROOT / name.replace(".", "/")
                if not (ROOT / name.partition(".")[0]).is_dir():
                    yield name.partition(".")[0]
                    continue
                for file in (base.with_suffix(".py"), base / "__init__.py"):
                    if file.exists() and file not in seen:
                        seen.add(file)
                        yield from imported_by(file, seen)


def missing(arguments: str, path: Path) -> set[str]:
    """Return the libraries that a program imports and pip does not install."""
    installed, distributions = installed_by(arguments), packages_distributions()
    libraries = set(imported_by(path, set())) - sys.stdlib_module_names
    return {name for name in libraries if not {item.lower() for item in distributions[name]} & installed}


@pytest.mark.slow
def test_main_command_installs_what_it_imports() -> None:
    text = (ROOT / "README.md").read_text()
    command = re.search(r"pip install -e '\.\[(.*?)\]' && \.venv/bin/python -m (\S+)", text)
    assert command is not None
    path = ROOT / command[2].replace(".", "/") / "__main__.py"
    assert missing(f"apass[{command[1]}]", path) == set()
    assert missing("apass", path) >= {"onnx", "onnx_ir"}
    assert {tool.distribution for tool in TOOLS} <= installed_by(f"apass[{command[1]}]")


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_example_names_what_to_install(name: str) -> None:
    path = ROOT / "examples" / name
    command = re.search(r"^    pip install (.*)$", path.read_text(), re.MULTILINE)
    assert command is not None
    assert missing(command[1], path) == set()
