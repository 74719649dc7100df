// Failures of the last days, those alike together.
import { address, asQuery, count, html, post, useAct, useGet } from "../island/base.js";
import { barred } from "../island/rights.js";
import { Glyph, visible } from "../island/look.js";
import { Ago, Bar, Refused } from "../island/frame.js";
import { How } from "../island/orders.js";

export function Failures() {
  const { data, error, reload } = useGet("failures");
  const { busy, error: refused, act } = useAct();
  const retry = ({ orders }) =>
    act(async () => {
      await post("orders:bulk", { action: "retry", ids: orders.map((order) => order.id ?? order) });
      reload();
    });
  return html`
    <${Bar} title="Failures" count="of the last 7 days">
      <${How} by="failure" />
    </${Bar}>
    <${Refused} error=${error ?? refused} />
    <main class="scroll">
      ${data && !data.items.length && html`<p class="empty">Nothing failed.</p>`}
      <table class="table">
        <tbody>
          ${data?.items.map((each) => html`<tr key=${each.fingerprint}>
            <td class="wrap">
              <a class="row" href=${address(`orders${asQuery({ fingerprint: each.fingerprint })}`)}>
                <${Glyph} name="failed" />
                ${each.reason} ×${count(each.count)}
              </a>
              ${visible(each.detail)}
            </td>
            <td class="hide">${each.agent}</td>
            <td>
              last <${Ago} time=${each.last_at} /> ago
            </td>
            <td class="right">
              <button class="btn" disabled=${busy} ...${barred("write")} onClick=${() => retry(each)}>
                Retry ${each.count > each.orders.length ? `the newest ${each.orders.length}` : each.count}
              </button>
            </td>
          </tr>`)}
        </tbody>
      </table>
    </main>
  `;
}
