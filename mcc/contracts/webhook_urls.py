"""The address to which a webhook is sent, and how it is shown."""

from typing import Annotated

from pydantic import PlainSerializer, StringConstraints

WebhookUrl = Annotated[str, StringConstraints(min_length=1, max_length=2_000)]

UNSHOWN = "…"


def shown_url(url: str) -> str:
    """The address without the values of its query, among which there may be a secret."""
    before, mark, query = url.partition("?")
    if not mark:
        return url
    query, fragment_mark, _ = query.partition("#")
    named = (part.partition("=") for part in query.split("&"))
    # A part without "=" is a value as well: nobody knows what it means to its receiver.
    shown = "&".join(f"{name}={UNSHOWN}" if equals else UNSHOWN for name, equals, _ in named)
    return f"{before}?{shown}{f'#{UNSHOWN}' if fragment_mark else ''}"


ShownWebhookUrl = Annotated[
    WebhookUrl, PlainSerializer(lambda url: None if url is None else shown_url(url), return_type=str | None)
]
"""As `WebhookUrl`, and shown as `shown_url` says."""
