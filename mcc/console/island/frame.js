// What every page stands in: rail, bar, keys, dialogs.
import {
  address, asQuery, build, classes, clock, firstLine, get, go, html, shortId, since, span, useAct, useEffect, usePlace,
  useRef, useState,
} from "./base.js";
import { barred } from "./rights.js";
import { Icon, Mark, visible } from "./look.js";
import { useConnection, useNow } from "./live.js";

const PLACES = [
  ["", "Inbox", "inbox", "i"],
  ["orders", "Orders", "orders", "o"],
  ["sessions", "Sessions", "sessions", "s"],
  ["documents", "Documents", "file", "d"],
];

const DOORS = [
  ["schedules", "Schedules", "clock"],
  ["triggers", "Triggers", "into"],
  ["webhooks", "Webhooks", "out", undefined, "operate"],
];

const INSTALLATION = [
  ["agents", "Agents", "agents"],
  ["tools", "Tools", "tools"],
  ["mcp-servers", "MCP servers", "tools"],
  ["models", "Models", "models"],
  ["drones", "Drones", "drones", "r"],
  ["usage", "Usage", "usage", "u"],
  ["doctor", "Doctor", "doctor", undefined, "operate"],
  ["people", "People", "person", undefined, "admin"],
  ["tokens", "Tokens", "key"],
  ["audit", "Audit", "view", undefined, "operate"],
];

const KEYS = [
  ["G then I O S D R U", "to a page"],
  ["C", "new order"],
  ["/", "search orders"],
  ["J K Enter X", "next, previous, open, select"],
  ["Esc", "back"],
  ["A, Shift A", "approve once, with the chosen rule"],
  ["D E", "deny, seen"],
  ["1–9", "choose"],
  ["P M S R L", "pause, message, comments, retry, end"],
];

let keysOn = true;

let prefix = "";

const layers = [];

const isTyping = ({ target }) =>
  /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName) && !/^(checkbox|radio|range)$/.test(target.type);

export function listenToKeys() {
  addEventListener("keydown", (event) => {
    const command = event.ctrlKey || event.metaKey;
    if (
      event.altKey ||
      (event.repeat && !/^[jk]$/.test(event.key)) ||
      document.querySelector("dialog[open]")
    )
      return;
    if (event.key !== "Escape" && (isTyping(event) ? !/^(k|Enter)$/.test(command && event.key) : !command && !keysOn))
      return;
    const key =
      event.key.length > 1
        ? event.key
        : `${event.shiftKey && /[a-z]/i.test(event.key) ? "Shift+" : ""}${event.key.toLowerCase()}`;
    const name = prefix + (command ? "Ctrl+" : "") + key;
    prefix = name === "g" ? "g " : "";
    const work = layers.findLast((layer) => layer.current[name])?.current[name];
    if (!work) return;
    event.preventDefault();
    work();
  });
}

// Keys of what is shown, the innermost first: {j: work, "Shift+a": work, "g i": work, "Ctrl+k": work}.
export function useKeys(keys) {
  const layer = useRef();
  layer.current = keys;
  useEffect(() => {
    layers.push(layer);
    return () => {
      layers.splice(layers.indexOf(layer), 1);
    };
  }, []);
}

export const Refused = ({ error }) =>
  error && html`<p class="refused" role="alert">
    ${error.message}
  </p>`;

export function Dialog({ title, onClose, children }) {
  const element = useRef();
  useEffect(() => {
    element.current.showModal();
  }, []);
  return html`<dialog ref=${element} aria-label=${title} onClose=${onClose}>
    <h2>${title}</h2>
    ${children}
  </dialog>`;
}

// Asks before something is done; without `field` the default is no. `onYes` gets what was written, and throws what is
// refused.
export function Ask({ title, word, field, list, value = "", type = "text", onYes, onClose, children }) {
  const [text, setText] = useState(String(value));
  const { busy, error, act } = useAct();
  const send = async (event) => {
    event.preventDefault();
    if (await act(() => onYes(text.trim()))) onClose();
  };
  return html`<${Dialog} title=${title} onClose=${onClose}>
    <form onSubmit=${send}>
      ${children}
      ${field && html`<label>
        <span class="label">${field}</span>
        <input
          class="field"
          autofocus
          type=${type}
          list=${list}
          value=${text}
          onInput=${(event) => setText(event.target.value)}
        />
      </label>`}
      <${Refused} error=${error} />
      <div class="row end">
        <button type="button" class="btn" autofocus=${!field} onClick=${onClose}>
          No, go back
        </button>
        <button class=${classes("btn", field ? "ink" : "danger")} disabled=${busy}>
          ${word}
        </button>
      </div>
    </form>
  </${Dialog}>`;
}

