"""Secrets that programs never see: requests get them in place of their stand-ins, answers are cleaned of them."""

import base64
import binascii
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from mcc.addresses import Endpoint, HostList

if TYPE_CHECKING:
    from mcc.redaction import Redactor

MARK = b"[redacted]"

_BASIC = b"basic "


@dataclass(frozen=True, slots=True)
class Secret:
    """In requests to `hosts`, `stand_in` is replaced by `value`."""

    value: bytes
    stand_in: bytes
    hosts: HostList


class Secrets:
    """A set of secrets, narrowed to those of one host by `for_host`."""

    def __init__(self, secrets: Iterable[Secret] = ()) -> None:
        self._secrets = tuple(secrets)
        self._parts: dict[tuple[int, ...], Secrets] = {}

    def __bool__(self) -> bool:
        return bool(self._secrets)

    def for_host(self, endpoint: Endpoint) -> "Secrets":
        key = tuple(place for place, one in enumerate(self._secrets) if one.hosts.covers(endpoint))
        if key not in self._parts:
            self._parts[key] = Secrets(self._secrets[place] for place in key)
        return self._parts[key]

    def substituted(self, headers: Iterable[tuple[bytes, bytes]]) -> Sequence[tuple[bytes, bytes]]:
        """Request headers with the secrets in place of their stand-ins, also inside Basic credentials."""
        return [(name, self._substituted(value)) for name, value in headers]

    def redacted(self, headers: Iterable[tuple[bytes, bytes]]) -> Sequence[tuple[bytes, bytes]]:
        """The headers of an answer without secrets."""
        if not self._secrets:
            return list(headers)
        return [(self._clean(name), self._clean(value)) for name, value in headers]

    def scrubber(self) -> "Scrubber":
        """A scrubber for the body of an answer."""
        return Scrubber(self._secrets, self._redactor if self._secrets else None)

    def _substituted(self, value: bytes) -> bytes:
        if value[: len(_BASIC)].lower() == _BASIC:
            login = _decoded(value[len(_BASIC) :].strip())
            if (whole := self._replaced(login)) != login:
                return value[: len(_BASIC)] + base64.b64encode(whole)
        return self._replaced(value)

    def _replaced(self, value: bytes) -> bytes:
        for one in self._secrets:
            value = value.replace(one.stand_in, one.value)
        return value

    def _clean(self, value: bytes) -> bytes:
        scrubber = self.scrubber()
        return scrubber.feed(value) + scrubber.end()

    @cached_property
    def _redactor(self) -> "Redactor":
        # Imported here: it takes a tenth of a second and some memory, which a proxy without secrets saves.
        from mcc.redaction import Redactor

        return Redactor(one.value.decode("utf-8", "surrogateescape") for one in self._secrets)


class Scrubber:
    """Removes secrets from bytes that arrive in pieces, in all encodings that the redactor knows.

    A whole plain secret becomes its stand-in again, so that a program whose token is echoed can go on using it.
    """

    def __init__(self, secrets: Sequence[Secret], redactor: "Redactor | None") -> None:
        self._secrets = secrets
        self._redactor = redactor
        self._held = b""
        self._marked = False

    def feed(self, data: bytes) -> bytes:
        """The cleaned bytes, except a tail that may be the beginning of a secret; that is held back."""
        if self._redactor is None:
            return data
        return self._cleaned(self._held + data, self._redactor, last=False)

    def end(self) -> bytes:
        """The cleaned rest, after the last piece."""
        return b"" if self._redactor is None else self._cleaned(self._held, self._redactor, last=True)

    def _cleaned(self, data: bytes, redactor: "Redactor", *, last: bool) -> bytes:
        until = len(data) if last else redactor.open_from(data, 0)
        parts: list[bytes] = []
        done = 0
        for start, end in redactor.spans(data):
            if start >= until:
                break
            if end <= done:
                continue
            self._pass(data[done:start], parts)
            known = next((secret for secret in self._secrets if data.startswith(secret.value, start)), None)
            if known is not None:
                parts.append(known.stand_in)
                self._marked, end = False, start + len(known.value)
            elif not self._marked:
                parts.append(MARK)
                self._marked = True
            done = end
            if done > until:
                until = len(data) if last else redactor.open_from(data, done)
        self._pass(data[done:until], parts)
        self._held = data[max(done, until) :]
        return b"".join(parts)

    def _pass(self, plain: bytes, parts: list[bytes]) -> None:
        if plain:
            parts.append(plain)
            self._marked = False


def _decoded(login: bytes) -> bytes:
    try:
        return base64.b64decode(login, validate=True)
    except binascii.Error:
        return b""
