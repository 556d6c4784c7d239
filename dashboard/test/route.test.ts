import { expect, test } from "vitest";

import { type Route, address, parseRoute } from "../src/route";

test("every route has an address that leads back to it", () => {
  const routes: Route[] = [
    { view: "applications" },
    { view: "application", name: "a b/c", tab: "path" },
    { view: "application", name: "shop", tab: "servers" },
    { view: "application", name: "shop", tab: "room" },
    { view: "application", name: "shop", tab: "capacity" },
    { view: "knobs", place: "" },
    { view: "knobs", place: "shop/servers/10.0.0.2:8000" },
    { view: "changes" },
    { view: "controllers" },
    { view: "gateway" },
  ];
  for (const route of routes) expect(parseRoute(address(route)), address(route)).toEqual(route);
});

test("an address nobody gave out is the beginning, a broken escape is taken as it is", () => {
  expect(parseRoute("#/nowhere")).toEqual({ view: "applications" });
  expect(parseRoute("")).toEqual({ view: "applications" });
  expect(parseRoute("#/app/%E0%A4%A/what")).toEqual({ view: "application", name: "%E0%A4%A", tab: "path" });
});
