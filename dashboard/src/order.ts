// Orders of rows that stay: what changes a little keeps its place, so that it can be read and pointed at.

/** By how much one number has to exceed another to take its place. */
const MARGIN = 0.25;

type Value = number | string | null;

/** Orders values; what is missing comes last either way. */
export function compare(a: Value, b: Value, descending: boolean): number {
  if (a === null || b === null) return Number(a === null) - Number(b === null);
  const order = typeof a === "string" || typeof b === "string"
    ? String(a).localeCompare(String(b), "en", { numeric: true })
    : a - b;
  return descending ? -order : order;
}

/** The ids of rows in the order of their values. */
export function sorted<Row>(rows: readonly Row[], id: (row: Row) => string, by: (row: Row) => Value, descending: boolean): string[] {
  return [...rows].sort((a, b) => compare(by(a), by(b), descending)).map(id);
}

/** The same, but from the order `before`: a row moves only past those that it clearly exceeds. */
export function settled<Row>(
  rows: readonly Row[],
  id: (row: Row) => string,
  by: (row: Row) => Value,
  descending: boolean,
  before: readonly string[],
): string[] {
  const values = new Map(rows.map((row) => [id(row), by(row)]));
  const order = kept([...values.keys()], before);
  for (let index = 1; index < order.length; index += 1) {
    for (let at = index; at > 0; at -= 1) {
      const [upper, lower] = [order[at - 1]!, order[at]!];
      if (!isClear(values.get(lower) ?? null, values.get(upper) ?? null, descending)) break;
      [order[at - 1], order[at]] = [lower, upper];
    }
  }
  return order;
}

/** `ids` in the order `before`; new ones come last. */
export function kept(ids: readonly string[], before: readonly string[]): string[] {
  const present = new Set(ids);
  const known = new Set(before);
  return [...before.filter((one) => present.has(one)), ...ids.filter((one) => !known.has(one))];
}

/** Whether `a` clearly comes before `b`. */
function isClear(a: Value, b: Value, descending: boolean): boolean {
  if (compare(a, b, descending) >= 0) return false;
  if (typeof a !== "number" || typeof b !== "number") return true;
  return Math.abs(a - b) > MARGIN * Math.max(Math.abs(a), Math.abs(b));
}
