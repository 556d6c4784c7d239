import { expect, test } from "vitest";

import { HEIGHT, river } from "../src/river";

test("the stream is as wide as what passes, and the widest reach fills its room", () => {
  const { stream, branches } = river([
    { into: 200, lost: 0, onwards: 200 },
    { into: 200, lost: 100, onwards: 100 },
  ]);
  expect(stream).toContain("L100 48");
  expect(stream).toContain("L200 26");
  expect(branches).toHaveLength(1);
  expect(branches[0]).toContain(` ${HEIGHT}`);
});

test("no traffic is a line of no width, and a trickle is still seen", () => {
  expect(river([{ into: 0, lost: 0, onwards: 0 }])).toEqual({ stream: "M0 4 L100 4 L100 4 C50 4 50 4 0 4 Z", branches: [] });
  expect(river([{ into: 1000, lost: 0, onwards: 0.1 }]).stream).toContain("L100 6");
});
