"""What a request has to be before the server looks at it."""

from __future__ import annotations

import asyncio
import hmac
from typing import Any

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

#: Largest body, in bytes.
BODY = 2 << 20
#: Seconds in which a body has to be there.
BODY_S = 10.0
#: Seconds in which a connection has to send its first request.
FIRST_S = 10.0

HEADERS = [
    (b"content-security-policy", b"default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; "
     b"style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self' blob:; "
     b"worker-src 'self' blob:; object-src 'none'; base-uri 'none'; form-action 'none'; "
     b"frame-ancestors 'none'"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-embedder-policy", b"require-corp"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
]  # fmt: skip


class Guard:
    """Refuses requests of other pages or names, without the token, or too large.

    Pages of other origins cannot read answers, but they can send requests; and a name that leads
    here lets them read too. So the names of host and origin are compared with those of this server.
    """

    def __init__(self, app: ASGIApp, hosts: frozenset[str], token: str) -> None:
        self.app, self.hosts, self.token = app, hosts, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        headers: dict[bytes, bytes] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name, value)

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *HEADERS]
            await send(message)

        refused = self._refused(scope, headers)
        if refused is None:
            body = await _body(receive)
            if body is not None:
                await self.app(scope, _replay(body), guarded)
                return
            refused = (413, f"found a body of more than {BODY} bytes, or one that did not come")
        status, why = refused
        await PlainTextResponse(f"{why}\n", status)(scope, receive, guarded)

    def _refused(self, scope: Scope, headers: dict[bytes, bytes]) -> tuple[int, str] | None:
        host = headers.get(b"host", b"").decode("latin-1")
        if host not in self.hosts:
            return 421, "this server has another name"
        origin = headers.get(b"origin")
        if origin is not None and origin.decode("latin-1") != f"http://{host}":
            return 403, "requests of other pages are refused"
        if headers.get(b"sec-fetch-site", b"none") not in (b"none", b"same-origin"):
            return 403, "requests of other pages are refused"
        if scope["path"].startswith("/api/"):
            given = headers.get(b"authorization", b"")
            if not hmac.compare_digest(given, f"Bearer {self.token}".encode()):
                return 401, "the address that `cxlab serve` printed has the token"
        return None


async def _body(receive: Receive) -> bytes | None:
    """The body, or none if it is too large or too slow."""
    parts: list[bytes] = []
    length = 0
    try:
        async with asyncio.timeout(BODY_S):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    return None
                parts.append(message.get("body", b""))
                length += len(parts[-1])
                if length > BODY:
                    return None
                if not message.get("more_body"):
                    return b"".join(parts)
    except TimeoutError:
        return None


def _replay(body: bytes) -> Receive:
    """A stream of one message, and then nothing until the connection is closed."""
    sent = False

    async def receive() -> Message:
        nonlocal sent
        if sent:
            await asyncio.Event().wait()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


class Protocol(H11Protocol):
    """Closes connections that send no whole request head."""

    def connection_made(self, transport: Any) -> None:
        """Starts the clock of a new connection."""
        super().connection_made(transport)
        self._first = asyncio.get_running_loop().call_later(FIRST_S, self._close_silent)

    def _close_silent(self) -> None:
        if self.cycle is None and not self.transport.is_closing():
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stops the clock."""
        self._first.cancel()
        super().connection_lost(exc)
