import { expect, test } from "vitest";

import type { Class } from "../src/api";
import { inShort, isPassedBy, standings } from "../src/modes";
import { aClass, anApplication } from "./fixture";

const UNSET: Class["modes"] = { ingress: null, queue: "enforce", in_flight: null, egress: null };
const OWN = anApplication().modes;

test("where everything acts nothing is said", () => {
  expect(standings(anApplication())).toEqual([]);
  expect(inShort(anApplication())).toBeNull();
});

test("a control that is not set is no control, whatever the mode of all", () => {
  const application = anApplication({ modes: { ...OWN, queue: "watch", in_flight: "watch" }, classes: [aClass("default")] });
  // The queue's word is for classes without one of their own, and there is none.
  expect(standings(application).map((one) => one.name)).toEqual(["Limit: watch only"]);
});

test("each kind of control is told at its stage, with its knob", () => {
  const application = anApplication({
    modes: { client: "watch", ingress: "off", queue: "watch", in_flight: "off", egress: "watch", long_streams: "off", tls_sessions: "watch" },
    classes: [aClass("default", { modes: { ...UNSET, queue: "watch" } })],
  });
  expect(standings(application).map(({ stage, name, place }) => [stage, name, place])).toEqual([
    ["tls", "New TLS sessions: watch only", "shop"],
    ["class", "Rate of one client: watch only", "shop"],
    ["class", "Rate limit: off", "shop"],
    ["queue", "Queue bounds: watch only", "shop/default"],
    ["limit", "Limit: off", "shop"],
    ["limit", "Dispatch rate: watch only", "shop"],
    ["servers", "Long streams: off", "shop"],
  ]);
  for (const { text, mode } of standings(application)) expect(text).toMatch(new RegExp(`\\((.+\\.)?mode = ${mode}\\)`));
});

test("what holds of some classes says of which", () => {
  const watches = (name: string) => aClass(name, { modes: { ...UNSET, ingress: "watch" } });
  const acts = aClass("acts", { modes: { ...UNSET, ingress: "enforce" } });
  const of = (...names: string[]) => standings(anApplication({ classes: [acts, ...names.map(watches)] }));
  expect(of("a")).toMatchObject([{ name: "Rate limit: watch only (class a)", place: "shop/a" }]);
  const [many] = of("a", "b", "c", "d", "e", "f", "g");
  expect(many).toMatchObject({ name: "Rate limit: watch only (7 of 8 classes)", place: "shop" });
  expect(many?.text).toContain("(ingress.mode = watch for a, b, c, d, e and 2 more)");
  const both = standings(anApplication({ modes: { ...OWN, ingress: "watch" }, classes: [acts, watches("a"), watches("b")] }));
  expect(both).toMatchObject([{ name: "Rate limit: watch only (of all together, 2 of 3 classes)" }]);
  expect(both[0]?.text).toContain("for all classes together, a, b)");
  const ownOnly = standings(anApplication({ modes: { ...OWN, ingress: "off" }, classes: [acts] }));
  expect(ownOnly).toMatchObject([{ name: "Rate limit: off (of all together)", place: "shop" }]);
});

test("in short: all watch, all are off, or the path says which", () => {
  const all = (mode: "watch" | "off") => anApplication({
    modes: { client: null, ingress: null, queue: mode, in_flight: mode, egress: null, long_streams: mode, tls_sessions: null },
    classes: [aClass("default", { modes: { ...UNSET, queue: mode } })],
  });
  expect(inShort(all("watch"))).toBe("Mode watch: refusals are only counted");
  expect(inShort(all("off"))).toBe("Mode off: limits are not consulted");
  expect(inShort(anApplication({ modes: { ...OWN, in_flight: "watch" } }))).toContain("the path shows");
});

test("a stage is passed by where all that is set is off", () => {
  const off = anApplication({ modes: { ...OWN, in_flight: "off" } });
  expect([isPassedBy(off, "limit"), isPassedBy(off, "queue"), isPassedBy(off, "servers")]).toEqual([true, false, false]);
  const bounded = anApplication({ ...off, classes: [aClass("default", { modes: { ...UNSET, in_flight: "enforce" } })] });
  expect(isPassedBy(bounded, "limit")).toBe(false);
});
