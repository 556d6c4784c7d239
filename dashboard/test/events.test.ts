import { expect, test } from "vitest";

import { KINDS, sentence } from "../src/events";

const of = (kind: string, data: Record<string, unknown>) => sentence({ key: "1", at: 0, kind, data });

test("each kind of event is a sentence that can be chosen", () => {
  const all = [
    of("knobs", { who: "ada", why: "sale", changes: [{ path: "shop/mode", from: "enforce", to: "watch", cleared: false }] }),
    of("refusals", { application: "shop", class: "home", began: true, reason: "queue_full" }),
    of("refusals", { application: "shop", class: "home", began: false, reason: "queue_full" }),
    of("refusals", { application: "shop", class: "home", began: true, would: true, reason: "ingress_rate" }),
    of("refusals", { application: "shop", class: "home", began: false, would: true, reason: "ingress_rate" }),
    of("server", { application: "shop", server: "one", what: "paused" }),
    of("server", { application: "shop", server: "one", what: "draining" }),
    of("action", { who: "bob", why: "a try", changes: [{ what: "capacity", path: "shop/capacity", from: "none", to: "120/s for 30s" }] }),
    of("action", { who: "bob", why: "", changes: [{ what: "search", path: "shop/capacity", from: "143.2/s", to: "searched anew" }] }),
    of("action", { who: "ada", why: "", changes: [{ what: "server", path: "shop/servers/a/b", from: "none", to: "10.0.0.2:80" }] }),
    of("action", { who: "ada", why: "", changes: [{ what: "server", path: "shop/servers/two", from: "10.0.0.2:80", to: "none" }] }),
    of("action", { who: "ada", why: "yearly", changes: [{ what: "waiting_room_key", path: "waiting_room.keys", from: "key 0", to: "key 1" }] }),
    of("action", { who: "ada", why: "", changes: [{ what: "waiting_room_bypass", path: "shop/partners", from: "none", to: "token 00ab for 30d" }] }),
    of("capacity", { application: "shop", cause: "found", before: null, after: 143.2 }),
    of("controller", { name: "law", what: "stopped", text: "5 strikes" }),
    of("configuration", { version: 3 }),
    of("configuration", { version: 3, fault: "tidegate.toml:2:1: mode: is none" }),
    of("recording", { kept: false, why: "the disk is full" }),
    of("ending", {}),
    of("something_new", { text: "of a later version" }),
  ];
  expect(all.map((one) => one.text)).toEqual([
    "ada set shop/mode: enforce → watch (sale)",
    "shop/home began to refuse requests: queue full",
    "shop/home no longer refuses requests: queue full",
    "shop/home began to count whom it would refuse: rate limit",
    "shop/home no longer counts anybody whom it would refuse: rate limit",
    "shop: server one is paused",
    "shop: server one is draining: it finishes what it has and gets nothing new",
    "bob told a capacity of shop: 120/s for 30s (a try)",
    "bob had the capacity of shop searched anew, was 143.2/s",
    "ada added server a/b of shop: 10.0.0.2:80",
    "ada removed server two of shop: 10.0.0.2:80",
    "ada had tokens of waiting rooms signed with a new key (yearly)",
    "ada made a token by which programs pass the waiting room of shop by, for the class partners: token 00ab for 30d",
    "shop: capacity 143 req/s: a search has found it",
    "controller law was stopped: 5 strikes",
    "the configuration was read again and is in force",
    "what was read again has faults and is not taken up: tidegate.toml:2:1: mode: is none",
    "measurements are kept in memory only: the disk is full",
    "the gateway drains and ends",
    "something new: of a later version",
  ]);
  for (const one of all) expect(KINDS.map((known) => known.kind)).toContain(one.kind);
});
