"""The files that the page loads, read and compressed once, under a name that changes with any of them.

`/console/BUILD/NAME` answers them. A browser keeps them for good, since another content means another build. Our styles
and pictures stand in `static/`. What was packed from other projects, in `vendor/`, and our modules, in `island/`, are
sent as one script, ours without blanks: `app.js`. Pages that few look at stand in `annex/`, and are sent as a second
script, which uses what the first declares: `annex.js`.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from mcc.console import joining, naming, squeezing
from mcc.console.joining import joined, unpacked
from mcc.console.squeezing import squeezed_apart

BUILD_DIGITS = 12

SCRIPT = "app.js"
"""The script into which the modules are joined that every page needs."""

ANNEX = "annex.js"
"""The script of the other pages, loaded when one of these is looked at first."""

PARTS = ("island", "annex", "static", "vendor")
"""The folders of what a browser gets."""

MEDIA_TYPES: Mapping[str, str] = {
    ".css": "text/css; charset=utf-8",
    ".ico": "image/x-icon",
    ".js": "text/javascript; charset=utf-8",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".webmanifest": "application/manifest+json",
    ".woff2": "font/woff2",
}
"""By suffix. A file of another kind (a licence, what was vendored) is no part of the page."""

TEXTS = frozenset({".css", ".js", ".svg", ".webmanifest"})
"""What gets smaller when it is compressed."""


@dataclass(frozen=True, slots=True)
class PageFile:
    """`compressed` by gzip; None where that would gain nothing."""

    content: bytes
    media_type: str
    compressed: bytes | None


@dataclass(frozen=True)
class Console:
    """The source of the shell, the names of its scripts, and `build`: hexadecimal digits that stand for all files, and
    for how they are made."""

    build: str
    shell: str
    room: Traversable
    scripts: tuple[str, ...] = (SCRIPT,)
    """Those that are loaded at once. What is loaded later may be missing after an upgrade of the service."""

    @cached_property
    def files(self) -> Mapping[str, PageFile]:
        """All by name. Takes half a second at first, which a service spends when somebody opens the page.

        Raises `ValueError` when the modules cannot be joined.
        """
        modules, packed = _modules(self.room / "island"), _modules(self.room / "vendor")
        annex = joined(_modules(self.room / "annex"), packed, before=modules)
        script, later = squeezed_apart(joined(modules, packed), annex, SCRIPT)
        scripts = {SCRIPT: unpacked(packed, modules) + script, ANNEX: later}
        contents = {name: text.encode() for name, text in scripts.items()} | dict(_contents(self.room / "static"))
        return {name: _page_file(name, content) for name, content in contents.items()}


@cache
def installed() -> Console:
    """The page of this installation."""
    return console_in(files("mcc.console"))


def console_in(room: Traversable) -> Console:
    """The page whose `island`, `static`, `vendor` and `templates/shell.html` are in `room`.

    Raises `ValueError` when a file has the name of a script.
    """
    shell = (room / "templates" / "shell.html").read_text("utf-8")
    sources = {f"{part}/{name}": content for part in PARTS for name, content in _contents(room / part)}
    for name in (SCRIPT, ANNEX):
        if f"static/{name}" in sources:
            raise ValueError(f"two files of the page have the name {name}")
    makers = [Path(str(module.__file__)).read_bytes() for module in (joining, naming, squeezing)]
    digest = hashlib.sha256(b"".join((shell.encode(), *makers)))
    for name in sorted(sources):
        digest.update(b"%s\0%d\0%s" % (name.encode(), len(sources[name]), sources[name]))
    return Console(digest.hexdigest()[:BUILD_DIGITS], shell, room)


def _modules(place: Traversable) -> Mapping[str, str]:
    return {name.removesuffix(".js"): content.decode() for name, content in _contents(place) if name.endswith(".js")}


def _contents(place: Traversable, within: str = "") -> Iterator[tuple[str, bytes]]:
    for entry in place.iterdir() if place.is_dir() else ():
        name = f"{within}{entry.name}"
        if entry.is_dir():
            yield from _contents(entry, f"{name}/")
        elif _suffix(name) in MEDIA_TYPES:
            yield name, entry.read_bytes()


def _page_file(name: str, content: bytes) -> PageFile:
    suffix = _suffix(name)
    if suffix not in TEXTS:
        return PageFile(content, MEDIA_TYPES[suffix], None)
    # Imported here, as most services are never asked for it.
    from zopfli.gzip import compress

    # As small as gzip gets; two processes of one build answer the same bytes.
    return PageFile(content, MEDIA_TYPES[suffix], compress(content))


def _suffix(name: str) -> str:
    return f".{name.rpartition('.')[2]}"
