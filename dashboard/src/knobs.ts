// Knobs by the place they belong to, found by words, and prepared for being changed.

import type { Application, Knob } from "./api";

/** A place that has knobs: the gateway (`""`), an application, a class, a server. */
export interface Place {
  path: string;
  kind: "gateway" | "application" | "class" | "server";
  name: string;
}

/** The place a knob's path belongs to: `shop/home/queue.max` to `shop/home`. */
export function placeOf(path: string): string {
  const end = path.lastIndexOf("/");
  return end < 0 ? "" : path.slice(0, end);
}

/** The knob's name without its place. */
export function nameOf(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}

/** All places that have knobs: the gateway first, each application before what is in it. */
export function places(applications: readonly Application[]): Place[] {
  const paths = new Set([""]);
  for (const { name, classes, servers, unresolved } of applications) {
    paths.add(name);
    for (const { path } of classes) paths.add(path);
    // The addresses of one name are one place.
    for (const server of [...servers, ...unresolved]) paths.add(`${name}/servers/${server.name}`);
  }
  return [...paths].sort(byPlace).map((path) => {
    const parts = path.split("/");
    if (path === "") return { path, kind: "gateway", name: "Gateway" };
    if (parts.length === 1) return { path, kind: "application", name: path };
    if (parts[1] === "servers") return { path, kind: "server", name: parts.slice(2).join("/") };
    return { path, kind: "class", name: parts.slice(1).join("/") };
  });
}

function byPlace(a: string, b: string): number {
  const key = (path: string) => {
    const [application = "", ...rest] = path.split("/");
    const rank = rest.length === 0 ? 0 : rest[0] === "servers" ? 2 : 1;
    return { application, rank, rest: rest.join("/") };
  };
  const [one, other] = [key(a), key(b)];
  return (
    Number(a !== "") - Number(b !== "") ||
    one.application.localeCompare(other.application) ||
    one.rank - other.rank ||
    // The default class first, as the gateway has it.
    Number(one.rest !== "default") - Number(other.rest !== "default") ||
    one.rest.localeCompare(other.rest, "en", { numeric: true })
  );
}

/** The knobs of a place and, with `below`, of all below it, that have these words in their path or description. */
export function filtered(knobs: readonly Knob[], { place, words, below }: { place: string; words: string; below: boolean }): Knob[] {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  return knobs.filter((knob) => {
    const its = placeOf(knob.path);
    if (its !== place && !(below && (place === "" || its.startsWith(`${place}/`)))) return false;
    const text = `${knob.path} ${knob.doc}`.toLowerCase();
    return wanted.every((word) => text.includes(word));
  });
}

/** The subject of a knob, by which they are grouped: `queue.codel.target` is of `queue`. */
export function subjectOf(path: string): string {
  const name = nameOf(path);
  const dot = name.indexOf(".");
  return dot < 0 ? "general" : name.slice(0, dot);
}

/** Knobs by subject, in the order in which subjects come first. */
export function grouped(knobs: readonly Knob[]): Array<{ subject: string; knobs: Knob[] }> {
  const groups = new Map<string, Knob[]>();
  for (const knob of knobs) {
    const subject = subjectOf(knob.path);
    groups.set(subject, [...(groups.get(subject) ?? []), knob]);
  }
  const general = groups.get("general") ?? [];
  groups.delete("general");
  // What stands alone in its subject needs no heading of its own.
  const several = [...groups].filter(([, list]) => list.length > 1);
  const alone = [...groups].filter(([, list]) => list.length === 1).flatMap(([, list]) => list);
  const first = [...general, ...alone];
  return [
    ...(first.length > 0 ? [{ subject: "general", knobs: first }] : []),
    ...several.map(([subject, list]) => ({ subject, knobs: list })),
  ];
}

/** What a knob can be set to, if that is a short list. */
export function choices(knob: Knob): string[] | null {
  if (knob.choices !== undefined && knob.choices.length > 0) return knob.choices;
  if (knob.allowed === "true or false" || knob.kind === "flag") return ["true", "false"];
  const listed = /^one of (.+)$/.exec(knob.allowed)?.[1];
  const found = listed === undefined ? [] : [...listed.matchAll(/"([^"]+)"/g)].map((match) => match[1] ?? "");
  return found.length > 0 ? found : null;
}

/** Half and double of a value, where that makes sense: a number with or without a unit, above zero. */
export function scaled(value: string, factor: number): string | null {
  const match = /^(\d+(?:\.\d+)?)(\D*)$/.exec(value);
  if (match === null) return null;
  const [, digits = "", unit = ""] = match;
  const number = Number(digits);
  if (number === 0) return null;
  const isWhole = !digits.includes(".") && unit === "";
  const scaledTo = isWhole ? Math.max(1, Math.round(number * factor)) : Number((number * factor).toPrecision(6));
  return `${scaledTo}${unit}`;
}

/** Whether a knob's value is a moment, in seconds since 1970. */
export function isTime(knob: Knob): boolean {
  return nameOf(knob.path) === "waiting_room.opens_at";
}

/** A moment as a field for local times has it; empty where there is none. */
export function localTime(value: string): string {
  const at = Number(value);
  if (value.trim() === "" || !Number.isFinite(at)) return "";
  const date = new Date(at * 1000);
  const two = (part: number) => String(part).padStart(2, "0");
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  return `${day}T${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

/** The moment that such a field has, as the knob has it. */
export function ofLocalTime(text: string): string {
  const at = new Date(text).getTime();
  return Number.isFinite(at) ? String(Math.floor(at / 1000)) : "none";
}

/** The part of a problem's text that is about one knob: its lines begin with the knob's path. */
export function faultOf(detail: string, path: string): string {
  const own = detail
    .split("\n")
    .filter((line) => line.startsWith(`${path}: `))
    .map((line) => line.slice(path.length + 2));
  return own.length > 0 ? own.join(" ") : detail;
}
