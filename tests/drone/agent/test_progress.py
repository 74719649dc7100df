"""Runs without progress: which repetitions count, when the model is nudged, and when the run is halted."""

from collections.abc import Mapping

import pytest

from drone.agent.ports.report import NoProgress
from drone.agent.state.progress import ALL_FAILED, MIN_REPEATED, REFUSED, SAME_FAILURE, SAME_OUTPUT, RunProgress
from mcc.contracts.blocks import ToolCall, blocks_of
from mcc.contracts.journal import AgentStep, Outcome, ToolFinished
from mcc.contracts.model_facts import ModelReplied
from mcc.contracts.usage import Usage

Call = tuple[ToolCall, ToolFinished]
LONG = "I will look at the same file again. " * 6


def called(name: str = "look", brought: str = "ok", outcome: Outcome = Outcome.OK, **arguments: object) -> Call:
    """A call with these arguments, and its result."""
    done = ToolFinished(call_id="c", name=name, content=brought, is_error=outcome is not Outcome.OK, outcome=outcome)
    return ToolCall(call_id="c", name=name, arguments=arguments), done


def failed(name: str = "look", brought: str = "No such file.", **arguments: object) -> Call:
    return called(name, brought, Outcome.ERROR, **arguments)


def denied(name: str = "run", **arguments: object) -> Call:
    return called(name, "Not allowed.", Outcome.DENIED, **arguments)


def replied(
    text: str = "", *calls: Call, thinking: str = "", finish: str = "tool_calls", sent: Mapping[str, object] | str = ""
) -> ModelReplied:
    wanted = [call for call, _ in calls] or [ToolCall(call_id="c", name="look", arguments=sent)]
    return ModelReplied(
        blocks=blocks_of(text=text, thinking=thinking, tool_calls=tuple(wanted)),
        round=1,
        attempt=1,
        model="m",
        finish_reason=finish,
        usage=Usage(),
    )


class Watch:
    """Feeds rounds to a `RunProgress`, one after the other."""

    def __init__(self) -> None:
        self.progress = RunProgress()

    def round(self, *calls: Call, reply: ModelReplied | None = None) -> str | None:
        """The nudge that the round brings."""
        step = self.progress.observe(calls, reply)
        assert step is None or (isinstance(step, AgentStep) and step.name == "nudge")
        return None if step is None else step.message

    def rounds(self, times: int, *calls: Call) -> list[bool]:
        """For each of so many equal rounds, whether it causes a nudge."""
        return [self.round(*calls) is not None for _ in range(times)]


def test_the_same_failing_call_is_nudged_at_its_second_round_and_halted_at_its_third() -> None:
    assert SAME_FAILURE.nudge == 2 and SAME_FAILURE.halt == 3
    watch = Watch()
    assert watch.rounds(2, failed(path="a")) == [False, True]
    with pytest.raises(NoProgress, match="the same call of look failed 3 times in a row"):
        watch.round(failed(path="a"))


@pytest.mark.parametrize(
    "other",
    [failed(path="b"), failed(brought="Busy.", path="a"), failed("read", path="a"), called(path="a")],
    ids=["other arguments", "other error", "other tool", "it worked"],
)
def test_a_call_that_differs_in_anything_begins_anew(other: Call) -> None:
    watch = Watch()
    assert watch.rounds(1, failed(path="a")) == [False]
    assert watch.round(other) is None
    assert watch.round(failed(path="a")) is None


def test_a_hundred_bad_calls_in_one_reply_are_one_bad_round() -> None:
    watch = Watch()
    hundred = [failed(path="a")] * 100
    assert watch.round(*hundred) is None
    told = watch.round(*hundred)
    assert told is not None and told.count("\n") == 0


def test_the_order_of_a_calls_arguments_makes_no_difference() -> None:
    watch = Watch()
    watch.round(failed(path="a", depth=1))
    assert watch.round(failed(depth=1, path="a")) is not None


def test_rounds_of_which_every_call_failed_are_nudged_at_four_and_halted_at_six() -> None:
    assert (ALL_FAILED.nudge, ALL_FAILED.halt) == (4, 6)
    watch = Watch()
    told = [watch.round(failed(path=str(n)), failed(path=f"{n}/b")) for n in range(5)]
    assert [one is not None for one in told] == [False, False, False, True, False]
    with pytest.raises(NoProgress, match="every tool call of 6 replies in a row failed"):
        watch.round(failed(path="6"))


