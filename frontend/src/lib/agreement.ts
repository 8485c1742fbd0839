/* Whether what is summed is what is stored: the one rule behind every tick and every cross. */

import type { Numeral } from "./types";

/** A sum, minus what is stored, and how far rounding alone can bring the one from the other. */
export interface Agreement {
  difference: Numeral;
  bound: Numeral;
  /** Whether that is small beside the values; so it is, where nothing is said. */
  precise?: boolean;
}

export function agrees({ difference, bound, precise = true }: Agreement): boolean {
  return precise && typeof difference === "number" && typeof bound === "number" && Math.abs(difference) <= bound;
}
