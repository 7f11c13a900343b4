"""`render_text`: golden texts of comparisons."""

from dataclasses import replace

from apass.debugging.run_diff.diff import RunDiff
from apass.debugging.run_diff.recorded_run import RecordedModule, RecordedRun
from apass.debugging.run_diff.text import SAMPLES_NOTE, render_text
from tests.helpers.recorded_runs import change, reported, timed

BASE = (0.100, 0.101, 0.102, 0.103, 0.104)


def test_changed_results_are_shown() -> None:
    runs = [
        replace(RecordedRun.of(reported(passes, {"m": {"f": 1}}).record(), source), samples=0)
        for source, passes in {
            "old.html": [change("A", f=2), change("B", g=3)],
            "new.html": [change("A", f=2), change("B", g=5, h=6)],
        }.items()
    ]
    assert render_text(RunDiff.of(*runs)) == (
        "first:  old.html\n"
        "second: new.html\n"
        "1 module compared: 1 with another result\n"
        "\n"
        "m: the result differs\n"
        "  first pass that differs: 0:sequential/1:B\n"
        "    @@ -1,2 +1,3 @@\n"
        "     f: 2\n"
        "    -g: 3\n"
        "    +g: 5\n"
        "    +h: 6\n"
        "  bytes of text 9 -> 14 (+55.6%)\n"
        "  - remark B: passed Set: set g\n"
        "  + remark B: passed Set: set g, h"
    )


def test_times_with_verdicts_are_shown() -> None:
    slow = [1.2 * seconds for seconds in BASE]
    diff = RunDiff.of(
        timed("old", {"Fuse": BASE, "Inline": BASE, "Gone": BASE}), timed("new", {"Fuse": slow, "Inline": BASE})
    )
    assert render_text(diff, diff.regressions(0.1)) == (
        "first:  old\n"
        "second: new\n"
        "1 module compared: all results are equal\n"
        "\n"
        "     first      second   ratio      p  verdict            pass\n"
        "306.000 ms  224.400 ms  x 0.73  0.008  faster             (all passes)\n"
        "102.000 ms  122.400 ms  x 1.20  0.008  slower             Fuse\n"
        "102.000 ms           -                 only in the first  Gone\n"
        "and 1 more pass, whose times show no change\n"
        "medians of 5 and 5 samples\n"
        "\n"
        "regression: time: Fuse: 102.000 ms -> 122.400 ms (x 1.20)"
    )


def test_single_samples_are_shown_without_verdict() -> None:
    diff = RunDiff.of(timed("old", {"Fuse": [0.1]}), timed("new", {"Fuse": [0.3]}))
    assert render_text(diff).splitlines()[4:] == [
        "     first      second   ratio  p  verdict  pass",
        "100.000 ms  300.000 ms  x 3.00     unknown  (all passes)",
        "100.000 ms  300.000 ms  x 3.00     unknown  Fuse",
        f"1 sample of the first run, 1 of the second: {SAMPLES_NOTE}",
    ]


def test_many_modules_are_cut() -> None:
    first, second = (
        RecordedRun(source="run", modules={f"m{n}": RecordedModule(name=f"m{n}", result=result) for n in range(60)})
        for result in "xy"
    )
    lines = render_text(RunDiff.of(first, second)).splitlines()
    assert (sum(line.endswith(": the result differs") for line in lines), lines[-1]) == (
        50,
        "and 10 more modules with differences",
    )


def test_everything_else_is_shown() -> None:
    first = RecordedRun(
        source="old",
        modules={
            "bad": RecordedModule(name="bad", failure="ValueError: no\nmore", input="x"),
            "gone": RecordedModule(name="gone"),
            "many": RecordedModule(name="many", result="x", remarks=tuple(f"remark {n:02}" for n in range(12))),
        },
        settings={"pipeline": "A", "opt_level": "2"},
        notes=("old: 3 remarks were beyond a limit",),
    )
    second = RecordedRun(
        source="new",
        modules={
            "bad": RecordedModule(name="bad", result="y", input="z"),
            "many": RecordedModule(name="many", result="x", is_repeatable=False),
            "new": RecordedModule(name="new"),
        },
        settings={"pipeline": "A,B", "opt_level": "2"},
    )
    assert render_text(RunDiff.of(first, second)).splitlines()[2:] == [
        "2 modules compared: 1 fixed",
        "only in the first run: gone",
        "only in the second run: new",
        "pipeline: A -> A,B",
        "note: old: 3 remarks were beyond a limit",
        "",
        "bad: fails in the first run only",
        "  the inputs differ, so other differences may follow from that",
        "  - ValueError: no",
        "",
        "many: the result is equal",
        "  the repetitions of the second run have different results",
        *(f"  - remark remark {n:02}" for n in range(10)),
        "  and 2 more",
    ]


def test_line_breaks_in_names_are_escaped() -> None:
    name = "m\nregression: forged\x1b[2J"
    runs = [RecordedRun.of(reported([change(name, f=value)], {name: {"f": 1}}).record(), name) for value in (2, 3)]
    diff = RunDiff.of(*runs)
    lines = render_text(diff, diff.regressions(0.1, allow_different=False)).splitlines()
    assert "m\\nregression: forged\\x1b[2J: the result differs" in lines
    (regression,) = [line for line in lines if line.startswith("regression: ")]
    assert regression.startswith("regression: result: m\\nregression: forged\\x1b[2J has another result; first pass")
