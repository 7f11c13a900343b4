"""Diagnostics: values, the pending list, limits, tasks and threads."""

import dataclasses
import io
import re
import sys
from collections.abc import Iterator
from typing import cast

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
from hypothesis import given
from hypothesis import strategies as st

import apass
from apass.core.diagnostic_context import DiagnosticContext
from apass.core.diagnostics import Diagnostic, DiagnosticLevel, Span
from apass.errors import DiagnosticError
from tests.helpers.diagnostics import ERROR, HELP, LAW, LEVELS, NOTE, PROGRAM, WARNING, at, golden

# The values.


def test_levels_have_tvm_numbers() -> None:
    assert {level.name: int(level) for level in DiagnosticLevel} == {"ERROR": 20, "WARNING": 30, "NOTE": 40, "HELP": 50}


def test_builder_sets_level_of_diagnostic() -> None:
    span = at(1, 1, 1, 2)
    built = [build("m", span) for build in (Diagnostic.error, Diagnostic.warning, Diagnostic.note, Diagnostic.help)]
    assert built == [Diagnostic(level, "m", span, None, None, None) for level in (ERROR, WARNING, NOTE, HELP)]


def test_diagnostics_and_spans_are_frozen_values() -> None:
    first, second = (Diagnostic.error("m", at(1, 1, 1, 2)) for _ in range(2))
    assert {first, second} == {first}
    for value, name in ((first, "message"), (at(1, 1, 1, 1), "line")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, name, "changed")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"level": 20}, "level of a diagnostic must be of type DiagnosticLevel, got 20"),
        ({"message": ValueError("no")}, "message of a diagnostic must be of type str, got ValueError('no')"),
        ({"span": (1, 2)}, "span of a diagnostic must be of type Span | None, got (1, 2)"),
        ({"function": 3}, "function of a diagnostic must be of type str | None, got 3"),
        ({"span": Span("m", 1, 1, 1, cast("int", "9"))}, "end_column of a span must be of type int, got '9'"),
        ({"span": Span(cast("str", None), 1, 1, 1, 1)}, "source_name of a span must be of type str, got None"),
    ],
)
def test_field_of_wrong_type_raises(fields: dict[str, object], message: str) -> None:
    with pytest.raises(TypeError, match=f"^the {re.escape(message)}$"):
        cast("type[object]", Diagnostic)(**({"level": NOTE, "message": "m"} | fields))


def test_wrong_argument_of_diagnostic_context_raises() -> None:
    diag_ctx = DiagnosticContext()
    with pytest.raises(TypeError, match=r"^the argument of emit\(\) must be of type Diagnostic, got 'oops'$"):
        diag_ctx.emit(cast("Diagnostic", "oops"))
    with pytest.raises(TypeError, match=r"^the text of source 'm' must be of type str, got b'let'$"):
        diag_ctx.add_source("m", cast("str", b"let"))
    for limit, source_limit in ((0, 1), (1, -1)):
        message = f"limit and source_limit must be at least 1, got {limit} and {source_limit}"
        with pytest.raises(ValueError, match=f"^{message}$"):
            DiagnosticContext(limit=limit, source_limit=source_limit)


# Pending diagnostics: when they are cleared, and when they are raised.


def test_pending_diagnostics_are_in_order_of_emission() -> None:
    diag_ctx, span = DiagnosticContext(), at(1, 1, 1, 1)
    diag_ctx.warning("w", span)
    diag_ctx.error("e", span)
    diag_ctx.help("h", span)
    diag_ctx.note("n", span)
    diag_ctx.emit(Diagnostic.error("last"))
    messages = ((WARNING, "w"), (ERROR, "e"), (HELP, "h"), (NOTE, "n"))
    emitted = [Diagnostic(level, message, span) for level, message in messages]
    assert diag_ctx.diagnostics == (*emitted, Diagnostic.error("last"))


def test_empty_context_renders_as_empty_text() -> None:
    file = io.StringIO()
    texts = [DiagnosticContext().rendered(), DiagnosticContext().render(file=file), file.getvalue()]
    assert texts == ["", "", ""]


def test_render_without_error_returns_text_and_clears() -> None:
    diag_ctx = DiagnosticContext()
    diag_ctx.warning("careful")
    assert (diag_ctx.render(), diag_ctx.diagnostics, diag_ctx.render()) == ("warning: careful", (), "")


def test_render_with_error_writes_clears_and_raises() -> None:
    diag_ctx, file = DiagnosticContext({"m": PROGRAM}), io.StringIO()
    diag_ctx.warning("odd")
    diag_ctx.error("no such operator", at(2, 12, 2, 15))
    plain, coloured = diag_ctx.rendered(), diag_ctx.rendered(color=True)
    assert plain == golden("""
        warning: odd

        error: no such operator
         --> m:2:12
          |
        2 |   let %y = add(%x);
          |            ^^^
    """)
    with pytest.raises(DiagnosticError) as caught:
        diag_ctx.render(file=file, color=True)
    assert (str(caught.value), file.getvalue()) == (plain, coloured + "\n")
    assert (diag_ctx.diagnostics, diag_ctx.render()) == ((), "")


def test_rendered_neither_clears_nor_raises() -> None:
    diag_ctx = DiagnosticContext()
    diag_ctx.error("wrong")
    assert (diag_ctx.rendered(), diag_ctx.rendered()) == ("error: wrong", "error: wrong")
    assert diag_ctx.diagnostics == (Diagnostic.error("wrong"),)


# The limits.


