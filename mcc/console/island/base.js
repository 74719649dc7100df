// What every module uses: elements as templates, addresses, the API, figures in words.
import { createElement, render, Fragment } from "./preact.js";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "./hooks.js";
import { actAs } from "./rights.js";

export { Fragment, h as html, render, useEffect, useLayoutEffect, useMemo, useRef, useState };

// An element, as mcc/console/squeezing.py writes it in the place of a template: `type` is a component, or a tag and its
// classes; a text may stand where there are no attributes.
export function h(type, given, ...children) {
  if (given?.split) return h(type, null, given, ...children);
  const [tag, ...names] = type.split?.(" ") ?? [type];
  return createElement(tag, names[0] ? { class: names.join(" "), ...given } : given, ...children);
}

export const classes = (...names) => names.filter(Boolean).join(" ");

// From the address of this module, PREFIX/console/BUILD/base.js: a proxy may put a prefix before all paths.
export const root = new URL("../../", import.meta.url);
export const build = import.meta.url.split("/").at(-2);
export const address = (path) => new URL(path, root).href;

const onPlace = new Set();

function here() {
  let path = location.pathname.slice(root.pathname.length);
  try {
    path = decodeURI(path);
  } catch {
    /* not UTF-8: there is no page of this name */
  }
  return {
    parts: path.split("/").filter(Boolean),
    query: new URLSearchParams(location.search),
    hash: location.hash.slice(1),
  };
}

export function go(path, replace) {
  history[replace ? "replaceState" : "pushState"](null, "", address(path));
  onPlace.forEach((look) => look());
}

export function usePlace() {
  const [place, setPlace] = useState(here);
  useEffect(() => {
    const look = () => setPlace(here());
    onPlace.add(look);
    addEventListener("popstate", look);
    addEventListener("hashchange", look);
    return () => {
      onPlace.delete(look);
      removeEventListener("popstate", look);
      removeEventListener("hashchange", look);
    };
  }, []);
  return place;
}

// A query with these values; nothing is written for null, a list repeats its name. `before`: a query that they change.
export function asQuery(values, before) {
  const next = new URLSearchParams(before);
  for (const [name, value] of Object.entries(values)) {
    next.delete(name);
    [value].flat().forEach((each) => (each || each === 0) && next.append(name, each));
  }
  return next.size ? `?${next}` : "";
}

export function followLinks() {
  addEventListener("click", (event) => {
    const link = event.target.closest?.("a[href]");
    if (
      !link ||
      link.target ||
      link.download ||
      event.defaultPrevented ||
      event.button ||
      event.ctrlKey ||
      event.metaKey ||
      event.shiftKey
    )
      return;
    const path = link.href.slice(root.href.length);
    if (!link.href.startsWith(root.href) || path.startsWith("api/")) return;
    event.preventDefault();
    go(path);
  });
}

export class Problem extends Error {
  constructor(status, body) {
    super(body?.detail ?? body?.title ?? `The service answered ${status}.`);
    this.status = status;
    this.errors = body?.errors ?? [];
  }
}

let csrf = "";
let signedOut = () => {};
export const onSignedOut = (work) => {
  signedOut = work;
};
export const tellSignedOut = () => signedOut();

export async function call(method, path, body, headers = {}, signal = undefined) {
  const raw = body instanceof Blob;
  let response;
  try {
    response = await fetch(address(`api/v1/${path}`), {
      method,
      signal,
      body: body === undefined || raw ? body : JSON.stringify(body),
      headers: {
        "MCC-CSRF": csrf,
        ...(body !== undefined && {
          "Content-Type": raw ? "application/octet-stream" : "application/json",
        }),
        ...headers,
      },
    });
  } catch (error) {
    throw error.name === "AbortError"
      ? error
      : new Problem(0, { detail: "The service cannot be reached." });
  }
  // What is not JSON is a proxy's page, no answer of the service.
  const value = await response.json().catch(() => null);
  if (response.ok) return value;
  if (response.status === 401 && path !== "signin") signedOut();
  throw new Problem(response.status, value);
}

export const get = (path, signal) => call("GET", path, undefined, {}, signal);
export const post = (path, body = {}, headers = {}) => call("POST", path, body, headers);

const intents = new Map();

// What is sent again after a fault does nothing twice: until it has come through, the same body has the same key.
export async function once(path, body, headers) {
  const text = path + JSON.stringify(body);
  // Not crypto.randomUUID, which plain HTTP beyond this machine does not have.
  const key = intents.get(text) ?? crypto.getRandomValues(new Uint32Array(4)).join("-");
  intents.set(text, key);
  const answer = await post(path, body, { "Idempotency-Key": key, ...headers });
  intents.delete(text);
  return answer;
}

