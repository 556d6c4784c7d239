import { expect, test } from "vitest";

import type { Measured } from "../src/api";
import { columns, isEmpty, joined, latest } from "../src/series";

const answer = (...points: Array<[number, number | null]>): Measured => ({
  step_s: 1,
  points: points.map(([at, mean]) => ({ at, measured_s: 1, mean })),
});

test("answers of several questions share their times", () => {
  const both = columns([
    { answer: answer([1, 10], [2, 20]), stat: "mean" },
    { answer: answer([2, 2000], [3, null]), stat: "mean", factor: 1e-3 },
  ]);
  expect(both).toEqual({ at: [1, 2, 3], values: [[10, 20, null], [null, 2, null]] });
});

test("what is new replaces what it overlaps, and what is too old goes", () => {
  const old = { at: [1, 2, 3, 4], values: [[1, 2, 3, 4]] };
  const fresh = { at: [3, 4, 5], values: [[30, 40, 50]] };
  expect(joined(old, fresh, 2)).toEqual({ at: [2, 3, 4, 5], values: [[2, 30, 40, 50]] });
  expect(joined(old, { at: [], values: [[]] }, 3)).toEqual({ at: [3, 4], values: [[3, 4]] });
  expect(joined({ at: [], values: [] }, fresh, 4)).toEqual({ at: [4, 5], values: [[40, 50]] });
});

test("a gap is no value, and only zeros are nothing to draw", () => {
  expect(latest([1, 2, null])).toBe(2);
  expect(latest([null])).toBe(null);
  expect(isEmpty({ at: [1, 2], values: [[null, 0]] })).toBe(true);
  expect(isEmpty({ at: [1], values: [[null], [0.1]] })).toBe(false);
});
