// Every knob with its value, range and default, to change in place.

import { useMemo, useState } from "preact/hooks";

import type { Knob, KnobQuery } from "../api";
import { KnobRow } from "../parts/knob-row";
import { useKnobs } from "../parts/knobs-of";
import { type Place, filtered, grouped, places } from "../knobs";
import { plural } from "../format";
import { address } from "../route";
import { useShared } from "../state";

const CHANGED: readonly KnobQuery[] = [{ changed: "true" }];
const NONE: readonly KnobQuery[] = [];

export function KnobsView({ place }: { place: string }) {
  const applications = useShared((state) => state.overview?.applications);
  const all = useMemo(() => places(applications ?? []), [applications]);
  const here = all.find((one) => one.path === place);
  // Of all places together they may be many.
  const own = useKnobs(here === undefined ? NONE : [{ path: place, below: "false" }]);
  const changes = useKnobs(CHANGED);
  const [words, setWords] = useState("");
  const [onlyChanged, setOnlyChanged] = useState(false);
  if (applications === undefined) return <p class="empty">Waiting for the gateway's first figures …</p>;
  const { knobs, fault } = onlyChanged ? changes : own;
  const found = filtered(knobs ?? [], { place, words, below: onlyChanged });
  const reread = () => {
    own.reread();
    changes.reread();
  };
  return (
    <>
      <h1>Knobs</h1>
      <p class="soft">
        Everything that can be changed while the gateway runs. A change takes effect at once and drops no request; it ends with
        the process unless it is kept, and it is recorded with who and why under <a href="#/changes">Events</a>. What is
        written in the configuration file stays as it is: where a value differs from it, the row says so.
      </p>
      <form class="filters" role="search" onSubmit={(event) => event.preventDefault()}>
        <label class="inline">
          <span>Of</span>
          <select value={place} onChange={(event) => { location.hash = address({ view: "knobs", place: event.currentTarget.value }); }}>
            <Places all={all} />
            {here === undefined && <option value={place}>{place} (gone)</option>}
          </select>
        </label>
        <label class="inline">
          <span>Find</span>
          <input type="search" value={words} placeholder="queue, timeout …" onInput={(event) => setWords(event.currentTarget.value)} />
        </label>
        <label class="inline check">
          <input type="checkbox" checked={onlyChanged} onChange={(event) => setOnlyChanged(event.currentTarget.checked)} />
          <span>Only changed ({changes.knobs?.length ?? "…"})</span>
        </label>
      </form>
      <p class="soft" role="status">
        {knobs === null ? "Reading the knobs …" : `${plural(found.length, onlyChanged ? "changed knob" : "knob")} of ${place === "" ? "the gateway" : place}`}
      </p>
      {fault !== null && <p class="fault" role="alert">The knobs could not be read: {fault}</p>}
      {knobs !== null && found.length === 0 && <Nothing onlyChanged={onlyChanged} words={words} isGone={here === undefined} place={place} />}
      {onlyChanged
        ? <List title="Changed" knobs={found} showPlace reread={reread} />
        : grouped(found).map((group) => (
            <List key={group.subject} title={group.subject} knobs={group.knobs} showPlace={false} reread={reread} />
          ))}
    </>
  );
}

function List({ title, knobs, showPlace, reread }: { title: string; knobs: Knob[]; showPlace: boolean; reread: () => void }) {
  if (knobs.length === 0) return null;
  return (
    <section class="knobs">
      <h2>{title.replaceAll("_", " ")}</h2>
      <ul>
        {knobs.map((knob) => <KnobRow key={knob.path} knob={knob} showPlace={showPlace} changed={reread} />)}
      </ul>
    </section>
  );
}

function Places({ all }: { all: Place[] }) {
  const applications = all.filter((one) => one.kind === "application");
  const below = (application: Place, kind: Place["kind"]) =>
    all.filter((one) => one.kind === kind && one.path.startsWith(`${application.path}/`));
  return (
    <>
      {all.filter((one) => one.kind === "gateway").map((one) => <option key="" value="">{one.name}</option>)}
      {applications.map((application) => (
        <optgroup key={application.path} label={`Application ${application.name}`}>
          <option value={application.path}>{application.name}</option>
          {below(application, "class").map((one) => <option key={one.path} value={one.path}>class {one.name}</option>)}
          {below(application, "server").map((one) => <option key={one.path} value={one.path}>server {one.name}</option>)}
        </optgroup>
      ))}
    </>
  );
}

function Nothing({ onlyChanged, words, isGone, place }: { onlyChanged: boolean; words: string; isGone: boolean; place: string }) {
  if (isGone) return <p class="empty">There is no {place}, or no longer. Choose another above.</p>;
  if (words.trim() !== "") return <p class="empty">No knob here has “{words}” in its name or its description.</p>;
  return onlyChanged ? <p class="empty">Nothing was changed here: all is as the configuration file has it.</p> : null;
}
