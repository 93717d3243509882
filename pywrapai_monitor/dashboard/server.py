"""Runs the dashboard on waitress, in a thread of this process."""

from __future__ import annotations

import errno
import ipaddress
import logging
import socket
import threading
import webbrowser
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self

from flask import Flask
from waitress import wasyncore
from waitress.server import create_server

from pywrapai.exceptions import ConfigurationError
from pywrapai_monitor.dashboard.app import create_app
from pywrapai_monitor.dashboard.security import LOOPBACK_HOSTS, is_loopback
from pywrapai_monitor.db.base import BaseStore

THREADS = 8
"""A browser opens up to six connections, and one slow query must not hold up the rest."""
MAX_BODY_BYTES = 65_536


def serve(
    store: BaseStore,
    *,
    host: str = "127.0.0.1",
    port: int = 8080,
    auth_token: str | None = None,
    open_browser: bool = False,
    block: bool = True,
    tz: str = "UTC",
    counts: Callable[[], Mapping[str, int]] | None = None,
) -> Server:
    """Serve the dashboard; `port=0` picks a free port.

    Blocks until Ctrl-C, or with `block=False` returns at once and serves until `stop()`.
    ConfigurationError if the port cannot be had; ValueError if `host` is reachable from outside
    and there is no `auth_token`, or if another argument makes no sense.
    """
    allowed = _allowed_hosts(host, auth_token)
    app = create_app(store, auth_token, tz=tz, allowed_hosts=allowed, counts=counts)
    server = Server(app, _listen(host, port))
    if open_browser:  # some browsers return only when they are closed
        threading.Thread(target=webbrowser.open, args=(server.url,), daemon=True).start()
    if block:
        print(f"Dashboard on {server.url} (Ctrl-C stops it)", flush=True)
        server.wait()
    return server


class Server:
    """A running dashboard; `stop()` or leaving its `with` block ends it and frees the port."""

    def __init__(self, app: Flask, listener: socket.socket) -> None:
        self.url = _url(listener)
        self._sockets: dict[int, Any] = {}
        # It warns whenever a request has to wait for one of the threads, as many pages at once do.
        logging.getLogger("waitress.queue").setLevel(logging.ERROR)
        self._wsgi: Any = create_server(
            app,
            map=self._sockets,
            sockets=[listener],
            threads=THREADS,
            max_request_body_size=MAX_BODY_BYTES,
            asyncore_use_poll=True,  # select() fails in a process with over 1,024 open files
            ident=None,
        )
        self._stopping = threading.Lock()
        self._thread = threading.Thread(
            target=self._wsgi.run, name="pywrapai-dashboard", daemon=True
        )
        self._thread.start()

    def wait(self) -> None:
        """Go on until Ctrl-C, then stop; or until another thread calls `stop()`."""
        try:
            while self._thread.is_alive():
                self._thread.join(0.5)  # on Windows a join without a limit ignores Ctrl-C
        except KeyboardInterrupt:
            pass
        finally:
            self.stop()

    def stop(self) -> None:
        """End the server: requests under way get five seconds. Calling it again does nothing."""
        with self._stopping:
            if self._thread.is_alive():
                self._wsgi.task_dispatcher.shutdown()
                self._wsgi.trigger.pull_trigger(self._close)
                self._thread.join()
                # Not sooner: the loop may have ended before the trigger was pulled to wake it.
                if not self._wsgi.task_dispatcher.threads:  # a request that hangs may still pull it
                    self._wsgi.trigger.close()

    def _close(self) -> None:
        """Close every socket, which ends the loop; only its own thread may do that."""
        trigger = self._wsgi.trigger
        for connection in list(self._sockets.values()):
            if connection not in (trigger, self._wsgi):
                connection.close()
        wasyncore.dispatcher.close(self._wsgi)
        trigger.del_channel()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


def _allowed_hosts(host: str, auth_token: str | None) -> tuple[str, ...] | None:
    """On loopback its names alone; a network knows this machine by names we cannot know."""
    if is_loopback(host):
        return (*LOOPBACK_HOSTS, host)
    if auth_token is None:
        raise ValueError(
            f"host {host!r} lets other machines read every user's records: give an auth_token "
            f"(--auth-token), or keep 127.0.0.1"
        )
    return None


def _listen(host: str, port: int) -> socket.socket:
    if isinstance(port, bool) or not isinstance(port, int) or not 0 <= port <= 65_535:
        raise ValueError(f"port must be a whole number from 0 to 65535, not {port!r}")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise ConfigurationError(_why_not(error, host, port)) from error


def _why_not(error: OSError, host: str, port: int) -> str:
    match error:
        case OSError(errno=errno.EADDRINUSE):
            return (
                f"port {port} on {host} is taken: stop what listens there, or give another port "
                f"(0 picks a free one)"
            )
        case PermissionError():
            return f"port {port} on {host} is not allowed to this user: give one above 1023"
        case _:
            return (
                f"cannot listen on {host!r}: {error.strerror or error}; "
                f"give an address of this machine, such as 127.0.0.1"
            )


def _url(listener: socket.socket) -> str:
    """An address that a browser on this machine can open, also where we listen on all."""
    host, port = listener.getsockname()[:2]
    address = ipaddress.ip_address(host)
    if address.is_unspecified:
        address = ipaddress.ip_address("::1" if address.version == 6 else "127.0.0.1")
    return f"http://[{address}]:{port}" if address.version == 6 else f"http://{address}:{port}"
