// What an order changed, and comments on lines, which are sent together; and its journal, entry by entry.
import {
  asQuery,
  call,
  get,
  go,
  html,
  once,
  some,
  useAct,
  useEffect,
  useGet,
  usePages,
  useState,
} from "./base.js";
import { barred } from "./rights.js";
import { Exact, Icon, diffLine, visible } from "./look.js";
import { useJoined } from "./live.js";
import { Kept } from "./kept.js";
import { Refused, useKeys } from "./frame.js";

// A field that a click has brought has the focus; `autofocus` takes it from nothing that has it.
const focus = (element) => element?.focus();

export function Patch({ order, file, comments, onComment }) {
  const { all, error, more } = usePages(`orders/${order.id}/changes/file`, { path: file.path }, "hunks");
  const said = (side, line) =>
    comments.find((each) => each.path === file.path && each.side === side && each.line === line);
  return html`<details class="patch" open=${file.added + file.removed <= 400}>
    <summary class="file-head">
      <${Icon} name="file" />
      <span class="grow cut">
        ${file.from && [visible(file.from), " → "]}
        ${visible(file.path)}
      </span>
      <span class="q">${file.binary ? "binary" : file.change}</span>
      <span class="good-text">+${file.added}</span>
      <span class="bad-text">−${file.removed}</span>
    </summary>
    <${Refused} error=${error} />
    <div class="diff" tabindex="0" role="region" aria-label=${`Changes of ${file.path}`}>
      <table>
        <tbody>
          ${all.hunks.map((hunk) => html`
            <tr class="hunk">
              <td colspan="4">${visible(hunk.header)}</td>
            </tr>
            ${hunk.lines.map(([sign, old, fresh, parts]) => {
              const [side, line] = sign === "-" ? ["old", old] : ["new", fresh];
              const mine = said(side, line);
              const number = onComment ? html`<button
                class="mark"
                aria-label=${`Comment on line ${line}`}
                onClick=${() => mine || onComment({ path: file.path, side, line, text: "" })}
              >
                ${fresh ?? "·"}
              </button>` : fresh;
              return html`
                ${diffLine(
                  sign,
                  old,
                  number,
                  parts.map(([name, text]) => html`<span class=${name}>${visible(text)}</span>`),
                )}
                ${mine && html`<tr>
                  <td colspan="4">
                    <div class="box said">
                      <textarea
                        ref=${mine.text ? null : focus}
                        aria-label=${`Comment on line ${line}`}
                        value=${mine.text}
                        onInput=${(event) => onComment({ ...mine, text: event.target.value })}
                      ></textarea>
                      <div class="foot">
                        <span class="q grow">line ${line}, not sent yet</span>
                        <button class="btn bare" onClick=${() => onComment(mine, true)}>
                          Discard
                        </button>
                      </div>
                    </div>
                  </td>
                </tr>`}
              `;
            })}
          `)}
        </tbody>
      </table>
    </div>
    ${more}
  </details>`;
}

// What it changed, and comments on lines, which are sent together.
export function Changes({ order, over }) {
  const { all, error, more } = usePages(order.changes && `orders/${order.id}/changes`, {}, "files");
  const drafts = `orders/${order.id}/drafts`;
  const kept = useGet(order.changes && drafts).data;
  const [comments, setComments] = useState([]);
  const { busy, error: refused, act } = useAct();
  useEffect(() => {
    if (kept) setComments(kept.drafts?.comments ?? []);
  }, [kept]);
  const keep = useJoined(() => call("PUT", drafts, { comments }).catch(() => {}), 500);
  const change = (next) => {
    setComments(next);
    keep();
  };
  const comment = (mine, drop) =>
    change([
      ...comments.filter(
        (each) => each.path !== mine.path || each.side !== mine.side || each.line !== mine.line,
      ),
      ...(drop ? [] : [mine]),
    ]);
  const bar = barred("write", order.principal);
  const ready = bar ? [] : comments.filter(({ text }) => text.trim());
  const send = () =>
    ready.length &&
    act(async () => {
      const answer = await once(`orders/${order.id}/review`, { comments: ready });
      change([]);
      go(`orders/${answer.session_id ? answer.id : order.id}`);
    });
  useKeys({ s: send });
  return html`<main class="scroll">
    <${Refused} error=${error ?? refused} />
    ${!order.changes && html`<p class="empty">
      ${over
        ? "It changed nothing."
        : "What it changed stands here once it is over; each write shows what it does."}
    </p>`}
    <p class="pad q">
      ${all.base && `against ${all.base.slice(0, 8)}`} ${all.branch && `on ${all.branch}`}${" "}
      ${all.commits?.map((commit) => visible(commit.subject))}
    </p>
    ${all.files.map((file) => html`<${Patch}
      key=${file.path}
      order=${order}
      file=${file}
      comments=${comments}
      onComment=${bar ? null : comment}
    />`)}
    ${more}
    <${Kept} id=${order.id} />
    ${ready.length > 0 && html`<div class="send-bar">
      <${Icon} name="comment" />
      <b class="grow">${some(ready.length, "comment")}</b>
      <button class="btn ink" disabled=${busy} onClick=${send}>
        ${over ? "Send as the next turn" : "Send as one message"}
        <kbd>S</kbd>
      </button>
    </div>`}
  </main>`;
}

