// Two attempts side by side: what each cost, answered and changed.
import { address, html, shortId, useGet, usePages } from "../island/base.js";
import { visible } from "../island/look.js";
import { Bar, Refused } from "../island/frame.js";
import { Patch } from "../island/changes.js";
import { Side } from "../island/order.js";

function Attempt({ id }) {
  const { data, error } = useGet(`orders/${id}/overview`);
  const order = data?.order;
  const { all, error: refused, more } = usePages(order?.changes && `orders/${id}/changes`, {}, "files");
  return html`<section class="attempt" aria-label=${`Order ${shortId(id)}`} tabindex="0">
    <h2 class="group"><a href=${address(`orders/${id}`)}>${shortId(id)}</a> ${order?.status}</h2>
    <${Refused} error=${error ?? refused} />
    ${order && html`
      <${Side} order=${order} records=${data.records} of=${shortId(id)} />
      <p class="pad prose plain" dir="auto">${visible(order.answer ?? order.detail)}</p>
    `}
    ${all.files.map((file) => html`<${Patch} key=${file.path} order=${order} file=${file} comments=${[]} />`)}
    ${more}
  </section>`;
}

export const Versus = ({ ids }) => html`
  <${Bar} title="Two attempts" back=${`orders/${ids[0]}`} />
  <main class="versus">${ids.map((id) => html`<${Attempt} key=${id} id=${id} />`)}</main>
`;
