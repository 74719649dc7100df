"""A finished subagent gets another message: its conversation continues in a new record while its parent runs."""

import asyncio
from collections.abc import Callable

import pytest

from drone.agent.agent import AgentRuntime
from drone.agent.ports.conversations import CannotContinue, Conversation, Conversations
from drone.agent.ports.model import Ask, ModelError, WantedCall
from drone.agent.subagents.delegation import SUBAGENT
from drone.models.scripted import Line, Said, ScriptedModel, by_prompt, call
from mcc.contracts.agents import AgentDefinition
from mcc.contracts.control import Control, ControlKind
from mcc.contracts.fence import unfenced
from mcc.contracts.ids import fresh_id
from mcc.contracts.journal import AgentReused, AgentStarted
from mcc.contracts.limits import AgentLimits, Limits
from mcc.contracts.record import RecordStatus
from mcc.contracts.shape import now
from mcc.transcript.messages import AssistantMessage, Message, ToolResults, UserMessage
from tests.drone.agent.crowds import Tree, piece, several


def delegate(*prompts: str) -> Line:
    return Line(calls=tuple(call("subagent", agent_type="explore", prompt=prompt) for prompt in prompts))


def send(record_id: str, message: str = "And now?") -> Line:
    return Line(calls=(call("subagent_send", record_id=record_id, message=message),))


def in_turn(replies: int, *lines: Callable[[], Said]) -> Said:
    """What is said after so many replies."""
    return lines[replies]()


def first_child(tree: Tree) -> str:
    return tree.record_so_far()[0].id


async def test_a_continued_child_knows_what_was_said_and_has_a_new_record_that_names_the_old() -> None:
    def write(prompt: str, replies: int) -> Said:
        if prompt != "master":
            return f"answer {replies}"
        return in_turn(replies, lambda: delegate("north"), lambda: send(first_child(tree)), lambda: "Done.")

    tree = Tree(by_prompt(write))
    assert (await tree.run()).text == "Done."
    first, second = tree.record().subagent_history
    assert (second.continues, second.prompt, second.answer) == (first.id, "And now?", "answer 1")
    assert (second.parent_id, second.depth, second.agent, second.title) == (first.parent_id, 1, "explore", "north")
    assert second.call_id == tree.results()[1].call_id
    assert unfenced(tree.results()[1].content) == f"answer 1\n\nrecord_id: {second.id}"
    asked = [ask for ask in tree.model.asks if ask.system.startswith("You are explore.")][1]
    assert asked.messages == (
        UserMessage("north"),
        AssistantMessage.of("answer 0", model="scripted/model"),
        UserMessage("And now?"),
    )
    beginning = [entry.data for entry in tree.journal.entries if entry.record_id == second.id][:2]
    assert isinstance(beginning[0], AgentStarted) and beginning[1] == AgentReused(message="And now?", turn=2)


async def test_a_child_may_be_continued_again_by_each_of_its_records_and_takes_no_further_spawn() -> None:
    def write(prompt: str, replies: int) -> Said:
        if prompt != "master":
            return f"answer {replies}"
        if replies == 0:
            return delegate("north")
        if replies == 3:
            return "Done."
        return send(tree.record_so_far()[0].id, f"message {replies}")

    tree = Tree(by_prompt(write), Limits(spawns=1))
    assert (await tree.run()).completed
    first, second, third = tree.record().subagent_history
    assert (second.continues, third.continues) == (first.id, second.id)
    assert third.answer == "answer 2" and tree.turn.budget.tree.spawned == 1
    assert [entry.data.turn for entry in tree.journal.entries if isinstance(entry.data, AgentReused)] == [2, 3]


