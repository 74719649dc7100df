// Webhooks: endpoints that hear of orders, and what became of telling them.
import { address, asQuery, call, clock, go, html, post, shortId, useAct, usePlace, useState } from "../island/base.js";
import { barred } from "../island/rights.js";
import { visible } from "../island/look.js";
import { Ask, Bar, Facts, Refused, Segments, Table } from "../island/frame.js";
import { Who } from "../island/who.js";
import { useLively } from "./lively.js";
import { Once } from "./secret.js";

const HEARD = [
  "order.queued",
  "order.waiting",
  "order.resumed",
  "order.finished",
  "approval.requested",
  "question.asked",
  "schedule.missed",
  "webhook.test",
];

const ONLY = ["kinds", "labels", "agents", "principals", "doors", "sessions"];

const BUILT_IN = "orders";

const TONES_OF_DELIVERIES = { delivered: "good", dead: "bad" };

const onlyOf = ({ filters }) =>
  ONLY.filter((name) => filters[name][0]).map((name) => `${name}: ${filters[name].join(", ")}`);

const stateOf = ({ off_at: off, off_why: why }) =>
  off ? html`
    <span class="chip bad">off</span> ${visible(why)} <span class="q">since ${clock(off)}</span>
  ` : html`<span class="chip good">on</span>`;

const urlOf = ({ url }) => (url ? visible(url) : html`<span class="q">the webhook_url of each order</span>`);

const typesOf = ({ id, types }) =>
  types.join(", ") || (id === BUILT_IN ? "order.waiting, order.finished" : "everything");

// A reply goes where a table of mcc.toml says.
const receiver = ({ endpoint_id: to }, endpoints) =>
  endpoints.find(({ id }) => id === to)?.name ?? (/\./.test(to) ? `reply, ${to}` : to);

function subject({ type, order_id: id }) {
  if (type === "webhook.test") return null;
  if (type === "schedule.missed") return html`<a href=${address(`schedules${asQuery({ id })}`)}>its schedule</a>`;
  return html`<a href=${address(`orders/${id}`)}>order ${shortId(id)}</a>`;
}

function Deliveries({ endpoint, state, endpoints }) {
  const { data, error, reload, more } = useLively(`webhooks/deliveries${asQuery({ endpoint, state })}`);
  const { busy, error: refused, act } = useAct();
  const [told, setTold] = useState(null);
  const bar = barred("operate");
  const replay = (path, body) =>
    act(async () => {
      const { count } = await post(`webhooks/deliveries${path}`, body);
      setTold(count ?? null);
      await reload();
    });
  const some = endpoint ? { endpoint } : {};
  return html`
    <div class="filters">
      <b>Deliveries</b>
      <${Segments}
        label="Which deliveries"
        of=${[[null, "All"], ["pending"], ["delivered"], ["dead"]]}
        value=${state}
        onPick=${(next) => go(`webhooks${asQuery({ id: endpoint, state: next })}`, true)}
      />
      <span class="grow"></span>
      ${told !== null && html`<span class="q" role="status">${told} are tried again</span>`}
      <button class="btn" disabled=${busy} ...${bar} onClick=${() => replay(":replay", some)}>Replay all dead</button>
    </div>
    <${Refused} error=${error ?? refused} />
    ${data && !data.items.length && html`<p class="empty">No delivery${state && ` is ${state}`}.</p>`}
    ${data?.items.length > 0 && html`<${Table} heads=${["at", "what", ["to", "hide"], "came to"]}>
      ${data.items.map((each) => html`<tr key=${each.id}>
        <td><span title=${each.id}>${clock(each.created_at)}</span></td>
        <td class="wrap">${each.type} ${subject(each)}</td>
        <td class="wrap hide">
          ${visible(receiver(each, endpoints))}
        </td>
        <td class="wrap">
          <span class=${`chip ${TONES_OF_DELIVERIES[each.state] ?? ""}`}>${each.state}</span>${" "}
          ${each.last_status} ${each.state !== "delivered" && visible(each.last_error ?? "")}${" "}
          <span class="q">
            ${each.tries > 0 && `try ${each.tries}`}
            ${each.state === "pending" ? `, due ${clock(each.due_at)}` : `, ${clock(each.ended_at)}`}
          </span>
        </td>
        <td class="right">
          ${each.state === "dead" && html`<button
            class="btn"
            disabled=${busy}
            ...${bar}
            onClick=${() => replay(`/${each.id}/replay`)}
          >
            Replay
          </button>`}
        </td>
      </tr>`)}
    </${Table}>`}
    ${more}
  `;
}

