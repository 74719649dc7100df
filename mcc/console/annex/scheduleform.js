// A schedule as somebody writes it, with its next times while that goes on.
import { call, go, html, post, useAct, useEffect, useGet, useRef, useState } from "../island/base.js";
import { barred } from "../island/rights.js";
import { Bar, Choice, Refused, Segments, useKeys } from "../island/frame.js";
import { Instants, inWords, ownZone } from "./when.js";

const OWN = ["prompt", "workspace", "agent", "model", "on_ask"];

// Under which what is not saved is kept in this browser; *New order* leaves its order there.
const NEW_SCHEDULE = "mcc-new-schedule";

export const WHEN_FULL = { skip: "runs are skipped", queue: "runs wait", cancel_older: "older orders are cancelled" };

export const CATCH_UP = { skip: "left out", one: "the newest runs late", all: "all run late" };

// As a field for times shows an instant, on the clock of whoever looks.
const asField = (instant) => instant && new Date(instant).toLocaleString("sv").replace(" ", "T").slice(0, 16);

const instantOf = (text) => (text ? new Date(text) : null);

function formOf({ order = {}, catch_up: missed, ...schedule }) {
  const rest = Object.entries(order).filter(
    ([name, value]) => !OWN.includes(name) && !/^(\[]|{})$/.test(JSON.stringify(value)),
  );
  return {
    zone: ownZone(),
    cron: "30 2 * * *",
    session: "new",
    max_running: 1,
    when_full: "skip",
    jitter_seconds: 0,
    on_ask: "deny",
    ...schedule,
    ...Object.fromEntries(OWN.filter((name) => order[name]).map((name) => [name, order[name]])),
    rest: rest[0] ? JSON.stringify(Object.fromEntries(rest), null, 2) : "",
    starts_at: asField(schedule.starts_at),
    until: asField(schedule.until),
    minutes: schedule.every_seconds ? schedule.every_seconds / 60 : 60,
    by: schedule.every_seconds ? "interval" : "clock",
    policy: missed?.policy ?? "one",
    most: missed?.most ?? 10,
  };
}

function draft() {
  try {
    const kept = JSON.parse(sessionStorage[NEW_SCHEDULE]);
    return kept.order ? formOf(kept) : kept;
  } catch {
    return formOf({});
  }
}

const timesOf = ({ by, cron, zone, minutes, starts_at: from, until, jitter_seconds: jitter }) => ({
  ...(by === "clock" ? { cron: cron.trim() } : { every_seconds: Math.round(minutes * 60) }),
  zone,
  starts_at: instantOf(from),
  until: instantOf(until),
  jitter_seconds: Number(jitter),
});

function scheduleOf(form) {
  const order = form.rest?.trim() ? JSON.parse(form.rest) : {};
  OWN.forEach((name) => form[name] && (order[name] = form[name]));
  return {
    name: form.name,
    ...timesOf(form),
    order,
    session: form.session,
    max_running: Number(form.max_running),
    when_full: form.when_full,
    catch_up: { policy: form.policy, most: Number(form.most) },
  };
}

// What the service says of the timetable; the last answer stays, faded, until the next one.
function Upcoming({ times }) {
  const [said, setSaid] = useState({});
  const text = JSON.stringify(times);
  const latest = useRef();
  latest.current = text;
  useEffect(() => {
    const timer = setTimeout(async () => {
      let next;
      try {
        next = { text, data: await post("schedules:preview", times) };
      } catch (error) {
        next = { text, error };
      }
      if (latest.current === text) setSaid(next);
    }, 250);
    return () => clearTimeout(timer);
  }, [text]);
  const { data, error } = said;
  return html`<div role="status">
    <p class="row"><b>${inWords(times)}</b></p>
    <${Refused} error=${error} />
    ${data?.next[0] && html`<${Instants}
      of=${data.next}
      local=${data.local}
      zone=${times.zone}
      faded=${said.text !== text}
    />`}
    ${data && !data.next[0] && html`<p class="wait-text">Nothing would ever be placed.</p>`}
  </div>`;
}

