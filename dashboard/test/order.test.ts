import { expect, test } from "vitest";

import { compare, kept, settled, sorted } from "../src/order";

interface Row {
  id: string;
  value: number | string | null;
}

const id = (row: Row) => row.id;
const by = (row: Row) => row.value;
const rows = (values: Record<string, Row["value"]>): Row[] => Object.entries(values).map(([name, value]) => ({ id: name, value }));

test("values are ordered either way, and what is missing comes last", () => {
  const some = rows({ a: 1, b: null, c: 10, d: 2 });
  expect(sorted(some, id, by, true)).toEqual(["c", "d", "a", "b"]);
  expect(sorted(some, id, by, false)).toEqual(["a", "d", "c", "b"]);
  expect(compare("class2", "class10", false)).toBeLessThan(0);
});

test("rows that differ a little keep their places, and those that differ much do not", () => {
  const before = sorted(rows({ a: 100, b: 90, c: 10 }), id, by, true);
  expect(settled(rows({ a: 95, b: 110, c: 10 }), id, by, true, before)).toEqual(["a", "b", "c"]);
  expect(settled(rows({ a: 95, b: 140, c: 10 }), id, by, true, before)).toEqual(["b", "a", "c"]);
  expect(settled(rows({ a: 95, b: 90, c: 500 }), id, by, true, before)).toEqual(["c", "a", "b"]);
  expect(settled(rows({ a: 0, b: 0, c: 1 }), id, by, true, before)).toEqual(["c", "a", "b"]);
  expect(settled(rows({ a: null, b: 1, c: 0 }), id, by, true, before)).toEqual(["b", "c", "a"]);
  expect(settled(rows({ a: "x", b: "w", c: "w" }), id, by, false, before)).toEqual(["b", "c", "a"]);
});

test("sixty classes with the same noisy load stand still", () => {
  const noisy = (seed: number) =>
    rows(Object.fromEntries(Array.from({ length: 60 }, (_, index) => [`c${index}`, 20 + 2 * Math.sin(seed * 7.1 + index * 3.7)])));
  const first = sorted(noisy(0), id, by, true);
  let order = first;
  for (let seed = 1; seed < 100; seed += 1) order = settled(noisy(seed), id, by, true, order);
  expect(order).toEqual(first);
});

test("rows come and go without moving the others", () => {
  expect(kept(["a", "c", "d"], ["c", "b", "a"])).toEqual(["c", "a", "d"]);
});
