"""This room is for a family in the foreground: it says where everything is, and goes when a signal says so."""

import asyncio
import json
import os
import signal

from mcc.api.token import token_file
from mcc.cli.options import say
from mcc.local.family import Family
from mcc.local.redis import ConfiguredRedis, RedisBinary
from mcc.redaction import FLOWER_FILE


async def stay(family: Family, as_json: bool) -> None:
    """Keep the family until a signal; a second one ends everything at once."""
    living = asyncio.create_task(_live(family, as_json))
    asked: list[int] = []

    def stop(number: int) -> None:
        asked.append(number)
        if len(asked) == 1:
            say("Stopping; once more ends everything at once.")
            living.cancel()
        else:
            family.kill()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, stop, number)
    try:
        await living
    except asyncio.CancelledError:
        if not asked:
            raise
        say("Stopped.")


async def _live(family: Family, as_json: bool) -> None:
    say("Starting …")
    async with family:
        print(json.dumps(_addresses(family)) if as_json else _greeting(family), flush=True)
        await asyncio.Event().wait()


def _addresses(family: Family) -> dict[str, object]:
    data_dir = family.settings.data_dir
    return {
        "url": family.url,
        "api_url": f"{family.url}/api/v1",
        "flower_url": family.flower_url,
        "pid": os.getpid(),
        "data_dir": str(data_dir),
        "token_file": None if family.settings.token else str(token_file(family.settings)),
        "family_file": str(family.settings.family_file),
        "logs": str(family.logs),
    }


def _greeting(family: Family) -> str:
    told = _addresses(family)
    match family.redis:
        case ConfiguredRedis():
            redis = "the configured one"
        case RedisBinary(path=path):
            redis = f"embedded, on a private socket ({path})"
        case _:
            redis = "none"
    flower = f"{family.flower_url}  (login in {family.settings.data_dir / FLOWER_FILE})" if family.flower_url else "off"
    token = told["token_file"] or "the configured one (MCC_TOKEN)"
    return "\n".join(
        (
            f"API     {told['api_url']}  (described in {family.url}/api/docs)",
            f"Flower  {flower}",
            f"Token   {token}",
            f"Data    {told['data_dir']}",
            f"Logs    {told['logs']}",
            f"Redis   {redis}",
            f"Drones  {family.staff.drones}",
            'Try: mcc run "Explain this repository"    Stop with Ctrl-C.',
        )
    )
