"""`Id`, `SourceName` and `Span`: the names of TVM's `relay.base`."""

from apass.relay.ir.base import Id, SourceName, Span

__all__ = ["Id", "SourceName", "Span"]
