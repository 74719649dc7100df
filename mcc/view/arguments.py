"""This room is for a tool call in a few words: the argument that says most."""

from collections.abc import Mapping

from mcc.view.clean import one_line

TELLING = ("path", "pattern", "command", "url", "query", "name", "title", "agent_type", "source", "id", "prompt")
WIDTH = 60


def in_brief(arguments: Mapping[str, object] | str) -> str:
    """The most telling argument as one short line; empty when there is none."""
    if isinstance(arguments, str):
        return one_line(arguments, WIDTH)
    for name in TELLING:
        value = arguments.get(name)
        if isinstance(value, str) and value:
            return one_line(value, WIDTH)
    return one_line(", ".join(f"{name}={value}" for name, value in arguments.items()), WIDTH)
