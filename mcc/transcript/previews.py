"""A text too long for a transcript, as a model is shown it: beginning, end, and where the whole can be read."""

READ_ARTIFACT = "read_artifact"
"""Name of the tool that reads artifacts."""

SHORTEST_PREVIEW = 300
PREVIEW_HEAD = 4_000
PREVIEW_TAIL = 1_000

HANDLE = 16
"""Characters of a handle, the short id by which models refer to an artifact."""


def handle_of(digest: str) -> str:
    """The short id by which a model asks for an artifact; the same in every run."""
    return digest[:HANDLE]


def where_to_read(digest: str, readable: bool) -> str:
    """How a preview says where the rest of the text is; `readable`: whether its reader can read artifacts."""
    return f"read them with {READ_ARTIFACT}, id {handle_of(digest)}" if readable else "the record has them"


def preview(text: str, most: int, where: str, total: int, *, times: int = 1) -> str:
    """Beginning and end of a text of `total` characters, within `most`; below 300 only where the rest is."""
    if most < SHORTEST_PREVIEW:
        return f"[… {total:,} characters were here; {where} …]"
    room = most - len(_gap(total, total, where))
    head, tail = min(times * PREVIEW_HEAD, room * 4 // 5), min(times * PREVIEW_TAIL, room // 5)
    return f"{text[:head]}{_gap(total - head - tail, total, where)}{text[-tail:]}"


def _gap(left_out: int, total: int, where: str) -> str:
    return f"\n\n[… {left_out:,} of {total:,} characters are left out here; {where} …]\n\n"
