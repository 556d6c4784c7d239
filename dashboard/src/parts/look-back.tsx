// How far back charts look.

import { RANGES, type Range } from "../series";

export function LookBack({ range, choose }: { range: Range; choose: (range: Range) => void }) {
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
