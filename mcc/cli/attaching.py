"""Files that `mcc run` and `mcc chat` give to orders: looked at when they are named, uploaded right before the order is
placed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcc.cli.command import USAGE, fail
from mcc.cli.order_request import OrderRequest

if TYPE_CHECKING:
    from mcc.client import MCC
    from mcc.contracts.order import WorkOrder


def checked_files(paths: Sequence[Path], option: str = "--attach") -> tuple[Path, ...]:
    """The files. Exits where one cannot be read or is too large, or where there are too many. `option`: how they were
    named."""
    from mcc.contracts.attachments import FILE_BYTES, MOST_ATTACHMENTS

    if len(paths) > MOST_ATTACHMENTS:
        fail(f"{option}: an order has at most {MOST_ATTACHMENTS} files, and these are {len(paths)}.", USAGE)
    for path in paths:
        try:
            with path.open("rb"):
                size = path.stat().st_size
        except OSError as error:
            fail(f"{option}: {path} cannot be read: {error.strerror}.", USAGE)
        if not 0 < size <= FILE_BYTES:
            fail(f"{option}: {path} has {size:,} bytes; a file has 1 to {FILE_BYTES:,}.", USAGE)
    return tuple(paths)


@dataclass(frozen=True, slots=True)
class RequestWithFiles(OrderRequest):
    """An order to place with these files."""

    files: tuple[Path, ...] = ()

    def submit(self, client: "MCC", order: Mapping[str, Any]) -> "WorkOrder":
        """Raises `ClientError`."""
        attachments = [_uploaded(client, path) for path in self.files]
        return OrderRequest.submit(self, client, {**order, "attachments": attachments} if attachments else order)


def _uploaded(client: "MCC", path: Path) -> str:
    """The id of a file. Exits where it is refused, saying which one that is; raises other `ClientError`s."""
    from mcc.client import Invalid

    try:
        return client.artifacts.upload(path).id
    except Invalid as refusal:
        fail(f"{path}: {refusal}", USAGE)
