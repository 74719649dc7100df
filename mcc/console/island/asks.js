// What asks a person, each in a box of its own: a call, an outline, a memory, questions; and how an order ended.
import {
  address,
  classes,
  clock,
  firstLine,
  go,
  html,
  money,
  post,
  since,
  some,
  span,
  tokensOf,
  useAct,
  useEffect,
  useGet,
  useRef,
  useState,
} from "./base.js";
import { barred } from "./rights.js";
import { Diff, Exact, Glyph, Icon, hiddenIn, isLong, visible } from "./look.js";
import { useNow } from "./live.js";
import { Facts, Refused, Segments, useKeys } from "./frame.js";
import { Outline } from "./documents.js";

export const ASKS = ["approval", "outline", "question", "note"];

const SCOPES = [
  [null, "This call"],
  ["order", "Order"],
  ["session", "Session"],
  ["workspace", "Workspace"],
];

// Shorter than this, it was not seen: a key or click was meant for what stood there before.
const SEEN_MILLISECONDS = 500;

export const timeOf = (item) => item.requested_at ?? item.at;

export const isAsk = (item) => ASKS.includes(item.kind);

export function said(item) {
  if (item.kind === "ready") return firstLine(item.title);
  if (!isAsk(item)) return item.detail ? firstLine(item.detail) : (item.reason ?? "makes no progress");
  const wish = {
    approval: `asks for ${item.tool}`,
    outline: "asks for its outline",
    note: `would remember ${item.name}`,
    question: `asks: ${firstLine(item.question)}`,
  };
  return `${item.agent ?? "An agent"} ${wish[item.kind]}`;
}

function Expires({ time, then }) {
  const left = -since(time, useNow());
  return (
    time && html`<span class=${left < 3600 ? "wait-text" : "q"}>
      ${left > 0 ? `expires in ${span(left)}, then ${then}` : "expired"}
    </span>`
  );
}

const Box = ({ item, focused, place, title, children, foot, busy }) => {
  const box = useRef();
  useEffect(() => {
    if (focused) box.current.scrollIntoView({ block: "nearest" });
  }, [focused]);
  return html`<section
    ref=${box}
    class=${classes("box", focused && "focused")}
    aria-busy=${Boolean(busy)}
    aria-label=${said(item)}
  >
    <div class="head">
      <${Glyph} name=${item.kind} />
      <span class="grow">${title}</span>
      ${item.effects && html`<span class="chip">${item.effects}</span>`}
      ${item.profile && html`<span class="chip">${visible(item.profile)}</span>`}
      <span class="q">${place}</span>
    </div>
    ${children}
    <div class="foot">${foot}</div>
  </section>`;
};

const callOf = ({ arguments: given = {} }) =>
  typeof given.command === "string" && Object.keys(given).length === 1
    ? given.command
    : JSON.stringify(given, null, 2);

// Whether these have been the same for a while.
function useLasting(things) {
  const [lasts, setLasts] = useState(false);
  useEffect(() => {
    setLasts(false);
    const timer = setTimeout(setLasts, SEEN_MILLISECONDS, true);
    return () => clearTimeout(timer);
  }, things);
  return lasts;
}

