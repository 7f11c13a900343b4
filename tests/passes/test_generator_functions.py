"""What yields where it should return is refused: nobody would go on with it, and nothing of it would run."""

import functools
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from apass import PassContext, PassDefinitionError, PassInfo, function_pass, module_pass, pass_instrument


def generator(*given: Any) -> Iterator[Any]:
    yield given[0]


async def async_generator(*given: Any) -> AsyncIterator[Any]:
    yield given[0]


class Works:
    transform_module = generator
    transform_function = async_generator


@pytest.mark.parametrize("decorate", [module_pass, function_pass])
@pytest.mark.parametrize("work", [generator, async_generator, functools.partial(generator, 1), Works])
def test_a_pass_that_yields_is_refused(decorate: Any, work: Any) -> None:
    with pytest.raises(PassDefinitionError, match=r"the work of pass '.*' must return its result, and .* yields"):
        decorate(work, opt_level=0)


@pytest.mark.parametrize("hook", [generator, async_generator])
def test_a_hook_that_yields_is_refused(hook: Any) -> None:
    yielding: Any = type("Yielding", (), {"run_before_pass": hook})
    with pytest.raises(TypeError, match=r"the hook Yielding\.run_before_pass yields: nobody goes on with it"):
        pass_instrument(yielding)
    with pytest.raises(TypeError, match=r"the hook Yielding\.run_before_pass yields"):
        PassContext(instruments=[yielding()])


def test_a_hook_that_cannot_be_called_is_refused() -> None:
    class Counter:
        run_before_pass = 3

    with pytest.raises(TypeError, match="the hook run_before_pass of instrument 'Counter' is 3: a hook is called"):
        PassContext(instruments=[Counter()])


def test_a_hook_that_is_none_is_not_defined() -> None:
    class Quiet:
        name = "quiet"
        run_before_pass = None

        def run_after_pass(self, mod: object, info: PassInfo) -> None: ...

    assert PassContext(instruments=[Quiet()]).hooks.before == ()
