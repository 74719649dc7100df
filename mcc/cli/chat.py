"""The command `mcc chat`: a session at the terminal, in which what is typed while a turn runs steers it."""

import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mcc.cli.attaching import RequestWithFiles, checked_files
from mcc.cli.chat_line import ChatLine
from mcc.cli.command import DONE, USAGE, DataDir, Url, fail, plain_errors, print_table, say
from mcc.cli.following import say_detached, withdraw
from mcc.cli.inbox import Prompt
from mcc.cli.order_request import OrderRequest, left_to_session, order_fields
from mcc.cli.placing import service_for, sigterm_as_ctrl_c, submit
from mcc.cli.run import PLACEHOLDER, workspace_fields
from mcc.cli.server import exit_on_client_errors, resolve_session_id
from mcc.options import DeliverOptions, OrderOptions, taking_options

if TYPE_CHECKING:
    from mcc.client import MCC
    from mcc.contracts.order import WorkOrder
    from mcc.settings import ServiceSettings
    from mcc.view.chat import ChatScreen

SHOWN_SESSIONS = 10
UNSET = "default"
"""Given to /model, /agent or /mode, it takes back what was chosen there."""

COMMANDS: Mapping[str, str] = {
    "/help": "these commands",
    "/new": "begin a new session",
    "/sessions": "the newest sessions; with an id, or an end of it: go on with that one",
    "/model": "the model of the next turns, and which there are; with a name: change it",
    "/agent": "the agent of the next turns, and which there are; with a name: change it",
    "/mode": "the mode of the next turns, and which there are; with a name: change it",
    "/attach": "a file that the next turn is given, by its path; without one: which files wait for it",
    "/compact": "have what later turns are shown of this session shortened by a summary",
    "/diff": "what the last turn changed; with a path: there",
    "/revert": "take back what the last turn changed",
    "/cost": "what this session has spent",
    "/cancel": "stop the turn that runs (Ctrl-C does too)",
    "/quit": "leave (Ctrl-D does too); a turn that runs goes on where a service stays",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatOptions:
    """Where and with whom a conversation is held."""

    workspace: Annotated[
        str | None,
        typer.Option(metavar="DIRECTORY|https://…", help="That of the session, or the current one, if left out."),
    ] = None
    ref: Annotated[str | None, typer.Option(help="Branch, tag or commit of a git address.")] = None
    agent: Annotated[str | None, typer.Option(help="Agent to ask; that of the session, or master, if left out.")] = None
    queue: Annotated[str, typer.Option(help="Queue of the drones that shall do it.")] = "default"

    def order(self) -> dict[str, Any]:
        return {**workspace_fields(self.workspace, self.ref), "agent": self.agent, "queue": self.queue}


@taking_options
def chat(
    place: ChatOptions,
    options: OrderOptions,
    deliver: DeliverOptions,
    session: Annotated[str | None, typer.Option(help="Session to go on with: its id, an end of it, or @last.")] = None,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Talk with an agent in a session: answers stream, what is typed meanwhile steers, calls are approved inline.

    Where no service runs and none is named, one is started until the conversation ends. /help lists its commands.

    Example: mcc chat --session @last
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        fail("mcc chat is for a person at a terminal: elsewhere use mcc run --session.", USAGE)
    sigterm_as_ctrl_c()
    from mcc.settings import load

    with plain_errors():
        settings = load(data_dir=data_dir)
        fields = {**order_fields(place, options, deliver), "session_id": None}
        request = OrderRequest(PLACEHOLDER, fields, here=place.workspace is None)
        service = service_for(settings, url, request, request.checked())
        with service as (server, here_only), exit_on_client_errors(settings.data_dir, server):
            from mcc.client import MCC

            with MCC(server.url, token=server.token) as client:
                session_id = resolve_session_id(client, session) if session is not None else None
                conversation = TerminalChat(client, settings, request, session_id)
                conversation.hold()
                raise typer.Exit(conversation.leave(here_only=here_only))


class TerminalChat:
    """The turns of a session. One thread reads lines; each turn is followed by a thread of its own."""

    def __init__(
        self, client: "MCC", settings: "ServiceSettings", request: OrderRequest, session_id: str | None
    ) -> None:
        self._client = client
        self._settings = settings
        self._fields = dict(request.order)
        self._here = request.here
        self._session_id = session_id
        self._last: str | None = None
        self._files: tuple[Path, ...] = ()
        self._turn: tuple[str, ChatScreen] | None = None
        self._following: threading.Thread | None = None
        self._line = ChatLine(list(COMMANDS), lambda: "steer> " if self._turn is not None else "you> ", self._toolbar)

    def hold(self) -> None:
        """Take lines until the person leaves."""
        from prompt_toolkit.patch_stdout import patch_stdout

        with patch_stdout(raw=True):
            say("/help lists the commands; Ctrl-D leaves.")
            if self._session_id is not None:
                self._show_last_turn(self._session_id)
            while True:
                try:
                    line = self._line.next()
                except EOFError:
                    return
                except KeyboardInterrupt:
                    line = "/cancel"
                if line == "/quit":
                    return
                if line or self._line.asked:  # Nothing typed is the default of a question.
                    self._guarded(self._take, line)

    def leave(self, *, here_only: bool) -> int:
        """Let go of a turn that runs, or where its service ends too, stop it. Answers the exit code."""
        self._line.close()
        turn = self._turn
        if turn is None:
            return DONE
        if here_only:
            withdraw(self._client, turn[0])
        else:
            say_detached(turn[0])
        return DONE

    def _guarded(self, act: Callable[..., None], *arguments: str) -> None:
        """Do what was asked for; a refusal is told, and the conversation goes on."""
        from mcc.client.errors import ClientError

        try:
            act(*arguments)
        except ClientError as error:
            say(f"mcc: {error}")
        except typer.Exit:
            pass  # Whoever raised it has said why.

    def _take(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        if word in COMMANDS:
            self._command(word, rest.strip())
        elif self._line.asked:
            self._line.answer(line)
        elif line.startswith("/") and "/" not in word[1:]:
            say(f"There is no command {word}; /help lists them.")
        elif self._turn is not None:
            self._steer(self._turn[0], line)
        else:
            self._begin(line)

    def _begin(self, prompt: str) -> None:
        from mcc.client.errors import ClientError

        fields = {**self._fields, "session_id": self._session_id}
        if self._here and self._session_id is not None:
            fields = left_to_session(self._client, fields, self._session_id)
        request = RequestWithFiles(prompt, fields, files=self._files)
        try:
            order = submit(self._client, request, request.checked(), self._settings)
        except (ClientError, typer.Exit):
            if self._files:
                say("No file waits for the next turn any more: /attach again what it needs.")
            raise
        finally:
            self._files = ()
        self._session_id, self._last = order.session_id, order.id
        self._follow(order.id)

    def _steer(self, order_id: str, message: str) -> None:
        from mcc.client.errors import Conflict

        try:
            self._client.orders.steer(order_id, message)
        except Conflict:
            if self._following is not None:
                self._following.join()  # It had just ended.
            self._begin(message)

    def _follow(self, order_id: str) -> None:
        from mcc.view.chat import ChatScreen
        from mcc.view.output import window

        screen = ChatScreen(write_line, window() or 80)
        self._turn = (order_id, screen)
        self._following = threading.Thread(target=self._guarded, args=(self._see, order_id), daemon=True)
        self._following.start()

    def _see(self, order_id: str) -> None:
        assert self._turn is not None
        screen = self._turn[1]
        prompt = Prompt(self._client, order_id, self._line.read)
        try:
            for item in self._client.orders.watch(order_id, deltas=True):
                screen.show(item)
                prompt.see(item, nullcontext)
            show_end(self._client.orders.get(order_id), screen.said)
        finally:
            self._turn = None
            self._line.redraw()

    def _toolbar(self) -> str:
        from mcc.view.output import exact_line, short_id

        turn = self._turn
        state = "" if turn is None else turn[1].waits or "runs"
        model = self._fields.get("model") or "default model"
        session = "new session" if self._session_id is None else f"session {short_id(self._session_id)}"
        mode, files = self._fields.get("mode") or "develop", f"with {self._names()}" if self._files else ""
        parts = (self._fields["agent"] or "master", model, mode, session, files, state)
        return exact_line(" · ".join(filter(None, parts)), 300)

    def _command(self, word: str, rest: str) -> None:
        match word:
            case "/help":
                for name, about in COMMANDS.items():
                    say(f"  {name:<10} {about}")
            case "/new":
                self._session_id = self._last = None
                say("The next line begins a new session.")
            case "/sessions":
                self._sessions(rest)
            case "/model" | "/agent" | "/mode":
                self._set(word[1:], rest)
            case "/attach":
                self._attach(rest)
            case "/cancel":
                self._cancel()
            case "/cost":
                self._cost()
            case "/compact":
                self._compact()
            case "/diff" | "/revert":
                self._after(word, rest)

    def _set(self, name: str, value: str) -> None:
        from mcc.contracts.similar import did_you_mean

        names, hint = self._choices(name), ""
        if value:
            fields = {**self._fields, name: None if value == UNSET else value}
            OrderRequest(PLACEHOLDER, fields).checked()
            self._fields = fields
            # Not refused: a provider has other models, and a workspace may have agents of its own.
            if value not in (UNSET, *names):
                hint = f"; no live drone lists it{did_you_mean(value, names)}"
        elif names:
            hint = f"; there is {', '.join(names)}, and {UNSET} for none of them"
        say(f"{name}: {self._fields.get(name) or 'the default'}{hint}")

    def _choices(self, name: str) -> list[str]:
        from typing import get_args

        from mcc.contracts.permission import Mode

        match name:
            case "mode":
                return list(get_args(Mode))
            case "agent":
                return [offer.name for offer in self._client.agents.list()]
            case _:
                return [offer.name for offer in self._client.models.list()]

    def _attach(self, path: str) -> None:
        if path:
            wanted = Path(path.strip("\"'")).expanduser()
            self._files = checked_files((*self._files, wanted), "/attach")
        say(f"The next turn is given {self._names()}." if self._files else "The next turn is given no file.")

    def _names(self) -> str:
        from mcc.view.output import exact_line

        return exact_line(", ".join(path.name for path in self._files), 300)

    def _cancel(self) -> None:
        if self._turn is None:
            say("Nothing runs. /quit or Ctrl-D leaves.")
        else:
            self._client.orders.cancel(self._turn[0], reason="stopped from the keyboard")

    def _sessions(self, named: str) -> None:
        if not named:
            from mcc.cli.command import clock
            from mcc.view.output import short_id

            newest = self._client.sessions.list(limit=SHOWN_SESSIONS).items
            rows = [(short_id(item.id), clock(item.created_at), item.turns, item.title) for item in newest]
            print_table(("ID", "CREATED", "TURNS", "TITLE"), rows, empty="No session yet.")
            return
        if self._turn is not None:
            say("A turn runs: /cancel it, or wait for its end.")
            return
        self._session_id = resolve_session_id(self._client, named)
        self._show_last_turn(self._session_id)

    def _show_last_turn(self, session_id: str) -> None:
        from mcc.view.output import one_line, print_markdown

        turns = self._client.sessions.get(session_id, limit=1).orders
        if not turns:
            say("This session has no turn yet.")
            return
        (newest,) = turns
        self._last = newest.id
        say(f"turn {newest.session_seq}: {one_line(newest.prompt, 200)}")
        print_markdown(newest.answer or f"({newest.status})")

    def _cost(self) -> None:
        from mcc.view import figures

        if self._session_id is None:
            say("Nothing was spent: this session has not begun.")
            return
        session = self._client.sessions.get(self._session_id, limit=1)
        say(f"{session.turns} {'turn' if session.turns == 1 else 'turns'}: {figures.spent(session.usage)}")

    def _compact(self) -> None:
        if self._session_id is None:
            say("Nothing to compact: this session has not begun.")
        elif self._turn is not None:
            say("A turn runs, which compacts what it is shown by itself where it has to: ask again when it has ended.")
        else:
            order = self._client.sessions.compact(self._session_id)
            say(f"The session is compacted by order {order.id}; no turn waits for it.")

    def _after(self, word: str, path: str) -> None:
        """Show or take back what the last turn changed."""
        if self._last is None or self._turn is not None:
            say("A turn runs: its changes are told at its end." if self._turn is not None else "No turn yet.")
        elif word == "/revert":
            self._follow(self._client.orders.revert(self._last).id)
        else:
            show_diff(self._client, self._client.orders.get(self._last), path or None)


def show_end(order: "WorkOrder", said: str) -> None:
    """How a turn ended: its answer unless that was `said` word for word, what it spent and changed."""
    from mcc.contracts.status import OrderStatus
    from mcc.view import figures
    from mcc.view.lines import change_rows
    from mcc.view.output import clean, print_markdown, short_id
    from mcc.view.screens import how_it_ended

    if order.answer and order.answer.strip() != said.strip():
        print_markdown(order.answer)
    if order.status is not OrderStatus.SUCCEEDED:
        say(f"mcc: {how_it_ended(order)}")
    for name, text in change_rows(order.changes, short_id(order.id)):
        write_line("dim", clean(f"{name:<9}  {text}"))
    write_line("dim", f"order {short_id(order.id)} · {figures.spent(order.usage)}")


def show_diff(client: "MCC", order: "WorkOrder", path: str | None) -> None:
    """The diff of an order that has ended, line by line."""
    from mcc.view.diffs import of_path, shown_lines

    changes = order.changes
    if changes is None or changes.diff is None:
        say("The last turn changed nothing.")
        return
    text = client.orders.artifact(order.id, changes.diff)
    for style, line in shown_lines(text if path is None else of_path(text, changes.files, path)):
        write_line(style, line)


def write_line(style: str, line: str) -> None:
    """Write a line that is `clean` to stdout."""
    from rich.console import Console
    from rich.text import Text

    Console(highlight=False).print(Text(line, style), overflow="fold")
