// What `mcc doctor` finds where the service runs, and its repairs.
import { address, html, post, shortId, some, useAct, useGet, useState } from "../island/base.js";
import { barred } from "../island/rights.js";
import { Glyph, Icon, visible } from "../island/look.js";
import { Ago, Ask, Bar, Refused } from "../island/frame.js";

const STATES = [
  ["broken", "failed"],
  ["warning", ""],
  ["ok", "ok"],
];

export function Doctor() {
  const { data, error, reload } = useGet("doctor");
  const [fixed, setFixed] = useState(null);
  const [asks, setAsks] = useState(false);
  const { busy, error: refused, act } = useAct();
  const told = fixed ?? data;
  const fixes = [...new Set(told?.findings.map(({ fix }) => fix).filter(Boolean))];
  const again = () =>
    act(async () => {
      setFixed(null);
      await reload();
    });
  return html`
    <${Bar}
      title="Doctor"
      count=${told && html`${told.ok ? "nothing is broken" : "something is broken"} · <${Ago} time=${told.at} /> ago`}
    >
      ${fixes.length > 0 && html`<button
        class="btn ink"
        disabled=${busy}
        ...${barred("operate")}
        onClick=${() => setAsks(true)}
      >
        Repair…
      </button>`}
      <button class="btn" disabled=${busy || !told} onClick=${again}>
        Look again
      </button>
    </${Bar}>
    <${Refused} error=${error ?? refused} />
    <main class="scroll" tabindex="0" aria-label="What was found">
      ${!told && !error && html`<p class="empty" role="status">It looks …</p>`}
      ${told?.unrepaired && html`<p class="pad bad-text" role="status">${visible(told.unrepaired)}</p>`}
      ${told?.repairs.map(({ fix, detail, done }) => html`<p class="pad row" role="status">
        <${Glyph} name=${done ? "ok" : "failed"} />
        <b>${fix}</b>
        ${visible(detail)}
      </p>`)}
      ${STATES.map(([state, glyph]) => {
        const findings = told?.findings.filter((finding) => finding.state === state) ?? [];
        return (
          findings.length > 0 && html`
            <h2 class="group">
              ${state} <span class="q">${findings.length}</span>
            </h2>
            ${findings.map(({ what, detail, advice, order_id: order }) => html`<div class="finding">
              ${state === "warning" ? html`<span class="wait-text"><${Icon} name="warning" /></span>` : html`<${Glyph}
                name=${glyph}
              />`}
              <b>${visible(what)}</b>
              <div>
                <p>${visible(detail)}</p>
                ${advice && html`<p class="two">${visible(advice)}</p>`}
                ${order && html`<a href=${address(`orders/${order}`)}>order ${shortId(order)}</a>`}
              </div>
            </div>`)}
          `
        );
      })}
    </main>
    ${asks && html`<${Ask}
      title=${`Make ${some(fixes.length, "repair")}?`}
      word="Repair"
      onYes=${async () => setFixed(await post("doctor/fix"))}
      onClose=${() => setAsks(false)}
    >
      <p class="two">By rule, as <code>mcc doctor --fix</code> does it: ${fixes.join(", ")}.</p>
    </${Ask}>`}
  `;
}
