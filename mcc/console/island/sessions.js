// Sessions as chats.
import {
  address,
  asQuery,
  call,
  clock,
  go,
  html,
  money,
  place,
  post,
  shortId,
  some,
  useAct,
  useEffect,
  useGet,
  usePlace,
  useState,
} from "./base.js";
import { barred } from "./rights.js";
import { Glyph, Icon, orderGlyph, visible } from "./look.js";
import { useJoined, useLive, useWatched } from "./live.js";
import { Ago, Ask, Bar, Refused, Segments } from "./frame.js";
import { Composer } from "./steering.js";
import { Following, Rows } from "./talk.js";

const nameOf = (session) => session.title || `Session ${shortId(session.id)}`;

export function Sessions() {
  const archived = usePlace().query.get("archived");
  const [text, setText] = useState("");
  const [cursor, setCursor] = useState(null);
  const { data, error } = useGet(`sessions${asQuery({ archived, text, cursor })}`);
  return html`
    <${Bar} title="Sessions">
      <${Segments}
        label="Which"
        of=${[
          [null, "Open"],
          ["true", "Archived"],
        ]}
        value=${archived}
        onPick=${(next) => go(`sessions${asQuery({ archived: next })}`)}
      />
      <a class="btn ink" href=${address("orders/new")}>
        <${Icon} name="plus" />
        New
      </a>
    </${Bar}>
    <main class="holds">
      <div class="filters">
        <input
          class="field"
          type="search"
          aria-label="In the title"
          placeholder="In the title"
          value=${text}
          onInput=${(event) => {
            setText(event.target.value);
            setCursor(null);
          }}
        />
      </div>
      <${Refused} error=${error} />
      <div class="scroll">
        ${data && !data.items.length && html`<p class="empty">No conversation. Each order belongs to one.</p>`}
        <table class="table">
          <tbody>
            ${data?.items.map((session) => html`<tr key=${session.id}>
              <td class="wrap">
                <a href=${address(`sessions/${session.id}`)}>${visible(nameOf(session))}</a>
              </td>
              <td>${some(session.turns, "turn")}</td>
              <td class="hide">${session.unread > 0 && `${session.unread} unread`}</td>
              <td class="num hide">${money(session.usage.cost_usd)}</td>
              <td class="num">
                <${Ago} time=${session.created_at} />
              </td>
            </tr>`)}
          </tbody>
        </table>
        ${data?.next_cursor && html`<p class="pad">
          <button class="btn" onClick=${() => setCursor(data.next_cursor)}>
            Earlier
          </button>
        </p>`}
      </div>
    </main>
  `;
}

function Turn({ order }) {
  const over = Boolean(order.finished_at);
  const { data, reload } = useGet(`orders/${order.id}/overview`);
  const again = useJoined(reload, 1_000);
  useWatched(order.id, over || !data ? null : data.last_seq);
  useLive(
    ({ name, order: of }) =>
      !over && (name === "poll" || (of === order.id && !/delta/.test(name))) && again(),
  );
  const records = new Map(data?.records.map((record) => [record.id, record]));
  const [root] = records.keys();
  return html`<section aria-label=${`Turn ${order.session_seq}`}>
    <p class="who">
      <${Glyph} name=${orderGlyph(order)} />
      <a href=${address(`orders/${order.id}`)}>turn ${order.session_seq}</a>
      ${clock(order.created_at)} · ${order.agent} · ${money(order.usage.cost_usd)}${" "}
      ${order.left_out && "· rolled back"}${" "}
      <span class="bad-text">${order.status === "failed" && order.reason}</span>
    </p>
    ${root ? html`<${Rows}
      record=${root}
      shared=${{ orderId: order.id, order, records, path: new Set() }}
      root
    />` : html`
      <p class="prose plain" dir="auto">
        ${visible(order.prompt)}
      </p>
      <p class="two">${visible(order.waits_for?.message ?? order.detail)}</p>
    `}
  </section>`;
}

export function Session({ id }) {
  const [limit, setLimit] = useState(5);
  const { data, error, reload } = useGet(`sessions/${id}?limit=${limit}`);
  const again = useJoined(reload, 700);
  useLive(
    ({ name, data: event }) =>
      (name === "poll" || event.session_id === id || data?.orders.some((order) => order.id === event.id)) &&
      again(),
  );
  useEffect(() => {
    if (data?.unread) post(`sessions/${id}/read`, { turn: data.turns }).catch(() => {});
  }, [data?.turns]);
  const [dialog, setDialog] = useState(null);
  const { error: refused, act } = useAct();
  if (!data)
    return html`
      <${Bar} title="Session" back="sessions" />
      <main class="scroll">
        <${Refused} error=${error} />
      </main>
    `;
  const bar = barred("write", data.principal);
  const change = async (changes) => {
    await call("PATCH", `sessions/${id}`, changes);
    reload();
  };
  const send = async (text) => {
    await place({ prompt: text, session_id: id, on_ask: "wait" });
    reload();
  };
  const close = () => setDialog(null);
  return html`
    <${Bar}
      title=${visible(nameOf(data))}
      back="sessions"
      count=${[
        some(data.turns, "turn"),
        money(data.usage.cost_usd),
        data.window && data.tokens && `${Math.round((100 * data.tokens) / data.window)} % of its window`,
      ].filter(Boolean).join(" · ")}
    >
      <button class="btn wide" ...${bar} onClick=${() => setDialog("name")}>
        Rename
      </button>
      ${data.turns > 0 && html`<button
        class="btn wide"
        ...${bar}
        onClick=${() =>
          act(async () =>
            go(`sessions/${(await post(`sessions/${id}/fork`, { turn: data.turns })).id}`),
          )
        }
      >
        Fork
      </button>`}
      <button class="btn wide" ...${bar} onClick=${() => act(() => change({ archived: !data.archived }))}>
        ${data.archived ? "Bring back" : "Archive"}
      </button>
      <button class="btn danger" ...${bar} onClick=${() => setDialog("delete")}>
        Delete
      </button>
    </${Bar}>
    <${Refused} error=${refused ?? error} />
    <main class="both alone">
      <div class="talk">
        <${Following}>
          ${data.next_before && html`<button class="btn" onClick=${() => setLimit(limit * 2)}>
            Earlier turns
          </button>`}
          ${data.orders.toReversed().map((order) => html`<${Turn} key=${order.id} order=${order} />`)}
        </${Following}>
        <${Composer} name=${`mcc-turn-${id}`} label="The next turn" bar=${bar} onSend=${send}>
          <a href=${address(`orders/new?session=${id}`)}>With files and limits</a>
        </${Composer}>
      </div>
    </main>
    ${dialog === "name" && html`<${Ask}
      title="Rename"
      word="Rename"
      field="Title"
      value=${data.title}
      onYes=${(title) => change({ title })}
      onClose=${close}
    />`}
    ${dialog === "delete" && html`<${Ask}
      title="Delete this session?"
      word="Delete it"
      onYes=${async () => {
        await call("DELETE", `sessions/${id}`);
        go("sessions");
      }}
      onClose=${close}
    >
      <p class="two">
        All its turns go for good, with their journals; those that run are cancelled first.
      </p>
    </${Ask}>`}
  `;
}
