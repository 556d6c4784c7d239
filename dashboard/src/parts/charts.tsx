// The charts of an application: its load and goodput, response times, what is in flight, and its capacity.

import { useRef, useState } from "preact/hooks";

import type { Application, Mode } from "../api";
import { number, rate, span } from "../format";
import { type Columns, RANGES } from "../series";
import { findsCapacity } from "../stages";
import { Chart, type Line } from "./chart";
import { Lately } from "./look-back";
import { type Question, beginning, useMeasured } from "./measured";
import { GoodputOverLoad } from "./scatter";

/** What each chart asks: its columns in order. */
function questions({ name: application, modes }: Application, timed: string): Record<"load" | "times" | "waiting" | "flight" | "capacity", Question[]> {
  const of = { application };
  return {
    load: ["arrived", "goodput", "refused"].map((meter) => ({ query: { ...of, meter }, stats: ["mean"] })),
    times: [{ query: { class: timed, meter: "response_time" }, stats: ["p50", "p95", "p99"] }],
    waiting: [{ query: { ...of, meter: "queued" }, stats: ["mean"] }],
    flight: ["in_flight", ...(modes.in_flight === "off" ? [] : ["in_flight_limit"])].map((meter) => ({ query: { ...of, meter }, stats: ["mean"] })),
    capacity: capacityQuestions(application),
  };
}

/** The limit as its mode has it: one that is off is no line. */
const LIMIT: Record<Mode, { hint: string; lines: Line[] }> = {
  enforce: { hint: "how many may be", lines: [{ name: "limit", colour: "refused", stepped: true }] },
  watch: {
    hint: "how many might be if the limit acted: it only watches",
    lines: [{ name: "limit, only watches:", colour: "warn", dash: [6, 4], stepped: true }],
  },
  off: { hint: "as many as come: the limit is off", lines: [] },
};

/** What was possible, and what was done of it. The meter counts thousandths of work units. */
export function capacityQuestions(application: string): Question[] {
  return [
    { query: { application, meter: "capacity" }, stats: ["mean"], factor: 1e-3 },
    { query: { application, meter: "started" }, stats: ["mean"] },
  ];
}

export function Charts({ application }: { application: Application }) {
  const [range, setRange] = useState(RANGES[0]!);
  const [chosen, setChosen] = useState<string | null>(null);
  const busiest = useBusiest(application);
  const timed = chosen !== null && application.classes.some((one) => one.path === chosen) ? chosen : busiest;
  const { data, now, fault } = useMeasured(timed === "" ? null : questions(application, timed), range);
  const common = { from: beginning(data.flight, now - range.length, now), to: now, empty: "Nothing came in this time. Send some requests, or look further back." };
  return (
    <Lately id="charts-title" range={range} choose={setRange} fault={fault}>
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
          hint={`Requests the servers work on at once, in weight units, and ${LIMIT[application.modes.in_flight ?? "enforce"].hint}.`}
          lines={[{ name: "in flight", colour: "good", filled: true }, ...LIMIT[application.modes.in_flight ?? "enforce"].lines]}
          data={data.flight}
          format={number}
          axis={number}
        />
        <CapacityChart {...common} application={application} data={data.capacity} />
      </div>
    </Lately>
  );
}

/** Whether there is a capacity in the first column: beside none, what was started says nothing here. */
function hasEstimate(data: Columns): boolean {
  return data.values[0]?.some((capacity) => capacity !== null && capacity > 0) ?? true;
}

export function CapacityChart({ application, data, from, to }: { application: Application; data: Columns; from: number; to: number }) {
  return (
    <Chart
      from={from}
      to={to}
      title="Capacity as estimated"
      hint="What the servers can do at most, in work units a second (a request of the default class is one), and what they are given."
      lines={[
        { name: "capacity", colour: "refused", dash: [6, 4], stepped: true },
        { name: "started", colour: "good", filled: true },
      ]}
      data={hasEstimate(data) ? data : { ...data, values: data.values.map((column) => column.map(() => null)) }}
      format={(value) => rate(value, "per s")}
      axis={number}
      empty={
        findsCapacity(application)
          ? "No estimate yet: it is found as soon as the servers are asked for more than they can do."
          : `No estimate: the algorithm ${application.algorithm} finds a limit, not a capacity. Set in_flight.algorithm to knee_track or power_ratio, or capacity.given.`
      }
    />
  );
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
