"""Who may read: a token in a header, or a cookie that was given for it."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address, ip_network

from itsdangerous import BadSignature, TimestampSigner

LIFETIME_S = 12 * 3600
_SALT = b"pywrapai dashboard"
_FREE_FAILURES = 5
_FAILURE_EVERY_S = 2.0
_MOST_ADDRESSES = 1_000


class Sessions:
    """What a cookie says: that its reader has shown the token, and until when that counts.

    All that is needed is derived from the token: several processes agree, nothing is kept, and
    another token ends all sessions.
    """

    def __init__(self, token: str, now: Callable[[], float] = time.time) -> None:
        self._token = token.encode()
        key = hashlib.scrypt(self._token, salt=_SALT, n=2**14, r=8, p=1, dklen=32)
        self._signer = _Signer(key, now)
        self.cookie = f"pywrapai_{hashlib.sha256(key).hexdigest()[:8]}"
        """Its name, so that two dashboards on one host do not end each other's sessions."""

    def is_token(self, given: str) -> bool:
        """Compared in constant time."""
        return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), self._token)

    def new(self) -> str:
        """A value for the cookie."""
        return self._signer.sign(secrets.token_urlsafe(9)).decode()

    def holds(self, value: str) -> bool:
        """Whether a cookie was given by us, and not too long ago."""
        try:
            self._signer.unsign(value.encode("utf-8", "surrogatepass"), max_age=LIFETIME_S)
        except BadSignature:
            return False
        return True


class _Signer(TimestampSigner):
    def __init__(self, key: bytes, now: Callable[[], float]) -> None:
        super().__init__(key, salt="session", digest_method=hashlib.sha256, key_derivation="hmac")
        self._now = now

    def get_timestamp(self) -> int:
        return int(self._now())


class Failures:
    """How often somebody may be wrong: five times, and then once in two seconds.

    Each address has its own account, so that nobody can keep others out; who shares an address with
    somebody who guesses waits for two seconds at most until the next try is free.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._free_at: OrderedDict[str, float] = OrderedDict()
        """When an address would have all its tries again."""

    def wait_s(self, address: str | None) -> float:
        """How long this address has to wait before it may try; 0 if not."""
        with self._lock:
            debt = self._free_at.get(_network(address), 0.0) - self._now()
        return max(0.0, debt - (_FREE_FAILURES - 1) * _FAILURE_EVERY_S)

    def add(self, address: str | None) -> None:
        """It was wrong."""
        key = _network(address)
        with self._lock:
            begin = max(self._free_at.pop(key, 0.0), self._now())
            self._free_at[key] = begin + _FAILURE_EVERY_S
            if len(self._free_at) > _MOST_ADDRESSES:
                self._free_at.popitem(last=False)


def _network(address: str | None) -> str:
    """Who has one IPv6 address has 2**64."""
    try:
        found = ip_address(address or "")
    except ValueError:
        return ""
    if isinstance(found, IPv6Address):
        return str(ip_network((found, 64), strict=False))
    return str(found)
