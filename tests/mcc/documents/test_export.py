"""Exports: complete in every format, with all content escaped as text."""

import json
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from mcc.contracts.documents import DocumentView, NodeExample, RuleError
from mcc.contracts.usage import Usage
from mcc.documents.briefs import brief_of
from mcc.documents.commands import RunFailure, Settle
from mcc.documents.export import MEDIA_TYPES, Format, RunSpending, exported
from mcc.documents.inert import lines_in_markdown, visible
from mcc.documents.node import FieldConflict
from mcc.documents.views import Envelope, document_view
from tests.mcc.documents.course import AGENT, NOON, Course, add, set_metadata, set_props
from tests.mcc.documents.stamps import stamp_today

KEPT = Envelope(NOON, NOON + timedelta(minutes=1))
FORMATS: tuple[Format, ...] = ("json", "md", "html", "jsonl")

HOSTILE = (
    "</td></table></style></title><script>alert(1)</script><img src=x onerror=alert(1)>",
    "\"'><svg onload=alert(1)>&lt;b&gt;",
    "# heading\n===\n---\n- item\n1. one\n+ two\n> quote\n    code\n\tcode\n```\nfence\n```\n"
    "| a | b |\n|---|---|\n| 1 | 2 |",
    "[link](javascript:alert(1)) ![image](http://x/y) <http://x> *b* _i_ ~~s~~ `c` $m$ \\",
    "\u202eevil\u202c \u2066left\u2069 \u200f \x00\x07\x1b[31m \ud800 \ufeff\u2028next\r\nline\rend",
    "<!-- --><![CDATA[ x ]]><?php ?>{{ x }} {% y %} ${z}",
    "\u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627",
)


def course(*texts: str) -> Course:
    """A document of these texts only, with a failure, a broken rule, a held field and a reference."""
    made = Course(topic=texts[0])
    made.do(set_props("/", title=texts[0]), add("lesson", metadata={"focus": texts[0]}))
    made.do(*(add("activity", "/lesson-1", values={"text": text}) for text in texts))
    made.do(set_props("/lesson-1", minutes=42, source=texts[-1]), author=AGENT)
    error = RuleError(node="/lesson-1", field="props.minutes", rule="props.minutes.rules[0]", message=texts[-1])
    failure = RunFailure(reason="gate_failed", message=texts[0], errors=(error,))
    settle = Settle(node="/lesson-1", role="node", asked="", inputs={}, failure=failure, summary=texts[-1])
    made.do(settle, author=AGENT)
    return made


def written(made: Course, format: Format, spent: dict[str, RunSpending] | None = None) -> str:
    return b"".join(exported(made.blueprint, made.state, KEPT, format, spent)).decode("utf-8")


