// A table whose columns sort it, that scrolls by itself where the page is narrow.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";

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
  const sorted = by === undefined ? rows : [...rows].sort((a, b) => compare(by(a), by(b), order.descending));
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
        <tbody>
          {sorted.map((row) => (
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

/** Orders values; what is missing comes last either way. */
export function compare(a: number | string | null, b: number | string | null, descending: boolean): number {
  if (a === null || b === null) return Number(a === null) - Number(b === null);
  const order = typeof a === "string" || typeof b === "string"
    ? String(a).localeCompare(String(b), "en", { numeric: true })
    : a - b;
  return descending ? -order : order;
}
