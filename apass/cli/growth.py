"""`--max-growth`: a result that is too much larger than its model is not kept."""

from dataclasses import dataclass

from apass.errors import InputError

__all__ = ["MaxGrowth"]


@dataclass(frozen=True, slots=True)
class MaxGrowth:
    """How much larger than its model a result may be."""

    bytes: int = 0
    """The number of bytes."""
    share: float = 0.0
    """The share of the size of the model."""

    @classmethod
    def parse(cls, text: str) -> "MaxGrowth":
        """Return the limit that an option gives, such as `4096` or `5%`.

        Raises:
            InputError: if the text is neither a number of bytes nor a percentage.

        """
        number = text.removesuffix("%").strip()
        if not (number.isascii() and number.replace(".", "", text.endswith("%")).isdecimal()):
            raise InputError(f"--max-growth takes a number of bytes or a percentage, such as 4096 or 5%, got {text!r}")
        return cls(share=float(number) / 100) if text.endswith("%") else cls(int(number))

    def allows(self, before: int, after: int) -> bool:
        """Return whether a result may have a size, given that of its model."""
        return after <= before + max(self.bytes, self.share * before)
