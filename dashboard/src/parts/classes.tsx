// The classes of an application: who comes, who is served, who waits and who is refused.

import { useState } from "preact/hooks";

import type { Application, Class } from "../api";
import { number, plural, span } from "../format";
import { refusal } from "../reasons";
import { address } from "../route";
import { sum } from "../stages";
import { type Column, Table } from "./table";

const COLUMNS: Array<Column<Class>> = [
  {
    key: "name",
    name: "Class",
    isText: true,
    by: (one) => one.name,
    cell: (one) => <a href={address({ view: "knobs", place: one.path })} title={`Knobs of ${one.path}`}>{one.name}</a>,
  },
  { key: "arrived", name: "Arrive, req/s", by: (one) => one.arrived, cell: (one) => number(one.arrived) },
  { key: "goodput", name: "Goodput, req/s", by: (one) => one.goodput, cell: (one) => <Share one={one} /> },
  { key: "refused", name: "Refused, req/s", by: (one) => sum(one.refused), cell: (one) => <Refused one={one} /> },
  { key: "left", name: "Left, req/s", by: (one) => gone(one), cell: (one) => number(gone(one)) },
  { key: "queued", name: "Waiting", by: (one) => one.queued, cell: (one) => <Queued one={one} /> },
  { key: "wait", name: "Wait 95 %", by: (one) => one.waiting_time?.p95 ?? null, cell: (one) => span(one.waiting_time?.p95) },
  { key: "p50", name: "Response 50 %", by: (one) => one.response_time?.p50 ?? null, cell: (one) => span(one.response_time?.p50) },
  { key: "p95", name: "95 %", by: (one) => one.response_time?.p95 ?? null, cell: (one) => span(one.response_time?.p95) },
  { key: "p99", name: "99 %", by: (one) => one.response_time?.p99 ?? null, cell: (one) => span(one.response_time?.p99) },
  { key: "priority", name: "Priority", by: (one) => one.priority, cell: (one) => one.priority },
];

export function Classes({ application }: { application: Application }) {
  const [words, setWords] = useState("");
  const found = application.classes.filter((one) => one.name.toLowerCase().includes(words.trim().toLowerCase()));
  return (
    <section aria-labelledby="classes-title">
      <div class="between">
        <h2 id="classes-title">{plural(application.classes.length, "class", "classes")}</h2>
        {application.classes.length > 8 && (
          <label class="inline">
            <span>Find a class</span>
            <input type="search" value={words} onInput={(event) => setWords(event.currentTarget.value)} />
          </label>
        )}
      </div>
      <p class="soft">
        Requests are sorted into classes by the rules of the configuration; what no rule matches is of the class default. The
        higher the priority, the earlier the turn: 0 is least, 7 waits for nothing. Choose a class's name to change its knobs.
      </p>
      <Table caption={`Classes of ${application.name}`} columns={COLUMNS} rows={found} id={(one) => one.path} first={{ key: "arrived", descending: true }} />
      {found.length === 0 && <p class="empty">No class has “{words}” in its name.</p>}
      <Explained />
    </section>
  );
}

function Explained() {
  return (
    <details>
      <summary>What the columns mean</summary>
      <dl class="explained">
        <dt>Goodput</dt>
        <dd>Answers without error, complete within goodput.within. The bar is its share of what arrives.</dd>
        <dt>Refused</dt>
        <dd>Answered 429 or 503 for load or a limit, with the main reason; +1 is one more reason, shown when pointed at and on the path.</dd>
        <dt>Left</dt>
        <dd>Clients that gave up: while their request waited, or before its answer was complete.</dd>
        <dt>Waiting</dt>
        <dd>Requests in the class's queue now, and how many would be if what only watches acted.</dd>
        <dt>Wait 95 %</dt>
        <dd>From arrival until sent to a server: 95 of 100 requests waited less.</dd>
        <dt>Response</dt>
        <dd>From arrival until the last byte went to the client, of requests that were answered; percentiles as above.</dd>
      </dl>
    </details>
  );
}

function Share({ one }: { one: Class }) {
  const share = (one.arrived ?? 0) > 0 ? Math.min(1, (one.goodput ?? 0) / (one.arrived ?? 1)) : 0;
  return (
    <span class="share" style={{ "--share": share }}>
      {number(one.goodput)}
    </span>
  );
}

function Queued({ one }: { one: Class }) {
  if (!one.would_wait) return <>{number(one.queued)}</>;
  return <span class="why"><small>would be {number(one.would_wait)}</small>{number(one.queued)}</span>;
}

function Refused({ one }: { one: Class }) {
  const reasons = Object.entries(one.refused).sort(([, a], [, b]) => b - a);
  const watched = Object.entries(one.would_refuse).sort(([, a], [, b]) => b - a);
  if (reasons.length + watched.length === 0) return <>0</>;
  return (
    <span class="why">
      {watched.length > 0 && <small>would be {number(sum(one.would_refuse))}: <Reasons rates={watched} /></small>}
      {reasons.length > 0 && <small><Reasons rates={reasons} /></small>}
      {reasons.length > 0 && <b>{number(sum(one.refused))}</b>}
    </span>
  );
}

/** The first reason; all of them with their rates when pointed at. */
function Reasons({ rates }: { rates: Array<[string, number]> }) {
  const [first] = rates;
  if (first === undefined) return null;
  const all = rates.map(([name, perSecond]) => `${number(perSecond)} ${refusal(name).name}`).join(", ");
  return <span title={all}>{refusal(first[0]).name}{rates.length > 1 ? ` +${rates.length - 1}` : ""}</span>;
}

function gone(one: Class): number | null {
  return one.left === null && one.abandoned === null ? null : (one.left ?? 0) + (one.abandoned ?? 0);
}
