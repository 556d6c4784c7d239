import { expect, test } from "vitest";

import { KINDS, sentence } from "../src/events";

const of = (kind: string, data: Record<string, unknown>) => sentence({ key: "1", at: 0, kind, data });

test("each kind of event is a sentence that can be chosen", () => {
  const all = [
    of("knobs", { who: "ada", why: "sale", changes: [{ path: "shop/mode", from: "enforce", to: "watch", cleared: false }] }),
    of("refusals", { application: "shop", class: "home", began: true, reason: "queue_full" }),
    of("refusals", { application: "shop", class: "home", began: false, reason: "queue_full" }),
    of("server", { application: "shop", server: "one", what: "paused" }),
    of("server", { application: "shop", server: "one", what: "draining" }),
    of("capacity", { application: "shop", cause: "found", before: null, after: 143.2 }),
    of("controller", { name: "law", what: "stopped", text: "5 strikes" }),
    of("configuration", { version: 3 }),
    of("recording", { kept: false, why: "the disk is full" }),
    of("ending", {}),
    of("something_new", { text: "of a later version" }),
  ];
  expect(all.map((one) => one.text)).toEqual([
    "ada set shop/mode: enforce → watch (sale)",
    "shop/home began to refuse requests: queue full",
    "shop/home no longer refuses requests: queue full",
    "shop: server one is paused",
    "shop: server one is draining: it finishes what it has and gets nothing new",
    "shop: capacity found: 143 work units/s",
    "controller law was stopped: 5 strikes",
    "the configuration was read again and is in force",
    "measurements are kept in memory only: the disk is full",
    "the gateway drains and ends",
    "something new: of a later version",
  ]);
  for (const one of all) expect(KINDS.map((known) => known.kind)).toContain(one.kind);
});
