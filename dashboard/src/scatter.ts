// Where the dots of goodput over offered load lie, in the units of a drawing.

/** A drawing of this size, with room for the axes' figures below and at the left. */
export const FRAME = { width: 400, height: 170, left: 46, bottom: 22, top: 6, right: 8 };

export interface Scatter {
  /** Both axes end here: a multiple of one, two or five. */
  most: number;
  ticks: number[];
  /** Paths of dots, the latest apart. */
  earlier: string;
  latest: string;
}

/** Places pairs of load and goodput; the last `recent` of them are the latest. */
export function scatter(load: ReadonlyArray<number | null>, goodput: ReadonlyArray<number | null>, recent: number): Scatter {
  const pairs = load.flatMap((x, index): Array<[number, number]> => {
    const y = goodput[index];
    return x === null || y === null || y === undefined ? [] : [[x, y]];
  });
  const most = roundUp(Math.max(1, ...pairs.flat()));
  const dots = (some: Array<[number, number]>) =>
    some.map(([x, y]) => `M${across(x, most).toFixed(1)} ${up(y, most).toFixed(1)}h0`).join("");
  return {
    most,
    ticks: [0, most / 2, most],
    earlier: dots(pairs.slice(0, Math.max(0, pairs.length - recent))),
    latest: dots(pairs.slice(Math.max(0, pairs.length - recent))),
  };
}

export function across(value: number, most: number): number {
  return FRAME.left + (value / most) * (FRAME.width - FRAME.left - FRAME.right);
}

export function up(value: number, most: number): number {
  return FRAME.height - FRAME.bottom - (value / most) * (FRAME.height - FRAME.bottom - FRAME.top);
}

function roundUp(value: number): number {
  const size = 10 ** Math.floor(Math.log10(value));
  const step = [1, 2, 4, 5, 10].find((factor) => factor * size >= value) ?? 10;
  return step * size;
}
