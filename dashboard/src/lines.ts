// The geometry of a chart over time: lines, the ground below them, and the ticks of both axes.

/** The picture's own units; it is stretched to the room there is. */
export const WIDTH = 1000;
export const HEIGHT = 200;
/** Ticks of the axis of values, about. */
const TICKS = 3;
/** Ticks of the axis of time, at most. */
const TIMES = 4;
const [MINUTE, HOUR, DAY] = [60, 3600, 86_400];
/** Steps between ticks of time, in seconds. */
const STEPS = [1, 2, 5, 10, 15, 30, MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 15 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR, 4 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 5 * DAY, 10 * DAY];

type Column = ReadonlyArray<number | null>;

export interface Frame {
  /** The time shown, in seconds since 1970. */
  from: number;
  to: number;
  /** The value at the upper edge; the lower one is nothing. */
  top: number;
}

/** A little above the highest value that is shown, and never nothing. */
export function topOf(at: readonly number[], columns: readonly Column[], from: number): number {
  const shown = columns.flatMap((column) => column.filter((value, index) => value !== null && (at[index] ?? 0) >= from)) as number[];
  const most = Math.max(0, ...shown);
  return most === 0 ? 1 : most * 1.08;
}

/** How far to the right a time is, from 0 to 1. */
export function across(time: number, { from, to }: Frame): number {
  return (time - from) / Math.max(to - from, 1e-9);
}

/** A line and the ground below it; both break where nothing was measured, and a value that stands alone is a dot. */
export function line(at: readonly number[], column: Column, frame: Frame, stepped: boolean): { line: string; ground: string; dots: string } {
  let [drawn, ground, dots] = ["", "", ""];
  // What has been drawn since the line broke last: its path, and where it begins and ends.
  let [piece, begun, last] = ["", "", ""];
  const end = () => {
    if (piece !== "" && begun === last) dots += `${piece}h0`;
    else if (piece !== "") {
      drawn += piece;
      ground += `${piece}V${HEIGHT}H${begun}Z`;
    }
    piece = "";
  };
  at.forEach((time, index) => {
    const value = column[index] ?? null;
    if (value === null || time < frame.from || time > frame.to) return end();
    const here = { x: (across(time, frame) * WIDTH).toFixed(1), y: (HEIGHT - (value / frame.top) * HEIGHT).toFixed(1) };
    if (piece === "") begun = here.x;
    piece += piece === "" ? `M${here.x} ${here.y}` : stepped ? `H${here.x}V${here.y}` : `L${here.x} ${here.y}`;
    last = here.x;
  });
  end();
  return { line: drawn, ground, dots };
}

/** Round values from nothing up to the upper edge. */
export function values(top: number): number[] {
  const rough = top / TICKS;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= rough * 0.7) ?? 10 * power;
  return Array.from({ length: Math.floor(top / step) + 1 }, (_, index) => index * step);
}

/** Round times of the browser's zone. */
export function times({ from, to }: Frame): number[] {
  const step = STEPS.find((one) => (to - from) / one <= TIMES) ?? 30 * DAY;
  const zone = new Date(from * 1000).getTimezoneOffset() * MINUTE;
  const first = Math.ceil((from - zone) / step) * step + zone;
  return Array.from({ length: Math.max(0, Math.floor((to - first) / step) + 1) }, (_, index) => first + index * step);
}

/** The position of the time that is nearest. */
export function nearest(at: readonly number[], time: number): number | null {
  let best: number | null = null;
  at.forEach((one, index) => {
    if (best === null || Math.abs(one - time) < Math.abs((at[best] ?? 0) - time)) best = index;
  });
  return best;
}

/** Points that a page of keys goes over. */
const PAGE = 10;

/** The time to which a key goes from another one, or from the last; `undefined`: the key is none that goes anywhere. */
export function stepped(at: readonly number[], from: number | null, key: string): number | undefined {
  const last = at.length - 1;
  const here = from === null ? last : (nearest(at, from) ?? last);
  const there: Record<string, number> = {
    ArrowLeft: here - 1, ArrowDown: here - 1, ArrowRight: here + 1, ArrowUp: here + 1,
    PageDown: here - PAGE, PageUp: here + PAGE, Home: 0, End: last,
  };
  const next = there[key];
  return next === undefined ? undefined : at[Math.min(Math.max(next, 0), last)];
}
