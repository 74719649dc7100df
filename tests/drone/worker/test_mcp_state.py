"""Logging in to an MCP server: only a browser's request to the callback path completes the login."""

import asyncio

from drone.worker.mcp_state import callback_url
from tests.ports import free_port


async def get(port: int, path: str) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
    said = await reader.read()
    writer.close()
    return said


async def test_the_first_callback_of_the_login_counts() -> None:
    port, ready = free_port(), asyncio.Event()
    coming = asyncio.create_task(callback_url(port, ready.set))
    await ready.wait()
    assert b"close this page" in await get(port, "/favicon.ico") and not coming.done()
    await get(port, "/callback?code=a&state=b")
    assert await coming == f"http://127.0.0.1:{port}/callback?code=a&state=b"
