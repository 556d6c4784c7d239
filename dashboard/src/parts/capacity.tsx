// What an application's servers can do: how that is known, why it has moved, and what is set.

import { useEffect, useState } from "preact/hooks";

import { type Application, type Capacity, api } from "../api";
import { ago, number, percent, rate, time } from "../format";
import { cause } from "../reasons";
import { type Range, RANGES } from "../series";
import { useShared } from "../state";
import { findsCapacity, isFloorAlone, source } from "../stages";
import { CapacityChart, capacityQuestions } from "./charts";
import { KnobsOf } from "./knobs-of";
import { Lately } from "./look-back";
import { beginning, useMeasured } from "./measured";
import { type Tile, Tiles } from "./tiles";
import { Why } from "./why";

const KNOBS = ["capacity", "in_flight.algorithm"];
const FIRST = ["capacity.given", "capacity.floor", "capacity.ceiling", "in_flight.algorithm"];
/** Parts of servers and costs of classes move slowly. */
const READ_AGAIN_MS = 5000;
/** Moves that are listed. */
const MOVES = 20;

export function CapacityPart({ application, now }: { application: Application; now: number }) {
  const { name, estimate } = application;
  const { capacity, fault } = useCapacity(name, `${estimate.moved?.at} ${estimate.told?.per_s} ${estimate.given_per_s}`);
  return (
    <>
      <section aria-labelledby="capacity-title">
        <div class="between">
          <h2 id="capacity-title">Capacity</h2>
          <Search application={application} />
        </div>
        <p class="soft">
          What the servers can do at most, in requests a second of what is asked for at present. It is learnt while they are
          asked for more than that, so that a quiet application has none yet.
        </p>
        {fault !== null && <p class="fault" role="alert">The capacity could not be read: {fault}</p>}
        <Tiles tiles={tiles(application, now)} name="How the capacity stands" />
      </section>
      <History application={application} />
      <section aria-labelledby="moves-title">
        <h2 id="moves-title">Why it moved</h2>
        <Moves capacity={capacity} now={now} />
      </section>
      <KnobsOf title="Settings of the capacity" application={name} paths={KNOBS} first={FIRST} />
      {capacity !== null && <Parts capacity={capacity} />}
    </>
  );
}

function tiles(application: Application, now: number): Tile[] {
  const { estimate, started } = application;
  const known = estimate.capacity_per_s;
  const isFloor = isFloorAlone(estimate);
  const bounds = [
    estimate.floor_per_s === null ? "" : `not below ${rate(estimate.floor_per_s)}`,
    estimate.ceiling_per_s === null ? "" : `not above ${rate(estimate.ceiling_per_s)}`,
  ].filter(Boolean);
  const { told } = estimate;
  return [
    {
      label: "The servers can do",
      value: known === null ? "not known" : `${isFloor ? "at least " : ""}${rate(known)}`,
      ...(estimate.work_per_s === null ? {} : { hint: `${rate(estimate.work_per_s, "work units/s")}; a request of the class default is one` }),
    },
    {
      label: "In use",
      value: known === null || isFloor ? rate(started) : percent((started ?? 0) / known),
      hint: estimate.limit_holds ? "the limit keeps requests waiting: the servers are full" : "nothing waits for the limit: there is room",
    },
    {
      label: "How it is known",
      value: known === null ? "not yet" : source(application),
      hint: told === null
        ? isFloor ? "not found yet; capacity.floor is written" : bounds.length > 0 ? bounds.join(", ") : "no floor, no ceiling"
        : told.until === null ? "until it is told anew or taken back" : `for ${number(Math.max(0, Math.round(told.until - now)))} s more, then what is found holds`,
    },
    {
      label: "Moved last",
      value: estimate.moved === null ? "never" : ago(now - estimate.moved.at),
      ...(estimate.moved === null ? {} : { hint: cause(estimate.moved.cause).text }),
    },
  ];
}

function History({ application }: { application: Application }) {
  const [range, setRange] = useState<Range>(RANGES[0]!);
  const { data, now, fault } = useMeasured({ started: capacityQuestions(application.name) }, range);
  return (
    <Lately id="capacity-chart" range={range} choose={setRange} fault={fault}>
      <CapacityChart application={application} data={data.started} from={beginning({ ...data.started, values: data.started.values.slice(1) }, now - range.length, now)} to={now} />
    </Lately>
  );
}

