"""Recorded runs with given durations, and strategies for them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

import apass
from apass.core.position import Position
from apass.core.run import enter_module, leave_module
from apass.debugging.run_diff.recorded_run import PassOutput, RecordedModule, RecordedRun
from apass.instruments import ReportInstrument

Module = dict[str, Any]


def output(name: str, digest: str | None, *, number: int = 0, changed: bool = True) -> PassOutput:
    """Return the output of a pass in a Sequential."""
    position = Position("m", ((0, "sequential", None), (number, name, None)))
    return PassOutput(position=position, digest=digest, is_changed=changed)


def timed(source: str, times: Mapping[str, Sequence[float]], **fields: Any) -> RecordedRun:
    """Return a run of one module whose passes took these seconds."""
    recorded = {name: tuple(values) for name, values in times.items()}
    module = RecordedModule(name="m", input="in", result="out", times=recorded)
    samples = max((len(values) for values in recorded.values()), default=1)
    return RecordedRun(source=source, modules={"m": replace(module, **fields)}, samples=samples)


def reported(passes: Sequence[apass.Pass[Any]], modules: Mapping[str, Module]) -> ReportInstrument:
    """Return the report of a Sequential on some modules, with their failures."""
    report = ReportInstrument("a report")
    pipeline = apass.Sequential(passes)
    for name, mod in modules.items():
        token = enter_module(name)
        try:
            apass.run(pipeline, mod, context=apass.PassContext(instruments=[report]))
        except Exception as error:
            report.fail(name, error)
        finally:
            leave_module(token)
    return report


def change(name: str, **functions: Any) -> apass.Pass[Any]:
    """Return a pass that sets functions."""

    def transform(mod: Module, ctx: apass.PassContext) -> Module:
        ctx.statistic("calls")
        ctx.remark(apass.Remark.passed("Set", f"set {', '.join(functions) or 'nothing'}"))
        return {**mod, **functions} if functions else mod

    return apass.module_pass(transform, opt_level=0, name=name)


_NAMES = st.sampled_from(["A", "B", "C"])
_DIGESTS = st.none() | st.sampled_from(["d", "e", "f"])
_SECONDS = st.floats(0, 10).map(lambda seconds: round(seconds, 6))


@st.composite
def _modules(draw: st.DrawFn, name: str, samples: int) -> RecordedModule:
    failure = draw(st.none() | st.sampled_from(["ValueError: no", "cancelled"]))
    numbers = st.integers(0, 9)
    names = draw(st.lists(_NAMES, max_size=5))
    return RecordedModule(
        name=name,
        input=draw(_DIGESTS),
        result=None if failure else draw(_DIGESTS),
        failure=failure,
        sizes=draw(st.dictionaries(st.sampled_from(["bytes", "nodes"]), numbers)),
        outputs=tuple(
            output(item, draw(_DIGESTS), number=number, changed=draw(st.booleans()))
            for number, item in enumerate(names)
        ),
        statistics=draw(st.dictionaries(st.tuples(_NAMES, st.just("count")), numbers.map(float))),
        remarks=tuple(sorted(draw(st.lists(st.sampled_from(["one", "two"]), max_size=3)))),
        times={
            item: tuple(draw(st.lists(_SECONDS, min_size=samples, max_size=samples))) for item in sorted(set(names))
        },
        is_repeatable=draw(st.booleans()),
    )


@st.composite
def runs(draw: st.DrawFn) -> RecordedRun:
    """Draw a recorded run."""
    samples = draw(st.integers(0, 6))
    names = draw(st.sets(st.sampled_from(["m", "n", "o"])))
    return RecordedRun(
        source="run",
        modules={name: draw(_modules(name, samples)) for name in names},
        settings=draw(st.dictionaries(st.just("pipeline"), st.sampled_from("AB"))),
        samples=samples,
    )
