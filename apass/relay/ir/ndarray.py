"""`NDArray`: the read-only numpy array that a constant holds."""

from functools import cache
from hashlib import blake2b
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["Array", "NDArray"]

_name_of = cache(str)  # numpy finds the name of an element type anew each time, and takes its time for it

Array: TypeAlias = npt.NDArray[np.generic]
"""A numpy array of any element type."""


class NDArray(np.ndarray[tuple[int, ...], np.dtype[np.generic]]):
    """A numpy array that cannot be written to, with the accessors of `tvm.nd.NDArray`."""

    _digest: str | None = None

    @classmethod
    def of(cls, value: npt.ArrayLike) -> "NDArray":
        """Return the value as a read-only array, without a copy if nobody can write to it."""
        if type(value) is NDArray and not value.flags.writeable:
            return value
        given = np.asarray(value)
        array = (given.copy() if given.flags.writeable else given).view(cls)
        array.flags.writeable = False
        return array

    def numpy(self) -> Array:
        """Return it as a plain numpy array, read-only as well."""
        return self.view(np.ndarray)

    def asnumpy(self) -> Array:
        """Return it as a plain numpy array; the older of TVM's two names."""
        return self.numpy()

    @property
    def dtype_name(self) -> str:
        """The element type, as a TensorType has it."""
        return _name_of(self.dtype)

    @property
    def digest(self) -> str:
        """A text that arrays share that have one element type, one shape and the same bits; found out once."""
        if self._digest is None or self.flags.writeable:
            made = blake2b(f"{self.dtype} {self.shape} ".encode(), digest_size=16)
            made.update(np.ascontiguousarray(self).reshape(-1).view(np.uint8).data)
            self._digest = made.hexdigest()
        return self._digest
