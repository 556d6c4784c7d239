import { describe, expect, it } from "vitest";

import { kept } from "../src/kept";

/** As much of a storage as is used. */
function storage(texts: Map<string, string>): Storage {
  return {
    getItem: (name: string) => texts.get(name) ?? null,
    setItem: (name: string, value: string) => void texts.set(name, value),
  } as unknown as Storage;
}

describe("what a browser keeps", () => {
  it("is in its storage, and gone with it", () => {
    const texts = new Map<string, string>();
    const one = kept(() => storage(texts), "tidegate.theme");
    expect(one.read()).toBeNull();
    one.keep("dark");
    expect(kept(() => storage(texts), "tidegate.theme").read()).toBe("dark");
    texts.clear();
    expect(one.read()).toBeNull();
  });

  it("is here where the storage is refused", () => {
    const refused = () => {
      throw new DOMException("The operation is insecure.", "SecurityError");
    };
    const one = kept(refused, "tidegate.token");
    expect(one.read()).toBeNull();
    one.keep("a");
    expect(one.read()).toBe("a");
  });

  it("is here where there is no storage", () => {
    // As Firefox has it without storage.
    const none = kept(() => null as unknown as Storage, "tidegate.token");
    none.keep("a");
    expect(none.read()).toBe("a");
  });
});
