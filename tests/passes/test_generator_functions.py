"""Generator functions are rejected as passes and hooks: they would never run."""

import functools
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from apass import PassContext, PassInfo, function_pass, module_pass, pass_instrument
from apass.errors import PassDefinitionError
from tests.helpers.context_state import state_of


def generator(*given: Any) -> Iterator[Any]:
    yield given[0]


async def async_generator(*given: Any) -> AsyncIterator[Any]:
    yield given[0]


class Works:
    transform_module = generator
    transform_function = async_generator


@pytest.mark.parametrize("decorate", [module_pass, function_pass])
@pytest.mark.parametrize("work", [generator, async_generator, functools.partial(generator, 1), Works])
def test_generator_functions_are_rejected_as_passes(decorate: Any, work: Any) -> None:
    subject = r"(the function of pass '.*'|transform_(module|function) of class Works)"
    with pytest.raises(PassDefinitionError, match=rf"{subject} must return its result, but .* is a generator function"):
        decorate(work, opt_level=0)


@pytest.mark.parametrize("hook", [generator, async_generator])
def test_generator_functions_are_rejected_as_hooks(hook: Any) -> None:
    yielding: Any = type("Yielding", (), {"run_before_pass": hook})
    with pytest.raises(TypeError, match=r"the hook Yielding\.run_before_pass is a generator, but hooks cannot yield"):
        pass_instrument(yielding)
    with pytest.raises(TypeError, match=r"the hook Yielding\.run_before_pass is a generator"):
        PassContext(instruments=[yielding()])


def test_hook_must_be_callable() -> None:
    class Counter:
        run_before_pass = 3

    with pytest.raises(TypeError, match="the hook run_before_pass of instrument 'Counter' must be callable, got 3"):
        PassContext(instruments=[Counter()])


def test_hook_set_to_none_is_undefined() -> None:
    class Quiet:
        name = "quiet"
        run_before_pass = None

        def run_after_pass(self, mod: object, info: PassInfo) -> None: ...

    assert state_of(PassContext(instruments=[Quiet()])).hooks.before == ()
