// The inbox: whatever waits for a person, of all orders and depths, answered in place.
import {
  address,
  asQuery,
  call,
  classes,
  firstLine,
  go,
  html,
  post,
  useAct,
  useEffect,
  usePlace,
  useRef,
  useState,
} from "./base.js";
import { Glyph, Icon, visible } from "./look.js";
import { barred } from "./rights.js";
import { Ago, Bar, Refused, Segments, useKeys } from "./frame.js";
import { ASKS, Detail, isAsk, said, timeOf } from "./asks.js";

const KINDS = [
  ["Waits for an answer", ASKS, 1],
  ["Went wrong", ["failed", "budget", "stuck"], -1],
  ["Ready to look at", ["ready"], -1],
];

// Whose things stand in it, unless somebody has chosen: everybody's for who may answer them.
export const scopeOf = ({ preferences }) => preferences?.inbox ?? (barred("operate") ? "mine" : "all");

export function Inbox({ inbox: { data, error, reload }, me, onMe }) {
  const { query } = usePlace();
  const [held, setHeld] = useState([]);
  const inside = useRef(false);
  const { act, error: refused } = useAct();
  const fresh = data?.items ?? [];
  const known = new Map(fresh.map((item) => [item.id, item]));
  // Whoever looks at an item marks it as seen, and must not be moved away from it by that.
  const { current: places } = useRef(new Map());
  fresh.forEach(({ id, seen }) => places.has(id) || places.set(id, !!seen));
  const shown = useRef(null);
  // What has just been answered stands there with its answer for a while, unless something else is picked.
  const renew = () =>
    setHeld((before) => [...fresh, ...before.filter(({ id }) => id === shown.current && !known.has(id))]);
  // Nothing moves under the pointer: what arrives or goes meanwhile waits until it has left the list.
  useEffect(
    () => (inside.current ? setHeld((before) => before.map((item) => known.get(item.id) ?? item)) : renew()),
    [data],
  );
  useEffect(() => {
    const timer = setTimeout(() => inside.current || setHeld(fresh), 4_000);
    return () => clearTimeout(timer);
  }, [data]);
  const arrived = fresh.filter((item) => !held.some(({ id }) => id === item.id)).length;
  const groups = KINDS.map(([title, kinds, sign]) => [
    title,
    held
      .filter((item) => kinds.includes(item.kind))
      .sort(
        (a, b) =>
          places.get(a.id) - places.get(b.id) ||
          sign * (Date.parse(timeOf(a)) - Date.parse(timeOf(b))) ||
          (a.id < b.id ? -1 : 1),
      ),
  ]).filter(([, items]) => items.length);
  const items = groups.flatMap(([, own]) => own);
  const isWide = innerWidth > 719;
  const picked = query.get("item");
  const lookedAt = isWide && items.find(({ id }) => id === shown.current);
  const current = items.find(({ id }) => id === picked) ?? (lookedAt || (isWide ? items[0] : undefined));
  shown.current = current?.id;
  const pick = (id) => go(asQuery({ item: id }, query), isWide);
  const see = (body) =>
    act(async () => {
      await post("inbox/seen", body);
      reload();
    });
  useEffect(() => {
    const timer = setTimeout(
      () => current && isAsk(current) && !current.seen && see({ ids: [current.id] }),
      1_500,
    );
    return () => clearTimeout(timer);
  }, [current?.id]);
  const move = (step) => {
    const next = items[items.indexOf(current) + step];
    if (next) {
      pick(next.id);
      document.getElementById(next.id)?.scrollIntoView({ block: "nearest" });
    }
  };
  // After a pause, so that no key hits what has just come to its place.
  const done = () => {
    reload();
    if (isWide) setTimeout(move, 300, 1);
  };
  const seen = () => current && !current.seen && see({ ids: [current.id] });
  useKeys({
    j: () => move(1),
    k: () => move(-1),
    Escape: () => pick(null),
    e: seen,
    o: () => current?.order_id && go(`orders/${current.order_id}`),
  });
  return html`
    <${Bar} title="Inbox" count=${data && fresh.length}>
      <${Segments}
        label="Whose"
        of=${[["mine", "Mine"], ["all", "All"]]}
        value=${scopeOf(me)}
        onPick=${(scope) =>
          act(async () => onMe(await call("PATCH", "me", { preferences: { ...me.preferences, inbox: scope } })))
        }
      />
      ${items.some((item) => !item.seen) && html`<button class="btn" onClick=${() => see({ before: new Date() })}>
        Mark all seen
      </button>`}
    </${Bar}>
    <${Refused} error=${error ?? refused} />
    ${data && !items.length && html`<main class="empty">
      <p>Nothing waits for you.</p>
      <p>
        <a href=${address("orders")}>See what is at work</a>, or${" "}
        <a href=${address("orders/new")}>place an order</a>.
      </p>
    </main>`}
    ${items.length > 0 && html`<main class=${classes("split", picked && current && "opened")}>
      <div
        class="list"
        onPointerEnter=${() => {
          inside.current = true;
        }}
        onPointerLeave=${() => {
          inside.current = false;
          renew();
        }}
      >
        ${groups.map(([title, own], index) => html`<section key=${title} aria-label=${title}>
          <h2 class="group">
            ${title} <span class="q">${own.length}</span>
            ${!index && arrived > 0 && html`<button class="btn" onClick=${renew}>
              ${arrived} new
            </button>`}
          </h2>
          ${own.map((item) => html`<button
            key=${item.id}
            id=${item.id}
            class=${classes("entry", !item.seen && "unseen", !known.has(item.id) && "gone")}
            aria-current=${item === current}
            onClick=${() => pick(item.id)}
          >
            <span class="dot">${!item.seen && html`<span class="sr">new</span>`}</span>
            <${Glyph} name=${item.kind} />
            <span class="cut what">
              ${visible(said(item))}
              <br />
              <span class="q">
                ${item.kind === "ready" ? item.agent : visible(firstLine(item.title))}
              </span>
            </span>
            <span class="q">
              <${Ago} time=${timeOf(item)} />
            </span>
          </button>`)}
        </section>`)}
      </div>
      <div class="detail">
        ${!isWide && html`<button class="btn" onClick=${() => pick(null)}>
          <${Icon} name="back" />
          All that waits
        </button>`}
        ${current && html`<${Detail}
          key=${current.order_id ?? current.id}
          item=${current}
          asks=${items.filter((item) => isAsk(item) && item.order_id === current.order_id)}
          onDone=${done}
          onSeen=${seen}
          onPick=${pick}
        />`}
      </div>
    </main>`}
  `;
}
