// The charts of an application: its load and goodput, response times, what is in flight, and its capacity.

import { useEffect, useRef, useState } from "preact/hooks";

import { type Application, api } from "../api";
import { number, rate, span } from "../format";
import { type Columns, RANGES, columns, joined } from "../series";
import { useShared } from "../state";
import { Chart } from "./chart";
import { GoodputOverLoad } from "./scatter";

const NONE: Columns = { at: [], values: [] };

interface Question {
  query: Record<string, string>;
  stats: string[];
  factor?: number;
}

/** What each chart asks: its columns in order. */
function questions(application: string, timed: string): Record<"load" | "times" | "waiting" | "flight" | "capacity", Question[]> {
  const of = { application };
  return {
    load: ["arrived", "goodput", "refused"].map((meter) => ({ query: { ...of, meter }, stats: ["mean"] })),
    times: [{ query: { class: timed, meter: "response_time" }, stats: ["p50", "p95", "p99"] }],
    waiting: [{ query: { ...of, meter: "queued" }, stats: ["mean"] }],
    flight: ["in_flight", "in_flight_limit"].map((meter) => ({ query: { ...of, meter }, stats: ["mean"] })),
    // The meter counts thousandths of work units.
    capacity: [
      { query: { ...of, meter: "capacity" }, stats: ["mean"], factor: 1e-3 },
      { query: { ...of, meter: "started" }, stats: ["mean"] },
    ],
  };
}

export function Charts({ application }: { application: Application }) {
  const [range, setRange] = useState(RANGES[0]!);
  const [chosen, setChosen] = useState<string | null>(null);
  const busiest = useBusiest(application);
  const timed = chosen !== null && application.classes.some((one) => one.path === chosen) ? chosen : busiest;
  const { data, now, fault } = useMeasured(application.name, timed, range);
  const common = { from: beginning(data.flight, now - range.length, now), to: now, empty: "Nothing came in this time. Send some requests, or look further back." };
  return (
    <section aria-labelledby="charts-title">
      <div class="between">
        <h2 id="charts-title">The last {range.name}</h2>
        <label class="inline">
          <span>Look back</span>
          <select
            value={range.name}
            onChange={(event) => setRange(RANGES.find((one) => one.name === event.currentTarget.value) ?? RANGES[0]!)}
          >
            {RANGES.map((one) => <option key={one.name}>{one.name}</option>)}
          </select>
        </label>
      </div>
      {fault !== null && <p class="fault" role="alert">The measurements could not be read: {fault}</p>}
      <div class="charts">
        <Chart
          {...common}
          title="Offered load and goodput"
          hint="Goodput should follow the load up to the capacity and stay there, however much comes."
          lines={[
            { name: "arrive", colour: "offered" },
            { name: "goodput", colour: "good", filled: true },
            { name: "refused", colour: "refused" },
          ]}
          data={data.load}
          format={(value) => rate(value)}
          axis={number}
        />
        <GoodputOverLoad data={data.load} empty={common.empty} />
        <Chart
          {...common}
          title="Response time"
          hint="Half of the requests are faster than 50 %, one in a hundred is slower than 99 %. From arrival to the last byte."
          lines={[
            { name: "50 %", colour: "good" },
            { name: "95 %", colour: "offered" },
            { name: "99 %", colour: "refused" },
          ]}
          data={data.times}
          format={span}
          axis={span}
          empty={`No request of ${timed} was answered in this time.`}
          choice={
            application.classes.length > 1 && (
              <label class="inline">
                <span>of the class</span>
                <select value={timed} onChange={(event) => setChosen(event.currentTarget.value)}>
                  {application.classes.map((one) => <option key={one.path} value={one.path}>{one.name}</option>)}
                </select>
              </label>
            )
          }
        />
        <Chart
          {...common}
          title="Requests waiting"
          hint="In the queues of all classes together. A queue that never empties adds waiting and no goodput."
          lines={[{ name: "waiting", colour: "offered", filled: true }]}
          data={data.waiting}
          format={number}
          axis={number}
          empty="No request has waited in this time: the servers took each as it came."
        />
        <Chart
          {...common}
          title="In flight against the limit"
          hint="Requests the servers work on at once, in weight units, and how many may be."
          lines={[
            { name: "in flight", colour: "good", filled: true },
            { name: "limit", colour: "refused", dash: [6, 4], stepped: true },
          ]}
          data={data.flight}
          format={number}
          axis={number}
        />
        <Chart
          {...common}
          title="Capacity as estimated"
          hint="What the servers can do at most, in work units a second (a request of the default class is one), and what they are given."
          lines={[
            { name: "capacity", colour: "refused", dash: [6, 4], stepped: true },
            { name: "started", colour: "good", filled: true },
          ]}
          data={data.capacity}
          format={(value) => rate(value, "per s")}
          axis={number}
          empty={`No estimate: the algorithm ${application.algorithm} finds a limit, not a capacity. Set in_flight.algorithm to knee_track or power_ratio, or capacity.given.`}
        />
      </div>
    </section>
  );
}

