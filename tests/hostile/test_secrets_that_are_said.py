"""A secret that an agent says, in whatever tool, or that a program or server answers, is written down nowhere."""

from pathlib import Path

from drone.models.scripted import call
from tests.drone.sandbox.machine import found_sandbox
from tests.hostile.planted import KEY, laid_out, run, trap, whole


async def test_what_tools_are_given_and_answer_has_no_key_in_journal_asks_artifacts_and_checkpoints(
    tmp_path: Path,
) -> None:
    found_sandbox()
    head, tail = KEY[:12], KEY[12:]
    first = (
        call("write_file", path="kept.txt", content=f"key {KEY}\n"),
        call("run_shell", command=f"printf '%s%s' {head} {tail}; echo {KEY} | tee shown.txt"),
        call("run_shell", command=f"yes {KEY} | head -n 3000"),
        call("git_add", paths=["kept.txt"]),
        call("git_commit", message=f"Keep {KEY}"),
        call("desk__say", text=KEY),
        call("desk__send", text=KEY),
    )
    with trap() as trapped:
        place = laid_out(tmp_path, trapped.port)
        ran = await run(place, first, {"say": f"the key is {KEY}"}, "")
    assert [len(ran.called(one)) for one in ("write_file", "run_shell", "git_commit", "desk__send")] == [1, 2, 1, 1]
    assert not any(
        one.is_error for one in (*ran.called("write_file"), *ran.called("run_shell"), *ran.called("git_commit"))
    )
    assert KEY not in ran.everything
    kept = {name: content for name, (_, content) in {**whole(place.data), **whole(place.workspace)}.items()}
    assert [name for name, content in kept.items() if KEY.encode() in content] == []
    assert place.scene.git("log", "--format=%s", "-1").strip() == "Keep [redacted]"
