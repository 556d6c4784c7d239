// All applications of the gateway at a glance; a single one is shown at once.

import type { Application } from "../api";
import { number, percent, rate } from "../format";
import { inShort } from "../modes";
import { refusal } from "../reasons";
import { address } from "../route";
import { useShared } from "../state";
import { inFlight, inService, sum } from "../stages";
import { ApplicationView } from "./application";

export function ApplicationsView() {
  const overview = useShared((state) => state.overview);
  if (overview === null) return <p class="empty">Waiting for the gateway's first figures …</p>;
  const [only] = overview.applications;
  if (only !== undefined && overview.applications.length === 1) {
    return <ApplicationView name={only.name} tab="path" />;
  }
  if (only === undefined) {
    return (
      <div class="empty">
        <h1>No application</h1>
        <p>The configuration names no application. Write one, such as</p>
        <pre>{'[application.shop]\nservers = ["http://127.0.0.1:8000"]'}</pre>
        <p>and save the file: it is read again by itself.</p>
      </div>
    );
  }
  return (
    <>
      <h1>Applications</h1>
      <ul class="cards">
        {overview.applications.map((application) => (
          <li key={application.name}>
            <Summary application={application} />
          </li>
        ))}
      </ul>
    </>
  );
}

function hostsOf({ hosts }: Application): string {
  if (hosts === null) return "any host";
  return hosts.length === 0 ? "by routes and listeners" : hosts.join(", ");
}

function Summary({ application }: { application: Application }) {
  const up = application.servers.filter(inService).length;
  const resting = inShort(application);
  return (
    <a class="card summary" href={address({ view: "application", name: application.name, tab: "path" })}>
      <h2>{application.name}</h2>
      <p class="soft">{hostsOf(application)}</p>
      <Condition application={application} />
      {resting !== null && <p class="chip warn">{resting}</p>}
      <dl class="figures">
        <div><dt>arrive</dt><dd>{rate(application.arrived)}</dd></div>
        <div><dt>goodput</dt><dd>{rate(application.goodput)}</dd></div>
        <div><dt>waiting</dt><dd>{number(application.queued)}</dd></div>
        <div><dt>in flight</dt><dd>{inFlight(application)}</dd></div>
        <div><dt>servers</dt><dd>{up} of {application.servers.length} in service</dd></div>
      </dl>
    </a>
  );
}

/** How an application is, in one line. */
export function Condition({ application }: { application: Application }) {
  const arrived = application.arrived ?? 0;
  const refused = sum(application.refused);
  const up = application.servers.filter(inService).length;
  const share = arrived > 0 ? percent(refused / arrived) : "";
  const reasons = Object.entries(application.refused)
    .sort(([, a], [, b]) => b - a)
    .map(([name]) => refusal(name).name);
  const isOverload = Object.keys(application.refused).some((name) => refusal(name).stage === "queue");
  const said =
    up === 0
      ? { tone: "bad", text: application.servers.length === 0 ? "There is no server" : "No server is in service" }
      : refused > 0
        ? {
            tone: "warn",
            text: `${isOverload ? "Overloaded" : "Refusing"}: ${share} refused (${reasons.join(", ")})`,
          }
        : arrived === 0
          ? { tone: "plain", text: "No traffic" }
          : (application.room_rates["promised"] ?? 0) > 0
            ? { tone: "good", text: "Busy: some are told when to come back" }
            : application.queued > 0
              ? { tone: "good", text: "Busy: all are served, some wait" }
              : { tone: "good", text: "All are served" };
  return <p class={`chip ${said.tone}`}>{said.text}</p>;
}
