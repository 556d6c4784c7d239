// The controllers: scripts that read measurements and set knobs, and how each stands.

import type { Controller } from "../api";
import { bytes, number, time } from "../format";
import { sentence } from "../events";
import { useShared } from "../state";

export function ControllersView() {
  const controllers = useShared((state) => state.overview?.controllers ?? null);
  return (
    <>
      <h1>Controllers</h1>
      <p class="soft">
        A controller is a short script that reads measurements and sets knobs, every few seconds. One that errs or takes too
        long is stopped after a few strikes; the gateway goes on without it.
      </p>
      {controllers !== null && controllers.length === 0 && (
        <div class="empty">
          <p>No controller is configured. To run one, write into the configuration</p>
          <pre>{'[[controller]]\nfile = "home-limit.lua"'}</pre>
          <p>and save it. A script that holds the class home back while the application is overloaded:</p>
          <pre>{'every("5s", function()\n  if overloaded() then set("shop/home/ingress.rate", 0.6 * max("shop/home", "goodput", "1d"))\n  else clear("shop/home/ingress.rate") end\nend)'}</pre>
        </div>
      )}
      <ul class="cards">
        {(controllers ?? []).map((one) => <li key={one.name}><Card one={one} /></li>)}
      </ul>
    </>
  );
}

function Card({ one }: { one: Controller }) {
  const events = useShared((state) => state.events);
  const said = events.filter((entry) => entry.kind === "controller" && entry.data["name"] === one.name).slice(0, 8);
  const isRunning = one.state === "running";
  return (
    <article class="card">
      <h2>{one.name}</h2>
      <p class={`chip ${isRunning ? (one.failures > 0 ? "warn" : "good") : "bad"}`}>{one.state}</p>
      {one.why !== null && <p class="fault">{one.why}</p>}
      <dl class="figures">
        <div><dt>turns</dt><dd>{number(one.turns)}</dd></div>
        <div><dt>failed</dt><dd>{number(one.failures)}</dd></div>
        <div><dt>knobs it holds</dt><dd>{number(one.held)}</dd></div>
        <div><dt>steps of the last turn</dt><dd>{number(one.steps)}</dd></div>
        <div><dt>memory</dt><dd>{bytes(one.memory_bytes)}</dd></div>
      </dl>
      <h3>What it said</h3>
      {said.length === 0 ? (
        <p class="soft">Nothing yet.</p>
      ) : (
        <ol class="log">
          {said.map((entry) => (
            <li key={entry.key} class={sentence(entry).tone}>
              <time dateTime={new Date(entry.at * 1000).toISOString()}>{time(entry.at)}</time>
              <span>{sentence(entry).text.replace(`controller ${one.name} `, "")}</span>
            </li>
          ))}
        </ol>
      )}
    </article>
  );
}
