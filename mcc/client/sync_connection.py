"""HTTP connection to a service for ordinary code: every call blocks. Written by `python -m scripts.sync_client`."""

import time
from typing import TYPE_CHECKING, TypeVar

from mcc.client import address, calls
from mcc.client.calls import Call
from mcc.client.errors import Unreachable

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    import httpx

T = TypeVar("T")


class Connection:
    """Sends calls to one service, and retries repeatable ones."""

    def __init__(
        self,
        service: address.Address,
        timeout_seconds: float,
        transport: "httpx.BaseTransport | None",
        user_agent: str | None = None,
    ) -> None:
        import httpx

        self._url = service.url
        self._surroundings = service.surroundings
        self._seconds = timeout_seconds
        self.http = httpx.Client(
            base_url=service.url,
            headers={
                **({"Authorization": f"Bearer {service.token}"} if service.token else {}),
                **({"User-Agent": user_agent} if user_agent else {}),
            },
            timeout=timeout_seconds,
            verify=service.surroundings.verification(service.url),
            proxy=service.surroundings.proxy,
            # Else httpx sends the token through any proxy of the environment, by http in clear, and reads .netrc.
            trust_env=False,
            transport=transport,
        )

    def unanswered(self, error: Exception) -> Unreachable:
        """The error for a call that got no answer."""
        return self._surroundings.unanswered(self._url, str(error) or type(error).__name__)

    def send(self, call: Call[T]) -> T:
        """The result of `call`, after at most `calls.TRIES` requests if it is repeatable. Raises `ClientError`."""
        import httpx

        for attempt in range(calls.TRIES if call.repeatable else 1):
            last = attempt == calls.TRIES - 1 or not call.repeatable
            try:
                answer = self.http.request(
                    call.method,
                    calls.API + call.path,
                    params=call.query,
                    content=call.body,
                    headers=calls.headers(call),
                    timeout=call.seconds or self._seconds,
                )
            except httpx.HTTPError as error:
                if last:
                    raise self.unanswered(error) from error
                time.sleep(calls.retry_wait(attempt, None))
                continue
            retry_after = answer.headers.get("retry-after")
            if last or not calls.passes(answer.status_code, retry_after):
                return calls.result_of(call, answer.status_code, answer.content, self._url)
            time.sleep(calls.retry_wait(attempt, retry_after))
        raise AssertionError("the last try returns or raises")

    def pieces(
        self,
        path: str,
        query: "Mapping[str, str | int | Sequence[str]]",
        *,
        accept: str = "*/*",
        silent_seconds: float | None = None,
    ) -> "Generator[bytes]":
        """The body of a GET as it arrives. Raises `ClientError`, also where it breaks off, or nothing has come for
        `silent_seconds`, as long as an answer may take if None."""
        import httpx

        timeout = httpx.Timeout(self._seconds, read=silent_seconds or self._seconds)
        head = {"Accept": accept}
        try:
            with self.http.stream("GET", calls.API + path, params=query, headers=head, timeout=timeout) as answer:
                if answer.status_code >= 400:
                    raise calls.refused(answer.status_code, answer.read())
                yield from answer.iter_bytes()
        except httpx.HTTPError as error:
            raise self.unanswered(error) from error
