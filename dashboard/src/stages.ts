// One request's path as stages: what passes each, what waits there, and what is lost there and why.

import type { Ahead, Application, Counts, Estimate, Group, Overview, Rates, Room, TlsSessions } from "./api";
import { ago, number, percent, plural, rate, span } from "./format";
import { type Standing, isPassedBy, standings } from "./modes";
import { type StageId, algorithm, cause, method, refusal, serverError } from "./reasons";
import type { Tab } from "./route";

/** What leaves the path at a stage. */
export interface Loss {
  name: string;
  /** What it means; may be empty. */
  text: string;
  /** Per second. */
  rate: number;
  /** `watched` would be refused if the mode were enforce, and goes on; `left` is the client's own doing, and `told` a time to come back at. */
  kind: "refused" | "watched" | "left" | "told" | "failed";
}

export interface Figure {
  label: string;
  value: string;
}

export interface Stage {
  id: StageId;
  name: string;
  /** What happens here, in a line. */
  hint: string;
  figures: Figure[];
  /** How full it is, if it has a bound. */
  gauge?: { value: number; max: number; label: string };
  /** Who waits from now on. */
  ahead?: Ahead;
  /** Where there is more of it. */
  tab?: Tab;
  losses: Loss[];
  /** What of it does not act. */
  standings: Standing[];
  /** What that comes to that only watches. */
  would?: string;
  /** What goes on from here, per second; `null` if that is counted in something else than requests. */
  onwards: number | null;
  onwardsUnit: string;
  /** `off` is not there, and `passed` is there and asked nothing. */
  state: "idle" | "flowing" | "losing" | "off" | "passed";
}

