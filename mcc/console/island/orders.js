// All orders: what needs a person, what works, what is done.
import {
  Problem, address, asQuery, call, classes, clock, firstLine, get, go, html, money, post, shortId, since, some, span,
  useAct, useEffect, usePlace, useRef, useState,
} from "./base.js";
import { barred, isMine, myself } from "./rights.js";
import { Glyph, Icon, orderGlyph, visible } from "./look.js";
import { useJoined, useLive, useNow } from "./live.js";
import { Ask, Bar, Refused, Segments, useKeys } from "./frame.js";
import { Who, principalsOf } from "./who.js";

const FILTERS = [
  "status",
  "agent",
  "model",
  "label",
  "drone",
  "who",
  "session_id",
  "since",
  "until",
  "fingerprint",
  "text",
];

const GROUPS = [
  ["needs_input", "Needs input"],
  ["working", "Working"],
  ["done", "Done"],
];

const PAGE = 50;

const MOST = 200;

// Why it stands where it stands: the reason, not the state.
function why({ status, reason, detail, waits_for: waits, changes, needs }) {
  if (needs?.approvals || needs?.questions)
    return [
      "wait-text",
      [
        needs.approvals && some(needs.approvals, "approval"),
        needs.questions && some(needs.questions, "question"),
      ]
        .filter(Boolean)
        .join(", "),
    ];
  if (status === "failed") return ["bad-text", `${reason}${detail ? ` · ${firstLine(detail)}` : ""}`];
  if (status === "succeeded") return ["", changes?.files.length ? some(changes.files.length, "file") : ""];
  return [/approval|question/.test(reason) ? "wait-text" : "", waits?.message ?? detail ?? reason ?? ""];
}

function Took({ order }) {
  const now = useNow(order.finished_at);
  return order.finished_at && order.started_at
    ? span(since(order.started_at, Date.parse(order.finished_at)))
    : span(since(order.started_at ?? order.created_at, now));
}

// Pages of one group, as many as somebody asked for. A page may be empty and yet not be the last.
function useGroup(filters) {
  const key = asQuery(filters);
  const [state, setState] = useState({ items: [] });
  const latest = useRef();
  latest.current = key;
  const read = async (pages) => {
    const next = { key, items: [], pages };
    try {
      do {
        const page = await get(`orders${asQuery({ limit: PAGE, cursor: next.cursor }, key)}`);
        next.items.push(...page.items);
        next.cursor = page.next_cursor;
        next.searched = page.searched_to;
      } while (next.cursor && (pages -= 1) > 0 && next.items.length < MOST);
    } catch (error) {
      next.error = error;
    }
    if (latest.current === key) setState(next);
  };
  useEffect(() => {
    read(1);
  }, [key]);
  return { ...state, reload: () => read(state.pages ?? 1), more: () => read((state.pages ?? 1) + 1) };
}

function Row({ order, cursor, picked, onPick }) {
  const [tone, reason] = why(order);
  return html`<div class=${classes("order", cursor && "cursor", picked && "picked")} id=${order.id} role="row">
    <span role="cell" class="pickbox">
      <input
        type="checkbox"
        aria-label=${`Select ${shortId(order.id)}`}
        checked=${picked}
        onClick=${onPick}
      />
    </span>
    <span role="cell">
      <${Glyph} name=${orderGlyph(order)} />
    </span>
    <span role="cell" class="id">
      ${shortId(order.id)}
    </span>
    <span role="cell" class="cut">
      <a class="main" href=${address(`orders/${order.id}`)}>
        <span class="cut">${visible(firstLine(order.title ?? order.prompt))}</span>
        ${order.principal && !isMine(order.principal) && html`<span class="chip">
          <${Who} id=${order.principal} />
        </span>`}
        ${order.labels.slice(0, 2).map((label) => html`<span class="chip wide">${visible(label)}</span>`)}
        <span class=${classes("why cut", tone)}>${visible(reason)}</span>
      </a>
    </span>
    <span role="cell" class="mid">
      ${order.agent}
    </span>
    <span role="cell" class="wide">
      ${order.model ?? "–"}
    </span>
    <span role="cell" class="wide">
      ${order.drone ?? "–"}
    </span>
    <span role="cell" class="num mid">
      ${money(order.usage ? order.usage.cost_usd : order.cost_usd)}
    </span>
    <span role="cell" class="num">
      <${Took} order=${order} />
    </span>
  </div>`;
}

