"""write_file, edit_file, move_file and delete_file, as a model calls them."""

import asyncio
import os
from pathlib import Path

import pytest

from drone.agent.turns.toolset import Output, Preview
from mcc.contracts.journal import Outcome, WorkspaceCheckpointed
from tests.drone.tools.writing_bench import WritingBench


@pytest.fixture
def bench(tmp_path: Path) -> WritingBench:
    return WritingBench(tmp_path / "shop", tmp_path / "data")


def refused(output: Output, *words: str) -> None:
    assert output.is_error, output.content
    for word in words:
        assert word in output.content, output.content


async def test_a_new_file_gets_its_directories_and_is_told_with_its_diff(bench: WritingBench) -> None:
    output = await bench.use("write_file", path="src/shop/cart.py", content="total = 0\n")

    assert bench.tree() == {"src/shop/cart.py": b"total = 0\n"}
    assert output.content == (
        "src/shop/cart.py: created, 1 line\n--- /dev/null\n+++ b/src/shop/cart.py\n@@ -0,0 +1 @@\n+total = 0"
    )
    assert not output.is_error and set(output.files) == {"src/shop/cart.py"}


async def test_a_file_that_is_replaced_keeps_its_mode(bench: WritingBench) -> None:
    script = bench.root / "run.sh"
    script.write_text("old\n")
    os.chmod(script, 0o750)
    number = script.stat().st_ino
    output = await bench.use("write_file", path="./run.sh", content="new\n")

    assert "run.sh: 1 line added, 1 removed" in output.content
    assert (script.read_text(), script.stat().st_mode & 0o7777) == ("new\n", 0o750)
    assert script.stat().st_ino != number, "what somebody reads of it stays whole"


async def test_the_first_call_of_an_order_is_checkpointed_and_told(bench: WritingBench) -> None:
    (bench.root / "kept").write_text("as it was")
    await bench.use("write_file", path="a", content="1")
    await bench.use("write_file", path="b", content="1")

    facts = [entry.data for entry in bench.journal.entries if isinstance(entry.data, WorkspaceCheckpointed)]
    assert [(one.call_id, one.files, one.skipped) for one in facts] == [("call-1", 1, 0)]


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"a\r\nb\r\nc\r\n", "b\n", "x\ny\n", b"a\r\nx\r\ny\r\nc\r\n"),
        (b"a\nb\r\nc\n", "b\nc", "B\nC", b"a\nB\r\nC\n"),
        (b"\xef\xbb\xbfone\ntwo\n", "one", "1", b"\xef\xbb\xbf1\ntwo\n"),
        ("\ufeffone\r\ntwo\r\n".encode("utf-16-le"), "one\ntwo", "1\n2", "\ufeff1\r\n2\r\n".encode("utf-16-le")),
        (b"caf\xe9 = 1\nb = 2", "b = 2", "b = 3", b"caf\xe9 = 1\nb = 3"),
        (b"no end", "end", "end\n", b"no end\n"),
        (b"a\rb\r\n", "b", "c", b"a\rc\r\n"),
    ],
)
async def test_an_edit_keeps_all_bytes_around_it(
    bench: WritingBench, before: bytes, old: str, new: str, after: bytes
) -> None:
    (bench.root / "file").write_bytes(before)
    output = await bench.use("edit_file", path="file", old=old, new=new)

    assert not output.is_error, output.content
    assert (bench.root / "file").read_bytes() == after


async def test_an_edit_is_refused_where_its_text_is_not_there_once(bench: WritingBench) -> None:
    (bench.root / "a.py").write_text("def f():\n    return 1\n\ndef g():\n    return 1\n")
    before = bench.tree()

    refused(await bench.use("edit_file", path="a.py", old="    return 1", new="x"), "stands 2 times", "lines 2, 5")
    refused(await bench.use("edit_file", path="a.py", old="", new="x"), "old is empty")
    refused(await bench.use("edit_file", path="a.py", old="return 1", new="return 1"), "the same")
    near = await bench.use("edit_file", path="a.py", old="def g():\n  return 2", new="x")
    refused(near, "does not occur in a.py", "at line 4", "4\tdef g():\n5\t    return 1")
    refused(await bench.use("edit_file", path="none", old="a", new="b"), "does not exist", "write_file")
    (bench.root / "data").write_bytes(b"\0\1\2 a")
    refused(await bench.use("edit_file", path="data", old="a", new="b"), "binary")
    assert bench.tree() == {**before, "data": b"\0\1\2 a"}


async def test_an_edit_may_replace_every_place(bench: WritingBench) -> None:
    (bench.root / "a").write_text("x x\nx\n")
    await bench.use("edit_file", path="a", old="x", new="yy", replace_all=True)
    assert bench.tree() == {"a": b"yy yy\nyy\n"}