/** The stages of an application's path, from the client to the response. */
export function stages(overview: Overview, application: Application): Stage[] {
  const { gateway } = overview;
  const lost = lossesByStage(application);
  const resting = standings(application);
  const isUnlimited = isPassedBy(application, "limit");
  const handshakes = Object.entries(gateway.tls_handshakes).filter(([kind]) => kind !== "failed");
  const full = sum(Object.fromEntries(handshakes.filter(([kind]) => kind.startsWith("full"))));
  const resumed = sum(Object.fromEntries(handshakes.filter(([kind]) => kind.startsWith("resumed"))));
  const hasTls = overview.listeners.some((listener) => listener.tls);
  const up = application.servers.filter((server) => inService(server)).length;
  const waits = application.classes.map((one) => one.waiting_time?.p95).filter(isNumber);
  const arrived = application.arrived ?? 0;
  const sorted = Math.max(0, arrived - total(lost.class));
  const waited = application.queued > 0 || waits.some((wait) => wait > 0.001);
  const errors = Object.entries(merge(application.servers.map((server) => server.upstream_errors)));

  const all: Unjudged[] = [
    {
      id: "listener",
      name: "Listener",
      hint: "Accepts connections. Shared by all applications of this gateway.",
      figures: [
        { label: "connections open", value: number(gateway.connections_open) },
        { label: "new", value: rate(gateway.connections_accepted, "per s") },
      ],
      losses: [
        // Those are the application's own, and told there.
        ...refusals(without(gateway.connections_refused, "new_session"), "refused"),
        ...losses(gateway.bad_requests, (name) => ({
          name: `bad request: ${name.replaceAll("_", " ")}`,
          text: "Answered 4xx or 501 before any application saw it: it broke the protocol or a bound.",
          kind: "failed",
        })),
      ],
      onwards: gateway.connections_accepted,
      onwardsUnit: "conn/s",
    },
    {
      id: "tls",
      name: "TLS",
      hint: hasTls
        ? "Opens encrypted connections. Resumed sessions cost far less than full handshakes."
        : "No listener has a certificate: everything comes in plain.",
      figures: hasTls
        ? [
            { label: "full", value: rate(full, "per s") },
            { label: "resumed", value: rate(resumed, "per s") },
            ...roomForNew(application.tls_sessions),
          ]
        : [{ label: "handshakes", value: "not used" }],
      losses: [
        ...turnedAway(application.tls_sessions),
        ...losses(pick(gateway.tls_handshakes, "failed"), () => ({
          name: "handshake failed",
          text: "The client gave up, was too late, or had no protocol in common.",
          kind: "failed",
        })),
        ...losses({ broken: gateway.broken_prefaces ?? 0 }, () => ({
          name: "broken beginning",
          text: "The PROXY header or TLS hello was missing, malformed, not trusted or late.",
          kind: "failed",
        })),
      ],
      onwards: arrived,
      onwardsUnit: "req/s",
      ...(hasTls ? {} : { state: "off" as const }),
    },
    {
      id: "class",
      name: "Class",
      hint: "Sorts requests into classes and holds rates: of a class, of the application, of one client.",
      figures: [
        { label: "arrive", value: rate(arrived) },
        { label: "sorted into", value: plural(application.classes.length, "class", "classes") },
      ],
      losses: [],
      onwards: sorted,
      onwardsUnit: "req/s",
    },
    roomStage(application, overview.at, Math.max(0, sorted - total(lost.room))),
    {
      id: "queue",
      name: "Queue",
      hint: "Requests wait here, class by class, while the servers are as busy as they should be.",
      figures: [
        { label: "waiting", value: plural(application.queued, "request") },
        ...(application.would_wait === null
          ? []
          : [{ label: "would wait if all acted", value: plural(application.would_wait, "request") }]),
        { label: "waited (95 %)", value: waited ? span(Math.max(0, ...waits)) : "no wait" },
      ],
      losses: left("left waiting", "The client left before its turn came.", application.left),
      ...(isUnlimited && isPassedBy(application, "queue") && application.queued === 0 ? { state: "passed" as const } : {}),
      onwards: application.started,
      onwardsUnit: "req/s",
    },
    {
      id: "limit",
      name: "Limit",
      hint: "Lets only as much into the servers at once as they work on best; the rest waits.",
      ...limitOf(application),
      ...(isUnlimited ? { state: "passed" as const } : {}),
      losses: [],
      onwards: application.started,
      onwardsUnit: "req/s",
    },
    capacityStage(application, overview.at),
    {
      id: "servers",
      name: "Servers",
      hint: "The application's own servers do the work.",
      figures: [
        { label: "in service", value: `${up} of ${application.servers.length}` },
        { label: "respond in", value: span(slowest(application)) },
        ...processors(application),
      ],
      losses: [
        ...errors.map(([name, perSecond]) => ({
          name: `error: ${name.replaceAll("_", " ")}`,
          text: serverError(name),
          rate: perSecond,
          kind: "failed" as const,
        })),
      ],
      onwards: answered(application),
      onwardsUnit: "req/s",
    },
    {
      id: "response",
      name: "Response",
      hint: "Goodput: answered without error and within the time the class promises (goodput.within).",
      figures: [
        { label: "goodput", value: rate(application.goodput) },
        { label: "of arrivals", value: arrived > 0 ? percent((application.goodput ?? 0) / arrived) : "–" },
      ],
      losses: left("left early", "The client left before its response was complete.", application.abandoned),
      onwards: application.goodput,
      onwardsUnit: "good req/s",
    },
  ];
  return all.map((stage) => {
    const here = resting.filter((one) => one.stage === stage.id);
    const gone = [...lost[stage.id], ...stage.losses];
    const complete = { ...stage, ...wouldBe(application, here, gone), standings: here, losses: gone };
    return { ...complete, state: stage.state ?? stateOf(complete) };
  });
}

/** A stage whose state follows from what it loses, unless it says it. */
type Unjudged = Omit<Stage, "state" | "standings" | "would"> & { state?: Stage["state"] };

