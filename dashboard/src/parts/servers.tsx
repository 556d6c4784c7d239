// The servers of an application: their health and work, drained and brought back here.

import { useState } from "preact/hooks";

import { type Application, type Server, api } from "../api";
import { number, span, time } from "../format";
import { condition, serverError } from "../reasons";
import { address } from "../route";
import { useShared } from "../state";
import { inService, sum } from "../stages";
import { type Column, Table } from "./table";

export function Servers({ application }: { application: Application }) {
  const mayChange = useShared((state) => state.session?.role !== "read");
  const [fault, setFault] = useState<string | null>(null);
  const columns: Array<Column<Server>> = [
    {
      key: "name",
      name: "Server",
      isText: true,
      by: (one) => one.name,
      cell: (one) => (
        <>
          <a href={address({ view: "knobs", place: `${application.name}/servers/${one.name}` })} title={`Knobs of ${one.name}`}>{one.name}</a>
          {one.address !== one.name && <small class="soft"> {one.address}</small>}
        </>
      ),
    },
    { key: "state", name: "State", isText: true, by: (one) => stateOf(one).name, cell: (one) => <Health one={one} /> },
    { key: "requests", name: "Requests, req/s", by: (one) => one.requests, cell: (one) => number(one.requests) },
    {
      key: "in_flight",
      name: "In flight",
      by: (one) => one.in_flight,
      cell: (one) => (one.in_flight_max === null ? number(one.in_flight) : `${number(one.in_flight)} of ${number(one.in_flight_max)}`),
    },
    { key: "time", name: "Responds in", by: (one) => one.response_time_s, cell: (one) => span(one.response_time_s) },
    { key: "errors", name: "Errors, per s", by: (one) => sum(one.upstream_errors), cell: (one) => <Errors one={one} /> },
    { key: "connects", name: "Connects, per s", by: (one) => one.connects, cell: (one) => <Connects one={one} /> },
    { key: "weight", name: "Weight", by: (one) => one.weight, cell: (one) => number(one.weight) },
  ];
  if (mayChange) {
    // Beside the state, so that it is in sight on narrow screens.
    columns.splice(2, 0, {
      key: "drain",
      name: "Change",
      isText: true,
      cell: (one) => <Drain application={application.name} one={one} failed={setFault} />,
    });
  }
  return (
    <section aria-labelledby="servers-title">
      <h2 id="servers-title">Servers</h2>
      <p class="soft">
        A server that fails too often is paused and tried again by itself. Draining one lets it finish what it has and
        gives it nothing new, such as before it is restarted; that lasts until it is undone or the gateway ends, and stands in
        the record of changes.
      </p>
      {fault !== null && <p class="fault" role="alert">{fault}</p>}
      {application.unresolved.length > 0 && (
        <ul class="fault">
          {application.unresolved.map((one) => (
            <li key={one.name}>
              {one.name}: its name does not resolve{one.error === null ? " yet" : `: ${one.error}`}
              {one.tried_at !== null && ` (tried at ${time(one.tried_at)})`}
            </li>
          ))}
        </ul>
      )}
      {application.servers.length === 0 && application.unresolved.length === 0 && (
        <p class="empty">
          There is no server. Write <code>servers = ["http://HOST:PORT"]</code> into [application.{application.name}] of the
          configuration and save it.
        </p>
      )}
      {application.servers.length > 0 && (
        <Table caption={`Servers of ${application.name}`} columns={columns} rows={application.servers} id={(one) => `${one.name} ${one.address}`} first={{ key: "name", descending: false }} />
      )}
    </section>
  );
}

function stateOf(one: Server): { name: string; text: string; tone: string } {
  if (!one.member) return { name: "removed", text: "finishes what it has", tone: "warn" };
  if (one.draining) return { name: "draining", text: "finishes what it has, gets nothing new", tone: "warn" };
  return condition(one.condition);
}

function Health({ one }: { one: Server }) {
  const { name, text, tone } = stateOf(one);
  return (
    <>
      <span class={`chip ${tone}`}>{name}</span>
      {!inService(one) && <small class="soft"> {text}</small>}
    </>
  );
}

function Errors({ one }: { one: Server }) {
  const errors = Object.entries(one.upstream_errors).sort(([, a], [, b]) => b - a);
  if (errors.length === 0) return <>0</>;
  return (
    <span class="why">
      <b>{number(sum(one.upstream_errors))}</b>
      {errors.map(([name, perSecond]) => (
        <small key={name}>{errors.length > 1 ? `${number(perSecond)} ` : ""}{serverError(name)}</small>
      ))}
    </span>
  );
}

function Drain({ application, one, failed }: { application: string; one: Server; failed: (why: string | null) => void }) {
  const [isBusy, setBusy] = useState(false);
  if (!one.member) return null;
  const act = async () => {
    setBusy(true);
    try {
      await api.editServer(application, one.name, { drain: !one.draining });
      failed(null);
    } catch (error) {
      failed(error instanceof Error ? error.message : String(error));
    }
    setBusy(false);
  };
  return (
    <button type="button" disabled={isBusy} onClick={act} aria-label={`${one.draining ? "Bring back" : "Drain"} ${one.name}`}>
      {one.draining ? "Bring back" : "Drain"}
    </button>
  );
}

function Connects({ one }: { one: Server }) {
  if (one.keep_alive) return <>{number(one.connects)}</>;
  return (
    <span title="Each connection is closed after its first request (upstream.keep_alive)">
      {number(one.connects)} <small class="soft">not kept</small>
    </span>
  );
}
