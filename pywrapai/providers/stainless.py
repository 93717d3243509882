"""What the openai and anthropic SDKs share: both are made by one generator, Stainless.

Requests go through the client's generic verbs, `client.post(path, content=...)`, which keep its
auth, headers and errors and leave out its walk over every message: about a millisecond instead of
sixteen for a hundred messages. The SDK's own retries are off; ours serve all providers alike.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, cast

from pywrapai.core.extras import needs
from pywrapai.exceptions import ProviderConnectionError, ProviderError, ServerError
from pywrapai.providers import transport
from pywrapai.providers.errors import from_connection, from_status
from pywrapai.providers.wire import Reply, WireProvider, encoded

if TYPE_CHECKING:
    import httpx2


class StainlessProvider(WireProvider):
    """A provider whose SDK has a client with generic verbs, and errors with `status_code`."""

    sdk: ClassVar[str]
    """The SDK's module, and the extra that installs it."""
    clients: ClassVar[tuple[str, str]]
    """The names of its sync and its async client."""

    def post(self, path: str, body: dict[str, Any], *, timeout: float, stream: bool) -> Reply:
        """POST through the SDK's client."""
        raw = self._response_type()
        client = transport.pool().sdk(self, self._client)
        reply = client.post(
            path, content=encoded(body), cast_to=raw, options={"timeout": timeout}, stream=stream
        )
        return cast("Reply", reply)

    async def apost(
        self, path: str, body: dict[str, Any], *, timeout: float, stream: bool
    ) -> Reply:
        """`post`, awaited."""
        raw = self._response_type()
        client = (await transport.apool()).sdk(self, self._aclient)
        reply = await client.post(
            path, content=encoded(body), cast_to=raw, options={"timeout": timeout}, stream=stream
        )
        return cast("Reply", reply)

    def get(self, path: str, *, timeout: float) -> Reply:
        """GET through the SDK's client."""
        raw = self._response_type()
        client = transport.pool().sdk(self, self._client)
        return cast("Reply", client.get(path, cast_to=raw, options={"timeout": timeout}))

    async def aget(self, path: str, *, timeout: float) -> Reply:
        """`get`, awaited."""
        raw = self._response_type()
        client = (await transport.apool()).sdk(self, self._aclient)
        return cast("Reply", await client.get(path, cast_to=raw, options={"timeout": timeout}))

    def map_error(self, error: Exception) -> ProviderError | None:
        """Statuses by table, connection trouble by kind."""
        import httpx2

        sdk = import_module(self.sdk)
        where = self.base_url or self.name
        if isinstance(error, sdk.APIStatusError):
            return from_status(error.status_code, error.body, error.response.headers)
        cause = error.__cause__ if isinstance(error, sdk.APIConnectionError) else error
        if isinstance(cause, Exception) and (broken := from_connection(httpx2, cause, where=where)):
            return broken
        if isinstance(error, sdk.APIConnectionError):
            return ProviderConnectionError(f"the connection to {where} broke: {cause or error}")
        if isinstance(error, sdk.APIError):
            return ServerError(str(error))
        return None

    def _response_type(self) -> type[httpx2.Response]:
        """What `cast_to` names so that the SDK hands over the reply as it came."""
        with needs(self.sdk):
            import_module(self.sdk)
            import httpx2
        return httpx2.Response

    def _client(self, http: httpx2.Client) -> Any:
        return self._make(self.clients[0], http)

    def _aclient(self, http: httpx2.AsyncClient) -> Any:
        return self._make(self.clients[1], http)

    def _make(self, client: str, http: object) -> Any:
        make = getattr(import_module(self.sdk), client)
        return make(
            api_key=self.require_key(), base_url=self.base_url, http_client=http, max_retries=0
        )
