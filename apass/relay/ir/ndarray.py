"""`NDArray`: the read-only numpy array that a constant holds."""

from functools import cache
from hashlib import blake2b
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["Array", "NDArray"]

# Cached, because numpy builds the name of an element type anew on each call, which is slow.
_name_of = cache(str)

Array: TypeAlias = npt.NDArray[np.generic]
"""A numpy array of any element type."""


class NDArray(np.ndarray[tuple[int, ...], np.dtype[np.generic]]):
    """A numpy array that cannot be written to, with the accessors of `tvm.nd.NDArray`."""

    _digest: str | None = None

    @classmethod
    def of(cls, value: npt.ArrayLike) -> "NDArray":
        """Return the value as a read-only array. Only a writeable array is copied."""
        if type(value) is NDArray and not value.flags.writeable:
            return value
        source = np.asarray(value)
        array = (source.copy() if source.flags.writeable else source).view(cls)
        array.flags.writeable = False
        return array

    def numpy(self) -> Array:
        """Return a view as a plain numpy array, also read-only."""
        return self.view(np.ndarray)

    def asnumpy(self) -> Array:
        """Return `numpy()`, under TVM's older name."""
        return self.numpy()

    @property
    def dtype_name(self) -> str:
        """The element type as `TensorType` spells it."""
        return _name_of(self.dtype)

    @property
    def digest(self) -> str:
        """A hash of the element type, the shape and the bits, cached for read-only arrays."""
        if self._digest is None or self.flags.writeable:
            hasher = blake2b(f"{self.dtype} {self.shape} ".encode(), digest_size=16)
            hasher.update(np.ascontiguousarray(self).reshape(-1).view(np.uint8).data)
            self._digest = hasher.hexdigest()
        return self._digest
