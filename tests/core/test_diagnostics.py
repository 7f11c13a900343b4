"""Diagnostics: what they are, what is gathered, and what happens at the limits."""

import dataclasses
import doctest
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

from apass.core import diagnostics
from apass.core.diagnostics import Diagnostic, DiagnosticContext, DiagnosticLevel, Span
from apass.errors import DiagnosticError
from tests.helpers.diagnostics import ERROR, HELP, LAW, LEVELS, NOTE, PROGRAM, WARNING, at, golden

# The values.


def test_the_examples_in_the_docstrings_are_true() -> None:
    failed, attempted = doctest.testmod(diagnostics)
    assert (failed, attempted >= 6) == (0, True)


def test_levels_have_the_numbers_of_tvm() -> None:
    assert {level.name: int(level) for level in DiagnosticLevel} == {"ERROR": 20, "WARNING": 30, "NOTE": 40, "HELP": 50}


def test_a_builder_makes_a_diagnostic_of_its_level() -> None:
    span = at(1, 1, 1, 2)
    built = [build("m", span) for build in (Diagnostic.error, Diagnostic.warning, Diagnostic.note, Diagnostic.help)]
    assert built == [Diagnostic(level, "m", span, None, None, None) for level in (ERROR, WARNING, NOTE, HELP)]


def test_diagnostics_and_spans_are_frozen_values() -> None:
    one, other = (Diagnostic.error("m", at(1, 1, 1, 2)) for _ in range(2))
    assert {one, other} == {one}
    for value, name in ((one, "message"), (at(1, 1, 1, 1), "line")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, name, "changed")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"level": 20}, "level of a diagnostic must be of type DiagnosticLevel, not 20"),
        ({"message": ValueError("no")}, "message of a diagnostic must be of type str, not ValueError('no')"),
        ({"span": (1, 2)}, "span of a diagnostic must be of type Span | None, not (1, 2)"),
        ({"function": 3}, "function of a diagnostic must be of type str | None, not 3"),
        ({"span": Span("m", 1, 1, 1, cast("int", "9"))}, "end_column of a span must be of type int, not '9'"),
        ({"span": Span(cast("str", None), 1, 1, 1, 1)}, "source_name of a span must be of type str, not None"),
    ],
)
def test_a_field_of_the_wrong_type_is_refused_at_once(fields: dict[str, object], message: str) -> None:
    with pytest.raises(TypeError, match=f"^the {re.escape(message)}$"):
        cast("type[object]", Diagnostic)(**({"level": NOTE, "message": "m"} | fields))


def test_what_is_no_diagnostic_or_no_text_or_no_limit_is_refused_at_once() -> None:
    diag_ctx = DiagnosticContext()
    with pytest.raises(TypeError, match=r"^the argument of emit\(\) must be of type Diagnostic, not 'oops'$"):
        diag_ctx.emit(cast("Diagnostic", "oops"))
    with pytest.raises(TypeError, match=r"^the text of source 'm' must be of type str, not b'let'$"):
        diag_ctx.add_source("m", cast("str", b"let"))
    for limit, source_limit in ((0, 1), (1, -1)):
        message = f"limit and source_limit must be at least 1, not {limit} and {source_limit}"
        with pytest.raises(ValueError, match=f"^{message}$"):
            DiagnosticContext(limit=limit, source_limit=source_limit)


# What is pending, and when it is cleared and raised.


def test_what_is_pending_is_a_tuple_in_the_order_of_emission() -> None:
    diag_ctx, span = DiagnosticContext(), at(1, 1, 1, 1)
    diag_ctx.warning("w", span)
    diag_ctx.error("e", span)
    diag_ctx.help("h", span)
    diag_ctx.note("n", span)
    diag_ctx.emit(Diagnostic.error("last"))
    emitted = [Diagnostic(*one, span) for one in ((WARNING, "w"), (ERROR, "e"), (HELP, "h"), (NOTE, "n"))]
    assert diag_ctx.diagnostics == (*emitted, Diagnostic.error("last"))


def test_nothing_pending_renders_as_nothing_and_writes_nothing() -> None:
    file = io.StringIO()
    texts = [DiagnosticContext().rendered(), DiagnosticContext().render(file=file), file.getvalue()]
    assert texts == ["", "", ""]


