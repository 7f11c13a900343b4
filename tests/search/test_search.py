"""A search: results, failed candidates, budgets, duplicates, cancellation."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

import apass
from apass import PassContext
from apass.errors import ExecutorError, MissingExtraError, SearchError
from apass.external import Service
from apass.instruments import AnswerRecorder, AnswerReplayer
from apass.search import Attempt, Budget, Candidate, Search, SearchResult, Space, Trial, search
from apass.search.objective import Objective
from apass.search.strategies.strategy import StrategySetup
from apass.search.template import Point

pytestmark = pytest.mark.anyio

Module = dict[str, Any]
Values = dict[str, float]

SUMS = "?{0..4}(s.Add{n=-3}|s.Add{n=1}|s.Scale{by=0.5})"


def distance(candidate: Candidate[Module], _attempt: Attempt) -> float:
    return float(abs(candidate.module["f"] - 2))


async def test_best_pipeline_of_each_module() -> None:
    modules = {"a": {"f": 8}, "b": {"f": 5}}
    result = await search(modules, SUMS, distance, budget=300)
    assert list(result.modules) == ["a", "b"]
    assert [found.values for found in result.modules.values()] == [{"distance": 0.0}, {"distance": 0.0}]
    assert [found.baseline.values for found in result.modules.values()] == [{"distance": 6.0}, {"distance": 3.0}]
    for name, found in result.modules.items():
        assert await apass.parse_pipeline(found.pipeline)(modules[name]) == found.module
    assert result.modules["b"].pipeline == "s.Add{n=-3}"
    assert result.finished


async def test_module_itself_is_best_without_improvement() -> None:
    result = await search([{"f": 2}], SUMS, distance, budget=20)
    found = result.modules[0]
    assert (found.pipeline, found.module, found.ratio) == ("", {"f": 2}, None)


async def test_baseline_pipeline_is_compared() -> None:
    result = await search([{"f": 10}], "?{0..2}(s.Scale{by=0.5}|s.Add)", distance, baseline="s.Scale{by=0.5}", budget=9)
    found = result.modules[0]
    assert (found.baseline.values, found.baseline.pipeline) == ({"distance": 3.0}, "s.Scale{by=0.5}")
    assert found.pipeline == "s.Scale{by=0.5},s.Scale{by=0.5}"
    assert found.ratio == pytest.approx(0.5 / 3)


async def test_trials_are_iterated_as_they_end() -> None:
    async with search([{"f": 8}], SUMS, distance, budget=25) as running:
        trials = [trial async for trial in running]
        result = await running.finish()
    assert sorted(trial.number for trial in trials) == list(range(1, 26))
    assert len({trial.pipeline for trial in trials}) == 25
    assert result.evaluations == 25
    assert min(trial.values["distance"] for trial in trials) >= result.modules[0].values["distance"]


async def test_failed_candidates_are_trials() -> None:
    space = "?(s.Fail|s.Fail{how=invalid}|s.Add{n=-1}|s.Scale{by=0.0})"

    def rate(candidate: Candidate[Module], _attempt: Attempt) -> float:
        if candidate.module["f"] == 0:
            raise ValueError("not a number of mine")
        return float(candidate.module["f"])

    async with search([{"f": 5}], space, rate, strategy="greedy", budget=9) as running:
        reasons = {trial.pipeline: trial.reason async for trial in running}
        result = await running.finish()
    assert reasons == {
        "s.Fail": "RuntimeError: it failed",
        "s.Fail{how=invalid}": "VerifyError: a rule is broken",
        "s.Scale{by=0.0}": "ValueError: not a number of mine",
        "s.Add{n=-1}": "",
    }
    assert (result.failed, result.modules[0].pipeline) == (3, "s.Add{n=-1}")


async def test_time_limit_gives_no_value() -> None:
    async def rate(candidate: Candidate[Module], _attempt: Attempt) -> float:
        if candidate.module["f"] == 4:
            await anyio.sleep_forever()
        return float(candidate.module["f"])

    space = "?(s.Fail{how=hang}|s.Add{n=-1}|s.Add{n=-2})"
    async with search([{"f": 5}], space, rate, strategy="greedy", budget=9, timeout=0.2) as running:
        trials = {trial.pipeline: trial async for trial in running}
    assert not trials["s.Fail{how=hang}"].values
    assert "PassTimeoutError" in trials["s.Fail{how=hang}"].reason
    assert (trials["s.Add{n=-1}"].values, trials["s.Add{n=-2}"].values) == ({}, {"rate": 3.0})
    assert trials["s.Add{n=-1}"].reason == "the objective 'rate' took longer than 0.2 s"


async def test_each_pipeline_is_built_once() -> None:
    built: Counter[str] = Counter()

    async def rate(candidate: Candidate[Module], _attempt: Attempt) -> float:
        built[candidate.pipeline] += 1
        await checkpoint()
        return float(candidate.module["f"])

    space = "?{0..2}(s.Add{n=1}|s.Add{n=10}|s.Add{n=100})"
    result = await search([{"f": 0}], space, rate, strategy="random", budget=1000, workers=4)
    # Three equal modules are reached in two orders, and nothing else is built for the empty pipeline.
    assert result.evaluations == 12
    assert result.duplicates > 12
    assert result.equal == 3
    assert set(built.values()) == {1}
    assert len(built) == 12 - 3 + 1


async def test_equal_modules_share_their_search() -> None:
    rated: list[int] = []

    def rate(candidate: Candidate[Module], _attempt: Attempt) -> float:
        rated.append(candidate.module["f"])
        return float(candidate.module["f"])

    result = await search({"a": {"f": 1}, "b": {"f": 1}}, "?(s.Add{n=-1}|s.Add{n=1})", rate, budget=9)
    assert sorted(rated) == [0, 1, 2]
    assert [(found.name, found.pipeline) for found in result.modules.values()] == [
        ("a", "s.Add{n=-1}"),
        ("b", "s.Add{n=-1}"),
    ]


async def test_several_objectives_give_a_front() -> None:
    def rate(candidate: Candidate[Module], _attempt: Attempt) -> Values:
        steps = candidate.pipeline.count("s.") if candidate.pipeline else 0
        return {"size": float(candidate.module["f"]), "steps": float(steps)}

    result = await search([{"f": 10}], "?{0..3}(s.Add{n=-1}|s.Add{n=5})", rate, strategy="random", budget=500)
    found = result.modules[0]
    assert [trial.values for trial in found.front] == [{"size": 10.0 - n, "steps": float(n)} for n in (3, 2, 1, 0)]
    assert found.best is found.front[0]


async def test_constraint_rejects_candidates() -> None:
    def rate(candidate: Candidate[Module], _attempt: Attempt) -> Values:
        return {"size": float(candidate.module["f"]), "steps": float(candidate.pipeline.count("s."))}

    space = "?{0..3}(s.Add{n=-1}|s.Add{n=5})"
    async with search([{"f": 9}], space, rate, strategy="random", budget=500, constraints={"steps": 2}) as running:
        reasons = {trial.reason async for trial in running if not trial.is_valid}
        result = await running.finish()
    assert reasons == {"steps is 3, of at most 2"}
    assert result.modules[0].values == {"size": 7.0, "steps": 2.0}


async def test_budget_goes_where_it_gains() -> None:
    flat = {f"flat{index}": {"f": 0, "flat": True, "index": index} for index in range(3)}

    def rate(candidate: Candidate[Module], _attempt: Attempt) -> float:
        return 1.0 if "flat" in candidate.module else 2.0 ** candidate.module["f"]

    space = "?{1..60}(s.Add{n=-1}|s.Add{n=1}|s.Add{n=0})"
    result = await search({"steep": {"f": 0}, **flat}, space, rate, budget=400)
    counts = {name: found.trials for name, found in result.modules.items()}
    assert sum(counts.values()) == 400
    assert counts["steep"] > 2 * max(count for name, count in counts.items() if name != "steep")
    assert min(counts.values()) >= 16


async def test_leaving_early_cancels_candidates() -> None:
    cancelled: list[bool] = []

    async def rate(candidate: Candidate[Module], _attempt: Attempt) -> float:
        if candidate.pipeline:
            try:
                await anyio.sleep_forever()
            finally:
                cancelled.append(True)
        return 1.0

    with anyio.move_on_after(0.05):
        async with search([{"f": 1}], SUMS, rate, workers=3, budget=9) as running:
            async for _ in running:
                raise AssertionError
    assert cancelled == [True, True, True]


async def test_error_of_the_block_is_raised_unchanged() -> None:
    async def work() -> None:
        async with search([{"f": 1}], SUMS, distance, budget=9) as running:
            async for _ in running:
                raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await work()


async def test_seconds_end_the_search() -> None:
    async def rate(candidate: Candidate[Module], _attempt: Attempt) -> float:
        if candidate.pipeline:
            await anyio.sleep_forever()
        return 1.0

    result = await search([{"f": 1}], SUMS, rate, budget=Budget(None, 0.05))
    assert (result.evaluations, result.finished, result.modules[0].pipeline) == (0, True, "")


async def test_interrupted_search_has_best_so_far() -> None:
    second = anyio.Event()

    async def rate(candidate: Candidate[Module], attempt: Attempt) -> float:
        if attempt.number > 3:
            second.set()
            await anyio.sleep_forever()
        return float(candidate.module["f"])

    results: list[SearchResult[Module]] = []

    async def work() -> None:
        async with search([{"f": 9}], "?{1..9}(s.Add{n=-1}|s.Add{n=-2})", rate, workers=1) as running:
            try:
                async for _ in running:
                    pass
            finally:
                with anyio.CancelScope(shield=True):
                    results.append(await running.finish(checked=False))

    async with anyio.create_task_group() as group:
        group.start_soon(work)
        await second.wait()
        group.cancel_scope.cancel()
    found = results[0].modules[0]
    assert results[0].evaluations == 3
    assert not results[0].finished
    assert found.module == await apass.parse_pipeline(found.pipeline)({"f": 9})


async def test_context_applies_to_candidates() -> None:
    context = PassContext(disabled_pass=["s.Add"])
    result = await search([{"f": 9}], "?{1..3}(s.Add{n=-1}|s.Scale{by=0.9})", distance, budget=30, context=context)
    assert "s.Add" not in result.modules[0].pipeline


class Changing:
    """Counts the runs of a pass, whose result depends on them."""

    def __init__(self) -> None:
        self.runs = 0


async def test_result_that_does_not_repeat_is_rejected() -> None:
    runs = Changing()

    def lucky(mod: Module, ctx: PassContext) -> Module:
        runs.runs += 1
        return {**mod, "f": -1 if runs.runs == 1 else 100}

    apass.register_pass("s.Lucky", lambda: apass.module_pass(lucky, opt_level=0, name="Lucky"))
    try:
        rate = float_of_f
        result = await search([{"f": 5}], "?(s.Lucky|s.Add{n=-1})", rate, budget=9, strategy="greedy")
    finally:
        apass.unregister_pass("s.Lucky")
    assert result.modules[0].pipeline == "s.Add{n=-1}"


def float_of_f(candidate: Candidate[Module], _attempt: Attempt) -> float:
    return float(candidate.module["f"])


async def test_objective_may_be_a_name() -> None:
    result = await search([{"f": 5, "g": 1}], "?(s.Add|s.Scale)", "nodes", budget=2)
    assert result.modules[0].values == {"nodes": 2.0}


async def test_shorter_pipeline_of_equal_values_is_taken() -> None:
    for seed in range(3):
        result = await search([{"f": 5}], "?{1..5}(s.Add{n=0}|s.Add{n=-5})", float_of_f_squared, budget=40, seed=seed)
        assert result.modules[0].pipeline == "s.Add{n=-5}"


async def test_ablation_leaves_out_passes_without_effect() -> None:
    space = "s.Scale{by=1},?{2..4}(s.Add{n=0}|s.Add{n=-3}|s.Add{n=1})"
    for seed in range(3):
        async with search([{"f": 8}], space, distance, budget=60, seed=seed) as running:
            async for _ in running:
                pass
            effects = await running.ablate()
            assert [(effect.element, effect.gain) for effect in effects[0]] == [
                ("s.Scale{by=1}", 0.0),
                ("s.Add{n=-3}", 3.0),
                ("s.Add{n=-3}", 3.0),
            ]
            result = await running.finish()
        # The space requires the first pass, which has no effect.
        assert result.modules[0].pipeline == "s.Scale{by=1},s.Add{n=-3},s.Add{n=-3}"


async def test_pipeline_outside_of_the_space_is_not_chosen() -> None:
    def values(candidate: Candidate[Module], attempt: Attempt) -> Values:
        return {"distance": distance(candidate, attempt), "f": -candidate.module["f"]}

    best = "s.Add{n=1},s.Scale{by=0.5},s.Scale{by=0.5}"
    async with search([{"f": 8}], "s.Add{n=1},?{1..2}(s.Scale{by=0.5}|s.Add{n=-3})", values, budget=60) as running:
        async for _ in running:
            pass
        (effect, *others) = (await running.ablate())[0]
        # It would be better without the first pass.
        assert (effect.element, effect.gain, len(others)) == ("s.Add{n=1}", -0.25, 2)
        found = (await running.finish()).modules[0]
    assert found.pipeline == best
    assert found.front[0].pipeline == best
    assert all(trial.pipeline.startswith("s.Add{n=1}") or not trial.pipeline for trial in found.front)


def float_of_f_squared(candidate: Candidate[Module], _attempt: Attempt) -> float:
    return float(candidate.module["f"] ** 2)


class Lucky:
    """Measures times, of which the first one of a candidate is too short."""

    measures = True
    objective_name = "time"

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()

    def __call__(self, candidate: Candidate[Module], _attempt: Attempt) -> float:
        self.calls[candidate.pipeline] += 1
        values = {"": [1.0], "s.Add": [0.5, 1.0], "s.Scale": [0.9, 0.9]}[candidate.pipeline]
        return values[self.calls[candidate.pipeline] - 1]


async def test_best_time_is_measured_again() -> None:
    objective = Lucky()
    result = await search([{"f": 5}], "?(s.Add|s.Scale)", objective, budget=2, workers=1)
    assert result.modules[0].pipeline == "s.Scale"
    assert objective.calls == {"": 1, "s.Add": 2, "s.Scale": 2}


async def test_missing_library_ends_the_search() -> None:
    def rate(candidate: Candidate[Module], _attempt: Attempt) -> float:
        if candidate.pipeline:
            raise MissingExtraError("pip install 'apass[mine]'")
        return 1.0

    with pytest.raises(MissingExtraError, match="mine"):
        await search([{"f": 5}], SUMS, rate, budget=9)


@pytest.mark.process
async def test_executor_that_cannot_run_passes_ends_the_search() -> None:
    with pytest.raises(ExecutorError, match=r"importing tests\.search\.conftest in a worker did not register it"):
        await search([{"f": 5}], SUMS, distance, budget=9, executor="process")


async def test_values_have_the_names_of_the_baseline() -> None:
    def rate(candidate: Candidate[Module], _attempt: Attempt) -> Values:
        name = "speed" if candidate.pipeline == "s.Add" else "size"
        return {name: candidate.module["f"]}

    async with search([{"f": 5}], "?(s.Add|s.Scale)", rate, budget=2) as running:
        reasons = {trial.pipeline: trial.reason async for trial in running}
    message = "the objective 'rate' returned the values speed; expected those of the baseline: size"
    assert reasons == {"s.Add": message, "s.Scale": ""}


async def test_details_are_recorded() -> None:
    def rate(candidate: Candidate[Module], attempt: Attempt) -> float:
        attempt.note(noise=0.25, equal="a word of the objective")
        return float(candidate.module["f"])

    async with search([{"f": 5}], "?(s.Add|s.Scale)", rate, budget=9) as running:
        assert {(trial.details["noise"], trial.source) async for trial in running} == {(0.25, "measured")}


class Wrong:
    """A strategy that fails."""

    def __init__(self, _setup: StrategySetup) -> None:
        pass

    def ask(self) -> Point:
        raise ZeroDivisionError("of the strategy")

    def tell(self, point: Point, values: object) -> None:
        pass


async def test_error_of_a_strategy_is_raised() -> None:
    with pytest.raises(ZeroDivisionError, match="of the strategy"):
        await search([{"f": 5}], SUMS, distance, strategy=Wrong)


async def test_strategy_that_blocks_runs_in_a_thread() -> None:
    made: list[StrategySetup] = []

    class Mine:
        def __init__(self, setup: StrategySetup) -> None:
            made.append(setup)
            self.values: list[object] = []

        def ask(self) -> Point | None:
            anyio.from_thread.run_sync(lambda: None)
            return made[0].space.point_of("s.Add{n=1}") if not self.values else None

        def tell(self, point: Point, values: object) -> None:
            anyio.from_thread.run_sync(lambda: None)
            self.values.append(values)

    result = await search([{"f": 5}], SUMS, distance, strategy=Mine, budget=9, seed=7)
    assert (result.evaluations, made[0].seed, made[0].evaluations) == (1, 7, 9)


async def errors_of(modules: Any, space: Any, objective: Any, options: Mapping[str, Any]) -> str:
    with pytest.raises((SearchError, TypeError, ValueError, MissingExtraError)) as caught:
        await search(modules, space, objective, **options)
    return str(caught.value)


def failing(candidate: Candidate[Module], _attempt: Attempt) -> float:
    raise RuntimeError("no license")


def returning(value: Any) -> Objective:
    def rate(candidate: Candidate[Module], _attempt: Attempt) -> Any:
        return value

    return rate


async def test_errors_of_misuse() -> None:
    rows: list[tuple[Any, Any, Any, dict[str, Any], str]] = [
        ([], SUMS, distance, {}, "there is no module to optimize"),
        ([{"f": 1}], SUMS, 3, {}, "objective must be a name, or a function of a candidate"),
        ([{"f": 1}], SUMS, distance, {"budget": 0}, "evaluations must be an int of at least 1"),
        ([{"f": 1}], SUMS, distance, {"budget": Budget(5), "workers": 0}, "workers must be an int of at least 1"),
        ([{"f": 1}], SUMS, distance, {"timeout": -1}, "timeout must be a positive number of seconds"),
        ([{"f": 1}], SUMS, distance, {"seed": "x"}, "seed must be an int, got 'x'"),
        ([{"f": 1}, {"f": 2}], SUMS, distance, {"budget": 1}, "a budget of 1 evaluations is too small for 2 modules"),
        ([{"f": 1}], SUMS, distance, {"strategy": "magic"}, "no strategy is named 'magic'"),
        ([{"f": 1}], "nowhere.phases", distance, {}, "'nowhere.phases' is neither the name of a space nor a pipeline"),
        ([{"f": 1}], SUMS, returning(float("nan")), {}, "returned nan; expected a finite number"),
        ([{"f": 1}], SUMS, returning("12"), {}, "returned '12' (str); expected a number"),
        ([{"f": 1}], SUMS, returning(True), {}, "returned True (bool); expected a number"),
        ([{"f": 1}], SUMS, returning({}), {}, "returned no values"),
        ([{"f": 1}], SUMS, returning({"a": None}), {}, "returned None (NoneType) for 'a'"),
        ([{"f": 1}], SUMS, failing, {}, "0: the module itself, which is the baseline, has no value"),
        ([{"f": 1}], SUMS, distance, {"baseline": "s.Fail"}, "the baseline s.Fail has no value to compare with"),
        ([{"f": 1}], SUMS, distance, {"constraints": {"speed": 3}}, "the constraint 'speed' is not one of"),
        ([{"f": 1}], SUMS, distance, {"constraints": {"distance": 3}}, "every value of the objective is a constraint"),
    ]
    for modules, space, objective, options, message in rows:
        assert message in await errors_of(modules, space, objective, options), message


async def test_budget_without_limit_is_an_error() -> None:
    with pytest.raises(SearchError, match="the budget has no limit"):
        Budget(None)
    with pytest.raises(SearchError, match="seconds must be a positive number"):
        Budget(None, 0)


async def test_search_runs_once() -> None:
    running = search([{"f": 5}], "?(s.Add|s.Scale)", distance, budget=2)
    await running
    with pytest.raises(SearchError, match="was started before"):
        await running
    other: Search[Module] = search([{"f": 5}], Space("?(s.Add|s.Scale)"), distance, budget=2)
    with pytest.raises(SearchError, match="call finish there"):
        await other.finish()


async def test_trial_as_json() -> None:
    async with search([{"f": 5}], "?(s.Add|s.Fail)", distance, budget=2, strategy="greedy") as running:
        trials: list[Trial] = [trial async for trial in running]
        result = await running.finish()
    by_pipeline = {trial.pipeline: trial.as_json() | {"seconds": 0, "number": 0} for trial in trials}
    assert by_pipeline == {
        "s.Add": {
            "number": 0,
            "module": "0",
            "pipeline": "s.Add",
            "values": {"distance": 4.0},
            "reason": None,
            "seconds": 0,
            "source": "measured",
            "details": {},
            "reproducer": None,
        },
        "s.Fail": {
            "number": 0,
            "module": "0",
            "pipeline": "s.Fail",
            "values": {},
            "reason": "RuntimeError: it failed",
            "seconds": 0,
            "source": "measured",
            "details": {},
            "reproducer": None,
        },
    }
    assert result.as_json()["modules"][0]["pipeline"] == ""


async def test_objective_may_use_recorded_answers(tmp_path: Path) -> None:
    asked: list[int] = []

    async def cost(request: int) -> int:
        asked.append(request)
        return abs(request - 3)

    async def run(instrument: object) -> list[dict[str, Any]]:
        service = Service(cost, name="cost model")

        async def rate(candidate: Candidate[Module], _attempt: Attempt) -> float:
            return float(await service.ask(candidate.module["f"]))

        context = PassContext(instruments=[instrument])
        space = "?{1..4}(s.Add{n=-1}|s.Add{n=2})"
        # With one worker, a seed gives the same trials.
        async with search([{"f": 7}], space, rate, budget=25, workers=1, context=context) as running:
            return [trial.as_json() | {"seconds": 0} async for trial in running]

    recorded = await run(AnswerRecorder(tmp_path / "answers"))
    count = len(asked)
    assert count > 3
    replayed = await run(AnswerReplayer(tmp_path / "answers"))
    assert len(asked) == count
    assert replayed == recorded
