// The installation: agents, tools, models, drones.
import { call, classes, count, firstLine, html, post, some, span, useAct, useGet, useState } from "../island/base.js";
import { Exact, Glyph, visible } from "../island/look.js";
import { useJoined, useLive } from "../island/live.js";
import { barred } from "../island/rights.js";
import { Ago, Ask, Bar, Refused, Table } from "../island/frame.js";

// One agent, tool or model, with all that is known of it.
function Offer({ kind, offer, onChange }) {
  const { data, error } = useGet(kind === "agents" ? `agents/${encodeURIComponent(offer.name)}` : null);
  const [check, setCheck] = useState(null);
  const { busy, error: refused, act } = useAct();
  return html`<div class="pad">
    <${Refused} error=${error ?? refused} />
    ${kind === "models" && html`<p class="row">
      <button
        class="btn"
        disabled=${busy}
        ...${barred("operate")}
        onClick=${() =>
          act(async () => setCheck((await post("models/check", { names: [offer.name] })).items[0]))
        }
      >
        Try it with one small call
      </button>
      ${check && html`<span class=${check.problem ? "bad-text" : "good-text"}>
        ${visible(check.problem ?? `answered in ${span(check.seconds)}`)}
      </span>`}
    </p>`}
    ${offer.state === "changed" && html`<button
      class="btn"
      disabled=${busy}
      ...${barred("operate")}
      onClick=${() =>
        act(async () => {
          await post("tools/approve", { server: offer.server, tool: offer.name });
          onChange();
        })
      }
    >
      Approve its new definition
    </button>`}
    ${data?.agent?.definition.prompt && html`<${Exact} text=${data.agent.definition.prompt} />`}
    <${Exact} text=${JSON.stringify(check ?? offer, null, 2)} />
  </div>`;
}

const Server = ({ name, tools }) => html`<div class="group server">
  <b>${visible(name)}</b>
  <span class="q">
    ${some(tools.length, "tool")}, ${some(tools.reduce((sum, { tokens }) => sum + tokens, 0), "token")}
  </span>
</div>`;

// Agents, tools or models; of MCP servers the tools, below the server that offers them.
export function Offers({ kind, title }) {
  const byServer = kind === "mcp-servers";
  const { data, error, reload } = useGet(byServer ? "tools" : kind, 10);
  const [words, setWords] = useState("");
  const all = byServer
    ? data?.items.filter(({ server }) => server).sort((a, b) => a.server.localeCompare(b.server))
    : data?.items;
  const fit = all?.filter((offer) =>
    `${offer.name} ${offer.server ?? ""} ${offer.description}`.toLowerCase().includes(words.toLowerCase()),
  );
  return html`
    <${Bar} title=${title} count=${all && (byServer ? some(all.length, "tool") : count(all.length))} />
    <main class="holds">
      <div class="filters">
        <input
          class="field"
          type="search"
          aria-label="Name or description"
          placeholder="Name or description"
          value=${words}
          onInput=${(event) => setWords(event.target.value)}
        />
      </div>
      <${Refused} error=${error} />
      <div class="scroll">
        ${all && !all.length && html`<p class="empty">
          ${data.items.length ? "No MCP server." : html`
            No live drone: <code>mcc up</code> starts one.
          `}
        </p>`}
        ${fit?.map((offer, index) => html`
          ${byServer && offer.server !== fit[index - 1]?.server && html`<${Server}
            name=${offer.server}
            tools=${all.filter(({ server }) => server === offer.server)}
          />`}
          <details class="offer" key=${offer.name}>
          <summary>
            <${Glyph}
              name=${!offer.problem ? "ok" : /^off: /.test(offer.problem) ? "cancelled" : "failed"}
            />
            <code class="name">${visible(offer.name)}</code>
            <span
              class=${classes(
                "cut grow",
                offer.problem && !/^off: /.test(offer.problem) ? "bad-text" : "two",
              )}
            >
              ${visible(offer.problem ?? firstLine(offer.description || " "))}
            </span>
            <span class="q hide">
              ${offer.default ? "default" : (offer.agent?.origin ?? offer.server ?? offer.group)}
            </span>
            <span class="q hide">${byServer ? offer.digest?.slice(-12) : offer.effects}</span>
          </summary>
          <${Offer} kind=${kind} offer=${offer} onChange=${reload} />
        </details>
        `)}
      </div>
    </main>
  `;
}

