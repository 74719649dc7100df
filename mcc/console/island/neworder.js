// A new order: from what is there, or from an earlier one.
import {
  address,
  call,
  clock,
  count,
  go,
  html,
  money,
  place,
  shortId,
  some,
  useAct,
  useEffect,
  useGet,
  usePlace,
  useState,
} from "./base.js";
import { barred } from "./rights.js";
import { Bar, Refused, useKeys } from "./frame.js";

const LIMITS = [
  ["cost_usd", "Money, USD"],
  ["rounds", "Rounds"],
  ["output_tokens", "Output tokens"],
  ["wall_seconds", "Seconds"],
];

const KEPT = "mcc-new-order";

function written() {
  try {
    return JSON.parse(sessionStorage[KEPT]);
  } catch {
    return {};
  }
}

const list = (text) =>
  (text ?? "")
    .split(",")
    .map((each) => each.trim())
    .filter(Boolean);

function bodyOf({ labels, deny, not_before: when, limits = {}, deliver, ...form }, files) {
  const given = Object.fromEntries(Object.entries(form).filter(([, value]) => value));
  const numbers = Object.entries(limits)
    .filter(([, value]) => value)
    .map(([name, value]) => [name, Number(value)]);
  return {
    ...given,
    labels: list(labels),
    permission: Object.fromEntries(list(deny).map((name) => [name, "deny"])),
    attachments: files.map(({ id }) => id),
    ...(deliver && form.workspace?.includes("://") && { deliver: { pull_request: deliver === "request" } }),
    ...(when && { not_before: new Date(when) }),
    ...(numbers.length && { limits: Object.fromEntries(numbers) }),
  };
}

