// One document: of each node its values, who set them, what is stale or in conflict; commands, with undo.
import {
  address, asQuery, classes, clock, go, html, place, post, some, useAct, useEffect, useGet, usePlace, useState,
} from "./base.js";
import { barred } from "./rights.js";
import { Glyph, Icon, visible } from "./look.js";
import { Ask, Bar, Facts, Refused, Segments, useKeys } from "./frame.js";
import { Status, Tree, counted, labelOf } from "./documents.js";

const asText = (value) =>
  value === null || value === undefined
    ? html`<span class="q">not set</span>`
    : visible(typeof value === "string" ? value : JSON.stringify(value, null, 1));

// A text stays a text; what was something else is read as JSON where it is.
function readAs(text, before) {
  if (text === "") return null;
  if (typeof before === "string") return text;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function By({ of: set }) {
  if (!set) return "";
  const who = set.principal ?? set.by.replace("_", " ");
  return html`
    ${set.order_id
      ? html`<a href=${address(`orders/${set.order_id}?tab=journal&record=${set.record_id ?? ""}`)}>${who}</a>`
      : set.from ? [`${set.by} of `, set.from.join(", ")] : who},${" "}
    version ${set.version}
    ${set.accepted && `, accepted by ${set.accepted.principal}`}
  `;
}

function Field({ node, part, name, value, history, bar, onCommand }) {
  const [text, setText] = useState(null);
  const key = `${part}.${name}`;
  const set = node.provenance[key];
  const conflict = node.conflicts.find(({ field }) => field === key);
  const isHeld = set?.accepted;
  // What an agent had written before somebody held another value.
  const before = conflict && history?.find(({ node: of, fields }) => of === node.path && fields[key])?.fields[key][0];
  const send = async (command) => {
    if (await onCommand({ node: node.path, ...command })) setText(null);
  };
  const write = () =>
    send({ command: part === "props" ? "set_value" : "set_metadata", values: { [name]: readAs(text, value) } });
  return html`<div class=${classes("field-row", conflict && "conflict")} role="row">
    <span role="rowheader">${visible(name)}</span>
    <div role="cell">
      ${text === null ? html`<p class="plain" dir="auto">${asText(value)}</p>` : html`
        <textarea
          ref=${(element) => element && !element.value && element.focus()}
          aria-label=${name}
          value=${text}
          onInput=${(event) => setText(event.target.value)}
          onKeyDown=${(event) => event.key === "Enter" && (event.ctrlKey || event.metaKey) && write()}
        ></textarea>
      `}
      ${before !== undefined && before !== value && html`<p class="two">before it was held: ${asText(before)}</p>`}
      ${conflict?.because.map((why) => html`<p class="wait-text">${visible(why)}</p>`)}
      <p class="row">
        ${text === null ? !set?.from && html`
          <button
            class="btn bare"
            ...${bar}
            onClick=${() =>
              setText(typeof value === "string" ? value : value === null ? "" : JSON.stringify(value))
            }
          >
            ${conflict ? "Write another" : "Edit"}
          </button>
        ` : html`
          <button class="btn ink" onClick=${write}>Save</button>
          <button class="btn" onClick=${() => setText(null)}>Discard</button>
        `}
        ${(conflict || (set && !isHeld && !set.from)) && html`<button
          class="btn bare"
          ...${bar}
          onClick=${() => send({ command: "accept", fields: [key] })}
        >
          ${conflict ? "Keep it" : "Accept"}
        </button>`}
        ${isHeld && html`<button
          class="btn bare"
          ...${bar}
          onClick=${() => send({ command: "release", fields: [key] })}
        >
          Give it to its agent
        </button>`}
      </p>
    </div>
    <span role="cell" class="q"><${By} of=${set} /></span>
  </div>`;
}

const VERDICTS_OF_RULES = { true: "gate", false: "refused", null: "unknown" };

function NodeDetail({ node, history, bar, onCommand, onDialog }) {
  return html`
    <div>
      <h2 class="row"><${Status} of=${node} /> ${labelOf(node)}</h2>
      <p class="meta">
        <code>${visible(node.path)}</code>
        <span>${node.component}, ${node.status}, version ${node.version}</span>
      </p>
    </div>
    ${node.stale_because.map((why) => html`<p class="row wait-text">
      <${Glyph} name="retry" /><span>Stale because of ${visible(why)}</span>
    </p>`)}
    ${node.pending.length > 0 && html`<p class="two">It lacks ${node.pending.join(", ")}.</p>`}
    ${node.failure && html`<section class="box failure">
      <p><b class="bad-text">${node.failure.reason}</b> ${visible(node.failure.message)}</p>
      ${node.failure.errors.map((error) => html`<p>${error.field} ${visible(error.message)}</p>`)}
    </section>`}
    <div role="table" aria-label="Values">
      ${["metadata", "props"].flatMap((part) =>
        Object.entries(node[part]).map(([name, value]) => html`<${Field}
          key=${node.id + part + name}
          ...${{ node, part, name, value, history, bar, onCommand }}
        />`),
      )}
    </div>
    ${node.verdicts.length > 0 && html`<section aria-label="Rules">
      <p><b>Rules</b></p>
      ${node.verdicts.map(({ rule, ok, message }) => html`<p class="row">
        <${Glyph} name=${VERDICTS_OF_RULES[ok]} />
        <span>${visible(message)} <code class="q">${visible(rule)}</code></span>
      </p>`)}
    </section>`}
    <p class="row">
      <button class="btn" ...${bar} onClick=${() => onDialog("add")}>Add a child</button>
      ${node.parent && html`
        <button class="btn danger" ...${bar} onClick=${() => onDialog("remove")}>Remove</button>
      `}
    </p>
  `;
}

function Steps({ history, id, bar, onUndo }) {
  return html`
    <h2 class="row">
      History
      <button class="btn bare" ...${bar} onClick=${() => onUndo("undo")}>Undo<kbd>U</kbd></button>
      <button class="btn bare" ...${bar} onClick=${() => onUndo("redo")}>Redo<kbd>⇧U</kbd></button>
    </h2>
    ${history?.map((step) => html`<p class="row" key=${step.version + step.node + step.command}>
      <a class="cut grow" href=${address(`documents/${id}${asQuery({ node: step.node })}`)} title=${clock(step.at)}>
        <b>${step.principal ?? step.by.replace("_", " ")}</b>${" "}
        ${step.command.replace("_", " ")} ${Object.keys(step.fields).map((key) => key.replace(/^\w+\./, "")).join(", ")}
        ${" on "}${visible(step.node)}
      </a>
      <span class="q">${step.version}</span>
    </p>`)}
  `;
}

export function Document({ id, inbox }) {
  const { query } = usePlace();
  const picked = query.get("node") ?? "/";
  const whole = useGet(`documents/${id}${asQuery({ limit: 100 })}`, 10);
  const one = useGet(`documents/${id}${asQuery({ node: picked, depth: 0 })}`);
  const steps = useGet(`documents/${id}/history?limit=100`);
  const [todo, setTodo] = useState(null);
  const [dialog, setDialog] = useState(null);
  const [outline, setOutline] = useState(false);
  const { busy, error: refused, act } = useAct();
  const data = whole.data;
  const renew = (other = one) => [whole, other, steps].forEach(({ reload }) => reload());
  useEffect(() => {
    const timer = data?.order_id && setInterval(renew, 2_000);
    return () => clearInterval(timer);
  }, [data?.order_id, picked]);
  const run = async (command, other) => {
    const done = await post(`documents/${id}/commands`, { commands: [command], expected_version: data.version });
    renew(other);
    return done;
  };
  const onCommand = (command) => act(() => run(command));
  const bar = barred("write", data?.principal);
  const undo = (command) => bar || act(async () => {
    await post(`documents/${id}/commands`, { commands: [{ command }] });
    renew();
  });
  const pick = (path) => go(`documents/${id}${asQuery({ node: path }, query)}`);
  const nodes = data?.nodes.filter((node) => !todo || node.status !== "done" || node.conflicts.length) ?? [];
  const move = (step) => {
    const next = nodes[nodes.findIndex(({ path }) => path === picked) + step];
    if (next) pick(next.path);
  };
  useKeys({
    "Ctrl+z": () => undo("undo"),
    "Ctrl+Shift+z": () => undo("redo"),
    u: () => undo("undo"),
    "Shift+u": () => undo("redo"),
    "g g": () => bar || setDialog("generate"),
    j: () => move(1),
    k: () => move(-1),
    Escape: () => go("documents"),
  });
  const error = whole.error ?? one.error;
  if (!data)
    return html`
      <${Bar} title="Document" back="documents" />
      <main class="scroll"><${Refused} error=${error} /></main>
    `;
  const node = one.data?.nodes[0];
  const { counts } = data;
  const open = counts.stale + counts.pending + counts.failed;
  const waits = inbox.data?.items.find((item) => item.kind === "outline" && item.document_id === id);
  const generate = async (prompt) => {
    const placed = await place({ kind: "generate", document_id: id, prompt, on_ask: "wait", generation: { outline } });
    go(`orders/${placed.id}`);
  };
  const close = () => setDialog(null);
  return html`
    <${Bar}
      title=${visible(data.title || "Document")}
      back="documents"
      count=${`version ${data.version}, ${counted(counts)}`}
    >
      ${data.order_id && html`<a class="btn" href=${address(`orders/${data.order_id}`)}>
        <${Glyph} name="running" /> at work
      </a>`}
      <button class="btn ink" disabled=${!open || data.order_id} ...${bar} onClick=${() => setDialog("generate")}>
        Generate<kbd>G G</kbd>
      </button>
    </${Bar}>
    ${waits && html`<div class="banner" role="status">
      <${Icon} name="warning" /> Its outline waits for approval.
      <a class="btn" href=${address(`?item=${waits.id}`)}>Decide</a>
    </div>`}
    <${Refused} error=${refused ?? error} />
    <main class=${classes("split", "doc", query.get("node") && "opened")}>
      <div class="list" tabindex="0" role="region" aria-label="Nodes">
        <div class="filters">
          <${Segments}
            label="Nodes"
            of=${[[null, `All ${data.nodes.length}${data.next_cursor ? "+" : ""}`], [true, `To do ${open}`]]}
            value=${todo}
            onPick=${setTodo}
          />
        </div>
        <${Tree} nodes=${nodes} current=${picked} onPick=${pick} />
      </div>
      <div class="detail" tabindex="0" role="region" aria-label="Node">
        <div class="inner">
          <a class="btn narrow" href=${address(`documents/${id}`)}><${Icon} name="back" /> All nodes</a>
          ${node && html`<${NodeDetail}
            ...${{ node, bar, onCommand, history: steps.data?.items, onDialog: setDialog }}
          />`}
        </div>
        <aside aria-label="Document">
          <${Facts} of=${[
            ["Blueprint", `${data.blueprint.name} ${data.blueprint.version}`],
            ["Changed", clock(data.updated_at)],
            ["Export", ["md", "html", "json", "jsonl"].map((format) => html`<a
              href=${address(`api/v1/documents/${id}/export${asQuery({ format })}`)}
              download
            >${format}</a>${" "}`)],
          ]} />
          <${Steps} id=${id} bar=${bar} history=${steps.data?.items} onUndo=${undo} />
        </aside>
      </div>
    </main>
    ${dialog === "generate" && html`<${Ask}
      title="Generate what is missing?"
      word="Generate"
      field="Brief for all agents"
      onYes=${generate}
      onClose=${close}
    >
      <p class="two">
        It asks the agents of ${some(open, "node")} again. What people hold stays.
      </p>
      <label class="choice">
        <input type="checkbox" checked=${outline} onChange=${(event) => setOutline(event.target.checked)} />
        Only the outline
      </label>
    </${Ask}>`}
    ${dialog === "add" && html`<${Ask}
      title="Add a child"
      word="Add"
      field="Its component"
      onYes=${(component) => run({ command: "add_child", node: picked, component })}
      onClose=${close}
    />`}
    ${dialog === "remove" && html`<${Ask}
      title=${`Remove ${picked}?`}
      word="Remove it"
      onYes=${async () => {
        await run({ command: "remove_child", node: picked }, steps);
        pick(node.parent);
      }}
      onClose=${close}
    >
      <p class="two">With all below it.</p>
    </${Ask}>`}
  `;
}
