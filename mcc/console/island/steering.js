// What a person tells an order: messages to its agents, a fork of it.
import { call, go, html, place, post, useAct, useGet, useState } from "./base.js";
import { visible } from "./look.js";
import { useJoined, useLive } from "./live.js";
import { Ask, Refused } from "./frame.js";

// Where a person writes to an agent, or the next turn. `name`: under which what is not sent is kept in this browser.
export function Composer({ name, label, word, bar, onSend, children }) {
  const [text, setText] = useState(sessionStorage[name] ?? "");
  const { busy, error, act } = useAct();
  const write = (value) => {
    setText(value);
    sessionStorage[name] = value;
  };
  const send = () =>
    text.trim() &&
    act(async () => {
      await onSend(text);
      write("");
    });
  return html`<div class="composer">
    <${Refused} error=${error} />
    <div class="frame">
      <textarea
        id="say"
        rows="2"
        maxlength="20000"
        aria-label=${label}
        placeholder=${bar?.title ?? label}
        ...${bar}
        value=${text}
        onInput=${(event) => write(event.target.value)}
        onKeyDown=${(event) => event.key === "Enter" && (event.ctrlKey || event.metaKey) && send()}
      ></textarea>
      <div class="row">
        ${children}
        <span class="grow"></span>
        <span class="q wide">${word}</span>
        <button class="btn ink" disabled=${busy || !text.trim()} ...${bar} onClick=${send}>
          Send<kbd>Ctrl ↵</kbd>
        </button>
      </div>
    </div>
  </div>`;
}

// What became of the control that was sent last.
function Receipt({ orderId, sent }) {
  const { data, reload } = useGet(sent && `orders/${orderId}/controls`);
  const again = useJoined(reload, 500);
  useLive(({ name, order }) => order === orderId && /^(control|model\.started|end)/.test(name) && again());
  const control = data?.items.find(({ id }) => id === sent);
  return (
    control && html`<span class="q cut" role="status">
      ${control.refused ? (
        visible(control.refused)
      ) : html`
        written${control.delivered_at && " → delivered"}
        ${control.applied_seq && [
          " → applied at ",
          html`<a href=${`#e${control.applied_seq}`}>#${control.applied_seq}</a>`,
        ]}
      `}
    </span>`
  );
}

export function Say({ order, records, over, bar }) {
  const [to, setTo] = useState(null);
  const [sent, setSent] = useState(null);
  const [takes, setTakes] = useState(false);
  const open = records.filter((record) => !record.finished_at);
  const name = records.find(({ id }) => id === to)?.agent ?? order.agent;
  const steer = async (body) =>
    setSent((await post(`orders/${order.id}/steer`, { record_id: to, ...body })).id);
  const send = async (text) => {
    if (!over) return steer({ message: text });
    const placed = await place({ prompt: text, session_id: order.session_id, on_ask: "wait" });
    go(`orders/${placed.id}`);
  };
  return html`
    <${Composer}
      name=${`mcc-say-${order.id}`}
      label=${
        over ? "Go on: the next turn of this session" : `Message ${name}, or ask it to change course`
      }
      word=${over ? "a new order" : "read before its next model call"}
      bar=${bar}
      onSend=${send}
    >
      ${!over && !bar && html`
        ${open.length > 1 && html`<select aria-label="To" onChange=${(event) => setTo(event.target.value || null)}>
          ${open.map((record, index) => html`<option key=${record.id} value=${index ? record.id : ""}>
            To: ${record.agent} ${record.title?.slice(0, 40)}
          </option>`)}
        </select>`}
        <button class="btn bare" onClick=${() => setTakes(true)}>
          Take a tool away
        </button>
      `}
      <${Receipt} orderId=${order.id} sent=${sent} />
    </${Composer}>
    ${takes && html`<${Ask}
      title=${`Take tools away from ${name}`}
      word="Take away"
      field="Tools or groups: at once and for good, from it and all below it"
      onYes=${(text) => steer({ remove_tools: text.split(/[ ,]+/) })}
      onClose=${() => setTakes(false)}
    />`}
  `;
}

export function Fork({ order, last, onClose }) {
  const [prompt, setPrompt] = useState("");
  const fork = async (after) =>
    go(
      `orders/${(await post(`orders/${order.id}/fork`, { after: Number(after), prompt: prompt || null })).id}`,
    );
  return html`<${Ask}
    title="Fork"
    word="Fork"
    field="after entry"
    type="number"
    value=${last}
    onYes=${fork}
    onClose=${onClose}
  >
    <p class="two">A new order, in a session of its own, that begins with the entries up to this one.</p>
    <label>
      <span class="label">What it shall hear next</span>
      <textarea value=${prompt} onInput=${(event) => setPrompt(event.target.value)}></textarea>
    </label>
  </${Ask}>`;
}