export function NewOrder() {
  const { query } = usePlace();
  const from = query.get("from");
  const template = useGet(from && `orders/${from}`).data;
  const agents = useGet("agents").data;
  const models = useGet("models").data;
  const [form, setForm] = useState({
    on_ask: "wait",
    ...(from ? {} : written()),
    session_id: query.get("session"),
  });
  const [files, setFiles] = useState([]);
  const { busy, error, act } = useAct();
  const change = (next) => {
    setForm(next);
    sessionStorage[KEPT] = JSON.stringify(next);
  };
  useEffect(() => {
    if (template) {
      const { prompt, agent, model, workspace, mode, on_ask, labels, limits, deliver } = template;
      change({
        ...form,
        prompt,
        agent,
        model,
        workspace,
        mode,
        on_ask,
        deliver: deliver && (deliver.pull_request ? "request" : "push"),
        labels: labels.join(", "),
        limits: Object.fromEntries(LIMITS.map(([name]) => [name, limits?.[name]])),
      });
    }
  }, [template]);
  const bar = barred("write");
  const { budget } = useGet("me").data ?? {};
  const { usd, orders } = budget ?? {};
  const send = () =>
    !bar && form.prompt?.trim() &&
    act(async () => {
      const placed = await place(bodyOf(form, files));
      sessionStorage.removeItem(KEPT);
      go(`orders/${placed.id}`);
    });
  // What a schedule decides is no part of its order.
  const repeat = () => {
    const { session_id: session, not_before: when, ...order } = bodyOf(form, files);
    sessionStorage["mcc-new-schedule"] = JSON.stringify({ order });
    go("schedules?id=new");
  };
  useKeys({ "Ctrl+Enter": send });
  const upload = (event) =>
    act(async () => {
      for (const file of event.target.files) {
        const stored = await call("POST", "artifacts", file, {
          "Content-Disposition": `attachment; filename*=UTF-8''${encodeURIComponent(file.name)}`,
        });
        setFiles((before) => [...before, stored]);
      }
    });
  const fault = (name) => html`<${Refused} error=${error?.errors.find(({ field }) => field?.startsWith(name))} />`;
  const field = (name, word, rest) => html`<label>
    <span class="label">${word}</span>
    <input
      class="field"
      value=${form[name] ?? ""}
      onInput=${(event) => change({ ...form, [name]: event.target.value })}
      ...${rest}
    />
    ${fault(name)}
  </label>`;
  const choice = (name, word, options) => html`<label>
    <span class="label">${word}</span>
    <select
      value=${form[name] ?? ""}
      onChange=${(event) => change({ ...form, [name]: event.target.value })}
    >
      ${options.map((option) => html`<option value=${option[0]}>${option[1]}</option>`)}
    </select>
    ${fault(name)}
  </label>`;
  const usable = (page) => [
    ["", "the default"],
    ...(page?.items ?? []).filter((offer) => !offer.problem).map(({ name }) => [name, name]),
  ];
  return html`
    <${Bar}
      title="New order"
      count=${
        form.session_id
          ? `the next turn of session ${shortId(form.session_id)}`
          : from && "from an earlier one"
      }
    />
    <main class="scroll">
      <form
        class="form"
        onSubmit=${(event) => {
          event.preventDefault();
          send();
        }}
      >
        <label>
          <span class="label">What is to be done</span>
          <textarea
            class="big"
            required
            maxlength="200000"
            autofocus
            value=${form.prompt ?? ""}
            onInput=${(event) => change({ ...form, prompt: event.target.value })}
          ></textarea>
          ${fault("prompt")}
        </label>
        <div class="row">
          <label class="btn">
            Attach files
            <input class="sr" type="file" multiple onChange=${upload} />
          </label>
          ${files.map((file) => html`<button
            type="button"
            class="btn"
            key=${file.id}
            aria-label=${`Leave out ${file.name}`}
            onClick=${() => setFiles(files.filter((each) => each !== file))}
          >
            ${file.name} ×
          </button>`)}
        </div>
        <div class="cols">
          ${choice("agent", "Agent", usable(agents))}
          ${choice("model", "Model", usable(models))}
          ${choice("mode", "Mode", [
            ["", "develop"],
            ["plan", "plan: writes nothing"],
            ["build", "build"],
            ["test", "test"],
            ["ship", "ship"],
          ])}
        </div>
        ${field("workspace", "Workspace: a directory on the drone’s machine, or a git address")}
        ${form.workspace?.includes("://") && choice("deliver", "Its work", [
          ["", "stays in its checkout"],
          ["push", "is pushed as a branch"],
          ["request", "is pushed, and a request to merge it opened"],
        ])}
        <div class="cols">
          ${LIMITS.map(([name, word]) => html`<label key=${name}>
            <span class="label">${word}, at most</span>
            <input
              class="field"
              type="number"
              min="0"
              step="any"
              value=${form.limits?.[name] ?? ""}
              onInput=${(event) =>
                change({ ...form, limits: { ...form.limits, [name]: event.target.value } })
              }
            />
            ${fault(`limits.${name}`)}
          </label>`)}
        </div>
        <div class="cols">
          ${choice("on_ask", "A call that needs approval", [
            ["wait", "waits for a person"],
            ["deny", "is denied"],
          ])}
          ${field("deny", "Tools it may not call", { placeholder: "run_shell, web" })}
          ${field("labels", "Labels", { placeholder: "nightly, docs" })}
          ${field("not_before", "Not before", { type: "datetime-local" })}
        </div>
        <${Refused} error=${error} />
        <div>
          <button class="btn ink" disabled=${busy || !form.prompt?.trim()} ...${bar}>
            Place order<kbd>Ctrl ↵</kbd>
          </button>${" "}
          <button type="button" class="btn" disabled=${!form.prompt?.trim()} ...${bar} onClick=${repeat}>
            Repeat…
          </button>${" "}
          <span class="wait-text">${bar?.title}</span>
          ${budget && html`<p class="q">
            Left until ${clock(budget.resets_at)}:${" "}
            ${usd && `${money(usd.limit - usd.spent - usd.reserved)} of ${money(usd.limit)} `}
            ${orders && `${count(orders.limit - orders.used)} of ${some(orders.limit, "order")}`}
          </p>`}
        </div>
      </form>
    </main>
  `;
}
