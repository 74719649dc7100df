// What orders used, day by day: by agent, model, label, drone, person or token.
import { asQuery, clock, count, go, html, money, short, some, useGet, usePlace } from "../island/base.js";
import { barred } from "../island/rights.js";
import { visible } from "../island/look.js";
import { Who } from "../island/who.js";
import { Bar, Refused, Segments } from "../island/frame.js";

const dayBefore = (days) => new Date(Date.now() - days * 86_400_000).toISOString().slice(0, 10);

const cached = (of) => (of.input_tokens ? `${Math.round((100 * of.cached_input_tokens) / of.input_tokens)} %` : "–");

// By key, the sums of all figures over all days.
function summed(rows) {
  const sums = {};
  for (const { key, day, ...used } of rows) {
    const sum = (sums[key] ??= {});
    for (const field of Object.keys(used)) {
      sum[field] = used[field] + (sum[field] ?? 0);
    }
  }
  return sums;
}

export function UsagePage() {
  const { query } = usePlace();
  const by = query.get("by") ?? "agent";
  const days = Number(query.get("days") ?? "30");
  const asked = { from: dayBefore(days - 1), to: dayBefore(0) };
  const { data, error } = useGet(`usage${asQuery({ by, ...asked })}`);
  // An order may have several labels, but each counts once in its day.
  const daily = summed(useGet(`usage${asQuery({ by: "day", ...asked })}`).data?.days ?? []);
  const tokens = useGet(by === "token" ? `tokens${asQuery({ all: !barred("admin"), limit: 200 })}` : null, 50).data;
  const pick = (name) => (value) => go(`usage${asQuery({ [name]: value }, query)}`, true);
  const { totals, open } = data ?? {};
  const inMoney = totals?.cost_usd > 0;
  const worth = (of) => (of ? (inMoney ? of.cost_usd : of.input_tokens + of.output_tokens) : 0);
  const keys = Object.entries(summed(data?.days ?? [])).sort((a, b) => worth(b[1]) - worth(a[1]));
  const top = Math.max(1e-9, ...Object.values(daily).map(worth));
  const told = (value) => (inMoney ? money(value) : short(value));
  return html`
    <${Bar} title="Usage" count=${data?.since && `since ${clock(data.since)}`} />
    <${Refused} error=${error} />
    <main class="holds">
      <div class="filters">
        <${Segments}
          label="By"
          of=${[["agent"], ["model"], ["label"], ["drone"], ["person"], ["token"]]}
          value=${by}
          onPick=${pick("by")}
      />
        <${Segments} label="Days" of=${[[7], [30], [90]]} value=${days} onPick=${pick("days")} />
      </div>
      <div class="scroll" tabindex="0" role="region" aria-label="What was used">
      ${data && html`<div class="figures">
        ${[
          [
            money(totals.cost_usd),
            totals.unpriced ? `spent, ${totals.unpriced} unknown` : "spent",
          ],
          [short(totals.input_tokens), `tokens in, ${cached(totals)} from cache`],
          [short(totals.output_tokens), "tokens out"],
          [count(totals.orders), `orders ended, ${totals.failed} failed`],
          [money(open.cost_usd), `by ${some(open.orders, "order")} at work`],
        ].map(([figure, word]) => html`<div><b>${figure}</b><span>${word}</span></div>`)}
      </div>`}
      ${data && !keys.length && html`<p class="empty">No order ended in these days.</p>`}
      ${keys.length > 0 && html`
        <svg class="bars" viewBox="0 0 1000 200" role="img" aria-label=${inMoney ? "Dollars a day" : "Tokens a day"}>
          ${[0, 0.5, 1].map((share) => html`
            <line x1="90" x2="1000" y1=${170 - 150 * share} y2=${170 - 150 * share} />
            <text x="84" y=${174 - 150 * share} text-anchor="end">${told(top * share)}</text>
          `)}
          ${Array.from({ length: days }, (_, index) => {
            const name = dayBefore(days - 1 - index);
            const value = worth(daily[name]);
            const x = 94 + (index * 900) / days;
            return html`
              <rect x=${x} y=${170 - (150 * value) / top} width=${680 / days} height=${(150 * value) / top}>
                <title>${name}: ${told(value)}</title>
              </rect>
              ${index % Math.ceil(days / 7) === 0 && html`<text x=${x} y="190">${name.slice(5)}</text>`}
            `;
          })}
        </svg>
        <table class="table">
          <thead>
            <tr>
              <th>${by}</th>
              <th class="num">orders</th>
              <th class="num hide">failed</th>
              <th class="num hide">tokens in</th>
              <th class="num hide">cached</th>
              <th class="num hide">out</th>
              <th class="num">spent</th>
            </tr>
          </thead>
          <tbody>
            ${keys.map(([key, used]) => html`<tr key=${key}>
              <td class="wrap">${by === "person" && key ? html`<${Who} id=${key} />` : visible(
                tokens?.items.find(({ id }) => id === key)?.name ?? (key || "none"),
              )}</td>
              <td class="num">${count(used.orders)}</td>
              <td class="num hide">${count(used.failed)}</td>
              <td class="num hide">${short(used.input_tokens)}</td>
              <td class="num hide">${cached(used)}</td>
              <td class="num hide">${short(used.output_tokens)}</td>
              <td class="num">${money(used.cost_usd)}${used.unpriced > 0 && " and unknown"}</td>
            </tr>`)}
          </tbody>
        </table>
      `}
      </div>
    </main>
  `;
}
