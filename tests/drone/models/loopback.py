"""The wire that ships, to a provider of a test: it answers over real connections of this machine."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import cast

import h11
import httpx

from drone.models.transport import ModelWire, Target


class Loopback(ModelWire):
    """Sends each request over a connection of its own to `provider`, whatever host the model names. The provider sees
    the request as it arrived; where it raises an error, the connection breaks."""

    def __init__(self, provider: httpx.AsyncBaseTransport) -> None:
        super().__init__()
        self._provider = provider

    def transport(self, target: Target) -> httpx.AsyncBaseTransport:
        return _Rerouted(self._provider)


class _Rerouted(httpx.AsyncBaseTransport):
    def __init__(self, provider: httpx.AsyncBaseTransport) -> None:
        self._provider = provider

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        async with AsyncExitStack() as stack:
            served = _Served(self._provider, request.url.scheme)
            port = await stack.enter_async_context(served.listening())
            wire = ModelWire()
            stack.push_async_callback(wire.aclose)
            request.url = request.url.copy_with(scheme="http", host="127.0.0.1", port=port)
            transport = wire.transport(Target("", request.url, request.headers))
            response = await transport.handle_async_request(request)
            response.stream = _Read(cast(httpx.AsyncByteStream, response.stream), served, stack.pop_all())
            return response


class _Read(httpx.AsyncByteStream):
    """The body at the client: each piece is sent when it is asked for, so that pieces arrive as they were cut."""

    def __init__(self, stream: httpx.AsyncByteStream, served: "_Served", stack: AsyncExitStack) -> None:
        self._stream, self._served, self._stack = stream, served, stack

    async def __aiter__(self) -> AsyncIterator[bytes]:
        self._served.wanted.release()
        async for piece in self._stream:
            yield piece
            self._served.wanted.release()

    async def aclose(self) -> None:
        await self._stream.aclose()
        await self._stack.aclose()


class _Served:
    """One request at the provider."""

    def __init__(self, provider: httpx.AsyncBaseTransport, scheme: str) -> None:
        self.wanted = asyncio.Semaphore(0)
        self._provider = provider
        self._scheme = scheme
        self._failure: Exception | None = None

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[int]:
        """Yields the port. Raises what went wrong in the provider, other than errors of a connection."""
        working: list[asyncio.Task[None]] = []

        def welcome(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            working.append(asyncio.create_task(self._serve(reader, writer)))

        async with await asyncio.start_server(welcome, "127.0.0.1", 0) as server:
            try:
                yield server.sockets[0].getsockname()[1]
            finally:
                for task in working:
                    task.cancel()
                await asyncio.gather(*working, return_exceptions=True)
                if self._failure is not None:
                    raise self._failure

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = await self._request(reader)
            response = await self._provider.handle_async_request(request)
            try:
                await self._answer(response, writer)
            finally:
                with suppress(RuntimeError):  # A generator that is being read cannot be closed by its response.
                    await response.aclose()
            await reader.read()
        except (httpx.HTTPError, h11.RemoteProtocolError, OSError):
            pass
        except Exception as error:
            self._failure = error
        finally:
            writer.transport.abort()

    async def _request(self, reader: asyncio.StreamReader) -> httpx.Request:
        parser, heads, content = h11.Connection(h11.SERVER), list[h11.Request](), bytearray()
        while not isinstance(event := parser.next_event(), h11.EndOfMessage):
            if isinstance(event, h11.Request):
                heads.append(event)
            elif isinstance(event, h11.Data):
                content += event.data
            else:
                parser.receive_data(await reader.read(1 << 16))
        [head] = heads
        headers = httpx.Headers(list(head.headers))
        url = f"{self._scheme}://{headers['host']}{head.target.decode('ascii')}"
        return httpx.Request(head.method.decode("ascii"), url, headers=headers, content=bytes(content))

    async def _answer(self, response: httpx.Response, writer: asyncio.StreamWriter) -> None:
        headers, chunked = response.headers, "content-length" not in response.headers
        if chunked:
            headers["transfer-encoding"] = "chunked"
        lines = (b"%b: %b\r\n" % line for line in headers.raw)
        writer.write(b"HTTP/1.1 %d Said\r\n%b\r\n" % (response.status_code, b"".join(lines)))
        async for piece in cast(httpx.AsyncByteStream, response.stream):
            if piece:
                await self.wanted.acquire()
                writer.write(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
                await writer.drain()
        if chunked:
            writer.write(b"0\r\n\r\n")
        await writer.drain()
