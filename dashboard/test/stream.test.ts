import { expect, test } from "vitest";

import { EventParser } from "../src/stream";

const STREAM = 'id: 1-7\nevent: knobs\ndata: {"a":\ndata: 1}\n\n: still there\n\nevent: meters\r\ndata:{}\r\n\r\ndata: plain\n\n';

const EVENTS = [
  { id: "1-7", event: "knobs", data: '{"a":\n1}' },
  { id: "1-7", event: "meters", data: "{}" },
  { id: "1-7", event: "message", data: "plain" },
];

test("events are the same however the stream is cut", () => {
  for (let length = 1; length <= STREAM.length; length += 1) {
    const parser = new EventParser();
    const events = [];
    for (let from = 0; from < STREAM.length; from += length) events.push(...parser.push(STREAM.slice(from, from + length)));
    expect(events, `pieces of ${length}`).toEqual(EVENTS);
  }
});

test("what has no data or no end is no event", () => {
  const parser = new EventParser();
  expect(parser.push("event: nothing\n\nid: 9\n\ndata: not over\n")).toEqual([]);
  expect(parser.push("\n")).toEqual([{ id: "9", event: "message", data: "not over" }]);
});