def test_render_without_an_error_returns_the_text_and_clears() -> None:
    diag_ctx = DiagnosticContext()
    diag_ctx.warning("careful")
    assert (diag_ctx.render(), diag_ctx.diagnostics, diag_ctx.render()) == ("warning: careful", (), "")


def test_render_with_an_error_writes_clears_and_raises_the_plain_text() -> None:
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


def test_beyond_the_limit_diagnostics_are_counted_by_level() -> None:
    diag_ctx = DiagnosticContext(limit=2)
    for level in (ERROR, NOTE, HELP, WARNING, ERROR, WARNING):
        diag_ctx.emit(Diagnostic(level, "m"))
    counted = "4 more not shown (error 1, warning 2, help 1): at most 2 are kept until they are rendered"
    with pytest.raises(DiagnosticError) as caught:
        diag_ctx.render()
    assert str(caught.value) == f"error: m\nnote: m\n\nnote: {counted}"


def test_rendering_makes_room_again_and_forgets_what_was_counted() -> None:
    diag_ctx = DiagnosticContext(limit=1)
    diag_ctx.warning("first")
    diag_ctx.warning("second")
    diag_ctx.render()
    diag_ctx.warning("third")
    assert diag_ctx.render() == "warning: third"


def test_a_flood_of_warnings_does_not_hide_the_first_error() -> None:
    diag_ctx = DiagnosticContext(limit=2)
    for level, message in ((WARNING, "w0"), (WARNING, "w1"), (WARNING, "w2"), (ERROR, "e0"), (ERROR, "e1")):
        diag_ctx.emit(Diagnostic(level, message))
    counted = "3 more not shown (error 1, warning 2): at most 2 are kept until they are rendered"
    with pytest.raises(DiagnosticError) as caught:
        diag_ctx.render()
    assert str(caught.value) == f"warning: w0\n\nerror: e0\n\nnote: {counted}"


def test_the_default_limit_is_ten_thousand() -> None:
    diag_ctx = DiagnosticContext()
    for _ in range(10_001):
        diag_ctx.warning("again")
    assert diag_ctx.diagnostics == (Diagnostic.warning("again"),) * 10_000


# Many tasks, many threads.


@pytest.mark.anyio
async def test_tasks_that_take_turns_share_a_context_and_keep_their_notes() -> None:
    diag_ctx = DiagnosticContext()

    async def check(function: str) -> None:
        for level in (ERROR, NOTE, HELP):
            diag_ctx.emit(Diagnostic(level, "m", function=function))
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as task_group:
        for number in range(20):
            task_group.start_soon(check, str(number))
    levels = [diagnostic.level for diagnostic in diag_ctx.diagnostics]
    assert levels == sorted(levels)  # they did take turns
    groups = {"\n".join(f"{level}: m\n  = in function {n}" for level in ("error", "note", "help")) for n in range(20)}
    assert set(diag_ctx.rendered().split("\n\n")) == groups


@pytest.fixture
def hasty_threads() -> Iterator[None]:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.anyio
@pytest.mark.usefixtures("hasty_threads")
async def test_threads_lose_nothing_while_another_renders() -> None:
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
def test_what_is_kept_and_what_is_counted_is_all_that_was_emitted(levels: list[DiagnosticLevel], limit: int) -> None:
    diag_ctx = DiagnosticContext(limit=limit)
    for number, level in enumerate(levels):
        diag_ctx.emit(Diagnostic(level, str(number)))
    kept = diag_ctx.diagnostics
    assert len(kept) == min(limit, len(levels))
    assert kept[:-1] == tuple(Diagnostic(level, str(n)) for n, level in enumerate(levels[: len(kept)]))[:-1]
    assert (ERROR in levels) == any(one.level is ERROR for one in kept)
    counted = re.search(r"note: (\d+) more not shown \((.*)\): ", diag_ctx.rendered())
    dropped = {} if counted is None else {name: int(n) for name, n in re.findall(r"(\w+) (\d+)", counted[2])}
    assert sum(dropped.values()) == (0 if counted is None else int(counted[1])) == len(levels) - len(kept)
    for level in DiagnosticLevel:
        assert sum(one.level is level for one in kept) + dropped.get(level.name.lower(), 0) == levels.count(level)
