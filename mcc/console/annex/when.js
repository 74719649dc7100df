// When a schedule runs: in words, and on the clocks of its zone and of whoever looks.
import { classes, html } from "../island/base.js";
import { visible } from "../island/look.js";
import { cronInWords, spanInWords } from "./cron.js";

export const inWords = ({ cron, every_seconds: every }) =>
  cron ? cronInWords(cron) : every > 0 ? spanInWords(every) : "";

export const ownZone = () => Intl.DateTimeFormat().resolvedOptions().timeZone;

export function onClock(instant, zone) {
  try {
    return new Date(instant).toLocaleString("sv", { timeZone: zone });
  } catch {
    // Zones come with the service, and this browser may have fewer.
    return "unknown here";
  }
}

// Each on both clocks. `local`: as the service tells them.
export const Instants = ({ of, local, zone, faded }) => html`<table class=${classes("table", faded && "q")}>
  <thead>
    <tr>
      <th>${visible(zone)}</th>
      <th>${ownZone()}, your clock</th>
    </tr>
  </thead>
  <tbody>
    ${of.map((instant, index) => html`<tr key=${instant}>
      <td>${local?.[index].slice(0, 19).replace("T", " ") ?? onClock(instant, zone)}</td>
      <td>${onClock(instant)}</td>
    </tr>`)}
  </tbody>
</table>`;
