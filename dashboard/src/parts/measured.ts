// Measurements of a time for charts, kept up to date: the whole once, then what is new with each step.

import { useEffect, useState } from "preact/hooks";

import { api } from "../api";
import { type Columns, type Range, columns, joined } from "../series";
import { useShared } from "../state";

export interface Question {
  query: Record<string, string>;
  stats: string[];
  factor?: number;
}

const NONE: Columns = { at: [], values: [] };

/** The answers to what each chart asks, its columns in order; nothing is asked for `null`. */
export function useMeasured<Chart extends string>(questions: Record<Chart, Question[]> | null, range: Range) {
  const asked = JSON.stringify(questions);
  const charts = Object.keys(questions ?? {}) as Chart[];
  const nothing = Object.fromEntries(charts.map((chart) => [chart, NONE])) as Record<Chart, Columns>;
  const [state, setState] = useState({ asked, data: nothing, now: Date.now() / 1000, fault: null as string | null });
  const isLive = useShared((shared) => shared.link.kind === "live");
  useEffect(() => {
    if (!isLive || questions === null) return;
    const stopped = new AbortController();
    let data = nothing;
    let since: number | null = null;

    const read = async () => {
      // The gateway's clock rules: its answers say what now is.
      const from = since === null ? `-${range.length}s` : String(since);
      const fresh = { ...nothing };
      for (const chart of charts) {
        const answers = await Promise.all(
          questions[chart].map(async ({ query, stats, factor = 1 }) => {
            const answer = await api.measurements({ ...query, from, step: range.step, stat: stats.join() }, stopped.signal);
            return stats.map((stat) => ({ answer, stat, factor }));
          }),
        );
        fresh[chart] = columns(answers.flat());
      }
      const [first] = charts;
      const now = lastTime(first === undefined ? [] : fresh[first].at, range.stepSeconds);
      for (const chart of charts) {
        // The last step is not over yet: its rates would seem to fall.
        fresh[chart] = before(fresh[chart], now);
        data = { ...data, [chart]: joined(data[chart], fresh[chart], now - range.length) };
      }
      since = now - 3 * range.stepSeconds;
      return now;
    };

    const turn = async () => {
      try {
        const now = await read();
        if (!stopped.signal.aborted) setState({ asked, data, now, fault: null });
      } catch (error) {
        if (stopped.signal.aborted) return;
        setState((known) => ({ ...known, fault: error instanceof Error ? error.message : String(error) }));
      }
      if (!stopped.signal.aborted) timer = window.setTimeout(turn, Math.max(2, range.stepSeconds / 5) * 1000);
    };
    let timer = window.setTimeout(turn, 0);
    setState((known) => ({ ...known, asked, data: nothing }));
    return () => {
      stopped.abort();
      window.clearTimeout(timer);
    };
  }, [asked, range, isLive]);
  return state.asked === asked ? state : { ...state, data: nothing };
}

/** Where charts begin: as far back as wanted, but not long before the first measurement. */
export function beginning({ at, values: [measured = []] }: Columns, from: number, now: number): number {
  const first = at[measured.findIndex((value) => value !== null)] ?? now;
  return Math.min(Math.max(from, first), now - (now - from) / 5);
}

function lastTime(at: number[], step: number): number {
  const last = at[at.length - 1];
  return last === undefined ? Date.now() / 1000 : last - step;
}

function before({ at, values }: Columns, end: number): Columns {
  const count = at.filter((time) => time <= end).length;
  return { at: at.slice(0, count), values: values.map((column) => column.slice(0, count)) };
}
