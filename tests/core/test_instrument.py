"""Instruments: which hooks are called, in which order and with what, and what a misspelt one says."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from anyio.lowlevel import checkpoint

import apass
from apass import PassContext, PassInfo, PassInstrument, PassResultError, Sequential, pass_instrument
from apass.core.instrument import HOOKS, Hooks
from tests.helpers.recording import Recorder, SuspendingRecorder, logging_pass, module_pass_of

pytestmark = pytest.mark.anyio

Module = dict[str, Any]
BOTH = pytest.mark.parametrize("recorder", [Recorder, SuspendingRecorder])


def failing_pass(log: list[str], name: str) -> apass.ModulePass[Module]:
    """Return a pass that writes `run NAME` and raises KeyError."""

    async def fail(mod: Module) -> Module:
        raise KeyError(name)

    return logging_pass(log, name, body=fail)


async def events(row: Sequence[object], pass_: apass.Pass[Module], log: list[str], **given: Any) -> list[str]:
    """Run a pass within a context of these instruments; return what was written but for the context's own hooks."""
    async with PassContext(instruments=row, **given):
        await pass_({})
    return [event for event in log if not event.endswith("_ctx")]


# The order.


@BOTH
async def test_hooks_are_called_kind_by_kind_in_the_order_of_the_instruments(recorder: type[Recorder]) -> None:
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
async def test_a_sequential_has_hooks_of_its_own_around_those_of_its_passes(recorder: type[Recorder]) -> None:
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
async def test_every_instrument_is_asked_and_one_false_keeps_the_pass_from_running(recorder: type[Recorder]) -> None:
    log: list[str] = []
    mod: Module = {"f": 1}
    row = [recorder("A", log, skips=["P"]), recorder("B", log), recorder("C", log, skips=["P"])]
    async with PassContext(instruments=row):
        log.clear()
        assert await logging_pass(log, "P")(mod) is mod
        assert log == ["A.should_run P", "B.should_run P", "C.should_run P"]


async def test_should_run_is_not_asked_about_a_required_pass() -> None:
    log: list[str] = []
    row = [Recorder("A", log, skips=["P"])]
    expect = ["A.run_before_pass P", "run P", "A.run_after_pass P"]
    assert await events(row, logging_pass(log, "P"), log, required_pass=["P"]) == expect


async def test_hooks_get_the_module_before_and_after_and_the_info() -> None:
    given: list[tuple[str, Module, PassInfo]] = []

    class Look:
        def run_before_pass(self, mod: Module, info: PassInfo) -> None:
            given.append(("before", mod, info))

        async def run_after_pass(self, mod: Module, info: PassInfo) -> None:
            await checkpoint()
            given.append(("after", mod, info))

    double = module_pass_of(lambda mod, ctx: {name: 2 * n for name, n in mod.items()}, opt_level=0, name="Double")
    async with PassContext(instruments=[Look()]):
        await double({"f": 1})
    assert given == [("before", {"f": 1}, double.info), ("after", {"f": 2}, double.info)]


@pytest.mark.parametrize("hook", ["should_run", "run_before_pass"])
async def test_the_hooks_after_one_that_overrides_the_instruments_are_those_of_the_new(hook: str) -> None:
    log: list[str] = []

    async def override(self: object, mod: Module, info: PassInfo) -> bool:
        await PassContext.current().override_instruments([Recorder("B", log)])
        return True

    overriding: type[object] = type("Overriding", (), {hook: override})
    assert await events([overriding()], logging_pass(log, "P"), log) == [
        *(["B.run_before_pass P"] if hook == "should_run" else []),
        "run P",
        "B.run_after_pass P",
    ]


# A pass that fails.


@BOTH
async def test_a_failed_pass_is_announced_to_those_told_of_its_start(recorder: type[Recorder]) -> None:
    log: list[str] = []
    row = [recorder("A", log), recorder("B", log)]
    with pytest.raises(KeyError):
        await events(row, Sequential([failing_pass(log, "P")], name="S"), log)
    assert log[-6:-2] == [f"{name}.run_after_pass_failed {pass_}" for pass_ in "PS" for name in "AB"]


