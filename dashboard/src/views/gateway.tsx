// The gateway itself: its connections, its processors and memory, the host's pressure, and where it keeps things.

import { bytes, number, percent, plural, rate, span, time, words } from "../format";
import { handshake } from "../reasons";
import { useShared } from "../state";

export function GatewayView() {
  const overview = useShared((state) => state.overview);
  if (overview === null) return <p class="empty">Waiting for the gateway's first figures …</p>;
  const { gateway, listeners } = overview;
  const figures = (entries: Array<[string, string]>) => (
    <dl class="figures">
      {entries.map(([name, value]) => (
        <div key={name}><dt>{name}</dt><dd>{value}</dd></div>
      ))}
    </dl>
  );
  const faults: Array<[string, number, string]> = [
    ...Object.entries(gateway.connections_refused).map(([name, value]) => [`connections refused: ${words(name)}`, value, "per s"] as [string, number, string]),
    ...Object.entries(gateway.bad_requests).map(([name, value]) => [`bad requests: ${words(name)}`, value, "per s"] as [string, number, string]),
    ["broken beginnings of connections", gateway.broken_prefaces ?? 0, "per s"],
    ["log lines and events lost", gateway.events_lost ?? 0, "per s"],
  ];
  const seen = faults.filter(([, value]) => value > 0);
  return (
    <>
      <h1>Gateway</h1>
      <p class={`chip ${gateway.ready ? "good" : "warn"}`}>{gateway.ready ? "ready" : "starting or draining"}</p>
      <div class="cards">
        <section class="card" aria-labelledby="g-process">
          <h2 id="g-process">Process</h2>
          {figures([
            ["version", gateway.version],
            ["running since", `${time(gateway.started_at)} (${span(overview.at - gateway.started_at)})`],
            ["processors used", number(gateway.cpu)],
            ["memory", bytes(gateway.memory_bytes)],
            ["memory for bodies read ahead", bytes(gateway.spooled_bytes)],
          ])}
        </section>
        <section class="card" aria-labelledby="g-connections">
          <h2 id="g-connections">Connections of clients</h2>
          {figures([
            ["open", number(gateway.connections_open)],
            ["of these idle and parked", number(gateway.connections_parked)],
            ["new", rate(gateway.connections_accepted, "per s")],
            ...Object.entries(gateway.tls_handshakes).map(([kind, value]) => [handshake(kind), rate(value, "per s")] as [string, string]),
          ])}
        </section>
        <section class="card" aria-labelledby="g-host">
          <h2 id="g-host">Host</h2>
          <p class="hint">Pressure is the share of time in which something waited for it; over 50 % the host is short of it.</p>
          {figures([
            ["processors used by all", number(gateway.host_cpu)],
            ["memory available", bytes(gateway.memory_available_bytes)],
            ["pressure: processors", percent(gateway.cpu_pressure)],
            ["pressure: memory", percent(gateway.memory_pressure)],
            ["pressure: storage", percent(gateway.io_pressure)],
          ])}
        </section>
        <section class="card" aria-labelledby="g-listeners">
          <h2 id="g-listeners">{plural(listeners.length, "listener")}</h2>
          <ul class="plain">
            {listeners.map((one) => (
              <li key={`${one.name} ${one.address}`}>
                <code>{one.address}</code> {one.name !== one.address && <b>{one.name}</b>} <span class="soft">{one.tls ? "TLS" : "plain"}{one.application === null ? "" : `, for ${one.application} only`}</span>
              </li>
            ))}
          </ul>
        </section>
        <section class="card" aria-labelledby="g-faults">
          <h2 id="g-faults">Faults</h2>
          {seen.length === 0 ? (
            <p class="soft">None in the last {number(overview.window_s)} s: no connection refused, no malformed request, no event lost.</p>
          ) : (
            figures(seen.map(([name, value, unit]) => [name, rate(value, unit)]))
          )}
        </section>
        <section class="card" aria-labelledby="g-recording">
          <h2 id="g-recording">Measurements</h2>
          {gateway.recording.kept ? (
            <p>Kept on disk: they survive a restart.</p>
          ) : (
            <p>
              Kept in memory only{gateway.recording.why === undefined ? "" : `: ${gateway.recording.why}`}. Write{" "}
              <code>state_directory</code> into the configuration, and they survive a restart.
            </p>
          )}
          <p><a href="metrics">/metrics</a> for Prometheus</p>
        </section>
      </div>
    </>
  );
}
