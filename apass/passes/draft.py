"""`Draft`: a private module that consecutive passes change in place."""

from typing import Any, Final, final

from apass.concurrency.run_locals import RunLocal

__all__ = ["Draft", "offer_draft", "take_draft", "withdraw_draft"]


@final
class Draft:
    """A module, and a private module with the same contents that a pass may change.

    A Sequential creates it, and offers it to each child that changes modules in place. It forgets the modules before
    any other child, which may keep what it receives.
    """

    __slots__ = ("private", "value")

    def __init__(self, value: object = None, private: object = None) -> None:
        self.value: Any = value
        """The module as passes see it; None if there is none."""
        self.private: Any = private
        """The module to change; it may be `value` itself, if only the runner holds it."""

    def keep(self, value: object, private: object) -> None:
        """Keep a private module with the contents of `value` for the next pass."""
        self.value, self.private = value, private

    def forget(self) -> None:
        """Drop the modules: the next pass in place makes a copy."""
        self.value = self.private = None


_OFFER: Final[RunLocal[tuple[object, Draft] | None]] = RunLocal("draft", None)
"""The draft that a caller offers to one pass.

The pass is named, because its body may call other passes, whose modules it still holds.
"""


def offer_draft(pass_: object, draft: Draft) -> None:
    """Offer a draft to the next execution of `pass_` in this task."""
    _OFFER.set((pass_, draft))


def withdraw_draft() -> None:
    """Withdraw an offer that was not taken, because the pass did not run."""
    _OFFER.set(None)


def take_draft(pass_: object) -> Draft | None:
    """Return the draft that is offered to `pass_`, once; None if there is none."""
    offer = _OFFER.get()
    if offer is None or offer[0] is not pass_:
        return None
    _OFFER.set(None)
    return offer[1]