// A call, an outline or a memory, which is approved or denied.
function Decision({ item, focused, place, onDone }) {
  const { kind, preview, why, would_save: rule } = item;
  const whole = useGet(preview?.artifact ? `orders/${item.order_id}/artifacts/${preview.artifact}` : null);
  const text = preview
    ? preview.artifact
      ? whole.data?.content
      : preview.text
    : (item.text ?? (kind === "outline" ? "" : callOf(item)));
  const isDiff = preview?.kind === "diff";
  const [unfolded, setUnfolded] = useState(false);
  const [note, setNote] = useState("");
  const [scope, setScope] = useState(null);
  const [ended, setEnded] = useState(null);
  const field = useRef();
  const seen = useLasting([item.digest, text]);
  // Keys go to what has the focus, and it may have come here just now; a click goes to what one sees.
  const settled = useLasting([focused]);
  const { busy, error, act } = useAct();
  const bar = kind === "note" ? barred("operate") : barred("write", item.owner);
  const hidden = hiddenIn(text ?? "");
  const ready = text !== undefined && !busy && (isDiff || unfolded || !isLong(text));
  const decide = async (yes) => {
    if (busy || bar || ended || (yes && !(ready && seen))) return;
    const { project, name, version, digest } = item;
    const body =
      kind === "note"
        ? { project, name, version, decision: yes ? "accept" : "reject" }
        : { decision: yes ? "approve" : "deny", digest, note: note || null, remember: yes ? scope : null };
    if (await act(() => post(kind === "note" ? "notes/decide" : `approvals/${item.id}`, body))) {
      setEnded(yes ? "Approved" : "Denied");
      onDone(item);
    }
  };
  useKeys(
    focused && !ended
      ? {
          a: () => scope || (settled && decide(true)),
          "Shift+a": () => settled && decide(true),
          d: () => (note ? decide(false) : field.current?.focus()),
        }
      : {},
  );
  return html`<${Box}
    ...${{ item, focused, place, busy: busy || !seen || !settled }}
    title=${
      html`
        <b>${item.agent ?? "An agent"}</b>${" "}
        ${kind === "note" ? `would ${item.deletes ? "forget" : "remember"}` : "asks for"}${" "}
        <code>${visible(item.tool ?? item.name ?? "its outline")}</code>
        ${item.tainted && " from outside"}
      `
    }
    foot=${
      ended ?? html`
        <button class="btn ink" disabled=${!ready} ...${bar} onClick=${() => decide(true)}>
          ${scope ? "Approve and save rule" : "Approve once"}
          ${focused && html`<kbd>${scope ? "⇧A" : "A"}</kbd>`}
        </button>
        <button class="btn danger" disabled=${busy} ...${bar} onClick=${() => decide(false)}>
          Deny${focused && html`<kbd>D</kbd>`}
        </button>
        ${kind !== "note" && html`<input
          ref=${field}
          class="field"
          maxlength="2000"
          placeholder="Note to the agent"
          aria-label="Note to the agent"
          value=${note}
          ...${bar}
          onInput=${(event) => setNote(event.target.value)}
          onKeyDown=${(event) => event.key === "Enter" && decide(false)}
        />`}
        ${rule && html`<${Segments}
          label="How far an approval extends"
          of=${barred("operate") ? SCOPES.slice(0, 3) : SCOPES}
          value=${scope}
          onPick=${setScope}
        />`}
        ${(bar || (text !== undefined && !busy && !ready)) && html`<span class="wait-text">
          ${bar?.title ?? "Unfold all of it before you approve."}
        </span>`}
        <${Expires} time=${item.expires_at} then="denied" />
      `
    }
  >
    <${Refused} error=${whole.error} />
    ${text === undefined ? html`<p class="in q">Reading all of it …</p>` : isDiff ? html`<${Diff} text=${text} />` : (
      text && html`<${Exact} text=${text} onWhole=${() => setUnfolded(true)} />`
    )}
    ${kind === "outline" && html`<${Outline} id=${item.document_id} />`}
    ${hidden.length > 0 && html`<p class="odd">
      <${Icon} name="warning" />
      <span>
        <b>${some(hidden.length, "character")}</b> here would not show in a terminal, or would change
        what it shows. Here they stand as marks, in the order in which it would run.
      </span>
    </p>`}
    <${Facts}
      class="facts in"
      of=${[
        [
          "Asked because",
          why && html`
            ${why.layer}’s rule <code>${visible(why.key ?? "")}</code>${" "}
            ${why.when && html`
              when <code>${visible(why.when)}</code>
            `}${" "}
            ${visible(why.message)}
          `,
        ],
        ["Asked again", visible(item.again)],
        [
          "Remembering",
          rule && html`
            would save <code>${visible(rule.key)}</code>${" "}
            ${rule.when && html`
              when <code>${visible(rule.when)}</code>
            `}${" "}
            → <code>allow</code>
          `,
        ],
        ["Workspace", visible(item.workspace)],
        [
          "Arguments",
          isDiff && html`<details>
            <summary>show</summary>
            <${Exact} text=${callOf(item)} open />
          </details>`,
        ],
      ]}
    />
    <${Refused} error=${error} />
  </${Box}>`;
}

