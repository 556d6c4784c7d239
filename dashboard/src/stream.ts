// Server-sent events over fetch, which can carry a token where EventSource cannot; reconnects by itself.

import { headers, problemOf, type ApiProblem } from "./api";

/** One event as it came. */
export interface ServerEvent {
  id: string;
  event: string;
  data: string;
}

/** Takes the text of an event stream in pieces of any size and gives its events (WHATWG HTML, section 9.2.6). */
export class EventParser {
  private rest = "";
  private id = "";
  private event = "";
  private data: string[] = [];

  push(text: string): ServerEvent[] {
    const events: ServerEvent[] = [];
    this.rest += text;
    for (;;) {
      const end = /\r\n|\n|\r(?=[^\n])/.exec(this.rest);
      if (end === null) return events;
      const line = this.rest.slice(0, end.index);
      this.rest = this.rest.slice(end.index + end[0].length);
      const event = this.take(line);
      if (event !== null) events.push(event);
    }
  }

  private take(line: string): ServerEvent | null {
    if (line === "") {
      const event = { id: this.id, event: this.event || "message", data: this.data.join("\n") };
      const isEmpty = this.data.length === 0;
      this.event = "";
      this.data = [];
      return isEmpty ? null : event;
    }
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "data") this.data.push(value);
    if (field === "event") this.event = value;
    if (field === "id" && !value.includes("\0")) this.id = value;
    return null;
  }
}

export interface StreamHandlers {
  opened: () => void;
  event: (event: ServerEvent) => void;
  /** The connection is gone and will be tried again. */
  lost: (why: string) => void;
  /** The gateway refuses: what to do about it is somebody else's, such as asking for a token. */
  refused: (problem: ApiProblem) => void;
}

const RETRY_MS_MIN = 500;
const RETRY_MS_MAX = 5000;
/** The gateway says something every second; silence for this long is a connection that died unseen. */
const SILENCE_MS_MAX = 20_000;

/** Follows an event stream until stopped; takes it up after the last event it saw. */
export function follow(path: string, handlers: StreamHandlers): () => void {
  const stopped = new AbortController();
  let last = "";
  let delay = RETRY_MS_MIN;

  async function once(): Promise<void> {
    const attempt = new AbortController();
    const end = () => attempt.abort();
    stopped.signal.addEventListener("abort", end);
    let silence = window.setTimeout(end, SILENCE_MS_MAX);
    try {
      const more: Record<string, string> = { accept: "text/event-stream" };
      if (last !== "") more["last-event-id"] = last;
      const response = await fetch(path, { headers: headers(more), signal: attempt.signal, cache: "no-store" });
      if (!response.ok || response.body === null) {
        handlers.refused(await problemOf(response));
        return;
      }
      const parser = new EventParser();
      const decoder = new TextDecoder();
      const reader = response.body.getReader();
      handlers.opened();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        window.clearTimeout(silence);
        silence = window.setTimeout(end, SILENCE_MS_MAX);
        delay = RETRY_MS_MIN;
        for (const event of parser.push(decoder.decode(value, { stream: true }))) {
          if (event.id !== "") last = event.id;
          handlers.event(event);
        }
      }
      handlers.lost("the gateway has ended the connection");
    } catch {
      if (!stopped.signal.aborted) handlers.lost("the gateway does not answer");
    } finally {
      window.clearTimeout(silence);
      stopped.signal.removeEventListener("abort", end);
    }
  }

  async function forever(): Promise<void> {
    while (!stopped.signal.aborted) {
      await once();
      if (stopped.signal.aborted) return;
      await pause(delay, stopped.signal);
      delay = Math.min(delay * 2, RETRY_MS_MAX);
    }
  }

  void forever();
  return () => stopped.abort();
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = window.setTimeout(resolve, ms);
    signal.addEventListener("abort", () => {
      window.clearTimeout(timer);
      resolve();
    });
  });
}
