"""Messages remember their bytes by wire format."""

from mcc.transcript.messages import AssistantMessage, UserMessage


def test_a_message_remembers_its_bytes_in_every_form_that_it_was_sent_in() -> None:
    message = UserMessage("hello")
    assert message.encoded_as("chat") is None
    message.remember("chat", b"1")
    message.remember("responses", b"2")
    message.remember("gemini", b"3")
    assert message.encoded == {"chat": b"1", "responses": b"2", "gemini": b"3"}
    assert [message.encoded_as(form) for form in ("chat", "responses", "gemini", "anthropic")] == [
        b"1",
        b"2",
        b"3",
        None,
    ]


def test_what_a_message_remembers_does_not_make_it_another_one() -> None:
    sent, fresh = AssistantMessage.of("hello"), AssistantMessage.of("hello")
    sent.remember("chat", b"1")
    assert sent == fresh and repr(sent) == repr(fresh)
    sent.forget()
    assert sent.encoded == {} and sent.encoded_as("chat") is None
