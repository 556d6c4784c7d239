// Knobs of some paths, kept up to date, and a list of a few of them to change in place.

import { useEffect, useState } from "preact/hooks";

import { type Knob, api } from "../api";
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

/** Knobs at these paths and below them, read again when the gateway's version moves. */
export function useKnobs(paths: readonly string[]): Known & { reread: () => void } {
  const version = useShared((state) => state.knobsVersion);
  const [known, setKnown] = useState<Known>({ knobs: null, fault: null });
  const [asked, setAsked] = useState(0);
  useEffect(() => {
    let isCurrent = true;
    const read = async () => {
      try {
        const answers = await Promise.all(paths.map((path) => api.knobs(path)));
        if (isCurrent) setKnown({ knobs: answers.flatMap(({ knobs }) => knobs), fault: null });
      } catch (error) {
        if (isCurrent) setKnown((before) => ({ ...before, fault: error instanceof Error ? error.message : String(error) }));
      }
    };
    const timer = window.setTimeout(read, known.knobs === null || asked > 0 ? 0 : READ_AGAIN_MS);
    return () => {
      isCurrent = false;
      window.clearTimeout(timer);
    };
  }, [version, asked, paths.join()]);
  return { ...known, reread: () => setAsked((times) => times + 1) };
}

/** Some knobs of an application: those named first are shown, the others when asked for. */
export function KnobsOf({ title, application, paths, first }: { title: string; application: string; paths: readonly string[]; first: readonly string[] }) {
  const { knobs, fault, reread } = useKnobs(paths.map((path) => `${application}/${path}`));
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
