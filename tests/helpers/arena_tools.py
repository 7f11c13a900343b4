"""Optimizers for tests of the arena; some fail or change outputs."""

import os
import signal
from collections.abc import Collection
from pathlib import Path
from time import sleep

import numpy as np
import onnx

from benchmarks.arena.optimizers import Run
from benchmarks.arena.tools import Tool

PARTS = ("rename", "add_one", "reorder")
"""The parts of the tool `changing`; the second one changes the outputs."""


def copying(skip: Collection[str]) -> Run:
    """Return a run that copies the model."""
    return lambda source, target: target.write_bytes(source.read_bytes())


def changing(skip: Collection[str]) -> Run:
    """Return a run that adds one to the first constant of the model."""

    def optimize(source: Path, target: Path) -> None:
        model = onnx.ModelProto.FromString(source.read_bytes())
        if "add_one" not in skip:
            constant = model.graph.initializer[0]
            values = np.frombuffer(constant.raw_data, np.float32) + 1
            constant.raw_data = values.astype(np.float32).tobytes()
        target.write_bytes(model.SerializeToString())

    return optimize


def parts() -> list[str]:
    """Return the parts of the tool that changes outputs."""
    return list(PARTS)


def raising(skip: Collection[str]) -> Run:
    """Return a run that raises an error of two lines."""

    def optimize(source: Path, target: Path) -> None:
        raise ValueError("the first line\nthe second line")

    return optimize


def crashing(skip: Collection[str]) -> Run:
    """Return a run that ends its process by a signal."""
    return lambda source, target: os.kill(os.getpid(), signal.SIGSEGV)


def idle(skip: Collection[str]) -> Run:
    """Return a run that writes no file."""
    return lambda source, target: None


def hanging(skip: Collection[str]) -> Run:
    """Return a run that does not end."""
    return lambda source, target: sleep(600)


def tool(name: str, parts: str = "") -> Tool:
    """Return the tool of a function of this module."""
    return Tool(name, "onnx", f"{__name__}:{name}", parts=f"{__name__}:{parts}" if parts else "")
