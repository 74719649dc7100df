// One order: what was said, who ran when, what it changed and cost; and what a person can tell it meanwhile.
import {
  address, asQuery, clock, count, firstLine, go, html, money, post, same, short, shortId, some, useAct, useEffect,
  useGet, useMemo, usePlace, useRef, useState,
} from "./base.js";
import { barred } from "./rights.js";
import { Glyph, Icon, orderGlyph, visible } from "./look.js";
import { useJoined, useLive, useWatched } from "./live.js";
import { Ask, Bar, Facts, Refused, useKeys } from "./frame.js";
import { Changes, Journal } from "./changes.js";
import { Delivery } from "./delivery.js";
import { Who } from "./who.js";
import { Fork, Say } from "./steering.js";
import { Following, Rows } from "./talk.js";
import { Scrubber, Timeline } from "./timeline.js";

const TABS = [
  ["", "Conversation"],
  ["timeline", "Timeline"],
  ["changes", "Changes"],
  ["journal", "Journal"],
  ["calls", "Asked with"],
];

const DONE = /succeeded|failed|cancelled/;

function Meter({ word, value, limit, warn = 0.7, shown, of }) {
  const share = Math.min(1, value / limit);
  return html`<div>
    <span class="q">${word}</span>
    <br />
    <b>${shown}</b> <span class="q">${of}</span>
    ${limit > 0 && html`<svg class="meter" viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true">
      <rect class="ground" width="100" height="4" />
      <rect
        class=${share >= 1 && warn < 1 ? "bad" : share >= warn ? "wait" : "live"}
        width=${100 * share}
        height="4"
      />
    </svg>`}
  </div>`;
}

export function Side({ order, records, of = "" }) {
  const { usage, limits, changes } = order;
  const warn = limits?.warn_share;
  const [root] = records;
  const facts = [
    ["Status", order.waits_for ? visible(order.waits_for.message) : (order.reason ?? order.status)],
    ["Placed", clock(order.created_at)],
    ["By", order.principal && html`<${Who} id=${order.principal} />
      ${order.door && ` (${[order.door, order.token].filter(Boolean).join(", ")})`}`],
    ["Agent", `${order.agent}${records.length > 1 ? `, ${some(records.length - 1, "subagent")}` : ""}`],
    ["Drone", order.drone && `${order.drone}, attempt ${order.attempt}`],
    ["Model", root?.model?.effective ?? order.model],
    ["Workspace", order.workspace && visible(order.workspace)],
    ["Session", html`<a href=${address(`sessions/${order.session_id}`)}>turn ${order.session_seq}</a>`],
    [
      "From",
      order.origin && html`<a href=${address(`orders/${order.origin.order_id}`)}>
        ${order.origin.kind} of ${shortId(order.origin.order_id)}
      </a>`,
    ],
  ];
  return html`<aside class="side" tabindex="0" aria-label=${`What it costs and changes ${of}`}>
    <${Facts} of=${facts} />
    <div class="meters">
      <${Meter}
        word="Money"
        value=${usage.cost_usd}
        limit=${limits?.cost_usd}
        warn=${warn}
        shown=${money(usage.cost_usd)}
        of=${limits?.cost_usd && `of ${limits.cost_usd}`}
      />
      <${Meter}
        word="Tokens out"
        value=${usage.output_tokens}
        limit=${limits?.output_tokens}
        warn=${warn}
        shown=${short(usage.output_tokens)}
        of=${limits && `of ${short(limits.output_tokens)}`}
      />
      <${Meter}
        word="Rounds"
        value=${root?.steps ?? 0}
        limit=${limits?.rounds}
        warn=${warn}
        shown=${root?.steps ?? 0}
        of=${limits && `of ${limits.rounds}`}
      />
      <${Meter}
        word="From cache"
        value=${usage.cached_input_tokens}
        limit=${usage.input_tokens}
        warn=${2}
        shown=${
          usage.input_tokens
            ? `${Math.round((100 * usage.cached_input_tokens) / usage.input_tokens)} %`
            : "–"
        }
        of=${`of ${short(usage.input_tokens)}`}
      />
    </div>
    <p class="pad two">
      ${changes?.files.length ? html`
        ${some(changes.files.length, "file")} changed
        ${changes.commits.length > 0 && `, ${some(changes.commits.length, "commit")}`}
      ` : DONE.test(order.status) ? (
        "It changed nothing."
      ) : (
        "What it changed stands here once it is over; each write shows what it does."
      )}
    </p>
    ${changes?.files.map((file) => html`<a
      class="file-head"
      key=${file.path}
      href=${address(`orders/${order.id}?tab=changes`)}
    >
      <span class="grow cut">${visible(file.path)}</span>
      <span class="good-text">+${file.added}</span>
      <span class="bad-text">−${file.removed}</span>
    </a>`)}
  </aside>`;
}

