// Light, dark, or as the system has it.

import { useEffect, useState } from "preact/hooks";

import { kept } from "../kept";

type Theme = "system" | "light" | "dark";

const chosen = kept(() => localStorage, "tidegate.theme");
const THEMES: ReadonlyArray<{ theme: Theme; name: string }> = [
  { theme: "system", name: "System" },
  { theme: "light", name: "Light" },
  { theme: "dark", name: "Dark" },
];

export function ThemeSwitch() {
  const [theme, setTheme] = useState<Theme>(read);
  useEffect(() => {
    if (theme === "system") delete document.documentElement.dataset["theme"];
    else document.documentElement.dataset["theme"] = theme;
    chosen.keep(theme);
  }, [theme]);
  return (
    <label class="theme">
      <span>Colours</span>
      <select value={theme} onChange={(event) => setTheme(event.currentTarget.value as Theme)}>
        {THEMES.map((one) => (
          <option key={one.theme} value={one.theme}>{one.name}</option>
        ))}
      </select>
    </label>
  );
}

function read(): Theme {
  const before = chosen.read();
  return THEMES.find((one) => one.theme === before)?.theme ?? "system";
}
