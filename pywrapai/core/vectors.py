"""The vectors of one reply: checked, cut to size, and turned into what the caller wants.

They stay as they came, an array or lists, until somebody asks for the other: floats of JSON are
not rounded on their way to lists, and numpy is needed for arrays alone.
"""

from __future__ import annotations

import math
import struct
from binascii import a2b_base64
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from pywrapai.core.extras import needs
from pywrapai.exceptions import InvalidRequestError, ServerError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array: TypeAlias = npt.NDArray[np.float32]
    Vectors: TypeAlias = Array | Sequence[Sequence[float]]


def checked_vectors(vectors: Vectors, count: int) -> Vectors:
    """The same vectors. ServerError unless there are `count` of one size, of finite numbers."""
    if len(vectors) != count:
        raise ServerError(f"the server sent {len(vectors)} vectors for {count} texts")
    try:
        sizes, finite = _sizes(vectors), _all_finite(vectors)
    except TypeError as error:
        raise ServerError(f"the server sent vectors that are not of numbers ({error})") from error
    if len(sizes) != 1 or 0 in sizes:
        found = " and ".join(map(str, sorted(sizes)))
        raise ServerError(f"the server sent vectors of {found} numbers")
    if not finite:
        raise ServerError("the server sent a vector with NaN or infinity in it")
    return vectors


def _sizes(vectors: Vectors) -> set[int]:
    if _is_array(vectors):
        return {cast("Array", vectors).shape[1]}
    return {len(vector) for vector in vectors}


def _all_finite(vectors: Vectors) -> bool:
    if _is_array(vectors):
        import numpy as np

        return bool(np.isfinite(vectors).all())
    return all(math.isfinite(sum(vector)) for vector in vectors)  # NaN and infinity stay in a sum


def shortened(vectors: Vectors, dimensions: int) -> Vectors:
    """The vectors cut to that many dimensions, each of length 1 again; a zero vector stays zero.

    InvalidRequestError if they have fewer.
    """
    size = len(vectors[0])
    if size < dimensions:
        raise InvalidRequestError(
            f"dimensions={dimensions} is more than the {size} that this model gives"
        )
    if _is_array(vectors):
        return normalised(cast("Array", vectors)[:, :dimensions])
    return [_unit(vector[:dimensions]) for vector in vectors]


def normalised(array: Array) -> Array:
    """The rows at length 1; a zero row stays zero."""
    import numpy as np

    lengths = np.linalg.norm(array, axis=1, keepdims=True)
    lengths[lengths == 0] = 1
    return cast("Array", array / lengths)


def _unit(vector: Sequence[float]) -> list[float]:
    length = math.sqrt(math.fsum(x * x for x in vector)) or 1.0
    return [x / length for x in vector]


def from_base64(encoded: Sequence[str]) -> Vectors:
    """The float32 vectors in these texts, little-endian; an array if numpy is installed.

    ValueError for what is not base64, or for vectors of different sizes.
    """
    size = len(a2b_base64(encoded[0]))
    # Unlike an array over bytes, one over a bytearray can be changed.
    whole = bytearray(size * len(encoded))
    for at, text in enumerate(encoded):
        row = a2b_base64(text, strict_mode=True)
        if len(row) != size or size % 4:
            raise ValueError(f"a vector of {len(row)} bytes, after one of {size}")
        whole[at * size : (at + 1) * size] = row
    try:
        import numpy as np
    except ImportError:
        return [list(row) for row in struct.iter_unpack(f"<{size // 4}f", whole)]
    array = np.frombuffer(whole, dtype="<f4").reshape(len(encoded), size // 4)
    return array.astype(np.float32, copy=False)


def to_lists(vectors: Vectors) -> list[list[float]]:
    """The vectors as lists."""
    if _is_array(vectors):
        return cast("list[list[float]]", cast("Array", vectors).tolist())
    return [list(vector) for vector in vectors]


def numpy_for_arrays() -> Any:
    """The module. MissingDependencyError if it is not installed."""
    with needs("rag"):
        import numpy
    return numpy


def _is_array(vectors: Vectors) -> bool:
    return hasattr(vectors, "dtype")
