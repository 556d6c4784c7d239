// One application: the path of its requests, its charts, classes and servers.

import type { Application, Overview } from "../api";
import { CapacityPart } from "../parts/capacity";
import { Charts } from "../parts/charts";
import { Classes } from "../parts/classes";
import { PathMap } from "../parts/path-map";
import { RoomPart } from "../parts/room";
import { Servers } from "../parts/servers";
import { number, rate } from "../format";
import { inShort } from "../modes";
import { type Tab, address } from "../route";
import { useShared } from "../state";
import { inFlight, stages, sum } from "../stages";
import { Condition } from "./applications";

const TABS: ReadonlyArray<{ tab: Tab; name: string }> = [
  { tab: "path", name: "Path and charts" },
  { tab: "capacity", name: "Capacity" },
  { tab: "room", name: "Waiting room" },
  { tab: "classes", name: "Classes" },
  { tab: "servers", name: "Servers" },
];

export function ApplicationView({ name, tab }: { name: string; tab: Tab }) {
  const overview = useShared((state) => state.overview);
  if (overview === null) return <p class="empty">Waiting for the gateway's first figures …</p>;
  const application = overview.applications.find((one) => one.name === name);
  if (application === undefined) {
    return (
      <div class="empty">
        <h1>No application is called {name}</h1>
        <p>It was removed from the configuration, or the address is mistyped. <a href="#/">See which there are.</a></p>
      </div>
    );
  }
  const resting = inShort(application);
  return (
    <>
      <div class="headline">
        <h1>{application.name}</h1>
        <Condition application={application} />
        {resting !== null && <p class="chip warn">{resting}</p>}
      </div>
      <Sentence application={application} />
      <nav class="tabs" aria-label={`Parts of ${name}`}>
        <ul>
          {TABS.map((one) => (
            <li key={one.tab}>
              <a href={address({ view: "application", name, tab: one.tab })} aria-current={one.tab === tab ? "page" : undefined}>
                {one.name}
                {one.tab === "classes" && <small> {application.classes.length}</small>}
                {one.tab === "room" && application.room !== null && <small> {number(application.room.waiting)}</small>}
                {one.tab === "servers" && <small> {application.servers.length}</small>}
              </a>
            </li>
          ))}
          <li>
            <a href={address({ view: "knobs", place: name })}>Knobs</a>
          </li>
        </ul>
      </nav>
      {tab === "path" && (
        <>
          <NoTraffic overview={overview} application={application} />
          <section aria-labelledby="path-title">
            <h2 id="path-title">The way of a request</h2>
            <p class="soft">
              What passes each stage now (mean of the last {number(overview.window_s)} s), what waits there, and in red what is
              refused and why{application.would_wait === null ? "" : ", in yellow what would be if what only watches acted"}{application.room === null ? "" : ", in blue who is told a time to come back at"}.
            </p>
            <PathMap application={name} stages={stages(overview, application)} />
          </section>
          <Charts application={application} />
        </>
      )}
      {tab === "capacity" && <CapacityPart application={application} now={overview.at} />}
      {tab === "room" && <RoomPart application={application} now={overview.at} />}
      {tab === "classes" && <Classes application={application} />}
      {tab === "servers" && <Servers application={application} />}
    </>
  );
}

/** The state of things for whoever reads one line only. */
function Sentence({ application }: { application: Application }) {
  const refused = sum(application.refused);
  return (
    <p class="sentence">
      <span><b class="ink-offered">{rate(application.arrived)}</b> arrive</span>
      <span><b class="ink-good">{rate(application.goodput)}</b> answered well</span>
      <span><b class="ink-refused">{rate(refused)}</b> refused</span>
      <span><b>{number(application.queued)}</b> waiting</span>
      {application.room !== null && <span><b>{number(application.room.waiting)}</b> in the waiting room</span>}
      <span>
        <b>{inFlight(application)}</b> in flight
      </span>
    </p>
  );
}

function NoTraffic({ overview, application }: { overview: Overview; application: Application }) {
  const hasTraffic = (application.arrived ?? 0) > 0 || application.in_flight > 0 || application.queued > 0;
  const listener = overview.listeners.find((one) => one.application === null || one.application === application.name);
  if (hasTraffic || listener === undefined) return null;
  const url = urlOf(listener.address, listener.tls);
  // Of those with a wildcard, one that it stands for.
  const hosts = application.hosts ?? [];
  const host = hosts.find((one) => !one.includes("*")) ?? hosts[0]?.replace("*", "www");
  const header = host === undefined ? "" : ` -H 'Host: ${host}'`;
  return (
    <div class="card note">
      <h2>No traffic yet</h2>
      <p>
        Nothing has come for {application.name} in the last seconds.{" "}
        {url === null ? <>It listens on {listener.address}.</> : <>Send something to <a href={url}>{url}</a>, such as</>}
      </p>
      {url !== null && <pre>{`curl ${listener.tls ? "-k " : ""}-i${header} ${url}`}</pre>}
    </div>
  );
}

/** Where a listener can be reached from this browser; `null` for a socket in the file system. */
function urlOf(listens: string, isTls: boolean): string | null {
  const match = /^(?:(\[.*\])|([^:]+)):(\d+)$/.exec(listens);
  if (match === null) return null;
  const [, six, four, port] = match;
  const isAny = six === "[::]" || four === "0.0.0.0";
  return `${isTls ? "https" : "http"}://${isAny ? location.hostname : (six ?? four)}:${port}/`;
}
