// What was said and done in an order: rows in the order of its journal, agents nested in the row that started them.
import {
  address, classes, clock, count, html, money, post, short, since, some, span, tokensOf, useAct, useEffect,
  useLayoutEffect, useMemo, useRef, useState,
} from "./base.js";
import { barred } from "./rights.js";
import { Who } from "./who.js";
import { Diff, Exact, Glyph, Icon, Nodes, hasWords, recordGlyph, visible, wordsOf } from "./look.js";
import { useNow } from "./live.js";
import { Ask, Refused } from "./frame.js";
import { useNear, useRows, useStreamed } from "./rows.js";

// One line of what a call is about: the text that people look for, else all of it.
function about(given) {
  const texts = Object.entries(given ?? {}).filter(([, value]) => typeof value === "string");
  const found =
    typeof given === "string"
      ? given
      : (texts.find(([name]) => /^(path|command|pattern|query|url|title)$/.test(name)) ?? texts[0])?.[1];
  return (found ?? JSON.stringify(given) ?? "").replace(/\s+/g, " ").slice(0, 300);
}

const RowTook = ({ row }) => {
  const now = useNow(row.ms !== null);
  return span(row.ms === null ? since(row.at, now) : row.ms / 1000);
};

function toolGlyph({ ms, data }) {
  if (ms === null) return "running";
  return (
    { outcome_unknown: "unknown", cancelled: "cancelled" }[data.outcome] ??
    (data.is_error || data.exit_code ? "error" : "ok")
  );
}

function Fold({ class: name, line, children }) {
  const [open, setOpen] = useState(false);
  return html`<details class=${name} open=${open} onToggle=${(event) => setOpen(event.target.open)}>
    <summary>${line}</summary>
    ${open && children()}
  </details>`;
}

