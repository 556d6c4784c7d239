// Light, dark, or as the system has it.

import { useEffect, useState } from "preact/hooks";

type Theme = "system" | "light" | "dark";

const KEPT = "tidegate.theme";
const THEMES: ReadonlyArray<{ theme: Theme; name: string }> = [
  { theme: "system", name: "System" },
  { theme: "light", name: "Light" },
  { theme: "dark", name: "Dark" },
];

/** Told to the window when colours change, for what is painted and not styled. */
export const THEME_CHANGED = "tidegate-theme";

export function ThemeSwitch() {
  const [theme, setTheme] = useState<Theme>(read);
  useEffect(() => {
    if (theme === "system") delete document.documentElement.dataset["theme"];
    else document.documentElement.dataset["theme"] = theme;
    localStorage.setItem(KEPT, theme);
    dispatchEvent(new Event(THEME_CHANGED));
  }, [theme]);
  useEffect(() => {
    const query = matchMedia("(prefers-color-scheme: dark)");
    const changed = () => dispatchEvent(new Event(THEME_CHANGED));
    query.addEventListener("change", changed);
    return () => query.removeEventListener("change", changed);
  }, []);
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
  const kept = localStorage.getItem(KEPT);
  return THEMES.find((one) => one.theme === kept)?.theme ?? "system";
}
