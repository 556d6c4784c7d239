// The field for the reason that each change is asked for, since the next one who looks at the record wants to know.

import { WHY_MAX } from "../record";

interface Props {
  id: string;
  label: string;
  value: string;
  set: (why: string) => void;
  placeholder?: string;
  /** It has the focus when it appears. */
  isFirst?: boolean;
}

export function Why({ id, label, value, set, placeholder, isFirst = false }: Props) {
  return (
    <>
      <label for={id}>{label}</label>
      <input
        id={id}
        ref={isFirst ? focus : null}
        value={value}
        required
        pattern=".*\S.*"
        title="a few words"
        maxLength={WHY_MAX}
        placeholder={placeholder}
        onInput={(event) => set(event.currentTarget.value)}
      />
    </>
  );
}

/** One function for all drawings: another one each time would take the focus back each time. */
function focus(field: HTMLInputElement | null): void {
  field?.focus();
}
