// What changes while somebody looks: one stream for all tabs. The tab that holds the Web Lock reads it and tells
// the others.
import { address, build, tellSignedOut, useEffect, useRef, useState, whoAmI } from "./base.js";

const IDLE = 300_000;
// Web Locks need a secure context: over plain HTTP beyond this machine each visible tab has a stream of its own.
const shares = Boolean(navigator.locks);
const channel = shares && new BroadcastChannel(`mcc-stream:${address("")}`);
const tab = crypto.getRandomValues(new Uint32Array(1))[0];

const listeners = new Set();
const shown = new Map();
const others = new Map();
let state = { connected: false, since: Date.now(), tries: 0, build };
let leads = !shares;
let reading = null;
let timer = 0;
let hiddenSince = 0;

// A sign-in is that of all tabs: where one hears of its end, all do.
const emit = (event) =>
  event.name === "signed_out" ? tellSignedOut() : listeners.forEach((listener) => listener(event));

// Tells this tab, and from the one that reads all others.
function tell(event) {
  emit(event);
  if (leads && channel) channel.postMessage({ event });
}

function become(changes) {
  state = { ...state, ...changes };
  tell({ name: "state", data: state });
}

const isActive = () => !document.hidden || Date.now() - hiddenSince < IDLE;
const say = (gone) => channel?.postMessage?.({ tab, orders: [...shown], active: !gone && isActive() });

function reopen(delay) {
  if (!leads) return say();
  clearTimeout(timer);
  timer = setTimeout(read, delay);
}

function reach(orders, id, seq) {
  if (orders.has(id)) orders.set(id, Math.max(orders.get(id), seq));
}

// By fetch and not by EventSource: it tells a 401 from a 503, hands over events of every name, and never reconnects
// by itself.
async function read() {
  reading?.abort();
  const active = [...others.values()].filter((other) => other.active);
  if (!isActive() && !active.length) return;
  const control = (reading = new AbortController());
  const wanted = new Map(shown);
  for (const { orders } of active) {
    for (const [id, after] of orders) {
      wanted.set(id, Math.min(after, wanted.get(id) ?? after));
    }
  }
  const orders = [...wanted]
    .slice(0, 16)
    .map((each) => each.join(":"))
    .join();
  try {
    const response = await fetch(address(`api/v1/stream${orders && `?orders=${orders}`}`), {
      signal: control.signal,
    });
    if (response.status === 401) return tell({ name: "signed_out" });
    const reader = response.ok && response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let rest = "", piece; reader && !(piece = await reader.read()).done;) {
      const frames = (rest + piece.value).split("\n\n");
      rest = frames.pop();
      frames.forEach(frame);
    }
  } catch {
    // What ended it does not matter: it is opened again.
  }
  if (control.signal.aborted) return;
  become({ connected: false, since: state.connected ? Date.now() : state.since, tries: state.tries + 1 });
  const out = await whoAmI().then(
    (me) => become({ build: me.build }),
    (error) => error.status === 401 && !tell({ name: "signed_out" }),
  );
  if (!out) reopen(Math.min(15_000, 250 * 2 ** state.tries) * (1 + Math.random()));
}

function frame(text) {
  const fields = text.split("\n").map((line) => line.split(/: (.*)/s));
  const { id = "", event: name, data } = Object.fromEntries(fields);
  if (!data) return;
  const [order, seq] = id.split(":");
  const event = { name, data: JSON.parse(data) };
  if (event.name === "hello") return become({ connected: true, tries: 0, build: event.data.build });
  event.order = order || event.data.order_id;
  event.seq = Number(seq ?? 0);
  for (const other of others.values()) {
    reach(other.orders, order, event.seq);
  }
  reach(shown, order, event.seq);
  tell(event);
}

export function startStream() {
  document.addEventListener("visibilitychange", () => {
    hiddenSince = Date.now();
    if (document.hidden) setTimeout(() => isActive() || reopen(0), IDLE + 1_000);
    else if (!state.connected) reopen(0);
    say();
  });
  if (!shares) return reopen(0);
  channel.onmessage = ({ data: { event, who, ...other } }) => {
    if (who) return say();
    if (event) {
      if (leads) return undefined;
      if (event.name === "state") state = event.data;
      reach(shown, event.order, event.seq);
      return emit(event);
    }
    const known = others.get(other.tab)?.orders;
    others.set(other.tab, { ...other, orders: new Map(other.orders) });
    if (leads && other.active) {
      become({});
      if (!state.connected || other.orders.some(([id]) => !known?.has(id))) reopen(50);
    }
  };
  addEventListener("pagehide", () => say(true));
  navigator.locks.request("mcc-stream", () => {
    leads = true;
    channel.postMessage({ who: true });
    reopen(100);
    // As long as this tab is there.
    return new Promise(() => {});
  });
  say();
}

// Without a stream, everything is asked for again every 5 seconds.
setInterval(() => state.tries > 1 && !document.hidden && emit({ name: "poll", data: {} }), 5_000);

// Each event of the stream: {name, data, order, seq}.
export function useLive(listener) {
  const latest = useRef();
  latest.current = listener;
  useEffect(() => {
    const each = (event) => latest.current(event);
    listeners.add(each);
    return () => listeners.delete(each);
  }, []);
}

export function useConnection() {
  const [value, setValue] = useState(state);
  useLive((event) => event.name === "state" && setValue(event.data));
  return value;
}

// Entries of this order after `after`, as long as somebody here looks at it; null: not.
export function useWatched(id, after) {
  const off = after === null;
  useEffect(() => {
    if (off) return undefined;
    shown.set(id, after);
    reopen(50);
    return () => {
      shown.delete(id);
      say();
    };
  }, [id, off]);
}

// Calls `work` soon after it was asked for, and at most once in `milliseconds`.
export function useJoined(work, milliseconds) {
  const held = useRef({ timer: 0, last: 0 });
  const latest = useRef();
  latest.current = work;
  useEffect(() => () => clearTimeout(held.current.timer), []);
  return () => {
    held.current.timer ||= setTimeout(
      () => {
        held.current = { timer: 0, last: Date.now() };
        latest.current();
      },
      Math.max(0, held.current.last + milliseconds - Date.now()),
    );
  };
}

const ticks = new Set();
setInterval(() => document.hidden || ticks.forEach((set) => set(Date.now())), 1_000);

// The time, once a second and everywhere at once; with `still` it stands.
export function useNow(still) {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    if (still) return undefined;
    setNow(Date.now());
    ticks.add(setNow);
    return () => ticks.delete(setNow);
  }, [!still]);
  return now;
}
