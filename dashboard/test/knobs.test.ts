import { expect, test } from "vitest";

import type { Knob } from "../src/api";
import { choices, faultOf, filtered, grouped, localTime, nameOf, ofLocalTime, placeOf, places, scaled } from "../src/knobs";
import { aClass, anApplication } from "./fixture";

const knob = (path: string, part: Partial<Knob> = {}): Knob => ({
  path, value: "1", configured: "1", default: "1", drift: false, allowed: "a whole number from 1 to 10", doc: "How many.", ...part,
});

const KNOBS = [
  knob("shop/servers/10.0.0.2:8000/weight"),
  knob("shop/class10/queue.max"),
  knob("shop/class9/queue.max"),
  knob("shop/default/queue.max", { doc: "Requests waiting at once." }),
  knob("shop/default/queue.codel.target"),
  knob("shop/default/priority"),
  knob("shop/mode"),
  knob("connections.max"),
];

test("a path is a place and a name", () => {
  expect([placeOf("shop/home/queue.max"), nameOf("shop/home/queue.max")]).toEqual(["shop/home", "queue.max"]);
  expect([placeOf("connections.max"), nameOf("connections.max")]).toEqual(["", "connections.max"]);
});

test("places are in the order people look for them, each once", () => {
  const classes = ["class10", "default", "class9"].map((name) => aClass(name));
  const [one] = anApplication().servers;
  const servers = ["10.0.0.2:8000", "db", "db"].map((name) => ({ ...one!, name }));
  const unresolved = [{ name: "new", address: "new.example:80", error: null, tried_at: null }];
  const found = places([anApplication({ classes, servers, unresolved }), anApplication({ name: "blog", classes: [], servers: [] })]);
  expect(found.map((place) => [place.kind, place.name])).toEqual([
    ["gateway", "Gateway"],
    ["application", "blog"],
    ["application", "shop"],
    ["class", "default"],
    ["class", "class9"],
    ["class", "class10"],
    ["server", "10.0.0.2:8000"],
    ["server", "db"],
    ["server", "new"],
  ]);
});

test("words are looked for in name and description, of one place or of all below it", () => {
  const paths = (words: string, place = "shop/default", below = false) =>
    filtered(KNOBS, { place, words, below }).map((one) => one.path);
  expect(paths("QUEUE waiting")).toEqual(["shop/default/queue.max"]);
  expect(paths("")).toHaveLength(3);
  expect(paths("nowhere")).toEqual([]);
  expect(paths("", "")).toEqual(["connections.max"]);
  expect(paths("class9", "shop", true)).toEqual(["shop/class9/queue.max"]);
  expect(paths("", "", true)).toHaveLength(KNOBS.length);
  expect(paths("", "shop/class1", true)).toEqual([]);
});

test("knobs of one subject stand together, the others under general", () => {
  const groups = grouped(filtered(KNOBS, { place: "shop/default", words: "", below: false }));
  expect(groups.map((group) => [group.subject, group.knobs.length])).toEqual([["general", 1], ["queue", 2]]);
});

test("choices come from the row, and from its text where there is none", () => {
  expect(choices(knob("shop/mode", { allowed: 'one of "off", "watch", "enforce"' }))).toEqual(["off", "watch", "enforce"]);
  expect(choices(knob("a", { allowed: "true or false" }))).toEqual(["true", "false"]);
  expect(choices(knob("a", { choices: ["x", "y"] }))).toEqual(["x", "y"]);
  expect(choices(knob("a"))).toBe(null);
});

test("half and double keep the unit", () => {
  expect([scaled("20", 2), scaled("250ms", 0.5), scaled("35/s", 2), scaled("1", 0.5), scaled("0.2", 2)]).toEqual(
    ["40", "125ms", "70/s", "1", "0.4"],
  );
  expect([scaled("none", 2), scaled("0", 2), scaled("", 2)]).toEqual([null, null, null]);
});

test("a fault is shown at its field without its path", () => {
  expect(faultOf("shop/a: too small\nshop/b: too large", "shop/b")).toBe("too large");
  expect(faultOf("the state directory is full", "shop/b")).toBe("the state directory is full");
});

test("a moment is written as a time of this zone and back", () => {
  for (const at of ["1795244400", "1"]) expect(ofLocalTime(localTime(at))).toBe(at);
  expect([localTime("none"), localTime(""), ofLocalTime("")]).toEqual(["", "", "none"]);
});
