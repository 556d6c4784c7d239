// Measurements over time as columns for a chart: fetched whole once, then only what is new.

import type { Measured } from "./api";

/** Times in seconds since 1970, and one column of values for each series. `null`: nothing was measured. */
export interface Columns {
  at: number[];
  values: Array<Array<number | null>>;
}

/** How far back a chart looks. */
export interface Range {
  name: string;
  /** In seconds. */
  length: number;
  /** Length of a point, as the API wants it, and in seconds. */
  step: string;
  stepSeconds: number;
}

export const RANGES: readonly Range[] = [
  { name: "5 minutes", length: 300, step: "1s", stepSeconds: 1 },
  { name: "1 hour", length: 3600, step: "10s", stepSeconds: 10 },
  { name: "1 day", length: 86_400, step: "5min", stepSeconds: 300 },
  { name: "30 days", length: 30 * 86_400, step: "2h", stepSeconds: 7200 },
];

/** Answers of one question each, brought to common times; `stats` names the value of each column. */
export function columns(answers: Array<{ answer: Measured; stat: string; factor?: number }>): Columns {
  const times = new Set<number>();
  for (const { answer } of answers) for (const point of answer.points) times.add(point.at);
  const at = [...times].sort((a, b) => a - b);
  const position = new Map(at.map((time, index) => [time, index]));
  const values = answers.map(({ answer, stat, factor = 1 }) => {
    const column = new Array<number | null>(at.length).fill(null);
    for (const point of answer.points) {
      const value = point[stat];
      const index = position.get(point.at);
      if (index !== undefined && typeof value === "number") column[index] = value * factor;
    }
    return column;
  });
  return { at, values };
}

/** `old` with what `fresh` says of its times and later ones, back to `since`. */
export function joined(old: Columns, fresh: Columns, since: number): Columns {
  const first = fresh.at[0];
  const kept = old.at.map((_, index) => index).filter((index) => {
    const time = old.at[index] ?? 0;
    return time >= since && (first === undefined || time < first);
  });
  const begin = fresh.at.findIndex((time) => time >= since);
  const tail = begin < 0 ? fresh.at.length : begin;
  return {
    at: [...kept.map((index) => old.at[index] ?? 0), ...fresh.at.slice(tail)],
    values: fresh.values.map((column, series) => [
      ...kept.map((index) => old.values[series]?.[index] ?? null),
      ...column.slice(tail),
    ]),
  };
}

/** The last value of a column that is one. */
export function latest(column: ReadonlyArray<number | null> | undefined): number | null {
  if (column === undefined) return null;
  for (let index = column.length - 1; index >= 0; index -= 1) {
    const value = column[index];
    if (value !== null && value !== undefined) return value;
  }
  return null;
}

/** Whether there is anything to draw. */
export function isEmpty(data: Columns): boolean {
  return data.values.every((column) => column.every((value) => value === null || value === 0));
}