function AddFilter({ query, onClose }) {
  const [name, setName] = useState("status");
  const isTime = /since|until/.test(name);
  const add = (value) => {
    if (!value) return;
    const added = name === "who" ? principalsOf(value) : [value];
    const values = isTime ? new Date(value).toISOString() : [...query.getAll(name), ...added];
    go(`orders${asQuery({ [name]: values }, query)}`);
  };
  return html`<${Ask}
    title="Filter"
    word="Add"
    field="is"
    type=${isTime ? "datetime-local" : "text"}
    onYes=${add}
    onClose=${onClose}
  >
    <label>
      <span class="label">Field</span>
      <select value=${name} onChange=${(event) => setName(event.target.value)}>
        ${FILTERS.slice(0, -1).map((each) => html`<option>${each}</option>`)}
      </select>
    </label>
  </${Ask}>`;
}

export const How = ({ by }) => html`<${Segments}
  label="How they are listed"
  of=${[
    [null, "List"],
    ["failure", "By failure"],
  ]}
  value=${by}
  onPick=${(next) => go(`orders${asQuery({ by: next })}`)}
/>`;

export function Orders({ views, onViews }) {
  const { query } = usePlace();
  const filters = Object.fromEntries(
    FILTERS.map((name) => [name, query.getAll(name)]).filter(([, values]) => values.length),
  );
  const lists = GROUPS.map(([group]) => useGroup({ ...filters, group, view: group === "needs_input" && "summary" }));
  const reload = useJoined(() => lists.forEach((list) => list.reload()), 1_500);
  useLive((event) => /^(order\.status|inbox|snapshot|poll)$/.test(event.name) && reload());
  const [picked, setPicked] = useState(new Set());
  const [spot, setSpot] = useState(-1);
  const [dialog, setDialog] = useState(null);
  const [told, setTold] = useState("");
  const [shared, setShared] = useState(false);
  const [text, setText] = useState(query.get("text") ?? "");
  const { busy, error, act } = useAct();
  useEffect(() => {
    const timer = setTimeout(
      () => text !== (query.get("text") ?? "") && go(`orders${asQuery({ text }, query)}`, true),
      300,
    );
    return () => clearTimeout(timer);
  }, [text]);
  const rows = lists.flatMap((list) => list.items);
  const cursor = rows[spot];
  const move = (step) => {
    const next = Math.max(0, Math.min(rows.length - 1, spot + step));
    setSpot(next);
    document.getElementById(rows[next]?.id)?.scrollIntoView({ block: "nearest" });
  };
  const anchor = useRef(0);
  // `isRange`: with all between it and what was picked before.
  const pick = (id, isRange) => {
    const next = new Set(picked);
    const here = rows.findIndex((row) => row.id === id);
    if (isRange)
      rows.slice(Math.min(here, anchor.current), Math.max(here, anchor.current) + 1).forEach((row) => next.add(row.id));
    else if (!next.delete(id)) next.add(id);
    anchor.current = here;
    setPicked(next);
  };
  const bulk = async (action) => {
    const { items } = await post("orders:bulk", { action, ids: [...picked] });
    const refused = items.filter((item) => item.problem);
    setTold(
      some(items.length - refused.length, "order") +
        (action === "retry" ? " placed again." : " told to end.") +
        (refused.length ? ` Refused: ${some(refused.length, "order")}. ${refused[0].problem}` : ""),
    );
    setPicked(new Set());
    reload();
  };
  const close = () => setDialog(null);
  const open = () => cursor && go(`orders/${cursor.id}`);
  useKeys({
    j: () => move(1),
    k: () => move(-1),
    Enter: open,
    o: open,
    x: () => cursor && pick(cursor.id),
    "Shift+x": () => cursor && pick(cursor.id, true),
    f: () => setDialog("filter"),
    Escape: () => setPicked(new Set()),
  });
  const failed = lists.find((list) => list.error)?.error ?? error;
  return html`
    <${Bar} title="Orders">
      <${How} by=${null} />
      ${Object.keys(filters).length > 0 &&
      !views?.some((view) => asQuery(view.query) === asQuery(filters)) && html`<button
        class="btn wide"
        onClick=${() => setDialog("view")}
      >
        Save view
      </button>`}
      <a class="btn ink" href=${address("orders/new")}>
        <${Icon} name="plus" />
        New order<kbd>C</kbd>
      </a>
    </${Bar}>
    <main class="holds">
      <div class="filters">
        <input
          id="words"
          class="field"
          type="search"
          placeholder="Prompt, answer, id or label"
          aria-label="Prompt, answer, id or label"
          value=${text}
          onInput=${(event) => setText(event.target.value)}
        />
        <${Segments}
          label="Whose"
          of=${[[null, "All"], [myself(), "Mine"]]}
          value=${query.get("who")}
          onPick=${(who) => go(`orders${asQuery({ who }, query)}`)}
        />
        ${Object.entries(filters).map(
          ([name, values]) =>
            name !== "text" && html`<span class="token" key=${name}>
              <span>${name}</span>
              <b>${name === "who" ? values.map((id) => html`<${Who} id=${id} /> `) : visible(values.join(" or "))}</b>
              <button
                aria-label=${`Drop the filter ${name}`}
                onClick=${() => go(`orders${asQuery({ [name]: null }, query)}`)}
              >
                ×
              </button>
            </span>`,
        )}
        <button class="btn" onClick=${() => setDialog("filter")}>
          <${Icon} name="plus" />
          Filter<kbd>F</kbd>
        </button>
      </div>
      <${Refused} error=${failed} />
      ${told && html`<p class="pad" role="status">
        ${told}
      </p>`}
      <div class="scroll" tabindex="0" role="table" aria-label="Orders">
        <div class="order heads" role="row">
          ${[
            ["", "selected"],
            ["", "state"],
            ["", "id"],
            ["", "order, and what it waits for"],
            ["mid", "agent"],
            ["wide", "model"],
            ["wide", "drone"],
            ["num mid", "spent"],
            ["num", "time"],
          ].map(([name, word], index) => html`<span role="columnheader" class=${name}>
            ${index < 2 ? html`<span class="sr">${word}</span>` : word}
          </span>`)}
        </div>
        ${GROUPS.map(([group, title], index) => {
          const { items, cursor: next, more, searched } = lists[index];
          return (
            (items.length > 0 || next) && html`<div role="rowgroup" key=${group} aria-label=${title}>
              <div class="group" role="row">
                <span role="rowheader">
                  ${title}${" "}
                  <span class="q">
                    ${items.length}
                    ${next ? "+" : ""}
                  </span>
                </span>
              </div>
              ${items.map((order) => html`<${Row}
                key=${order.id}
                order=${order}
                cursor=${order === cursor}
                picked=${picked.has(order.id)}
                onPick=${(event) => pick(order.id, event.shiftKey)}
              />`)}
              ${next && html`<div class="pad" role="row">
                <span role="cell">
                  ${items.length < MOST ? html`<button class="btn" onClick=${more}>
                    Go on
                  </button>` : (
                    `The ${MOST} newest are shown: filter to see others.`
                  )}${" "}
                  <span class="q">${searched && `looked back to ${clock(searched)}`}</span>
                </span>
              </div>`}
            </div>`
          );
        })}
        ${lists.every((list) => list.key && !list.items.length && !list.cursor) && html`<div class="empty" role="row">
          <span role="cell">
            ${Object.keys(filters).length ? html`
              No order fits. <a href=${address("orders")}>Drop all filters</a>
            ` : html`
              No orders yet. <a href=${address("orders/new")}>Place the first one</a>.
            `}
          </span>
        </div>`}
      </div>
      ${picked.size > 0 && html`<div class="bulk" role="toolbar" aria-label="Selected orders">
        <b>${picked.size} selected</b>
        ${picked.size === 2 && html`<a class="btn" href=${address(`orders/${[...picked].join("/vs/")}`)}>Compare</a>`}
        <button class="btn" disabled=${busy} ...${barred("write")} onClick=${() => act(() => bulk("retry"))}>
          Retry
        </button>
        <button class="btn danger" ...${barred("write")} onClick=${() => setDialog("cancel")}>
          Cancel
        </button>
        <kbd>Esc</kbd>
      </div>`}
    </main>
    ${dialog === "filter" && html`<${AddFilter} query=${query} onClose=${close} />`}
    ${dialog === "view" && html`<${Ask}
      title="Save view"
      word="Save"
      field="Name"
      onYes=${async (name) => {
        // It is a part of an address, where these would lead elsewhere.
        if (/^\.\.?$|\//.test(name)) throw new Problem(0, { detail: "A name is not . or .. and has no / in it." });
        await call("PUT", `views/${encodeURIComponent(name)}`, { query: filters, shared });
        onViews();
      }}
      onClose=${close}
    >
      <label class="choice">
        <input
          type="checkbox"
          checked=${shared}
          ...${barred("operate")}
          onChange=${(event) => setShared(event.target.checked)}
        />
        Everybody sees it
      </label>
    </${Ask}>`}
    ${dialog === "cancel" && html`<${Ask}
      title=${`Cancel ${some(picked.size, "order")}?`}
      word="Cancel them"
      onYes=${() => bulk("cancel")}
      onClose=${close}
    >
      <p class="two">What they have done so far stays.</p>
    </${Ask}>`}
  `;
}