@BOTH
async def test_a_failed_before_hook_is_announced_only_to_those_whose_own_was_done(recorder: type[Recorder]) -> None:
    log: list[str] = []
    row = [recorder("A", log), recorder("B", log, ["run_before_pass P"]), recorder("C", log)]
    with pytest.raises(ValueError, match=r"B.run_before_pass P"):
        await events(row, logging_pass(log, "P"), log)
    assert log[6:-3] == ["A.run_before_pass P", "B.run_before_pass P", "A.run_after_pass_failed P"]


@BOTH
async def test_a_failed_after_hook_is_announced_to_those_not_yet_told_of_the_end(recorder: type[Recorder]) -> None:
    log: list[str] = []
    row = [recorder("A", log), recorder("B", log, ["run_after_pass P"]), recorder("C", log)]
    with pytest.raises(ValueError, match=r"B.run_after_pass P"):
        await events(row, logging_pass(log, "P"), log)
    assert log[10:-3] == ["A.run_after_pass P", "B.run_after_pass P", "C.run_after_pass_failed P"]


@pytest.mark.parametrize("place", [0, 1], ids=["before it in the row", "after it in the row"])
async def test_an_instrument_without_run_after_pass_is_told_when_the_one_of_another_fails(place: int) -> None:
    log: list[str] = []

    class Failures:
        def run_before_pass(self, mod: Module, info: PassInfo) -> None:
            log.append("begun")

        def run_after_pass_failed(self, mod: Module, info: PassInfo, error: BaseException) -> None:
            log.append("failed")

    row: list[object] = [Recorder("A", [], ["run_after_pass P"])]
    row.insert(place, Failures())
    with pytest.raises(ValueError, match=r"A.run_after_pass P"):
        await events(row, logging_pass(log, "P"), log)
    assert log == ["begun", "run P", "failed"]


async def test_an_instrument_that_stands_twice_in_the_row_is_told_twice() -> None:
    log: list[str] = []
    twice = Recorder("A", log)
    with pytest.raises(KeyError):
        await events([twice, twice], failing_pass(log, "P"), log)
    assert [event for event in log if "pass P" in event or "failed P" in event] == [
        *["A.run_before_pass P"] * 2,
        *["A.run_after_pass_failed P"] * 2,
    ]


async def test_the_failure_hook_gets_the_input_and_the_error_itself() -> None:
    given: list[tuple[Module, PassInfo, BaseException]] = []
    mod: Module = {"f": 1}

    class Look:
        async def run_after_pass_failed(self, mod: Module, info: PassInfo, error: BaseException) -> None:
            await checkpoint()
            given.append((mod, info, error))

    pass_ = failing_pass([], "P")
    async with PassContext(instruments=[Look()]):
        with pytest.raises(KeyError) as caught:
            await pass_(mod)
    assert [(one is mod, info, error is caught.value) for one, info, error in given] == [(True, pass_.info, True)]


@BOTH
async def test_a_failure_hook_that_fails_is_noted_on_the_error_and_the_others_are_called(
    recorder: type[Recorder],
) -> None:
    log: list[str] = []
    row = [recorder("A", log, ["run_after_pass_failed P"]), recorder("B", log)]
    with pytest.raises(KeyError) as caught:
        await events(row, failing_pass(log, "P"), log)
    assert "and then a run_after_pass_failed raised ValueError: A.run_after_pass_failed P" in caught.value.__notes__
    assert log[-4:-2] == ["A.run_after_pass_failed P", "B.run_after_pass_failed P"]


@BOTH
async def test_a_failed_should_run_ends_the_pass_before_it_began(recorder: type[Recorder]) -> None:
    log: list[str] = []
    with pytest.raises(ValueError, match=r"A.should_run P"):
        await events([recorder("A", log, ["should_run P"]), recorder("B", log)], logging_pass(log, "P"), log)
    assert [event for event in log if not event.endswith("_ctx")] == ["A.should_run P"]


# What hooks give back.


async def test_what_a_hook_gives_back_matters_only_if_it_must_be_awaited() -> None:
    log: list[str] = []

    class Chatty:
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

    assert await events([Chatty()], logging_pass(log, "P"), log) == ["run P"]
    with pytest.raises(KeyError):
        await events([Chatty()], failing_pass(log, "P"), log)


async def test_should_run_that_says_nothing_is_an_error_that_names_it() -> None:
    class Forgetful:
        def should_run(self, mod: Module, info: PassInfo) -> None: ...

    with pytest.raises(PassResultError) as caught:
        await events([Forgetful()], logging_pass([], "P"), [])
    assert "should_run of instrument 'Forgetful' returned None for pass 'P'; return " in str(caught.value)


