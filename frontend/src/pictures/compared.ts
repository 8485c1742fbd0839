/* What stands behind the pictures of two runs that are compared, as tables. */

import { fetched, get } from "../lib/api";
import { comparing } from "../lib/comparing.svelte";
import type { Explorer } from "../lib/explorer.svelte";
import type { Values } from "../lib/types";
import type { Entry, Table } from "./table";

export interface Compared {
  words: {
    id: number;
    token: string;
    a: { rank: number; value: number };
    b: { rank: number; value: number };
    difference: number;
  }[];
  found: number;
  size: number;
  /** Whether values are probabilities. */
  odds: boolean;
}

/** Whether a picture shows B minus A. */
export const isChange = ({ place }: Explorer): boolean => comparing.told !== null && place.show === "change";

export function apartTable(): Table {
  const rows = (comparing.told?.steps ?? []).map((one): Entry[] => [one.name, one.share, one.difference, one.norm]);
  return {
    heads: ["step", "share of both norms", "norm of B − A", "norm of A"],
    rows,
    note: comparing.told?.notes.join("; ") || undefined,
  };
}

export function sharesTable({ run }: Explorer): Table {
  const [value, likely] = run?.target.probability === null ? ["value", "value"] : ["logit", "probability"];
  const rows = (comparing.shares?.parts ?? []).map((part): Entry[] => [
    part.name,
    part.a,
    part.b,
    part.difference,
    comparing.patches[part.name] ?? null,
    part.what,
  ]);
  return {
    heads: ["part", `share of the ${value} in A`, "in B", "B − A", `${likely} of A with it from B`, "what"],
    rows,
  };
}

/** Where the words of both are told, after the token that is asked about. */
export function comparedPath(explorer: Explorer): string {
  const [a, b] = [comparing.a(explorer), comparing.b(explorer)];
  if (!a || !b || !comparing.told) return "";
  return `/api/runs/${a.id}/against/${b.id}/words?${explorer.place.after === null ? "" : `position=${a.position}`}`;
}

export function comparedTable(found: Compared | null): Table {
  const rows = (found?.words ?? []).map((word): Entry[] => [
    word.token,
    word.id,
    word.a.value,
    word.b.value,
    word.difference,
    word.a.rank,
    word.b.rank,
  ]);
  const what = found?.odds === false ? "value" : "probability";
  return { heads: ["word", "id", `${what} in A`, `${what} in B`, "B − A", "rank in A", "rank in B"], rows };
}

export async function allCompared(explorer: Explorer, search: string, by: string): Promise<Table> {
  const query = new URLSearchParams({ search, by, k: "1000" });
  const all = await get<Compared>(`${comparedPath(explorer)}&${query}`);
  const some = all.words.length < all.found ? `the first ${all.words.length} of ${all.found} words` : undefined;
  return { ...comparedTable(all), note: some };
}

/** B minus A of some rows of the cursor's step. */
export function changeOf(explorer: Explorer, rows: [number, number]): Promise<Values> {
  const [a, b, name] = [comparing.a(explorer)!.id, comparing.b(explorer)!.id, explorer.place.step];
  return fetched(`/api/runs/${a}/against/${b}/steps/${encodeURIComponent(name)}?rows=${rows.join(":")}`, name);
}
