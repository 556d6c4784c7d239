// A table whose columns sort it, whose rows keep their places, and that scrolls by itself where the page is narrow.

import type { ComponentChildren } from "preact";
import { useRef, useState } from "preact/hooks";

import { kept, settled, sorted } from "../order";

/** Rows are put in order again this often at most, and not while somebody is at them. */
const SETTLE_MS = 5000;

export interface Column<Row> {
  key: string;
  name: string;
  /** What is shown. */
  cell: (row: Row) => ComponentChildren;
  /** What it is sorted by; without, it is not. */
  by?: (row: Row) => number | string | null;
  isText?: boolean;
}

interface Order {
  key: string;
  descending: boolean;
}

export interface TableProps<Row> {
  caption: string;
  columns: Array<Column<Row>>;
  rows: Row[];
  id: (row: Row) => string;
  first: Order;
}

export function Table<Row>({ caption, columns, rows, id, first }: TableProps<Row>) {
  const [order, setOrder] = useState<Order>(first);
  const by = columns.find((column) => column.key === order.key)?.by;
  const places = usePlaces(rows, id, by, order);
  return (
    <div class="scroll" role="region" aria-label={caption} tabIndex={0}>
      <table>
        <caption class="unseen">{caption}</caption>
        <thead>
          <tr>
            {columns.map((column) => {
              const isOrder = column.key === order.key;
              const sort = isOrder ? (order.descending ? "descending" : "ascending") : undefined;
              return (
                <th key={column.key} scope="col" class={column.isText === true ? "text" : ""} aria-sort={sort}>
                  {column.by === undefined ? (
                    column.name
                  ) : (
                    <button
                      type="button"
                      onClick={() =>
                        setOrder({ key: column.key, descending: isOrder ? !order.descending : column.isText !== true })
                      }
                    >
                      {column.name}
                      <span aria-hidden="true" class="sort">{isOrder ? (order.descending ? "▼" : "▲") : ""}</span>
                    </button>
                  )}
                </th>
              );
            })}
          </tr>
        </thead>
        <tbody ref={places.body}>
          {places.rows.map((row) => (
            <tr key={id(row)}>
              {columns.map((column, index) =>
                index === 0 ? (
                  <th key={column.key} scope="row" class="text">{column.cell(row)}</th>
                ) : (
                  <td key={column.key} class={column.isText === true ? "text" : ""}>{column.cell(row)}</td>
                ),
              )}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Rows in an order that is chosen by a click, follows what changes much, and stands still under a pointer or the focus. */
function usePlaces<Row>(rows: Row[], id: (row: Row) => string, by: ((row: Row) => number | string | null) | undefined, order: Order) {
  const last = useRef({ chosen: "", ids: [] as string[], at: 0 });
  const body = useRef<HTMLTableSectionElement>(null);
  const chosen = `${order.key} ${order.descending}`;
  const now = performance.now();
  const known = new Set(last.current.ids);
  const isNew = last.current.chosen !== chosen || rows.some((row) => !known.has(id(row)));
  const isHeld = body.current !== null && (body.current.matches(":hover") || body.current.contains(document.activeElement));
  if (by !== undefined && (isNew || (!isHeld && now - last.current.at >= SETTLE_MS))) {
    const ids = isNew ? sorted(rows, id, by, order.descending) : settled(rows, id, by, order.descending, last.current.ids);
    last.current = { chosen, ids, at: now };
  } else {
    last.current = { ...last.current, chosen, ids: kept(rows.map(id), last.current.ids) };
  }
  const found = new Map(rows.map((row) => [id(row), row]));
  return { rows: last.current.ids.flatMap((one) => found.get(one) ?? []), body };
}