// `schedule`: the one that is changed; without it, a new one, of the order that *New order* was about to place.
export function ScheduleForm({ schedule }) {
  const [form, setForm] = useState(() => (schedule ? formOf(schedule) : draft()));
  const { busy, error, act } = useAct();
  const agents = useGet("agents").data;
  const models = useGet("models").data;
  const bar = barred("write", schedule?.principal);
  const change = (changes) => {
    const next = { ...form, ...changes };
    setForm(next);
    if (!schedule) sessionStorage[NEW_SCHEDULE] = JSON.stringify(next);
  };
  const ready = form.name?.trim() && form.prompt?.trim();
  const save = () =>
    !bar && ready &&
    act(async () => {
      const body = scheduleOf(form);
      const saved = await (schedule ? call("PATCH", `schedules/${schedule.id}`, body) : post("schedules", body));
      if (!schedule) sessionStorage.removeItem(NEW_SCHEDULE);
      go(`schedules?id=${saved.id}`);
    });
  useKeys({ "Ctrl+Enter": save });
  const fault = (name) => html`<${Refused} error=${error?.errors?.find(({ field }) => field?.startsWith(name))} />`;
  const field = (name, word, rest) => html`<label>
    <span class="label">${word}</span>
    <input
      class="field"
      value=${form[name] ?? ""}
      onInput=${(event) => change({ [name]: event.target.value })}
      ...${rest}
    />
    ${fault(name)}
  </label>`;
  const named = (id, page) => html`<datalist id=${id}>
    ${page?.items.map(({ name }) => html`<option value=${name}></option>`)}
  </datalist>`;
  return html`
    <${Bar} title=${schedule ? "Change a schedule" : "New schedule"} back="schedules" />
    <main class="scroll">
      <form
        class="form"
        onSubmit=${(event) => {
          event.preventDefault();
          save();
        }}
      >
        ${field("name", "Name: letters, digits and _ . : -", { required: true, autofocus: !schedule })}
        <div>
          <${Segments}
            label="When"
            of=${[["clock", "By the clock"], ["interval", "At an interval"]]}
            value=${form.by}
            onPick=${(by) => change({ by })}
          />
        </div>
        <div class="cols">
          ${form.by === "clock"
            ? field("cron", "Minute, hour, day, month, weekday", { required: true, spellcheck: false })
            : field("minutes", "Minutes between two", { type: "number", min: "1", step: "any", required: true })}
          ${field("zone", "On the clock of", { list: "zones", required: true })}
          <datalist id="zones">
            ${["UTC", ...Intl.supportedValuesOf("timeZone")].map((zone) => html`<option value=${zone}></option>`)}
          </datalist>
        </div>
        <${Upcoming} times=${timesOf(form)} />
        <label>
          <span class="label">
            What is to be done; in braces, date, time, zone, name and previous.instant are filled in
          </span>
          <textarea
            class="big"
            required
            maxlength="200000"
            value=${form.prompt ?? ""}
            onInput=${(event) => change({ prompt: event.target.value })}
          ></textarea>
          ${fault("order")}
        </label>
        ${field("workspace", "Workspace: a directory on the drone’s machine, or a git address")}
        <div class="cols">
          ${field("agent", "Agent, if not the default", { list: "agents" })}
          ${field("model", "Model, if not the default", { list: "models" })}
          <${Choice}
            label="A call that needs approval"
            shown
            of=${[["deny", "is denied"], ["wait", "waits for a person"]]}
            value=${form.on_ask}
            onPick=${(ask) => change({ on_ask: ask })}
          />
          ${named("agents", agents)}
          ${named("models", models)}
        </div>
        <div class="cols">
          <${Choice}
            label="Session"
            shown
            of=${[["new", "a new one each time"], ["same", "the same for all"]]}
            value=${form.session}
            onPick=${(session) => change({ session })}
          />
          ${field("max_running", "Unfinished orders, at most", { type: "number", min: "1", max: "100" })}
          <${Choice}
            label="When as many are"
            shown
            of=${Object.entries(WHEN_FULL)}
            value=${form.when_full}
            onPick=${(full) => change({ when_full: full })}
          />
        </div>
        <details>
          <summary>More</summary>
          <div class="form">
            <div class="cols">
              ${field("starts_at", "Not before, by your clock", { type: "datetime-local" })}
              ${field("until", "Not after", { type: "datetime-local" })}
              ${field("jitter_seconds", "Seconds later, at most", { type: "number", min: "0" })}
            </div>
            <div class="cols">
              <${Choice}
                label="Runs that were missed"
                shown
                of=${Object.entries(CATCH_UP)}
                value=${form.policy}
                onPick=${(policy) => change({ policy })}
              />
              ${field("most", "If all: at most", { type: "number", min: "1", max: "100" })}
            </div>
            <label>
              <span class="label">Further fields of the order, as JSON</span>
              <textarea
                rows="6"
                spellcheck="false"
                value=${form.rest}
                onInput=${(event) => change({ rest: event.target.value })}
              ></textarea>
            </label>
          </div>
        </details>
        <${Refused} error=${error} />
        <div>
          <button class="btn ink" disabled=${busy || !ready} ...${bar}>
            Save<kbd>Ctrl ↵</kbd>
          </button>${" "}
          <span class="wait-text">${bar?.title}</span>
          <p class="q">Its order is tried at once, and not placed.</p>
        </div>
      </form>
    </main>
  `;
}
