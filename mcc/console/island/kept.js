// Files and pictures of an order: what it was given, and what its tools answered that is too long for a row.
import { address, count, html, usePages } from "./base.js";
import { Icon, visible } from "./look.js";
import { Refused } from "./frame.js";

const keptIn = ({ seq, data }) =>
  [
    data.artifact && { artifact: data.artifact, name: `${data.name}, the whole text` },
    ...(data.images ?? []),
    ...(data.attachments ?? []).map((given) => given.image ?? given),
  ]
    .filter((each) => each?.artifact)
    .map((each) => ({ ...each, seq }));

export function Kept({ id }) {
  const asked = { kind: ["agent.started", "tool.finished"], limit: 200 };
  const { all, error, more } = usePages(`orders/${id}/journal`, asked, "items");
  const items = all.items.flatMap(keptIn);
  return html`
    <${Refused} error=${error} />
    ${items.length > 0 && html`<h2 class="group">
      Files and pictures <span class="q">${items.length}</span>
    </h2>`}
    ${items.map(({ artifact, name, media_type: type, bytes, seq }) => {
      const content = address(`api/v1/orders/${id}/artifacts/${artifact}/content`);
      return html`<figure class="shown" key=${seq + artifact}>
        ${type && html`<img src=${content} alt=${name || "A picture"} loading="lazy" />`}
        <figcaption class="pad row">
          <${Icon} name="file" />
          <a class="cut" href=${content} download>${visible(name || "A picture")}</a>
          <span class="q grow">${bytes > 0 && `${count(bytes)} bytes`}</span>
          <a class="q" href=${address(`orders/${id}#e${seq}`)}>#${seq}</a>
        </figcaption>
      </figure>`;
    })}
    ${more}
  `;
}