// Where a deep link leads: the record of the entry, and all records above it.
function useAim(id, hash, records) {
  const seq = Number(/^e(\d+)$/.exec(hash)?.[1] ?? 0);
  const { data } = useGet(seq ? `orders/${id}/journal?after=${seq - 1}&limit=1` : null);
  return useMemo(() => {
    const record = data?.items[0]?.record_id ?? [...records.keys()][0];
    const path = new Set();
    for (let above = data && records.get(record); above; above = records.get(above.parent_id)) {
      path.add(above.id);
    }
    return { aim: data && { seq, record }, path };
  }, [data, records]);
}

export function Order({ id }) {
  const { query, hash } = usePlace();
  const at = Number(query.get("at")) || null;
  const tab = query.get("tab") ?? "";
  const { data, error, reload } = useGet(`orders/${id}/overview${asQuery({ at })}`);
  const again = useJoined(reload, 1_000);
  useLive(
    ({ name, order, data: event }) =>
      (name === "poll" ||
        (order === id && !/delta|progress/.test(name)) ||
        event.id === id ||
        event.changed?.some((item) => item.order_id === id)) &&
      again(),
  );
  useEffect(() => {
    if (data?.index.to < data?.index.of) again();
  }, [data]);
  const known = useRef(new Map());
  const records = (known.current = useMemo(
    () => new Map(data?.records.map((record) => [record.id, same(known.current.get(record.id), record)])),
    [data],
  ));
  const { aim, path } = useAim(id, hash, records);
  const [dialog, setDialog] = useState(null);
  const { busy, error: refused, act } = useAct();
  const order = data?.order;
  const over = DONE.test(order?.status);
  useWatched(id, order && !over && !at ? data.last_seq : null);
  const control = (kind) => post(`orders/${id}/${kind}`);
  const bar = barred("write", order?.principal);
  const retry = () => bar || act(async () => go(`orders/${(await control("retry")).id}`));
  const word = order?.reason === "paused" || data?.records[0]?.waiting === "paused" ? "Resume" : "Pause";
  const tabTo = (name) => `orders/${id}${asQuery({ tab: name }, query)}`;
  useKeys({
    ...Object.fromEntries(TABS.map(([name], index) => [index + 1, () => go(tabTo(name))])),
    t: () => go(tabTo("timeline")),
    p: () => over || bar || act(() => control(word.toLowerCase())),
    m: () => document.getElementById("say")?.focus(),
    r: () => over && retry(),
    l: () => document.getElementById("to-end")?.click(),
    Escape: () => go("orders"),
  });
  if (!order)
    return html`
      <${Bar} title="Order" back="orders" />
      <main class="scroll">
        <${Refused} error=${error} />
      </main>
    `;
  const last = data.last_seq;
  const root = data.records[0]?.id;
  const files = order.changes?.files ?? [];
  const waits =
    !over &&
    (/approval|question/.test(order.reason) ||
      data.records.some(({ waiting }) => /approval|question/.test(waiting)));
  const close = () => setDialog(null);
  return html`
    <${Bar}
      back="orders"
      title=${visible(firstLine(order.prompt))}
      count=${
        html`
          <code class="wide">${shortId(id)}</code>${" "}
          ${waits ? html`<a class="chip wait" href=${address("")}>
            ${bar ? "waits" : "waits for you"}
          </a>` : html`<span class=${`chip ${order.status}`}>${order.status}</span>`}
        `
      }
    >
      ${over ? html`
        <button class="btn" disabled=${busy} ...${bar} onClick=${retry}>
          Retry<kbd>R</kbd>
        </button>
        <a class="btn wide" href=${address(`orders/new?from=${id}`)}>
          As template
        </a>
      ` : html`<button class="btn" disabled=${busy} ...${bar} onClick=${() => act(() => control(word.toLowerCase()))}>
        <${Icon} name=${word === "Pause" ? "pause" : "play"} />
        ${word}
        <kbd>P</kbd>
      </button>`}
      ${last > 0 && html`<button class="btn wide" ...${barred("write")} onClick=${() => setDialog("fork")}>
        <${Icon} name="fork" />
        Fork
      </button>`}
      ${over && files.length > 0 && html`<button class="btn wide" ...${bar} onClick=${() => setDialog("revert")}>
        Revert…
      </button>`}
      ${!over && html`<button class="btn danger" ...${bar} onClick=${() => setDialog("cancel")}>
        Cancel
      </button>`}
    </${Bar}>
    <nav class="tabs" aria-label="Of this order">
      ${TABS.map(([name, title]) => html`<a
        key=${name}
        href=${address(tabTo(name))}
        aria-current=${name === tab && "page"}
      >
        ${title}
      </a>`)}
      <span class="q wide">
        ${at ? `as of entry ${at}` : `${over ? "ended" : "live"} · entry ${count(last)}`}
      </span>
    </nav>
    <${Refused} error=${refused ?? error} />
    ${tab === "timeline" && html`<${Timeline} ...${{ id, at, records, over }} />`}
    ${tab === "changes" && html`<${Changes} ...${{ order, over }} />`}
    ${/journal|calls/.test(tab) && html`<${Journal}
      key=${tab}
      ...${{ id, records, last, query, calls: tab === "calls" }}
    />`}
    ${!tab && html`<main class="both">
      <div class="talk">
        <${Following}>
          ${order.status === "failed" && html`<section class="box failure">
            <p class="row">
              <${Glyph} name="failed" />
              <b class="bad-text">${order.reason}</b>
            </p>
            <p class="plain">${visible(order.detail)}</p>
          </section>`}
          ${root ? html`<${Rows}
            key=${root + at}
            record=${root}
            shared=${{ orderId: id, order, records, at, aim, path }}
            root
          />` : html`
            <p class="prose plain">${visible(order.prompt)}</p>
            <p class="row">
              <${Glyph} name=${orderGlyph(order)} />
              ${visible(order.waits_for?.message ?? order.status)}
            </p>
          `}
          <${Delivery} order=${order} over=${over} bar=${bar} />
        </${Following}>
        ${!at && html`<${Say} bar=${bar} order=${order} records=${data.records} over=${over} />`}
      </div>
      <${Side} order=${order} records=${data.records} />
    </main>`}
    ${(at || tab === "timeline") && last > 0 && html`<${Scrubber} ...${{ id, at, last, query }} />`}
    ${dialog === "fork" && html`<${Fork} order=${order} last=${at ?? last} onClose=${close} />`}
    ${dialog === "cancel" && html`<${Ask}
      title="Cancel this order?"
      word="Cancel it"
      onYes=${() => control("cancel")}
      onClose=${close}
    >
      <p class="two">All its agents end. What they changed stays, and can be reverted.</p>
    </${Ask}>`}
    ${dialog === "revert" && html`<${Ask}
      title="Revert what it changed?"
      word=${`Revert ${some(files.length, "file")}`}
      onYes=${async () => go(`orders/${(await control("revert")).id}`)}
      onClose=${close}
    >
      <p class="two">
        An order of its own does it. If somebody has changed one of these files since, it changes
        nothing and lists them.
      </p>
      ${files.slice(0, 30).map((file) => html`<p>
        <code>${visible(file.path)}</code> <span class="q">${file.change}</span>
      </p>`)}
    </${Ask}>`}
  `;
}
