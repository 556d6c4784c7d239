// Figures side by side, each with what it is and, where it needs it, what it means.

export interface Tile {
  label: string;
  value: string;
  hint?: string;
  tone?: "good" | "warn" | "bad";
}

export function Tiles({ tiles, name }: { tiles: Tile[]; name: string }) {
  return (
    <dl class="tiles" aria-label={name}>
      {tiles.map(({ label, value, hint, tone }) => (
        <div key={label} class="card">
          <dt>{label}</dt>
          <dd class={tone ?? ""}>{value}</dd>
          {hint !== undefined && <dd class="hint">{hint}</dd>}
        </div>
      ))}
    </dl>
  );
}
