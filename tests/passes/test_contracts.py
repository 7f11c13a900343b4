"""Contracts of passes: properties and idempotence."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import apass
from apass import PassContext, Sequential
from apass.plugins import Contract
from apass.stores import MemoryStore
from apass.testing import RecordingInstrument, assert_trace

pytestmark = pytest.mark.anyio

Module = dict[str, list[int]]


@apass.register_property("test_contracts.sorted")
def is_sorted(mod: Module) -> bool | str:
    wrong = [name for name, func in mod.items() if func != sorted(func)]
    return not wrong or f"{wrong[0]!r} is not sorted"


@apass.register_property("test_contracts.short")
async def is_short(mod: Module) -> bool:
    return all(len(func) < 3 for func in mod.values())


def keep(mod: Module, ctx: PassContext) -> Module:
    return mod


def module_pass(name: str, **options: Any) -> apass.Pass[Module]:
    return apass.module_pass(keep, opt_level=0, name=name, **options)


@pytest.fixture
def register() -> Iterator[Callable[[apass.Pass[Module]], apass.Pass[Module]]]:
    names: list[str] = []

    def add(pass_: apass.Pass[Module]) -> apass.Pass[Module]:
        names.append(pass_.info.name)
        return apass.register_pass(pass_)

    yield add
    for name in names:
        apass.unregister_pass(name)


Register = Callable[[apass.Pass[Module]], apass.Pass[Module]]


def sort(func: list[int], mod: Module, ctx: PassContext) -> list[int]:
    return func if func == sorted(func) else sorted(func)


def sort_nothing(func: list[int], mod: Module, ctx: PassContext) -> list[int]:
    return func


# Properties.


async def test_required_property_is_checked_before_the_pass() -> None:
    ran: list[Module] = []

    class Use(apass.ModulePass[Module], opt_level=0, requires=["test_contracts.sorted"]):
        async def transform_module(self, mod: Module, ctx: PassContext) -> Module:
            ran.append(mod)
            return mod

    await Use()({"f": [1, 2]})
    with pytest.raises(apass.errors.PropertyError) as caught:
        await Use()({"f": [2, 1]})
    assert ran == [{"f": [1, 2]}]
    assert str(caught.value) == (
        "pass 'Use' requires 'test_contracts.sorted', which the module lacks: 'f' is not sorted; "
        "run a pass that ensures it before"
    )
    assert caught.value.__notes__ == ["in pass 'Use'"]


async def test_message_names_passes_that_ensure_the_property() -> None:
    module_pass("Shorten", ensures=[is_short])
    with pytest.raises(apass.errors.PropertyError) as caught:
        await module_pass("Use", requires=[is_short])({"f": [1, 2, 3]})
    assert str(caught.value) == (
        "pass 'Use' requires 'test_contracts.short', which the module lacks; run Shorten before it"
    )


async def test_ensured_property_is_checked_after_the_pass() -> None:
    liar = apass.module_pass(
        lambda mod, ctx: {"f": [2, 1]}, opt_level=0, name="Liar", ensures=["test_contracts.sorted"]
    )
    with pytest.raises(apass.errors.PropertyError) as caught:
        await liar({"f": [1]})
    assert str(caught.value) == (
        "pass 'Liar' ensures 'test_contracts.sorted', but its result lacks it: 'f' is not sorted"
    )


async def test_hooks_see_a_missing_property_as_failure() -> None:
    recording = RecordingInstrument()
    async with PassContext(instruments=[recording]):
        with pytest.raises(apass.errors.PropertyError):
            await module_pass("Use", requires=["test_contracts.sorted"])({"f": [2, 1]})
    assert_trace(
        recording,
        """
        enter_pass_ctx
        should_run Use
        run_before_pass Use
        run_after_pass_failed Use
        exit_pass_ctx
        """,
    )


async def test_preserved_property_is_not_checked_again() -> None:
    checks: list[Module] = []

    @apass.register_property("test_contracts.counted")
    def is_counted(mod: Module) -> bool:
        checks.append(mod)
        return True

    @apass.module_pass(opt_level=0, name="Add", preserves={is_counted})
    def add(mod: Module, ctx: PassContext) -> Module:
        return {**mod, "g": []}

    use = module_pass("Use", requires=[is_counted])
    assert await Sequential([use, add, use])({"f": [1]}) == {"f": [1], "g": []}
    assert checks == [{"f": [1]}]


def _one(mod: Module) -> Any:
    return 1


async def test_check_must_return_true_false_or_text() -> None:
    check = apass.register_property("test_contracts.wrong", _one)
    with pytest.raises(apass.errors.PropertyError, match="returned 1; return True, False or a text"):
        await module_pass("Use", requires=[check])({})


async def test_unknown_property_fails_the_pass() -> None:
    with pytest.raises(apass.errors.UnknownPropertyError, match=r"did you mean 'test_contracts\.sorted'"):
        await module_pass("Use", requires=["test_contracts.sortd"])({})


async def test_subclass_keeps_the_contract() -> None:
    class Use(apass.Pass[Module], opt_level=0, requires=["test_contracts.sorted"]):
        def transform(self, mod: Module, ctx: PassContext) -> Module:
            return mod

    class Other(Use):
        def transform(self, mod: Module, ctx: PassContext) -> Module:
            return {**mod}

    with pytest.raises(apass.errors.PropertyError):
        await Other()({"f": [2, 1]})
    assert await Other()({"f": [1, 2]}) == {"f": [1, 2]}


@pytest.mark.parametrize(("key", "value"), [("requires", ["anf"]), ("ensures", ()), ("idempotent", True)])
def test_contract_cannot_be_set_on_a_pass(key: str, value: object) -> None:
    class Use(apass.ModulePass[Module], opt_level=0):
        def __init__(self) -> None:
            setattr(self, key, value)

        def transform_module(self, mod: Module, ctx: PassContext) -> Module:
            return mod

    with pytest.raises(apass.errors.PassDefinitionError) as caught:
        Use()
    assert str(caught.value) == (
        f"a pass of class Use sets {key!r} on itself; set it on the class: class Use(..., {key}={value!r})"
    )


def test_declaration_on_self_is_checked() -> None:
    class Use(apass.ModulePass[Module], opt_level=0):
        def __init__(self, name: str, value: object) -> None:
            setattr(self, name, value)

        def transform_module(self, mod: Module, ctx: PassContext) -> Module:
            return mod

    assert Use("runs_after", ["A"]).contract.runs_after == ("A",)
    assert (Use("version", "2").caching.version, Use.caching.version) == ("2", "1")
    for name, value, message in (
        ("cacheable", "modules", "cacheable must be True, False or 'module', got 'modules'"),
        ("version", 3, "version must be a str, got 3"),
        ("contract", Contract(requires=("a",)), "a pass sets 'contract' on itself; set it on the class Use"),
    ):
        with pytest.raises(apass.errors.PassDefinitionError) as caught:
            Use(name, value)
        assert str(caught.value) == message


@pytest.mark.parametrize("key", ["requires", "ensures", "runs_after", "runs_before"])
def test_list_in_class_body_is_checked(key: str) -> None:
    with pytest.raises(apass.errors.PassDefinitionError, match=f"^{key} must be a list of .*, got 'ab'; write"):
        type("Use", (apass.ModulePass,), {key: "ab", "info": apass.PassInfo(0, "Use")})
    made: Any = type("Use", (apass.ModulePass,), {key: ["ab"], "info": apass.PassInfo(0, "Use")})
    assert getattr(made.contract, key) == ("ab",)


@pytest.mark.parametrize("key", ["requires", "ensures", "runs_after", "runs_before", "config_keys", "required"])
def test_none_in_place_of_a_list_is_accepted(key: str) -> None:
    options: Any = {key: None}
    made = module_pass("Use", **options)
    contract = made.contract
    assert (contract.requires, contract.ensures, contract.runs_after, contract.runs_before) == ((), (), (), ())
    assert (made.caching.config_keys, made.info.required) == (None, ())


async def test_error_of_a_check_names_its_property() -> None:
    def crash(mod: Any) -> bool:
        return bool(mod.nope)

    apass.register_property("test_contracts.crash", crash)
    with pytest.raises(AttributeError) as caught:
        await module_pass("Use", requires=["test_contracts.crash"])({})
    assert caught.value.__notes__ == ["in the check of property 'test_contracts.crash'", "in pass 'Use'"]


@pytest.mark.parametrize("kind", ["module", "functions"])
async def test_stored_result_has_passed_the_same_checks(kind: str) -> None:
    def use(**options: Any) -> apass.Pass[Module]:
        if kind == "module":
            return module_pass("Use", cacheable=True, **options)
        return apass.function_pass(sort_nothing, opt_level=0, name="Use", cacheable=True, **options)

    store, mod = MemoryStore(), {"f": [2, 1]}
    for pass_ in (use(), use(ensures=[is_short]), use(requires=[is_short])):
        async with PassContext(store=store):
            assert [await pass_(mod), await Sequential([pass_])(mod)] == [mod, mod]
    for pass_ in (use(ensures=[is_sorted]), use(requires=[is_sorted])):
        for run in (pass_, Sequential([pass_])):
            async with PassContext(store=store):
                with pytest.raises(apass.errors.PropertyError):
                    await run(mod)


async def test_result_that_is_no_module_is_reported() -> None:
    def forget(mod: Module, ctx: PassContext) -> Any:
        return None

    none = apass.module_pass(forget, opt_level=0, name="None", ensures=[is_sorted])
    with pytest.raises(apass.errors.PassResultError, match="pass 'None' returned None"):
        await none({})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"requires": "anf"}, "requires must be a list of properties, got 'anf'; write ['anf']"),
        ({"ensures": [3]}, "ensures must be a list of properties or their names, got 3"),
        ({"runs_after": "A"}, "runs_after must be a list of names of passes, got 'A'; write ['A']"),
        ({"runs_before": [1]}, "runs_before must be a list of names of passes, but contains 1"),
        ({"idempotent": 1}, "idempotent must be True or False, got 1"),
    ],
)
def test_invalid_contract_is_an_error(options: dict[str, Any], message: str) -> None:
    with pytest.raises(apass.errors.PassDefinitionError) as caught:
        module_pass("P", **options)
    assert str(caught.value) == message


# Idempotence.


async def run_with_trace(pipeline: apass.Pass[Module], mod: Module) -> list[str]:
    """Return the names of the passes that started, without the pipeline's own."""
    names: list[str] = []

    @apass.pass_instrument
    class Names:
        def run_before_pass(self, mod: Module, info: apass.PassInfo) -> None:
            names.append(info.name)

    async with PassContext(instruments=[Names()]):
        await pipeline(mod)
    return names[1:]


