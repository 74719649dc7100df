"""Delivery of an order's work to its git address: what is wished, what became of it, and the journal's facts."""

from collections.abc import Iterable
from typing import Annotated, ClassVar, Literal, TypeAlias

from pydantic import AfterValidator, Field, StringConstraints, model_validator
from pydantic_core import PydanticCustomError

from mcc.contracts.fact import NotedFact
from mcc.contracts.shape import Closed, Text

DELIVER = "deliver"
"""The tool and group of the permission for it, and the agent of its record."""

LATER = "delivery_waits"
"""The name of the journal step that says why a delivery is tried again later."""

TITLE_CHARACTERS = 200


def _branch_name(name: str) -> str:
    parts = name.split("/")
    if ".." in name or name.endswith(".") or any(not part or part.endswith(".lock") for part in parts):
        raise ValueError("cannot be the name of a branch")
    return name


BranchName = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_./-]{0,199}$"), AfterValidator(_branch_name)
]

DeliveryStep: TypeAlias = Literal["commit", "push", "request"]


class Deliver(Closed):
    """What becomes of an order's work on a git address once its gate has accepted the result: its branch is pushed,
    and with `pull_request` a request to merge it is opened or updated at the forge.

    `base`: the branch that it is to be merged into; None = the order's `ref` where that is a branch, else the default
    branch. `branch`: None = the session's own. `title`: of the request and of the commit of what nobody has committed;
    None = the first line of the prompt. `draft`: None = as the forge's table says. `close`: the number of the issue
    that ends with the merge.
    """

    push: bool = True
    pull_request: bool = False
    base: BranchName | None = None
    branch: BranchName | None = None
    title: Annotated[str, StringConstraints(min_length=1, max_length=TITLE_CHARACTERS)] | None = None
    draft: bool | None = None
    close: Annotated[int, Field(ge=1, le=10**12, strict=True)] | None = None

    @model_validator(mode="after")
    def _pushes(self) -> "Deliver":
        if not self.push:
            raise PydanticCustomError("nothing_pushed", "A delivery pushes: leave deliver out where nothing is pushed")
        return self

    @property
    def in_words(self) -> Text:
        """What is wished."""
        parts = [f"pushes {self.branch or 'the branch of its session'}"]
        if self.pull_request:
            draft = {None: "", True: ", as a draft", False: ", ready for review"}[self.draft]
            parts.append(f"opens or updates a request to merge it{f' into {self.base}' if self.base else ''}{draft}")
        elif self.base:
            parts.append(f"to be merged into {self.base}")
        parts += [f"entitled {self.title!r}"] if self.title else []
        parts += [f"which closes #{self.close}"] if self.close else []
        return ", ".join(parts)


class DeliveryRequest(Closed):
    """A pull or merge request. `created`: this delivery has opened it."""

    number: int
    url: Text
    state: Literal["open", "closed", "merged"]
    created: bool = False


class GitDelivery(Closed):
    """What became of a delivery. `commit` None: nothing was pushed, and `why` says why; `why` also says what failed."""

    forge: str = ""
    project: Text = ""
    branch: Text = ""
    base: Text = ""
    commit: str | None = None
    request: DeliveryRequest | None = None
    why: Text | None = None

    @property
    def in_words(self) -> Text:
        """What was delivered, or why nothing was."""
        if self.commit is None:
            return self.why or ""
        pushed = f"{self.commit[:10]} is on {self.branch} of {self.project}"
        told = f"{pushed}: {self.request.url}" if self.request else pushed
        return f"{told}; {self.why}" if self.why else told


class DeliveryStarted(NotedFact):
    """A step of the delivery begins, or is begun again by the next drone: each can be repeated."""

    kind: ClassVar[str] = "delivery.started"
    step: DeliveryStep
    forge: str
    project: Text
    branch: Text
    base: Text
    commit: str | None = None

    @property
    def in_words(self) -> Text:
        match self.step:
            case "commit":
                return "commits what is not committed"
            case "push":
                return f"pushes {(self.commit or '')[:10]} to {self.branch} of {self.project}"
        return f"opens or updates the request of {self.branch} to {self.base}, {self.project}"


class DeliveryFinished(NotedFact):
    kind: ClassVar[str] = "delivery.finished"
    step: DeliveryStep
    ok: bool
    commit: str | None = None
    request: DeliveryRequest | None = None
    why: Text | None = None

    @property
    def in_words(self) -> Text:
        if not self.ok:
            return f"not delivered: {self.why}"
        if self.request is not None:
            done = "opened" if self.request.created else "updated"
            return f"{done} request {self.request.number}: {self.request.url}"
        return f"{'committed' if self.step == 'commit' else 'pushed'} {(self.commit or '')[:10]}"


def delivery_so_far(facts: Iterable[DeliveryStarted | DeliveryFinished | Text]) -> GitDelivery | None:
    """What has become of a delivery that goes on or waits, by the facts of its record in their order; a text is that of
    a step `LATER`. None where it has not begun."""
    delivery: GitDelivery | None = None
    for fact in facts:
        known = delivery or GitDelivery()
        match fact:
            case DeliveryStarted(forge=forge, project=project, branch=branch, base=base):
                # What another drone had pushed to a branch that is not the one of now is not what is delivered.
                pushed = known.commit if branch == known.branch else None
                delivery = GitDelivery(forge=forge, project=project, branch=branch, base=base, commit=pushed)
            case DeliveryFinished(step=step, ok=ok):
                done = {"commit": fact.commit or known.commit} if ok and step != "commit" else {}
                delivery = known.model_copy(update={**done, "request": fact.request, "why": fact.why})
            case _:
                delivery = known.model_copy(update={"why": fact})
    return delivery
