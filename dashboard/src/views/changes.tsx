// What happened: the gateway's events as they come, and the record of changes with the means to take one back.

import { useEffect, useState } from "preact/hooks";

import { type ChangeRecord, api } from "../api";
import { time } from "../format";
import { KINDS, action, sentence } from "../events";
import { Why } from "../parts/why";
import { type Shown, further, renewed } from "../record";
import { useShared } from "../state";

export function ChangesView() {
  return (
    <>
      <h1>Events and changes</h1>
      <Events />
      <Changes />
    </>
  );
}

function Events() {
  const events = useShared((state) => state.events);
  const [hidden, setHidden] = useState<ReadonlySet<string>>(new Set());
  const toggle = (kind: string) => {
    const next = new Set(hidden);
    if (!next.delete(kind)) next.add(kind);
    setHidden(next);
  };
  const shown = events.map((entry) => ({ entry, said: sentence(entry) })).filter(({ said }) => !hidden.has(said.kind));
  return (
    <section aria-labelledby="events-title">
      <h2 id="events-title">Events</h2>
      <p class="soft">What the gateway tells as it happens, the latest first; this page keeps 500.</p>
      <fieldset class="filters">
        <legend>Show</legend>
        {KINDS.map(({ kind, name }) => (
          <label key={kind} class="inline check">
            <input type="checkbox" checked={!hidden.has(kind)} onChange={() => toggle(kind)} />
            <span>{name}</span>
          </label>
        ))}
      </fieldset>
      {shown.length === 0 ? (
        <p class="empty">
          {events.length === 0
            ? "Nothing has happened yet. Changes of knobs, capacities and servers, servers that fail or come back, refusals that begin or end, and what controllers say appear here."
            : "Nothing of the chosen kinds has happened."}
        </p>
      ) : (
        <ol class="log" aria-label="Events, the latest first" tabIndex={0}>
          {shown.map(({ entry, said }) => (
            <li key={entry.key} class={said.tone}>
              <time dateTime={new Date(entry.at * 1000).toISOString()}>{time(entry.at)}</time>
              <span>{said.text}</span>
            </li>
          ))}
        </ol>
      )}
    </section>
  );
}

function Changes() {
  const version = useShared((state) => state.knobsVersion);
  const done = useShared((state) => state.events.find(({ kind }) => kind === "action")?.key);
  const [{ records, isMore }, setShown] = useState<Shown>({ records: null, isMore: false });
  const [fault, setFault] = useState<string | null>(null);
  const [asked, setAsked] = useState(0);
  useEffect(() => {
    let isCurrent = true;
    const timer = window.setTimeout(async () => {
      try {
        const { changes } = await api.changes();
        if (!isCurrent) return;
        setShown((shown) => renewed(shown, changes));
        setFault(null);
      } catch (error) {
        if (isCurrent) setFault(error instanceof Error ? error.message : String(error));
      }
    }, records === null || asked > 0 ? 0 : 1000);
    return () => {
      isCurrent = false;
      window.clearTimeout(timer);
    };
  }, [version, done, asked]);
  const readFurther = async () => {
    const last = records?.[records.length - 1]?.id;
    try {
      const { changes } = await api.changes(last);
      setShown((shown) => further(shown, changes));
      setFault(null);
    } catch (error) {
      setFault(error instanceof Error ? error.message : String(error));
    }
  };
  return (
    <section aria-labelledby="changes-title">
      <h2 id="changes-title">Record of changes</h2>
      <p class="soft">
        Every change by people, programs and controllers: who made it, why, and from what to what. Changes of knobs can be
        reverted; a capacity told, a server added or removed and a new key are undone by doing the contrary.
      </p>
      {fault !== null && <p class="fault" role="alert">The record could not be read: {fault}</p>}
      {records !== null && records.length === 0 && (
        <p class="empty">Nothing was changed. Change something under <a href="#/knobs">Knobs</a>, and it will stand here.</p>
      )}
      {records !== null && records.length > 0 && (
        <ol class="record">
          {records.map((record) => <Record key={record.id} record={record} reverted={() => setAsked((times) => times + 1)} />)}
        </ol>
      )}
      {isMore && <button type="button" onClick={readFurther}>Show earlier changes</button>}
    </section>
  );
}

function Record({ record, reverted }: { record: ChangeRecord; reverted: () => void }) {
  const mayChange = useShared((state) => state.session?.role !== "read");
  const [isAsking, setAsking] = useState(false);
  const [why, setWhy] = useState("");
  const [fault, setFault] = useState<string | null>(null);
  const [isBusy, setBusy] = useState(false);
  const revert = async () => {
    setBusy(true);
    try {
      await api.revert(record.id, why.trim());
      setAsking(false);
      setFault(null);
      reverted();
    } catch (error) {
      setFault(error instanceof Error ? error.message : String(error));
    }
    setBusy(false);
  };
  return (
    <li class="card" data-change={record.id}>
      <p>
        <time dateTime={new Date(record.at * 1000).toISOString()}>{time(record.at)}</time> <b>{record.who}</b>
        {record.why === "" ? "" : `: ${record.why}`}
        {record.lasting && <span class="chip plain">kept after a restart</span>}
      </p>
      <ul class="diff">
        {record.changes.map((one) => (
          <li key={one.path}>
            {one.what === undefined ? (
              <>
                <code>{one.path}</code> <del>{one.from}</del> → <ins>{one.to}</ins>
                {one.cleared === true && <span class="soft"> as configured</span>}
              </>
            ) : (
              action(one)
            )}
          </li>
        ))}
      </ul>
      {mayChange && record.revertible && !isAsking && (
        <button type="button" onClick={() => setAsking(true)}>
          Revert<span class="unseen"> the change of {record.changes.map((one) => one.path).join(", ")}</span>
        </button>
      )}
      {isAsking && (
        <form class="edit" onSubmit={(event) => { event.preventDefault(); void revert(); }} onKeyDown={(event) => { if (event.key === "Escape") setAsking(false); }}>
          <Why id={`why-${record.id}`} label="Why is it taken back?" value={why} set={setWhy} isFirst />
          {fault !== null && <p class="fault small" role="alert">{fault}</p>}
          <div class="buttons">
            <button class="primary" type="submit" disabled={isBusy}>Revert</button>
            <button type="button" onClick={() => setAsking(false)}>Cancel</button>
          </div>
        </form>
      )}
    </li>
  );
}