class Elements(HTMLParser):
    """The elements of a page, their attributes, and the text in it."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.attributes: Counter[str] = Counter()
        self.links: list[str] = []
        self.text: list[str] = []
        self.open: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes.update(name for name, _ in attrs)
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]
        if tag not in ("meta", "br", "link"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")

    def unknown_decl(self, data: str) -> None:
        raise AssertionError(f"a declaration: {data}")


def test_json_is_the_document_as_it_is_shown() -> None:
    made = course("Light", "Leaves")
    shown = document_view(made.blueprint, made.state, KEPT)
    assert DocumentView.model_validate(json.loads(written(made, "json"))) == shown


@pytest.mark.parametrize("format", FORMATS)
def test_every_format_has_all_texts_of_the_document(format: Format) -> None:
    found = written(course("Light and leaves", "What is in a leaf?", "Why it is green"), format)
    for text in ("Light and leaves", "What is in a leaf?", "Why it is green"):
        assert text in found
    assert format in MEDIA_TYPES


def test_a_line_of_the_data_set_has_question_values_verdicts_and_what_it_took() -> None:
    made = course("Light")
    lesson = made.node("/lesson-1")
    stamp = replace(stamp_today(made.blueprint, made.state, lesson, "node"), record_id="record")
    made.state = made.state.with_nodes(made.state.version, {lesson.id: replace(lesson, stamps={"node": stamp})})
    usage = Usage(input_tokens=10, output_tokens=5)
    lines = [json.loads(line) for line in written(made, "jsonl", {"record": RunSpending("m/1", usage)}).splitlines()]
    assert [line["path"] for line in lines] == ["/", "/lesson-1", "/lesson-1/activity-1"]
    assert list(lines[0]) == [
        *("document_id", "version", "path", "component", "system", "task", "metadata", "props", "verdicts"),
        *("provenance", "model", "usage"),
    ]
    brief = brief_of(made.blueprint, made.state, "/lesson-1", "node")
    assert (lines[1]["system"], lines[1]["task"]) == (brief.system, brief.task)
    assert (lines[1]["model"], lines[1]["usage"]["input_tokens"]) == ("m/1", 10)
    assert (lines[0]["model"], lines[0]["usage"]) == (None, None)
    assert all(NodeExample.model_validate(line) for line in lines)


def test_each_node_is_one_line_whatever_it_holds() -> None:
    made = course(*HOSTILE)
    assert len(written(made, "jsonl").split("\n")) == len(made.state.nodes) + 1


def test_a_page_loads_nothing_runs_nothing_and_leads_nowhere_else() -> None:
    page = written(course(*HOSTILE), "html")
    found = Elements(page)
    calm = Elements(written(course(*("Light" for _ in HOSTILE)), "html"))
    assert found.open == []
    assert not {"script", "img", "svg", "iframe", "link", "object", "base", "form"} & found.tags.keys()
    assert set(found.attributes) == set(calm.attributes)
    assert not [name for name in found.attributes if name.startswith("on")]
    assert all(link.startswith("#n") for link in found.links)
    assert "default-src 'none'" in page and page.count("<style>") == 1
    assert found.tags["section"] == calm.tags["section"] == len(HOSTILE) + 2


def test_a_page_shows_values_verdicts_provenance_failures_and_conflicts() -> None:
    made = course("Light")
    made.do({"command": "accept", "node": "/lesson-1"})
    page = " ".join("".join(Elements(written(made, "html")).text).split())
    for said in (
        "props.minutes.rules[0]",
        "Use steps of five.",
        "does not hold",
        "by ann since version",
        "order order",
        "The last run failed (gate_failed)" if made.node("/lesson-1").failure else "rules hold",
        "/ metadata.grade",
        "course 2",
    ):
        assert said in page, said


@given(st.sampled_from(HOSTILE), st.sampled_from(HOSTILE))
@settings(max_examples=20, deadline=None)
def test_no_text_acts_as_markdown(one: str, other: str) -> None:
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    found = [token.type for token in parser.parse(written(course(one, other), "md"))]
    plain = course("x" * len(one), "x" * len(other))
    calm = [token.type for token in parser.parse(written(plain, "md"))]
    # A text of several lines is a quotation, and nothing else is different.
    allowed = {"blockquote_open", "blockquote_close", "paragraph_open", "paragraph_close", "inline"}
    assert set(found) <= set(calm) | allowed
    assert Counter(found)["heading_open"] == Counter(calm)["heading_open"]
    assert Counter(found)["list_item_open"] == Counter(calm)["list_item_open"]
    inline = {part.type for token in parser.parse(written(course(one, other), "md")) for part in token.children or ()}
    assert inline <= {
        "text",
        "strong_open",
        "strong_close",
        "em_open",
        "em_close",
        "softbreak",
        "hardbreak",
        "text_special",
    }


@given(st.text(alphabet=st.characters(codec=None), max_size=60))
@settings(max_examples=300, deadline=None)
def test_any_text_comes_back_out_of_markdown_as_it_was(text: str) -> None:
    shown = "\n".join(lines_in_markdown(text))
    tokens = MarkdownIt("commonmark").parse(shown)
    read = "".join(
        "\n" if part.type in ("softbreak", "hardbreak") else part.content
        for token in tokens
        for part in token.children or ()
    )
    assert "".join(read.split()) == "".join(visible(text).split())


def test_what_is_not_seen_is_shown() -> None:
    assert visible("a\u202eb\x00\r\nc\ud800\td") == "a⟦U+202E⟧b⟦U+0000⟧\nc⟦U+D800⟧\td"
    assert visible("\u200b\U000e0041\u034f") == "⟦U+200B⟧⟦U+E0041⟧⟦U+034F⟧"
    assert visible("Oui\u202f! 👩\u200d💻 ❤\ufe0f") == "Oui\u202f! 👩\u200d💻 ❤\ufe0f", "typography stays"


@pytest.mark.parametrize("format", FORMATS)
def test_a_text_of_a_megabyte_is_whole_in_every_format(format: Format) -> None:
    made = Course()
    text = "leaf " * 40_000
    made.do(set_metadata("/", topic=text), add("lesson"), add("activity", "/lesson-1", values={"text": text}))
    found = written(made, format)
    assert found.count(text.strip()) >= 2
    assert len(found) < 3_000_000


def test_facts_are_items_of_a_list_in_markdown_and_prose_is_a_paragraph() -> None:
    prose = "Light makes leaves green, and a leaf that is kept from it turns yellow within a week or two."
    page = written(course("Light", prose), "md")
    assert "\n- **topic**: Light\n" in page and f"\n\n**text**: {prose}\n\n" in page


def test_a_conflict_is_shown_with_what_it_is_about() -> None:
    made = course("Light")
    lesson = made.node("/lesson-1")
    conflicts = {"metadata.focus": stale_conflict()}
    made.state = made.state.with_nodes(made.state.version, {lesson.id: replace(lesson, conflicts=conflicts)})
    for format in ("md", "html"):
        assert "metadata.focus is held" in written(made, format)


def stale_conflict() -> FieldConflict:
    return FieldConflict(5, ("/ metadata.grade, 7 → 8 at version 5",))
