// Who is who: people, tokens, and what the audit keeps of what they did.
import {
  address, asQuery, call, classes, clock, go, html, post, shortId, useAct, useGet, usePages, usePlace, useState,
} from "../island/base.js";
import { barred, isMine } from "../island/rights.js";
import { visible } from "../island/look.js";
import { Ask, Bar, Choice, Refused, Segments, Table } from "../island/frame.js";
import { Who } from "../island/who.js";
import { Once } from "./secret.js";

const ROLES = ["viewer", "member", "operator", "admin"];

const RIGHTS = ["read", "write", "operate", "metrics", "admin"];

export function People() {
  const { data, error, reload } = useGet("people?limit=200", 50);
  const { busy, error: refused, act } = useAct();
  const [asks, setAsks] = useState(null);
  const [link, setLink] = useState(null);
  const [role, setRole] = useState("member");
  const [email, setEmail] = useState("");
  const close = () => setAsks(null);
  const invite = async ({ id, name }) => setLink({ name, ...(await post(`people/${id}/link`)) });
  const change = (person, method, changes) =>
    act(() => call(method, `people/${person.id}`, changes).finally(reload));
  return html`
    <${Bar} title="People" count=${data?.items.length}>
      <button class="btn ink" ...${barred("admin")} onClick=${() => setAsks({})}>Add a person</button>
    </${Bar}>
    <${Refused} error=${error ?? refused} />
    <main class="scroll">
      ${data && !data.items.length && html`<p class="empty">
        Nobody but you, who came by a link of <code>mcc up</code>.
      </p>`}
      ${data?.items.length > 0 && html`<${Table} heads=${["name", "role", ["last seen", "hide"]]}>
        ${data.items.map((person) => html`<tr key=${person.id}>
          <td class=${classes("wrap", person.disabled && "q")}>
            <bdi>${visible(person.name)}</bdi>${" "}
            <span class="q">${isMine(person.principal) ? "you" : visible(person.email)}</span>
            ${person.disabled && html`<span class="chip bad">disabled</span>`}
          </td>
          <td>
            <${Choice}
              label=${`Role of ${person.name}`}
              of=${ROLES}
              value=${person.role}
              disabled=${person.by === "oidc"}
              title=${person.by === "oidc" && "The groups of the provider say it."}
              onPick=${(next) => change(person, "PATCH", { role: next })}
            />
          </td>
          <td class="hide">${clock(person.last_seen_at)}</td>
          <td class="right">
            <button class="btn" disabled=${busy || person.disabled} onClick=${() => act(() => invite(person))}>
              Link
            </button>
            <button
              class="btn"
              disabled=${busy}
              onClick=${() => change(person, "PATCH", { disabled: !person.disabled })}
            >
              ${person.disabled ? "Enable" : "Disable"}
            </button>
            <button class="btn danger" onClick=${() => setAsks(person)}>Remove</button>
          </td>
        </tr>`)}
      </${Table}>`}
    </main>
    ${asks && !asks.id && html`<${Ask}
      title="Add a person"
      word="Add"
      field="Name"
      onYes=${async (name) => {
        const person = await post("people", { name, role, ...(email && { email }) });
        reload();
        invite(person);
      }}
      onClose=${close}
    >
      <${Choice} label="Role" shown of=${ROLES} value=${role} onPick=${setRole} />
      <label>
        <span class="label">E-mail, if it helps to tell them apart</span>
        <input class="field" value=${email} onInput=${(event) => setEmail(event.target.value)} />
      </label>
    </${Ask}>`}
    ${asks?.id && html`<${Ask}
      title=${`Remove ${asks.name}?`}
      word="Remove"
      onYes=${() => call("DELETE", `people/${asks.id}`).finally(reload)}
      onClose=${close}
    >
      <p class="two">
        Signed out everywhere, and all their tokens end, for good. What they did stays, without their name.
      </p>
    </${Ask}>`}
    ${link && html`<${Once} title=${`A link for ${link.name}`} text=${link.url} onClose=${() => setLink(null)}>
      Whoever opens it first is signed in as this person, until ${clock(link.expires_at)}.
    </${Once}>`}
  `;
}

