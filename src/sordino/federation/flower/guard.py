"""What stands in front of the SuperLink: outside peers reach the fleet's paths and the health check alone.

Flower serves its control interface, which has no login, at the same port as the fleet's. Run by the Python of
Flower's environment: `python guard.py PORT INNER_PORT CA CERT KEY HOST`.
"""

from __future__ import annotations

import ssl
import sys
from collections.abc import AsyncIterator

import httpx
import uvicorn
from guard_rule import allowed  # beside this file
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

HOP = {"connection", "keep-alive", "transfer-encoding", "upgrade", "host", "te", "trailer"}
METHODS = ["GET", "POST", "PUT", "DELETE", "PATCH"]


def app(inner: str, authority: str) -> Starlette:
    """The proxy to `inner`, whose certificate `authority` signed."""
    client = httpx.AsyncClient(
        base_url=inner, verify=ssl.create_default_context(cafile=authority), timeout=httpx.Timeout(600.0)
    )

    async def forward(request: Request) -> Response:
        if not allowed(request.scope["raw_path"].decode("latin-1")):
            return PlainTextResponse("forbidden", status_code=403)
        headers = [(k, v) for k, v in request.headers.raw if k.decode().lower() not in HOP]
        url = httpx.URL(path=request.url.path, query=request.url.query.encode())
        asked = client.build_request(request.method, url, headers=headers, content=request.stream())
        try:
            reply = await client.send(asked, stream=True)
        except httpx.TransportError:
            return PlainTextResponse("unavailable", status_code=503)

        async def body() -> AsyncIterator[bytes]:
            try:
                async for part in reply.aiter_raw():
                    yield part
            finally:
                await reply.aclose()

        kept = {k: v for k, v in reply.headers.items() if k.lower() not in HOP}
        return StreamingResponse(body(), reply.status_code, kept)

    return Starlette(routes=[Route("/{path:path}", forward, methods=METHODS)])


def main() -> None:
    """Serves until it is stopped."""
    port, inner, authority, certificate, key, host = sys.argv[1:]
    uvicorn.run(
        app(f"https://127.0.0.1:{inner}", authority),
        host=host,
        port=int(port),
        ssl_certfile=certificate,
        ssl_keyfile=key,
        log_level="warning",
        server_header=False,
    )


if __name__ == "__main__":
    main()
