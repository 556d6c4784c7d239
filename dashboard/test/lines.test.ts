import { expect, test } from "vitest";

import { across, line, nearest, stepped, times, topOf, values } from "../src/lines";

const frame = { from: 0, to: 10, top: 10 };

test("a line breaks where nothing was measured, and a value that stands alone is a dot", () => {
  const { line: drawn, ground, dots } = line([0, 1, 2, 3, 4], [0, 10, null, 5, null], frame, false);
  expect(drawn).toBe("M0.0 200.0L100.0 0.0");
  expect(ground).toBe("M0.0 200.0L100.0 0.0V200H0.0Z");
  expect(dots).toBe("M300.0 100.0h0");
  const several = line([0, 1, 2, 3, 4], [5, null, 5, 5, 10], frame, true);
  expect(several).toEqual({ dots: "M0.0 100.0h0", line: "M200.0 100.0H300.0V100.0H400.0V0.0", ground: "M200.0 100.0H300.0V100.0H400.0V0.0V200H200.0Z" });
  expect(line([0, 1], [5, 10], frame, true).line).toBe("M0.0 100.0H100.0V0.0");
  expect(line([-1, 0, 11], [9, 5, 9], frame, false).dots, "outside of what is shown").toBe("M0.0 100.0h0");
});

test("the upper edge is above what is shown, and ticks are round", () => {
  expect(topOf([0, 1], [[100, 10], [null, 5]], 1)).toBeCloseTo(10.8);
  expect(topOf([], [], 0)).toBe(1);
  expect(values(10.8)).toEqual([0, 5, 10]);
  expect(values(1)).toEqual([0, 0.5, 1]);
  expect(values(430)).toEqual([0, 200, 400]);
  for (const top of [1e-4, 0.03, 7, 99, 12_345, 6e6]) {
    const ticks = values(top);
    expect(ticks.length, String(top)).toBeGreaterThanOrEqual(2);
    expect(ticks.length, String(top)).toBeLessThanOrEqual(6);
    expect(ticks.at(-1)!, String(top)).toBeLessThanOrEqual(top);
  }
});

test("times are round, in order and few, however long is looked back", () => {
  for (const length of [1, 60, 300, 3600, 86_400, 30 * 86_400]) {
    const from = 1_795_244_437;
    const found = times({ from, to: from + length, top: 1 });
    expect(found.length, String(length)).toBeLessThanOrEqual(7);
    expect(found.length, String(length)).toBeGreaterThanOrEqual(1);
    for (const at of found) expect(across(at, { from, to: from + length, top: 1 })).toBeGreaterThanOrEqual(0);
  }
});

test("the nearest time is found", () => {
  expect(nearest([10, 20, 30], 24)).toBe(1);
  expect(nearest([], 24)).toBe(null);
});

test("keys go from point to point, and not beyond the first and the last", () => {
  const at = Array.from({ length: 15 }, (_, index) => 100 + 2 * index);
  expect(stepped(at, null, "ArrowLeft")).toBe(126);
  expect(stepped(at, 126, "ArrowRight")).toBe(128);
  expect(stepped(at, 128, "ArrowRight")).toBe(128);
  expect(stepped(at, 128, "PageDown")).toBe(108);
  expect(stepped(at, 108, "PageDown")).toBe(100);
  expect(stepped(at, 108, "Home")).toBe(100);
  expect(stepped(at, 100, "End")).toBe(128);
  expect(stepped(at, 128, "Tab")).toBe(undefined);
  expect(stepped([], null, "ArrowLeft")).toBe(undefined);
});
