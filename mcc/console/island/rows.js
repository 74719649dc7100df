// The rows of one agent: a window over them, and what changes in it while the order runs.
import { asQuery, get, same, useEffect, useRef, useState } from "./base.js";
import { useJoined, useLive } from "./live.js";

const ROWS_PAGE = 100;

const MOST_ROWS = 200;

const boxes = new WeakMap();
const nearness = new IntersectionObserver(
  (seen) => seen.forEach(({ target, isIntersecting }) => boxes.get(target)(isIntersecting)),
  { scrollMargin: "400px" },
);

// Whether somebody sees what is in this box, or soon will.
export function useNear(box) {
  const [near, setNear] = useState(false);
  useEffect(() => {
    const element = box.current;
    boxes.set(element, setNear);
    nearness.observe(element);
    return () => nearness.unobserve(element);
  }, []);
  return near;
}

// The rows of one record: a window over them, and what changes in it while the order runs and they are `near`.
export function useRows(shared, record, root, around, near) {
  const { orderId, at: asOf } = shared;
  const [state, setState] = useState({ rows: [] });
  const held = useRef({});
  held.current.state = state;
  const read = async (more) =>
    get(`orders/${orderId}/rows${asQuery({ record, at: asOf, limit: ROWS_PAGE, ...more })}`);
  const keep = (page, rows) => setState({ ...page, rows });
  // One read at a time; what is asked for meanwhile follows.
  const turn = async (work) => {
    if (held.current.busy) {
      held.current.next = true;
      return;
    }
    held.current.busy = true;
    try {
      await work();
    } catch (error) {
      setState((before) => ({ ...before, error }));
    }
    held.current.busy = false;
    if (held.current.next) {
      held.current.next = false;
      again();
    }
  };
  const load = () =>
    turn(async () => {
      const page = await read({ around });
      keep(page, page.items);
    });
  const earlier = () =>
    turn(async () => {
      const { rows, later } = held.current.state;
      const page = await read({ before: rows[0].seq });
      const all = [...page.items, ...rows];
      keep({ ...page, later: later || all.length > MOST_ROWS }, all.slice(0, MOST_ROWS));
    });
  // What has not ended may have changed, and the last row may have taken in its neighbours: both are read again.
  const onwards = () =>
    turn(async () => {
      const { rows, earlier: more } = held.current.state;
      if (!rows.length) {
        const page = await read({});
        return keep(page, page.items);
      }
      const from =
        Math.min(rows.at(-1).seq, ...rows.filter((row) => row.ms === null).map(({ seq }) => seq)) - 1;
      const page = await read({ after: from });
      const beyond = page.later ? page.items.at(-1).seq : Infinity;
      const before = new Map(rows.map((row) => [row.seq, row]));
      const all = [
        ...rows.filter(({ seq }) => seq <= from || seq > beyond),
        ...page.items.map((row) => same(before.get(row.seq), row)),
      ].sort((a, b) => a.seq - b.seq);
      keep({ ...page, earlier: more || all.length > MOST_ROWS }, all.slice(-MOST_ROWS));
    });
  const again = useJoined(onwards, 250);
  useEffect(() => {
    load();
  }, [record, asOf, around]);
  useEffect(() => {
    if (state.index?.to < state.index?.of) again();
  }, [state]);
  // What it missed meanwhile.
  useEffect(() => {
    if (near && state.index) onEvent({ name: "poll", data: {} });
  }, [near]);
  const onEvent = ({ name, order, seq, data }) => {
    if (!near || asOf || (around && held.current.state.later)) return;
    const of = data.record_id ?? null;
    if (
      name === "poll" ||
      (order === orderId &&
        (seq
          ? of === record || (root && of === null) || data.parent_id === record
          : /^(end|gone)$/.test(name)))
    )
      again();
  };
  useLive(onEvent);
  return { ...state, onEarlier: earlier, onLater: onwards };
}

// The reply that is being written; what the journal has then takes its place.
export function useStreamed(shared, record, near) {
  const [text, setText] = useState({});
  const held = useRef({ frame: 0, epoch: 0 });
  useLive(({ name, order, data }) => {
    if (shared.at || order !== shared.orderId || data.record_id !== record) return;
    const now = held.current;
    const isDelta = /^(model|thinking)\.delta$/.test(name);
    if ((!isDelta && !/^(model\.(started|replied)|agent\.finished)$/.test(name)) || data.epoch < now.epoch)
      return;
    if (!isDelta || data.epoch > now.epoch) now.said = now.thought = "";
    if (isDelta) {
      const of = name === "model.delta" ? "said" : "thought";
      now.epoch = data.epoch;
      now[of] = (now[of] ?? "").slice(0, data.offset) + data.text;
    }
    now.frame ||= near && requestAnimationFrame(() => {
      now.frame = 0;
      setText({ said: now.said, thought: now.thought });
    });
  });
  useEffect(() => () => cancelAnimationFrame(held.current.frame), []);
  return text;
}
