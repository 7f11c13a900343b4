"""`TempOpAttr`: a temporary attribute of an operator."""

from types import TracebackType
from typing import Self

from apass.relay.ir.expr import OP_ATTRS, Op

__all__ = ["TempOpAttr"]


class TempOpAttr:
    """A context manager that sets an attribute of an operator.

    On exit it restores the previous value, or removes the attribute if it had none.

    >>> import apass.relay.op.nn
    >>> with TempOpAttr("nn.relu", "Colour", "green"):
    ...     Op.get("nn.relu").get_attr("Colour")
    'green'
    >>> Op.get("nn.relu").get_attr("Colour") is None
    True
    """

    def __init__(self, op_name: str, attr_key: str, attr_value: object) -> None:
        """Look up the operator and store the attribute's name and value.

        Raises:
            UnknownOpError: if there is no such operator.

        """
        self.op: Op = Op.get(op_name)
        """The operator."""
        self.attr_key = attr_key
        """The name of the attribute."""
        self.attr_value = attr_value
        """The temporary value of the attribute."""
        self._before: list[tuple[int, object]] = []

    def __enter__(self) -> Self:
        """Set the attribute."""
        entries = OP_ATTRS.setdefault(self.attr_key, {})
        self._before = [entries[self.op.name]] if self.op.name in entries else []
        self.op.reset_attr(self.attr_key)
        self.op.set_attr(self.attr_key, self.attr_value)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Restore the previous value."""
        self.op.reset_attr(self.attr_key)
        for level, value in self._before:
            self.op.set_attr(self.attr_key, value, level)
