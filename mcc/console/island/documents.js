// All documents; and the tree of one, which the inbox shows too.
import { address, asQuery, classes, go, html, shortId, some, useGet, usePlace, useState } from "./base.js";
import { Glyph, Icon, visible } from "./look.js";
import { Ago, Bar, Refused, Segments } from "./frame.js";

const GLYPHS = { pending: "queued", stale: "retry" };

export const Status = ({ of: { status, conflicts } }) => html`<${Glyph}
  name=${conflicts?.length || conflicts > 0 ? "approval" : (GLYPHS[status] ?? status)}
/>`;

// What stands where: "7 done, 4 stale, 1 conflict".
export const counted = ({ conflicts, ...counts }) =>
  [
    ...["done", "stale", "pending", "failed"].map((name) => counts[name] > 0 && `${counts[name]} ${name}`),
    conflicts > 0 && some(conflicts, "conflict"),
  ]
    .filter(Boolean)
    .join(", ");

export function Documents() {
  const { query } = usePlace();
  const status = query.get("status");
  const { data, error } = useGet(`documents${asQuery({ status, cursor: query.get("cursor") })}`);
  return html`
    <${Bar} title="Documents">
      <${Segments}
        label="Which"
        of=${[[null, "all"], ["stale"], ["pending"], ["failed"]]}
        value=${status}
        onPick=${(next) => go(`documents${asQuery({ status: next })}`)}
      />
    </${Bar}>
    <${Refused} error=${error} />
    <main class="scroll">
      ${data && !data.items.length && html`<p class="empty">
        No document${status && ` is ${status}`}. <code>mcc generate course</code> makes one.
      </p>`}
      <table class="table">
        <tbody>
          ${data?.items.map((each) => html`<tr key=${each.id}>
            <td class="wrap">
              <a class="row" href=${address(`documents/${each.id}`)}>
                <${Status} of=${{ status: each.status, conflicts: each.counts.conflicts }} />
                ${visible(each.title || shortId(each.id))}
              </a>
            </td>
            <td class="hide">${counted(each.counts)}</td>
            <td class="hide">${each.blueprint.name}</td>
            <td class="num">${each.version}</td>
            <td class="num"><${Ago} time=${each.updated_at} /></td>
          </tr>`)}
        </tbody>
      </table>
      ${data?.next_cursor && html`<p class="pad">
        <a class="btn" href=${address(`documents${asQuery({ status, cursor: data.next_cursor })}`)}>Earlier</a>
      </p>`}
    </main>
  `;
}

export const labelOf = ({ path, props, metadata, component }) => {
  const title = props.title ?? metadata.title;
  return html`${path.split("/").at(-1) || component}${title && [" · ", visible(String(title))]}`;
};

// The nodes of a document, each below its parent.
export function Tree({ nodes, current, onPick }) {
  const [folded, setFolded] = useState(new Set());
  const isHidden = ({ path }) =>
    [...folded].some((above) => path !== above && path.startsWith(above.replace(/\/?$/, "/")));
  return nodes
    .filter((node) => !isHidden(node))
    .map((node) => html`<div
      class=${classes("node", `d${Math.min(8, node.path.split("/").filter(Boolean).length)}`)}
      key=${node.id}
    >
      ${node.children.length > 0 && html`<button
        class="turn"
        aria-label=${`Fold ${node.path}`}
        aria-expanded=${!folded.has(node.path)}
        onClick=${() => {
          const next = new Set(folded);
          if (!next.delete(node.path)) next.add(node.path);
          setFolded(next);
        }}
      >
        <${Icon} name=${folded.has(node.path) ? "open" : "down"} />
      </button>`}
      <button
        class="entry"
        aria-current=${node.path === current}
        onClick=${() => onPick?.(node.path)}
      >
        <${Status} of=${node} />
        <span class="cut grow">${labelOf(node)}</span>
        <span class="q">${node.version}</span>
      </button>
    </div>`);
}

// The nodes of an outline that waits for approval.
export function Outline({ id }) {
  const { data, error } = useGet(`documents/${id}?limit=200`, 5);
  return html`
    <${Refused} error=${error} />
    ${data && html`<div class="outline"><${Tree} nodes=${data.nodes} /></div>`}
  `;
}
