"""The dashboard: a WSGI app over any store, and the server that runs it."""

from pywrapai_monitor.dashboard.app import create_app

__all__ = ["create_app"]
