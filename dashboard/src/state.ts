// What the page knows: one state, changed in one place, followed by whoever shows a part of it.

import { useEffect, useState } from "preact/hooks";

import { ApiProblem, type Overview, type Session, api, token } from "./api";
import { follow } from "./stream";

/** One line of the list of events. */
export interface LogEntry {
  key: string;
  at: number;
  kind: string;
  data: Record<string, unknown>;
}

export type Link =
  | { kind: "connecting" }
  | { kind: "live" }
  | { kind: "lost"; since: number; why: string }
  | { kind: "unauthorised"; why: string };

export interface State {
  link: Link;
  overview: Overview | null;
  session: Session | null;
  /** The latest first. */
  events: LogEntry[];
  /** Grows with each change of knobs seen, so that lists are read again. */
  knobsVersion: string;
}

/** Events kept for the list. */
const EVENTS_MAX = 500;

let state: State = { link: { kind: "connecting" }, overview: null, session: null, events: [], knobsVersion: "" };
const followers = new Set<() => void>();
let stop: (() => void) | null = null;

function update(part: Partial<State>): void {
  state = { ...state, ...part };
  for (const tell of followers) tell();
}

/** A part of the state; the component is drawn again when that part changes. */
export function useShared<T>(select: (state: State) => T): T {
  const [value, setValue] = useState(() => select(state));
  useEffect(() => {
    const tell = () => setValue(() => select(state));
    tell();
    followers.add(tell);
    return () => {
      followers.delete(tell);
    };
  }, []);
  return value;
}

/** Begins to follow the gateway, or begins anew with another token. */
export function connect(): void {
  stop?.();
  stop = follow("api/v1/events?meters=1s&after=0", {
    opened: () => {
      update({ link: { kind: "live" } });
      void readSession();
    },
    event: ({ id, event, data }) => {
      const parsed = parse(data);
      if (parsed === null) return;
      if (event === "meters") takeOverview(parsed as unknown as Overview);
      else takeEvent(id, event, parsed);
    },
    lost: (why) => update({ link: lost(why) }),
    refused: (problem) => {
      // Of a token that is for something else, another one is asked for.
      const asksForToken = problem.status === 401 || (problem.status === 403 && token.read() !== null);
      if (!asksForToken) return update({ link: lost(problem.message) });
      // Asked again and again, the gateway would take it for somebody who guesses.
      stop?.();
      update({ link: { kind: "unauthorised", why: problem.message } });
    },
  });
}

function lost(why: string): Link {
  const since = state.link.kind === "lost" ? state.link.since : Date.now() / 1000;
  return { kind: "lost", since, why };
}

async function readSession(): Promise<void> {
  try {
    update({ session: await api.session() });
  } catch (error) {
    // Before there are roles everybody may change everything; what may not be done, its answer says.
    if (!(error instanceof ApiProblem)) return;
  }
}

function takeOverview(overview: Overview): void {
  const knobsVersion = `${overview.gateway.started_at}-${overview.version}`;
  update({ overview, knobsVersion });
}

function takeEvent(id: string, kind: string, data: Record<string, unknown>): void {
  const at = typeof data["at"] === "number" ? data["at"] : Date.now() / 1000;
  const key = `${id}-${kind}-${at}`;
  if (state.events.some((known) => known.key === key)) return;
  update({ events: [{ key, at, kind, data }, ...state.events].slice(0, EVENTS_MAX) });
}

function parse(data: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(data);
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : null;
  } catch {
    return null;
  }
}
