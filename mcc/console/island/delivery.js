// How the work of an order comes back to its git address: what is wished, what became of it, and another try.
import { clock, go, html, once, post, useAct, useState } from "./base.js";
import { visible } from "./look.js";
import { Ask, Facts, Refused } from "./frame.js";

// An address that a forge has told: a link only where it leads to a page.
const Outside = ({ url, children }) =>
  /^https?:\/\//i.test(url)
    ? html`<a href=${url} target="_blank" rel="noopener noreferrer nofollow">${children}</a>`
    : html`${children} ${visible(url)}`;

function AskDelivery({ order, onClose }) {
  const [form, setForm] = useState({ pull_request: true, ...order.deliver });
  const field = (name, word) => html`<label>
    <span class="label">${word}</span>
    <input
      class="field"
      value=${form[name] ?? ""}
      onInput=${(event) => setForm({ ...form, [name]: event.target.value || null })}
    />
  </label>`;
  return html`<${Ask}
    title="Deliver its work?"
    word="Deliver"
    onYes=${async () => {
      const placed = await once(`orders/${order.id}/deliver`, form, { "MCC-Attended": "true" });
      go(`orders/${placed.id}`);
    }}
    onClose=${onClose}
  >
    <p class="two">
      The next turn of the session commits what is not committed, and pushes the session’s branch. It calls no model; a
      push cannot be taken back.
    </p>
    <label class="choice">
      <input
        type="checkbox"
        checked=${form.pull_request}
        onChange=${(event) => setForm({ ...form, pull_request: event.target.checked })}
      />
      Open a request to merge it, or update the one there is
    </label>
    ${field("base", "Into which branch, if not the one that it began with")}
    ${field("branch", "From which branch, if not the session’s")}
    ${field("title", "Title, if not the first line of the prompt")}
  </${Ask}>`;
}

export function Delivery({ order, over, bar }) {
  const [asks, setAsks] = useState(false);
  const { busy, error, act } = useAct();
  const { deliver, delivery, waits_for: waits } = order;
  const { commit, request, branch, base, why } = delivery ?? {};
  const can = over && /^(chat|generate|deliver)$/.test(order.kind) && order.workspace?.includes("://");
  if (!can && !deliver && !delivery) return null;
  return html`<section class="box failure delivery" aria-label="Delivery">
    <p class="row">
      <b class="grow">Delivery</b>
      ${can && html`<button class="btn" ...${bar} onClick=${() => setAsks(true)}>
        ${delivery ? "Deliver again…" : "Deliver…"}
      </button>`}
    </p>
    ${!delivery && html`<p class="two">
      ${over
        ? "Its work is in its checkout alone."
        : `Its branch is pushed once its result is accepted${deliver.pull_request ? ", and a request opened" : ""}.`}
    </p>`}
    ${waits?.kind === "delivery" && html`<p class="wait-text">
      ${visible(waits.message)}; try ${waits.tries} at ${clock(waits.until)}${" "}
      <button class="btn" disabled=${busy} ...${bar} onClick=${() => act(() => post(`orders/${order.id}/resume`))}>
        Try now
      </button>
    </p>`}
    <${Refused} error=${error} />
    <${Facts} of=${[
      ["Forge", delivery?.project && visible(`${delivery.project} at ${delivery.forge}`)],
      ["Branch", branch && visible(`${branch} → ${base}`)],
      ["Commit", commit && html`<code title=${commit}>${commit.slice(0, 10)}</code>`],
      [
        "Request",
        request && html`<${Outside} url=${request.url}>#${request.number}</${Outside}> ${request.state},${" "}
          ${request.created ? "opened by this delivery" : "updated"}`,
      ],
      [commit ? "But" : "Not, as", why && html`<span class="wait-text">${visible(why)}</span>`],
    ]} />
    ${asks && html`<${AskDelivery} order=${order} onClose=${() => setAsks(false)} />`}
  </section>`;
}
