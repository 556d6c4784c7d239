// The frame of the page: heading, navigation, the state of the connection, and the view that is chosen.

import { useEffect, useRef } from "preact/hooks";

import { TokenForm } from "./parts/token";
import { ThemeSwitch } from "./parts/theme";
import { time } from "./format";
import { type Route, address, useRoute } from "./route";
import { useShared } from "./state";
import { ApplicationView } from "./views/application";
import { ApplicationsView } from "./views/applications";
import { ChangesView } from "./views/changes";
import { ControllersView } from "./views/controllers";
import { GatewayView } from "./views/gateway";
import { KnobsView } from "./views/knobs";

export function App() {
  const route = useRoute();
  const link = useShared((state) => state.link);
  const main = useRef<HTMLElement>(null);
  const here = address(route);
  const first = useRef(here);
  useEffect(() => {
    document.title = `${titleOf(route)} – Tidegate`;
    // A new view begins at its top, for readers by screen and by ear; but not when the page opens, nor where it is chosen
    // from a list in the view, along which the keys go on.
    const isChosenInside = document.activeElement instanceof HTMLSelectElement && main.current?.contains(document.activeElement) === true;
    if (first.current === here) return;
    first.current = "";
    if (isChosenInside) return;
    scrollTo(0, 0);
    main.current?.focus({ preventScroll: true });
  }, [here]);
  return (
    <>
      <header class="top">
        <a class="skip" href={here} onClick={(event) => { event.preventDefault(); main.current?.focus(); }}>
          Skip to the content
        </a>
        <a class="brand" href="#/">
          <Logo /> Tidegate
        </a>
        <LinkState />
        <ThemeSwitch />
        <Navigation route={route} />
      </header>
      <main ref={main} tabIndex={-1} class={link.kind === "lost" ? "stale" : ""}>
        {link.kind === "unauthorised" ? <TokenForm why={link.why} /> : <Chosen route={route} />}
      </main>
      <Footer />
    </>
  );
}

function Chosen({ route }: { route: Route }) {
  switch (route.view) {
    case "applications":
      return <ApplicationsView />;
    case "application":
      return <ApplicationView key={route.name} name={route.name} tab={route.tab} />;
    case "knobs":
      return <KnobsView place={route.place} />;
    case "changes":
      return <ChangesView />;
    case "controllers":
      return <ControllersView />;
    case "gateway":
      return <GatewayView />;
  }
}

function Navigation({ route }: { route: Route }) {
  const names = useShared((state) => state.overview?.applications.map((one) => one.name).join("\n") ?? "");
  const applications = names === "" ? [] : names.split("\n");
  const entries: Array<{ to: Route; name: string; isHere: boolean }> = [];
  if (applications.length !== 1) {
    entries.push({ to: { view: "applications" }, name: "Applications", isHere: route.view === "applications" });
  }
  if (applications.length <= 4) {
    for (const name of applications) {
      const isOnly = applications.length === 1;
      const isHere = route.view === "application" ? route.name === name : isOnly && route.view === "applications";
      entries.push({ to: { view: "application", name, tab: "path" }, name: isOnly ? `Application ${name}` : name, isHere });
    }
  }
  for (const [view, name] of [["knobs", "Knobs"], ["changes", "Events"], ["controllers", "Controllers"], ["gateway", "Gateway"]] as const) {
    const to: Route = view === "knobs" ? { view, place: "" } : { view };
    entries.push({ to, name, isHere: route.view === view });
  }
  return (
    <nav aria-label="Views">
      <ul>
        {entries.map(({ to, name, isHere }) => (
          <li key={address(to)}>
            <a href={address(to)} aria-current={isHere ? "page" : undefined}>{name}</a>
          </li>
        ))}
      </ul>
    </nav>
  );
}

/** Says whether what is shown is of now; a reader by ear hears when that changes. */
function LinkState() {
  const link = useShared((state) => state.link);
  const isReady = useShared((state) => state.overview?.gateway.ready ?? true);
  const said =
    link.kind === "live"
      ? isReady ? { tone: "good", text: "live" } : { tone: "warn", text: "draining" }
      : link.kind === "lost"
        ? { tone: "bad", text: `not connected since ${time(link.since)}` }
        : link.kind === "unauthorised"
          ? { tone: "warn", text: "a token is needed" }
          : { tone: "warn", text: "connecting …" };
  return (
    <>
      <p class={`link ${said.tone}`} role="status">{said.text}</p>
      {link.kind === "lost" && (
        <p class="banner" role="alert">
          The gateway is not reachable: {link.why}. What you see is of {time(link.since)}. The page tries again by itself
          and goes on as soon as it answers.
        </p>
      )}
    </>
  );
}

function Footer() {
  const version = useShared((state) => state.overview?.gateway.version ?? null);
  const session = useShared((state) => state.session);
  return (
    <footer>
      <span>{version === null ? "Tidegate" : `Tidegate ${version}`}</span>
      <span>Times are in the zone {Intl.DateTimeFormat().resolvedOptions().timeZone}</span>
      {session !== null && (
        <span>
          {session.role === "operator" ? "You may change settings" : "You may look, but not change settings"}
          {session.who === null ? "" : ` (${session.who})`}
        </span>
      )}
      <a href="licenses.md">Licences</a>
    </footer>
  );
}

function Logo() {
  return (
    <svg viewBox="0 0 32 32" width="26" height="26" aria-hidden="true">
      <rect width="32" height="32" rx="7" class="logo-ground" />
      <path d="M5 12c4-4 7-4 11 0s7 4 11 0M5 21c4-4 7-4 11 0s7 4 11 0" class="logo-wave" />
    </svg>
  );
}

function titleOf(route: Route): string {
  switch (route.view) {
    case "application":
      return route.name;
    case "knobs":
      return "Knobs";
    case "changes":
      return "Events and changes";
    case "controllers":
      return "Controllers";
    case "gateway":
      return "Gateway";
    default:
      return "Applications";
  }
}
