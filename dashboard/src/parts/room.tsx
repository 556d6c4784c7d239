// The waiting room of an application: who waits, what was promised and kept, and what is set.

import { useState } from "preact/hooks";

import type { Application, Group, Room } from "../api";
import { number, percent, plural, rate, span, time } from "../format";
import { address } from "../route";
import { type Range, RANGES } from "../series";
import { doors, kept, letIn, newcomers, nextWait } from "../stages";
import { Bars } from "./bars";
import { Chart } from "./chart";
import { KnobsOf } from "./knobs-of";
import { Lately } from "./look-back";
import { type Question, beginning, useMeasured } from "./measured";
import { type Column, Table } from "./table";
import { type Tile, Tiles } from "./tiles";

/** What is changed most, first. */
const FIRST = ["waiting_room.method", "waiting_room.opens_at", "waiting_room.order", "waiting_room.horizon", "waiting_room.hold"];

export function RoomPart({ application, now }: { application: Application; now: number }) {
  const { room, name } = application;
  return (
    <>
      <section aria-labelledby="room-title">
        <h2 id="room-title">Waiting room</h2>
        {room === null ? <None application={application} /> : <Standing application={application} room={room} now={now} />}
      </section>
      {room !== null && room.groups.length > 0 && <Groups application={application} groups={room.groups} now={now} />}
      <KnobsOf title="Settings of the waiting room" application={name} paths={["waiting_room"]} first={FIRST} />
      {room !== null && <History application={application} />}
    </>
  );
}

function None({ application }: { application: Application }) {
  return (
    <div class="empty">
      <p>
        There is none: requests that find no place are refused. With a waiting room, everyone who has to wait is told a time to
        come back at, in a page or a document, and is let in then; nobody keeps a connection open meanwhile.
      </p>
      <p>
        Set <code>waiting_room.method</code> below: <b>fifo</b> gives the earliest time that is free, <b>random</b> draws places in
        rounds, <b>event</b> opens the doors at <code>waiting_room.opens_at</code>, <b>closed</b> lets nobody new in, <b>wait</b> has
        everyone wait, to try it.
        {application.estimate.capacity_per_s === null && (
          <>
            {" "}It needs to know what the servers can do, which is not known yet: see{" "}
            <a href={address({ view: "application", name: application.name, tab: "capacity" })}>Capacity</a>. Until then
            everybody passes but at doors that are closed, and <b>wait</b> has everyone wait for the next slot.
          </>
        )}
      </p>
    </div>
  );
}

function Standing({ application, room, now }: { application: Application; room: Room; now: number }) {
  const { room_rates: rates } = application;
  const count = (what: string) => room.counts[what] ?? 0;
  const perSecond = (what: string) => rates[what] ?? 0;
  const late = count("no_show") + count("kept") + count("late");
  const refused = count("horizon_full") + count("closed");
  const tiles: Tile[] = [
    { label: "Doors", value: doors(room, now), ...(room.opens_at !== null && room.opens_at > now ? { hint: `at ${time(room.opens_at)}` } : {}) },
    { label: "In the waiting room", value: plural(room.waiting, "person", "people"), hint: "with a time to come, or a lot" },
    { label: "The next visitor waits", value: nextWait(room), hint: "as he would be told now" },
    {
      label: "Promises kept",
      value: kept(room),
      hint: `${rate(perSecond("kept"), "per s")} now; ${number(count("promised"))} were told a time since the start`,
      ...(perSecond("missed") > 0 ? { tone: "bad" as const } : {}),
    },
    {
      label: "Did not come",
      value: late === 0 ? "nobody was due" : `${number(count("no_show"))} of ${number(late)}`,
      hint: `${percent(room.no_show_share)} are expected not to, and slots are filled beyond by as much`,
    },
    { label: "Let in at once", value: rate(perSecond("direct"), "per s"), hint: `${rate(perSecond("passed"), "requests/s")} come with a pass` },
    { label: "Promised to newcomers", ...newcomers(room) },
  ];
  if (refused > 0) {
    tiles.push({
      label: "Refused",
      value: number(refused),
      hint: `${number(count("horizon_full"))} since no time was left within waiting_room.horizon, ${number(count("closed"))} at closed doors`,
      tone: "bad",
    });
  }
  if (count("forged") + count("replayed") > 0) {
    tiles.push({
      label: "Tokens that are not honest",
      value: number(count("forged") + count("replayed")),
      hint: `${number(count("forged"))} forged, of another gateway or too old a key; ${number(count("replayed"))} used twice`,
    });
  }
  return (
    <>
      {room.report_overdue && <p class="fault" role="alert">The process that checks tokens does not report: the last capacity holds.</p>}
      <Tiles tiles={tiles} name="How the waiting room stands" />
      <figure class="card ahead">
        <figcaption>
          <h3>Who comes when</h3>
          <p class="hint">
            People by the time they were told. A flat top is a room that promises no more than the servers can take; a gap at the
            left is time that nobody was promised.
          </p>
        </figcaption>
        {room.waiting === 0 ? <p class="empty">Nobody waits: visitors are let in as they come.</p> : <Bars ahead={room.ahead} />}
        {room.waiting > 0 && room.ahead.waiting.length === 0 && (
          <p class="empty">{plural(room.waiting, "person has", "people have")} a lot: places are drawn {room.opens_at === null ? "when doors open" : `in ${span(room.opens_at - now)}`}.</p>
        )}
      </figure>
    </>
  );
}

