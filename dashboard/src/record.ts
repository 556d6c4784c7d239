// The record of changes as far as it is shown: the latest, and what was read further back.

import { type ChangeRecord, RECORDS_AT_ONCE } from "./api";

/** Longest reason, as fields count: the gateway takes 500 bytes, and what counts as one in a field has three at most. */
export const WHY_MAX = 166;

export interface Shown {
  /** The latest first; `null` before anything was read. */
  records: ChangeRecord[] | null;
  /** Whether there are earlier ones. */
  isMore: boolean;
}

/** With the latest as read anew. What was read further back stays if it goes on from there, without a gap and of the same process. */
export function renewed({ records, isMore }: Shown, latest: ChangeRecord[]): Shown {
  const oldest = latest[latest.length - 1];
  const known = records ?? [];
  // After a restart without a state directory numbers begin anew.
  const joint = known.findIndex((one) => one.id === oldest?.id && one.at === oldest.at);
  if (joint < 0) return { records: latest, isMore: latest.length === RECORDS_AT_ONCE };
  const earlier = known.slice(joint + 1);
  return { records: [...latest, ...earlier], isMore: earlier.length > 0 ? isMore : latest.length === RECORDS_AT_ONCE };
}

/** With what was read behind the last. */
export function further({ records }: Shown, earlier: ChangeRecord[]): Shown {
  return { records: [...(records ?? []), ...earlier], isMore: earlier.length === RECORDS_AT_ONCE };
}
