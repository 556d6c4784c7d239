// The gateway's HTTP API: the shapes of its answers, and a client that carries the token and names problems.

import { kept } from "./kept";

/** Rates per second; `null` is "not measured". */
export type Rate = number | null;
/** Rates by label; labels without events are left out. */
export type Rates = Record<string, number>;

export interface Overview {
  at: number;
  version: number;
  window_s: number;
  gateway: GatewayStatus;
  listeners: Listener[];
  applications: Application[];
  controllers: Controller[];
}

export interface GatewayStatus {
  version: string;
  ready: boolean;
  started_at: number;
  connections_open: number;
  connections_parked: number;
  spooled_bytes: number;
  connections_accepted: Rate;
  connections_refused: Rates;
  tls_handshakes: Rates;
  bad_requests: Rates;
  broken_prefaces: Rate;
  events_lost: Rate;
  cpu: Rate;
  memory_bytes: number | null;
  host_cpu: Rate;
  memory_available_bytes: number | null;
  cpu_pressure: Rate;
  memory_pressure: Rate;
  io_pressure: Rate;
  recording: { kept: boolean; why?: string };
}

export interface Listener {
  name: string;
  address: string;
  tls: boolean;
  application: string | null;
}

/** Whether a control acts. */
export type Mode = "off" | "watch" | "enforce";

/** The mode in force of each control of an application; `null`: that one is not set. */
export interface Modes {
  client: Mode | null;
  ingress: Mode | null;
  /** Of classes that have none of their own. */
  queue: Mode | null;
  in_flight: Mode | null;
  egress: Mode | null;
  long_streams: Mode;
  tls_sessions: Mode | null;
}

/** What is counted of a class, and summed of an application. */
export interface Counts {
  queued: number;
  /** Would be waiting, had what only watches acted; `null`: nothing watches. */
  would_wait: number | null;
  arrived: Rate;
  started: Rate;
  goodput: Rate;
  left: Rate;
  abandoned: Rate;
  retries: Rate;
  refused: Rates;
  would_refuse: Rates;
  responses: Rates;
  /** What happened in the waiting room. */
  room_rates: Rates;
}

/** What the servers can do, as found, given or told. */
export interface Estimate {
  /** Requests a second of the present mix. */
  capacity_per_s: number | null;
  /** Work units a second: a request of the class default is one. */
  work_per_s: number | null;
  limit_holds: boolean;
  given_per_s: number | null;
  floor_per_s: number | null;
  ceiling_per_s: number | null;
  /** Told by somebody, until then or until told anew. */
  told: { per_s: number; until: number | null } | null;
  moved: CapacityMove | null;
}

export interface CapacityMove {
  at: number;
  cause: string;
  before_per_s: number | null;
  after_per_s: number | null;
}

/** All that is known of a capacity. */
export interface Capacity extends Estimate {
  /** Work units of a request, by class; `null`: not learnt yet. */
  costs: Record<string, number | null>;
  servers: Array<{ name: string; address: string; share: number | null; capacity_per_s: number | null }>;
  /** The latest last. */
  events: CapacityMove[];
}

/** An application's waiting room. */
export interface Room {
  method: string;
  role: string;
  waiting: number;
  /** `null`: nothing can be promised to the next visitor. */
  next_wait_s: number | null;
  work_per_s: number | null;
  work_for_newcomers_per_s: number;
  work_of_sessions_per_s: number;
  no_show_share: number;
  /** When doors open, or the round is drawn. */
  opens_at: number | null;
  groups: Group[];
  report_overdue: boolean;
  /** What happened since the start. */
  counts: Record<string, number>;
  ahead: Ahead;
}

/** TLS sessions, as they come. */
export interface TlsSessions {
  /** What became of them before the handshake. */
  rates: Rates;
  /** New ones that are let in; `null`: nothing bounds them. */
  new_per_s: Rate;
  /** Work units that a connection asks for; `null`: none came. */
  new_cost: number | null;
  resumed_cost: number | null;
}

/** Processors of the host. */
export interface Processors {
  /** For all that is offered; `null`: not known yet. */
  asked: number | null;
  given: number;
}

/** Classes of an application that have doors or a share of their own in its waiting room. */
export interface Group {
  /** The class that has what is the group's. */
  class: string;
  classes: string[];
  method: string;
  opens_at: number | null;
  closed_message: string | null;
  /** Of each slot; `null`: it is let in with everybody. */
  share: number | null;
  /** `null`: not told apart from others. */
  waiting: number | null;
  /** Of them, people with a lot that is not drawn. */
  lots: number;
  next_wait_s: number | null;
}

/** Who waits from a time on, in spans of the same length. */
export interface Ahead {
  from: number;
  step_s: number;
  waiting: number[];
}

export interface Application extends Counts {
  name: string;
  /** `null`: any; none: only routes and listeners lead to it. */
  hosts: string[] | null;
  modes: Modes;
  algorithm: string;
  in_flight: number;
  in_flight_limit: number;
  /** Of what is in flight: stays, and no longer counts towards the limit found. */
  in_flight_dormant: number;
  capacity: number | null;
  estimate: Estimate;
  /** `null`: there is none. */
  room: Room | null;
  /** `null`: nothing looks at them. */
  tls_sessions: TlsSessions | null;
  /** `null`: no CPU manager is asked. */
  processors: Processors | null;
  long_streams: number;
  awaiting_server: number;
  lingering: number;
  classes: Class[];
  servers: Server[];
  unresolved: Unresolved[];
}

