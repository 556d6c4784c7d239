// Which view is shown: kept in the address after `#`, so that it can be linked to and gone back from.

import { useEffect, useState } from "preact/hooks";

export type Route =
  | { view: "applications" }
  | { view: "application"; name: string; tab: Tab }
  | { view: "knobs"; place: string }
  | { view: "changes" }
  | { view: "controllers" }
  | { view: "gateway" };

export type Tab = "path" | "capacity" | "room" | "classes" | "servers";

const TABS: readonly Tab[] = ["path", "capacity", "room", "classes", "servers"];

/** Reads an address's fragment; what is not known is the beginning. */
export function parseRoute(fragment: string): Route {
  const [view = "", ...rest] = fragment.replace(/^#?\/?/, "").split("/").map(unescape);
  switch (view) {
    case "app": {
      const [name = "", tab = ""] = rest;
      return { view: "application", name, tab: TABS.find((known) => known === tab) ?? "path" };
    }
    case "knobs":
      return { view: "knobs", place: rest.join("/") };
    case "changes":
    case "controllers":
    case "gateway":
      return { view };
    default:
      return { view: "applications" };
  }
}

/** The address of a route. */
export function address(route: Route): string {
  switch (route.view) {
    case "applications":
      return "#/";
    case "application":
      return `#/app/${encodeURIComponent(route.name)}${route.tab === "path" ? "" : `/${route.tab}`}`;
    case "knobs":
      return `#/knobs${route.place === "" ? "" : `/${route.place.split("/").map(encodeURIComponent).join("/")}`}`;
    default:
      return `#/${route.view}`;
  }
}

export function useRoute(): Route {
  const [route, setRoute] = useState(() => parseRoute(location.hash));
  useEffect(() => {
    const changed = () => setRoute(parseRoute(location.hash));
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return route;
}

function unescape(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
