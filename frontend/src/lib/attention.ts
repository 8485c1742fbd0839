/* Where the cursor's head looks from the current position. */

import type { Explorer } from "./explorer.svelte";

export interface Look {
  key: number;
  weight: number;
}

/** The row of the cursor's scores at a position, where it is at hand. */
export function looks(explorer: Explorer, position: number): Look[] | null {
  const { values: found, step } = explorer;
  if (!found || step?.symbol !== "mu" || found.name !== step.name) return null;
  const row = position - found.top;
  if (row < 0 || row >= found.rows) return null;
  return Array.from(found.data.subarray(row * found.columns, (row + 1) * found.columns), (weight, j) => ({
    weight,
    key: j + found.left,
  }));
}