function Moves({ capacity, now }: { capacity: Capacity | null; now: number }) {
  const moves = [...(capacity?.events ?? [])].reverse().slice(0, MOVES);
  if (moves.length === 0) return <p class="empty">It has not moved since the gateway began.</p>;
  const known = (per_s: number | null) => (per_s === null ? "not known" : rate(per_s));
  return (
    <ol class="log" aria-label="Moves of the capacity, the latest first" tabIndex={0}>
      {moves.map((move) => (
        <li key={`${move.at} ${move.cause}`}>
          <time dateTime={new Date(move.at * 1000).toISOString()}>{time(move.at, now)}</time>
          <span>
            {known(move.before_per_s)} → <b>{known(move.after_per_s)}</b>: {cause(move.cause).text}
          </span>
        </li>
      ))}
    </ol>
  );
}

function Parts({ capacity }: { capacity: Capacity }) {
  const shares = capacity.servers.filter((server) => server.share !== null);
  const costs = Object.entries(capacity.costs).filter(([, cost]) => cost !== null);
  return (
    <section class="parts">
      {shares.length > 1 && (
        <details open>
          <summary>What each server does of it</summary>
          <dl class="figures">
            {shares.map((server) => (
              <div key={`${server.name} ${server.address}`}>
                <dt>{server.name}{server.address !== server.name && <small class="soft"> {server.address}</small>}</dt>
                <dd>{percent(server.share)}{server.capacity_per_s === null ? "" : `, ${rate(server.capacity_per_s)}`}</dd>
              </div>
            ))}
          </dl>
        </details>
      )}
      {costs.length > 0 && (
        <details>
          <summary>What a request of each class costs</summary>
          <dl class="figures">
            {costs.map(([name, cost]) => (
              <div key={name}>
                <dt>{name}</dt>
                <dd>{number(cost)} work units</dd>
              </div>
            ))}
          </dl>
        </details>
      )}
    </section>
  );
}

/** Has the capacity searched anew, with a reason for the record. */
function Search({ application }: { application: Application }) {
  const mayChange = useShared((state) => state.session?.role !== "read");
  const [isAsking, setAsking] = useState(false);
  const [why, setWhy] = useState("");
  const [said, setSaid] = useState<{ text: string; isFault: boolean } | null>(null);
  if (!mayChange || !findsCapacity(application)) return null;
  const search = async () => {
    try {
      await api.rediscover(application.name, why.trim());
      setAsking(false);
      setSaid({ text: "What was found is forgotten; the search begins.", isFault: false });
    } catch (error) {
      setSaid({ text: error instanceof Error ? error.message : String(error), isFault: true });
    }
  };
  return (
    <div class="search">
      {!isAsking && <button type="button" onClick={() => { setAsking(true); setSaid(null); }}>Search anew</button>}
      {isAsking && (
        <form class="edit" onSubmit={(event) => { event.preventDefault(); void search(); }} onKeyDown={(event) => { if (event.key === "Escape") setAsking(false); }}>
          <Why id="why-search" label="Why is it searched anew? What was found is forgotten." value={why} set={setWhy} placeholder="such as: a new release" isFirst />
          <div class="buttons">
            <button class="primary" type="submit">Search anew</button>
            <button type="button" onClick={() => setAsking(false)}>Cancel</button>
          </div>
        </form>
      )}
      <p class={said?.isFault === true ? "fault small" : "said small"} role="status">{said?.text}</p>
    </div>
  );
}

/** All that is known, read again when it has moved and now and then. */
function useCapacity(application: string, moved: string): { capacity: Capacity | null; fault: string | null } {
  const [known, setKnown] = useState<{ capacity: Capacity | null; fault: string | null }>({ capacity: null, fault: null });
  useEffect(() => {
    let isCurrent = true;
    const read = async () => {
      try {
        const capacity = await api.capacity(application);
        if (isCurrent) setKnown({ capacity, fault: null });
      } catch (error) {
        if (isCurrent) setKnown((before) => ({ ...before, fault: error instanceof Error ? error.message : String(error) }));
      }
    };
    void read();
    const timer = window.setInterval(read, READ_AGAIN_MS);
    return () => {
      isCurrent = false;
      window.clearInterval(timer);
    };
  }, [application, moved]);
  return known;
}
