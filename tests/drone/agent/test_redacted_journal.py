"""No journal entry contains a known secret."""

from drone.agent.ports.journal import MemoryJournal, RedactedJournal
from mcc.contracts.entry import ORDER
from mcc.contracts.journal import AgentStep
from mcc.redaction import MARK, Redactor

SECRET = "sk-live-of-somebody-77"


async def test_what_is_written_has_no_secret() -> None:
    inner = MemoryJournal("o")
    journal = RedactedJournal(inner, Redactor([SECRET]))
    other = AgentStep(name="note", message="all is well")
    assert await journal.write(ORDER, AgentStep(name="note", message=f"it said {SECRET}"), other) == 2
    assert [entry.data for entry in inner.entries] == [AgentStep(name="note", message=f"it said {MARK}"), other]


async def test_kept_texts_are_found_again() -> None:
    journal = RedactedJournal(MemoryJournal("o"), Redactor([SECRET]))
    assert await journal.kept(await journal.keep("a long text")) == "a long text"