export interface Class extends Counts {
  name: string;
  path: string;
  modes: Omit<Modes, "client" | "long_streams" | "tls_sessions">;
  priority: number;
  weight: number;
  goodput_within_s: number;
  cost: number | null;
  bytes_in: Rate;
  bytes_out: Rate;
  waiting_time: Percentiles | null;
  service_time: Percentiles | null;
  response_time: Percentiles | null;
}

/** In seconds. */
export interface Percentiles {
  p50: number | null;
  p95: number | null;
  p99: number | null;
}

export interface Server {
  name: string;
  address: string;
  condition: string;
  member: boolean;
  draining: boolean;
  weight: number;
  in_flight: number;
  in_flight_max: number | null;
  keep_alive: boolean;
  response_time_s: number | null;
  requests: Rate;
  upstream_errors: Rates;
  connects: Rate;
}

/** A server whose name has no address yet, and what the last lookup said. */
export interface Unresolved {
  name: string;
  address: string;
  error: string | null;
  tried_at: number | null;
}

export interface Controller {
  name: string;
  state: string;
  why: string | null;
  turns: number;
  failures: number;
  steps: number;
  memory_bytes: number;
  held: number;
}

export interface Knob {
  path: string;
  value: string;
  configured: string;
  default: string;
  drift: boolean;
  allowed: string;
  doc: string;
  kind?: string;
  min?: string;
  max?: string;
  choices?: string[];
  optional?: boolean;
  /** `in_force`: whether it fits what is configured now; its application, class or server may be no more. */
  changed?: { who: string; why: string; at: number; lasting: boolean; value: string; in_force: boolean };
}

/** Which knobs: those at a path and, unless it is a place alone, below it; those that were changed. */
export type KnobQuery = { path: string; below?: "false" } | { changed: "true" };

/** A knob that was changed, or something else that was done, such as a server added. */
export interface KnobChange {
  path: string;
  from: string;
  to: string;
  what?: string;
  was_changed?: boolean;
  cleared?: boolean;
}

export interface ChangeRecord {
  id: number;
  at: number;
  who: string;
  why: string;
  lasting: boolean;
  revertible: boolean;
  changes: KnobChange[];
}

export interface Session {
  role: "read" | "operator";
  by: string;
  who: string | null;
}

export interface Measured {
  step_s: number;
  points: Array<{ at: number; measured_s: number } & Record<string, number | null>>;
}

export interface ChangeRequest {
  changes: Record<string, string | null>;
  why: string;
  lasting?: boolean;
  dry_run?: boolean;
}

/** Records of changes that are read at once. */
export const RECORDS_AT_ONCE = 50;

/** An answer other than success, in the gateway's own words. */
export class ApiProblem extends Error {
  readonly status: number;

  constructor(status: number, detail: string) {
    super(detail);
    this.status = status;
  }
}

/** Kept in the tab. */
export const token = kept(() => sessionStorage, "tidegate.token");

/** What every request carries. */
export function headers(more: Record<string, string> = {}): Record<string, string> {
  const known = token.read();
  return known === null ? more : { ...more, authorization: `Bearer ${known}` };
}

/** Reads an answer as JSON, or throws its problem. */
async function ask<T>(path: string, init: RequestInit = {}): Promise<T> {
  const response = await fetch(path, { ...init, headers: headers(init.headers as Record<string, string>) });
  if (!response.ok) throw await problemOf(response);
  return (await response.json()) as T;
}

/** The problem of an answer that is no success. */
export async function problemOf(response: Response): Promise<ApiProblem> {
  let detail = `the gateway answered ${response.status}`;
  try {
    const document = (await response.json()) as { detail?: unknown };
    if (typeof document.detail === "string") detail = document.detail;
  } catch {
    // Whatever stands between answered with a page of its own; its status says enough.
  }
  return new ApiProblem(response.status, detail);
}

function send<T>(method: string, path: string, body: unknown): Promise<T> {
  return ask<T>(path, { method, headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
}

function of(application: string): string {
  return `api/v1/applications/${encodeURIComponent(application)}`;
}

export const api = {
  session: () => ask<Session>("api/v1/session"),
  overview: () => ask<Overview>("api/v1/overview"),
  /** Every knob, or those of a path and below it. */
  knobs: (query: KnobQuery) => ask<{ version: number; knobs: Knob[] }>(`api/v1/knobs?${new URLSearchParams(query)}`),
  change: (request: ChangeRequest) =>
    send<{ changes: KnobChange[] }>("PATCH", "api/v1/knobs", { who: "dashboard", ...request }),
  changes: (before?: number) =>
    ask<{ changes: ChangeRecord[] }>(`api/v1/knobs/changes?limit=${RECORDS_AT_ONCE}${before === undefined ? "" : `&before=${before}`}`),
  revert: (id: number, why: string) =>
    send<{ changes: KnobChange[] }>("POST", "api/v1/knobs/revert", { id, why, who: "dashboard" }),
  editServer: (application: string, server: string, knobs: Record<string, unknown>) =>
    send<unknown>("PATCH", `${of(application)}/servers/${encodeURIComponent(server)}`, { who: "dashboard", ...knobs }),
  capacity: (application: string) => ask<Capacity>(`${of(application)}/capacity`),
  rediscover: (application: string, why: string) =>
    send<Capacity>("POST", `${of(application)}/capacity/rediscover`, { why, who: "dashboard" }),
  measurements: (query: Record<string, string>, signal?: AbortSignal) =>
    ask<Measured>(`api/v1/measurements?${new URLSearchParams(query)}`, signal === undefined ? {} : { signal }),
};
