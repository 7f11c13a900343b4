"""`modules`: Hypothesis strategies for the modules of an IR.

from hypothesis import given
from apass.testing.strategies import modules

@given(modules(MY_ADAPTER))
def test_pass(mod): ...
"""

from collections.abc import Sequence
from typing import Any

from apass.core.adapter import IRAdapter, ModT
from apass.errors import AdapterError, MissingExtraError, VerifyError
from apass.testing.running import shrinkings_of

try:
    from hypothesis import reject
    from hypothesis import strategies as st
except ImportError as _error:
    raise MissingExtraError(f"strategies need hypothesis ({_error}): pip install 'apass[testing]'") from _error

__all__ = ["modules"]


def modules(adapter: IRAdapter[ModT, Any], samples: Sequence[ModT] = ()) -> st.SearchStrategy[ModT]:
    """Return a strategy for valid modules of an IR.

    Without samples, it is the `strategy()` of the adapter; those of dicts and of Relay have one. With samples, it
    yields them and smaller modules, by the `shrinkings` of the adapter.

    Parameters:
        adapter: the adapter, or an object with an attribute `adapter`.
        samples: valid modules.

    Raises:
        AdapterError: if there are no samples and the adapter has no strategy.

    >>> import apass
    >>> from hypothesis import find
    >>> len(find(modules(apass.adapter_for({})), lambda mod: len(mod) > 1))
    2

    """
    adapter = getattr(adapter, "adapter", adapter)
    if samples:
        return st.sampled_from(list(samples)).flatmap(lambda mod: _smaller(adapter, mod))
    strategy = getattr(adapter, "strategy", None)
    if strategy is None:
        kind = type(adapter).__qualname__
        raise AdapterError(f"{kind} has no strategy; give it a method strategy(), or pass modules as samples")
    result: st.SearchStrategy[ModT] = strategy()
    return result


@st.composite
def _smaller(draw: st.DrawFn, adapter: Any, mod: Any) -> Any:
    """Draw a module, without some of its parts."""
    shrinkings = [shrinking for shrinking in shrinkings_of(adapter, mod) if shrinking.count]
    if not shrinkings or draw(st.booleans()):
        return mod
    shrinking = draw(st.sampled_from(shrinkings))
    removed = draw(st.frozensets(st.integers(0, shrinking.count - 1)))
    try:
        result = shrinking.without(removed)
    except Exception:
        reject()  # these parts cannot be removed together
    try:
        adapter.verify(result)
    except VerifyError:
        reject()
    return result
