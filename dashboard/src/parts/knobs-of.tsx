// Knobs of some paths, kept up to date, and a list of a few of them to change in place.

import { useEffect, useRef, useState } from "preact/hooks";

import { type Knob, type KnobQuery, api } from "../api";
import { nameOf } from "../knobs";
import { address } from "../route";
import { useShared } from "../state";
import { KnobRow } from "./knob-row";

/** Changes that come one after the other, such as a controller's, are read together. */
const READ_AGAIN_MS = 1000;

interface Known {
  knobs: Knob[] | null;
  fault: string | null;
}

const NOTHING: Known = { knobs: null, fault: null };

/** Some knobs, read again when the gateway's version moves. */
export function useKnobs(queries: readonly KnobQuery[]): Known & { reread: () => void } {
  const version = useShared((state) => state.knobsVersion);
  const key = JSON.stringify(queries);
  const [known, setKnown] = useState({ key, ...NOTHING });
  const [asked, setAsked] = useState(0);
  /** For what was read last. */
  const read = useRef({ key: "", asked });
  useEffect(() => {
    let isCurrent = true;
    const isAwaited = read.current.key !== key || read.current.asked !== asked;
    const again = async () => {
      read.current = { key, asked };
      try {
        const answers = await Promise.all(queries.map((query) => api.knobs(query)));
        if (isCurrent) setKnown({ key, knobs: answers.flatMap(({ knobs }) => knobs), fault: null });
      } catch (error) {
        const fault = error instanceof Error ? error.message : String(error);
        if (isCurrent) setKnown((before) => ({ key, knobs: before.key === key ? before.knobs : null, fault }));
      }
    };
    const timer = window.setTimeout(again, isAwaited ? 0 : READ_AGAIN_MS);
    return () => {
      isCurrent = false;
      window.clearTimeout(timer);
    };
  }, [version, asked, key]);
  // What was read of others is not shown in their place.
  const { knobs, fault } = known.key === key ? known : NOTHING;
  return { knobs, fault, reread: () => setAsked((times) => times + 1) };
}

/** Some knobs of an application: those named first are shown, the others when asked for. */
export function KnobsOf({ title, application, paths, first }: { title: string; application: string; paths: readonly string[]; first: readonly string[] }) {
  const { knobs, fault, reread } = useKnobs(paths.map((path) => ({ path: `${application}/${path}` })));
  if (knobs === null) {
    return fault === null ? <p class="empty">Reading the knobs …</p> : <p class="fault" role="alert">The knobs could not be read: {fault}</p>;
  }
  const shown = first.flatMap((name) => knobs.filter((knob) => nameOf(knob.path) === name));
  const others = knobs.filter((knob) => !first.includes(nameOf(knob.path)));
  const row = (knob: Knob) => <KnobRow key={knob.path} knob={knob} showPlace={false} changed={reread} />;
  return (
    <section class="knobs" aria-labelledby="knobs-title">
      <h2 id="knobs-title">{title}</h2>
      <ul>{shown.map(row)}</ul>
      {others.length > 0 && (
        <details>
          <summary>{others.length} more settings</summary>
          <ul>{others.map(row)}</ul>
        </details>
      )}
      <p class="soft small">
        All knobs of {application} are under <a href={address({ view: "knobs", place: application })}>Knobs</a>; what is changed
        here is recorded under <a href="#/changes">Events</a>.
      </p>
    </section>
  );
}
