/* What stands behind each picture of the run, as tables. */

import { get, values } from "../lib/api";
import { comparing } from "../lib/comparing.svelte";
import type { Explorer } from "../lib/explorer.svelte";
import { grouped } from "../lib/format";
import { named } from "../lib/names";
import type { Factor, Step, Values, Word } from "../lib/types";
import { changeOf, isChange, sharesTable } from "./compared";
import type { Entry, Table } from "./table";

const ROWS = 80;
const COLUMNS = 16;
/** Cells of a step that the page shows as a table, around the cursor. */
const WHOLE = 1 << 20;
/** Numbers of a step that go into a file. */

export function partsTable(explorer: Explorer): Table {
  if (isChange(explorer)) return sharesTable(explorer);
  const { run, clean, effects, side } = explorer;
  const before = new Map((clean?.parts ?? []).map((part) => [part.name, part.share]));
  const changed = run?.id !== clean?.id;
  const rows = (run?.parts ?? []).map((part): Entry[] => {
    const share = changed ? [part.share, before.get(part.name) ?? null] : [part.share];
    const what = side.cuts.includes(part.name) ? `${part.what}, cut` : part.what;
    return [part.name, ...share, effects[part.name] ?? null, what];
  });
  const [value, likely] = run?.target.probability === null ? ["value", "value"] : ["logit", "probability"];
  const shares = changed ? [`share of the ${value}`, "without the cuts"] : [`share of the ${value}`];
  return { heads: ["part", ...shares, `${likely} with it cut${changed ? " or uncut" : ""}`, "what"], rows };
}

export function lensTable(explorer: Explorer): Table {
  const { run, lens, lensed } = explorer;
  const apart = isChange(explorer);
  const each = run?.steps.some((step) => step.name === "Z"); // else there is one outcome for all tokens
  const token = (k: number): Entry[] => (each ? [k, run?.tokens[k] ?? ""] : ["", "all"]);
  const rows = lens.flatMap((words, layer) =>
    words.map((word, i): Entry[] => [
      `H[${layer}]`,
      ...token(i + lensed[0]),
      word.token,
      word.probability,
      ...(apart ? beside(layer, i, i + lensed[0]) : []),
    ]),
  );
  const more = apart ? ["likeliest in B", "probability in B", "target of A with the state from B"] : [];
  return {
    heads: ["state", "position", "token", each ? "likeliest word" : "likeliest class", "probability", ...more],
    rows,
  };
}

function beside(layer: number, i: number, place: number): Entry[] {
  const other = comparing.lens[layer]?.[i];
  return [other?.token ?? null, other?.probability ?? null, comparing.patches[`H[${layer}]@${place}`] ?? null];
}

export function sourcesTable({ run, shares }: Explorer): Table {
  const rows = (shares?.shares ?? []).map((share, i): Entry[] => [i, run?.tokens[i] ?? "", share]);
  return {
    heads: ["position", "token read", `share of the ${run?.target.probability === null ? "value" : "logit"}`],
    rows,
  };
}

/** A factor's name or number, inside the function that it goes through. */
const through = ({ function: written }: Factor, text: string): string => (written ? written.replace("·", text) : text);

export function unfoldingTable({ unfolding }: Explorer): Table {
  const rows = (unfolding?.terms ?? []).map((term, k): Entry[] => [
    k + 1,
    term.value,
    term.factors
      .map((one) => through(one, one.kind === "constant" ? one.name : `${one.name}(${one.at.join(", ")})`))
      .join(" · "),
    term.factors.map((one) => through(one, String(one.value))).join(" · "),
  ]);
  if (unfolding?.others) rows.push([`${unfolding.others} others`, unfolding.rest, "", ""]);
  if (unfolding) rows.push(["sum", unfolding.sum, "", ""], [unfolding.outer || "value", unfolding.value, "", ""]);
  for (const [name, value] of Object.entries(unfolding?.notes ?? {})) rows.push([name, value, "", ""]);
  for (const { at, sum } of unfolding?.rivals ?? []) rows.push([`sum at ${at}`, sum, "", ""]);
  return { heads: ["term", "value", "factors", "their values"], rows };
}

