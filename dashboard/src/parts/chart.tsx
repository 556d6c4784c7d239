// A chart of measurements over time, with its legend in words and the values under the pointer, or where keys have gone.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";

import { time } from "../format";
import { type Frame, HEIGHT, WIDTH, across, line as lineOf, nearest, stepped, times, topOf, values as ticksOf } from "../lines";
import { type Columns, isEmpty, latest } from "../series";

export interface Line {
  name: string;
  /** Name of a colour of the style sheet, without `--`. */
  colour: string;
  dash?: number[];
  /** Whether the ground below it is filled. */
  filled?: boolean;
  /** For what is a state and not a flow: steps from value to value. */
  stepped?: boolean;
}

export interface ChartProps {
  title: string;
  hint: string;
  lines: Line[];
  data: Columns;
  /** Values with their unit. */
  format: (value: number | null) => string;
  /** Values at the axis, where the unit need not be said again. */
  axis: (value: number | null) => string;
  /** The time shown, in seconds since 1970. */
  from: number;
  to: number;
  empty: string;
  /** What is to be chosen for this chart. */
  choice?: ComponentChildren;
}

export function Chart(props: ChartProps) {
  const { title, hint, lines, data, format, empty, choice } = props;
  const [pointed, setPointed] = useState<number | null>(null);
  const cursor = pointed === null ? null : nearest(data.at, pointed);
  const isNothing = isEmpty(data);
  const at = cursor === null ? null : data.at[cursor];
  const values = lines.map((_, index) =>
    cursor === null ? latest(data.values[index]) : (data.values[index]?.[cursor] ?? null),
  );
  const summary = lines.map((line, index) => `${line.name} ${format(values[index] ?? null)}`).join(", ");
  return (
    <figure class="chart card">
      <figcaption>
        <div class="between">
          <h3>{title}</h3>
          {choice}
        </div>
        <p class="hint">{hint}</p>
      </figcaption>
      {isNothing ? (
        // Nothing has been read yet, or there was nothing.
        <p class="empty">{data.values.length === 0 ? "Being read …" : empty}</p>
      ) : (
        <>
          <ul class="legend">
            {lines.map((line, index) => (
              <li key={line.name}>
                <span class={`swatch ${line.dash === undefined ? "" : "dashed"}`} style={{ "--of": `var(--${line.colour})` }} />
                {line.name} <b>{format(values[index] ?? null)}</b>
              </li>
            ))}
            <li class="soft">{at === null || at === undefined ? "now" : `at ${time(at)}`}</li>
          </ul>
          <Plot {...props} summary={summary} cursor={at ?? null} point={setPointed} />
        </>
      )}
    </figure>
  );
}

interface PlotProps extends ChartProps {
  /** The values at the cursor, or the latest. */
  summary: string;
  /** The time under the pointer, or to which keys have gone. */
  cursor: number | null;
  point: (time: number | null) => void;
}

function Plot({ title, lines, data, axis, from, to, summary, cursor, point }: PlotProps) {
  const frame: Frame = { from, to, top: topOf(data.at, data.values, from) };
  const drawn = lines.map((of, index) => ({ of, ...lineOf(data.at, data.values[index] ?? [], frame, of.stepped === true) }));
  const [up, along] = [ticksOf(frame.top), times(frame)];
  const percent = (share: number) => `${(share * 100).toFixed(2)}%`;
  const grid = up.map((value) => `M0 ${HEIGHT - (value / frame.top) * HEIGHT}H${WIDTH}`).join("") + along.map((at) => `M${across(at, frame) * WIDTH} 0V${HEIGHT}`).join("");
  const follow = (event: PointerEvent) => {
    const box = (event.currentTarget as HTMLElement).getBoundingClientRect();
    point(from + ((event.clientX - box.left) / Math.max(box.width, 1)) * (to - from));
  };
  const shown = data.at.filter((at) => at >= from && at <= to);
  const go = (event: KeyboardEvent) => {
    const next = stepped(shown, cursor, event.key);
    if (next === undefined) return;
    event.preventDefault();
    point(next);
  };
  return (
    <div
      class="plot"
      role="slider"
      tabIndex={0}
      aria-label={title}
      aria-valuemin={Math.round(from)}
      aria-valuemax={Math.round(to)}
      aria-valuenow={Math.round(cursor ?? to)}
      aria-valuetext={`${cursor === null ? "now" : time(cursor)}: ${summary}`}
      onKeyDown={go}
      // What is read out stands still.
      onFocus={() => point(shown[shown.length - 1] ?? null)}
      onBlur={() => point(null)}
    >
      <div class="area" onPointerMove={follow} onPointerLeave={() => point(null)}>
        <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
          <path class="grid" d={grid} />
          {drawn.map(({ of, ground }) => of.filled === true && <path key={of.name} class="ground" style={{ "--of": `var(--${of.colour})` }} d={ground} />)}
          {drawn.map(({ of, line }) => <path key={of.name} class="line" style={{ "--of": `var(--${of.colour})` }} stroke-dasharray={of.dash?.join(" ")} d={line} />)}
          {drawn.map(({ of, dots }) => <path key={of.name} class="line alone" style={{ "--of": `var(--${of.colour})` }} d={dots} />)}
        </svg>
        {up.map((value) => <span key={`up ${value}`} class="up" style={{ bottom: percent(value / frame.top) }}>{axis(value)}</span>)}
        {along.map((at) => <span key={`along ${at}`} class="along" style={{ left: percent(across(at, frame)) }}>{tick(at, to - from)}</span>)}
        {cursor !== null && <span class="cursor" style={{ left: percent(across(cursor, frame)) }} />}
      </div>
    </div>
  );
}

function tick(at: number, length: number): string {
  const two = (part: number) => String(part).padStart(2, "0");
  const date = new Date(at * 1000);
  if (length > 3 * 86_400) return `${two(date.getDate())}.${two(date.getMonth() + 1)}.`;
  const clock = `${two(date.getHours())}:${two(date.getMinutes())}`;
  return length <= 180 ? `${clock}:${two(date.getSeconds())}` : clock;
}