def test_one_call_that_works_ends_the_row_of_failed_rounds() -> None:
    watch = Watch()
    for number in range(20):
        works = number % 4 == 3
        assert watch.round(failed(path=str(number)), *([called(path=str(number))] if works else [])) is None


def test_a_refused_call_made_again_is_nudged_and_then_halted_whatever_lies_between() -> None:
    assert (REFUSED.nudge, REFUSED.halt) == (2, 3)
    watch = Watch()
    assert watch.round(denied(command="rm")) is None
    assert watch.round(called(path="a")) is None
    told = watch.round(denied(command="rm"))
    assert told is not None and "refused twice" in told
    assert watch.round(called(path="b")) is None
    with pytest.raises(NoProgress, match="after it was refused 2 times"):
        watch.round(denied(command="rm"))


def test_refusals_of_different_calls_are_not_the_same_call() -> None:
    watch = Watch()
    assert [watch.round(denied(command=name)) for name in "abc"] == [None] * 3


def test_the_same_output_of_the_same_call_is_nudged_at_three_and_halted_at_four() -> None:
    assert (SAME_OUTPUT.nudge, SAME_OUTPUT.halt) == (3, 4)
    watch = Watch()
    assert watch.rounds(3, called(path="a")) == [False, False, True]
    with pytest.raises(NoProgress, match="the same call of look gave the same output 4 times in a row"):
        watch.round(called(path="a"))


def test_a_command_that_says_no_again_and_again_is_no_circle() -> None:
    call, done = called("run_shell", "2 tests failed", command="make test")
    ended = done.model_copy(update={"exit_code": 1})
    watch = Watch()
    assert watch.rounds(20, (call, ended)) == [False] * 20
    with pytest.raises(NoProgress):
        watch.rounds(5, (call, ended.model_copy(update={"exit_code": 0})))


def test_the_same_call_with_another_output_each_time_is_work() -> None:
    watch = Watch()
    assert [watch.round(called("next_page", f"page {n}")) for n in range(20)] == [None] * 20


def test_the_same_output_beside_something_new_is_work_and_nobody_is_halted_untold() -> None:
    watch = Watch()
    for number in range(20):
        assert watch.round(called("status"), called("edit", f"edited {number}", path=str(number))) is None
    assert watch.rounds(2, called("status")) == [False, True]
    with pytest.raises(NoProgress):
        watch.round(called("status"))


def test_a_long_reply_repeated_word_for_word_is_a_circle_whatever_its_calls_bring() -> None:
    watch = Watch()

    def again(number: int) -> str | None:
        page = called("next_page", f"page {number}")
        return watch.round(page, reply=replied("", page, thinking=LONG))

    assert len(LONG) >= MIN_REPEATED
    assert [again(number) is not None for number in range(3)] == [False, False, True]
    with pytest.raises(NoProgress, match="the same reply 4 times in a row"):
        again(4)


def test_a_short_phrase_may_go_with_every_call() -> None:
    watch = Watch()
    for number in range(20):
        page = called("next_page", f"page {number}")
        assert watch.round(page, reply=replied("Next page.", page)) is None


def test_a_long_reply_with_other_calls_is_not_the_same() -> None:
    watch = Watch()
    for number in range(20):
        page = called("page", f"page {number}", number=number)
        assert watch.round(page, reply=replied(LONG, page)) is None


def test_two_reasons_in_one_round_are_both_told() -> None:
    watch = Watch()
    watch.round(failed(path="a"), denied(command="b"))
    told = watch.round(failed(path="a"), denied(command="b"))
    assert told is not None and "look failed 2 times" in told and "run was refused twice" in told


def test_a_call_that_was_cut_off_is_asked_for_in_smaller_pieces() -> None:
    watch = Watch()
    told = watch.round(failed(), reply=replied(finish="length", sent='{"content": "half of'))
    assert told is not None and "smaller pieces" in told
    assert watch.round(called(), reply=replied(finish="length", sent={})) is None


def test_arguments_too_deep_to_compare_are_taken_for_different_ones() -> None:
    def deep() -> dict[str, object]:
        nested: dict[str, object] = {}
        for _ in range(20_000):
            nested = {"a": nested}
        return nested

    watch = Watch()
    one, other = deep(), deep()
    assert watch.round(failed(arguments=one)) is None
    assert watch.round(failed(arguments=other)) is None
    for nested in (one, other):
        while nested:
            nested = nested.pop("a")  # type: ignore[assignment]
