// An overview as the gateway answers it, with as many classes as wanted.

import type { Application, Class, Group, Overview, Room } from "../src/api";

export function aClass(name: string, part: Partial<Class> = {}): Class {
  return {
    name,
    path: `shop/${name}`,
    priority: 3,
    weight: 1,
    goodput_within_s: 10,
    modes: { ingress: null, queue: "enforce", in_flight: null, egress: null },
    queued: 0,
    would_wait: null,
    cost: 1,
    arrived: 10,
    started: 10,
    goodput: 10,
    left: 0,
    abandoned: 0,
    retries: 0,
    refused: {},
    would_refuse: {},
    responses: { "2xx": 10 },
    room_rates: {},
    bytes_in: 0,
    bytes_out: 1000,
    waiting_time: { p50: 0.0001, p95: 0.0004, p99: 0.0005 },
    service_time: { p50: 0.05, p95: 0.1, p99: 0.2 },
    response_time: { p50: 0.05, p95: 0.1, p99: 0.2 },
    ...part,
  };
}

export function anApplication(part: Partial<Application> = {}): Application {
  return {
    name: "shop",
    hosts: [],
    modes: { client: null, ingress: null, queue: "enforce", in_flight: "enforce", egress: null, long_streams: "enforce", tls_sessions: null },
    algorithm: "knee_track",
    in_flight: 17,
    in_flight_limit: 20,
    in_flight_dormant: 0,
    capacity: 143.2,
    long_streams: 0,
    awaiting_server: 0,
    lingering: 0,
    queued: 0,
    would_wait: null,
    arrived: 10,
    started: 10,
    goodput: 10,
    left: 0,
    abandoned: 0,
    retries: 0,
    refused: {},
    would_refuse: {},
    responses: { "2xx": 10 },
    room_rates: {},
    estimate: {
      capacity_per_s: 143.2,
      work_per_s: 143.2,
      limit_holds: false,
      given_per_s: null,
      floor_per_s: null,
      ceiling_per_s: null,
      told: null,
      moved: { at: 1_795_244_340, cause: "fall", before_per_s: 160, after_per_s: 143.2 },
    },
    room: null,
    tls_sessions: null,
    processors: null,
    classes: [aClass("default")],
    servers: [
      {
        name: "one",
        address: "10.0.0.2:8000",
        condition: "up",
        member: true,
        draining: false,
        weight: 1,
        in_flight: 17,
        in_flight_max: null,
        keep_alive: true,
        response_time_s: 0.08,
        requests: 10,
        upstream_errors: {},
        connects: 0,
      },
    ],
    unresolved: [],
    ...part,
  };
}

export function aGroup(part: Partial<Group> = {}): Group {
  return {
    class: "tickets",
    classes: ["tickets"],
    method: "event",
    opens_at: null,
    closed_message: null,
    share: 0.4,
    waiting: 12,
    lots: 12,
    next_wait_s: null,
    ...part,
  };
}

export function aRoom(part: Partial<Room> = {}): Room {
  return {
    method: "fifo",
    role: "both",
    waiting: 250,
    next_wait_s: 62,
    work_per_s: 10,
    work_for_newcomers_per_s: 9,
    work_of_sessions_per_s: 1,
    no_show_share: 0.2,
    opens_at: null,
    groups: [],
    report_overdue: false,
    counts: { direct: 10, promised: 300, kept: 40, missed: 0, no_show: 10 },
    ahead: { from: 1_795_244_401, step_s: 1, waiting: [4, 4, 4] },
    ...part,
  };
}

export function anOverview(application = anApplication()): Overview {
  return {
    at: 1_795_244_400,
    version: 12,
    window_s: 5,
    gateway: {
      version: "0.1.0",
      ready: true,
      started_at: 1_795_240_000,
      connections_open: 12,
      connections_parked: 3,
      spooled_bytes: 0,
      connections_accepted: 3.2,
      connections_refused: {},
      tls_handshakes: {},
      bad_requests: {},
      broken_prefaces: 0,
      events_lost: 0,
      cpu: 0.31,
      memory_bytes: 61_234_567,
      host_cpu: 1.4,
      memory_available_bytes: 9e9,
      cpu_pressure: 0.1,
      memory_pressure: 0,
      io_pressure: 0,
      recording: { kept: false, why: "no state_directory is configured" },
    },
    listeners: [{ name: "http", address: "[::]:8080", tls: false, application: null }],
    applications: [application],
    controllers: [],
  };
}