// What a model was asked with; marked as far as its provider had it in its cache.
function AskedWith({ id, seq }) {
  const { all, error, more } = usePages(`orders/${id}/calls/${seq}`, {}, "messages");
  if (!all.of) return html`<${Refused} error=${error} />`;
  const told = (list) =>
    list.map((one) => one.text ?? one.content ?? JSON.stringify(one, null, 2)).join("\n");
  const parts = [
    ["system", all.system],
    ["tools", told(all.tools)],
    ...all.messages.map(({ role, seq, blocks }) => [[role, seq].join(" "), told(blocks)]),
  ];
  let cached = all.cached_share * parts.reduce((sum, [, text]) => sum + text.length, 0);
  return html`
    ${parts.map(([name, text]) => html`<details class=${(cached -= text.length) > -text.length && "cached"}>
      <summary>${name}</summary>
      <${Exact} text=${text} />
    </details>`)}
    ${more}
  `;
}

export function Journal({ id, records, last, query, calls }) {
  const [items, setItems] = useState([]);
  const [end, setEnd] = useState(0);
  const [open, setOpen] = useState();
  const { busy, error, act } = useAct();
  const asked = { kind: calls ? "model.started" : query.get("kind"), record_id: query.get("record") };
  const read = (after, before) =>
    act(async () => {
      const page = await get(`orders/${id}/journal${asQuery({ ...asked, after, limit: 100 })}`);
      const read = page.items.at(-1)?.seq ?? 0;
      setItems([...before, ...page.items].slice(-500));
      // Behind the last one of a kind there may be others, which are not asked for.
      setEnd(page.next_cursor ? read : Math.max(read, last));
    });
  useEffect(() => {
    read(0, []);
  }, [asked.kind, asked.record_id]);
  const set = (name) => (event) =>
    go(`orders/${id}${asQuery({ [name]: event.target.value.trim() }, query)}`, true);
  return html`<main class="holds">
    <div class="filters">
      ${!calls && html`<input
        class="field"
        aria-label="Kind"
        placeholder="Kind, such as tool.finished"
        value=${asked.kind ?? ""}
        onChange=${set("kind")}
      />`}
      <select aria-label="Agent" value=${asked.record_id ?? ""} onChange=${set("record")}>
        <option value="">every agent</option>
        ${[...records.values()].slice(0, 300).map((record) => html`<option key=${record.id} value=${record.id}>
          ${record.agent} ${record.title?.slice(0, 40)}
        </option>`)}
      </select>
    </div>
    <${Refused} error=${error} />
    <div class="scroll" tabindex="0">
      ${items.map((entry) => html`<details
        class="journal"
        key=${entry.seq}
        id=${`e${entry.seq}`}
        onToggle=${(event) => event.target.open && setOpen(entry.seq)}
      >
        <summary>
          <span>${entry.seq}</span>
          <span>${entry.kind}</span>
          <span class="hide">${entry.agent}</span>
          <span class="q cut">${visible(JSON.stringify(entry.data).slice(0, 200))}</span>
        </summary>
        ${calls
          ? open === entry.seq && html`<${AskedWith} id=${id} seq=${open} />`
          : html`<${Exact} text=${JSON.stringify(entry, null, 2)} open />`}
      </details>`)}
      ${end < last && html`<p class="pad">
        <button class="btn" disabled=${busy} onClick=${() => read(end, items)}>
          Go on
        </button>
      </p>`}
    </div>
  </main>`;
}
