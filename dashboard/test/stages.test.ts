import { expect, test } from "vitest";

import { refusal } from "../src/reasons";
import { type Stage, kept, letIn, newcomers, stages } from "../src/stages";
import { aClass, aGroup, aRoom, anApplication, anOverview } from "./fixture";

const by = (all: Stage[], id: Stage["id"]): Stage => {
  const found = all.find((stage) => stage.id === id);
  if (found === undefined) throw new Error(`no stage ${id}`);
  return found;
};

/** Every reason of docs/meters.md, with a rate of its own. */
const REFUSED = {
  ingress_rate: 1, client_rate: 2, queue_full: 4, codel: 8, wait_too_long: 16, deadline_passed: 32, maintenance: 64,
  no_server: 128, connections: 256, client_connections: 512, long_streams: 1024, horizon_full: 4096, room_closed: 8192,
};

test("every refusal is shown once, at its stage, and none is lost on the way", () => {
  const application = anApplication({ arrived: 50_000, refused: { ...REFUSED, something_new: 2048 } });
  const all = stages(anOverview(application), application);
  const shown = all.flatMap((stage) => stage.losses).reduce((sum, loss) => sum + loss.rate, 0);
  expect(shown).toBe(16_383);
  expect(by(all, "queue").losses.map((loss) => loss.rate)).toEqual([32, 16, 8, 4]);
  expect(by(all, "class").losses.map((loss) => loss.name)).toEqual(["something new", "maintenance", "rate of one client", "rate limit"]);
  expect(by(all, "room").losses.map((loss) => loss.name)).toEqual(["doors closed", "waiting room full"]);
  expect(by(all, "servers").losses.map((loss) => loss.name)).toEqual(["too many streams", "no server"]);
  for (const name of Object.keys(REFUSED)) expect(refusal(name).text, name).not.toBe("");
});

test("what is only watched passes on and is told apart", () => {
  const application = anApplication({ arrived: 100, would_refuse: { ingress_rate: 40 } });
  const stage = by(stages(anOverview(application), application), "class");
  expect(stage.losses).toMatchObject([{ kind: "watched", rate: 40 }]);
  expect(stage.onwards).toBe(100);
  expect(stage.state).toBe("flowing");
});

test("rates held at the class take from what goes on, those of the queue do not", () => {
  const application = anApplication({ arrived: 200, started: 90, refused: { ingress_rate: 50, queue_full: 60 } });
  const all = stages(anOverview(application), application);
  expect(by(all, "class").onwards).toBe(150);
  expect(by(all, "queue").onwards).toBe(90);
  expect(by(all, "queue").state).toBe("losing");
});

test("servers out of service and their errors are named", () => {
  const [one] = anApplication().servers;
  const servers = [one!, { ...one!, condition: "paused", upstream_errors: { connect: 3 } }, { ...one!, draining: true }];
  const application = anApplication({ servers });
  const stage = by(stages(anOverview(application), application), "servers");
  expect(stage.figures[0]).toEqual({ label: "in service", value: "1 of 3" });
  expect(stage.losses).toMatchObject([{ name: "error: connect", rate: 3, kind: "failed" }]);
});

test("without a certificate TLS is off, with one its handshakes count by kind", () => {
  const overview = anOverview();
  const [application] = overview.applications;
  expect(by(stages(overview, application!), "tls").state).toBe("off");
  overview.listeners[0]!.tls = true;
  overview.gateway.tls_handshakes = { full_tls13: 2, full_tls12: 1, resumed_tls13: 5, failed: 0.5 };
  const stage = by(stages(overview, application!), "tls");
  expect(stage.figures.map((figure) => figure.value)).toEqual(["3 per s", "5 per s"]);
  expect(stage.losses).toMatchObject([{ name: "handshake failed", rate: 0.5 }]);
});

test("new TLS sessions that find no room are told at TLS, once, and take nothing from what arrives", () => {
  const sessions = { rates: { new: 2, resumed: 30, refused: 11 }, new_per_s: 2.1, new_cost: 17.4, resumed_cost: 12 };
  const application = anApplication({ arrived: 100, tls_sessions: sessions });
  const overview = anOverview(application);
  overview.listeners[0]!.tls = true;
  overview.gateway.connections_refused = { new_session: 11, connections: 3 };
  const all = stages(overview, application);
  expect(by(all, "listener").losses.map((loss) => loss.name)).toEqual(["too many connections"]);
  const stage = by(all, "tls");
  expect(stage.losses).toMatchObject([{ name: "no room for new ones", rate: 11, kind: "refused" }]);
  expect(stage.losses[0]?.text).toContain("tls.sessions.mode");
  expect(stage.figures.slice(2)).toEqual([
    { label: "new let in", value: "up to 2.1 per s" },
    { label: "a new one asks for", value: "17.4 work units" },
  ]);
  expect(by(all, "class").onwards).toBe(100);
});

