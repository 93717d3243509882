"""Who may read, decided on plain strings: the bearer token, the Host header, the headers sent."""

from __future__ import annotations

import hmac
import re
from collections.abc import Collection
from ipaddress import ip_address

LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "::1")

HEADERS = {
    # The one policy is that of the script that renews a page in place: it parses the page again.
    "Content-Security-Policy": (
        "default-src 'self'; base-uri 'none'; object-src 'none'; form-action 'self'; "
        "frame-ancestors 'none'; require-trusted-types-for 'script'; "
        "trusted-types pywrapai-refresh"
    ),
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}

_HOST_HEADER = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\s:@/\[\]]+))(?::[0-9]*)?")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach what listens on `host`."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def host_allowed(header: str, allowed: Collection[str] | None) -> bool:
    """Whether a Host header, port and all, names one of `allowed`; None allows every host.

    A site that re-points its own name to 127.0.0.1 still sends that name.
    """
    if allowed is None:
        return True
    match = _HOST_HEADER.fullmatch(header)
    return match is not None and (match[1] or match[2]).lower() in allowed


def checked_token(token: str) -> str:
    """`token`, if a header can carry it. ValueError otherwise."""
    if not token or token != token.strip() or not token.isprintable():
        raise ValueError(
            "auth_token must be text without white space around it or control characters, "
            "and not empty: give a secret, or None for no token"
        )
    return token


def bearer_matches(header: str, token: str) -> bool:
    """Whether an Authorization header carries `token`, compared in constant time.

    Clients send a token that is not ASCII as UTF-8 or as Latin-1; both are taken.
    """
    scheme, _, sent = header.partition(" ")
    wire = _wire_bytes(sent.strip())
    utf8 = hmac.compare_digest(wire, token.encode("utf-8"))
    latin1 = hmac.compare_digest(wire, _wire_bytes(token))
    return scheme.lower() == "bearer" and (utf8 or latin1)


def _wire_bytes(text: str) -> bytes:
    """The bytes of a header: WSGI hands them over as Latin-1."""
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