@pytest.mark.parametrize(("idempotent", "runs"), [(True, ["Sort", "A", "B"]), (False, ["Sort", "A", "Sort", "B"])])
async def test_idempotent_requirement_runs_once(register: Register, idempotent: bool, runs: list[str]) -> None:
    register(apass.function_pass(sort, opt_level=0, name="Sort", idempotent=idempotent))
    pipeline = Sequential([module_pass("A", required=["Sort"]), module_pass("B", required=["Sort"])])
    assert await run_with_trace(pipeline, {"f": [2, 1]}) == runs


async def test_idempotent_requirement_runs_again_after_a_change(register: Register) -> None:
    register(apass.function_pass(sort, opt_level=0, name="Sort", idempotent=True))

    @apass.module_pass(opt_level=0, name="Change")
    def change(mod: Module, ctx: PassContext) -> Module:
        return {"f": [2, 1]}

    pipeline = Sequential([module_pass("A", required=["Sort"]), change, module_pass("B", required=["Sort"])])
    assert await run_with_trace(pipeline, {"f": [2, 1]}) == ["Sort", "A", "Change", "Sort", "B"]


async def test_explicit_run_counts_for_a_requirement(register: Register) -> None:
    pass_ = register(apass.function_pass(sort, opt_level=0, name="Sort", idempotent=True))
    pipeline = Sequential([pass_, module_pass("A", required=["Sort"])])
    assert await run_with_trace(pipeline, {"f": [2, 1]}) == ["Sort", "A"]


async def test_requirement_does_not_run_if_its_properties_hold(register: Register) -> None:
    register(apass.function_pass(sort, opt_level=0, name="Sort", idempotent=True, ensures=["test_contracts.sorted"]))
    pipeline = Sequential([module_pass("A", required=["Sort"])])
    assert await run_with_trace(pipeline, {"f": [1, 2]}) == ["A"]
    assert await run_with_trace(pipeline, {"f": [2, 1]}) == ["Sort", "A"]


async def test_other_context_runs_an_idempotent_requirement_again(register: Register) -> None:
    register(apass.function_pass(sort, opt_level=0, name="Sort", idempotent=True))
    pipeline = Sequential([module_pass("A", required=["Sort"])])
    mod = {"f": [1, 2]}
    assert [await run_with_trace(pipeline, mod) for _ in range(2)] == [["Sort", "A"]] * 2


async def test_plan_says_that_a_requirement_may_not_run(register: Register) -> None:
    register(apass.function_pass(sort, opt_level=0, name="Sort", idempotent=True))
    assert str(apass.plan(Sequential([module_pass("A", required=["Sort"])]))) == (
        "run    sequential\nmaybe    Sort      required by A; unless an earlier result holds\nrun      A"
    )