async def test_a_child_of_a_crowd_that_met_its_limit_can_go_on_where_it_stopped() -> None:
    def write(prompt: str, replies: int) -> Said:
        if prompt != "master":
            look = Line(text="Half.", calls=(call("subagent", agent_type="nobody", prompt="x"),))
            return look if replies < 2 else "The other half."
        return in_turn(replies, lambda: several(piece("a")), lambda: send(tree.told()[0]["record_id"]), lambda: "Done.")

    tree = Tree(by_prompt(write), Limits(subagent_rounds=2))
    assert (await tree.run()).completed
    first, second = tree.record().subagent_history
    assert (first.status, second.status) == (RecordStatus.LIMIT_REACHED, RecordStatus.COMPLETED)
    last = [ask for ask in tree.model.asks if ask.system.startswith("You are explore.")][-1]
    assert sum(isinstance(message, ToolResults) for message in last.messages) == 2


async def test_a_child_that_still_works_is_not_disturbed() -> None:
    gate = asyncio.Event()

    async def author(ask: Ask) -> Said:
        prompt = ask.messages[0].text  # type: ignore[union-attr]
        replies = sum(isinstance(message, AssistantMessage) for message in ask.messages)
        if prompt == "north":
            await gate.wait()
            await asyncio.sleep(0)
            return "found"
        if prompt == "south":
            if replies == 0:
                return send(first_child(tree))
            gate.set()
            return "It is not mine."
        if replies == 0:
            return delegate("north", "south")
        if replies == 1:
            return Line(calls=send(first_child(tree), "once").calls + send(first_child(tree), "twice").calls)
        return "Done."

    tree = Tree(author)
    assert (await tree.run()).completed
    assert unfenced(tree.results(1)[0].content) == "This subagent belongs to another agent. Start one of your own."
    told = [result for result in tree.results() if result.name == "subagent_send"]
    assert sorted(result.is_error for result in told) == [False, True]
    assert any("still at work" in result.content for result in told)


async def test_a_child_that_a_person_cancelled_is_not_revived() -> None:
    async def author(ask: Ask) -> Said:
        replies = sum(isinstance(message, AssistantMessage) for message in ask.messages)
        if ask.messages[0].text == "north":  # type: ignore[union-attr]
            tree.turn.router.cancel(first_child(tree), "not needed")
            await asyncio.Event().wait()
        return in_turn(replies, lambda: delegate("north"), lambda: send(first_child(tree)), lambda: "Done.")

    tree = Tree(author)
    assert (await tree.run()).completed
    assert "was cancelled and cannot go on" in tree.results()[1].content
    assert len(tree.record().subagent_history) == 1


async def test_tools_that_a_person_took_away_do_not_come_back() -> None:
    async def author(ask: Ask) -> Said:
        replies = sum(isinstance(message, AssistantMessage) for message in ask.messages)
        if ask.messages[0].text == "north":  # type: ignore[union-attr]
            if replies == 0:
                took = Control(
                    id=fresh_id(),
                    order_id="order-1",
                    number=1,
                    kind=ControlKind.STEER,
                    record_id=first_child(tree),
                    remove_tools=("subagents_run",),
                    requested_at=now(),
                )
                assert await tree.turn.router.take(took) is None
                return "found"
            last = ask.messages[-1]
            asked.append(last)
            return "found" if isinstance(last, ToolResults) else Line(calls=(call("subagents_run", agents=[]),))
        return in_turn(replies, lambda: delegate("north"), lambda: send(first_child(tree)), lambda: "Done.")

    asked: list[Message] = []
    tree = Tree(author)
    assert (await tree.run()).completed
    assert isinstance(asked[-1], ToolResults)
    assert "took the tool subagents_run away" in asked[-1].results[0].content
    shown = [ask.tools for ask in tree.model.asks if ask.system.startswith("You are explore.")]
    assert all(tools == shown[0] for tools in shown)


async def test_when_a_child_has_ended_nobody_goes_on_with_its_own_children() -> None:
    def write(prompt: str, replies: int) -> Said:
        match prompt:
            case "master":
                return in_turn(
                    replies,
                    lambda: delegate("outer"),
                    lambda: send(tree.record_so_far()[0].subagent_history[0].id),
                    lambda: "Done.",
                )
            case "outer":
                return "All." if replies else delegate("inner")
        return "found"

    tree = Tree(by_prompt(write))
    assert (await tree.run()).completed
    assert "whose conversation is kept" in tree.results()[1].content


