// Glyphs, which say a state by their shape; and text of agents, which is only ever set as text.
import { address, build, h, html, useState } from "./base.js";

const SAID = {
  approval: "waits for a decision",
  outline: "waits for a decision",
  note: "waits for a decision",
  running: "works",
  later: "waits",
  failed: "went wrong",
  stuck: "makes no progress",
  budget: "reached its limit",
  gate: "passed its gate",
  refused: "refused by its gate",
  retry: "stale",
};
const shapes = address(`console/${build}/shapes.svg#`);
const shape = (name) => shapes + name;

export const Glyph = ({ name }) => html`<svg
  class=${`glyph ${name}`}
  width="14"
  height="14"
  role="img"
  aria-label=${SAID[name] ?? name}
>
  <use href=${shape(name)} />
</svg>`;
export const Icon = ({ name }) => html`<svg class="icon" width="16" height="16" aria-hidden="true">
  <use href=${shape(`i-${name}`)} />
</svg>`;
export const Mark = () => html`<svg class="mark" width="20" height="20" aria-hidden="true">
  <use href=${shape("mark")} />
</svg>`;

// The glyph of an order: what it waits for, before the fact that it waits.
export function orderGlyph({ status, reason, needs }) {
  if (needs?.approvals || needs?.questions) return needs.approvals ? "approval" : "question";
  if (status === "waiting") return ["approval", "question", "paused"].includes(reason) ? reason : "later";
  if (status === "failed") return /budget|limit/.test(reason) ? "budget" : "failed";
  return status === "succeeded" ? "done" : status;
}

export const recordGlyph = ({ status, waiting }) =>
  ["approval", "question", "paused"].includes(waiting)
    ? waiting
    : ({
        running: "running",
        waiting: "later",
        completed: "done",
        cancelled: "cancelled",
        limit_reached: "budget",
      }[status] ?? "failed");

const TAGS =
  "p br strong em del code pre blockquote ul ol li h3 h4 h5 h6 table thead tbody tr th td a hr span".split(
    " ",
  );
const isElement = (node) =>
  Array.isArray(node) && TAGS.includes(node[0]) && typeof node[1] === "object" && !Array.isArray(node[1]);

function attributes(tag, given) {
  const kept = {};
  if (tag === "a" && /^#e\d+$/.test(given.href)) kept.href = given.href;
  else if (tag === "a" && /^(https?:|mailto:)/i.test(given.href))
    Object.assign(kept, { href: given.href, rel: "noopener noreferrer nofollow", target: "_blank" });
  if (tag === "ol" && Number.isInteger(given.start)) kept.start = given.start;
  if (/^[A-Za-z][\w-]{0,20}$/.test(given.class ?? given.align))
    kept.class = given.class ?? `to-${given.align}`;
  if (tag === "pre") kept.tabIndex = 0;
  return kept;
}

// Nodes as the service makes them: a text, or [tag, attributes, ...nodes]. What is not on the list is shown as text.
function nodes(value) {
  if (isElement(value) && value[0][0] === "h" && value[0] !== "hr")
    return h("p", { class: "heading" }, ...value.slice(2).map(nodes));
  if (isElement(value)) return h(value[0], attributes(value[0], value[1]), ...value.slice(2).map(nodes));
  return Array.isArray(value) ? value.map(nodes) : typeof value === "string" ? value : "";
}

export const Nodes = ({ of, class: name = "prose" }) => html`<div class=${name} dir="auto">
  ${nodes(of)}
</div>`;
export const wordsOf = (value) =>
  typeof value === "string"
    ? value
    : Array.isArray(value)
      ? value
          .slice(isElement(value) ? 2 : 0)
          .map(wordsOf)
          .join("")
      : "";
export const hasWords = (value) => wordsOf(value).trim() !== "";

// The same characters that the service counts as hidden: what Unicode calls other or a separator, and what is drawn
// as nothing.
const HIDDEN = /(?![ \n\t])[\p{C}\p{Z}\p{DI}\u2800\u{16fe4}\u{1d159}\u27e6]/gu;
const NAMES = {
  "\r": "CR",
  "\x1b": "ESC",
  "\xa0": "NBSP",
  "\u200b": "ZWSP",
  "\u202c": "PDF",
  "\u202e": "RLO",
  "\u2066": "LRI",
  "\u2067": "RLI",
  "\u2069": "PDI",
};
const named = (char) =>
  NAMES[char] ?? `U+${char.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;

export const hiddenIn = (text) => text.match(HIDDEN) ?? [];

// A text in which nothing is invisible: such a character is a mark with its name.
export function visible(text) {
  const parts = [];
  let from = 0;
  for (const { 0: char, index } of (text ?? "").matchAll(HIDDEN)) {
    parts.push(text.slice(from, index), html`<span class="ctl">${named(char)}</span>`);
    from = index + char.length;
  }
  return parts.length ? [...parts, text.slice(from)] : text;
}

const FOLD = 40;
export const isLong = (text) => text.split("\n").length > FOLD;

// A text of which every character counts, in the order in which it would run. Its middle is folded if it is long;
// `onWhole` tells when all of it is there.
export function Exact({ text, onWhole, open }) {
  const [whole, setWhole] = useState(open);
  const lines = text.split("\n");
  const fold = !whole && isLong(text);
  return html`<pre class="exact" dir="ltr" tabindex="0">
    <code>${visible(fold ? lines.slice(0, FOLD / 2).join("\n") : text)}</code>
    ${fold && html`
      <button
        type="button"
        class="fold"
        onClick=${() => {
          setWhole(true);
          onWhole?.();
        }}
      >
        ${lines.length - FOLD} more lines: show them
      </button>
      <code>${visible(lines.slice(-FOLD / 2).join("\n"))}</code>
    `}
  </pre>`;
}

const DIFF_KINDS = { "+": "add", "-": "del" };
export const diffLine = (sign, old, fresh, text) => html`<tr class=${DIFF_KINDS[sign] ?? ""}>
  <td>${old}</td>
  <td>${fresh}</td>
  <td>${sign}</td>
  <td dir="ltr">${text}</td>
</tr>`;

export function Diff({ text }) {
  let old = 0,
    fresh = 0;
  return html`<div class="diff" tabindex="0" role="region" aria-label="What would change">
    <table>
      <tbody>
        ${text.split("\n").map((line) => {
          const hunk = /^@@ -(\d+)(?:,\d+)? \+(\d+)/.exec(line);
          if (hunk) [old, fresh] = [+hunk[1], +hunk[2]];
          if (/^diff /.test(line)) old = fresh = 0;
          if (hunk || (!old && !fresh))
            return html`<tr class="hunk">
              <td colspan="4">${visible(line)}</td>
            </tr>`;
          return diffLine(
            line[0] ?? " ",
            line[0] === "+" ? "" : old++,
            line[0] === "-" ? "" : fresh++,
            visible(line.slice(1)),
          );
        })}
      </tbody>
    </table>
  </div>`;
}