// To whatever has a name: a page, or what is newest; else orders with these words.
function Palette({ pages, onClose }) {
  const [names, setNames] = useState(pages);
  useEffect(
    () =>
      ["orders", "sessions", "documents", "agents"].forEach(async (kind) => {
        const { items } = await get(`${kind}?limit=100`).catch(() => ({ items: [] }));
        const found = items.map(({ id, title, prompt, name }) => [
          `${firstLine(title || prompt || name || "")} · ${kind} ${shortId(id ?? "")}`,
          kind + (id ? `/${id}` : ""),
        ]);
        setNames((before) => [...before, ...found]);
      }),
    [],
  );
  return html`<${Ask}
    title="Go to"
    word="Go"
    field="Page, order, session, document or agent"
    list="names"
    onYes=${(text) => go(names.find(([name]) => name === text)?.[1] ?? `orders${asQuery({ text })}`)}
    onClose=${onClose}
  >
    <datalist id="names">
      ${names.map(([name]) => html`<option value=${name}></option>`)}
    </datalist>
  </${Ask}>`;
}

function Banner() {
  const { connected, since: lost, build: theirs, tries } = useConnection();
  const seconds = (useNow() - lost) / 1000;
  const old = theirs !== build;
  // Once for each build: behind a proxy, one service may answer pages and another one the stream.
  useEffect(() => {
    // What somebody has begun to write or to choose.
    const begun = document.querySelectorAll("dialog[open], input:checked, textarea, [maxlength]");
    if (!old || sessionStorage[build] || [...begun].some(({ value = 1 }) => value)) return;
    sessionStorage[build] = 1;
    location.reload();
  });
  if (old)
    return html`<div class="banner" role="status">
      This page is older than the service.
      <button class="btn" onClick=${() => location.reload()}>
        Reload
      </button>
    </div>`;
  return (
    !connected &&
    tries > 0 &&
    seconds >= 2 && html`<div class="banner" role="status">
      <${Icon} name="warning" />
      Not connected for ${span(seconds)}: what is shown may be older.
    </div>`
  );
}

