// Numbers, spans, sizes and times as people read them, with their unit.

const NOTHING = "–";
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

/** A number: whole from 100 on, with one digit below, 0 only if it is nothing. */
export function number(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return NOTHING;
  const size = Math.abs(value);
  if (size >= 99.95 || Number.isInteger(value)) return whole.format(value);
  if (size >= 0.095) return value.toFixed(1);
  return size < 0.005 ? "0" : value.toFixed(2);
}

/** A rate of requests. */
export function rate(value: number | null | undefined, unit = "req/s"): string {
  const text = number(value);
  return text === NOTHING ? text : `${text} ${unit}`;
}

/** A span given in seconds. */
export function span(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return NOTHING;
  const ms = seconds * 1000;
  if (ms === 0) return "0 ms";
  if (ms < 9.95) return `${ms < 0.05 ? "<0.1" : ms.toFixed(1)} ms`;
  if (ms < 999.5) return `${ms.toFixed(0)} ms`;
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  if (seconds < 119.5) return `${seconds.toFixed(0)} s`;
  if (seconds < 7170) return `${(seconds / 60).toFixed(0)} min`;
  if (seconds < 172_000) return `${(seconds / 3600).toFixed(0)} h`;
  return `${whole.format(seconds / 86_400)} d`;
}

/** How long ago something was, given in seconds. */
export function ago(seconds: number): string {
  if (seconds < 1) return "just now";
  return seconds < 10 ? `${Math.floor(seconds)} s ago` : `${span(seconds)} ago`;
}

/** A number of bytes. */
export function bytes(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return NOTHING;
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let size = value;
  let unit = 0;
  while (size >= 1023.5 && unit < units.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${unit === 0 || size >= 99.95 ? whole.format(size) : size.toFixed(1)} ${units[unit]}`;
}

/** A share from 0 to 1. */
export function percent(share: number | null | undefined): string {
  if (share === null || share === undefined || !Number.isFinite(share)) return NOTHING;
  const value = share * 100;
  return `${value !== 0 && Math.abs(value) < 9.95 ? value.toFixed(1) : value.toFixed(0)} %`;
}

/** A time of day in the browser's zone; with its day unless that is today's. `at` is in seconds since 1970. */
export function time(at: number, now = Date.now() / 1000): string {
  const [date, today] = [new Date(at * 1000), new Date(now * 1000)];
  const two = (part: number) => String(part).padStart(2, "0");
  const clock = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  if (date.toDateString() === today.toDateString()) return clock;
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${clock}`;
}

/** `queue_full` as words. */
export function words(name: string): string {
  return name.replaceAll("_", " ");
}

/** One thing, several things. */
export function plural(count: number, one: string, many = `${one}s`): string {
  return `${number(count)} ${count === 1 ? one : many}`;
}
