// Choices and tokens that a browser keeps. One that keeps nothing, since its user has forbidden it, has them until the page is left.

export interface Kept {
  read: () => string | null;
  keep: (value: string) => void;
}

/** A text under a name in a storage, which a browser may refuse to give. */
export function kept(storage: () => Storage, name: string): Kept {
  let here: string | null = null;
  return {
    read: () => {
      try {
        return storage().getItem(name);
      } catch {
        return here;
      }
    },
    keep: (value) => {
      here = value;
      try {
        storage().setItem(name, value);
      } catch {
        // It is kept here.
      }
    },
  };
}
