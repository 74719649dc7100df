"""Orders from a file: one JSON object a line, each with an idempotency key."""

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
"""More than the longest prompt needs in any encoding."""


@dataclass(frozen=True, slots=True)
class OrderLine:
    """One line of the file, numbered from 1, as the fields of an order, with those of the command line; `problem`: why
    it cannot be an order, "" where it can."""

    number: int
    fields: Mapping[str, Any]
    problem: str = ""

    @property
    def key(self) -> str:
        return str(self.fields.get("idempotency_key", ""))


@contextmanager
def open_orders(path: Path) -> Iterator[BinaryIO]:
    """The file, or standard input for `-`. Exits where it cannot be read."""
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
    """The lines of one file. `defaults`: fields for lines that do not set them. `run`: makes the generated keys of one
    use of the file differ from those of another.

    A line without an idempotency key gets one from a digest of its fields and of how often an equal line came before:
    placing the file again places nothing twice, while equal lines in one file are orders of their own.
    """

    def __init__(self, stream: BinaryIO, defaults: Mapping[str, Any], run: str = "") -> None:
        self._stream = stream
        self._defaults = defaults
        self._run = run
        self._seen: Counter[bytes] = Counter()

    def __iter__(self) -> Iterator[OrderLine]:
        number = 0
        while text := self._stream.readline(LINE_BYTES + 1):
            number += 1
            if len(text) > LINE_BYTES:
                while text and not text.endswith(b"\n"):
                    text = self._stream.readline(LINE_BYTES)
                yield OrderLine(number, {}, f"it is longer than {LINE_BYTES:,} bytes")
            elif text.strip():
                yield self._line(number, text)

    def _line(self, number: int, text: bytes) -> OrderLine:
        from pydantic import ValidationError

        from mcc.contracts.order import OrderOfBatch
        from mcc.contracts.shape import NotFinite, RepeatedKey, unclear_json
        from mcc.rules.mistakes import mistakes

        try:
            plain = text.decode("utf-8-sig")
            if (unclear := unclear_json(plain)) is not None:
                raise unclear
            written = json.loads(plain)
        except json.JSONDecodeError as error:
            why = f"{error.msg} at character {error.pos + 1}"
            return OrderLine(number, {}, f"it is not JSON ({why}); write one order a line, such as {EXAMPLE}")
        except UnicodeDecodeError:
            return OrderLine(number, {}, "it is not UTF-8 text")
        except (RepeatedKey, NotFinite) as error:
            return OrderLine(number, {}, str(error))
        except RecursionError:
            return OrderLine(number, {}, f"it is nested too deeply; write one order a line, such as {EXAMPLE}")
        if not isinstance(written, dict):
            return OrderLine(number, {}, f"it is JSON, but no object; write one order a line, such as {EXAMPLE}")
        fields = self._with_defaults(written)
        try:
            OrderOfBatch.model_validate(fields)
        except ValidationError as error:
            return OrderLine(number, fields, mistakes(error.errors(), OrderOfBatch)[0].sentence)
        return OrderLine(number, {"idempotency_key": self._key(fields), **fields})

    def _with_defaults(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The fields of a line over the defaults, without nulls, and with a directory's absolute path."""
        from mcc.configuration.workspaces import is_git_address

        fields = {name: value for name, value in {**self._defaults, **given}.items() if value is not None}
        where = fields.get("workspace")
        if isinstance(where, str) and where and "\0" not in where and not is_git_address(where):
            fields["workspace"] = str(Path(where).expanduser().resolve())
        return fields

    def _key(self, fields: Mapping[str, Any]) -> str:
        from mcc.contracts.shape import to_json

        content = hashlib.sha256(to_json(sorted(fields.items()))).digest()
        self._seen[content] += 1
        numbered = b"%b %d %b" % (content, self._seen[content], self._run.encode())
        return f"file:{hashlib.sha256(numbered).hexdigest()}"


EXAMPLE = '{"prompt": "Which functions have no test?"}'
