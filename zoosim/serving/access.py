"""Access control: keys, compared in constant time, and a limit on the requests per second of each."""

import hmac
import time
from collections.abc import Mapping

from zoosim.core.digests import content_digest
from zoosim.core.errors import ZoosimError

DECIDE, FEEDBACK, ADMIN = "decide", "feedback", "admin"
EVERYTHING = ""


class Refused(ZoosimError):
    """A request without a key, or with one that does not open what it asks for."""


class TooMany(ZoosimError):
    """A key that makes more requests than it may; `seconds` say when it may come again."""

    def __init__(self, line: str, seconds: float) -> None:
        super().__init__(line)
        self.seconds = seconds


class Access:
    """The keys of a service, kept as hashes."""

    def __init__(self, keys: Mapping[str, str], rate: float) -> None:
        """Take over the keys.

        Args:
            keys: Keys by the names of their settings: `key` opens everything, `decide_key` deciding, and so on. Without
                any, everything is open.
            rate: Requests per second that one key may make, 0 for any number.
        """
        self._hashes = {name.removesuffix("key").rstrip("_"): _digest(key) for name, key in keys.items() if key}
        self._rate = rate
        self._tokens = {role: max(rate, 1.0) for role in [*self._hashes, EVERYTHING]}
        self._filled_at = time.monotonic()

    def check(self, role: str, key: str) -> None:
        """Raise `Refused` or `TooMany` unless a key opens a part of the service now."""
        # Before a token is taken, so that whoever tries keys out takes nobody's.
        key_role = self._role_of(role, key)
        if self._rate:
            self._take_token(key_role)

    def _role_of(self, role: str, key: str) -> str:
        if not self._hashes:
            return EVERYTHING
        key_hash = _digest(key)
        # All keys are compared, and as hashes of one length, so that the time taken says nothing about any of them.
        matches = [name for name, own_hash in self._hashes.items() if hmac.compare_digest(own_hash, key_hash)]
        if not matches:
            raise Refused("key: got none, or an unknown one; send Authorization: Bearer KEY")
        if role not in matches and EVERYTHING not in matches:
            raise Refused(f"key: does not open this, expected the key for {role}")
        return matches[0]

    def _take_token(self, role: str) -> None:
        now = time.monotonic()
        # All of them, since one time says when they were last filled.
        for name, tokens in self._tokens.items():
            self._tokens[name] = min(tokens + (now - self._filled_at) * self._rate, max(self._rate, 1.0))
        self._filled_at = now
        if self._tokens[role] < 1.0:
            wait = (1.0 - self._tokens[role]) / self._rate
            raise TooMany(f"got more than {self._rate:g} requests per second; come again in {wait:.2f} s", wait)
        self._tokens[role] -= 1.0


def _digest(key: str) -> str:
    return content_digest(key.encode("utf-8", "replace"))
