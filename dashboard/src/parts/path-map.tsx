// The path of a request from the client to the response: a stream as wide as what passes, and a card for each stage.

import { number } from "../format";
import { COLUMN, HEIGHT, type Reach, river } from "../river";
import { address } from "../route";
import type { Standing } from "../modes";
import type { Loss, Stage } from "../stages";
import { Bars } from "./bars";

export function PathMap({ application, stages }: { application: string; stages: Stage[] }) {
  const lost = stages.flatMap((stage) => stage.losses.filter((loss) => loss.text !== "").map((loss) => ({ stage, loss })));
  const resting = stages.flatMap((stage) => stage.standings);
  return (
    <div class="path" style={{ "--stages": stages.length }}>
      <Stream stages={stages} />
      <ol aria-label="The path of a request, from the client to the response">
        {stages.map((stage, index) => (
          <li key={stage.id} class={`stage ${stage.state}`} data-stage={stage.id}>
            <div class="card">
              <h3>
                {stage.tab === undefined ? (
                  stage.name
                ) : (
                  <a href={address({ view: "application", name: application, tab: stage.tab })}>{stage.name}</a>
                )}
              </h3>
              {stage.standings.length > 0 && <Standings standings={stage.standings} stage={stage.name} would={stage.would} />}
              <dl class="figures">
                {stage.figures.map(({ label, value }) => (
                  <div key={label}>
                    <dt>{label}</dt>
                    <dd>{value}</dd>
                  </div>
                ))}
              </dl>
              {stage.gauge !== undefined && <Gauge {...stage.gauge} />}
              {stage.ahead !== undefined && <Bars ahead={stage.ahead} />}
              {stage.losses.length > 0 && <Losses losses={stage.losses} stage={stage.name} />}
              <p class="hint">{stage.hint}</p>
            </div>
            {index < stages.length - 1 && (
              <p class="passing">
                <span aria-hidden="true" class="down">↓ </span>
                <b>{number(stage.onwards)}</b> <small>{stage.onwardsUnit}</small>
                <span class="unseen"> go on</span>
              </p>
            )}
          </li>
        ))}
      </ol>
      {lost.length + resting.length > 0 && (
        <dl class="reasons" aria-label="What the reasons mean">
          {resting.map((one) => (
            <div key={one.name}>
              <dt class={one.mode}>{one.name}</dt>
              <dd>{one.text}</dd>
            </div>
          ))}
          {lost.map(({ stage, loss }) => (
            <div key={`${stage.id}-${loss.kind}-${loss.name}`}>
              <dt class={loss.kind}>{loss.name}</dt>
              <dd>{loss.text}</dd>
            </div>
          ))}
        </dl>
      )}
    </div>
  );
}

/** Before the class there are connections and not requests: the stream begins as wide as what arrives. */
function Stream({ stages }: { stages: Stage[] }) {
  const arrived = stages.find((stage) => stage.id === "tls")?.onwards ?? 0;
  let into = arrived;
  const reaches = stages.map((stage): Reach => {
    const isBefore = stage.id === "listener" || stage.id === "tls";
    const onwards = isBefore ? arrived : (stage.onwards ?? 0);
    const lost = isBefore ? 0 : sumOf(stage.losses);
    const reach = { into, lost, onwards };
    into = onwards;
    return reach;
  });
  const { stream, branches } = river(reaches);
  const losing = stages.map((stage) => stage.losses.filter(isGone)).filter((_, index) => (reaches[index]?.lost ?? 0) > 0);
  return (
    <svg class="river" viewBox={`0 0 ${stages.length * COLUMN} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
      <path class="river-stream" d={stream} />
      {branches.map((branch, index) => <path key={index} class={losing[index]?.every(isTold) === true ? "river-told" : "river-lost"} d={branch} />)}
    </svg>
  );
}

/** What is only watched goes on. */
function isGone(loss: Loss): boolean {
  return loss.kind !== "watched";
}

function isTold(loss: Loss): boolean {
  return loss.kind === "told";
}

function sumOf(losses: Loss[]): number {
  return losses.filter(isGone).reduce((added, loss) => added + loss.rate, 0);
}

/** Badges of what does not act here; each leads to its knob. */
function Standings({ standings, stage, would }: { standings: Standing[]; stage: string; would: string | undefined }) {
  return (
    <ul class="standings" aria-label={`What does not act at the stage ${stage}`}>
      {standings.map((one) => (
        <li key={one.name}>
          <a class={`chip ${one.mode}`} href={address({ view: "knobs", place: one.place })} title={one.text}>{one.name}</a>
        </li>
      ))}
      {would !== undefined && <li class="would">{would}</li>}
    </ul>
  );
}

function Losses({ losses, stage }: { losses: Loss[]; stage: string }) {
  return (
    <ul class="losses" aria-label={`Lost at the stage ${stage}`}>
      {losses.map((loss) => (
        <li key={`${loss.kind}-${loss.name}`} class={loss.kind} title={loss.text}>
          <b>{number(loss.rate)}/s</b> {loss.kind === "watched" ? `would be refused: ${loss.name}` : loss.name}
        </li>
      ))}
    </ul>
  );
}

function Gauge({ value, max, label }: { value: number; max: number; label: string }) {
  const share = max > 0 ? Math.min(1, value / max) : 0;
  return (
    <div class="gauge" role="meter" aria-valuemin={0} aria-valuemax={max} aria-valuenow={value} aria-label={label}>
      <div style={{ width: `${share * 100}%` }} />
    </div>
  );
}
