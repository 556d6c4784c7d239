// Goodput over offered load: each dot a moment, the shape the literature judges overload control by.

import { number, rate } from "../format";
import { type Columns, isEmpty, latest } from "../series";
import { FRAME, across, scatter, up } from "../scatter";

/** Dots that are shown as the latest. */
const RECENT = 10;

export function GoodputOverLoad({ data, empty }: { data: Columns; empty: string }) {
  const [load = [], goodput = []] = data.values;
  const { most, ticks, earlier, latest: now } = scatter(load, goodput, RECENT);
  const said = `Goodput over offered load: now ${rate(latest(goodput))} of ${rate(latest(load))}`;
  const bottom = FRAME.height - FRAME.bottom;
  return (
    <figure class="chart card">
      <figcaption>
        <h3>Goodput over offered load</h3>
        <p class="hint">
          Each dot is a moment. On the slanting line all is answered well; a flat top is a gateway that holds its peak; dots that
          fall to the right are an application that collapses.
        </p>
      </figcaption>
      {isEmpty(data) ? (
        <p class="empty">{data.values.length === 0 ? "Being read …" : empty}</p>
      ) : (
        <>
          <ul class="legend">
            <li><span class="swatch dot-now" />the last {RECENT} moments</li>
            <li><span class="swatch dot-before" />earlier</li>
            <li class="soft">req/s</li>
          </ul>
          <svg class="scatter" viewBox={`0 0 ${FRAME.width} ${FRAME.height}`} role="img" aria-label={said}>
            {ticks.map((value) => (
              <g key={value}>
                <path class="grid" d={`M${FRAME.left} ${up(value, most)}H${FRAME.width - FRAME.right}M${across(value, most)} ${FRAME.top}V${bottom}`} />
                <text x={FRAME.left - 6} y={up(value, most) + 4} text-anchor="end">{number(value)}</text>
                <text x={across(value, most)} y={bottom + 15} text-anchor={value === most ? "end" : "middle"}>{number(value)}</text>
              </g>
            ))}
            <path class="all-good" d={`M${across(0, most)} ${up(0, most)}L${across(most, most)} ${up(most, most)}`} />
            <path class="dots dots-before" d={earlier} />
            <path class="dots dots-now" d={now} />
          </svg>
        </>
      )}
    </figure>
  );
}
