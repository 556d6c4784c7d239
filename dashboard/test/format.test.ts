import { expect, test } from "vitest";

import { ago, bytes, number, percent, plural, rate, span, time } from "../src/format";

test("numbers keep the digits that matter, and nothing is not zero", () => {
  expect([1234.6, 99.96, 12.34, 0.5, 0.02, 0.001, 7].map((value) => number(value))).toEqual(
    ["1,235", "100", "12.3", "0.5", "0.02", "0", "7"],
  );
  expect([null, undefined, NaN, Infinity].map((value) => number(value))).toEqual(["–", "–", "–", "–"]);
  expect(rate(58.9)).toBe("58.9 req/s");
  expect(rate(null)).toBe("–");
});

test("spans go from milliseconds to days", () => {
  expect([0, 0.00001, 0.0082, 0.48, 0.9996, 1.24, 59, 300, 7300, 200_000].map((value) => span(value))).toEqual(
    ["0 ms", "<0.1 ms", "8.2 ms", "480 ms", "1.0 s", "1.2 s", "59 s", "5 min", "2 h", "2 d"],
  );
  expect(span(null)).toBe("–");
});

test("sizes are binary, shares are percent", () => {
  expect([0, 1023, 1024, 61_234_567, 9e9].map((value) => bytes(value))).toEqual(["0 B", "1,023 B", "1.0 KiB", "58.4 MiB", "8.4 GiB"]);
  expect([0, 0.004, 0.294, 1].map((value) => percent(value))).toEqual(["0 %", "0.4 %", "29 %", "100 %"]);
});

test("times are local, with their day unless it is today's", () => {
  const at = new Date(2026, 10, 21, 9, 5, 7).getTime() / 1000;
  expect(time(at, at + 60)).toBe("09:05:07");
  expect(time(at, at + 2 * 86_400)).toBe("2026-11-21 09:05:07");
});

test("one is not several", () => {
  expect([plural(1, "class", "classes"), plural(60, "class", "classes"), plural(0, "knob")]).toEqual(
    ["1 class", "60 classes", "0 knobs"],
  );
});

test("how long ago is told in whole seconds", () => {
  expect([0.2, 2.7, 12.4, 3600].map(ago)).toEqual(["just now", "2 s ago", "12 s ago", "60 min ago"]);
});
