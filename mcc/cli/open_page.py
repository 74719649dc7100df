"""The command `mcc open`: signs a browser in."""

import os
from html import escape
from pathlib import Path
from typing import Annotated

import typer

from mcc.cli.command import say
from mcc.cli.server import ServiceCall

REDIRECT = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>MCC</title><meta http-equiv="refresh" content="0; url={link}">
</head><body><a href="{link}">To the page</a></body></html>
"""


def open_page(
    call: ServiceCall,
    show: Annotated[bool, typer.Option("--print", help="Print the link instead, for a browser elsewhere.")] = False,
) -> None:
    """Open the page in a browser, signed in. The link counts once, within ten minutes.

    Example: mcc open --print
    """
    link = call.client.signins.link()
    if call.printed(link):
        return
    if show or not _is_opened(link.url, call.data_dir):
        print(link.url)


def _is_opened(link: str, data_dir: Path | None) -> bool:
    """Whether a browser was started. It gets the name of a file that only this user reads: the arguments of a program
    are seen by all users of the machine, and the link would sign them in."""
    import webbrowser

    from mcc.local.data_dir import prepare_directory
    from mcc.settings import load

    directory = load(data_dir=data_dir).data_dir
    prepare_directory(directory)
    file = directory / "open.html"
    file.unlink(missing_ok=True)
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w") as written:
        written.write(REDIRECT.format(link=escape(link)))
    try:
        opened = webbrowser.open(file.as_uri())
    except webbrowser.Error:
        opened = False
    say("A browser opens." if opened else "No browser was found here; open this in one:")
    return opened
