"""Whether a provider refuses a request for its pictures, and for which one, where it names that by its place in the
request's body."""

import json
from collections.abc import Iterator, Mapping, Sequence

from drone.agent.ports.model import Ask, ContextOverflow, ModelError, PictureRefused
from drone.models.body import AT_FAULT
from mcc.rules.patterns import Pattern
from mcc.transcript.messages import AssistantMessage, Message
from mcc.transcript.pictures import pictures_of, shown_pictures

_ROOTS = ("messages", "input", "contents")
"""Where each form of request has its messages."""

_MOST_STEPS = 20
_BY_NUMBER = Pattern(r"\b(?:image|picture) (?:number |no\. ?)?#?(\d{1,3})\b", ignore_case=True)
_BY_INDEX = Pattern(r"\b(?:image|picture)s?(?: (?:at|with))? ?(?:index ?|\[)(\d{1,3})\b", ignore_case=True)


_ABOUT_PICTURES = Pattern(
    r"\b(?:images?|pictures?|multi-?modal|vision)(?:\b|_)|inline_?data|media.?type|\bbase64\b|\bdata.ur[il]\b",
    ignore_case=True,
)
_UNABLE = Pattern(
    r"\b(?:support|accept|handle)\w*\b.{0,40}\b(?:images?|vision|multi-?modal)\b"
    r"|\b(?:images?|vision|multi-?modal)\b.{0,40}(?:\bnot\b|n't\b).{0,20}\b(?:support|accept|compiled)",
    ignore_case=True,
)
"""Words of a server that takes no pictures at all."""

_WITHOUT_EYES = (404, 415, 500, 501)
"""Statuses with which some gateways and servers say that: OpenRouter 404, llama.cpp 500."""

_OF_SOMETHING_ELSE = Pattern(
    r"\b(?:credits?|billing|balance|quota|payment|subscription|plan|api.?keys?|tokens?|temperature|tools?|schemas?"
    r"|polic(?:y|ies)|safety|moderation|max_\w+)\b",
    ignore_case=True,
)
"""What else a request is refused for, in words that say so."""


def judged(ask: Ask, name: str, error: ModelError, body: Iterator[bytes]) -> ModelError:
    """The error of a request to the model `name`; a `PictureRefused` where the provider's words complain of a picture
    in it. Where they complain of nothing else either, the pictures that the model has never answered are suspected: one
    that stayed would fail each later request as well. `body`: that of the request.
    """
    if isinstance(error, ContextOverflow) or not any(True for _ in shown_pictures(ask.messages)):
        return error
    words = str(error).replace(name, "")
    if error.status in AT_FAULT and _ABOUT_PICTURES.search(words) is not None:
        return PictureRefused(str(error), refused_picture(ask.messages, body, str(error)), status=error.status)
    if error.status in _WITHOUT_EYES and _UNABLE.search(words) is not None:
        return PictureRefused(str(error), status=error.status)
    if error.status not in AT_FAULT or _OF_SOMETHING_ELSE.search(words) is not None:
        return error
    replies = (
        at for at, each in enumerate(ask.messages, 1) if isinstance(each, AssistantMessage) and each.model == name
    )
    unanswered = shown_pictures(ask.messages[max(replies, default=0) :])
    suspects = tuple(dict.fromkeys(picture.image.artifact for picture in unanswered))
    return PictureRefused(str(error), suspects=suspects, status=error.status) if suspects else error


def refused_picture(messages: Sequence[Message], body: Iterator[bytes], words: str) -> str | None:
    """The digest of the one picture that `words` name: by a path into the JSON `body` that was made of the messages,
    such as `messages.3.content.1` or `input[2].content[0]`, by an index ("image at index 0") or a number ("image 2",
    counted from 1). None where they name none, or more than one."""
    shown = [picture for message in messages for picture in pictures_of(message) if picture.data]
    paths = [*_paths(words)]
    if paths:
        request = json.loads(b"".join(body))
        for path in paths:
            named = {each.image.artifact for each in shown if _holds(_at(request, path), each.data)}
            if len(named) == 1:
                return named.pop()
    for pattern, first in ((_BY_INDEX, 0), (_BY_NUMBER, 1)):
        if (match := pattern.search(words)) is not None:
            place = int(match[1]) - first
            return shown[place].image.artifact if 0 <= place < len(shown) else None
    return None


def _paths(words: str) -> Iterator[list[str]]:
    """The paths in a text that begin with the name of a list of messages."""
    for root in _ROOTS:
        start = words.find(root)
        while start >= 0:
            if len(path := _path(words, start)) > 1:
                yield path
            start = words.find(root, start + len(root))


def _path(words: str, start: int) -> list[str]:
    """The steps of a path: words and numbers, after dots or in brackets."""
    steps, step = list[str](), ""
    for character in words[start : start + 200]:
        if character.isascii() and (character.isalnum() or character == "_"):
            step += character
        elif character in ".[]'\"" and len(steps) < _MOST_STEPS:
            steps += [step] if step else []
            step = ""
        else:
            break
    return [*steps, step] if step else steps


def _at(request: object, path: Sequence[str]) -> object:
    """What is at the end of the path, or where it leads no further; None where it leads nowhere."""
    node = request
    for number, step in enumerate(path):
        if isinstance(node, Mapping) and step in node:
            node = node[step]
        elif isinstance(node, list) and step.isdigit() and int(step) < len(node):
            node = node[int(step)]
        else:
            return node if number > 1 else None
    return node


def _holds(node: object, data: str) -> bool:
    """Whether this base64 stands somewhere below the node."""
    if isinstance(node, str):
        return data in node
    below = node.values() if isinstance(node, Mapping) else node if isinstance(node, list) else ()
    return any(_holds(one, data) for one in below)
