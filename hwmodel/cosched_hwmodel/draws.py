"""Random numbers that depend only on their key: (seed, purpose, ids).

A draw is the same whether requested first, last or twice, so adding a job or reordering a loop changes no other number.
The purpose is a short fixed word, one for each use (``arrivals``, ``demand``, ``pair``, ...). A property of an
unordered pair is drawn with its two ids sorted; one of an ordered pair with the ids in their order.

The mixing is splitmix64's: each word is folded into the state by exclusive or, then the state steps by the golden
gamma and is finalised. For a given state that is a bijection of the word, so two ids never share a key. No
process-dependent hash takes part: the numbers are the same on every Python and every machine. Not for secrets.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MASK = 0xFFFFFFFFFFFFFFFF
_GAMMA = 0x9E3779B97F4A7C15
_MIX_1 = 0xBF58476D1CE4E5B9
_MIX_2 = 0x94D049BB133111EB
_FNV_OFFSET = 0xCBF29CE484222325
_FNV_PRIME = 0x100000001B3
_TO_UNIT = 2.0**-53
_BEGUN = 256  # cached beginnings of keys: a seed and a purpose serve millions of draws


def _absorb(state: int, words: Iterable[int]) -> int:
    for word in words:
        state = ((state ^ (word & _MASK)) + _GAMMA) & _MASK
        state = ((state ^ (state >> 30)) * _MIX_1) & _MASK
        state = ((state ^ (state >> 27)) * _MIX_2) & _MASK
        state ^= state >> 31
    return state


@lru_cache(maxsize=_BEGUN, typed=True)
def _start_key(seed: int, purpose: str) -> int:
    state = _FNV_OFFSET
    for byte in purpose.encode():
        state = ((state ^ byte) * _FNV_PRIME) & _MASK
    return _absorb(state, (seed,))


def key(seed: int, purpose: str, *ids: int) -> int:
    """Return the 64-bit key of a draw, in [0, 2**64).

    Seed and ids are taken modulo 2**64 (negative ones as two's complement). The purpose enters by the 64-bit FNV-1a
    hash of its UTF-8 form.
    """
    return _absorb(_start_key(seed, purpose), ids)


def uniform(seed: int, purpose: str, *ids: int) -> float:
    """Return a number uniform in [0, 1): the 53 upper bits of the key."""
    return (key(seed, purpose, *ids) >> 11) * _TO_UNIT


def uniforms(seed: int, purpose: str, *ids: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return ``uniform`` of every element of ``ids``, with bit-identical numbers.

    ``ids`` is one int64 array (of one dimension or more), or several of one shape for draws that are keyed by several
    ids; the result has that shape.
    """
    return _to_unit(_absorb_all(seed, purpose, ids))


class Beginnings:
    """The beginnings of keys: draws that have all ids in common but the last one take that one only.

    ``Beginnings(seed, purpose, *ids).uniforms(last)`` is ``uniforms(seed, purpose, *ids, last)``, with ``last`` for every
    element.
    """

    def __init__(self, seed: int, purpose: str, *ids: NDArray[np.int64]) -> None:
        self._states = _absorb_all(seed, purpose, ids)

    def uniforms(self, last: int) -> NDArray[np.float64]:
        """Return the draws whose last id is this one."""
        import numpy as np  # noqa: PLC0415  (a command's start-up must not pay for it)

        state = self._states ^ np.uint64(last & _MASK)
        _finalise(state)
        return _to_unit(state)


def _absorb_all(seed: int, purpose: str, ids: Sequence[NDArray[np.int64]]) -> NDArray[np.uint64]:
    import numpy as np  # noqa: PLC0415  (likewise)

    first, *others = [np.asarray(words, dtype=np.int64).view(np.uint64) for words in ids]
    state: NDArray[np.uint64] = first ^ np.uint64(key(seed, purpose))
    _finalise(state)
    for words in others:
        state ^= words
        _finalise(state)
    return state


@lru_cache(maxsize=1)
def _steps() -> tuple[np.uint64, ...]:
    """Return the constants of `_finalise` as numbers of numpy: to make them takes as long as to use them."""
    import numpy as np  # noqa: PLC0415  (likewise)

    return tuple(map(np.uint64, (_GAMMA, 30, _MIX_1, 27, _MIX_2, 31)))


def _finalise(state: NDArray[np.uint64]) -> None:
    gamma, shift_1, mix_1, shift_2, mix_2, shift_3 = _steps()
    state += gamma
    state ^= state >> shift_1
    state *= mix_1
    state ^= state >> shift_2
    state *= mix_2
    state ^= state >> shift_3


def _to_unit(state: NDArray[np.uint64]) -> NDArray[np.float64]:
    import numpy as np  # noqa: PLC0415  (likewise)

    return (state >> np.uint64(11)).astype(np.float64) * _TO_UNIT


def choice(draw: float, weights: Sequence[int]) -> int:
    """Return the index that ``draw`` in [0, 1) picks among integer weights, e.g. (80, 10, 10).

    An index of weight 0 is never picked. Raises ValueError if a weight is negative, all are 0, or the draw is out of
    range.
    """
    if min(weights, default=0) < 0 or sum(weights) == 0 or not 0.0 <= draw < 1.0:
        raise ValueError(f"no choice of weights {tuple(weights)} by draw {draw}")
    position = draw * sum(weights)
    below = 0
    for index, weight in enumerate(weights):
        below += weight
        if position < below:
            return index
    raise AssertionError(f"draw {draw} fell beyond weights {tuple(weights)}")