test("what would be refused of new TLS sessions goes on, and nothing bounds them yet", () => {
  const application = anApplication({
    modes: { ...anApplication().modes, tls_sessions: "watch" },
    tls_sessions: { rates: { new: 2, would_refuse: 4 }, new_per_s: null, new_cost: null, resumed_cost: null },
  });
  const overview = anOverview(application);
  overview.listeners[0]!.tls = true;
  const stage = by(stages(overview, application), "tls");
  expect(stage.losses).toMatchObject([{ rate: 4, kind: "watched" }]);
  expect(stage.would).toBe("would refuse 4 per s");
  expect(stage.figures.slice(2)).toEqual([{ label: "new let in", value: "all" }]);
});

test("the servers' processors are told where a CPU manager gives them", () => {
  const shown = (processors: { asked: number | null; given: number } | null) => {
    const application = anApplication({ processors });
    return by(stages(anOverview(application), application), "servers").figures.slice(2);
  };
  expect(shown(null)).toEqual([]);
  expect(shown({ asked: null, given: 2 })).toEqual([{ label: "processors", value: "2" }]);
  expect(shown({ asked: 3.5, given: 1.5 })).toEqual([{ label: "processors", value: "1.5 of 3.5 asked for" }]);
});

test("nothing measured yet is a path that stands still, not an error", () => {
  const application = anApplication({
    arrived: null, started: null, goodput: null, left: null, abandoned: null, in_flight_limit: 0, in_flight: 0,
    classes: [aClass("default", { waiting_time: null, service_time: null, response_time: null })],
    servers: [],
  });
  const all = stages(anOverview(application), application);
  expect(all.map((stage) => stage.losses.length)).toEqual(all.map(() => 0));
  expect(by(all, "response").figures[1]).toEqual({ label: "of arrivals", value: "–" });
});

test("without a waiting room its stage is off and all pass it", () => {
  const application = anApplication({ arrived: 200, refused: { ingress_rate: 50 } });
  const stage = by(stages(anOverview(application), application), "room");
  expect([stage.state, stage.onwards, stage.figures[0]?.value]).toEqual(["off", 150, "no waiting room"]);
});

test("who is told a time leaves the path, and what was promised is told", () => {
  const room = aRoom();
  const application = anApplication({ arrived: 100, room, room_rates: { direct: 9, promised: 60, early: 5, kept: 20, no_show: 3 } });
  const stage = by(stages(anOverview(application), application), "room");
  expect(stage.losses).toMatchObject([{ kind: "told", rate: 65 }]);
  expect([stage.onwards, stage.state, stage.ahead, stage.tab]).toEqual([35, "flowing", room.ahead, "room"]);
  expect(stage.figures.map((figure) => figure.value)).toEqual(["first come, first served", "250 people", "62 s", "all 40"]);
});

test("doors that are closed, open later, or have no time left say so", () => {
  const figures = (part: Parameters<typeof aRoom>[0]) => {
    const application = anApplication({ room: aRoom(part) });
    return by(stages(anOverview(application), application), "room").figures.map((figure) => figure.value);
  };
  expect(figures({ method: "closed", next_wait_s: null })[2]).toBe("for doors to open");
  expect(figures({ next_wait_s: null })[2]).toBe("no time to promise");
  expect(figures({ next_wait_s: 0 })[2]).toBe("not at all");
  expect(figures({ method: "event", opens_at: 1_795_244_400 + 300 })[0]).toBe("doors open at a time (in 5 min)");
  expect(figures({ method: "event" })[0]).toBe("doors have opened");
  expect(figures({ method: "event", next_wait_s: null })[0]).toBe("doors open at a time");
  expect(figures({ counts: {} })[3]).toBe("none was due yet");
  expect(figures({ counts: { kept: 99, missed: 1 } })[3]).toBe("99 %, 1 missed");
});

test("who is let in of a group is who is of its classes, at once or in time", () => {
  const classes = [
    aClass("default", { room_rates: { direct: 9 } }),
    aClass("tickets", { room_rates: { direct: 1, kept: 2, promised: 5, missed: 3 } }),
    aClass("boxes", { room_rates: { kept: 0.5 } }),
  ];
  expect(letIn(anApplication({ classes }), aGroup({ classes: ["tickets", "boxes"] }))).toBe(3.5);
  expect(letIn(anApplication({ classes }), aGroup({ classes: [] }))).toBe(0);
});

test("what is promised to newcomers says by what, and nothing where nothing is known", () => {
  expect(newcomers(aRoom({ work_per_s: 20, work_for_newcomers_per_s: 15, work_of_sessions_per_s: 5 }))).toEqual({
    value: "15 work/s",
    hint: "of 20 work/s that can be done; visits under way take 5",
  });
  expect(newcomers(aRoom({ work_per_s: null, work_for_newcomers_per_s: 15 })).hint).toMatch(/until the capacity is found/);
  expect(newcomers(aRoom({ work_per_s: null, work_for_newcomers_per_s: 0 }))).toMatchObject({ value: "nothing", tone: "warn" });
});

