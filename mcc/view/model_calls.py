"""What a model was asked with, as lines for people."""

from collections.abc import Iterator, Sequence

from mcc.contracts.blocks import FileBlock, ImageBlock, OpaqueBlock, RedactedBlock, ThinkingBlock, ToolCallBlock
from mcc.contracts.invisible import escape_invisible
from mcc.contracts.model_calls import AskedBlock, AskedMessage, ModelRequest, ToolResultBlock
from mcc.contracts.shape import to_json


def request_lines(order_id: str, pages: Sequence[ModelRequest]) -> Iterator[tuple[str, str]]:
    """The request from all its pages, each line with the style it is shown in; `clean`."""
    first = pages[0]
    parameters = {name: value for name, value in first.parameters if value not in (None, "inherit")}
    yield "bold", "# Parameters"
    yield from (("", escape_invisible(f"{name}: {value}")) for name, value in parameters.items())
    if first.usage is not None and first.cached_share is not None:
        yield "", f"input: {first.usage.input_tokens:,} tokens, {first.cached_share:.0%} of them from the cache"
    yield from _part("# System prompt", first.system)
    yield from _part("# Tools", "")
    for tool in first.tools:
        yield "", escape_invisible(f"{tool.name}: {(tool.description or 'added during the run').split(chr(10))[0]}")
    for number, message in enumerate((message for page in pages for message in page.messages), 1):
        yield from _part(f"# {number}. {message.role}{_place(order_id, message)}", "")
        for block in message.blocks:
            yield from (("", line) for line in escape_invisible(_text(block)).split("\n"))


def _part(heading: str, text: str) -> Iterator[tuple[str, str]]:
    yield "", ""
    yield "bold", heading
    if text:
        yield from (("", line) for line in escape_invisible(text).split("\n"))


def _place(order_id: str, message: AskedMessage) -> str:
    cut = ", cut" if message.cut else ""
    if message.order_id is None:
        return cut
    elsewhere = "" if message.order_id == order_id else f" of order {message.order_id}"
    return f" (entry {message.seq}{elsewhere}{cut})"


def _text(block: AskedBlock) -> str:
    match block:
        case ToolResultBlock():
            return f"[{'error' if block.is_error else 'result'} of {block.name}]\n{block.content}"
        case ToolCallBlock(name=name, arguments=arguments):
            return f"[call of {name}] {arguments if isinstance(arguments, str) else to_json(arguments).decode()}"
        case ImageBlock() | FileBlock():
            return f"[{block.type} {block.name or block.artifact}]"
        case RedactedBlock() | OpaqueBlock():
            return "[what only the provider can read]"
        case ThinkingBlock():
            return f"[thinking]\n{block.text}"
        case _:
            return block.text
