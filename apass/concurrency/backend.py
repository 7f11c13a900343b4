"""`backend_name`: the event loop that runs."""

from anyio.lowlevel import current_token

__all__ = ["backend_name"]


def backend_name() -> str:
    """Return the name of the running event loop, as a backend of `anyio.run`."""
    native = type(current_token().native_token).__module__
    return "trio" if native.partition(".")[0] == "trio" else "asyncio"