test("the capacity is shown with where it comes from and why it moved, or that it is not known", () => {
  const of = (part: Parameters<typeof anApplication>[0]) => {
    const application = anApplication(part);
    return by(stages(anOverview(application), application), "capacity");
  };
  const { estimate } = anApplication();
  const found = of({ started: 71.6 });
  expect(found.figures).toEqual([
    { label: "servers can do", value: "143 req/s" },
    { label: "how it is known", value: "found by KneeTrack" },
    { label: "moved 60 s ago", value: "fell" },
  ]);
  expect(found.gauge).toMatchObject({ value: 71.6, max: 143.2, label: "50 % of the capacity in use" });
  expect(of({ estimate: { ...estimate, given_per_s: 143.2 } }).figures[1]?.value).toBe("given by hand");
  expect(of({ estimate: { ...estimate, told: { per_s: 120, until: null } } }).figures[1]?.value).toBe("told by somebody");
  const floor = of({ estimate: { ...estimate, capacity_per_s: 30, work_per_s: null, floor_per_s: 30, moved: null } });
  expect(floor.figures.map(({ value }) => value)).toEqual(["at least 30 req/s", "by its floor"]);
  expect([floor.gauge, floor.state]).toEqual([undefined, "off"]);
  const atFloor = of({ estimate: { ...estimate, capacity_per_s: 30, work_per_s: 30, floor_per_s: 30 } });
  expect(atFloor.figures[1]?.value).toBe("found by KneeTrack");
  const none = of({ algorithm: "fixed", estimate: { ...estimate, capacity_per_s: null } });
  expect([none.state, none.figures[0]?.value, none.hint.includes("given")]).toEqual(["off", "not known", true]);
  expect(of({ estimate: { ...estimate, capacity_per_s: null } }).figures[0]?.value).toBe("not found yet");
});

test("what only watches says what it would do, and what is off is passed by", () => {
  const watching = { client: null, ingress: "watch", queue: "watch", in_flight: "watch", egress: null, long_streams: "enforce", tls_sessions: null } as const;
  const watch = anApplication({
    modes: watching,
    would_wait: 3,
    would_refuse: { ingress_rate: 40, queue_full: 7, codel: 1 },
    classes: [aClass("default", { modes: { ingress: null, queue: "watch", in_flight: null, egress: null } })],
  });
  const all = stages(anOverview(watch), watch);
  expect([by(all, "class").would, by(all, "queue").would, by(all, "limit").would]).toEqual([
    "would refuse 40 req/s", "would refuse 8 req/s", "3 would wait",
  ]);
  expect(by(all, "queue").figures).toContainEqual({ label: "would wait if all acted", value: "3 requests" });
  // As much is in flight as comes: that is no share of a limit.
  expect(by(all, "limit").figures.slice(0, 2)).toEqual([{ label: "in flight", value: "17" }, { label: "would let in", value: "20" }]);
  expect(by(all, "limit").gauge).toBeUndefined();
  expect(by(all, "servers")).toMatchObject({ standings: [] });
  expect(by(all, "servers").would).toBeUndefined();
  const streams = anApplication({ modes: { ...watching, long_streams: "watch" } });
  const servers = by(stages(anOverview(streams), streams), "servers");
  expect(servers.standings.map((one) => one.name)).toEqual(["Long streams: watch only"]);
  expect(servers.would, "nobody counts them").toBeUndefined();
  const off = anApplication({
    modes: { client: null, ingress: null, queue: "off", in_flight: "off", egress: null, long_streams: "off", tls_sessions: null },
    classes: [aClass("default", { modes: { ingress: null, queue: "off", in_flight: null, egress: null } })],
  });
  const passed = stages(anOverview(off), off);
  expect(passed.filter((stage) => stage.state === "passed").map((stage) => stage.id)).toEqual(["queue", "limit"]);
  expect(by(passed, "limit").figures).toEqual([{ label: "in flight", value: "17" }]);
  // A limit that acts fills the queue, whether or not that is bounded.
  const bounded = anApplication({ ...off, modes: { ...off.modes, in_flight: "enforce" } });
  expect(by(stages(anOverview(bounded), bounded), "queue").state).toBe("flowing");
});

test("a promise that was missed is never rounded away", () => {
  const room = (counts: Record<string, number>) => kept(aRoom({ counts }));
  expect(room({})).toBe("none was due yet");
  expect(room({ kept: 1200 })).toBe("all 1,200");
  expect(room({ kept: 9983, missed: 17 })).toBe("99 %, 17 missed");
});

test("what is dormant is told where there is any", () => {
  const limit = (dormant: number) => {
    const application = anApplication({ in_flight: 17, in_flight_limit: 20, in_flight_dormant: dormant });
    return by(stages(anOverview(application), application), "limit").figures.map(({ label, value }) => `${label} ${value}`);
  };
  expect(limit(0)).toEqual(["in flight 17 of 20", "limit found by KneeTrack"]);
  expect(limit(4)).toEqual(["in flight 17 of 20", "of which dormant 4", "limit found by KneeTrack"]);
});
