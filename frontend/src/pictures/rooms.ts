/* What stands behind the pictures of the other rooms, as tables. */

import { atlas } from "../lib/atlas.svelte";
import { comparing } from "../lib/comparing.svelte";
import type { Line } from "../lib/curves";
import type { Explorer } from "../lib/explorer.svelte";
import { gates } from "../lib/gates.svelte";
import type { Ledger, Portion } from "../lib/ledger";
import type { Entry, Table } from "./table";

const ROWS = 1000;
/** Words that the page shows as a table. */

const entry = (value: unknown): Entry => (typeof value === "number" || typeof value === "string" ? value : null);

export function headsTable({ run, effects }: Explorer): Table {
  const measures = atlas.told?.measures ?? [];
  const others = new Map((comparing.told ? (comparing.heads?.table ?? []) : []).map((head) => [head.name, head]));
  const beside = comparing.told ? measures : [];
  const rows = (atlas.told?.table ?? []).map((head): Entry[] => [
    head.name,
    ...measures.map((one) => entry(head[one.name])),
    ...beside.map((one) => entry(others.get(head.name)?.[one.name])),
    effects[head.name] ?? null,
  ]);
  const likely = run?.target.probability === null ? "value" : "probability";
  return {
    heads: [
      "head",
      ...measures.map((one) => one.title),
      ...beside.map((one) => `${one.title} in the other run`),
      `${likely} with it cut`,
    ],
    rows,
  };
}

/** The unit at the cursor over time, by all symbols of its layer. */
export function unitTable({ run }: Explorer): Table {
  const symbols = Object.entries(gates.unit?.lines ?? {});
  const rows = (run?.tokens ?? []).map((token, i): Entry[] => [
    i,
    token,
    ...symbols.map(([, values]) => values?.[i] ?? null),
  ]);
  return {
    heads: ["position", "token", ...symbols.map(([symbol]) => symbol)],
    rows,
    note: "the unit at the cursor; the file has all units",
  };
}

/** The ribbons: every symbol of every unit, over time. */
export async function ribbonsTable({ run }: Explorer): Promise<Table> {
  const { rows: units, columns, values } = await gates.all(run!.id);
  const symbols = gates.told?.symbols ?? [];
  const each = symbols.flatMap(({ symbol }, s) =>
    Array.from({ length: units }, (_, u) => ({ head: `${symbol}(${u})`, from: (s * units + u) * columns })),
  );
  const rows = (run?.tokens ?? []).map((token, i): Entry[] => [
    i,
    token,
    ...each.map(({ from }) => values[from + i] ?? null),
  ]);
  return { heads: ["position", "token", ...each.map(({ head }) => head)], rows };
}

/** Words with their places on the axes; all of them, or the first. */
export function wordsOn(axes: string[], tokens: string[], points: Float32Array, most = ROWS): Table {
  const rows = tokens
    .slice(0, most)
    .map((token, i): Entry[] => [i, token, ...axes.map((_, k) => points[3 * i + k] ?? null)]);
  return {
    heads: ["id", "word", ...axes],
    rows,
    note: rows.length < tokens.length ? `the first ${rows.length} of ${tokens.length} words` : undefined,
  };
}

export function countTable(parts: Portion[]): Table {
  const flat = (some: Portion[]): Portion[] => some.flatMap((part) => [part, ...flat(part.parts)]);
  const rows = flat(parts).map((part): Entry[] => [
    part.path,
    part.name,
    part.formula,
    part.count,
    part.times,
    part.count * part.times,
  ]);
  return { heads: ["part", "name", "formula", "numbers in one", "times", "in all"], rows };
}

export function costTable(cost: Ledger["cost"]): Table {
  const rows = cost.equations.map((row): Entry[] => [
    row.equation,
    row.name,
    row.times,
    row.forward,
    row.backward,
    row.pointwise,
  ]);
  return { heads: ["equation", "what", "times", "operations forward", "backward", "outside products"], rows };
}

export function linesTable(lines: Line[]): Table {
  const rows = lines.flatMap((line) => line.points.map(([step, value]): Entry[] => [line.name, step, value]));
  return { heads: ["line", "step", "value"], rows };
}
