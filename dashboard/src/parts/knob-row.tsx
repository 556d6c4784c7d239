// One knob: what it is, and the form that changes it.

import { useEffect, useId, useRef, useState } from "preact/hooks";

import { type Knob, ApiProblem, api } from "../api";
import { choices, faultOf, isTime, localTime, nameOf, ofLocalTime, placeOf, scaled } from "../knobs";
import { time } from "../format";
import { useShared } from "../state";
import { Why } from "./why";

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
      {(knob.drift || knob.changed?.in_force === false) && (
        <p class="small drift-note">
          {knob.drift && <>The configuration says {knob.configured}. </>}
          {knob.changed !== undefined && (
            <>
              Changed {knob.changed.in_force ? "" : `to ${knob.changed.value} `}by {knob.changed.who} at {time(knob.changed.at)}
              {knob.changed.why === "" ? "" : `: ${knob.changed.why}`}.{" "}
              {!knob.changed.in_force && "That is not in force, since it does not fit what is configured now. "}
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
  const isLive = useShared((state) => state.link.kind === "live");
  const version = useShared((state) => state.knobsVersion);
  const [value, setValue] = useState(knob.value);
  const [why, setWhy] = useState("");
  const [isLasting, setLasting] = useState(false);
  /** Why this value will not do. */
  const [wrong, setWrong] = useState<string | null>(null);
  /** Why it was not applied, which may go well the next time. */
  const [failure, setFailure] = useState<string | null>(null);
  const fault = failure ?? wrong;
  const [isBusy, setBusy] = useState(false);
  const field = useRef<HTMLInputElement & HTMLSelectElement>(null);
  useEffect(() => field.current?.focus(), []);

  useEffect(() => {
    if (value === knob.value) {
      setWrong(null);
      return;
    }
    let isCurrent = true;
    const timer = window.setTimeout(async () => {
      const found = await check(value);
      if (isCurrent) setWrong(found);
    }, CHECK_AFTER_MS);
    return () => {
      isCurrent = false;
      window.clearTimeout(timer);
    };
    // What is allowed goes by other knobs, too.
  }, [value, version, isLive]);
  useEffect(() => {
    if (isLive) setFailure(null);
  }, [value, isLive]);

  /** What is wrong with a value, or nothing; what else there is to say is said when it is applied. */
  const check = async (to: string): Promise<string | null> => {
    try {
      await api.change({ changes: { [knob.path]: to }, why: why.trim(), dry_run: true });
      return null;
    } catch (error) {
      return error instanceof ApiProblem && error.status === 400 ? faultOf(error.message, knob.path) : null;
    }
  };
  const apply = async (to: string | null) => {
    setBusy(true);
    setFailure(null);
    try {
      await api.change({ changes: { [knob.path]: to }, why: why.trim(), ...(isLasting ? { lasting: true } : {}) });
    } catch (error) {
      setFailure(
        error instanceof ApiProblem
          ? faultOf(error.message, knob.path)
          : "The gateway does not answer. Whether it was changed, its value says once it does.",
      );
      setBusy(false);
      field.current?.focus();
      return;
    }
    changed();
    close(said(knob, to, isLasting));
  };
  const step = (factor: number) => {
    const next = scaled(value, factor);
    if (next !== null) setValue(next);
  };
  // What holds now may be made to last.
  const isNew = value.trim() !== knob.value || (isLasting && knob.changed?.lasting !== true);
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
              aria-invalid={wrong !== null}
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
              <button type="button" onClick={() => step(0.5)} aria-label="½, half of it">½</button>
              <button type="button" onClick={() => step(2)} aria-label="×2, twice as much">×2</button>
            </>
          )}
        </div>
        <p id={`${id}-hint`} class={fault === null ? "soft small" : "fault small"} role={fault === null ? undefined : "alert"}>
          {fault ?? allowed(knob)}
        </p>
      </div>
      <div class="field">
        <Why id={`${id}-why`} label="Why" value={why} set={setWhy} placeholder="for the record, such as: sale begins" />
      </div>
      <label class="inline check">
        <input type="checkbox" checked={isLasting} disabled={!canKeep} onChange={(event) => setLasting(event.currentTarget.checked)} />
        <span>{canKeep ? "Keep it after a restart" : "Keep it after a restart (needs state_directory in the configuration)"}</span>
      </label>
      <div class="buttons">
        <button class="primary" type="submit" disabled={isBusy || wrong !== null || !isNew}>Apply</button>
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

/** What a change has done, as a sentence. */
function said(knob: Knob, to: string | null, isLasting: boolean): string {
  if (to === null) return `Back to ${knob.configured}, as configured.`;
  const kept = isLasting ? " It is kept after a restart." : "";
  return to === knob.value ? `It stays ${to}.${kept}` : `Changed from ${knob.value} to ${to}.${kept}`;
}

/** The range as a sentence. */
function allowed(knob: Knob): string {
  return `${knob.allowed.charAt(0).toUpperCase()}${knob.allowed.slice(1)}.`;
}
