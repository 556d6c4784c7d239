// Why requests and connections are refused, answered with an error, or left: a name and a sentence for each.

/** Where on a request's path something happens. */
export type StageId = "listener" | "tls" | "class" | "room" | "queue" | "limit" | "capacity" | "servers" | "response";

export interface Reason {
  stage: StageId;
  /** Short, for a label. */
  name: string;
  /** What it means, and what to do about it. */
  text: string;
}

const REFUSALS: Record<string, Reason> = {
  connections: {
    stage: "listener",
    name: "too many connections",
    text: "As many connections are open as connections.max allows: raise it, or shorten keep_alive.timeout.",
  },
  client_connections: {
    stage: "listener",
    name: "too many of one client",
    text: "One address holds as many connections as connections.per_client.max allows.",
  },
  new_session: {
    stage: "tls",
    name: "no room for new ones",
    text: "A new TLS session, while the capacity is taken by those who have begun (tls.sessions.mode). Usual under overload.",
  },
  ingress_rate: {
    stage: "class",
    name: "rate limit",
    text: "More came than ingress.rate of the class or application admits: raise it, or ingress.burst.",
  },
  client_rate: {
    stage: "class",
    name: "rate of one client",
    text: "One client sends faster than client.rate allows.",
  },
  maintenance: {
    stage: "class",
    name: "maintenance",
    text: "The application is closed: set maintenance to false to open it.",
  },
  horizon_full: {
    stage: "room",
    name: "waiting room full",
    text: "So many wait that no time within the waiting room's horizon can be promised to more.",
  },
  room_closed: {
    stage: "room",
    name: "doors closed",
    text: "The waiting room takes no newcomers at present.",
  },
  prefetch: {
    stage: "room",
    name: "asked in advance",
    text: "A browser asked in advance for a page, for which its visitor would have to wait. It took no place.",
  },
  queue_full: {
    stage: "queue",
    name: "queue full",
    text: "The class's queue holds queue.max requests. Usual under overload; if the servers have room, look at the limit.",
  },
  codel: {
    stage: "queue",
    name: "queue standing",
    text: "CoDel: waits stayed over queue.codel.target for longer than queue.codel.interval.",
  },
  wait_too_long: {
    stage: "queue",
    name: "waited too long",
    text: "queue.wait.max passed before the request's turn came. Usual under overload.",
  },
  deadline_passed: {
    stage: "queue",
    name: "deadline passed",
    text: "The request's deadline was over before its turn came.",
  },
  no_server: {
    stage: "servers",
    name: "no server",
    text: "No server is in service: see the servers below for why.",
  },
  long_streams: {
    stage: "servers",
    name: "too many streams",
    text: "As many WebSockets and other long streams are open as long_streams.max allows.",
  },
};

const ERRORS: Record<string, string> = {
  connect: "connection refused or server unreachable",
  connect_timeout: "no connection in time",
  tls: "TLS handshake failed",
  reset: "connection broke before an answer",
  response_timeout: "no answer in time",
  garbage: "the answer was no valid HTTP",
  body: "the answer broke off",
  exhausted: "the gateway itself had no file or local port left for a connection",
};

const ALGORITHMS: Record<string, string> = {
  fixed: "fixed",
  aimd: "AIMD",
  vegas: "Vegas",
  gradient2: "Gradient2",
  knee_track: "KneeTrack",
  power_ratio: "PowerRatio",
};

const CONDITIONS: Record<string, { name: string; text: string; tone: "good" | "warn" | "bad" }> = {
  up: { name: "in service", text: "takes requests", tone: "good" },
  on_trial: { name: "on trial", text: "was paused, and gets a few requests to show that it works", tone: "warn" },
  paused: { name: "paused", text: "too many requests in a row failed; it is tried again by itself", tone: "bad" },
  probed_down: { name: "down", text: "its health probes fail", tone: "bad" },
};

const HANDSHAKES: Record<string, string> = {
  full_tls13: "full handshakes, TLS 1.3",
  resumed_tls13: "resumed, TLS 1.3",
  full_tls12: "full handshakes, TLS 1.2",
  resumed_tls12: "resumed, TLS 1.2",
  failed: "failed handshakes",
};

/** Why an estimate of the capacity has moved. */
const CAUSES: Record<string, { name: string; text: string }> = {
  found: { name: "found", text: "a search has found it" },
  fall: { name: "fell", text: "the servers have become slower" },
  rise: { name: "rose", text: "the servers have become faster" },
  costs: { name: "costs learnt", text: "what requests of the classes cost was learnt anew" },
  more: { name: "found more", text: "a probe above the limit found more" },
  search: { name: "searched anew", text: "a probe found that more in flight gives more: it is searched anew" },
  proof: { name: "did more", text: "more than the estimate was done for a second" },
  servers: { name: "servers changed", text: "a server was lost or added" },
  told: { name: "searched anew", text: "somebody had it searched anew" },
  given: { name: "given", text: "somebody gave it, or a floor or ceiling of it, or took that back, or what was told for a time has ended" },
  restored: { name: "taken over", text: "the process before this one had found it" },
};

/** Who gets which place in a waiting room. */
const METHODS: Record<string, string> = {
  off: "no waiting room",
  fifo: "first come, first served",
  random: "places are drawn in rounds",
  event: "doors open at a time",
  wait: "everyone waits",
  closed: "doors closed",
};

/** The reason of a refusal. One this page does not know is told by its name, at the class. */
export function refusal(name: string): Reason {
  const known = REFUSALS[name];
  if (known !== undefined) return known;
  return { stage: "class", name: name.replaceAll("_", " "), text: "" };
}

export function serverError(name: string): string {
  return ERRORS[name] ?? name.replaceAll("_", " ");
}

export function algorithm(name: string): string {
  return ALGORITHMS[name] ?? name;
}

export function cause(name: string): { name: string; text: string } {
  const shown = name.replaceAll("_", " ");
  return CAUSES[name] ?? { name: shown, text: shown };
}

export function method(name: string): string {
  return METHODS[name] ?? name.replaceAll("_", " ");
}

export function condition(name: string): { name: string; text: string; tone: "good" | "warn" | "bad" } {
  return CONDITIONS[name] ?? { name: name.replaceAll("_", " "), text: "", tone: "warn" };
}

export function handshake(name: string): string {
  return HANDSHAKES[name] ?? name.replaceAll("_", " ");
}
