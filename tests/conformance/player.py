"""Runs recorded TVM scenarios in apass and returns the emitted events.

A scenario is a JSON object: the `functions` of a module, `instruments`, `contexts`, `passes`, and the `steps` to run.
Its `expect` is the list of events that TVM emitted.
"""

import json
from collections.abc import Awaitable, Callable, Generator, Iterable
from contextlib import contextmanager
from contextvars import Context
from pathlib import Path
from typing import Any

import anyio

import apass

__all__ = ["Pause", "Scenario", "first_difference", "play", "read_scenarios"]

Scenario = dict[str, Any]
Module = dict[str, str]
Pause = Callable[[], Awaitable[None]]
"""Awaited by hooks and passes before and after their event; None makes all of them plain functions."""


class BoomError(Exception):
    """Raised on purpose by a pass or an instrument of a scenario."""


def read_scenarios(path: Path) -> list[Scenario]:
    """Return the scenarios in a file that has one JSON object per line."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def play(scenario: Scenario, backend: str, pause: Pause | None) -> list[str]:
    """Run a scenario in a new event loop and contextvars context; return its events."""
    player = _Player(scenario, pause)
    with _registered(player):
        Context().run(lambda: anyio.run(player.play, backend=backend))
    return player.events


def first_difference(expect: list[str], actual: list[str]) -> str:
    """Return two traces side by side, from five events before the first difference."""
    first = next(
        (i for i, (a, b) in enumerate(zip(expect, actual, strict=False)) if a != b), min(len(expect), len(actual))
    )
    rows = [f"{i:3} {_event_at(expect, i):45} {_event_at(actual, i)}" for i in range(max(0, first - 5), first + 5)]
    return "\n".join([f"    {'TVM':45} apass", *rows])


def _event_at(events: list[str], index: int) -> str:
    return events[index] if index < len(events) else "-"


@contextmanager
def _registered(player: "_Player") -> Generator[None, None, None]:
    names = [name for name, spec in player.scenario["passes"].items() if spec.get("registered")]
    for name in names:
        apass.register_pass(name, player.passes[name])
    try:
        yield
    finally:
        for name in names:
            apass.unregister_pass(name)


class _Player:
    """Execution of one scenario."""

    def __init__(self, scenario: Scenario, pause: Pause | None) -> None:
        self.scenario = scenario
        self.pause = pause
        self.events: list[str] = []
        self.module: Module = {name: f"body of {name}" for name in scenario["functions"]}
        self.instruments = {name: self._instrument(name, spec) for name, spec in scenario["instruments"].items()}
        self.passes: dict[str, apass.Pass[Module]] = {}
        for name, spec in scenario["passes"].items():
            self.passes[name] = self._pass(name, spec)
        self.contexts = {name: self._context(spec) for name, spec in scenario.get("contexts", {}).items()}

    async def play(self) -> None:
        try:
            await self._steps(self.scenario["steps"], self.module)
        except Exception as error:
            self.events.append(f"raised {_label(error)}")

    def _instrument(self, name: str, spec: Scenario) -> object:
        hooks = {kind: self._hook(name, kind, spec) for kind in spec["hooks"]}
        instrument: type[object] = type(name, (), hooks)
        return apass.pass_instrument(instrument)()

    def _hook(self, name: str, kind: str, spec: Scenario) -> Callable[..., Any]:
        raises, skips = spec.get("raises", ()), spec.get("skips", ())

        def event(info: apass.PassInfo | None) -> bool | None:
            suffix = "" if info is None else f" {info.name}"
            self.events.append(f"{name}.{kind}{suffix}")
            if kind in raises or (info is not None and f"{kind}{suffix}" in raises):
                raise BoomError(f"{name}.{kind}{suffix}")
            return info is not None and info.name not in skips if kind == "should_run" else None

        emit = self._suspending(event)
        if kind in ("enter_pass_ctx", "exit_pass_ctx"):

            def hook_of_context(self: object) -> Any:
                return emit(None)

            return hook_of_context

        def hook_of_pass(self: object, mod: Module, info: apass.PassInfo) -> Any:
            return emit(info)

        return hook_of_pass

    def _suspending(self, event: Callable[..., Any]) -> Callable[..., Any]:
        pause = self.pause
        if pause is None:
            return event

        async def suspending(*arguments: Any) -> Any:
            await pause()
            try:
                return event(*arguments)
            finally:
                await pause()

        return suspending

    def _pass(self, name: str, spec: Scenario) -> "apass.Pass[Module]":
        opt_level, required = spec["opt_level"], spec["required"]
        if spec["kind"] == "sequential":
            return apass.Sequential([self.passes[inner] for inner in spec["passes"]], opt_level, name, required)
        if spec["kind"] == "function":
            body = self._suspending(self._function_body(name, spec))
            return apass.function_pass(body, opt_level, name, required)
        return apass.module_pass(self._module_body(name, spec), opt_level, name, required)

    def _function_body(self, name: str, spec: Scenario) -> Callable[..., str]:
        first = self.module[self.scenario["functions"][0]]

        def body(func: str, mod: Module, ctx: apass.PassContext) -> str:
            if func is first:
                self.events.append(f"run {name}")
                if spec.get("raises"):
                    raise BoomError(f"pass {name}")
            return func

        return body

    def _module_body(self, name: str, spec: Scenario) -> Callable[..., Any]:
        def end(mod: Module) -> Module | None:
            if spec.get("raises"):
                raise BoomError(f"pass {name}")
            return None if spec.get("returns_none") else mod

        def plain(mod: Module, ctx: apass.PassContext) -> Module | None:
            self.events.append(f"run {name}")
            return end(mod)

        async def with_steps(mod: Module, ctx: apass.PassContext) -> Module | None:
            self.events.append(f"run {name}")
            await self._steps(spec["body"], mod)
            return end(mod)

        return with_steps if spec.get("body") else self._suspending(plain)

    def _context(self, spec: Scenario) -> apass.PassContext:
        instruments = [self.instruments[name] for name in spec["instruments"]]
        return apass.PassContext(spec["opt_level"], spec["required_pass"], spec["disabled_pass"], instruments)

    async def _steps(self, steps: Iterable[Scenario], mod: Module) -> None:
        for step in steps:
            if step["op"] == "run":
                mod = await self.passes[step["pass"]](mod)
            else:
                await self._step(step, mod)

    async def _step(self, step: Scenario, mod: Module) -> None:
        match step["op"]:
            case "with":
                async with self.contexts[step["name"]] if "name" in step else self._context(step["ctx"]):
                    await self._steps(step["body"], mod)
            case "override":
                instruments = [self.instruments[name] for name in step["instruments"]]
                await apass.PassContext.current().override_instruments(instruments)
            case "try":
                await self._try(step["body"], mod)
            case "current":
                ctx = apass.PassContext.current()
                names = ",".join(type(instrument).__name__ for instrument in ctx.instruments)
                self.events.append(f"current opt_level={ctx.opt_level} instruments={names}")
            case other:
                raise ValueError(f"unknown step {other!r}")

    async def _try(self, steps: Iterable[Scenario], mod: Module) -> None:
        try:
            await self._steps(steps, mod)
        except Exception as error:
            self.events.append(f"caught {_label(error)}")


def _label(error: Exception) -> str:
    match error:
        case BoomError():
            return str(error)
        case apass.UnknownPassError():
            return "unknown-pass"
        case apass.PassResultError():
            return "bad-return"
        case _:
            return f"other:{type(error).__name__}:{error}"
