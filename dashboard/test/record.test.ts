import { expect, test } from "vitest";

import { type ChangeRecord, RECORDS_AT_ONCE } from "../src/api";
import { type Shown, WHY_MAX, further, renewed } from "../src/record";

const NOTHING: Shown = { records: null, isMore: false };

/** Records of a process that began at a time, from one number down to another. */
function records(from: number, to: number, began = 0): ChangeRecord[] {
  return Array.from({ length: Math.max(0, from - to + 1) }, (_, index) => {
    const id = from - index;
    return { id, at: began + id, who: "ada", why: "", lasting: false, revertible: true, changes: [] };
  });
}

const ids = ({ records: shown }: Shown) => (shown ?? []).map((one) => one.id);

test("what was read further back stays behind the latest", () => {
  const first = renewed(NOTHING, records(120, 71));
  expect([ids(first).length, first.isMore]).toEqual([RECORDS_AT_ONCE, true]);
  const back = further(further(first, records(70, 21)), records(20, 1));
  expect([ids(back).length, back.isMore]).toEqual([120, false]);
  const later = renewed(back, records(125, 76));
  expect(ids(later)).toEqual(ids({ ...back, records: records(125, 1) }));
  expect(later.isMore).toBe(false);
});

test("nothing is missing between the latest and what stays", () => {
  const known = renewed(NOTHING, records(30, 1));
  const flooded = renewed(known, records(120, 71));
  expect([ids(flooded), flooded.isMore]).toEqual([ids({ ...known, records: records(120, 71) }), true]);
});

test("what another process did is gone with it", () => {
  const known = renewed(NOTHING, records(5, 1));
  expect(renewed(known, [])).toEqual({ records: [], isMore: false });
  expect(renewed(known, records(2, 1, 1000))).toEqual({ records: records(2, 1, 1000), isMore: false });
});

test("the longest reason fits whatever it is written in", () => {
  for (const sign of ["a", "é", "字", "🚦"]) {
    const longest = sign.repeat(WHY_MAX / sign.length);
    expect(new TextEncoder().encode(longest).length, sign).toBeLessThanOrEqual(500);
  }
});
