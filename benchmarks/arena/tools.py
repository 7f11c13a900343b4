"""The tools of the arena, and which of them are installed."""

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib.metadata import PackageNotFoundError, version
from typing import Final

import apass
from benchmarks.arena.models import ArenaError
from benchmarks.machine import describe

__all__ = ["TOOLS", "Tool", "installed", "select_tools"]

_OPTIMIZERS: Final = "benchmarks.arena.optimizers"


@dataclass(frozen=True, slots=True)
class Tool:
    """An optimizer with its settings."""

    name: str
    """The name in the table and in `--tools`."""
    distribution: str
    """The distribution that it needs."""
    factory: str
    """The function that returns its run, as `module:function`; see `benchmarks.arena.optimizers`."""
    arguments: tuple[str, ...] = ()
    """The arguments of that function after `skip`."""
    parts: str = ""
    """The function that lists the parts to leave out, as `module:function`; empty if there is none."""

    @property
    def pipeline(self) -> tuple[str, int] | None:
        """The pipeline and the level of apass; None for other tools."""
        return (self.arguments[0], int(self.arguments[1])) if self.distribution == "apass" else None

    @property
    def version(self) -> str:
        """The installed version, for apass with the revision.

        Raises:
            PackageNotFoundError: if it is not installed.

        """
        if self.distribution != "apass":
            return version(self.distribution)
        machine = describe()
        return f"{machine['apass']} ({machine['revision']})" if machine["revision"] else str(machine["apass"])


def _apass(name: str, pipeline: str, level: int) -> Tool:
    return Tool(name, "apass", f"{_OPTIMIZERS}:pipeline", (pipeline, str(level)))


def _peer(name: str, library: str, *arguments: str) -> Tool:
    return Tool(name, library, f"{_OPTIMIZERS}:{library}", arguments, f"{_OPTIMIZERS}:{library}_parts")


TOOLS: Final = (
    *(_apass(f"apass{level}", "onnx.Default", level) for level in (1, 2, 3)),
    _apass("apass-best", "onnx.Best", 3),
    _peer("onnxslim", "onnxslim"),
    _peer("onnxscript", "onnxscript"),
    _peer("onnxsim", "onnxsim"),
    _peer("onnxoptimizer", "onnxoptimizer"),
    _peer("ort-basic", "onnxruntime", "ORT_ENABLE_BASIC"),
    _peer("ort-extended", "onnxruntime", "ORT_ENABLE_EXTENDED"),
)
"""All tools."""


def installed(tools: Sequence[Tool]) -> list[Tool]:
    """Return the tools that are installed."""
    return [tool for tool in tools if _is_installed(tool)]


def _is_installed(tool: Tool) -> bool:
    try:
        version(tool.distribution)
        if tool.pipeline is not None:
            apass.get_pass(tool.pipeline[0])
    except (PackageNotFoundError, apass.ApassError):
        # The pass is unknown, or the module of its entry point is missing.
        return False
    return True


def select_tools(tools: Sequence[Tool], patterns: Sequence[str]) -> list[Tool]:
    """Return the tools whose names match one of the patterns.

    Without patterns, all are selected.

    Raises:
        ArenaError: if a pattern matches no tool.

    """
    for pattern in patterns:
        if not any(fnmatchcase(tool.name, pattern) for tool in tools):
            raise ArenaError(f"no tool matches {pattern!r}; installed are {', '.join(tool.name for tool in tools)}")
    return [tool for tool in tools if any(fnmatchcase(tool.name, pattern) for pattern in patterns or ("*",))]