// An order as somebody places it who can be asked.
export const place = (order) => once("orders", order, { "MCC-Attended": "true" });

export async function whoAmI() {
  const me = await get("me");
  csrf = me.csrf ?? "";
  actAs(me);
  return me;
}

// What GET `path` answers; the last answer stays while the next one is under way. `path` null: nothing is asked.
// `pages`: how many pages of a list are read at most, as one.
export function useGet(path, pages = 1) {
  const [state, setState] = useState({});
  const asked = useRef(null);
  const reload = async () => {
    asked.current?.abort();
    if (!path) return;
    const joint = path.includes("?") ? "&" : "?";
    const control = (asked.current = new AbortController());
    const tell = (next) => asked.current === control && setState({ path, ...next });
    try {
      const data = await get(path, control.signal);
      for (let page = data, left = pages; page.next_cursor && (left -= 1);) {
        page = await get(path + asQuery({ cursor: page.next_cursor }).replace("?", joint), control.signal);
        (data.items ?? data.nodes).push(...(page.items ?? page.nodes));
        data.next_cursor = page.next_cursor;
      }
      tell({ data });
    } catch (error) {
      if (error.name !== "AbortError") tell({ error, data: state.path === path ? state.data : null });
    }
  };
  useEffect(() => {
    reload();
    return () => asked.current?.abort();
  }, [path]);
  return state.path === path ? { ...state, reload } : { data: null, error: null, reload };
}

// All pages of `list` so far, what the first one has beside it, and a button that asks for the next.
export function usePages(path, query, list) {
  const [cursor, setCursor] = useState(null);
  const [all, setAll] = useState({ [list]: [] });
  const { data, error } = useGet(path && path + asQuery({ ...query, cursor }));
  useEffect(() => {
    if (data) setAll((before) => ({ ...data, ...before, [list]: [...before[list], ...data[list]] }));
  }, [data]);
  const next = data?.next_cursor;
  return { all, error, more: next && html`<button class="btn" onClick=${() => setCursor(next)}>Go on</button>` };
}

// One request at a time: `act` answers what its work did, `busy` while it runs, `error` until the next try.
export function useAct() {
  const [state, setState] = useState({ busy: false, error: null });
  const running = useRef(false);
  const act = async (work) => {
    if (running.current) return undefined;
    running.current = true;
    setState({ busy: true, error: null });
    let error = null;
    try {
      return (await work()) ?? true;
    } catch (problem) {
      error = problem;
      return undefined;
    } finally {
      running.current = false;
      setState({ busy: false, error });
    }
  };
  return { ...state, act };
}

// What was there before, if the next one says the same: what is drawn from it then stays as it is.
export const same = (before, next) => (JSON.stringify(before) === JSON.stringify(next) ? before : next);

export const count = (value) => value?.toLocaleString("en-US") ?? "–";
export const some = (number, noun) => `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
export const tokensOf = (usage) => usage.input_tokens + usage.output_tokens;
export const firstLine = (text) => (text ?? "").trim().split("\n", 1)[0] || "(no words)";
// Ids begin with their time: people tell orders apart by the end.
export const shortId = (id) => id.slice(-6);

export const money = (value) =>
  value === null || value === undefined
    ? "unknown"
    : value === 0
      ? "$0"
      : `$${value.toFixed(value < 10 ? 4 : 2)}`;
export const short = (value) =>
  value >= 1e6
    ? `${(value / 1e6).toFixed(1)} M`
    : value >= 1e4
      ? `${(value / 1e3).toFixed(1)} k`
      : count(value);

export function span(seconds) {
  const value = Math.max(0, seconds);
  if (value < 60) return `${value.toFixed(value < 10 ? 1 : 0)} s`;
  if (value < 3600) return `${Math.floor(value / 60)} min`;
  return value < 86400 ? `${Math.floor(value / 3600)} h` : `${Math.floor(value / 86400)} d`;
}

export const since = (time, now = Date.now()) => (now - Date.parse(time)) / 1000;

export function clock(time) {
  if (!time) return "–";
  const date = new Date(time);
  const day = date.toDateString() === new Date().toDateString() ? "" : `${date.toLocaleDateString("sv")} `;
  return day + date.toLocaleTimeString("sv");
}
