"""Runs tools on models in processes, and compares outputs and latency."""

import hashlib
import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import anyio
import onnx

from apass.adapters.onnx.outputs import Engine, Status, Verdict, compare_outputs
from benchmarks.arena.culprits import find_culprit
from benchmarks.arena.latency import Latency
from benchmarks.arena.models import Model
from benchmarks.arena.processes import Ended, run_module
from benchmarks.arena.rows import Outputs, Row
from benchmarks.arena.tools import Tool

__all__ = ["Contest", "Settings", "count_foreign", "count_nodes", "interface_change"]

LATENCY_SECONDS: Final = 4.0
"""Seconds after which no further round of the latency of one model is started."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How the tools are run."""

    jobs: int = 2
    """Number of processes at once."""
    time_limit: float = 300.0
    """Seconds for each process and for each comparison."""
    latency: bool = True
    """Whether to measure the latency."""
    keep: Path | None = None
    """A folder in which the results remain."""


class Contest:
    """Runs all tools on one model after the other.

    The latency of a model is measured while nothing else runs.
    """

    def __init__(self, tools: Sequence[Tool], settings: Settings) -> None:
        self._versions = {tool.name: tool.version for tool in tools}
        self._tools = tools
        self._settings = settings
        self._slots = anyio.CapacityLimiter(settings.jobs)
        self._comparisons = anyio.CapacityLimiter(settings.jobs)

    def lacks(self, model: Model, rows: Collection[Row]) -> list[Tool]:
        """Return the tools that have no row for the model with their version."""
        latency = self._settings.latency
        known = {
            (row.tool, row.version)
            for row in rows
            if row.sha256 == model.sha256
            and not (latency and row.outputs is not Outputs.NONE and row.latency is None and not row.latency_error)
        }
        return [tool for tool in self._tools if (tool.name, self._versions[tool.name]) not in known]

    async def rows(self, model: Model, data: bytes, tools: Sequence[Tool]) -> list[Row]:
        """Return the rows of the tools, in their order."""
        rows: dict[str, Row] = {}
        with TemporaryDirectory(prefix="arena-") as name:
            folder = anyio.Path(name)
            if self._settings.keep is not None:
                folder = anyio.Path(self._settings.keep, model.name)
                await folder.mkdir(parents=True, exist_ok=True)
            match = _Match(model, data, Path(folder), self._settings, self._comparisons)
            await anyio.Path(match.original).write_bytes(data)

            async def play(tool: Tool) -> None:
                async with self._slots:
                    rows[tool.name] = await match.row(tool, self._versions[tool.name])

            async with anyio.create_task_group() as group:
                for tool in tools:
                    group.start_soon(play, tool)
            if self._settings.latency:
                await match.add_latency(rows)
        return [rows[tool.name] for tool in tools]