// `waiting`: how many ask for an answer.
export function Frame({ me, waiting, views, compact, children }) {
  const { parts } = usePlace();
  const [help, setHelp] = useState(false);
  const [menu, setMenu] = useState(false);
  const [palette, setPalette] = useState(false);
  const { connected } = useConnection();
  const [first = "", second] = parts;
  const allowed = ([, , , , scope]) => !scope || !barred(scope);
  const doors = DOORS.filter(allowed);
  const installation = INSTALLATION.filter(allowed);
  useEffect(() => setMenu(false), [first, second]);
  const search = () => {
    go("orders");
    requestAnimationFrame(() => document.getElementById("words")?.focus());
  };
  useKeys({
    "?": () => setHelp(true),
    "Ctrl+k": () => setPalette(true),
    "/": search,
    c: () => go("orders/new"),
    ...Object.fromEntries(
      [...PLACES, ...INSTALLATION].map(([path, , , key]) => [`g ${key}`, () => go(path)]),
    ),
  });
  const link = (path, word, icon, current, more) => html`<a
    class="item"
    key=${path}
    href=${address(path)}
    title=${word}
    aria-current=${current && "page"}
  >
    <${Icon} name=${icon} />
    <span class="word cut">${visible(word)}</span>
    ${more}
  </a>`;
  const badge = waiting > 0 && html`<span class="n wait-text">${waiting}</span>`;
  const places = (list) =>
    list.map(([path, word, icon]) =>
      link(path, word, icon, path === first && second !== "new", !path && badge),
    );
  return html`<div class=${classes("app", compact && "compact", !connected && "away")}>
    <nav class=${classes("rail", menu && "opened")} aria-label="Pages">
      <a class="home" href=${address("")} aria-label="MCC">
        <${Mark} />
        <span class="word">MCC</span>
      </a>
      <button class="item" title="Search" onClick=${() => setPalette(true)}>
        <${Icon} name="search" />
        <span class="word">Search</span>
        <kbd>Ctrl K</kbd>
      </button>
      ${link("orders/new", "New order", "plus", second === "new", html`<kbd>C</kbd>`)}
      <hr />
      ${places(PLACES)}
      <p class="head">Doors</p>
      ${places(doors)}
      <p class="head">Installation</p>
      ${places(installation)}
      ${me.flower_url && html`<a class="item" href=${me.flower_url} target="_blank" rel="noopener" title="Flower">
        <${Icon} name="usage" />
        <span class="word">Flower</span>
      </a>`}
      ${views?.length > 0 && html`
        <p class="head">Saved views</p>
        ${views.map(({ name, query }) =>
          link(`orders${asQuery(query)}`, name, "view", asQuery(query) === location.search),
        )}
      `}
      <div class="foot">
        <button class="item" title="Keys" onClick=${() => setHelp(true)}>
          <${Icon} name="more" />
          <span class="word">Keys</span>
          <kbd>?</kbd>
        </button>
        ${link("me", `${me.name ?? me.principal} · ${me.role ?? "operator"}`, "person", first === "me")}
      </div>
    </nav>
    <div class="page">
      <${Banner} />
      ${children}
    </div>
    <nav class="below" aria-label="Main pages">
      ${places(PLACES.slice(0, 3))}
      <button class="item" aria-expanded=${menu} onClick=${() => setMenu(!menu)}>
        <${Icon} name="more" />
        More
      </button>
    </nav>
    ${palette && html`<${Palette}
      pages=${[...PLACES, ["orders/new", "New order"], ...doors, ...installation, ["me", "You"]].map(
        ([path, name]) => [name, path],
      )}
      onClose=${() => setPalette(false)}
    />`}
    ${help && html`<${Dialog} title="Keys" onClose=${() => setHelp(false)}>
      <${Facts} of=${KEYS.map(([key, what]) => [html`<kbd>${key}</kbd>`, what])} />
      <div class="row end">
        <button class="btn" onClick=${() => setHelp(false)}>
          Close
        </button>
      </div>
    </${Dialog}>`}
  </div>`;
}

// Names and values; what has no value is left out.
export const Facts = ({ of, class: name = "facts" }) => html`<dl class=${name}>
  ${of.map(
    ([word, value]) =>
      value && html`
        <dt>${word}</dt>
        <dd>${value}</dd>
      `,
  )}
</dl>`;

export const Bar = ({ title, count, children, back }) => html`<header class="bar">
  ${back && html`<a class="crumb" href=${address(back)}>
    <${Icon} name="back" />
    <span class="sr">Back</span>
  </a>`}
  <h1 class="cut">${title}</h1>
  <span class="q cut grow">${count}</span>
  ${children}
</header>`;

export const Ago = ({ time }) => {
  const now = useNow();
  return html`<span title=${clock(time)}>${span(Math.abs(since(time, now)))}</span>`;
};

export const Segments = ({ label, of, value, onPick }) => html`<div class="segments" role="group" aria-label=${label}>
  ${of.map(([each, word = each]) => html`<button
    type="button"
    key=${word}
    aria-pressed=${each === value}
    onClick=${() => onPick(each)}
  >
    ${word}
  </button>`)}
</div>`;

// One of several words, or of values with a word for each.
export const Choice = ({ label, shown, of, onPick, ...rest }) => html`<label>
  <span class=${shown ? "label" : "sr"}>${label}</span>
  <select ...${rest} onChange=${(event) => onPick(event.target.value)}>
    ${of.map((each) => [each].flat()).map(([each, word = each]) => html`<option value=${each}>${word}</option>`)}
  </select>
</label>`;

// Rows below `heads`, each a word, or one with a class; the last column is that of buttons.
export const Table = ({ heads, children }) => html`<table class="table cards">
  <thead>
    <tr>
      ${heads.map((head) => [head].flat()).map(([word, name]) => html`<th class=${name}>${word}</th>`)}
      <td></td>
    </tr>
  </thead>
  <tbody>
    ${children}
  </tbody>
</table>`;

export function applyPreferences({ theme, keys }) {
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
  keysOn = keys !== false;
}
