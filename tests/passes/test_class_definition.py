"""Passes as classes: keywords of the class statement, options, and registration."""

import importlib
import inspect
import pickle
import shutil
import sys
from dataclasses import FrozenInstanceError, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest

import apass
from tests.helpers.registering import clean_registry, message_of
from tests.passes import user_code
from tests.passes.user_code import Double, Old, Older, Rename, Tune

__all__ = ["clean_registry"]

for registered in ("user_code.Double", "user_code.Shift"):
    # Other tests list the registered passes.
    apass.unregister_pass(registered)

Module = dict[str, int]

pytestmark = pytest.mark.anyio


class Keep(apass.ModulePass[Module], opt_level=0):
    """A pass without options."""

    def transform_module(self, mod: Module, ctx: apass.PassContext) -> Module:
        return mod


async def test_keywords_set_info_and_options() -> None:
    assert Tune.info == apass.PassInfo(1, "Tune")
    assert Rename.info == apass.PassInfo(2, "Rename", ["Tune"])
    assert (Tune.timeout, Tune.on_error, Rename.timeout, Rename.caching.cacheable) == (30.0, "raise", None, True)
    assert await Tune(8)({"f": 1}) == {"f": 9}
    assert await Rename({"f": "g"})({"f": 1}) == {"g": 1}


def test_class_keeps_the_analyses_that_it_preserves() -> None:
    @apass.analysis
    def size(mod: Module) -> int:
        return len(mod)

    class ByKeyword(Keep, preserves=[size]):
        pass

    class InBody(Keep):
        preserves = frozenset([size])

    class Inherited(ByKeyword):
        pass

    kinds: list[type[apass.Pass[Any]]] = [Keep, ByKeyword, InBody, Inherited]
    assert [kind.contract.preserves for kind in kinds] == [frozenset(), *[frozenset([size])] * 3]


def test_options_are_arguments_of_the_constructor() -> None:
    assert str(inspect.signature(Tune)) == "(size: int = 4, mode: str = 'fast', *, names: tuple[str, ...] = ()) -> None"
    assert (Tune(8).size, Tune(mode="slow").mode, Tune(names=("f",)).names) == (8, "slow", ("f",))
    misspelt: Any = {"sise": 8}
    with pytest.raises(TypeError, match="unexpected keyword argument 'sise'"):
        Tune(**misspelt)


def test_spec_has_the_options_that_differ() -> None:
    assert Tune().spec == Tune(4).spec == ("Tune", {})
    assert (str(Tune(8, names=("f", "g"))), Tune(8) == Tune(size=8), Tune(8) == Tune()) == (
        "Tune{size=8,names=[f,g]}",
        True,
        False,
    )


def test_constructor_of_the_class_is_kept() -> None:
    assert (Old(3).by, Older(4).by, Old(3).spec, Old(3).timeout) == (3, 4, None, 3.0)


def test_options_of_own_constructor_are_attributes() -> None:
    class Own(Keep):
        def __init__(self, by: int, mode: str = "fast") -> None:
            self.by, self.mode = by, mode

    assert (str(Own(3)), str(apass.Sequential([Own(3, "slow")]))) == ("Own{by=3}", "Own{by=3,mode=slow}")
    assert repr(Own(3)) == "<Own Own opt_level=0 by=3>"
    apass.register_pass(Own)
    assert vars(apass.parse_pipeline(str(Own(3, "slow"))).children()[0])["mode"] == "slow"


def test_lost_options_of_own_constructor_are_errors() -> None:
    class Lost(Keep):
        def __init__(self, by: int) -> None:
            self._twice = 2 * by

    assert repr(Lost(3)) == "<Lost Lost opt_level=0>"
    message = "pass 'Lost' cannot be written as text: Lost.__init__ takes 'by', but the pass has no attribute"
    with pytest.raises(TypeError, match=message):
        str(apass.Sequential([Lost(3)]))


def test_repr_shows_the_options() -> None:
    assert repr(Tune(8, names=("f",))) == "<Tune Tune opt_level=1 size=8 names=('f',)>"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": "x"}, "option 'size' of pass 'Tune': expected int, got 'x' (str)"),
        ({"size": True}, "option 'size' of pass 'Tune': expected int, got True (bool)"),
        ({"names": "f"}, "option 'names' of pass 'Tune': expected tuple[str, ...], got 'f' (str)"),
    ],
)
def test_option_of_wrong_type_is_an_error(options: dict[str, Any], message: str) -> None:
    assert message_of(apass.errors.PassDefinitionError, lambda: Tune(**options)) == message
    if "size" in options:
        assert message_of(apass.errors.PassDefinitionError, lambda: Tune(options["size"])) == message