/** What comes of what only watches, if anything does. */
function wouldBe(application: Application, here: Standing[], losses: Loss[]): { would?: string } {
  const [first] = here.filter((one) => one.mode === "watch");
  // Long streams are not counted that would be refused.
  if (first === undefined || first.stage === "servers") return {};
  if (first.stage === "limit") return { would: `${number(application.would_wait ?? 0)} would wait` };
  const refused = losses.filter((loss) => loss.kind === "watched").reduce((added, loss) => added + loss.rate, 0);
  return { would: `would refuse ${rate(refused, first.stage === "tls" ? "per s" : "req/s")}` };
}

function limitOf(application: Application): Pick<Stage, "figures" | "gauge"> {
  const { in_flight: now, in_flight_limit: limit, in_flight_dormant: dormant, algorithm: name, modes } = application;
  const found = { label: name === "fixed" ? "limit set by hand" : "limit found by", value: algorithm(name) };
  const figures = [{ label: "in flight", value: inFlight(application) }];
  if (dormant > 0) figures.push({ label: "of which dormant", value: number(dormant) });
  if (modes.in_flight === "off") return { figures };
  if (modes.in_flight === "watch") return { figures: [...figures, { label: "would let in", value: number(limit) }, found] };
  const gauge = { value: now, max: limit, label: `${percent(now / Math.max(1, limit))} of the limit in use` };
  return { figures: [...figures, found], gauge };
}

/** What is in flight, of as much as the limit lets in, if that acts. */
export function inFlight({ in_flight: now, in_flight_limit: limit, modes }: Application): string {
  return modes.in_flight === "enforce" ? `${number(now)} of ${number(limit)}` : number(now);
}

/** `goes` is what it does not refuse, a second. */
function roomStage({ room, room_rates: rates }: Application, now: number, goes: number): Unjudged {
  const stage = { id: "room", name: "Waiting room", tab: "room", onwardsUnit: "req/s" } as const;
  if (room === null) {
    return {
      ...stage,
      hint: "None: whoever finds no place is refused. With one, he is told when to come back.",
      figures: [{ label: "doors", value: method("off") }],
      losses: [],
      onwards: goes,
      state: "off",
    };
  }
  const told = ["promised", "early"].reduce((added, what) => added + (rates[what] ?? 0), 0);
  return {
    ...stage,
    hint: "When more come than the servers can take, each is told a time, and is let in then.",
    figures: [
      { label: "doors", value: doors(room, now) },
      { label: "wait", value: plural(room.waiting, "person", "people") },
      { label: "the next waits", value: nextWait(room) },
      { label: "promises kept", value: kept(room) },
    ],
    ahead: room.ahead,
    losses: losses({ told }, () => ({
      name: "told a time",
      text: "Visitors who were told when to come back, or came before it.",
      kind: "told" as const,
    })),
    onwards: Math.max(0, goes - told),
  };
}

/** How many new TLS sessions are let in, where something looks at them. */
function roomForNew(sessions: TlsSessions | null): Figure[] {
  if (sessions === null) return [];
  const { new_per_s: most, new_cost: cost } = sessions;
  return [
    { label: "new let in", value: most === null ? "all" : `up to ${rate(most, "per s")}` },
    ...(cost === null ? [] : [{ label: "a new one asks for", value: `${number(cost)} work units` }]),
  ];
}

/** New TLS sessions that find no room. */
function turnedAway(sessions: TlsSessions | null): Loss[] {
  const { name, text } = refusal("new_session");
  const { refused = 0, would_refuse: watched = 0 } = sessions?.rates ?? {};
  return [
    ...losses({ refused }, () => ({ name, text, kind: "refused" as const })),
    ...losses({ watched }, () => ({ name, text, kind: "watched" as const })),
  ];
}

/** Doors of a room or of a group in it. */
type Doors = Pick<Room, "method" | "opens_at" | "next_wait_s">;