const missing = (drone) => Object.entries(drone.sandbox.walls).filter(([, found]) => found !== "stands");

export function Drones() {
  const { data, error, reload } = useGet("drones?all=true");
  const again = useJoined(reload, 3_000);
  useLive((event) => /^(order\.status|poll|ping)$/.test(event.name) && again());
  const [asks, setAsks] = useState(null);
  const drones = data?.items ?? [];
  const up = drones.filter((drone) => drone.status !== "silent");
  const sum = (name) => count(up.reduce((total, drone) => total + drone[name], 0));
  const isLeaving = (drone) => drone?.drain || drone?.status === "draining";
  const drain = async () => {
    await call(
      isLeaving(asks) ? "DELETE" : "POST",
      `drones/${encodeURIComponent(asks.name)}/drain`,
      isLeaving(asks) ? undefined : {},
    );
    reload();
  };
  return html`
    <${Bar} title="Drones" count=${data && drones.length} />
    <${Refused} error=${error} />
    <main class="scroll">
      ${data && !drones.length && html`<p class="empty">
        No drone is there, so nothing is carried out. <code>mcc up</code> starts one here,${" "}
        <code>drone work</code> anywhere else.
      </p>`}
      ${drones.length > 0 && html`
        <div class="figures">
          <div>
            <b>${sum("active")}</b>
            <span>at work, of ${sum("slots")} slots</span>
          </div>
          <div>
            <b>${up.length}</b>
            <span>up, ${drones.length - up.length} silent</span>
          </div>
        </div>
        <${Table} heads=${["drone", "state", ["orders", "num"], ["version", "hide"], "heartbeat"]}>
            ${drones.map((drone) => html`
              <tr key=${drone.incarnation}>
                <td>
                  <span class="row">
                    <${Glyph}
                      name=${
                        drone.status === "silent" ? "failed" : isLeaving(drone) ? "paused" : "done"
                      }
                    />
                    ${drone.name} <span class="q hide">${drone.host}</span>
                  </span>
                </td>
                <td class=${drone.status === "silent" && "bad-text"}>
                  ${isLeaving(drone) ? "draining" : drone.status}
                </td>
                <td class="num">
                  ${drone.active} of ${drone.slots}
                </td>
                <td class="hide">${drone.version}</td>
                <td>
                  <${Ago} time=${drone.last_heartbeat_at} /> ago
                </td>
                <td class="right">
                  ${drone.status !== "silent" && html`<button
                    class="btn"
                    ...${barred("operate")}
                    onClick=${() => setAsks(drone)}
                  >
                    ${isLeaving(drone) ? "Stop draining" : "Drain"}
                  </button>`}
                </td>
              </tr>
              <tr>
                <td colspan="6" class="wrap walls">
                  ${Object.entries(drone.sandbox.walls).map(([wall, found]) => html`<span
                    class=${`chip ${found === "stands" ? "good" : "bad"}`}
                    title=${found}
                  >
                    ${wall.replaceAll("_", " ")}
                  </span>`)}
                  ${missing(drone).map(([wall, found]) => html`<p class="two">
                    ${wall}: ${visible(found)}
                  </p>`)}
                </td>
              </tr>
            `)}
        </${Table}>
      `}
    </main>
    ${asks && html`<${Ask}
      title=${isLeaving(asks) ? `Let ${asks.name} take orders again?` : `Drain ${asks.name}?`}
      word=${isLeaving(asks) ? "Stop draining" : "Drain it"}
      onYes=${drain}
      onClose=${() => setAsks(null)}
    >
      <p class="two">A drone that drains takes nothing new and ends what it has.</p>
    </${Ask}>`}
  `;
}