export function Tokens() {
  const { query } = usePlace();
  const all = query.get("all");
  const { data, error, reload } = useGet(`tokens${asQuery({ all, limit: 200 })}`, 50);
  const { busy, error: refused, act } = useAct();
  const [asks, setAsks] = useState(false);
  const [made, setMade] = useState(null);
  const [form, setForm] = useState({ kind: "personal", role: "member", days: 90, scopes: ["read", "write"] });
  const change = (next) => setForm({ ...form, ...next });
  const make = async (name) => {
    const { kind, role, days, scopes } = form;
    setMade(await post("tokens", {
      name, kind, scopes, expires_in_days: days ? Number(days) : null, ...(kind === "service" && { role }),
    }));
    reload();
  };
  return html`
    <${Bar} title="Tokens" count=${data?.items.length}>
      ${!barred("admin") && html`<${Segments}
        label="Whose"
        of=${[[null, "Own"], ["true", "All"]]}
        value=${all}
        onPick=${(next) => go(`tokens${asQuery({ all: next })}`)}
      />`}
      <button class="btn ink" onClick=${() => setAsks(true)}>Make a token</button>
    </${Bar}>
    <${Refused} error=${error ?? refused} />
    <main class="scroll">
      ${data && !data.items.length && html`<p class="empty">
        No token yet.
      </p>`}
      ${data?.items.length > 0 && html`<${Table}
        heads=${["name", ["of", "hide"], "may", ["last used", "hide"], "ends"]}
      >
        ${data.items.map((token) => html`<tr key=${token.id}>
          <td class="wrap"><bdi>${visible(token.name)}</bdi> <code class="q">${token.prefix}…</code></td>
          <td class="hide">${token.role ?? html`<${Who} id=${token.principal} />`}</td>
          <td class="wrap">${token.scopes.join(", ")}</td>
          <td class="hide">${clock(token.last_used_at)}</td>
          <td>${token.revoked_at ? "revoked" : token.expires_at ? clock(token.expires_at) : "never"}</td>
          <td class="right">
            ${!token.revoked_at && html`<button
              class="btn danger"
              disabled=${busy}
              onClick=${() => act(() => call("DELETE", `tokens/${token.id}`).finally(reload))}
            >
              Revoke
            </button>`}
          </td>
        </tr>`)}
      </${Table}>`}
    </main>
    ${asks && html`<${Ask} title="Make a token" word="Make" field="Name" onYes=${make} onClose=${() => setAsks(false)}>
      ${!barred("admin") && html`<${Choice}
        label="Kind"
        shown
        of=${["personal", "service"]}
        value=${form.kind}
        onPick=${(kind) => change({ kind })}
      />`}
      ${form.kind === "service" && html`<${Choice}
        label="Its role"
        shown
        of=${ROLES}
        value=${form.role}
        onPick=${(role) => change({ role })}
      />`}
      <p class="label">It may</p>
      ${RIGHTS.map((scope) => html`<label class="choice">
        <input
          type="checkbox"
          checked=${form.scopes.includes(scope)}
          ...${barred(scope)}
          onChange=${() => change({
            scopes: RIGHTS.filter((each) => form.scopes.includes(each) !== (each === scope)),
          })}
        />
        ${scope}
      </label>`)}
      <label>
        <span class="label">Days until it ends; none: never, which only a service may</span>
        <input
          class="field"
          type="number"
          min="1"
          max="365"
          value=${form.days}
          onInput=${(event) => change({ days: event.target.value })}
        />
      </label>
    </${Ask}>`}
    ${made && html`<${Once} title=${`The token ${made.name}`} text=${made.token} onClose=${() => setMade(null)}>
      Give it to a program as <code>MCC_TOKEN</code>.
    </${Once}>`}
  `;
}

const ASKED = [
  ["who", "Who"],
  ["kind", "What"],
  ["order_id", "Order"],
  ["since", "Since", "datetime-local"],
  ["until", "Before", "datetime-local"],
];

function Notes({ asked }) {
  const { all, error, more } = usePages("audit", asked, "items");
  return html`
    <${Refused} error=${error} />
    <${Table} heads=${["when", "who", "what", ["order", "hide"], "in particular"]}>
      ${all.items.map(({ id, at, principal, kind, order_id: order, detail }) => html`<tr key=${id}>
        <td>${clock(at)}</td>
        <td class="wrap">
          <a href=${address(`audit${asQuery({ who: principal })}`)}><${Who} id=${principal} /></a>${" "}
          <span class="q">${principal.split(":", 1)}</span>
        </td>
        <td><a href=${address(`audit${asQuery({ kind })}`)}>${kind}</a></td>
        <td class="hide">${order && html`<a href=${address(`orders/${order}`)}>${shortId(order)}</a>`}</td>
        <td class="wrap" dir="auto">
          ${Object.entries(detail).map(([name, value]) => html`<span class="q">${visible(name)}</span>${" "}
            ${value?.split?.(":")[1]
              ? html`<${Who} id=${value} />`
              : visible(value?.split ? value : JSON.stringify(value))}
            ${" "}`)}
        </td>
        <td></td>
      </tr>`)}
    </${Table}>
    ${more}
  `;
}

export function Audit() {
  const { query } = usePlace();
  // Times are those of the place where somebody reads.
  const asked = Object.fromEntries(ASKED.map(([name, , type]) => {
    const value = query.get(name);
    return [name, type && Date.parse(value) ? new Date(value).toISOString() : value];
  }));
  return html`
    <${Bar} title="Audit" />
    <main class="holds">
      <div class="filters">
        ${ASKED.map(([name, word, type = "search"]) => html`<label class="q" key=${name}>
          ${word}
          <input
            class="field"
            type=${type}
            value=${query.get(name) ?? ""}
            onChange=${(event) => go(`audit${asQuery({ [name]: event.target.value }, query)}`, true)}
          />
        </label>`)}
      </div>
      <div class="scroll" tabindex="0" role="region" aria-label="What was done">
        <${Notes} key=${query} asked=${asked} />
      </div>
    </main>
  `;
}