/** Who gets which place, and when that begins. */
export function doors(room: Doors, now: number): string {
  // Without a time, and yet the next one is told something.
  if (room.method === "event" && room.opens_at === null && room.next_wait_s !== null) return "doors have opened";
  const opens = room.opens_at !== null && room.opens_at > now ? ` (in ${span(room.opens_at - now)})` : "";
  return `${method(room.method)}${opens}`;
}

/** What the next visitor is told. */
export function nextWait(room: Doors): string {
  if (room.next_wait_s !== null) return room.next_wait_s === 0 ? "not at all" : span(room.next_wait_s);
  return room.method === "closed" ? "for doors to open" : "no time to promise";
}

/** Visitors of a group who are let in, a second: at once, or at the time they were told. */
export function letIn(application: Application, group: Group): number {
  const classes = application.classes.filter((one) => group.classes.includes(one.name));
  return classes.reduce((added, { room_rates: rates }) => added + (rates["direct"] ?? 0) + (rates["kept"] ?? 0), 0);
}

/** Promises whose time has come: the share that was kept, and how many were not. */
export function kept({ counts }: Room): string {
  const [came, missed] = [counts["kept"] ?? 0, counts["missed"] ?? 0];
  if (came + missed === 0) return "none was due yet";
  if (missed === 0) return `all ${number(came)}`;
  // Rounded down: not all of them are.
  return `${percent(Math.floor((came / (came + missed)) * 100) / 100)}, ${number(missed)} missed`;
}

/** What is promised to newcomers, and by what is known of the capacity. */
export function newcomers({ work_per_s: known, work_for_newcomers_per_s: promised, work_of_sessions_per_s: visits }: Room): { value: string; hint: string; tone?: "warn" } {
  const value = rate(promised, "work/s");
  if (known !== null) return { value, hint: `of ${rate(known, "work/s")} that can be done; visits under way take ${number(visits)}` };
  if (promised > 0) return { value, hint: "by what the servers do now, until the capacity is found" };
  return { value: "nothing", hint: "no capacity is known: only doors hold people", tone: "warn" };
}

function capacityStage(application: Application, now: number): Unjudged {
  const { estimate, started } = application;
  const stage = { id: "capacity", name: "Capacity", tab: "capacity", losses: [], onwards: started, onwardsUnit: "req/s" } as const;
  const capacity = estimate.capacity_per_s;
  if (capacity === null) {
    const finds = findsCapacity(application);
    return {
      ...stage,
      losses: [],
      hint: finds
        ? "What the servers can do at most. It is found as soon as they are asked for more than they can."
        : "What the servers can do at most. KneeTrack finds it, or it is given.",
      figures: [{ label: "servers can do", value: finds ? "not found yet" : "not known" }],
      state: "off",
    };
  }
  const { moved } = estimate;
  if (isFloorAlone(estimate)) {
    return {
      ...stage,
      losses: [],
      hint: "What the servers can do at most. It is not found yet; capacity.floor says what it is at least.",
      figures: [
        { label: "servers can do", value: `at least ${rate(capacity)}` },
        { label: "how it is known", value: source(application) },
      ],
      state: "off",
    };
  }
  return {
    ...stage,
    losses: [],
    hint: "What the servers can do at most. More than that only waits.",
    figures: [
      { label: "servers can do", value: rate(capacity) },
      { label: "how it is known", value: source(application) },
      ...(moved === null ? [] : [{ label: `moved ${ago(now - moved.at)}`, value: cause(moved.cause).name }]),
    ],
    gauge: { value: started ?? 0, max: capacity, label: `${percent((started ?? 0) / capacity)} of the capacity in use` },
  };
}

/** Whether its algorithm finds a capacity and not only a limit. */
export function findsCapacity({ algorithm: name }: Application): boolean {
  return name === "knee_track" || name === "power_ratio";
}

/** Whether what is said of the capacity is `capacity.floor` and nothing else: how much more it is has not been found. */
export function isFloorAlone({ capacity_per_s, work_per_s, floor_per_s, given_per_s, told }: Estimate): boolean {
  return told === null && given_per_s === null && work_per_s === null && floor_per_s !== null && capacity_per_s === floor_per_s;
}