# Hooks that are not defined.


def test_hooks_that_a_class_leaves_out_are_never_called() -> None:
    class Nothing(PassInstrument):
        pass

    @pass_instrument
    class OnlyBefore:
        def run_before_pass(self, mod: Module, info: PassInfo) -> None: ...

    hooks = Hooks.of([Nothing(), OnlyBefore(), PassInstrument()])
    counts = [len(one) for one in (hooks.should_run, hooks.before, hooks.after, hooks.failed, hooks.steps)]
    assert counts == [0, 1, 0, 0, 0]


async def test_a_class_of_ones_own_called_pass_instrument_is_an_instrument_as_any_other() -> None:
    log: list[str] = []

    def run_before_pass(self: object, mod: Module, info: PassInfo) -> None:
        log.append("begun")

    run_before_pass.__qualname__ = "PassInstrument.run_before_pass"
    own = type("PassInstrument", (), {"run_before_pass": run_before_pass})
    assert await events([own()], logging_pass(log, "P"), log) == ["begun", "run P"]


# Declaring instruments.


def nothing(self: object) -> None: ...


@pytest.mark.parametrize(
    ("misspelt", "meant"),
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
def test_a_misspelt_hook_is_a_type_error_that_suggests_the_right_name(misspelt: str, meant: str) -> None:
    def hook(self: object, mod: Module, info: PassInfo) -> None: ...

    ways: list[Callable[[Any], object]] = [pass_instrument, lambda cls: PassContext(instruments=[cls()])]
    for declare in ways:
        with pytest.raises(TypeError) as caught:
            declare(type("Mine", (), {misspelt: hook}))
        assert f"Mine.{misspelt} is no hook; did you mean {meant!r}?" in str(caught.value)
    with pytest.raises(TypeError, match=f"did you mean '{meant}'"):
        type("Mine", (PassInstrument,), {misspelt: hook})


@pytest.mark.parametrize(
    "name", ["render", "total_seconds", "reset", "before", "run", "passes", "_run_befor_pass", "enter"]
)
def test_other_methods_are_nobodys_business(name: str) -> None:
    mine: type[object] = type("Mine", (), {name: nothing})
    assert pass_instrument(mine) is mine


@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_with_the_wrong_arguments_is_a_type_error_that_shows_the_right_ones(hook: str) -> None:
    def wrong(self: object, one: int, two: int, three: int, four: int, five: int) -> None: ...

    wanted = ", ".join(("self", *HOOKS[hook]))
    with pytest.raises(TypeError) as caught:
        pass_instrument(type("Mine", (), {hook: wrong}))
    assert str(caught.value).startswith(f"the hook Mine.{hook} is called as {hook}({wanted}), but: ")


def test_run_after_step_cannot_be_async() -> None:
    class Mine:
        async def run_after_step(self, run: apass.Run, start: float, end: float) -> None: ...

    with pytest.raises(TypeError, match=r"the hook .*run_after_step must be a plain def"):
        pass_instrument(Mine)


def test_a_declared_class_has_a_name_unless_it_had_one() -> None:
    plain: type[object] = type("Plain", (), {"enter_pass_ctx": nothing})
    named: type[object] = type("Named", (), {"name": "given", "enter_pass_ctx": nothing})
    pass_instrument(plain)
    pass_instrument()(named)
    assert (vars(plain)["name"], vars(named)["name"]) == ("Plain", "given")


def test_only_a_class_can_be_declared() -> None:
    wrong: Any = 7
    with pytest.raises(TypeError, match="pass_instrument decorates a class, not 7"):
        pass_instrument(wrong)


# Steps.


async def test_run_after_step_tells_of_each_step_of_a_pass_and_of_those_that_called_it() -> None:
    steps: list[tuple[str, float, float]] = []

    class Steps:
        def run_after_step(self, run: apass.Run, start: float, end: float) -> None:
            steps.append((run.info.name, start, end))

    async def suspend(mod: Module) -> Module:
        await checkpoint()
        return mod

    async with PassContext(instruments=[Steps()]):
        await Sequential([logging_pass([], "P", body=suspend)], name="S")({})
    inner, outer = ([(start, end) for one, start, end in steps if one == name] for name in "PS")
    assert len(inner) == 2
    assert all(any(begin <= start <= end <= finish for begin, finish in outer) for start, end in inner)
