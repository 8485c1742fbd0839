/* What tokens and outcomes are called: blanks are marked in texts, not in names. */

import { explorer } from "./explorer.svelte";
import { shown } from "./format";

export function named(token: string, place?: number): string {
  const seen = explorer.run?.input;
  if (seen?.kind === "pixels" && place !== undefined) return place < seen.first ? "start" : `pixel ${place - seen.first + 1}`;
  return explorer.model?.reads === "text" ? shown(token) : token;
}
