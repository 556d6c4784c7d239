// The geometry of the path's picture: a stream as wide as what passes, from which losses branch off downwards.

/** What happens in one column of the picture, in anything per second. */
export interface Reach {
  into: number;
  lost: number;
  onwards: number;
}

export interface River {
  /** Outline of the stream. */
  stream: string;
  /** Outlines of what is lost, one for each column that loses something. */
  branches: string[];
}

/** A column is this wide. */
export const COLUMN = 100;
export const HEIGHT = 72;

const TOP = 4;
const WIDEST = 44;
/** What there is, is seen. */
const THINNEST = 2;

/** Draws columns from left to right. The widest reach fills what there is room for. */
export function river(reaches: readonly Reach[]): River {
  const most = Math.max(...reaches.flatMap((reach) => [reach.into, reach.onwards]), 1e-9);
  const width = (flow: number) => (flow <= 0 ? 0 : Math.max(THINNEST, (flow / most) * WIDEST));
  let below = "";
  const branches: string[] = [];
  reaches.forEach(({ into, lost, onwards }, index) => {
    const left = index * COLUMN;
    const [middle, right] = [left + COLUMN / 2, left + COLUMN];
    const [before, after] = [TOP + width(into), TOP + width(onwards)];
    // From right to left, since the outline comes back along the lower edge.
    below = ` L${right} ${after} C${middle} ${after} ${middle} ${before} ${left} ${before}` + below;
    if (lost > 0) {
      const wide = width(lost);
      const edge = Math.max(before, after);
      branches.push(
        `M${left + 20} ${edge - wide} C${middle} ${edge - wide} ${middle + wide} ${edge} ${middle + wide} ${HEIGHT}` +
          ` L${middle} ${HEIGHT} C${middle} ${edge + 6} ${middle - 10} ${edge} ${left + 20} ${edge} Z`,
      );
    }
  });
  return { stream: `M0 ${TOP} L${reaches.length * COLUMN} ${TOP}${below} Z`, branches };
}