def test_diagnostics_beyond_limit_are_counted_by_level() -> None:
    diag_ctx = DiagnosticContext(limit=2)
    for level in (ERROR, NOTE, HELP, WARNING, ERROR, WARNING):
        diag_ctx.emit(Diagnostic(level, "m"))
    counted = "4 more not shown (error 1, warning 2, help 1): at most 2 diagnostics can be pending"
    with pytest.raises(DiagnosticError) as caught:
        diag_ctx.render()
    assert str(caught.value) == f"error: m\nnote: m\n\nnote: {counted}"


def test_render_resets_limit_and_counts() -> None:
    diag_ctx = DiagnosticContext(limit=1)
    diag_ctx.warning("first")
    diag_ctx.warning("second")
    diag_ctx.render()
    diag_ctx.warning("third")
    assert diag_ctx.render() == "warning: third"


def test_error_replaces_warning_at_limit() -> None:
    diag_ctx = DiagnosticContext(limit=2)
    for level, message in ((WARNING, "w0"), (WARNING, "w1"), (WARNING, "w2"), (ERROR, "e0"), (ERROR, "e1")):
        diag_ctx.emit(Diagnostic(level, message))
    counted = "3 more not shown (error 1, warning 2): at most 2 diagnostics can be pending"
    with pytest.raises(DiagnosticError) as caught:
        diag_ctx.render()
    assert str(caught.value) == f"warning: w0\n\nerror: e0\n\nnote: {counted}"


def test_default_limit_is_ten_thousand() -> None:
    diag_ctx = DiagnosticContext()
    for _ in range(10_001):
        diag_ctx.warning("again")
    assert diag_ctx.diagnostics == (Diagnostic.warning("again"),) * 10_000


# Many tasks, many threads.


@pytest.mark.anyio
async def test_concurrent_tasks_keep_their_notes_together() -> None:
    diag_ctx = DiagnosticContext()

    async def check(function: str) -> None:
        for level in (ERROR, NOTE, HELP):
            diag_ctx.emit(Diagnostic(level, "m", function=function))
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as task_group:
        for number in range(20):
            task_group.start_soon(check, str(number))
    levels = [diagnostic.level for diagnostic in diag_ctx.diagnostics]
    assert levels == sorted(levels)  # the tasks did interleave
    groups = {"\n".join(f"{level}: m\n  = in function {n}" for level in ("error", "note", "help")) for n in range(20)}
    assert set(diag_ctx.rendered().split("\n\n")) == groups


@pytest.fixture
def frequent_thread_switches() -> Iterator[None]:
    """Switch between threads every microsecond; the default is 5 ms."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.anyio
@pytest.mark.usefixtures("frequent_thread_switches")
async def test_threads_lose_no_diagnostic_while_another_renders() -> None:
    diag_ctx, rendered, done = DiagnosticContext(limit=4), list[str](), anyio.Event()

    def emit(diagnostic: Diagnostic) -> None:
        for _ in range(4_000):
            diag_ctx.emit(diagnostic)

    def render() -> None:
        rendered.extend(diag_ctx.render() for _ in range(50))

    async def keep_rendering() -> None:
        while not done.is_set():
            await anyio.to_thread.run_sync(render)

    async with anyio.create_task_group() as renderers:
        renderers.start_soon(keep_rendering)
        async with anyio.create_task_group() as emitters:
            for _ in range(4):
                emitters.start_soon(anyio.to_thread.run_sync, emit, Diagnostic.warning("w"))
        done.set()
    text = "\n\n".join([*rendered, diag_ctx.render()])
    assert text.count("warning: w") + sum(map(int, re.findall(r"note: (\d+) more", text))) == 16_000


@LAW
@given(st.lists(LEVELS, max_size=30), st.integers(1, 12))
def test_stored_and_dropped_counts_sum_to_emitted(levels: list[DiagnosticLevel], limit: int) -> None:
    diag_ctx = DiagnosticContext(limit=limit)
    for number, level in enumerate(levels):
        diag_ctx.emit(Diagnostic(level, str(number)))
    stored = diag_ctx.diagnostics
    assert len(stored) == min(limit, len(levels))
    assert stored[:-1] == tuple(Diagnostic(level, str(n)) for n, level in enumerate(levels[: len(stored)]))[:-1]
    assert (ERROR in levels) == any(diagnostic.level is ERROR for diagnostic in stored)
    note = re.search(r"note: (\d+) more not shown \((.*)\): ", diag_ctx.rendered())
    dropped = {} if note is None else {name: int(n) for name, n in re.findall(r"(\w+) (\d+)", note[2])}
    assert sum(dropped.values()) == (0 if note is None else int(note[1])) == len(levels) - len(stored)
    for level in DiagnosticLevel:
        assert sum(diagnostic.level is level for diagnostic in stored) + dropped.get(
            level.name.lower(), 0
        ) == levels.count(level)


@pytest.mark.anyio
async def test_diagnostic_gets_the_origin_that_it_lacks() -> None:
    @apass.function_pass(opt_level=0)
    def Complain(func: int, mod: dict[str, int], ctx: apass.PassContext) -> int:
        ctx.diag_ctx.warning("odd", at(1, 1, 1, 2))
        ctx.diag_ctx.emit(Diagnostic(WARNING, "own", function="other"))
        return func

    async with apass.PassContext(diag_ctx=DiagnosticContext({"m": "%x"})) as ctx:
        ctx.diag_ctx.warning("outside")
        await apass.optimize_all({"a": {"f": 1}}, Complain)
    outside, odd, own = ctx.diag_ctx.diagnostics
    assert [one.origin for one in (outside, odd, own)] == [(None,) * 3, ("Complain", "f", "a"), (None, "other", None)]
    # The adapter of dicts has no texts.
    assert "1 | %x" in ctx.diag_ctx.rendered()