/** Doors and shares of groups of classes. */
function Groups({ application, groups, now }: { application: Application; groups: Group[]; now: number }) {
  const columns: Array<Column<Group>> = [
    { key: "name", name: "Group", isText: true, by: (one) => one.class, cell: (one) => <Named group={one} application={application.name} /> },
    { key: "doors", name: "Doors", isText: true, by: (one) => doors(one, now), cell: (one) => <Doors group={one} now={now} /> },
    { key: "share", name: "Share of each slot", by: (one) => one.share, cell: (one) => (one.share === null ? "with everybody" : percent(one.share)) },
    { key: "waiting", name: "Wait, people", by: (one) => one.waiting, cell: (one) => <Waiting group={one} /> },
    { key: "next", name: "The next waits", by: (one) => one.next_wait_s, cell: (one) => nextWait(one) },
    { key: "in", name: "Let in, per s", by: (one) => letIn(application, one), cell: (one) => number(letIn(application, one)) },
  ];
  return (
    <section aria-labelledby="groups-title">
      <h2 id="groups-title">{plural(groups.length, "group", "groups")} of classes</h2>
      <p class="soft">
        Classes with doors or a share of their own; above stand the doors of everybody else. Choose a group's name to change its
        knobs.
      </p>
      <Table caption={`Groups in the waiting room of ${application.name}`} columns={columns} rows={groups} id={(one) => one.class} first={{ key: "name", descending: false }} />
    </section>
  );
}

function Named({ group, application }: { group: Group; application: string }) {
  const path = `${application}/${group.class}`;
  const others = group.classes.filter((name) => name !== group.class);
  return (
    <>
      <a href={address({ view: "knobs", place: path })} title={`Knobs of ${path}`}>{group.class}</a>
      {others.length > 0 && <small class="soft"> with {others.join(", ")}</small>}
    </>
  );
}

/** How its places are given, and what is told where they are not. */
function Doors({ group, now }: { group: Group; now: number }) {
  const { opens_at: opens, closed_message: message } = group;
  if (group.method === "closed") return <>{doors(group, now)}{message !== null && <small class="soft"> “{message}”</small>}</>;
  return <>{doors(group, now)}{opens !== null && opens > now && <small class="soft"> at {time(opens)}</small>}</>;
}

function Waiting({ group }: { group: Group }) {
  return <span class="why">{group.lots > 0 && <small>{number(group.lots)} with a lot</small>}{number(group.waiting)}</span>;
}

function questions(application: string): Record<"waiting" | "next" | "promises", Question[]> {
  const of = { application };
  return {
    waiting: [{ query: { ...of, meter: "room_waiting" }, stats: ["mean"] }],
    // The meter is in milliseconds.
    next: [{ query: { ...of, meter: "room_next" }, stats: ["mean"], factor: 1e-3 }],
    promises: ["kept", "missed", "no_show"].map((what) => ({ query: { ...of, meter: `room.${what}` }, stats: ["mean"] })),
  };
}

function History({ application }: { application: Application }) {
  const [range, setRange] = useState<Range>(RANGES[0]!);
  const { data, now, fault } = useMeasured(questions(application.name), range);
  const common = { from: beginning(data.waiting, now - range.length, now), to: now };
  return (
    <Lately id="room-charts" range={range} choose={setRange} fault={fault}>
      <div class="charts">
        <Chart
          {...common}
          title="People in the waiting room"
          hint="Those who were told a time that has not come yet."
          lines={[{ name: "wait", colour: "offered", filled: true }]}
          data={data.waiting}
          format={number}
          axis={number}
          empty="Nobody has waited in this time."
        />
        <Chart
          {...common}
          title="Wait of the next visitor"
          hint="What whoever came then would have been told; nothing where no time could be promised."
          lines={[{ name: "told", colour: "offered", filled: true }]}
          data={data.next}
          format={span}
          axis={span}
          empty="Nobody would have had to wait in this time."
        />
        <Chart
          {...common}
          title="What became of promises"
          hint="Kept: came at the time and was let in. Missed: came, and was given another time. Did not come: not within waiting_room.grace."
          lines={[
            { name: "kept", colour: "good", filled: true },
            { name: "missed", colour: "refused" },
            { name: "did not come", colour: "offered" },
          ]}
          data={data.promises}
          format={(value) => rate(value, "per s")}
          axis={number}
          empty="No promise was due in this time."
        />
      </div>
    </Lately>
  );
}