/** Where the charts begin: as far back as wanted, but not long before the first measurement. */
function beginning({ at, values: [measured = []] }: Columns, from: number, now: number): number {
  const first = at[measured.findIndex((value) => value !== null)] ?? now;
  return Math.min(Math.max(from, first), now - (now - from) / 5);
}

/** The class with most goodput when the charts opened: one that stays, so that the chart does not jump. */
function useBusiest(application: Application): string {
  const found = useRef({ path: "", isSettled: false });
  const isHere = application.classes.some((one) => one.path === found.current.path);
  if (!isHere || !found.current.isSettled) {
    const [most] = [...application.classes].sort((a, b) => (b.goodput ?? 0) - (a.goodput ?? 0));
    found.current = { path: most?.path ?? "", isSettled: (most?.goodput ?? 0) > 0 };
  }
  return found.current.path;
}

type Charted = Record<keyof ReturnType<typeof questions>, Columns>;

const NOTHING: Charted = { load: NONE, times: NONE, waiting: NONE, flight: NONE, capacity: NONE };

/** Measurements of a time, kept up to date: the whole once, then what is new with each step. */
function useMeasured(application: string, timed: string, range: (typeof RANGES)[number]) {
  const [state, setState] = useState({ data: NOTHING, now: Date.now() / 1000, fault: null as string | null });
  const isLive = useShared((shared) => shared.link.kind === "live");
  useEffect(() => {
    if (!isLive || timed === "") return;
    const stopped = new AbortController();
    let data = NOTHING;
    let since: number | null = null;

    const read = async () => {
      // The gateway's clock rules: its answers say what now is.
      const from = since === null ? `-${range.length}s` : String(since);
      const asked = questions(application, timed);
      const fresh = { ...NOTHING };
      for (const chart of Object.keys(asked) as Array<keyof Charted>) {
        const answers = await Promise.all(
          asked[chart].map(async ({ query, stats, factor = 1 }) => {
            const answer = await api.measurements({ ...query, from, step: range.step, stat: stats.join() }, stopped.signal);
            return stats.map((stat) => ({ answer, stat, factor }));
          }),
        );
        fresh[chart] = columns(answers.flat());
      }
      const now = lastTime(fresh.load.at, range.stepSeconds);
      for (const chart of Object.keys(fresh) as Array<keyof Charted>) {
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
        if (!stopped.signal.aborted) setState({ data, now, fault: null });
      } catch (error) {
        if (stopped.signal.aborted) return;
        setState((known) => ({ ...known, fault: error instanceof Error ? error.message : String(error) }));
      }
      if (!stopped.signal.aborted) timer = window.setTimeout(turn, Math.max(2, range.stepSeconds / 5) * 1000);
    };
    let timer = window.setTimeout(turn, 0);
    setState((known) => ({ ...known, data: NOTHING }));
    return () => {
      stopped.abort();
      window.clearTimeout(timer);
    };
  }, [application, timed, range, isLive]);
  return state;
}

function lastTime(at: number[], step: number): number {
  const last = at[at.length - 1];
  return last === undefined ? Date.now() / 1000 : last - step;
}

function before({ at, values }: Columns, end: number): Columns {
  const count = at.filter((time) => time <= end).length;
  return { at: at.slice(0, count), values: values.map((column) => column.slice(0, count)) };
}

