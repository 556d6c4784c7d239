// Charts of the last while, and how far back they look.

import type { ComponentChildren } from "preact";

import { RANGES, type Range } from "../series";

interface Props {
  /** The id of the heading. */
  id: string;
  range: Range;
  choose: (range: Range) => void;
  /** Why the measurements could not be read. */
  fault: string | null;
  children: ComponentChildren;
}

export function Lately({ id, range, choose, fault, children }: Props) {
  return (
    <section aria-labelledby={id}>
      <div class="between">
        <h2 id={id}>The last {range.name}</h2>
        <LookBack range={range} choose={choose} />
      </div>
      {fault !== null && <p class="fault" role="alert">The measurements could not be read: {fault}</p>}
      {children}
    </section>
  );
}

function LookBack({ range, choose }: { range: Range; choose: (range: Range) => void }) {
  return (
    <label class="inline">
      <span>Look back</span>
      <select
        value={range.name}
        onChange={(event) => choose(RANGES.find((one) => one.name === event.currentTarget.value) ?? RANGES[0]!)}
      >
        {RANGES.map((one) => <option key={one.name}>{one.name}</option>)}
      </select>
    </label>
  );
}
