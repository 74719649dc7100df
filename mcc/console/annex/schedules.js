// Schedules: when each places its order, and what became of that.
import {
  address, asQuery, call, clock, go, html, once, shortId, some, useAct, useGet, usePlace, useState,
} from "../island/base.js";
import { barred } from "../island/rights.js";
import { Exact, visible } from "../island/look.js";
import { Ago, Ask, Bar, Facts, Refused, Table } from "../island/frame.js";
import { Who } from "../island/who.js";
import { useLively } from "./lively.js";
import { CATCH_UP, ScheduleForm, WHEN_FULL } from "./scheduleform.js";
import { Instants, inWords } from "./when.js";

const at = (id, more) => `schedules${asQuery({ id, ...more })}`;

const When = ({ of }) => html`
  ${inWords(of)} <span class="q">${of.cron && html`<code>${visible(of.cron)}</code> ${visible(of.zone)}`}</span>
`;

const TONES = { placed: "good", missed: "bad", refused: "bad" };

const RunOutcome = ({ run }) => html`
  <span class=${`chip ${TONES[run.outcome] ?? ""}`}>${run.outcome}</span>${" "}
  ${run.missed && html`${some(run.missed.count, "run")} from ${clock(run.missed.since)} to ${clock(run.missed.until)} `}
  ${run.order_id && html`<a href=${address(`orders/${run.order_id}`)}>order ${shortId(run.order_id)}</a>`}
  ${run.why && html`<span class="two">${visible(run.why)}</span>`}
`;

const standing = ({ paused, next, until }) =>
  (paused || !next[0]) && html`<span class="chip">
    ${paused ? "paused" : Date.parse(until) < Date.now() ? "ended" : "nothing comes"}
  </span>`;

function ScheduleList() {
  const { data, error, more } = useLively("schedules?limit=100");
  return html`
    <${Bar} title="Schedules" count=${data?.items.length}>
      <button class="btn ink" ...${barred("write")} onClick=${() => go(at("new"))}>Add a schedule</button>
    </${Bar}>
    <${Refused} error=${error} />
    <main class="scroll">
      ${data && !data.items.length && html`<p class="empty">
        No order is placed again and again. <i>Repeat…</i> of a new order does it too.
      </p>`}
      ${data?.items.length > 0 && html`<${Table} heads=${["name", "when", "next", "last", ["of", "hide"]]}>
        ${data.items.map((schedule) => html`<tr key=${schedule.id}>
          <td class="wrap named"><a href=${address(at(schedule.id))}>${visible(schedule.name)}</a></td>
          <td class="wrap"><${When} of=${schedule} /></td>
          <td>
            ${standing(schedule) || html`
              <span class="q">in</span> <${Ago} time=${schedule.next[0]} />${", "}
              <span class="q">${clock(schedule.next[0])}</span>
            `}
          </td>
          <td class="wrap">${schedule.last ? html`<${RunOutcome} run=${schedule.last} />` : "not yet"}</td>
          <td class="hide"><${Who} id=${schedule.principal} /></td>
          <td></td>
        </tr>`)}
      </${Table}>`}
      ${more}
    </main>
  `;
}

function Runs({ id }) {
  const { data, error, more } = useLively(`schedules/${id}/runs`);
  return html`
    <${Refused} error=${error} />
    ${data?.items.length ? html`<${Table} heads=${["at", "came to"]}>
      ${data.items.map((run) => html`<tr key=${run.instant}>
        <td>${clock(run.instant)}</td>
        <td class="wrap"><${RunOutcome} run=${run} /></td>
        <td></td>
      </tr>`)}
    </${Table}>` : html`<p class="pad q">${data && "It has not run yet."}</p>`}
    ${more}
  `;
}

function OneSchedule({ id }) {
  const { data, error, reload } = useLively(`schedules/${id}`);
  const { busy, error: refused, act } = useAct();
  const [ran, setRan] = useState(null);
  const [asks, setAsks] = useState(false);
  const bar = barred("write", data?.principal);
  const pause = () =>
    act(async () => {
      await call("PATCH", `schedules/${id}`, { paused: !data.paused });
      await reload();
    });
  const run = () =>
    act(async () => {
      setRan(await once(`schedules/${id}/run`, {}));
      await reload();
    });
  const { order, catch_up: missed } = data ?? {};
  const { prompt, ...rest } = order ?? {};
  return html`
    <${Bar} title=${visible(data?.name ?? "Schedule")} count=${data && standing(data)} back="schedules" />
    <${Refused} error=${refused ?? error} />
    <main class="scroll" tabindex="0" aria-label="The schedule">
      ${data && html`<div class="filters">
        <button class="btn" disabled=${busy} ...${bar} onClick=${run}>Run now</button>
        <button class="btn" disabled=${busy} ...${bar} onClick=${pause}>${data.paused ? "Resume" : "Pause"}</button>
        <button class="btn" ...${bar} onClick=${() => go(at(id, { edit: 1 }))}>Change</button>
        <button class="btn danger" ...${bar} onClick=${() => setAsks(true)}>Remove</button>
      </div>`}
      ${ran && html`<p class="pad" role="status">It ran just now: <${RunOutcome} run=${ran} /></p>`}
      ${data && html`
        <div class="pad">
          <${Facts} of=${[
            ["When", html`<${When} of=${data} />`],
            ["From", data.starts_at && clock(data.starts_at)],
            ["Until", data.until && clock(data.until)],
            ["Up to", data.jitter_seconds > 0 && `${some(data.jitter_seconds, "second")} later`],
            ["As", html`<${Who} id=${data.principal} />`],
            ["Session", data.session === "same" ? "the same for all" : "a new one each time"],
            ["At once", `${some(data.max_running, "order")}; then ${WHEN_FULL[data.when_full]}`],
            ["If missed", CATCH_UP[missed.policy] + (missed.policy === "all" ? `, at most ${missed.most}` : "")],
          ]} />
        </div>
        <h2 class="group">Next</h2>
        ${data.next[0]
          ? html`<${Instants} of=${data.next} zone=${data.zone} />`
          : html`<p class="pad q">Nothing, as long as it is so.</p>`}
        <h2 class="group">Its order</h2>
        <div class="pad">
          <${Exact} text=${prompt ?? ""} />
          ${Object.keys(rest).length > 0 && html`<${Exact} text=${JSON.stringify(rest, null, 2)} />`}
        </div>
        <h2 class="group">Runs</h2>
        <${Runs} key=${data.last?.instant} id=${id} />
      `}
    </main>
    ${asks && html`<${Ask}
      title=${`Remove ${data.name}?`}
      word="Remove"
      onYes=${async () => {
        await call("DELETE", `schedules/${id}`);
        go("schedules");
      }}
      onClose=${() => setAsks(false)}
    >
      <p class="two">What is known of its runs goes too. Orders that it has placed stay, and run on.</p>
    </${Ask}>`}
  `;
}

function ChangeSchedule({ id }) {
  const { data, error } = useGet(`schedules/${id}`);
  return data ? html`<${ScheduleForm} schedule=${data} />` : html`
    <${Bar} title="Schedule" back="schedules" />
    <${Refused} error=${error} />
    <main></main>
  `;
}

export function Schedules() {
  const { query } = usePlace();
  const id = query.get("id");
  if (!id) return html`<${ScheduleList} />`;
  if (id === "new") return html`<${ScheduleForm} />`;
  const Page = query.get("edit") ? ChangeSchedule : OneSchedule;
  return html`<${Page} key=${id} id=${id} />`;
}