async def test_without_the_tool_no_conversation_is_kept_and_the_call_is_refused() -> None:
    def write(prompt: str, replies: int) -> Said:
        if prompt != "master":
            return "found"
        return in_turn(replies, lambda: delegate("north"), lambda: send(first_child(tree)), lambda: "Done.")

    tree = Tree(by_prompt(write), tools=(SUBAGENT,))
    assert (await tree.run()).completed
    assert [spec.name for spec in tree.model.asks[0].tools] == [SUBAGENT]
    assert tree.results()[1].is_error
    with pytest.raises(CannotContinue):
        tree.turn.conversations.find(first_child(tree), tree.record().id)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"message": "x"}, "record_id must be one"),
        ({"record_id": 7, "message": "x"}, "record_id must be one"),
        ({"record_id": "r", "message": " "}, "message must be a text"),
        ({"record_id": "r", "message": "x", "model": "fast"}, "does not know model"),
        ({"record_id": "r", "message": "x"}, "There is no subagent 'r' whose conversation is kept"),
    ],
)
async def test_wrong_arguments_are_told_in_words(arguments: dict[str, object], words: str) -> None:
    def write(prompt: str, replies: int) -> Said:
        return "Done." if replies else Line(calls=(WantedCall("subagent_send", arguments),))

    tree = Tree(by_prompt(write))
    assert (await tree.run()).completed
    (result,) = tree.results()
    assert result.is_error and words in result.content


async def test_what_a_continued_child_spends_counts_against_the_limits_of_the_tree() -> None:
    def write(prompt: str, replies: int) -> Said:
        if prompt != "master":
            return Line(text="word " * 50)
        return delegate("north") if replies == 0 else send(first_child(tree))

    tree = Tree(by_prompt(write), Limits(rounds=1_000, output_tokens=2_000))
    report = await tree.run()
    assert report.limit == "output_tokens"
    assert tree.record().usage_total.output_tokens == tree.turn.budget.spent.output_tokens


async def test_a_child_whose_model_failed_can_be_asked_again() -> None:
    def write(prompt: str, replies: int) -> Said:
        if prompt != "master":
            return ModelError("It is down.") if len(tree.record_so_far()) == 1 else "Up again."
        return in_turn(replies, lambda: delegate("north"), lambda: send(first_child(tree)), lambda: "Done.")

    tree = Tree(by_prompt(write))
    assert (await tree.run()).completed
    assert unfenced(tree.results()[1].content).startswith("Up again.")


def kept(conversations: Conversations, name: str, text: str, parent: str = "parent") -> Conversation[AgentRuntime]:
    definition = AgentDefinition(name="explore", limits=AgentLimits())
    one = Conversation(AgentRuntime(definition, model=ScriptedModel([])), parent, name, name)
    conversations.begin(one)
    message = UserMessage(text)
    message.remember("json", b"x")
    conversations.end(one, RecordStatus.COMPLETED, [message])
    return one


def test_the_oldest_conversations_are_forgotten_when_they_grow_too_long_together() -> None:
    conversations = Conversations(most_characters=10)
    kept(conversations, "first", "a" * 6)
    second = kept(conversations, "second", "b" * 6)
    with pytest.raises(CannotContinue):
        conversations.find("first", "parent")
    assert conversations.find("second", "parent") is second
    assert second.messages[0].encoded == {}


def test_a_turn_forgets_what_a_parent_kept_and_nothing_else() -> None:
    conversations = Conversations()
    kept(conversations, "mine", "a")
    other = kept(conversations, "other", "b", parent="somebody")
    conversations.forget("parent")
    with pytest.raises(CannotContinue):
        conversations.find("mine", "parent")
    assert conversations.find("other", "somebody") is other