function Tool({ row, orderId }) {
  const { data } = row;
  const content = (id) => address(`api/v1/orders/${orderId}/artifacts/${id}/content`);
  const given = data.arguments;
  const change = given?.patch ?? given?.diff;
  const calls = data.calls?.map((call) => about(call.arguments));
  const said = given?.command ?? given;
  const text = calls ? calls.join("\n") : typeof said === "string" ? said : said && JSON.stringify(said, null, 2);
  return html`<${Fold}
    class="tool"
    line=${
      html`
        <${Glyph} name=${toolGlyph(row)} />
        <b>${visible(data.name)}</b>
        ${calls && `×${data.n}`}
        <span class="cut grow">${visible(calls ? calls.join(", ") : about(given))}</span>
        ${data.exit_code ? html`<span class="bad-text">exit ${data.exit_code}</span>` : ""}
        <${RowTook} row=${row} />
      `
    }
  >
    ${() => html`<div class="shown">
      ${typeof change === "string" ? html`<${Diff} text=${change} />` : text && html`<${Exact} text=${text} />`}
      ${hasWords(row.text) && html`<${Nodes} of=${row.text} />`}
      ${data.images?.map((image) => html`<img
        src=${content(image.artifact)}
        alt="A picture that the tool answered"
      />`)}
      ${row.cut && html`<p class="q">
        Cut:${" "}
        ${data.artifact ? html`<a href=${content(data.artifact)} download>
          the whole text
        </a>` : (
          `all of it stands in the journal at #${data.finished_seq}`
        )}
      </p>`}
    </div>`}
  </${Fold}>`;
}

function Model({ row, agent, streamed }) {
  const { data } = row;
  const runs = row.ms === null;
  const thought = runs ? streamed.thought : data.thinking;
  if (!runs && !hasWords(row.text) && !hasWords(thought) && !data.error) return null;
  return html`
    <p class="who">
      <${Glyph} name=${runs ? "running" : "agent"} />
      <b>${agent}</b>
      ${data.model}
      ${data.first_token_ms > 0 && ` · first token ${span(data.first_token_ms / 1000)}`}
      ${data.tries > 1 && ` · ${data.tries} tries`}
      <span class="bad-text">${visible(data.error)}</span>
    </p>
    ${hasWords(thought) && html`<details class="quiet">
      <summary>${runs ? "thinks" : "thought"}</summary>
      ${runs ? html`<p class="plain">${visible(thought)}</p>` : html`<${Nodes} of=${thought} />`}
    </details>`}
    ${runs ? (
      streamed.said && html`<div class="prose plain writes" dir="auto">
        ${visible(streamed.said)}
      </div>`
    ) : html`<${Nodes} of=${row.text} />`}
    ${row.cut && html`<p class="q">Cut: all of it stands in the journal at #${data.reply_seq}.</p>`}
  `;
}

function AgentTook({ record, near }) {
  const now = useNow(!near || record.waiting || record.finished_at);
  return record.waiting ? html`<span class="wait-text">waits</span>` : (
    span(since(record.started_at, record.finished_at ? Date.parse(record.finished_at) : now))
  );
}

// Of an agent that nobody sees, nothing is drawn anew but that it has ended, and no rows are asked for.
function Agent({ id, shared }) {
  const record = shared.records.get(id);
  const box = useRef();
  const near = useNear(box);
  const seen = useRef();
  const runs = record && !record.finished_at;
  const [chosen, setChosen] = useState(null);
  const [asks, setAsks] = useState(false);
  const { error, act } = useAct();
  const leadsHere = shared.path.has(id);
  const open = chosen ?? (leadsHere || runs);
  seen.current ||= near || leadsHere;
  const control = (kind) => post(`orders/${shared.orderId}/${kind}`, { record_id: id });
  const word = record?.waiting === "paused" ? "resume" : "pause";
  const bar = barred("write", shared.order?.principal);
  const draw = () => record ? html`
    <button class="agent-row" aria-expanded=${!!open} onClick=${() => setChosen(!open)}>
      <${Icon} name=${open ? "down" : "open"} />
      <${Glyph} name=${recordGlyph(record)} />
      <span class="cut">
        <b>${record.agent}</b> ${visible(record.title)}
      </span>
      <span class="num fig">${some(record.steps, "step")}</span>
      <span class="num fig">${short(tokensOf(record.usage_total))}</span>
      <span class="num fig">${money(record.usage_total.cost_usd)}</span>
      <span class="num">
        <${AgentTook} ...${{ record, near }} />
      </span>
    </button>
    ${open && seen.current && html`<div class="inner-rows">
      ${runs && !shared.at && html`<p class="row">
        <button class="btn" ...${bar} onClick=${() => act(() => control(word))}>
          ${word === "pause" ? "Pause" : "Resume"} it
        </button>
        <button class="btn danger" ...${bar} onClick=${() => setAsks(true)}>
          Cancel it
        </button>
        <${Refused} error=${error} />
      </p>`}
      <${Rows} record=${id} ...${{ shared, near }} />
    </div>`}
    ${asks && html`<${Ask}
      title=${`Cancel ${record.agent}?`}
      word="Cancel it"
      onYes=${() => control("cancel")}
      onClose=${() => setAsks(false)}
    >
      <p class="two">It ends with all agents below it. The others go on, and its parent is told.</p>
    </${Ask}>`}
  ` : html`<p class="agent-row">
    <${Glyph} name="queued" />
    starts …
  </p>`;
  const shown = useMemo(draw, [near && shared, near, !record, open, leadsHere, asks, error]);
  return html`<div ref=${box}>${shown}</div>`;
}

const QUIET = /^(order\.(claimed|resumed)|workspace\.|agent\.(delivered|reused))/;

const NOTES = {
  "order.requeued": "Its drone was lost, another one goes on.",
  "order.handed_back": "Its drone shut down and handed it back.",
  "order.waiting": "Set aside:",
  "order.finished": "Ended:",
  "agent.finished": "Ended:",
};

function Note({ row: { data, text } }) {
  if (QUIET.test(data.name) || /succeeded|completed/.test(data.status)) return null;
  const bad = /failed|blocked|limit/.test(data.status);
  return html`<p class=${classes("row", bad ? "bad-text" : "two")}>
    <${Glyph} name=${bad ? "failed" : data.name === "order.requeued" ? "unknown" : "later"} />
    <span>
      ${NOTES[data.name]} ${data.reason ?? data.status} ${visible(wordsOf(text).slice(0, 500))}
    </span>
  </p>`;
}

const VERDICTS = { approve: "approved", deny: "denied" };

function Asked({ row: { kind, ms, data, text } }) {
  const open = ms === null;
  const said = data.decision
    ? [
        VERDICTS[data.decision] ?? data.decision,
        data.by && [" by ", html`<${Who} id=${data.by} />`],
        data.note && [": ", visible(data.note)],
      ]
    : visible(data.answers?.map((each) => each.answer ?? each.status).join("; "));
  return html`<p class="row">
    <${Glyph} name=${open ? kind : data.decision === "deny" ? "error" : "ok"} />
    <span class=${classes("grow", open && "wait-text")}>
      ${data.tool ? html`
        asks for <code>${visible(data.tool)}</code>
      ` : (
        visible(wordsOf(text))
      )}
      ${said && [" → ", said]}
    </span>
    ${open && html`<a class="btn" href=${address(`?item=${data.approval_id ?? data.question_id}`)}>
      ${data.tool ? "Decide" : "Answer"}
    </a>`}
  </p>`;
}

function body(row, { shared, root, agent, streamed }) {
  const { kind, data, text } = row;
  if (kind === "model") return Model({ row, agent, streamed });
  if (kind === "tool" || kind === "tools") return html`<${Tool} row=${row} orderId=${shared.orderId} />`;
  if (kind === "child")
    return html`
      <p class="tool row">
        <${Glyph} name=${toolGlyph(row)} />
        <b>${visible(data.name)}</b>
        ${some(data.records.length, "agent")}
        ${data.background?.length > 0 && ", in the background"}
      </p>
      <div class="agents">
        ${data.records.map((id) => html`<${Agent} key=${id} id=${id} shared=${shared} />`)}
      </div>
    `;
  if (kind === "gate")
    return html`<p class="row">
      <${Glyph} name=${data.ok ? "gate" : "refused"} />
      <span>
        ${data.ok ? (
          "Passed"
        ) : html`<b class="bad-text">Refused, attempt ${data.attempt ?? data.revision + 1}.</b>`}${" "}
        ${visible(wordsOf(text))}
      </span>
    </p>`;
  if (kind === "approval" || kind === "question") return html`<${Asked} row=${row} />`;
  if (kind === "compacted" || (kind === "prompt" && !root))
    return html`<details class="quiet">
      <summary>${kind === "prompt" ? "asked for" : "shortened here"}</summary>
      <${Nodes} of=${text} />
    </details>`;
  if (kind === "note") return Note({ row });
  const did =
    kind === "prompt"
      ? ""
      : data.tools_removed?.length
        ? `took away ${data.tools_removed.join(", ")}`
        : ({ redirect: "gave another task" }[data.mode] ?? data.control);
  return html`
    <p class="who">
      <${Glyph} name="steer" />
      <b><${Who} id=${data.by ?? shared.order?.principal ?? "operator"} /></b>
      ${did} ${clock(row.at)} ${data.reason}
    </p>
    <${Nodes} of=${text} />
  `;
}

// A row is drawn anew when it has changed, and one that runs or holds agents when these have.
function TalkRow({ row, aimed, ...about }) {
  const { agent, streamed, shared } = about;
  return useMemo(() => {
    const shown = body(row, about);
    return (
      shown && html`<div class=${classes("line", aimed && "aimed")} id=${`e${row.seq}`}>
        <a class="seq" href=${`#e${row.seq}`}>${row.seq}</a>
        <div>${shown}</div>
      </div>`
    );
  }, [row, aimed, agent, row.ms === null && streamed, row.kind === "child" && shared]);
}

// `root`: the master, among whose rows those of the order itself stand.
export function Rows({ record, shared, root, near = true }) {
  const { seq: around } = shared.aim?.record === record ? shared.aim : {};
  const { rows, earlier, later, error, index, onEarlier, onLater } = useRows(shared, record, root, around, near);
  const streamed = useStreamed(shared, record, near);
  const agent = shared.records.get(record)?.agent;
  const aimed = around && rows.findLast((row) => row.seq <= around)?.seq;
  useEffect(() => document.getElementById(`e${aimed}`)?.scrollIntoView({ block: "center" }), [aimed]);
  return html`
    <${Refused} error=${error} />
    ${earlier && html`<button class="btn" onClick=${onEarlier}>
      Earlier
    </button>`}
    ${rows.map((row) => html`<${TalkRow}
      key=${row.seq}
      aimed=${row.seq === aimed}
      ...${{ row, shared, root, agent, streamed }}
    />`)}
    ${later && html`<button class="btn" onClick=${onLater}>
      Later
    </button>`}
    ${index?.to < index?.of && html`<p class="q" role="status">
      Read ${count(index.to)} of ${count(index.of)} entries so far.
    </p>`}
  `;
}

// A scrolled box that stays at its end while it is there.
export function Following({ children }) {
  const box = useRef();
  const inner = useRef();
  const stuck = useRef(true);
  const held = useRef(false);
  const last = useRef(0);
  const [away, setAway] = useState(false);
  const down = () => {
    box.current.scrollTop = box.current.scrollHeight;
    stuck.current = true;
  };
  const look = () => {
    const { scrollHeight, scrollTop, clientHeight } = box.current;
    // What grows before its end is looked at leaves nobody behind: only who scrolls up leaves the end.
    const kept = stuck.current && !location.hash && scrollTop >= last.current;
    stuck.current = kept || scrollHeight - scrollTop - clientHeight < 40;
    last.current = scrollTop;
    setAway(!stuck.current);
  };
  useLayoutEffect(() => {
    // Not while a button is held: what is under the pointer would be gone when it is let go, and the click lost.
    const follow = () => held.current || (stuck.current && !location.hash ? down() : look());
    const seen = new ResizeObserver(follow);
    seen.observe(inner.current);
    const letGo = () => {
      held.current = false;
      // The click may have led away.
      setTimeout(() => box.current && follow());
    };
    addEventListener("pointerup", letGo);
    return () => {
      seen.disconnect();
      removeEventListener("pointerup", letGo);
    };
  }, []);
  return html`
    <div
      class="scroll"
      ref=${box}
      onScroll=${look}
      onPointerDown=${() => {
        held.current = true;
      }}
      tabindex="0"
      role="log"
      aria-live="off"
      aria-label="Conversation"
    >
      <div ref=${inner}>${children}</div>
    </div>
    ${away && html`<button class="btn to-end" id="to-end" onClick=${down}>
      <${Icon} name="down" />
      To the end
    </button>`}
  `;
}