def test_options_are_converted_to_their_types() -> None:
    class Scale(Keep):
        factor: float = 1.0
        names: tuple[str, ...] = ()

    names: Any = ["f"]
    pass_ = Scale(2, names)
    assert (pass_.factor, type(pass_.factor), pass_.names) == (2.0, float, ("f",))


def test_default_without_annotation_replaces_the_inherited() -> None:
    class Large(Tune):
        size = 8
        names = ("f",)

    assert (Large().size, str(Large()), str(Large(4)), len(Large(names=()).names)) == (8, "Large", "Large{size=4}", 0)
    assert str(inspect.signature(Large)).startswith("(size: int = 8, mode: str = 'fast', *, names: tuple[str, ...] =")
    size: Any = "x"
    message = "option 'size' of pass 'Large': expected int, got 'x' (str)"
    assert message_of(apass.errors.PassDefinitionError, lambda: Large(size)) == message


def test_options_of_base_classes_come_first() -> None:
    class More(Tune, opt_level=2):
        depth: int = 1

    class Same(More, opt_level=3):
        pass

    assert list(inspect.signature(More).parameters) == ["size", "mode", "depth", "names"]
    assert (Same.info.opt_level, Same(1, "slow", 2).spec) == (3, ("Same", {"size": 1, "mode": "slow", "depth": 2}))


def test_pass_cannot_be_changed_after_construction() -> None:
    class Table(apass.ModulePass[Module], opt_level=1):
        names: tuple[str, ...] = ()
        lengths: dict[str, int] = field(init=False)
        count: ClassVar[int] = 3

        def __post_init__(self) -> None:
            self.lengths = {name: len(name) for name in self.names}

        def transform_module(self, mod: Module, ctx: apass.PassContext) -> Module:
            self.names = tuple(mod)
            return mod

    table = Table(("ab",))
    assert (table.lengths, table.spec, table.count) == ({"ab": 2}, ("Table", {"names": ("ab",)}), 3)
    message = (
        "cannot change 'names' of pass 'Table': a pass may run on many modules at once; "
        "keep the state of a run in local variables, and create another pass for other options"
    )
    with pytest.raises(FrozenInstanceError) as caught:
        apass.run(table, {"f": 1})
    assert str(caught.value) == message
    with pytest.raises(FrozenInstanceError):
        del table.names


def test_annotated_option_of_passes_is_an_argument() -> None:
    class Slow(apass.FunctionPass[Module, int], opt_level=1):
        timeout: float | None = 2.0
        version: str = "7"

        def transform_function(self, func: int, mod: Module, ctx: apass.PassContext) -> int:
            return func

    assert (Slow().timeout, Slow(timeout=5.0).timeout, Slow().caching.version) == (2.0, 5.0, "7")
    assert list(inspect.signature(Slow).parameters) == ["timeout"]


def test_name_and_register_register_the_class() -> None:
    class Named(Keep, opt_level=1, name="mine.Named"):
        depth: int = 1

    class Registered(Keep, opt_level=1, register=True):
        pass

    class Hidden(Keep, opt_level=1, name="mine.Hidden", register=False):
        pass

    assert [name for name in apass.list_passes() if name in ("mine.Named", "Registered", "mine.Hidden")] == [
        "Registered",
        "mine.Named",
    ]
    pass_ = apass.parse_pipeline("mine.Named{depth=3}").passes[0]
    assert (type(pass_), pass_ == Named(3), str(pass_)) == (Named, True, "mine.Named{depth=3}")
    assert apass.get_pass("mine.Named", depth=1) == apass.get_pass("mine.Named") == Named()
    assert (Registered.info.name, Hidden.info.name) == ("Registered", "mine.Hidden")


def test_registered_class_has_the_registered_name() -> None:
    apass.register_pass("mine.Other", type("Other", (Keep,), {}, opt_level=1))
    assert isinstance(apass.get_pass("mine.Other"), Keep)


async def test_pass_class_runs_in_process() -> None:
    pass_ = Tune(5)
    assert pickle.loads(pickle.dumps(pass_)) == pass_


INVALID: list[tuple[dict[str, Any], str]] = [
    ({"name": "x"}, "please provide opt_level: class Bad(..., opt_level=...)"),
    ({"required": ["x"]}, "please provide opt_level: class Bad(..., opt_level=...)"),
    ({"opt_level": "1"}, "opt_level of pass 'Bad' must be an int, got '1'"),
    ({"opt_level": 1, "timeout": -1}, "timeout must be a positive number of seconds or None, got -1"),
    ({"opt_level": 1, "required": "Tune"}, "required is the string 'Tune'; give a list of names"),
    ({"opt_level": 1, "executor": "proces"}, "did you mean 'process'?"),
]


