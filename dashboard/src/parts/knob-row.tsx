// One knob: what it is, and the form that changes it.

import { useEffect, useId, useRef, useState } from "preact/hooks";

import { type Knob, ApiProblem, api } from "../api";
import { choices, faultOf, isTime, localTime, nameOf, ofLocalTime, placeOf, scaled } from "../knobs";
import { time } from "../format";
import { useShared } from "../state";

/** How long to wait after a key before the gateway is asked whether the value would do. */
const CHECK_AFTER_MS = 250;

export function KnobRow({ knob, showPlace, changed }: { knob: Knob; showPlace: boolean; changed: () => void }) {
  const mayChange = useShared((state) => state.session?.role !== "read");
  const [isOpen, setOpen] = useState(false);
  const [said, setSaid] = useState<string | null>(null);
  const button = useRef<HTMLButtonElement>(null);
  const close = (done: string | null) => {
    setOpen(false);
    setSaid(done);
    // Back to where the form was opened from.
    queueMicrotask(() => button.current?.focus());
  };
  return (
    <li class={`knob ${knob.drift ? "drift" : ""}`} data-knob={knob.path}>
      <div class="knob-head">
        <h3>
          {showPlace && placeOf(knob.path) !== "" && <span class="soft">{placeOf(knob.path)}/</span>}
          <code>{nameOf(knob.path)}</code>
        </h3>
        <output class="value" aria-label={`value of ${knob.path}`}>{knob.value}{isTime(knob) && knob.value !== "none" ? ` (${time(Number(knob.value))})` : ""}</output>
        {mayChange && (
          <button ref={button} type="button" aria-expanded={isOpen} onClick={() => { setOpen(!isOpen); setSaid(null); }}>
            Change<span class="unseen"> {knob.path}</span>
          </button>
        )}
      </div>
      <p class="doc">{knob.doc}</p>
      <p class="soft small">
        Default {knob.default} · {allowed(knob)}
      </p>
      {knob.drift && (
        <p class="small drift-note">
          The configuration says {knob.configured}.
          {knob.changed !== undefined && (
            <>
              {" "}Changed by {knob.changed.who} at {time(knob.changed.at)}
              {knob.changed.why === "" ? "" : `: ${knob.changed.why}`}.{" "}
              {knob.changed.lasting ? "It is kept after a restart." : "It ends with the process."}
            </>
          )}
        </p>
      )}
      {isOpen && <Form knob={knob} close={close} changed={changed} />}
      <p class="said small" role="status">{said}</p>
    </li>
  );
}

function Form({ knob, close, changed }: { knob: Knob; close: (done: string | null) => void; changed: () => void }) {
  const id = useId();
  const list = choices(knob);
  const canKeep = useShared((state) => state.overview?.gateway.recording.kept === true);
  const [value, setValue] = useState(knob.value);
  const [why, setWhy] = useState("");
  const [isLasting, setLasting] = useState(false);
  const [fault, setFault] = useState<string | null>(null);
  const [isBusy, setBusy] = useState(false);
  const field = useRef<HTMLInputElement & HTMLSelectElement>(null);
  useEffect(() => field.current?.focus(), []);

  useEffect(() => {
    if (value === knob.value) {
      setFault(null);
      return;
    }
    let isCurrent = true;
    const timer = window.setTimeout(async () => {
      const found = await attempt({ [knob.path]: value }, true);
      if (isCurrent) setFault(found);
    }, CHECK_AFTER_MS);
    return () => {
      isCurrent = false;
      window.clearTimeout(timer);
    };
  }, [value]);

  /** What is wrong with a change, or nothing. */
  const attempt = async (changes: Record<string, string | null>, isDry: boolean): Promise<string | null> => {
    try {
      await api.change({ changes, why: why.trim(), dry_run: isDry, ...(isLasting && !isDry ? { lasting: true } : {}) });
      return null;
    } catch (error) {
      if (error instanceof ApiProblem) return faultOf(error.message, knob.path);
      return "The gateway does not answer; nothing was changed.";
    }
  };
  const apply = async (to: string | null) => {
    setBusy(true);
    const found = await attempt({ [knob.path]: to }, false);
    setBusy(false);
    setFault(found);
    if (found !== null) {
      field.current?.focus();
      return;
    }
    changed();
    close(to === null ? `Back to ${knob.configured}, as configured.` : `Changed from ${knob.value} to ${to}.`);
  };
  const step = (factor: number) => {
    const next = scaled(value, factor);
    if (next !== null) setValue(next);
  };
  const canScale = list === null && !isTime(knob) && scaled(value, 2) !== null;
  return (
    <form
      class="edit"
      onSubmit={(event) => { event.preventDefault(); void apply(value.trim()); }}
      onKeyDown={(event) => { if (event.key === "Escape") close(null); }}
    >
      <div class="field">
        <label for={`${id}-value`}>New value</label>
        <div class="together">
          {list === null ? (
            <input
              ref={field}
              id={`${id}-value`}
              value={value}
              autocomplete="off"
              spellcheck={false}
              aria-invalid={fault !== null}
              aria-describedby={`${id}-hint`}
              onInput={(event) => setValue(event.currentTarget.value)}
            />
          ) : (
            <select ref={field} id={`${id}-value`} value={value} aria-describedby={`${id}-hint`} onChange={(event) => setValue(event.currentTarget.value)}>
              {list.map((one) => <option key={one}>{one}</option>)}
            </select>
          )}
          {isTime(knob) && (
            <input type="datetime-local" step={1} aria-label="As a time of this browser's zone" value={localTime(value)} onInput={(event) => setValue(ofLocalTime(event.currentTarget.value))} />
          )}
          {canScale && (
            <>
              <button type="button" onClick={() => step(0.5)} aria-label="Half of it">½</button>
              <button type="button" onClick={() => step(2)} aria-label="Twice as much">×2</button>
            </>
          )}
        </div>
        <p id={`${id}-hint`} class={fault === null ? "soft small" : "fault small"} role={fault === null ? undefined : "alert"}>
          {fault ?? allowed(knob)}
        </p>
      </div>
      <div class="field">
        <label for={`${id}-why`}>Why</label>
        <input id={`${id}-why`} value={why} required maxLength={200} placeholder="for the record, such as: sale begins" onInput={(event) => setWhy(event.currentTarget.value)} />
      </div>
      <label class="inline check">
        <input type="checkbox" checked={isLasting} disabled={!canKeep} onChange={(event) => setLasting(event.currentTarget.checked)} />
        <span>{canKeep ? "Keep it after a restart" : "Keep it after a restart (needs state_directory in the configuration)"}</span>
      </label>
      <div class="buttons">
        <button class="primary" type="submit" disabled={isBusy || fault !== null || value.trim() === knob.value}>Apply</button>
        {(knob.drift || knob.changed !== undefined) && (
          <button type="button" disabled={isBusy || why.trim() === ""} onClick={() => void apply(null)}>
            Back to {knob.configured}, as configured
          </button>
        )}
        <button type="button" onClick={() => close(null)}>Cancel</button>
      </div>
    </form>
  );
}

/** The range as a sentence. */
function allowed(knob: Knob): string {
  return `${knob.allowed.charAt(0).toUpperCase()}${knob.allowed.slice(1)}.`;
}
