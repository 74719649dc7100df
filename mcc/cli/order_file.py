"""Orders from a file: one JSON object a line, each under a key by which it is accepted once."""

import hashlib
import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from mcc.cli.command import USAGE, fail

STDIN = "-"
LINE_BYTES = 1_000_000
"""More than a prompt of the greatest length takes, whatever it is written in."""


@dataclass(frozen=True, slots=True)
class Line:
    """An order as a line of the file asks for it, with all that the command line adds; `problem` says why it is
    none. Lines count from 1 on."""

    number: int
    asked: Mapping[str, Any]
    problem: str = ""

    @property
    def key(self) -> str:
        return str(self.asked.get("idempotency_key", ""))


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """The file, or standard input for `-`; the command ends where it cannot be read."""
    if str(path) == STDIN:
        yield sys.stdin.buffer
        return
    try:
        stream = path.expanduser().open("rb")
    except OSError as error:
        fail(f"--file: {path} cannot be read ({error.strerror}); name a file with one order a line, or -.", USAGE)
    with stream:
        yield stream


class OrderFile:
    """The lines of one file. `defaults` are the fields that a line need not say; `run` tells one use of the same file
    from another.

    A line without a key of its own gets one that comes of what it asks for: the same line again is the same order,
    and of equal lines in one file each is an order.
    """

    def __init__(self, stream: BinaryIO, defaults: Mapping[str, Any], run: str = "") -> None:
        self._stream = stream
        self._defaults = defaults
        self._run = run
        self._seen: Counter[bytes] = Counter()

    def __iter__(self) -> Iterator[Line]:
        number = 0
        while text := self._stream.readline(LINE_BYTES + 1):
            number += 1
            if len(text) > LINE_BYTES:
                while text and not text.endswith(b"\n"):
                    text = self._stream.readline(LINE_BYTES)
                yield Line(number, {}, f"it is longer than {LINE_BYTES:,} bytes")
            elif text.strip():
                yield self._line(number, text)

    def _line(self, number: int, text: bytes) -> Line:
        from pydantic import ValidationError

        from mcc.contracts.order import OrderOfBatch
        from mcc.contracts.shape import RepeatedKey, distinct
        from mcc.rules.mistakes import mistakes

        try:
            said = json.loads(text.decode("utf-8-sig"), object_pairs_hook=distinct)
        except json.JSONDecodeError as error:
            why = f"{error.msg} at character {error.pos + 1}"
            return Line(number, {}, f"it is not JSON ({why}); write one order a line, such as {EXAMPLE}")
        except UnicodeDecodeError:
            return Line(number, {}, "it is not UTF-8 text")
        except RepeatedKey as error:
            return Line(number, {}, str(error))
        except RecursionError:
            return Line(number, {}, f"it is nested too deeply; write one order a line, such as {EXAMPLE}")
        if not isinstance(said, dict):
            return Line(number, {}, f"it is JSON, but no object; write one order a line, such as {EXAMPLE}")
        asked = self._whole(said)
        try:
            OrderOfBatch.model_validate(asked)
        except ValidationError as error:
            return Line(number, asked, mistakes(error.errors(), OrderOfBatch)[0].sentence)
        return Line(number, {"idempotency_key": self._key(asked), **asked})

    def _whole(self, said: Mapping[str, Any]) -> dict[str, Any]:
        """With the defaults, without what is null, and with the whole path of a directory."""
        from mcc.configuration.workspaces import is_git_address

        asked = {name: value for name, value in {**self._defaults, **said}.items() if value is not None}
        where = asked.get("workspace")
        if isinstance(where, str) and where and "\0" not in where and not is_git_address(where):
            asked["workspace"] = str(Path(where).expanduser().resolve())
        return asked

    def _key(self, asked: Mapping[str, Any]) -> str:
        from mcc.contracts.shape import to_json

        content = hashlib.sha256(to_json(sorted(asked.items()))).digest()
        self._seen[content] += 1
        whole = b"%b %d %b" % (content, self._seen[content], self._run.encode())
        return f"file:{hashlib.sha256(whole).hexdigest()}"


EXAMPLE = '{"prompt": "Which functions have no test?"}'
