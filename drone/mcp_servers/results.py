"""Results of a server's tools as outputs of calls: text and pictures of limited size, all of it untrusted."""

import binascii
from base64 import b64decode
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from pydantic import ValidationError

from drone.agent.ports.artifacts import Artifacts
from drone.agent.turns.toolset import Output
from drone.threads import OwnThreads, in_thread
from drone.tools.files.rendition import LARGEST_PICTURE, Rendition, rendition_of
from drone.tools.frame.display_text import both_ends, one_line, strip_controls
from mcc.contracts.blocks import ImageBlock
from mcc.contracts.journal import Outcome
from mcc.contracts.media import BadPicture, is_picture
from mcc.contracts.shape import to_json
from mcc.rules.patterns import Pattern

if TYPE_CHECKING:
    from mcp_types import CallToolResult

MOST_BYTES = 8 * 1024 * 1024
"""The largest response of a server; a larger one is not read to its end."""

MOST_PICTURES = 8
MOST_PARTS = 1_000
_SHOWN = 500
_QUOTED_ERROR = Pattern(r": \d{1,9} validation errors? for ")


async def output_of(result: "CallToolResult", artifacts: Artifacts | None, threads: OwnThreads | None = None) -> Output:
    """The parts of a result as text and pictures; links are named, not followed. Raises `JournalError`.

    `threads`: those in which pictures are made fit to be shown; None: any.
    """
    content = result.content[:MOST_PARTS]
    texts: list[str] = []
    images: list[ImageBlock] = []
    render = partial(in_thread if threads is None else threads.tool, rendition_of)
    for part in content:
        text = _text(part)
        texts.append(await _image(cast("Any", part), artifacts, images, render) if text is None else text)
    if len(result.content) > MOST_PARTS:
        texts.append(f"[{len(result.content) - MOST_PARTS:,} more parts are left out]")
    text = "\n".join(texts)
    if (structured := _structured(result.structured_content, text)) is not None:
        text = f"{text}\n{structured}" if text else structured
    outcome = Outcome.ERROR if result.is_error else Outcome.OK
    return Output(strip_controls(text) or "(nothing)", result.is_error, outcome, images=tuple(images))


def _text(part: object) -> str | None:
    """A part as text, None for a picture."""
    match getattr(part, "type", None):
        case "text":
            return str(cast("Any", part).text)
        case "resource_link":
            return f"[link, not followed: {one_line(str(cast('Any', part).uri), _SHOWN)}]"
        case "resource":
            return _resource(cast("Any", part).resource)
        case "audio":
            return f"[sound of {len(str(cast('Any', part).data)):,} characters of base64: it cannot be heard here]"
        case _:
            return None


def _resource(resource: Any) -> str:
    name = one_line(str(resource.uri), _SHOWN)
    text = getattr(resource, "text", None)
    if text is None:
        return f"[{name}: {len(str(resource.blob)):,} characters of base64, not shown]"
    return f"[{name}]\n{text}"


async def _image(
    part: Any,
    artifacts: Artifacts | None,
    images: list[ImageBlock],
    render: Callable[[bytes], Awaitable[Rendition]],
) -> str:
    """Keep a picture as an artifact and append it to `images`; the text that stands for it in the result."""
    if artifacts is None or len(images) >= MOST_PICTURES:
        return f"[a picture, not shown: {MOST_PICTURES} of one result at most]" if images else "[a picture, not shown]"
    if len(part.data) > LARGEST_PICTURE * 4 // 3 + 4:
        return f"[a picture, not shown: it has more than {LARGEST_PICTURE:,} bytes]"
    try:
        data = b64decode(part.data, validate=True)
        if not is_picture(data[:16]):
            raise BadPicture("is of no known kind")
        made = await render(data)
    except (BadPicture, binascii.Error, ValueError) as error:
        return f"[a picture, not shown: it {one_line(str(error), _SHOWN)}]"
    name = f"picture {len(images) + 1}"
    images.append(await artifacts.image(made.data, made.block(name)))
    source = made.source
    return f"[{name}: {source.media_type}, {source.width} x {source.height} pixels]"


def _structured(value: object, text: str) -> str | None:
    """Structured content as JSON; None if the text already holds it, since many servers send both."""
    if value is None:
        return None
    try:
        json_text = to_json(value).decode()
    except ValueError:
        return "[structured content, nested too deep to be shown]"
    return None if _is_same(text, value) else json_text


def _is_same(text: str, value: object) -> bool:
    from pydantic_core import from_json

    # Many servers wrap a result that is no object in an object with this key.
    bare = value["result"] if isinstance(value, Mapping) and [*value] == ["result"] else value
    if text == bare:
        return True
    try:
        return from_json(text) in (value, bare)
    except ValueError:
        return False


def leaves(error: BaseException) -> Iterator[BaseException]:
    """The errors inside an exception group, or the error itself."""
    if isinstance(error, BaseExceptionGroup):
        for inner in cast("Sequence[BaseException]", error.exceptions):
            yield from leaves(inner)
    else:
        yield error


def reason_of(error: BaseException) -> str:
    """The message of the error, or of the first in a group, on one line."""
    first = next(leaves(error), error)
    if isinstance(first, ValidationError):
        wrong = first.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(map(str, wrong["loc"]))
        return one_line(f"its answer is not what the protocol says, at {place or 'its top'}: {wrong['msg']}", _SHOWN)
    words = str(first)
    if (quoted := _QUOTED_ERROR.search(words)) is not None:
        words = f"{words[: quoted.start()]}: it is no message of the protocol"
    return both_ends(words, _SHOWN) or type(first).__name__