// What an endpoint hears of, as somebody writes it. `webhook`: the one that is changed.
function AskWebhook({ webhook, onDone, onClose }) {
  const [url, setUrl] = useState("");
  const [types, setTypes] = useState(webhook?.types ?? []);
  const [filters, setFilters] = useState(
    Object.fromEntries(ONLY.map((name) => [name, webhook?.filters[name].join(", ")])),
  );
  const send = async (name) => {
    const words = Object.entries(filters).map(([each, text]) => [
      each,
      (text ?? "").split(",").map((word) => word.trim()).filter(Boolean),
    ]);
    const body = { name, types, filters: Object.fromEntries(words), ...(url && { url: url.trim() }) };
    onDone(await (webhook ? call("PATCH", `webhooks/${webhook.id}`, body) : post("webhooks", body)));
  };
  return html`<${Ask}
    title=${webhook ? `Change ${webhook.name}` : "Add a webhook"}
    word=${webhook ? "Change" : "Add"}
    field="Name: letters, digits and _ . : -"
    value=${webhook?.name ?? ""}
    onYes=${send}
    onClose=${onClose}
  >
    <label>
      <span class="label">${webhook ? "Another address, if it changes" : "Its address, with https"}</span>
      <input
        class="field"
        type="url"
        required=${!webhook}
        placeholder=${webhook?.url}
        value=${url}
        onInput=${(event) => setUrl(event.target.value)}
      />
    </label>
    <p class="label">It hears of these, or of everything if none is chosen</p>
    ${HEARD.map((type) => html`<label class="choice" key=${type}>
      <input
        type="checkbox"
        checked=${types.includes(type)}
        onChange=${() => setTypes(HEARD.filter((each) => types.includes(each) !== (each === type)))}
      />
      ${type}
    </label>`)}
    <details>
      <summary>Of some orders alone</summary>
      ${ONLY.map((name) => html`<label key=${name}>
        <span class="label">${name}, with commas between</span>
        <input
          class="field"
          value=${filters[name] ?? ""}
          onInput=${(event) => setFilters({ ...filters, [name]: event.target.value })}
        />
      </label>`)}
    </details>
  </${Ask}>`;
}

