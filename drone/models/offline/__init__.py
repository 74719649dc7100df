"""The offline model: deterministic rules in place of a language model, which it says openly in its replies."""

import time
from collections.abc import Iterator, Mapping

from drone.agent.ports.model import NOT_DONE, Ask, Listener, Reply, WantedCall, spoken_blocks
from drone.models.offline import delegate, report
from drone.models.offline.fill import submission
from drone.models.offline.look import READING, NextStep, RequestSoFar, named_path, read, terms_of, wish_of
from drone.models.offline.nodes import node_step
from drone.models.offline.report import HONEST, QuotedFinding, ReportFacts
from drone.models.offline.search import next_step, survey
from mcc.configuration.providers import KEY_NAMES, OFFLINE, any_key
from mcc.contracts.usage import Usage

CHARACTERS_PER_TOKEN = 4

_SELF = "I am the offline model: fixed rules, no language model and no network."
_ADVICE = (
    f"To have a language model do it: set {any_key(f'`{name}`' for name in KEY_NAMES)}, start Ollama, or write a table "
    "`[models.NAME]` into `mcc.toml` and name it with `--model NAME`."
)
_REFUSAL = "This was not done."
_OUT_OF_REPAIRS = f"{_REFUSAL} I tried several ways, and none of them keeps to all rules."
_SHOWN = 200
_SHOWN_LINES = 200


class OfflineModel:
    """Rules in place of a language model: no network, no cost, the same reply to the same request.

    It reads the request, the schemas of the tools and their results, and the hint of the runtime; no prompt that the
    product writes.
    """

    @property
    def name(self) -> str:
        return OFFLINE

    async def ask(self, ask: Ask, listener: Listener) -> Reply:
        """Never fails and uses no tokens. A reply longer than four characters per token of `max_output_tokens` is
        cut."""
        began = time.monotonic()
        step = plan_for(read(ask))
        most = len(step.saying) if ask.max_output_tokens is None else ask.max_output_tokens * CHARACTERS_PER_TOKEN
        text, is_cut = step.saying[:most], len(step.saying) > most
        calls = () if is_cut else step.calls
        thinking = f"By my rules next: {', '.join(call.name for call in step.calls)}." if step.calls else ""
        first_token_ms = round((time.monotonic() - began) * 1000, 3)
        if thinking:
            listener.delta("thinking.delta", thinking)
        listener.delta("model.delta", text)
        return Reply(
            blocks=spoken_blocks(text, calls, thinking),
            finish_reason=NOT_DONE if step.not_done else "length" if is_cut else "tool_calls" if calls else "stop",
            usage=Usage(model_calls=1, cost_usd=0.0),
            first_token_ms=first_token_ms,
            model=OFFLINE,
        )


def plan_for(conversation: RequestSoFar) -> NextStep:
    """The whole policy: forms of nodes, single calls, delegation, a look at the workspace, or a refusal."""
    if conversation.form is not None:
        return node_step(conversation, conversation.form) or NextStep(_OUT_OF_REPAIRS, not_done=True)
    wish = wish_of(conversation.request)
    if wish.kind == "greeting":
        return NextStep("\n\n".join((_SELF, *_offered(conversation), _ADVICE)))
    if wish.call is not None and wish.call[0] in conversation.tools:
        return _single_call(conversation, *wish.call)
    if delegate.roles_of(conversation) and (wish.kind == "explain" or (wish.is_review and not wish.terms)):
        return delegate.delegation(conversation, wish) or _result(conversation, delegate.facts_of(conversation))
    if wish.kind in ("nothing", "call") or not READING & conversation.tools.keys():
        return NextStep(_refusal(conversation), not_done=True)
    known = survey(conversation)
    return next_step(conversation, known, wish) or _result(conversation, report.facts_of(known, wish))


def _single_call(conversation: RequestSoFar, tool: str, arguments: Mapping[str, str]) -> NextStep:
    """The call, then its result as it is. What is to be read may be a directory: both are tried at once."""
    may_be_listed = tool == "read_file" and "." not in arguments["path"] and "list_files" in conversation.tools
    tools = (tool, "list_files") if may_be_listed else (tool,)
    results = sorted((call for call in conversation.done if call.name in tools), key=lambda call: call.is_error)
    done = results[0] if results else None
    if done is None and not conversation.must_finish:
        return NextStep(f"I use `{tool}` for this.", tuple(WantedCall(name, arguments) for name in tools))
    tool = tool if done is None or done.is_error else done.name
    if done is None or done.is_error:
        why = f"`{tool}` refused: {done.content.strip()}" if done else "I had to stop before I could look."
        return _result(conversation, ReportFacts(why, f"*{HONEST}*\n\n{why}", blocked=True))
    lines = done.content.rstrip("\n").split("\n")
    shown = "\n".join(lines[:_SHOWN_LINES]) + ("\n…" if len(lines) > _SHOWN_LINES else "")
    fence = "````" if "```" in shown else "```"
    read = (str(arguments["path"]),) if tool == "read_file" else ()
    finding = QuotedFinding(f"What `{tool}` shows", "".join(read), quote=done.content)
    text = f"*{HONEST}*\n\n{fence}\n{shown}\n{fence}"
    return _result(conversation, ReportFacts(f"{HONEST} {finding.title}.", text, (finding,), read))


def _result(conversation: RequestSoFar, facts: ReportFacts) -> NextStep:
    """The result: handed in if there is a tool for that, else as text."""
    refusal = f"{_REFUSAL}\n\n{facts.report}" if facts.blocked else facts.report
    return submission(conversation, facts) or NextStep(refusal, not_done=facts.blocked)


def _refusal(conversation: RequestSoFar) -> str:
    """The refusal, then what can be done here, then who could do it."""
    gist = " ".join(conversation.request.split())
    shown = gist if len(gist) <= _SHOWN else gist[:_SHOWN].rsplit(" ", 1)[0] + " …"
    opening = f"{_REFUSAL} {_SELF} None of the rules fits this:"
    return "\n\n".join((opening, f"> {shown}", *_offered(conversation), _ADVICE))


def _offered(conversation: RequestSoFar) -> Iterator[str]:
    """Requests that work here, in words to use; the first is close to the actual request."""
    if not READING & conversation.tools.keys():
        yield "I can read a workspace, and there is none here."
        return
    offers = ["`Explain this repository`: what its files say of themselves, and where its programs begin"]
    offers += ["`How are its tests run?`: the lines that speak of it", "`Review this code`: what is unfinished in it"]
    if path := named_path(conversation.request):
        offers.insert(0, f"`Read {path}`")
    elif terms := terms_of(conversation.request, 1):
        offers.insert(0, f"`Search for {terms[0]}`: the lines that mention it")
    yield "\n".join(("What I can do in this workspace:\n", *(f"- {offer}" for offer in offers)))
