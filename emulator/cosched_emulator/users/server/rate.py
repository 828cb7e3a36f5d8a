"""The rate limit of each user: token buckets, in bounded memory. The caller supplies the time."""

from __future__ import annotations

from collections import OrderedDict


class Bucket:
    """Fills by ``per_s`` tokens a second up to ``burst``; full at first. ``now_s`` never goes back."""

    __slots__ = ("_burst", "_filled_s", "_per_s", "_tokens")

    def __init__(self, per_s: float, burst: float, now_s: float) -> None:
        self._per_s = per_s
        self._burst = burst
        self._tokens = burst
        self._filled_s = now_s

    def take(self, tokens: float, now_s: float) -> bool:
        """Take ``tokens``, or none and return False if there are fewer. More than ``burst`` take a full bucket."""
        self._fill(now_s)
        tokens = min(tokens, self._burst)
        if self._tokens < tokens:
            return False
        self._tokens -= tokens
        return True

    def charge(self, tokens: float, now_s: float) -> None:
        """Take ``tokens`` even if there are fewer: no more can be taken until the debt is refilled."""
        self._fill(now_s)
        self._tokens -= tokens

    def is_full(self, now_s: float) -> bool:
        """Return whether the bucket is equivalent to a new one."""
        self._fill(now_s)
        return self._tokens >= self._burst

    def _fill(self, now_s: float) -> None:
        self._tokens = min(self._burst, self._tokens + (now_s - self._filled_s) * self._per_s)
        self._filled_s = now_s


class Buckets:
    """One `Bucket` for each name, of which at most ``most`` are remembered.

    A full bucket may be forgotten, because a new one is equivalent. When there is no place for a further name, it shares one bucket
    with all other names without a place: many invented names together get no more than one name.
    """

    def __init__(self, per_s: float, burst: float, most: int) -> None:
        self._per_s = per_s
        self._burst = burst
        self._most = most
        self._buckets: OrderedDict[str, Bucket] = OrderedDict()  # the most recently used is the last
        self._shared: Bucket | None = None

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, name: str, tokens: float, now_s: float) -> bool:
        """Take ``tokens`` from the bucket of ``name``; False if there are fewer."""
        return self._bucket(name, now_s).take(tokens, now_s)

    def charge(self, name: str, tokens: float, now_s: float) -> None:
        """Take ``tokens`` from the bucket of ``name``, even if there are fewer."""
        self._bucket(name, now_s).charge(tokens, now_s)

    def _bucket(self, name: str, now_s: float) -> Bucket:
        bucket = self._buckets.get(name)
        if bucket is not None:
            self._buckets.move_to_end(name)
            return bucket
        if len(self._buckets) >= self._most:
            oldest = next(iter(self._buckets))
            if not self._buckets[oldest].is_full(now_s):
                self._shared = self._shared or self._new(now_s)
                return self._shared
            del self._buckets[oldest]
        self._buckets[name] = bucket = self._new(now_s)
        return bucket

    def _new(self, now_s: float) -> Bucket:
        return Bucket(self._per_s, self._burst, now_s)