function Questions({ item, focused, place, onDone }) {
  const questions = item.questions?.length ? item.questions : [{ ...item, id: "1", free: true }];
  const [answers, setAnswers] = useState({});
  const [ended, setEnded] = useState(false);
  const { busy, error, act } = useAct();
  const bar = barred("write", item.owner);
  const open = questions.find((each) => !answers[each.id]);
  const set = (each, text) => setAnswers({ ...answers, [each.id]: text });
  const send = async (body) => {
    if (await act(() => post(`questions/${item.id}`, body))) {
      setEnded(true);
      onDone(item);
    }
  };
  const answer = () =>
    !open && !ended && !bar && send(questions.length > 1 ? { answers } : { answer: answers[questions[0].id] });
  const next = open ?? questions[0];
  const enter = (event) => event.key === "Enter" && (event.ctrlKey || event.metaKey) && answer();
  useKeys(
    focused && !ended
      ? {
          ...Object.fromEntries(
            (next.choices ?? []).map((choice, index) => [index + 1, () => set(next, choice)]),
          ),
          "Ctrl+Enter": answer,
        }
      : {},
  );
  return html`<${Box}
    ...${{ item, focused, place, busy }}
    title=${
      html`
        <b>${item.agent ?? "An agent"}</b> asks
      `
    }
    foot=${
      ended ? (
        "Answered"
      ) : html`
        <button class="btn ink" disabled=${open || busy} ...${bar} onClick=${answer}>
          Answer<kbd>Ctrl ↵</kbd>
        </button>
        <button class="btn" disabled=${busy} ...${bar} onClick=${() => send({ decline: true })}>
          Decline
        </button>
        <span class="wait-text">${bar?.title}</span>
        <${Expires} time=${item.expires_at} then="its default counts" />
      `
    }
  >
    ${questions.map((each) => html`<div class="in" key=${each.id} role="group" aria-label=${each.question}>
      <p class="plain" dir="auto">
        ${visible(each.question)}
      </p>
      ${each.choices?.map((choice) => html`<label class="choice">
        <input
          type="radio"
          name=${item.id + each.id}
          checked=${answers[each.id] === choice}
          onChange=${() => set(each, choice)}
        />
        <span dir="auto">
          ${visible(choice)}${" "}
          ${each.default === choice && html`<span class="q">counts if nobody answers</span>`}
        </span>
      </label>`)}
      ${each.free && html`<textarea
        maxlength="20000"
        aria-label=${`In your own words: ${each.question}`}
        placeholder="In your own words"
        value=${each.choices?.includes(answers[each.id]) ? "" : (answers[each.id] ?? "")}
        onInput=${(event) => set(each, event.target.value)}
        onKeyDown=${enter}
      ></textarea>`}
    </div>`)}
    <${Refused} error=${error} />
  </${Box}>`;
}

// An order that went wrong or is done.
function Outcome({ item, order, onSeen }) {
  const { busy, error, act } = useAct();
  const isReady = item.kind === "ready";
  return html`<${Box}
    item=${item}
    title=${html`<b>${isReady ? "Done" : (item.reason ?? item.kind)}</b>`}
    place=${order && `${money(order.usage.cost_usd)} · ${some(tokensOf(order.usage), "token")}`}
    foot=${
      html`
        ${!isReady && html`<button
          class="btn ink"
          disabled=${busy}
          ...${barred("write", item.owner)}
          onClick=${() =>
            act(async () => go(`orders/${(await post(`orders/${item.order_id}/retry`)).id}`))
          }
        >
          Retry
        </button>`}
        <button class=${classes("btn", isReady && "ink")} disabled=${item.seen} onClick=${onSeen}>
          ${item.seen ? "Seen" : isReady ? "Looks good" : "Mark seen"}
          <kbd>E</kbd>
        </button>
      `
    }
  >
    ${!isReady && item.detail && html`<p class="in plain" dir="auto">
      ${visible(item.detail)}
    </p>`}
    ${order?.answer && html`<div class="in prose plain" dir="auto">
      ${visible(order.answer)}
    </div>`}
    ${order?.changes?.files.map((file) => html`<p class="in row" key=${file.path}>
      <code class="grow cut">${visible(file.path)}</code>
      <span class="good-text">+${file.added}</span>
      <span class="bad-text">−${file.removed}</span>
    </p>`)}
    <${Refused} error=${error} />
  </${Box}>`;
}

export function Detail({ item, asks, onDone, onSeen, onPick }) {
  const { data: order } = useGet(item.order_id ? `orders/${item.order_id}` : null);
  return html`<div class="inner">
    <div>
      <h2 dir="auto">${visible(firstLine(order?.prompt ?? item.title ?? "A memory"))}</h2>
      <p class="meta">
        ${item.agent && html`<span>
          ${item.depth ? "subagent " : ""}
          <b>${item.agent}</b>
        </span>`}
        <span>
          since <b>${clock(timeOf(item))}</b>
        </span>
        ${item.order_id && html`<a href=${address(`orders/${item.order_id}`)}>Open the order</a>`}
      </p>
    </div>
    ${isAsk(item) ? (
      asks.map((ask, index) => {
        const Answer = ask.kind === "question" ? Questions : Decision;
        return html`<div key=${ask.id} onFocusIn=${() => ask !== item && onPick(ask.id)}>
          <${Answer}
            item=${ask}
            focused=${ask === item}
            onDone=${onDone}
            place=${asks.length > 1 && `${index + 1} of ${asks.length}`}
          />
        </div>`;
      })
    ) : html`<${Outcome} ...${{ item, order, onSeen }} />`}
  </div>`;
}
