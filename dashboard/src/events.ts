// The gateway's events as sentences.

import type { LogEntry } from "./state";
import type { KnobChange } from "./api";
import { number, words } from "./format";
import { cause, condition, refusal } from "./reasons";

export interface Sentence {
  /** For the label and the filter. */
  kind: string;
  text: string;
  tone: "plain" | "good" | "warn" | "bad";
}

/** Kinds by which the list can be narrowed. */
export const KINDS: ReadonlyArray<{ kind: string; name: string }> = [
  { kind: "knobs", name: "Changes of knobs" },
  { kind: "action", name: "Other changes" },
  { kind: "refusals", name: "Refusals" },
  { kind: "server", name: "Servers" },
  { kind: "capacity", name: "Capacity" },
  { kind: "controller", name: "Controllers" },
  { kind: "gateway", name: "Gateway" },
];

export function sentence({ kind, data }: LogEntry): Sentence {
  const text = (name: string) => (data[name] === undefined || data[name] === null ? "" : String(data[name]));
  switch (kind) {
    case "knobs": {
      const changes = (data["changes"] as KnobChange[] | undefined) ?? [];
      const why = text("why") === "" ? "" : ` (${text("why")})`;
      return { kind, tone: "plain", text: `${text("who")} set ${changes.map(change).join(", ")}${why}` };
    }
    case "action": {
      const done = (data["changes"] as KnobChange[] | undefined) ?? [];
      const why = text("why") === "" ? "" : ` (${text("why")})`;
      return { kind, tone: "plain", text: `${text("who")} ${done.map(action).join(", ")}${why}` };
    }
    case "refusals": {
      const of = `${text("application")}${text("class") === "" ? "" : `/${text("class")}`}`;
      const reason = refusal(text("reason")).name;
      if (data["would"] === true) {
        const verb = data["began"] === true ? "began to count whom it would refuse" : "no longer counts anybody whom it would refuse";
        return { kind, tone: "plain", text: `${of} ${verb}: ${reason}` };
      }
      return data["began"] === true
        ? { kind, tone: "warn", text: `${of} began to refuse requests: ${reason}` }
        : { kind, tone: "good", text: `${of} no longer refuses requests: ${reason}` };
    }
    case "server": {
      const what = text("what");
      const of = `${text("application")}: server ${text("server")}`;
      const known = condition(what);
      const said: Record<string, string> = {
        added: "was added",
        removed: "was removed",
        draining: "is draining: it finishes what it has and gets nothing new",
        undrained: "takes requests again",
      };
      return {
        kind,
        tone: said[what] === undefined ? known.tone : "plain",
        text: `${of} ${said[what] ?? `is ${known.name}`}`,
      };
    }
    case "capacity": {
      const now = data["after"] === null ? "unknown" : `${number(data["after"] as number)} req/s`;
      const before = data["before"] === null ? "" : ` (was ${number(data["before"] as number)})`;
      return { kind, tone: "plain", text: `${text("application")}: capacity ${now}${before}: ${cause(text("cause")).text}` };
    }
    case "controller": {
      const what = text("what");
      const said = text("text");
      const level = text("level");
      const tone = what === "failed" || what === "stopped" || level === "error" ? "bad" : level === "warn" ? "warn" : "plain";
      const verb: Record<string, string> = { log: "says", failed: "failed", stopped: "was stopped" };
      return { kind, tone, text: `controller ${text("name")} ${verb[what] ?? what}${said === "" ? "" : `: ${said}`}` };
    }
    case "configuration":
      if (text("fault") !== "") {
        return { kind: "gateway", tone: "bad", text: `what was read again has faults and is not taken up: ${text("fault")}` };
      }
      return { kind: "gateway", tone: "plain", text: "the configuration was read again and is in force" };
    case "recording":
      return data["kept"] === true
        ? { kind: "gateway", tone: "good", text: "measurements are kept on disk" }
        : { kind: "gateway", tone: "warn", text: `measurements are kept in memory only: ${text("why")}` };
    case "ending":
      return { kind: "gateway", tone: "warn", text: "the gateway drains and ends" };
    default:
      return { kind: "gateway", tone: "plain", text: `${words(kind)}${text("text") === "" ? "" : `: ${text("text")}`}` };
  }
}

function change({ path, from, to, cleared }: KnobChange): string {
  return cleared ? `${path} back to ${to}` : `${path}: ${from} → ${to}`;
}

/** What was done that is no change of a knob, as the end of a sentence that begins with who did it. */
export function action({ what, path, from, to }: KnobChange): string {
  const place = path.slice(0, path.lastIndexOf("/"));
  switch (what) {
    case "capacity":
      return to === "none" ? `took back the capacity told of ${place}, ${from}` : `told a capacity of ${place}: ${to}${from === "none" ? "" : `, was ${from}`}`;
    case "search":
      return `had the capacity of ${place} searched anew, was ${from === "none" ? "not known" : from}`;
    case "server": {
      const server = `server ${path.slice(path.lastIndexOf("/servers/") + 9)} of ${path.slice(0, path.lastIndexOf("/servers/"))}`;
      return from === "none" ? `added ${server}: ${to}` : `removed ${server}: ${from}`;
    }
    case "waiting_room_key":
      return "had tokens of waiting rooms signed with a new key";
    case "waiting_room_bypass":
      return `made a token by which programs pass the waiting room of ${place} by, for the class ${path.slice(path.lastIndexOf("/") + 1)}: ${to}`;
    default:
      return `${words(what ?? "")} ${path}: ${from} → ${to}`;
  }
}
