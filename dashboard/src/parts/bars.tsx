// Who waits from now on, as bars: one for each span of time.

import type { Ahead } from "../api";
import { number, plural, span } from "../format";

const HEIGHT = 100;
/** Of a bar's place, what the bar takes. */
const WIDE = 0.8;

export function Bars({ ahead }: { ahead: Ahead }) {
  const { waiting, step_s: step } = ahead;
  const most = Math.max(0, ...waiting);
  if (most === 0) return null;
  const all = waiting.reduce((added, people) => added + people, 0);
  const said = `${plural(all, "person", "people")} to come in the next ${span(waiting.length * step)}, at most ${number(most)} in ${span(step)}`;
  const bars = waiting.map((people, index) => {
    const height = people === 0 ? 0 : Math.max(2, (people / most) * HEIGHT);
    return `M${index + (1 - WIDE) / 2} ${HEIGHT}v${-height}h${WIDE}v${height}Z`;
  });
  return (
    <div class="bars">
      <svg viewBox={`0 0 ${Math.max(waiting.length, 10)} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={said}>
        <path d={bars.join("")} />
      </svg>
      <p class="axis" aria-hidden="true">
        <span>now</span>
        <span>{number(most)} in {span(step)} at most</span>
        <span>in {span(Math.max(waiting.length, 10) * step)}</span>
      </p>
    </div>
  );
}