class _Match:
    """The runs of all tools on one model."""

    def __init__(
        self, model: Model, data: bytes, folder: Path, settings: Settings, limiter: anyio.CapacityLimiter
    ) -> None:
        self._model = model
        self._data = data
        self._folder = folder
        self._settings = settings
        self._limiter = limiter
        self._proto = onnx.ModelProto.FromString(data)
        self.original = folder / "original.onnx"

    def _target(self, tool: str) -> Path:
        return self._folder / f"{tool}.onnx"

    async def row(self, tool: Tool, version: str) -> Row:
        """Run a tool, and return its row without the latency."""
        model, target = self._model, self._target(tool.name)
        ended = await self._optimize(tool, (), target)
        row = Row(
            model=model.name,
            wheel=model.wheel.requirement,
            sha256=model.sha256,
            group=model.wheel.group,
            tuned=model.wheel.tuned,
            tool=tool.name,
            version=version,
            nodes_before=count_nodes(self._proto),
            bytes_before=len(self._data),
            process_seconds=ended.seconds,
            peak=ended.peak,
            error=ended.error,
            timed_out=ended.timed_out,
        )
        if ended.error:
            return row
        if not target.exists():
            return replace(row, error="the tool wrote no file")
        data = await anyio.Path(target).read_bytes()
        try:
            result = onnx.ModelProto.FromString(data)
            row = replace(
                row,
                nodes=count_nodes(result),
                bytes=len(data),
                foreign=count_foreign(self._proto, result),
                interface=interface_change(self._proto, result),
            )
        except Exception as error:
            # protobuf's DecodeError has no type stubs.
            return replace(row, error=f"the result is not an ONNX model: {error}")
        row = replace(row, seconds=ended.values.get("seconds"), **await self._outputs(data))
        if row.outputs is not Outputs.CHANGED:
            return row
        return replace(row, culprit=await self._culprit(tool))

    async def add_latency(self, rows: dict[str, Row]) -> None:
        """Measure the results that exist, and set the latency of their rows.

        Equal files are measured once, and a copy of the original as its second session.
        """
        by_hash: dict[str, list[str]] = {hashlib.sha256(self._data).hexdigest(): []}
        for name, row in rows.items():
            if row.outputs is not Outputs.NONE:
                data = await anyio.Path(self._target(name)).read_bytes()
                by_hash.setdefault(hashlib.sha256(data).hexdigest(), []).append(name)
        if not any(by_hash.values()):
            return
        _, *results = by_hash.values()
        files = [str(self.original), str(self.original), *(str(self._target(names[0])) for names in results)]
        limit = self._settings.time_limit
        ended = await run_module("benchmarks.arena.latency", [str(LATENCY_SECONDS), *files], limit)
        times: dict[str, list[float]] = ended.values.get("times", {})
        errors: dict[str, str] = ended.values.get("errors", {})
        for index, names in enumerate(by_hash.values(), 1):
            samples = [times.get(key) for key in ("0", "1", str(index))]
            latency = Latency.of(*filter(None, samples)) if all(samples) else None
            error = ended.error or errors.get(str(index)) or errors.get("0") or "not measured"
            for name in names:
                rows[name] = replace(rows[name], latency=latency, latency_error="" if latency else error)

    async def _optimize(self, tool: Tool, skip: Collection[str], target: Path) -> Ended:
        await anyio.Path(target).unlink(missing_ok=True)
        described = json.dumps({"factory": tool.factory, "arguments": tool.arguments, "skip": list(skip)})
        arguments = [described, str(self.original), str(target)]
        return await run_module("benchmarks.arena.worker", arguments, self._settings.time_limit)

    async def _outputs(self, data: bytes, *, confirm: bool = True) -> dict[str, Any]:
        """Return the fields of the row about the outputs.

        The reference evaluator confirms a difference, and evaluates what onnxruntime does not. If onnxruntime runs only
        the original, the result is of no use for it, even if the reference evaluator runs it.
        """
        try:
            verdict = await self._compare(data, ("onnxruntime",))
            if verdict.status is not Status.ONLY_BEFORE and (
                verdict.comparison.changed is None or (verdict.changed and confirm)
            ):
                verdict = await self._compare(data, ("onnxruntime", "reference"))
        except Exception as error:
            # One model must not end the run.
            return {"outputs": Outputs.UNVERIFIED, "reason": f"{type(error).__name__}: {error}"}
        amount = None if verdict.difference is None else verdict.difference.amount
        changed = verdict.comparison.changed
        if changed is None:
            outputs = Outputs.UNVERIFIED
        elif changed:
            outputs = Outputs.CHANGED
        else:
            is_identical = verdict.status is Status.EQUAL and verdict.difference is None
            outputs = Outputs.IDENTICAL if is_identical else Outputs.NEAR
        finite = amount if amount is not None and isfinite(amount) else None
        return {"outputs": outputs, "difference": finite, "reason": verdict.reason}

    async def _compare(self, data: bytes, engines: Sequence[Engine]) -> Verdict:
        limit = self._settings.time_limit
        return await compare_outputs(self._data, data, time_limit=limit, limiter=self._limiter, engines=engines)

    async def _culprit(self, tool: Tool) -> str:
        attempt = self._folder / f"{tool.name}.attempt.onnx"

        async def is_same(data: bytes) -> bool:
            # The reference evaluator takes minutes for large models. It has confirmed the difference once.
            found = await self._outputs(data, confirm=False)
            return found["outputs"] in (Outputs.IDENTICAL, Outputs.NEAR)

        async def is_good(skip: Collection[str]) -> bool:
            ended = await self._optimize(tool, skip, attempt)
            return not ended.error and attempt.exists() and await is_same(await anyio.Path(attempt).read_bytes())

        with anyio.move_on_after(5 * self._settings.time_limit):
            return await find_culprit(tool, self._data, is_good, is_same)
        return ""


def count_nodes(model: onnx.ModelProto) -> int:
    """Return the number of nodes, with subgraphs and functions.

    Constant nodes do not count.
    """
    return _count(model, lambda node: True)


def count_foreign(before: onnx.ModelProto, after: onnx.ModelProto) -> int:
    """Return the number of nodes of `after` whose domain no node of `before` has."""
    domains = {"", "ai.onnx", *(function.domain for function in after.functions)}

    def note(node: Any) -> bool:
        domains.add(node.domain)
        return False

    _count(before, note)
    return _count(after, lambda node: node.domain not in domains)


def interface_change(before: onnx.ModelProto, after: onnx.ModelProto) -> str:
    """Return how the inputs and outputs differ; empty if they do not.

    Names and types count.
    """
    changes: list[str] = []
    for kind, old, new in (
        ("input", _inputs(before), _inputs(after)),
        ("output", _types(before.graph.output), _types(after.graph.output)),
    ):
        changes += [f"{kind} {name!r} is missing" for name in old if name not in new]
        changes += [f"{kind} {name!r} is new" for name in new if name not in old]
        changes += [f"{kind} {name!r} has another type" for name in old if name in new and old[name] != new[name]]
    return ", ".join(changes)


def _inputs(model: onnx.ModelProto) -> dict[str, object]:
    """Return the types of the inputs without a default."""
    defaults = {tensor.name for tensor in model.graph.initializer}
    return {name: kind for name, kind in _types(model.graph.input).items() if name not in defaults}


def _types(values: Any) -> dict[str, object]:
    # The shape of an output may have become more precise.
    return {value.name: (value.type.WhichOneof("value"), value.type.tensor_type.elem_type) for value in values}


def _count(model: onnx.ModelProto, selects: Callable[[Any], bool]) -> int:
    number = 0
    graphs: list[Any] = [model.graph, *model.functions]
    for graph in graphs:  # the list grows in the loop
        for node in graph.node:
            number += node.op_type != "Constant" and selects(node)
            for attr in node.attribute:
                graphs += [attr.g] if attr.HasField("g") else []
                graphs += attr.graphs
    return number
