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
from apass.testing import RecordingInstrument

__all__ = ["Pause", "Player", "Scenario", "play", "read_scenarios"]

Scenario = dict[str, Any]
Module = dict[str, str]
Pause = Callable[[], Awaitable[None]]
"""Awaited by hooks and passes before and after their event; None makes all of them plain functions."""


class BoomError(Exception):
    """Raised on purpose by a pass or an instrument of a scenario."""


def read_scenarios(path: Path) -> list[Scenario]:
    """Return the scenarios in a file that has one JSON object per line."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def play(scenario: Scenario, backend: str, pause: Pause | None, kind: "type[Player] | None" = None) -> list[str]:
    """Run a scenario in a new event loop and contextvars context; return its events."""
    player = (kind or Player)(scenario, pause)
    with _registered(player):
        Context().run(lambda: anyio.run(player.play, backend=backend))
    return player.events


@contextmanager
def _registered(player: "Player") -> Generator[None, None, None]:
    names = [name for name, spec in player.scenario["passes"].items() if spec.get("registered")]
    for name in names:
        apass.register_pass(name, player.passes[name])
    try:
        yield
    finally:
        for name in names:
            apass.unregister_pass(name)


class _Instrument(RecordingInstrument):
    """A recorder that suspends around its events, and raises BoomError."""

    suspending: Callable[[Callable[..., Any]], Callable[..., Any]]

    def record(self, text: str, answer: bool | None = None) -> Any:
        return self.suspending(self._event)(text, answer)

    def _event(self, text: str, answer: bool | None) -> Any:
        try:
            return super().record(text, answer)
        except ValueError as error:
            raise BoomError(str(error)) from None


class Player:
    """Execution of one scenario."""

    def __init__(self, scenario: Scenario, pause: Pause | None) -> None:
        self.scenario = scenario
        self.pause = pause
        self.events: list[str] = []
        self.names = tuple(scenario["passes"])
        self.module: Any = self.make_module(scenario["functions"])
        self.instruments = {name: self._instrument(name, spec) for name, spec in scenario["instruments"].items()}
        self.passes: dict[str, apass.Pass[Any]] = {}
        for name, spec in scenario["passes"].items():
            self.passes[name] = self.make_pass(name, spec)
        self.contexts = {name: self._context(spec) for name, spec in scenario.get("contexts", {}).items()}

    async def play(self) -> None:
        try:
            await self._steps(self.scenario["steps"], self.module)
        except Exception as error:
            self.events.append(f"raised {_label(error)}")

    def _instrument(self, name: str, spec: Scenario) -> object:
        fails = {
            line
            for hook in spec.get("raises", ())
            for line in (
                [hook] if " " in hook or hook.endswith("_pass_ctx") else [f"{hook} {name}" for name in self.names]
            )
        }
        # Events show an instrument by the name of its class.
        kind: type[_Instrument] = type(name, (_Instrument,), {})
        instrument = kind(name, self.events, fails, spec.get("skips", ()), hooks=spec["hooks"])
        instrument.suspending = self._suspending
        return instrument

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

    def make_module(self, names: Iterable[str]) -> Any:
        """Return the module of the scenario."""
        return {name: f"body of {name}" for name in names}

    def make_pass(self, name: str, spec: Scenario) -> "apass.Pass[Any]":
        """Return one pass of the scenario; those before it are in `passes`."""
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
        case apass.errors.AdapterError(__cause__=cause) if cause is not None:
            # A pass of TVM failed; TVM keeps the message of an error, and replaces its class.
            return "bad-return" if "return value of a module pass" in str(cause) else str(cause)
        case apass.errors.UnknownPassError():
            return "unknown-pass"
        case apass.errors.PassResultError():
            return "bad-return"
        case _:
            return f"other:{type(error).__name__}:{error}"
