"""Instruments: the order and arguments of hooks, and checks of hook names."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from anyio.lowlevel import checkpoint

import apass
from apass import PassContext, PassInfo, PassInstrument, Sequential, pass_instrument
from apass.core.hooks import Hooks
from apass.core.instrument import HOOKS, instrument_name
from apass.errors import PassResultError
from apass.testing import RecordingInstrument
from tests.helpers.recording import SuspendingRecorder, logging_pass, module_pass_of

pytestmark = pytest.mark.anyio

Module = dict[str, Any]
BOTH = pytest.mark.parametrize("recorder", [RecordingInstrument, SuspendingRecorder])


def failing_pass(log: list[str], name: str) -> apass.ModulePass[Module]:
    """Return a pass that logs `run NAME` and raises KeyError."""

    async def fail(mod: Module) -> Module:
        raise KeyError(name)

    return logging_pass(log, name, body=fail)


async def events(instruments: Sequence[object], pass_: apass.Pass[Module], log: list[str], **options: Any) -> list[str]:
    """Run a pass with instruments; return the log without the hooks of the context."""
    async with PassContext(instruments=instruments, **options):
        await pass_({})
    return [event for event in log if not event.endswith("_ctx")]


# The order of hooks.


@BOTH
async def test_hooks_run_in_order_of_instruments(recorder: type[RecordingInstrument]) -> None:
    log: list[str] = []
    assert await events([recorder("A", log), recorder("B", log)], logging_pass(log, "P"), log) == [
        "A.should_run P",
        "B.should_run P",
        "A.run_before_pass P",
        "B.run_before_pass P",
        "run P",
        "A.run_after_pass P",
        "B.run_after_pass P",
    ]


@BOTH
async def test_hooks_of_sequential_surround_hooks_of_passes(recorder: type[RecordingInstrument]) -> None:
    log: list[str] = []
    assert await events([recorder("A", log)], Sequential([logging_pass(log, "P")], name="S"), log) == [
        "A.should_run S",
        "A.run_before_pass S",
        "A.should_run P",
        "A.run_before_pass P",
        "run P",
        "A.run_after_pass P",
        "A.run_after_pass S",
    ]


@BOTH
async def test_every_should_run_is_called_before_skipping(recorder: type[RecordingInstrument]) -> None:
    log: list[str] = []
    mod: Module = {"f": 1}
    instruments = [recorder("A", log, skips=["P"]), recorder("B", log), recorder("C", log, skips=["P"])]
    async with PassContext(instruments=instruments):
        log.clear()
        assert await logging_pass(log, "P")(mod) is mod
        assert log == ["A.should_run P", "B.should_run P", "C.should_run P"]


async def test_should_run_is_not_called_for_required_pass() -> None:
    log: list[str] = []
    instruments = [RecordingInstrument("A", log, skips=["P"])]
    expected = ["A.run_before_pass P", "run P", "A.run_after_pass P"]
    assert await events(instruments, logging_pass(log, "P"), log, required_pass=["P"]) == expected


async def test_hooks_receive_modules_and_pass_info() -> None:
    calls: list[tuple[str, Module, PassInfo]] = []

    class Recording:
        def run_before_pass(self, mod: Module, info: PassInfo) -> None:
            calls.append(("before", mod, info))

        async def run_after_pass(self, mod: Module, info: PassInfo) -> None:
            await checkpoint()
            calls.append(("after", mod, info))

    double = module_pass_of(lambda mod, ctx: {name: 2 * n for name, n in mod.items()}, opt_level=0, name="Double")
    async with PassContext(instruments=[Recording()]):
        await double({"f": 1})
    assert calls == [("before", {"f": 1}, double.info), ("after", {"f": 2}, double.info)]


@pytest.mark.parametrize("hook", ["should_run", "run_before_pass"])
async def test_later_hooks_are_new_ones_after_override(hook: str) -> None:
    log: list[str] = []

    async def override(self: object, mod: Module, info: PassInfo) -> bool:
        await PassContext.current().override_instruments([RecordingInstrument("B", log)])
        return True

    overriding: type[object] = type("Overriding", (), {hook: override})
    assert await events([overriding()], logging_pass(log, "P"), log) == [
        *(["B.run_before_pass P"] if hook == "should_run" else []),
        "run P",
        "B.run_after_pass P",
    ]


# A pass that fails.


@BOTH
async def test_failed_pass_calls_failure_hooks_of_started_instruments(recorder: type[RecordingInstrument]) -> None:
    log: list[str] = []
    instruments = [recorder("A", log), recorder("B", log)]
    with pytest.raises(KeyError):
        await events(instruments, Sequential([failing_pass(log, "P")], name="S"), log)
    assert log[-6:-2] == [f"{name}.run_after_pass_failed {pass_}" for pass_ in "PS" for name in "AB"]


@BOTH
async def test_failed_before_hook_notifies_only_earlier_instruments(recorder: type[RecordingInstrument]) -> None:
    log: list[str] = []
    instruments = [recorder("A", log), recorder("B", log, ["run_before_pass P"]), recorder("C", log)]
    with pytest.raises(ValueError, match=r"B.run_before_pass P"):
        await events(instruments, logging_pass(log, "P"), log)
    assert log[6:-3] == ["A.run_before_pass P", "B.run_before_pass P", "A.run_after_pass_failed P"]


@BOTH
async def test_failed_after_hook_notifies_only_later_instruments(recorder: type[RecordingInstrument]) -> None:
    log: list[str] = []
    instruments = [recorder("A", log), recorder("B", log, ["run_after_pass P"]), recorder("C", log)]
    with pytest.raises(ValueError, match=r"B.run_after_pass P"):
        await events(instruments, logging_pass(log, "P"), log)
    assert log[10:-3] == ["A.run_after_pass P", "B.run_after_pass P", "C.run_after_pass_failed P"]


@pytest.mark.parametrize("index", [0, 1], ids=["before failing hook", "after failing hook"])
async def test_instrument_without_after_hook_gets_failure_of_another(index: int) -> None:
    log: list[str] = []

    class Failures:
        def run_before_pass(self, mod: Module, info: PassInfo) -> None:
            log.append("begun")

        def run_after_pass_failed(self, mod: Module, info: PassInfo, error: BaseException) -> None:
            log.append("failed")

    instruments: list[object] = [RecordingInstrument("A", [], ["run_after_pass P"])]
    instruments.insert(index, Failures())
    with pytest.raises(ValueError, match=r"A.run_after_pass P"):
        await events(instruments, logging_pass(log, "P"), log)
    assert log == ["begun", "run P", "failed"]


async def test_repeated_instrument_is_called_twice() -> None:
    log: list[str] = []
    recorder = RecordingInstrument("A", log)
    with pytest.raises(KeyError):
        await events([recorder, recorder], failing_pass(log, "P"), log)
    assert [event for event in log if "pass P" in event or "failed P" in event] == [
        *["A.run_before_pass P"] * 2,
        *["A.run_after_pass_failed P"] * 2,
    ]


async def test_plain_hooks_of_repeated_instrument_are_called_once() -> None:
    calls: list[str] = []

    class Plain:
        def run_before_function(self, func: Any, run: apass.Run) -> None:
            calls.append("run_before_function")

        def on_statistic(self, run: apass.Run | None, name: str, amount: float) -> None:
            calls.append("on_statistic")

    @apass.function_pass(opt_level=0)
    def Count(func: int, mod: Module, ctx: PassContext) -> int:
        ctx.statistic("counted")
        return func

    instrument = Plain()
    async with PassContext(instruments=[instrument, instrument]):
        await Count({"f": 1})
    assert calls == ["run_before_function", "on_statistic"]


async def test_failure_hook_receives_input_module_and_error() -> None:
    calls: list[tuple[Module, PassInfo, BaseException]] = []
    mod: Module = {"f": 1}

    class Recording:
        async def run_after_pass_failed(self, mod: Module, info: PassInfo, error: BaseException) -> None:
            await checkpoint()
            calls.append((mod, info, error))

    pass_ = failing_pass([], "P")
    async with PassContext(instruments=[Recording()]):
        with pytest.raises(KeyError) as caught:
            await pass_(mod)
    assert [(failed_module is mod, info, error is caught.value) for failed_module, info, error in calls] == [
        (True, pass_.info, True)
    ]


@BOTH
async def test_failing_failure_hook_adds_note_and_others_run(
    recorder: type[RecordingInstrument],
) -> None:
    log: list[str] = []
    instruments = [recorder("A", log, ["run_after_pass_failed P"]), recorder("B", log)]
    with pytest.raises(KeyError) as caught:
        await events(instruments, failing_pass(log, "P"), log)
    assert "and then a run_after_pass_failed raised ValueError: A.run_after_pass_failed P" in caught.value.__notes__
    assert log[-4:-2] == ["A.run_after_pass_failed P", "B.run_after_pass_failed P"]


@BOTH
async def test_failed_should_run_prevents_before_hooks(recorder: type[RecordingInstrument]) -> None:
    log: list[str] = []
    with pytest.raises(ValueError, match=r"A.should_run P"):
        await events([recorder("A", log, ["should_run P"]), recorder("B", log)], logging_pass(log, "P"), log)
    assert [event for event in log if not event.endswith("_ctx")] == ["A.should_run P"]


# Return values of hooks.


async def test_return_value_of_hook_is_ignored() -> None:
    log: list[str] = []

    class Returning:
        def enter_pass_ctx(self) -> int:
            return 1

        def exit_pass_ctx(self) -> str:
            return "left"

        def run_before_pass(self, mod: Module, info: PassInfo) -> bool:
            return True

        def run_after_pass(self, mod: Module, info: PassInfo) -> Module:
            return mod

        def run_after_pass_failed(self, mod: Module, info: PassInfo, error: BaseException) -> bool:
            return False

    assert await events([Returning()], logging_pass(log, "P"), log) == ["run P"]
    with pytest.raises(KeyError):
        await events([Returning()], failing_pass(log, "P"), log)


async def test_should_run_returning_none_raises() -> None:
    class Forgetful:
        def should_run(self, mod: Module, info: PassInfo) -> None: ...

    with pytest.raises(PassResultError) as caught:
        await events([Forgetful()], logging_pass([], "P"), [])
    assert "should_run of instrument 'Forgetful' returned None for pass 'P'; return " in str(caught.value)


# Undefined hooks.


def test_undefined_hooks_are_never_called() -> None:
    class Nothing(PassInstrument):
        pass

    @pass_instrument
    class OnlyBefore:
        def run_before_pass(self, mod: Module, info: PassInfo) -> None: ...

    hooks = Hooks.of([Nothing(), OnlyBefore(), PassInstrument()])
    counts = [len(hook_list) for hook_list in (hooks.should_run, hooks.before, hooks.after, hooks.failed, hooks.steps)]
    assert counts == [0, 1, 0, 0, 0]


async def test_user_class_named_pass_instrument_is_supported() -> None:
    log: list[str] = []

    def run_before_pass(self: object, mod: Module, info: PassInfo) -> None:
        log.append("begun")

    run_before_pass.__qualname__ = "PassInstrument.run_before_pass"
    instrument = type("PassInstrument", (), {"run_before_pass": run_before_pass})
    assert await events([instrument()], logging_pass(log, "P"), log) == ["begun", "run P"]


# Declaring instruments.


def empty_hook(self: object) -> None: ...


@pytest.mark.parametrize(
    ("misspelt", "expected"),
    [
        ("run_befor_pass", "run_before_pass"),
        ("run_before_passes", "run_before_pass"),
        ("runBeforePass", "run_before_pass"),
        ("run_before", "run_before_pass"),
        ("run_aftr_pass", "run_after_pass"),
        ("Run_After_Pass", "run_after_pass"),
        ("run_after_pass_fail", "run_after_pass_failed"),
        ("enter_pass_context", "enter_pass_ctx"),
        ("enter_pas_ctx", "enter_pass_ctx"),
        ("exit_pass_cxt", "exit_pass_ctx"),
        ("shouldrun", "should_run"),
        ("should_runs", "should_run"),
    ],
)
def test_misspelt_hook_raises_with_suggestion(misspelt: str, expected: str) -> None:
    def hook(self: object, mod: Module, info: PassInfo) -> None: ...

    declarations: list[Callable[[Any], object]] = [pass_instrument, lambda cls: PassContext(instruments=[cls()])]
    for declare in declarations:
        with pytest.raises(TypeError) as caught:
            declare(type("Mine", (), {misspelt: hook}))
        assert f"Mine.{misspelt} is not a hook; did you mean {expected!r}?" in str(caught.value)
    with pytest.raises(TypeError, match=f"did you mean '{expected}'"):
        type("Mine", (PassInstrument,), {misspelt: hook})


@pytest.mark.parametrize(
    "name", ["render", "total_seconds", "reset", "before", "run", "passes", "_run_befor_pass", "enter"]
)
def test_unrelated_method_name_is_accepted(name: str) -> None:
    instrument: type[object] = type("Mine", (), {name: empty_hook})
    assert pass_instrument(instrument) is instrument


@pytest.mark.parametrize("hook", HOOKS)
def test_hook_with_wrong_arguments_raises_with_right_ones(hook: str) -> None:
    def wrong(self: object, a: int, b: int, c: int, d: int, e: int) -> None: ...

    expected = ", ".join(("self", *HOOKS[hook]))
    with pytest.raises(TypeError) as caught:
        pass_instrument(type("Mine", (), {hook: wrong}))
    assert str(caught.value).startswith(f"the hook Mine.{hook} is called as {hook}({expected}), but: ")


def test_async_run_after_step_raises() -> None:
    class Mine:
        async def run_after_step(self, run: apass.Run, start: float, end: float) -> None: ...

    with pytest.raises(TypeError, match=r"the hook .*run_after_step must be a plain def"):
        pass_instrument(Mine)


def test_declared_subclass_has_its_own_name() -> None:
    @pass_instrument
    class Base:
        def run_before_pass(self, mod: object, info: PassInfo) -> None: ...

    @pass_instrument
    class Derived(Base): ...

    @pass_instrument
    class Named(Base):
        name = "mine"

    @pass_instrument
    class NamedToo(Named): ...

    assert [instrument_name(kind()) for kind in (Base, Derived, Named, NamedToo)] == ["Base", "Derived", "mine", "mine"]


def test_pass_instrument_adds_missing_name() -> None:
    plain: type[object] = type("Plain", (), {"enter_pass_ctx": empty_hook})
    named: type[object] = type("Named", (), {"name": "given", "enter_pass_ctx": empty_hook})
    pass_instrument(plain)
    pass_instrument()(named)
    assert (vars(plain)["name"], vars(named)["name"]) == ("Plain", "given")


def test_pass_instrument_rejects_non_class() -> None:
    value: Any = 7
    with pytest.raises(TypeError, match="pass_instrument decorates a class, got 7"):
        pass_instrument(value)


# Steps.


async def test_run_after_step_covers_nested_steps() -> None:
    steps: list[tuple[str, float, float]] = []

    class Steps:
        def run_after_step(self, run: apass.Run, start: float, end: float) -> None:
            steps.append((run.info.name, start, end))

    async def suspend(mod: Module) -> Module:
        await checkpoint()
        return mod

    async with PassContext(instruments=[Steps()]):
        await Sequential([logging_pass([], "P", body=suspend)], name="S")({})
    inner, outer = ([(start, end) for pass_name, start, end in steps if pass_name == name] for name in "PS")
    assert len(inner) == 2
    assert all(any(begin <= start <= end <= finish for begin, finish in outer) for start, end in inner)
