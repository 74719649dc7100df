"""This room is for the command `drone`: one worker, or one turn without broker and database."""

import asyncio
import signal
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from drone.agent.memory import MemoryJournal
from mcc.contracts.ids import fresh_id
from mcc.contracts.journal import OrderClaimed, OrderFinished, OrderQueued
from mcc.contracts.limits import Limits
from mcc.contracts.order import NewOrder, Outcome, WorkOrder
from mcc.contracts.record import RecordStatus
from mcc.contracts.shape import now
from mcc.contracts.status import OrderStatus

DONE, FAILED, USAGE = 0, 1, 2

app = typer.Typer(
    name="drone", help="A drone does work orders.", no_args_is_help=True, add_completion=False, rich_markup_mode=None
)


@app.command()
def work(
    queues: Annotated[str | None, typer.Option(help="Queues to serve, separated by commas.")] = None,
    slots: Annotated[int | None, typer.Option(help="Orders at a time.", min=1)] = None,
    name: Annotated[str | None, typer.Option(help="Name to be shown; host and pid if left out.")] = None,
) -> None:
    """Serve work orders until it is told to stop.

    Example: drone work --queues default,slow --slots 50
    """
    from drone.worker.main import work as serve

    raise typer.Exit(serve(_settings(queues=queues, slots=slots, name=name)))


@app.command()
def run(
    prompt: Annotated[str, typer.Argument(help="What to do.")],
    workspace: Annotated[Path | None, typer.Option(help="Directory to work in; the current one if left out.")] = None,
    agent: Annotated[str, typer.Option(help="Agent to ask.")] = "master",
    model: Annotated[str | None, typer.Option(help="Alias or provider/model.")] = None,
    limit: Annotated[list[str] | None, typer.Option(help="key=value, for example rounds=10; may be repeated.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The journal on stdout, one entry a line.")] = False,
) -> None:
    """Do one turn right here: no broker, no database, nothing kept.

    Example: drone run "Explain this repository" --limit rounds=20
    """
    directory = (workspace or Path()).resolve()
    try:
        order = _order(prompt, directory, agent, model, limit or [])
    except (ValidationError, ValueError) as error:
        _say(f"drone run: {_first_problem(error)}")
        raise typer.Exit(USAGE) from error
    settings = _settings(workspace_roots=(directory,))
    raise typer.Exit(asyncio.run(_run(settings, order, as_json)))


def _settings(**given: Any) -> Any:
    from drone.settings import SettingsProblem, load

    try:
        return load(**given)
    except SettingsProblem as problem:
        _say(f"drone: {problem}")
        raise typer.Exit(USAGE) from problem


def _order(prompt: str, workspace: Path, agent: str, model: str | None, limits: list[str]) -> WorkOrder:
    new = NewOrder(prompt=prompt, workspace=str(workspace), agent=agent, model=model, limits=_limits(limits))
    given = new.model_dump(exclude={"session_id"})
    return WorkOrder.model_validate(
        {
            **given,
            "id": fresh_id(),
            "session_id": fresh_id(),
            "session_seq": 1,
            "status": OrderStatus.RUNNING,
            "created_at": now(),
        }
    )


def _limits(pairs: list[str]) -> Limits:
    split = [pair.partition("=") for pair in pairs]
    wrong = next((key for key, equals, value in split if not equals or not value), None)
    if wrong is not None:
        raise ValueError(f"--limit takes key=value, for example rounds=10; {wrong!r} is not that")
    return Limits.model_validate({key.strip(): value.strip() for key, _, value in split})


def _first_problem(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"


async def _run(settings: Any, order: WorkOrder, as_json: bool) -> int:
    from drone.crew import Crew
    from drone.watching import watcher

    crew = Crew.from_settings(settings)
    with watcher(as_json=as_json) as watch:
        journal = MemoryJournal(order.id, watch=watch.entry, hear=watch.delta)
        _tell_beginning(journal, order)
        task = asyncio.ensure_future(crew.run(order, attempt=1, journal=journal))
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, task.cancel)
        try:
            outcome = await task
        except asyncio.CancelledError:
            await journal.close(RecordStatus.CANCELLED, "stopped from the keyboard")
            outcome = Outcome(status=OrderStatus.CANCELLED, detail="stopped from the keyboard")
        finally:
            await crew.close()
        journal.tell(_finished(outcome, journal))
        watch.ended(outcome, journal)
    return DONE if outcome.status is OrderStatus.SUCCEEDED else FAILED


def _tell_beginning(journal: MemoryJournal, order: WorkOrder) -> None:
    journal.tell(
        OrderQueued(
            session_id=order.session_id,
            session_seq=1,
            agent=order.agent,
            queue=order.queue,
            priority=order.priority,
            model=order.model,
            workspace=order.workspace,
        )
    )
    journal.tell(OrderClaimed(attempt=1, epoch=1, drone="drone run", incarnation=fresh_id()))


def _finished(outcome: Outcome, journal: MemoryJournal) -> OrderFinished:
    return OrderFinished(status=outcome.status, reason=outcome.reason, detail=outcome.detail, usage=journal.fold.usage)


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr)


def main() -> None:
    app()


if __name__ == "__main__":
    main()
