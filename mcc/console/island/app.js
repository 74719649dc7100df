// The island: draws each address from the public API, and keeps what all pages share.
import {
  followLinks, html, onSignedOut, render, useEffect, useGet, usePlace, useRef, useState, whoAmI,
} from "./base.js";
import { startStream, useJoined, useLive } from "./live.js";
import { isAsk } from "./asks.js";
import { Bar, Frame, Refused, applyPreferences, listenToKeys } from "./frame.js";
import { Document } from "./document.js";
import { Orders } from "./orders.js";
import { Documents } from "./documents.js";
import { NewOrder } from "./neworder.js";
import { Inbox, scopeOf } from "./inbox.js";
import { Session, Sessions } from "./sessions.js";
import { Order } from "./order.js";
import { SignIn } from "./signin.js";
import { Later } from "./later.js";

// By the first word of their address: a title and a page, and those of one thing of its kind.
const PAGES = {
  "": ["Inbox", Inbox],
  orders: ["Orders", Orders, "Order", Order],
  sessions: ["Sessions", Sessions, "Session", Session],
  documents: ["Documents", Documents, "Document", Document],
  schedules: ["Schedules"],
  triggers: ["Triggers"],
  webhooks: ["Webhooks"],
  agents: ["Agents"],
  tools: ["Tools"],
  models: ["Models"],
  "mcp-servers": ["MCP servers"],
  drones: ["Drones"],
  usage: ["Usage"],
  doctor: ["Doctor"],
  device: ["Command line"],
  people: ["People"],
  tokens: ["Tokens"],
  audit: ["Audit"],
  me: ["You"],
};

function pageAt({ parts: [first = "", second, ...more], query }, shared) {
  if (first === "orders" && more[0] === "vs" && more[1] && !more[2])
    return ["Two attempts", html`<${Later} kind="versus" ids=${[second, more[1]]} />`, true];
  if (first === "orders" && second === "new" && !more[0]) return ["New order", html`<${NewOrder} />`];
  if (first === "orders" && !second && query.get("by")) return ["Failures", html`<${Later} kind="failures" />`];
  const [title, Page = Later, titleOfOne, One] = (Object.hasOwn(PAGES, first) && PAGES[first]) || [];
  if (second && One && !more[0])
    return [titleOfOne, html`<${One} key=${second} id=${second} ...${shared} />`, true];
  if (!title || second) return ["Not here"];
  return [title, html`<${Page} key=${first} kind=${first} title=${title} ...${shared} />`];
}

function Signed({ me, onMe }) {
  const place = usePlace();
  const inbox = useGet(`inbox?kinds=all&status=pending&limit=200&scope=${scopeOf(me)}`, 10);
  const again = useJoined(inbox.reload, 300);
  useLive((event) => /^(inbox|order\.status|snapshot|poll)$/.test(event.name) && again());
  const { data, reload } = useGet("views");
  const waiting = inbox.data?.items.filter(isAsk).length ?? 0;
  const [title, body, compact] = pageAt(place, { me, onMe, inbox, views: data?.items, onViews: reload });
  const told = useRef(Infinity);
  useEffect(() => {
    document.title = `${waiting ? `(${waiting}) ` : ""}${title} · MCC`;
  }, [waiting, title]);
  useEffect(() => {
    const icon = document.querySelector("link[rel=icon]");
    icon.href = icon.href.replace(/icon\w*\.svg/, waiting ? "iconwaits.svg" : "icon.svg");
    if (waiting > told.current && me.preferences?.notify && document.hidden)
      new Notification("MCC", { body: `${waiting} waiting for you`, tag: "mcc" });
    told.current = inbox.data ? waiting : Infinity;
  }, [waiting, inbox.data]);
  return html`<${Frame} me=${me} waiting=${waiting} views=${data?.items} compact=${compact}>
    ${body ?? html`
      <${Bar} title=${title} />
      <main class="empty">There is no page at this address.</main>
    `}
  </${Frame}>`;
}

function App() {
  const [me, setMe] = useState(null);
  const [out, setOut] = useState(usePlace().parts[0] === "signin");
  const [error, setError] = useState(null);
  const onMe = (next) => {
    setMe(next);
    applyPreferences(next.preferences ?? {});
  };
  useEffect(() => {
    onSignedOut(() => setOut(true));
    if (!out)
      whoAmI().then(
        (found) => {
          onMe(found);
          startStream();
        },
        (problem) => problem.status !== 401 && setError(problem),
      );
  }, []);
  if (!me)
    return out ? html`<${SignIn} />` : (
      error && html`<main class="empty">
        <${Refused} error=${error} />
        <button class="btn" onClick=${() => location.reload()}>
          Try again
        </button>
      </main>`
    );
  // Over the page, so that what was typed stays.
  return html`
    <${Signed} me=${me} onMe=${onMe} />
    ${out && html`<dialog
      ref=${(element) => element && !element.open && element.showModal()}
      onCancel=${(event) => event.preventDefault()}
      aria-label="Signed out"
    >
      <${SignIn} again />
    </dialog>`}
  `;
}

followLinks();

listenToKeys();

render(html`<${App} />`, document.getElementById("app"));
