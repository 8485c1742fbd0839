/* The ledger as src/vesalius/explorer/ledger.py tells it, and rectangles for its parts. */

export interface ArrayOf {
  name: string;
  latex: string;
  shape: number[];
  times: number;
  count: number;
  kind: "parameter" | "bias";
}

export type Kind = "embedding" | "position" | "attention" | "layer" | "normalisation" | "output";

export interface Portion {
  path: string;
  symbol: string;
  latex: string;
  name: string;
  kind: Kind;
  formula: string;
  numbers: string;
  /** Of one of these, of which there are ``times`` in all and ``each`` in the part above. */
  count: number;
  times: number;
  each: number;
  share: number;
  arrays: ArrayOf[];
  parts: Portion[];
}

export interface Setting {
  name: string;
  symbol: string;
  value: number | string | boolean | null;
  meaning: string;
  choices: (string | number)[] | null;
  own: number | string | boolean | null;
  kind: "number" | "truth" | "choice" | "left out";
  follows: number | null;
  optional: boolean;
  least: number;
  rungs: number[];
}

export interface CostRow {
  equation: string;
  name: string;
  latex: string;
  times: number;
  forward: number;
  backward: number;
  pointwise: number;
}

export interface Ledger {
  family: string;
  title: string;
  sections: string;
  settings: Setting[];
  sizes: { name: string; source: string; settings: Record<string, Setting["value"]> }[];
  total: number;
  formula: string;
  bytes: Record<string, number>;
  also: Record<string, number>;
  parts: Portion[];
  cost: {
    length: number;
    batch: number;
    longest: number | null;
    fixed: boolean;
    unlimited: boolean;
    lengths: number[];
    equations: CostRow[];
    forward: number;
    training_step: number;
    pointwise: number;
    training_bytes: Record<string, number>;
    decode_state: { name: string; one: number; all: number } | null;
  };
}

/** What the address says of the settings: ``layers:6,heads:8``. */
export function changesOf(said: string): Record<string, string> {
  const pairs = said.split(",").map((one) => one.split(/[:=]/, 2));
  return Object.fromEntries(pairs.map(([name = "", value = ""]) => [name, value]).filter(([name]) => name));
}

export function written(changes: Record<string, string>): string {
  return Object.entries(changes)
    .map(([name, value]) => `${name}:${value}`)
    .join(",");
}

/** The part of a path, after the parts that it lies in. */
export function found(parts: Portion[], path: string): Portion[] {
  for (const part of parts) {
    if (part.path === path) return [part];
    if (path.startsWith(`${part.path}/`)) {
      const below = found(part.parts, path);
      if (below.length) return [part, ...below];
    }
  }
  return [];
}

/** Something with an area. */
export interface Tile {
  key: string;
  size: number;
  kind: Kind | "bias";
  latex: string;
  name: string;
  /** Where a click goes; an array goes nowhere. */
  path: string;
  within: Tile[];
}

/** More like each other than these are one tile. */
const DRAWN = 128;

/** One tile for each part and repetition. */
export function tiles(parts: Portion[], prefix = ""): Tile[] {
  return parts.flatMap((part) => {
    const one = (key: string, times: number, which: string): Tile => ({
      key: prefix + key,
      size: part.count * times,
      kind: part.kind,
      latex: which || part.latex,
      name: part.name,
      path: part.path,
      within: times === 1 ? tiles(part.parts, `${prefix}${key}/`) : [],
    });
    if (part.each === 1 || part.each > DRAWN) return [one(part.path, part.each, "")];
    const number = (k: number): string => part.latex.replace(/(?<![A-Za-z])l(?![A-Za-z])/, String(k));
    return Array.from({ length: part.each }, (_, k) => one(`${part.path}#${k + 1}`, 1, number(k + 1)));
  });
}

/** A part that has none below it, as its arrays. */
export function arraysOf(part: Portion): Tile[] {
  return part.arrays.map((array) => ({
    key: `${part.path}/${array.name}`,
    size: array.count * array.times,
    kind: array.kind === "bias" ? "bias" : part.kind,
    latex: array.latex,
    name: `${array.shape.join(" × ")}${array.times > 1 ? `, ${array.times} times` : ""}`,
    path: "",
    within: [],
  }));
}

export interface Placed {
  tile: Tile;
  x: number;
  y: number;
  width: number;
  height: number;
  within: Placed[];
}

/** Room above the parts of a part, for its name. */
const HEAD = 20;
const GAP = 2;

/** Rectangles whose areas are the sizes, as near to squares as their order allows. */
export function placed(tiles: Tile[], x: number, y: number, width: number, height: number): Placed[] {
  const some = [...tiles].filter((tile) => tile.size > 0).sort((a, b) => b.size - a.size);
  const all = some.reduce((sum, tile) => sum + tile.size, 0);
  const scale = all ? (width * height) / all : 0;
  const out: Placed[] = [];
  let rest = some;
  while (rest.length && width > 0 && height > 0) {
    const side = Math.min(width, height);
    let taken = 1;
    let sum = rest[0]!.size * scale;
    while (taken < rest.length) {
      const more = sum + rest[taken]!.size * scale;
      if (worst(rest, taken + 1, more, side, scale) > worst(rest, taken, sum, side, scale)) break;
      [taken, sum] = [taken + 1, more];
    }
    const thick = sum / side;
    let along = 0;
    for (const tile of rest.slice(0, taken)) {
      const long = (tile.size * scale) / thick;
      const box =
        width >= height
          ? { x, y: y + along, width: thick, height: long }
          : { x: x + along, y, width: long, height: thick };
      out.push({ tile, ...box, within: inside(tile, box) });
      along += long;
    }
    if (width >= height) [x, width] = [x + thick, width - thick];
    else [y, height] = [y + thick, height - thick];
    rest = rest.slice(taken);
  }
  return out;
}

function worst(tiles: Tile[], taken: number, sum: number, side: number, scale: number): number {
  const [largest, least] = [tiles[0]!.size * scale, tiles[taken - 1]!.size * scale];
  const square = (sum / side) ** 2;
  return Math.max(largest / square, square / least);
}

function inside(tile: Tile, box: { x: number; y: number; width: number; height: number }): Placed[] {
  if (!tile.within.length || box.width < 14 || box.height < 14) return [];
  if (tile.within.length === 1) return []; // the same area once more
  const head = box.height > 70 && box.width > 54 ? HEAD : GAP;
  return placed(tile.within, box.x + GAP, box.y + head, box.width - 2 * GAP, box.height - head - GAP);
}
