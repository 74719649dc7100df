// Triggers: what from outside becomes an order, and what became of each delivery.
import { address, asQuery, clock, count, html, shortId, usePlace } from "../island/base.js";
import { barred } from "../island/rights.js";
import { Exact, visible } from "../island/look.js";
import { Bar, Facts, Refused, Table } from "../island/frame.js";
import { Who } from "../island/who.js";
import { useLively } from "./lively.js";

const TONES_OF_VERDICTS = { placed: "good", refused: "bad" };

const Verdict = ({ of }) => html`<span class=${`chip ${TONES_OF_VERDICTS[of] ?? ""}`}>${of.replace("_", " ")}</span>`;

const replyOf = ({ reply }) => reply && Object.entries(reply).map(([name, value]) => `${name} ${value}`).join(", ");

function DeliveriesTo({ name }) {
  const { data, error, more } = useLively(`triggers/${encodeURIComponent(name)}/deliveries`);
  return html`
    <${Refused} error=${error} />
    ${data && !data.items.length && html`<p class="empty">Nothing was delivered to it within 90 days.</p>`}
    ${data?.items.length > 0 && html`<${Table} heads=${["at", "came to", ["known by", "hide"]]}>
      ${data.items.map((each) => html`<tr key=${each.key}>
        <td>${clock(each.at)}</td>
        <td class="wrap">
          <${Verdict} of=${each.verdict} />${" "}
          ${each.order_id && html`<a href=${address(`orders/${each.order_id}`)}>order ${shortId(each.order_id)}</a>`}
          ${each.why && html`<span class="two">${visible(each.why)}</span>`}
        </td>
        <td class="wrap hide"><code class="q">${visible(each.key)}</code></td>
        <td></td>
      </tr>`)}
    </${Table}>`}
    ${more}
  `;
}

const OneTrigger = ({ trigger, bar }) => html`
  <div class="pad">
    <${Facts} of=${[
      ["Address", html`<code>${visible(trigger.url)}</code>`],
      ["Signed as", trigger.scheme],
      ["As", html`<${Who} id=${trigger.principal} />`],
      ["Takes", trigger.when && html`<${Exact} text=${trigger.when} />`],
      ["Session", trigger.session ? html`<code>${visible(trigger.session)}</code>` : "a new one each time"],
      ["Replies to", visible(replyOf(trigger))],
      ["Bounds", `${count(trigger.turns_an_hour)} turns an hour, ${trigger.max_body_mb} MB a delivery`],
    ]} />
  </div>
  <h2 class="group">Its order</h2>
  <div class="pad"><${Exact} text=${JSON.stringify(trigger.order, null, 2)} /></div>
  <h2 class="group">Deliveries</h2>
  ${bar ? html`<p class="pad wait-text">${bar.title}</p>` : html`<${DeliveriesTo} name=${trigger.name} />`}
`;

export function Triggers() {
  const { query } = usePlace();
  const name = query.get("name");
  const { data, error } = useLively("triggers");
  const one = name && data?.items.find((each) => each.name === name);
  return html`
    <${Bar}
      title=${name ? visible(name) : "Triggers"}
      count=${!name && data?.items.length}
      back=${name && "triggers"}
    />
    <${Refused} error=${error} />
    <main class="scroll" tabindex="0" aria-label="Triggers">
      ${data && !data.items.length && html`<p class="empty">
        Nothing from outside becomes an order: a table <code>[triggers.NAME]</code> in mcc.toml says what does.
      </p>`}
      ${name && data?.items.length > 0 && !one && html`<p class="empty">There is no such trigger.</p>`}
      ${one && html`<${OneTrigger} key=${name} trigger=${one} bar=${barred("operate")} />`}
      ${!name && data?.items.length > 0 && html`<${Table}
        heads=${["name", "address", ["session", "hide"], ["replies to", "hide"], "within a day", "last"]}
      >
        ${data.items.map((each) => html`<tr key=${each.name}>
          <td class="wrap named">
            <a href=${address(`triggers${asQuery({ name: each.name })}`)}>${visible(each.name)}</a>
          </td>
          <td class="wrap">${each.scheme} <code class="q">/hooks/${visible(each.path)}</code></td>
          <td class="wrap hide">${each.session && html`<code>${visible(each.session)}</code>`}</td>
          <td class="wrap hide">${visible(replyOf(each))}</td>
          <td class="wrap">
            ${Object.entries(each.counts).map(([verdict, number]) => html`
              <${Verdict} of=${verdict} /> ${count(number)}${" "}
            `)}
          </td>
          <td class="wrap">
            ${each.last ? html`<${Verdict} of=${each.last.verdict} /> ${clock(each.last.at)}` : "nothing yet"}
          </td>
          <td></td>
        </tr>`)}
      </${Table}>`}
    </main>
  `;
}