@pytest.mark.parametrize(("keywords", "message"), INVALID)
def test_invalid_keyword_is_an_error(keywords: dict[str, Any], message: str) -> None:
    assert message in message_of(apass.errors.PassDefinitionError, lambda: type("Bad", (Keep,), {}, **keywords))


def test_misspelt_keyword_is_an_error() -> None:
    message = "unexpected argument 'cachable'; did you mean 'cacheable'?"
    assert message_of(TypeError, lambda: type("Bad", (Keep,), {}, cachable=True)) == message


def test_info_and_level_exclude_each_other() -> None:
    message = "class Bad has opt_level= and info; leave one of them out"
    members = {"info": apass.PassInfo(1, "Bad")}
    assert message_of(apass.errors.PassDefinitionError, lambda: type("Bad", (Keep,), members, opt_level=1)) == message


def test_mutable_default_is_an_error() -> None:
    members: dict[str, Any] = {"names": [], "__annotations__": {"names": list[str]}}
    message = message_of(apass.errors.PassDefinitionError, lambda: type("Bad", (Keep,), members, opt_level=1))
    assert message.startswith(
        "class Bad: mutable default <class 'list'> for field names is not allowed: use default_fac"
    )


def _two(func: Any, ctx: Any) -> Any:
    return func


def _three(func: Any, mod: Any, ctx: Any) -> Any:
    return func


def _one(self: Any) -> Any:
    return self


two: Any = _two
three: Any = _three


class Two:
    def transform_function(self, func: Any, ctx: Any) -> Any:
        return func


WRONG_SIGNATURES: list[tuple[Any, str]] = [
    (
        partial(apass.function_pass, two, opt_level=1),
        "the function of pass '_two' takes (func, ctx), expected (func, mod, ctx)",
    ),
    (
        partial(apass.module_pass, three, opt_level=1),
        "the function of pass '_three' takes (func, mod, ctx), expected (mod, ctx)",
    ),
    (
        lambda: apass.function_pass(opt_level=1)(Two),
        "transform_function of class Two takes (self, func, ctx), expected (self, func, mod, ctx)",
    ),
    (
        lambda: type("Bad", (Keep,), {"transform_module": _one}, opt_level=1),
        "transform_module of class Bad takes (self), expected (self, mod, ctx)",
    ),
]


@pytest.mark.parametrize(("define", "message"), WRONG_SIGNATURES)
def test_signature_of_body_is_checked(define: Any, message: str) -> None:
    assert message_of(apass.errors.PassDefinitionError, define) == message


@pytest.mark.parametrize("pass_", [Tune(), user_code.Add, Double, apass.Sequential([Tune()])], ids=str)
def test_signature_of_pass_is_its_call(pass_: Any) -> None:
    assert list(inspect.signature(pass_).parameters) == ["mod", "ctx", "donate"]


def test_subclass_without_keywords_is_another_pass() -> None:
    class Slow(Tune):
        size: int = 5

    assert (Slow.info, str(Slow()), str(Slow(size=6)), Slow() == Tune()) == (
        apass.PassInfo(1, "Slow"),
        "Slow",
        "Slow{size=6}",
        False,
    )


async def test_class_without_info_is_an_error_when_called() -> None:
    class NoInfo(apass.ModulePass[Module]):
        size: int = 5

        def transform_module(self, mod: Module, ctx: apass.PassContext) -> Module:
            return mod

    with pytest.raises(apass.errors.PassDefinitionError, match="NoInfo has no `info`; set it to PassInfo"):
        await NoInfo()({"f": 1})


CACHED = """
import apass

class Step(apass.FunctionPass, opt_level=1, cacheable=True):
    size: int = 1

    def transform_function(self, func, mod, ctx):
        return func + CHANGE

    @staticmethod
    def helper():
        return 0
"""


def test_cache_key_contains_the_code_of_classes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    keys: list[str | None] = []
    for text in (CACHED, CACHED, CACHED.replace("CHANGE", "2"), CACHED.replace("return 0", "return 1")):
        (tmp_path / "cached_step.py").write_text(text)
        sys.modules.pop("cached_step", None)
        importlib.invalidate_caches()
        shutil.rmtree(tmp_path / "__pycache__", ignore_errors=True)
        module = importlib.import_module("cached_step")
        keys.append(module.Step().own_cache_key(apass.PassContext()))
    assert keys[0] == keys[1]
    assert len(set(keys)) == 3


@pytest.mark.parametrize("name", ["text", "children", "run"])
def test_option_cannot_hide_a_method(name: str) -> None:
    with pytest.raises(apass.errors.PassDefinitionError) as caught:
        type("Bad", (apass.ModulePass,), {"__annotations__": {name: str}})
    assert str(caught.value) == (
        f"class Bad: the option {name!r} would hide the method of that name; choose another name"
    )