async def test_a_moved_file_is_the_same_and_replaces_nothing(bench: WritingBench) -> None:
    (bench.root / "a").write_bytes(os.urandom(100))
    (bench.root / "b").write_text("b")
    os.chmod(bench.root / "a", 0o640)
    data = (bench.root / "a").read_bytes()

    refused(await bench.use("move_file", source="a", target="b"), "b exists already")
    output = await bench.use("move_file", source="a", target="deep/c")
    assert "deep/c: moved here from a" in output.content
    output = await bench.use("move_file", source="deep/c", target="deep/\u202ec\nd")
    assert "\u202e" not in output.content and output.content.endswith("rename to deep/\\u202ec\\nd")
    await bench.use("move_file", source="deep/\u202ec\nd", target="deep/c")
    assert bench.tree() == {"b": b"b", "deep/c": data}
    assert (bench.root / "deep/c").stat().st_mode & 0o777 == 0o640
    refused(await bench.use("move_file", source="gone", target="d"), "gone does not exist")


async def test_a_deleted_file_is_in_the_checkpoint(bench: WritingBench) -> None:
    (bench.root / "a").write_text("never lost\n")
    (bench.root / "link").symlink_to("a")
    output = await bench.use("delete_file", path="a")

    assert "a: deleted" in output.content and "-never lost" in output.content
    assert output.files == {"a": ""}
    await bench.use("delete_file", path="link")
    assert bench.tree() == {} and not (bench.root / "link").is_symlink()
    with bench.checkpoints.view("call-1") as kept:
        node = kept.node("a")
        assert node is not None and kept.content(node, 100) == b"never lost\n"


async def test_directories_links_and_pipes_are_not_written(bench: WritingBench) -> None:
    (bench.root / "dir").mkdir()
    (bench.root / "a").write_text("a")
    (bench.root / "link").symlink_to("a")
    os.mkfifo(bench.root / "pipe")
    for path, word in (("dir", "directory"), ("link", "symbolic link"), ("pipe", "named pipe"), (".", "itself")):
        refused(await bench.use("write_file", path=path, content="x"), word)
    refused(await bench.use("delete_file", path="dir"), "directory")
    assert bench.tree() == {"a": b"a", "link": b"a"}


async def test_a_preview_shows_the_diff_and_changes_nothing(bench: WritingBench) -> None:
    (bench.root / "a").write_text("one\n")
    said = await bench.preview("edit_file", path="a", old="one", new="two")
    assert said == Preview("diff", "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-one\n+two\n")
    assert bench.tree() == {"a": b"one\n"} and bench.journal.entries == []
    problem = await bench.preview("edit_file", path="a", old="three", new="two")
    assert isinstance(problem, Output) and problem.is_error


class TestCutOff:
    """A call whose drone died is run again by another one of the host."""

    async def test_before_it_did_anything_it_is_done(self, bench: WritingBench) -> None:
        (bench.root / "a").write_text("one\n")
        bench.interrupted("a")
        (bench.root / ".mcc-new-0123456789abcdef").write_text("half")
        output = await bench.rerun("edit_file", path="a", old="one", new="two")
        assert not output.is_error and bench.tree() == {"a": b"two\n"}

    async def test_after_it_was_done_it_is_told_and_not_done_again(self, bench: WritingBench) -> None:
        (bench.root / "a").write_text("one\n")
        first = await bench.use("edit_file", path="a", old="one", new="one one")
        written = (bench.root / "a").stat().st_mtime_ns
        second = await bench.rerun("edit_file", path="a", old="one", new="one one")
        assert first == second and (bench.root / "a").stat().st_mtime_ns == written

    async def test_half_done_it_is_finished(self, bench: WritingBench) -> None:
        (bench.root / "a").write_text("x")
        bench.interrupted("a", "b")
        os.link(bench.root / "a", bench.root / "b")
        output = await bench.rerun("move_file", source="a", target="b")
        assert not output.is_error and bench.tree() == {"b": b"x"}

    async def test_where_somebody_else_was_meanwhile_nobody_knows(self, bench: WritingBench) -> None:
        (bench.root / "a").write_text("one\n")
        bench.interrupted("a")
        (bench.root / "a").write_text("a person's\n")
        output = await bench.rerun("edit_file", path="a", old="one", new="two")
        assert output.outcome is Outcome.OUTCOME_UNKNOWN and bench.tree() == {"a": b"a person's\n"}


async def test_calls_of_several_agents_do_not_lose_each_others_changes(bench: WritingBench) -> None:
    (bench.root / "a").write_text("".join(f"line {number} old\n" for number in range(20)))
    calls = [bench.use("edit_file", path="a", old=f"line {n} old", new=f"line {n} new") for n in range(20)]
    outputs = await asyncio.gather(*calls)

    assert not any(output.is_error for output in outputs)
    assert bench.tree()["a"].decode().count("new") == 20
