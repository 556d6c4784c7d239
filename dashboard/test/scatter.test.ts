import { expect, test } from "vitest";

import { FRAME, across, scatter, up } from "../src/scatter";

test("dots lie where load and goodput say, and what is missing is left out", () => {
  const { most, ticks, earlier, latest } = scatter([0, 100, null, 180], [0, 100, 90, 130], 1);
  expect([most, ticks]).toEqual([200, [0, 100, 200]]);
  expect(earlier).toBe(`M${across(0, 200).toFixed(1)} ${up(0, 200).toFixed(1)}h0M${across(100, 200).toFixed(1)} ${up(100, 200).toFixed(1)}h0`);
  expect(latest.match(/M/g)).toHaveLength(1);
  expect([across(200, 200), up(200, 200)]).toEqual([FRAME.width - FRAME.right, FRAME.top]);
});

test("nothing measured has axes and no dots", () => {
  expect(scatter([], [], 10)).toEqual({ most: 1, ticks: [0, 0.5, 1], earlier: "", latest: "" });
});