function OneWebhook({ webhook, onChange, onSecret }) {
  const [asks, setAsks] = useState(null);
  const [tested, setTested] = useState(null);
  const { busy, error, act } = useAct();
  const bar = barred("operate");
  const { id, name } = webhook;
  const close = () => setAsks(null);
  const test = () =>
    act(async () => {
      setTested((await post(`webhooks/${id}/test`)).id);
      await onChange();
    });
  const turn = () =>
    act(async () => {
      await call("PATCH", `webhooks/${id}`, { off: !webhook.off_at });
      await onChange();
    });
  return html`
    <div class="filters">
      ${id !== BUILT_IN && html`
        <button class="btn" disabled=${busy} ...${bar} onClick=${test}>Send a test</button>
        <button class="btn" ...${bar} onClick=${() => setAsks("change")}>Change</button>
      `}
      <button class="btn" ...${bar} onClick=${() => setAsks("rotate")}>Rotate its secret</button>
      <button class="btn" disabled=${busy} ...${bar} onClick=${turn}>${webhook.off_at ? "Turn on" : "Turn off"}</button>
      ${id !== BUILT_IN && html`
        <button class="btn danger" ...${bar} onClick=${() => setAsks("remove")}>Remove</button>
      `}
      ${tested && html`<span class="q" role="status">A test is sent: it stands below.</span>`}
    </div>
    <${Refused} error=${error} />
    <div class="pad">
      <${Facts} of=${[
        ["Address", urlOf(webhook)],
        ["Hears of", typesOf(webhook)],
        ["Only", onlyOf(webhook).length > 0 && onlyOf(webhook).map((each) => html`<p>${visible(each)}</p>`)],
        ["State", stateOf(webhook)],
        ["Secret", webhook.secret_at ? `since ${clock(webhook.secret_at)}` : "nobody was told it: rotate it"],
        ["Former one", webhook.former_until && `signs too until ${clock(webhook.former_until)}`],
        ["Made by", html`<${Who} id=${webhook.principal} />`],
      ]} />
    </div>
    ${asks === "change" && html`<${AskWebhook} webhook=${webhook} onDone=${onChange} onClose=${close} />`}
    ${asks === "rotate" && html`<${Ask}
      title=${`Another secret for ${name}?`}
      word="Rotate"
      field="For so many seconds the present one signs too"
      type="number"
      value="86400"
      onYes=${async (text) => {
        onSecret(await post(`webhooks/${id}/rotate`, { keep_seconds: Number(text) }));
        onChange();
      }}
      onClose=${close}
    />`}
    ${asks === "remove" && html`<${Ask}
      title=${`Remove ${name}?`}
      word="Remove"
      onYes=${async () => {
        await call("DELETE", `webhooks/${id}`);
        go("webhooks");
        onChange();
      }}
      onClose=${close}
    >
      <p class="two">What waits for it is never delivered.</p>
    </${Ask}>`}
  `;
}

export function Webhooks() {
  const { query } = usePlace();
  const [id, state] = [query.get("id"), query.get("state")];
  const { data, error, reload } = useLively("webhooks?limit=200");
  const [adds, setAdds] = useState(false);
  const [made, setMade] = useState(null);
  const one = id && data?.items.find((each) => each.id === id);
  return html`
    <${Bar}
      title=${one ? visible(one.name) : "Webhooks"}
      count=${!id && data?.items.length}
      back=${id && "webhooks"}
    >
      ${!id && html`<button class="btn ink" ...${barred("operate")} onClick=${() => setAdds(true)}>
        Add a webhook
      </button>`}
    </${Bar}>
    <${Refused} error=${error} />
    <main class="scroll" tabindex="0" aria-label="Webhooks">
      ${id && data && !one && html`<p class="empty">There is no such webhook.</p>`}
      ${one && html`<${OneWebhook} key=${id} webhook=${one} onChange=${reload} onSecret=${setMade} />`}
      ${!id && data && html`<${Table} heads=${["name", "address", "hears of", "state"]}>
        ${data.items.map((each) => html`<tr key=${each.id}>
          <td class="wrap named">
            <a href=${address(`webhooks${asQuery({ id: each.id })}`)}>${visible(each.name)}</a>
          </td>
          <td class="wrap">${urlOf(each)}</td>
          <td class="wrap">
            ${typesOf(each)} ${onlyOf(each).map((only) => html`<span class="chip">${visible(only)}</span> `)}
          </td>
          <td class="wrap">${stateOf(each)}</td>
          <td></td>
        </tr>`)}
      </${Table}>`}
      ${data && html`<${Deliveries} key=${`${id} ${state}`} endpoint=${id} state=${state} endpoints=${data.items} />`}
    </main>
    ${adds && html`<${AskWebhook}
      onDone=${(webhook) => {
        setMade(webhook);
        reload();
      }}
      onClose=${() => setAdds(false)}
    />`}
    ${made && html`<${Once} title=${`The secret of ${made.name}`} text=${made.secret} onClose=${() => setMade(null)}>
      Messages are signed with it, as Standard Webhooks say.
    </${Once}>`}
  `;
}
