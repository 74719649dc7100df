"""What an MCP server asks a person is asked as it is, so that what nobody sees of it can be shown."""

import mcp_types as types

from drone.mcp_servers.elicitation import Elicitor, Question
from mcc.contracts.invisible import escape_invisible

HIDDEN = "Send it\x1b]0;\u202e\U000e0041 to everybody\x07?"


async def test_a_form_is_asked_exactly() -> None:
    asked: list[Question] = []

    async def ask(question: Question) -> str:
        asked.append(question)
        return "yes"

    schema = {"type": "object", "properties": {"send": {"type": "string", "title": HIDDEN, "enum": [HIDDEN, "no"]}}}
    request = types.ElicitRequestFormParams(message=HIDDEN, requested_schema=schema)
    await Elicitor("tracker", ask).elicited(request)
    [question] = asked
    assert question.text == f"The MCP server tracker asks: {HIDDEN}\n{HIDDEN}" and question.choices == (HIDDEN, "no")
    assert "Send it⟦U+001B⟧]0;⟦U+202E⟧⟦U+E0041⟧ to everybody⟦U+0007⟧?" in escape_invisible(question.text)


async def test_a_long_message_says_that_it_goes_on() -> None:
    asked: list[Question] = []

    async def ask(question: Question) -> None:
        asked.append(question)

    request = types.ElicitRequestFormParams(message="x" * 10_000, requested_schema={"type": "object", "properties": {}})
    await Elicitor("tracker", ask).elicited(request)
    assert asked[0].text.endswith("x…")
