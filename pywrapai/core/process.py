"""What a forked child must not take over from its parent."""

from __future__ import annotations

import os
from collections.abc import Callable


def after_fork_in_child(forget: Callable[[], None]) -> None:
    """Call `forget` in every child that is forked from now on, where processes can fork."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=forget)
