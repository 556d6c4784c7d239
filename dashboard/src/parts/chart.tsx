// A chart of measurements over time, with its legend in words and the values under the pointer.

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";

import { time } from "../format";
import { type Columns, isEmpty, latest } from "../series";
import { THEME_CHANGED } from "./theme";

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

const HEIGHT = 170;

export function Chart(props: ChartProps) {
  const { title, hint, lines, data, format, empty, choice } = props;
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const shown = useRef(props);
  shown.current = props;
  const [cursor, setCursor] = useState<number | null>(null);
  const isNothing = isEmpty(data);

  useEffect(() => {
    const parent = box.current;
    if (parent === null || isNothing) return;
    const made = new uPlot(options(parent, shown, setCursor), [[]], parent);
    plot.current = made;
    draw(made, shown.current);
    const sized = new ResizeObserver(() => {
      if (parent.clientWidth > 0) made.setSize({ width: parent.clientWidth, height: HEIGHT });
    });
    sized.observe(parent);
    const repaint = () => made.redraw(false, true);
    addEventListener(THEME_CHANGED, repaint);
    return () => {
      removeEventListener(THEME_CHANGED, repaint);
      sized.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [lines.map((line) => line.name).join(), isNothing]);

  useEffect(() => {
    if (plot.current !== null) draw(plot.current, props);
  }, [data, props.from, props.to]);

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
        <p class="empty">{empty}</p>
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
          <div ref={box} class="plot" role="img" aria-label={`${title}: ${summary}`} />
        </>
      )}
    </figure>
  );
}

function draw(plot: uPlot, { data, from, to }: ChartProps): void {
  plot.setData([data.at, ...data.values], false);
  plot.setScale("x", { min: from, max: to });
}

function options(
  parent: HTMLElement,
  shown: { current: ChartProps },
  setCursor: (index: number | null) => void,
): uPlot.Options {
  const colour = (name: string) => resolved(parent, name);
  const axis = {
    stroke: () => colour("soft"),
    grid: { stroke: () => colour("line"), width: 1 },
    ticks: { show: false },
    font: "12px system-ui, sans-serif",
  };
  return {
    width: Math.max(parent.clientWidth, 100),
    height: HEIGHT,
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false }, points: { size: 7 } },
    scales: { x: { time: true }, y: { range: (_plot, _min, max) => [0, top(max)] } },
    axes: [
      { ...axis, values: (plot, splits) => ticks(splits, (plot.scales["x"]?.max ?? 0) - (plot.scales["x"]?.min ?? 0)), space: 64, size: 26 },
      { ...axis, size: 58, values: (_plot, splits) => splits.map((value) => shown.current.axis(value)) },
    ],
    series: [
      {},
      ...shown.current.lines.map((line): uPlot.Series => {
        const series: uPlot.Series = { label: line.name, stroke: () => colour(line.colour), width: 1.75, points: { show: false } };
        if (line.dash !== undefined) series.dash = line.dash;
        if (line.filled === true) series.fill = () => translucent(colour(line.colour));
        const steps = uPlot.paths.stepped;
        if (line.stepped === true && steps !== undefined) series.paths = steps({ align: 1 });
        return series;
      }),
    ],
    hooks: { setCursor: [(plot) => setCursor(plot.cursor.idx ?? null)] },
  };
}

/** The colour a name of the style sheet stands for, as a canvas understands it. */
function resolved(near: HTMLElement, name: string): string {
  const probe = document.createElement("span");
  probe.style.color = `var(--${name})`;
  near.append(probe);
  const colour = getComputedStyle(probe).color;
  probe.remove();
  return colour;
}

function translucent(colour: string): string {
  const parts = /^rgb\((\d+), (\d+), (\d+)\)$/.exec(colour);
  return parts === null ? "transparent" : `rgba(${parts[1]}, ${parts[2]}, ${parts[3]}, 0.13)`;
}

/** A little above the highest value, and never nothing. */
function top(max: number | null): number {
  return max === null || max <= 0 ? 1 : max * 1.08;
}

function ticks(splits: number[], length: number): string[] {
  const two = (part: number) => String(part).padStart(2, "0");
  return splits.map((at) => {
    const date = new Date(at * 1000);
    if (length > 3 * 86_400) return `${two(date.getDate())}.${two(date.getMonth() + 1)}.`;
    const clock = `${two(date.getHours())}:${two(date.getMinutes())}`;
    return length <= 180 ? `${clock}:${two(date.getSeconds())}` : clock;
  });
}
