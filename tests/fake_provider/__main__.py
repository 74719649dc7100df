"""`python -m tests.fake_provider NAME`: serve one provider on this machine until Ctrl-C; `--list` names them."""

import argparse
import asyncio
from pathlib import Path

from tests.fake_provider.behaviours import BEHAVIOURS
from tests.fake_provider.play import conversation
from tests.fake_provider.server import KEY, FakeProvider, configuration, served


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fake_provider", description=__doc__)
    parser.add_argument("name", nargs="?", choices=sorted(BEHAVIOURS), metavar="NAME")
    parser.add_argument("--list", action="store_true", help="name the providers and say what each does")
    parser.add_argument("--port", type=int, default=0, help="the port; any free one when left out")
    parser.add_argument("--rounds", type=int, default=6, help="rounds with tools before the answer")
    parser.add_argument("--write", type=Path, help="write the lines for mcc.toml to this file")
    wanted = parser.parse_args()
    if wanted.list or wanted.name is None:
        print("\n".join(f"{one.name:20} {one.about}" for one in BEHAVIOURS.values()))
        return
    try:
        asyncio.run(_serve(wanted.name, wanted.port, wanted.rounds, wanted.write))
    except KeyboardInterrupt:
        print()


async def _serve(name: str, port: int, rounds: int, file: Path | None) -> None:
    behaviour = BEHAVIOURS[name]
    provider = FakeProvider(behaviour, conversation(rounds, behaviour.lines), lambda line: print(line, flush=True))
    async with served(provider, port) as address:
        lines = configuration(behaviour, address)
        _write(file, lines)
        print(f"# {behaviour.about}; into your mcc.toml:\n{lines}")
        named = f"MCC_CONFIG={file} " if file is not None else ""
        print(f'# then: {KEY}=fake {named}drone run "Look around" --model fake', flush=True)
        await asyncio.Event().wait()


def _write(file: Path | None, lines: str) -> None:
    if file is not None:
        file.write_text(lines)


if __name__ == "__main__":
    main()