export function wordsTable(words: Word[], before: Map<number, number>): Table {
  const more = (word: Word): Entry[] => (before.size ? [before.get(word.id) ?? null] : []);
  return {
    heads: [
      "rank",
      "word",
      "id",
      words.some((word) => word.probability === null) ? "value" : "probability",
      ...(before.size ? ["without the cuts"] : []),
    ],
    rows: words.map((word) => [word.rank, word.token, word.id, word.probability ?? word.value, ...more(word)]),
  };
}

/** As many words as the server lists. */
export async function allWords({ run, place }: Explorer, search: string, before: Map<number, number>): Promise<Table> {
  const query = new URLSearchParams({ search, k: "1000" });
  if (place.after !== null) query.set("position", String(place.after));
  const all = await get<{ words: Word[]; found: number }>(`/api/runs/${run!.id}/vocabulary?${query}`);
  const some = all.words.length < all.found ? `the first ${all.words.length} of ${all.found} words` : undefined;
  return { ...wordsTable(all.words, before), note: some };
}

const labelled = (tokens: string[], kind: string, index: number): string =>
  kind === "tokens" || kind === "queries" || kind === "keys"
    ? `${index} ${named(tokens[index] ?? "", index)}`
    : String(index);

/** The cells of a step from these on, as many as these. */
function cells(
  run: Explorer["run"],
  step: Step,
  found: Values,
  top: number,
  left: number,
  down: number,
  across: number,
): Table {
  const tokens = run?.tokens ?? [];
  const rows: Entry[][] = [];
  for (let r = top; r < Math.min(found.rows, top + down); r++) {
    const row: Entry[] = [labelled(tokens, step.rows, r + found.top)];
    for (let c = left; c < Math.min(found.columns, left + across); c++) row.push(found.data[r * found.columns + c]!);
    rows.push(row);
  }
  const wide = Math.min(found.columns - left, across);
  const heads = Array.from({ length: wide }, (_, c) =>
    step.shape.length > 1 ? labelled(tokens, step.columns, c + left + found.left) : step.name,
  );
  const corner = step.rows === "queries" ? "query ↓ key →" : "row";
  const [all, here] = [step.shape.reduce((a, b) => a * b, 1), rows.length * wide];
  return {
    heads: [corner, ...heads],
    rows,
    note: here < all ? `${grouped(here)} of ${grouped(all)} numbers` : undefined,
  };
}

/** What lies around the cursor. */
export function stepTable(explorer: Explorer): Table {
  const { run, step, at } = explorer;
  const found = isChange(explorer) ? comparing.change : explorer.values;
  if (!step || !found || found.name !== step.name) return { heads: [], rows: [] };
  const near = (k: number, from: number, n: number, most: number): number =>
    Math.max(0, Math.min(k - from - Math.floor(most / 2), n - most));
  const [top, left] = [
    near(at[0] ?? 0, found.top, found.rows, ROWS),
    near(at[1] ?? 0, found.left, found.columns, COLUMNS),
  ];
  return cells(run, step, found, top, left, ROWS, COLUMNS);
}

/** The whole step, or as many rows around the cursor as a file should have. */
export async function wholeStep(explorer: Explorer): Promise<Table> {
  const { run, step, values: here } = explorer;
  const [rows = 1, columns = 1] = step!.shape;
  const many = Math.max(1, Math.min(rows, Math.floor(WHOLE / columns)));
  const top = Math.max(0, Math.min(here?.top ?? 0, rows - many));
  const some: [number, number] = [top, top + many];
  const found = await (isChange(explorer) ? changeOf(explorer, some) : values(run!.id, step!.name, some, [0, columns]));
  return cells(run, step!, found, 0, 0, many, columns);
}
