"""Each page of the dashboard: its address, its parameters, and what it shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, get_args

from pywrapai_monitor.dashboard import params
from pywrapai_monitor.dashboard.params import FRAME, Param, Values
from pywrapai_monitor.dashboard.source import Source
from pywrapai_monitor.dashboard.views.calls import call, calls
from pywrapai_monitor.dashboard.views.conversations import conversation, conversations
from pywrapai_monitor.dashboard.views.overview import overview
from pywrapai_monitor.dashboard.views.prompts import prompt, prompts
from pywrapai_monitor.dashboard.views.status import status
from pywrapai_monitor.dashboard.views.users import users
from pywrapai_monitor.db.base import Row, Status

Give: TypeAlias = Callable[[Source, Values], Row]


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A page at `path`, and its JSON twin at `/api/views/<name>`."""

    name: str
    path: str
    title: str
    give: Give
    params: tuple[Param, ...] = ()
    in_menu: bool = True

    @property
    def all_params(self) -> tuple[Param, ...]:
        """Its own, and those of the frame."""
        return (*self.params, *FRAME)


_USER = params.text("user_id", "Only those of this user.")
_SESSION = params.text("session_id", "Only those of sessions of this name.")

VIEWS = (
    View(name="overview", path="/", title="Overview", give=overview),
    View(
        name="calls",
        path="/calls",
        title="Calls",
        give=calls,
        params=(
            _USER,
            _SESSION,
            params.text("model", "Only those of this model."),
            params.one_of("kind", "Only those of this kind.", ["chat", "embedding"]),
            params.one_of("status", "Only those that ended so.", get_args(Status)),
            params.text("prompt_name", "Only those with this prompt."),
            params.text("prompt_version", "Only those with this version of a prompt."),
            params.text("tag", "Only those that were given this tag."),
            params.flag("unpriced", "Only those whose price is not known."),
            params.cursor(),
            params.limit(),
        ),
    ),
    View(
        name="conversations",
        path="/conversations",
        title="Conversations",
        give=conversations,
        params=(
            _USER,
            params.text("q", "In an id or a message.", params.MAX_TEXT),
            params.cursor(),
            params.limit(),
        ),
    ),
    View(
        name="users",
        path="/users",
        title="Users",
        give=users,
        params=(params.cursor(), params.limit()),
    ),
    View(name="prompts", path="/prompts", title="Prompts", give=prompts),
    View(name="status", path="/status", title="Status", give=status),
    View(
        name="call",
        path="/call",
        title="Call",
        give=call,
        params=(params.text("call_id", "Which call.").needed(),),
        in_menu=False,
    ),
    View(
        name="conversation",
        path="/conversation",
        title="Conversation",
        give=conversation,
        params=(
            params.text("user_id", "Whose conversation.").needed(),
            params.text("session_id", "Which of that user's sessions.").needed(),
            params.row_id("message", "The message whose details are shown."),
            params.row_id("before", "Messages before that of this id."),
            params.row_id("after", "Messages after that of this id."),
        ),
        in_menu=False,
    ),
    View(
        name="prompt",
        path="/prompt",
        title="Prompt",
        give=prompt,
        params=(
            params.text("name", "Which prompt.").needed(),
            params.text("version", "The version whose text is shown; the active one if none."),
            params.text("a", "Show what differs between this version ..."),
            params.text("b", "... and this one."),
            params.cursor(),
        ),
        in_menu=False,
    ),
)
BY_NAME = {view.name: view for view in VIEWS}
