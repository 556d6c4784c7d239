// Which controls of an application do not act: where on the path, in which classes, and what that means.

import type { Application, Class, Mode, Modes } from "./api";
import { plural } from "./format";
import type { StageId } from "./reasons";

/** Controls of the same kind, of the application or of some of its classes, that do not act. */
export interface Standing {
  stage: StageId;
  mode: Exclude<Mode, "enforce">;
  /** Short, for a badge. */
  name: string;
  /** What that means for requests, in a sentence or two. */
  text: string;
  /** Where its knob is. */
  place: string;
}

interface Control {
  id: keyof Modes;
  stage: StageId;
  name: string;
  knob: string;
  watch: string;
  off: string;
}

const CONTROLS: readonly Control[] = [
  {
    id: "tls_sessions",
    stage: "tls",
    name: "New TLS sessions",
    knob: "tls.sessions.mode",
    watch: "Every new one is let in, it is only counted which would be refused",
    off: "Nothing looks at them",
  },
  {
    id: "client",
    stage: "class",
    name: "Rate of one client",
    knob: "client.mode",
    watch: "It refuses nobody and only counts whom it would refuse",
    off: "It is not asked: everybody passes",
  },
  {
    id: "ingress",
    stage: "class",
    name: "Rate limit",
    knob: "ingress.mode",
    watch: "It refuses nobody and only counts whom it would refuse",
    off: "It is not asked: everybody passes",
  },
  {
    id: "queue",
    stage: "queue",
    name: "Queue bounds",
    knob: "queue.mode",
    watch: "However long the queue or the wait, nobody is refused; it is only counted who would be",
    off: "However long the queue or the wait, nobody is refused",
  },
  {
    id: "in_flight",
    stage: "limit",
    name: "Limit",
    knob: "in_flight.mode",
    watch: "It holds nobody back. Who would wait for it, and who would be refused for that, is counted at the queue",
    off: "It holds nobody back, and learns nothing",
  },
  {
    id: "egress",
    stage: "limit",
    name: "Dispatch rate",
    knob: "egress.mode",
    watch: "It holds nobody back. Who would wait for it, and who would be refused for that, is counted at the queue",
    off: "It holds nobody back",
  },
  {
    id: "long_streams",
    stage: "servers",
    name: "Long streams",
    knob: "long_streams.mode",
    watch: "As many are open as come: none is refused, it is only counted which would be",
    off: "As many are open as come: none is refused",
  },
];

const WORDS = { watch: "watch only", off: "off" } as const;
/** Names of classes that are told; the rest is counted. */
const NAMED_MAX = 5;

/** One control that is set: the application's own, or that of a class. */
interface Place {
  /** `null`: it is the application's. */
  name: string | null;
  path: string;
  mode: Mode;
}

/** The controls that do not act, in the order of the path. */
export function standings(application: Application): Standing[] {
  return CONTROLS.flatMap((control) => {
    const all = places(application, control.id);
    return (["watch", "off"] as const).flatMap((mode) => {
      const there = all.filter((place) => place.mode === mode);
      const [first] = there;
      if (first === undefined) return [];
      const isEverywhere = there.length === all.length;
      return [
        {
          stage: control.stage,
          mode,
          name: `${control.name}: ${WORDS[mode]}${isEverywhere ? "" : ` (${counted(there, application.classes.length)})`}`,
          text: `${control[mode]} (${control.knob} = ${mode}${isEverywhere ? "" : ` for ${named(there)}`}).`,
          place: there.length === 1 ? first.path : application.name,
        },
      ];
    });
  });
}

/** Whether no control of a stage acts, though some are set. */
export function isPassedBy(application: Application, stage: StageId): boolean {
  const all = CONTROLS.filter((control) => control.stage === stage).flatMap((control) => places(application, control.id));
  return all.length > 0 && all.every((place) => place.mode === "off");
}

/** What holds of the application as a whole, if not everything acts. */
export function inShort(application: Application): string | null {
  const modes = new Set(CONTROLS.flatMap((control) => places(application, control.id)).map((place) => place.mode));
  if (!modes.has("watch") && !modes.has("off")) return null;
  if (modes.size > 1) return "Not everything acts: the path shows what only watches or is off";
  return modes.has("watch") ? "Mode watch: refusals are only counted" : "Mode off: limits are not consulted";
}

/** Whether only applications have such a control. */
function isOwn(id: keyof Modes): id is Exclude<keyof Modes, keyof Class["modes"]> {
  return id === "client" || id === "long_streams" || id === "tls_sessions";
}

/** Where a control is set. Queues are those of classes: what the application says of them is for classes that say nothing. */
function places(application: Application, id: keyof Modes): Place[] {
  const own: Place[] = id === "queue" ? [] : placed(null, application.name, application.modes[id]);
  return [...own, ...application.classes.flatMap((one) => (isOwn(id) ? [] : placed(one.name, one.path, one.modes[id])))];
}

function placed(name: string | null, path: string, mode: Mode | null): Place[] {
  return mode === null ? [] : [{ name, path, mode }];
}

function counted(there: Place[], classes: number): string {
  const names = namesOf(there);
  const [only] = names;
  const own = names.length < there.length ? ["of all together"] : [];
  if (only === undefined) return own.join("");
  return [...own, names.length === 1 ? `class ${only}` : `${names.length} of ${plural(classes, "class", "classes")}`].join(", ");
}

function named(there: Place[]): string {
  const names = namesOf(there);
  const own = names.length < there.length ? ["all classes together"] : [];
  const told = [...own, ...names.slice(0, NAMED_MAX)].join(", ");
  return names.length > NAMED_MAX ? `${told} and ${names.length - NAMED_MAX} more` : told;
}

function namesOf(there: Place[]): string[] {
  return there.flatMap(({ name }) => (name === null ? [] : [name]));
}