/** Where the capacity comes from. */
export function source({ estimate, algorithm: name }: Application): string {
  if (estimate.told !== null) return "told by somebody";
  if (isFloorAlone(estimate)) return "by its floor";
  return estimate.given_per_s === null ? `found by ${algorithm(name)}` : "given by hand";
}

/** What is lost of an application's requests at each stage. */
function lossesByStage(application: Application): Record<StageId, Loss[]> {
  const by: Record<StageId, Loss[]> = {
    listener: [], tls: [], class: [], room: [], queue: [], limit: [], capacity: [], servers: [], response: [],
  };
  for (const kind of ["refused", "watched"] as const) {
    const rates = kind === "refused" ? application.refused : application.would_refuse;
    for (const [name, perSecond] of Object.entries(rates)) {
      const reason = refusal(name);
      by[reason.stage].push({ name: reason.name, text: reason.text, rate: perSecond, kind });
    }
  }
  for (const list of Object.values(by)) list.sort((a, b) => b.rate - a.rate);
  return by;
}

/** Requests answered by servers: what went there, without what failed or left. */
function answered(counts: Counts): number | null {
  if (counts.started === null) return null;
  return Math.max(0, counts.started - (counts.abandoned ?? 0));
}

function refusals(rates: Rates, kind: Loss["kind"]): Loss[] {
  return losses(rates, (name) => ({ ...refusal(name), kind }));
}

function losses(rates: Rates, describe: (name: string) => Omit<Loss, "rate">): Loss[] {
  return Object.entries(rates)
    .filter(([, perSecond]) => perSecond > 0)
    .map(([name, perSecond]) => {
      const { name: shown, text, kind } = describe(name);
      return { name: shown, text, kind, rate: perSecond };
    });
}

function left(name: string, text: string, perSecond: number | null): Loss[] {
  return losses({ left: perSecond ?? 0 }, () => ({ name, text, kind: "left" }));
}

function stateOf(stage: { losses: Loss[]; onwards: number | null }): Stage["state"] {
  if (stage.losses.some((loss) => loss.kind === "refused" || loss.kind === "failed")) return "losing";
  return (stage.onwards ?? 0) > 0 ? "flowing" : "idle";
}

/** Whether a server takes new requests. */
export function inService(server: { condition: string; draining: boolean; member: boolean }): boolean {
  return (server.condition === "up" || server.condition === "on_trial") && !server.draining && server.member;
}

/** What the CPU manager has given them, of what was asked for. */
function processors({ processors: known }: Application): Figure[] {
  if (known === null) return [];
  const asked = known.asked === null ? "" : ` of ${number(known.asked)} asked for`;
  return [{ label: "processors", value: `${number(known.given)}${asked}` }];
}

function slowest(application: Application): number | null {
  const times = application.classes.map((one) => one.service_time?.p50).filter(isNumber);
  return times.length === 0 ? null : Math.max(...times);
}

/** Sums of rates by label. */
export function merge(many: Rates[]): Rates {
  const merged: Rates = {};
  for (const rates of many) {
    for (const [name, perSecond] of Object.entries(rates)) merged[name] = (merged[name] ?? 0) + perSecond;
  }
  return merged;
}

/** All labels of a rate together. */
export function sum(rates: Rates): number {
  return Object.values(rates).reduce((added, perSecond) => added + perSecond, 0);
}

function total(list: Loss[]): number {
  return list.filter((loss) => loss.kind === "refused").reduce((added, loss) => added + loss.rate, 0);
}

function pick(rates: Rates, name: string): Rates {
  const perSecond = rates[name];
  return perSecond === undefined ? {} : { [name]: perSecond };
}

function without(rates: Rates, name: string): Rates {
  return Object.fromEntries(Object.entries(rates).filter(([label]) => label !== name));
}

function isNumber(value: number | null | undefined): value is number {
  return typeof value === "number";
}
