"""Runs commands in this process. Their Click trees are cached: typer builds all of them again for each call."""

import sys
from collections.abc import Mapping, Sequence
from functools import cache

import typer
from typer import testing
from typer._click import Command
from typer.main import get_command
from typer.testing import Result


@cache
def _command(app: typer.Typer) -> Command:
    return get_command(app)


class CliRunner(testing.CliRunner):
    """As typer's, but raises a command's exceptions unless `catch_exceptions`."""

    def invoke(  # type: ignore[override]
        self,
        app: typer.Typer,
        args: Sequence[str] = (),
        input: str | None = None,
        env: Mapping[str, str | None] | None = None,
        catch_exceptions: bool = True,
    ) -> Result:
        command, code, value = _command(app), 0, None
        raised: BaseException | None = None
        with self.isolation(input=input, env=env) as (out, err, both):
            try:
                value = command.main(args=list(args), prog_name=self.get_default_prog_name(command))
            except SystemExit as end:
                raised = end if end.code else None
                code = _code_of(end)
            except Exception as error:
                if not catch_exceptions:
                    raise
                raised, code = error, 1
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
            said = out.getvalue(), err.getvalue(), both.getvalue()
        return Result(self, *said, return_value=value, exit_code=code, exception=raised)


def _code_of(end: SystemExit) -> int:
    """The exit code of a SystemExit. A message in place of a code is printed, with code 1, as Python does."""
    if end.code is None or isinstance(end.code, int):
        return end.code or 0
    print(end.code)
    return 1
