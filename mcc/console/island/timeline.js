// Who ran when: a lane per agent, model over tool bars, waits, gaps in which nothing ran; the scrubber beside it.
import {
  address,
  asQuery,
  classes,
  clock,
  count,
  go,
  html,
  money,
  short,
  some,
  span,
  tokensOf,
  useEffect,
  useGet,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
} from "./base.js";
import { Glyph, recordGlyph, visible } from "./look.js";
import { useJoined, useLive } from "./live.js";
import { Refused, Segments } from "./frame.js";

export function Scrubber({ id, at, last, query }) {
  const [value, setValue] = useState(at ?? last);
  useEffect(() => setValue(at ?? last), [at, last]);
  useEffect(() => {
    const timer = setTimeout(
      () =>
        value !== (at ?? last) &&
        go(`orders/${id}${asQuery({ at: value < last ? value : null }, query)}`, true),
      200,
    );
    return () => clearTimeout(timer);
  }, [value]);
  return html`<div class="scrub" role="region" aria-label="Replay">
    <label class="q" for="scrub">
      ${at ? `as of #${at}` : "now"}
    </label>
    <input
      id="scrub"
      type="range"
      min="1"
      max=${last}
      value=${value}
      onInput=${(event) => setValue(Number(event.target.value))}
    />
    <span class="q">
      #${count(value)} of ${count(last)}
    </span>
  </div>`;
}

const GAP = 72;

const STEPS = [0.1, 0.5, 1, 5, 10, 30, 60, 300, 600, 1800, 3600, 21600, 86400, 604800];

// From milliseconds since the beginning to pixels: gaps have one width, whatever their length.
function scaled(data, width) {
  const start = Date.parse(data.from);
  const total = Math.max(1, Date.parse(data.to) - start);
  const gaps = data.gaps
    .map(([from, to, why]) => [Date.parse(from) - start, Date.parse(to) - start, why])
    .filter(([from, to]) => to - from > total / 20);
  const each = Math.max(
    1e-6,
    (width - 12 - gaps.length * GAP) /
      Math.max(1, total - gaps.reduce((sum, [from, to]) => sum + to - from, 0)),
  );
  const x = (ms) =>
    4 +
    ms * each +
    gaps.reduce(
      (sum, [from, to]) => sum + Math.max(0, Math.min(ms, to) - from) * (GAP / (to - from) - each),
      0,
    );
  const step = 1000 * STEPS.find((seconds) => seconds * 1000 * each >= 80 || seconds === STEPS.at(-1));
  const ticks = Array.from(
    { length: Math.min(500, Math.floor(total / step) + 1) },
    (_, index) => index * step,
  ).filter((ms) => !gaps.some(([from, to]) => ms > from && ms < to));
  return { x, gaps, ticks, of: (time) => x(Date.parse(time) - start) };
}

const BARS = { agent: [10, 22], wait: [10, 22], tool: [24, 6] };

const MARKS = {
  gate_refused: "×",
  failed: "×",
  retry: "↻",
  fell_back: "↻",
  steer: "›",
  compacted: "≡",
  approval: "◆",
};

function Lane({ id, lane, data, scale, width, dim }) {
  const marks = data.marks.filter((mark) => mark.record_id === lane.id && MARKS[mark.kind]);
  return html`<svg
    class=${classes("lane", dim && "dim")}
    width=${width}
    height="42"
    role="group"
    aria-label=${`${lane.agent}: ${some(lane.bars.length, "bar")}`}
  >
    ${scale.gaps.map(([from]) => html`<rect class="gap" x=${scale.x(from)} width=${GAP} height="42" />`)}
    ${scale.ticks.map((ms) => html`<line x1=${scale.x(ms)} x2=${scale.x(ms)} y2="42" />`)}
    ${lane.bars.map(([kind, start, length, seq, n, state, label]) => {
      const [y, height] = BARS[kind] ?? [12, 10];
      const left = scale.x(start);
      return html`<a href=${address(`orders/${id}#e${seq}`)} tabindex="-1">
        <rect
          class=${classes(kind, state === "error" && "bad")}
          x=${left}
          y=${y}
          width=${Math.max(2, scale.x(start + length) - left)}
          height=${height}
          rx="2"
        >
          <title>
            ${data.labels[label] || kind}, ${span(length / 1000)}
            ${n > 1 && `, ${n} of them`}
          </title>
        </rect>
      </a>`;
    })}
    ${marks.map((mark) => html`<text x=${scale.of(mark.at) - 3} y="9">
      ${MARKS[mark.kind]}
    </text>`)}
    ${data.marks.map(
      (mark) =>
        mark.kind === "takeover" && html`<line class="lost" x1=${scale.of(mark.at)} x2=${scale.of(mark.at)} y2="42" />`,
    )}
  </svg>`;
}

// Who ran when: a lane per agent, model over tool bars, waits, gaps in which nothing ran.
export function Timeline({ id, at, records, over }) {
  const [zoom, setZoom] = useState(1);
  const [path, setPath] = useState(false);
  const [by, setBy] = useState("record");
  const [wide, setWide] = useState(800);
  const box = useRef();
  const width = Math.round(wide * zoom);
  const { data, error, reload } = useGet(
    `orders/${id}/timeline${asQuery({ at, by, px: Math.min(8_000, width) })}`,
  );
  const again = useJoined(reload, 1_500);
  useLive(({ name, order, seq }) => !at && !over && (name === "poll" || (order === id && seq)) && again());
  useEffect(() => {
    if (data?.index.to < data?.index.of) again();
  }, [data]);
  useLayoutEffect(() => {
    const seen = new ResizeObserver(([{ contentRect }]) =>
      setWide(Math.max(240, contentRect.width - (innerWidth > 719 ? 300 : 0))),
    );
    seen.observe(box.current);
    return () => seen.disconnect();
  }, []);
  const scale = useMemo(() => data && scaled(data, width), [data, width]);
  return html`<main class="holds">
    <div class="filters">
      <${Segments}
        label="Lanes"
        of=${[
          ["record", "By run"],
          ["agent", "By agent"],
        ]}
        value=${by}
        onPick=${setBy}
      />
      ${data?.failure_path.length > 0 && html`<button class="btn" aria-pressed=${path} onClick=${() => setPath(!path)}>
        Path of failure
      </button>`}
      <span class="grow"></span>
      <span class="legend">
        <b class="model"></b>model<b class="tool"></b>tool<b class="wait"></b>waits
      </span>
      <${Segments}
        label="Zoom"
        of=${[
          [1 / 1.5, "−"],
          [0, "Fit"],
          [1.5, "+"],
        ]}
        onPick=${(by) => setZoom(Math.max(1, Math.min(32, zoom * by)))}
      />
    </div>
    <${Refused} error=${error} />
    <div class="timeline" ref=${box} tabindex="0" role="region" aria-label="Timeline">
      ${scale && html`
        <span class="lane-name axis">
          agent<span class="num">tokens · cost</span>
        </span>
        <svg
          class="lane axis"
          width=${width}
          height="42"
          role="img"
          aria-label=${`${clock(data.from)} to ${clock(data.to)}`}
        >
          ${scale.ticks.map((ms) => html`<text
            x=${Math.min(scale.x(ms), width - 4)}
            y="20"
            text-anchor=${scale.x(ms) > width - 64 ? "end" : "start"}
          >
            ${ms ? `+${span(ms / 1000)}` : clock(data.from)}
          </text>`)}
          ${scale.gaps.map(([from, to]) => html`
            <rect class="gap" x=${scale.x(from)} width=${GAP} height="42" />
            <text x=${scale.x(from) + 4} y="20">
              ${span((to - from) / 1000)}
            </text>
          `)}
        </svg>
        ${data.lanes.map((lane) => {
          const record = records.get(lane.id);
          const dim = path && !data.failure_path.includes(lane.id);
          return html`
            <span
              key=${lane.id}
              class=${classes("lane-name", record && `d${record.depth}`, dim && "dim")}
            >
              ${record && html`<${Glyph} name=${recordGlyph(record)} />`}
              <a class="cut" href=${address(`orders/${id}#e${record?.first_seq ?? 1}`)}>
                <b>${lane.agent}</b> ${visible(lane.title)}
              </a>
              ${record && html`<span class="num">
                ${short(tokensOf(record.usage))} · ${money(record.usage.cost_usd)}
              </span>`}
            </span>
            <${Lane} key=${`${lane.id} `} ...${{ id, lane, data, scale, width, dim }} />
          `;
        })}
      `}
    </div>
  </main>`;
}
