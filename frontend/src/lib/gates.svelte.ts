/* One layer of a recurrent network: its units over time, and the one at the cursor. */

import { bytes, get } from "./api";
import type { Unfolding } from "./types";

export type Order = "index" | "hold" | "similarity";
export const ORDERS: [Order, string][] = [
  ["hold", "when they hold most"],
  ["similarity", "similarity"],
  ["index", "index"],
];

export interface Gate {
  symbol: string;
  what: string;
  equation: string;
  /** Whether it is a share, from 0 to 1. */
  share: boolean;
  /** The size that has the deepest colour. */
  limit: number;
  /** The largest size in the layer. */
  most: number;
}

export interface Told {
  layer: number;
  layers: number;
  units: number;
  memory: "c" | "h";
  symbols: Gate[];
  orders: Record<Order, number[]>;
}

export interface Ribbons {
  /** The one that it is of; nothing for all. */
  symbol: string;
  rows: number;
  columns: number;
  /** Symbols x rows x tokens, and the unit that each value is of. */
  values: Float32Array;
  units: Int32Array;
}

export interface Unit {
  layer: number;
  unit: number;
  position: number;
  lines: Record<string, number[]>;
  unfolded: Unfolding[];
  written: {
    added: number[];
    kept: number[];
    shares: number[];
    ranked: number[];
    value: number;
    sum: number;
    difference: number;
    bound: number;
  } | null;
  held: string;
}

export interface Span {
  symbol: string;
  first: number;
  last: number;
  units: { unit: number; least: number }[];
}

async function ribbonsOf(run: string, query: string, symbol: string): Promise<Ribbons> {
  const { data, headers } = await bytes(`/api/runs/${run}/gates.ribbons?${query}`);
  const [symbols = 1, rows = 1, columns = 1] = (headers.get("x-shape") ?? "").split(",").map(Number);
  const size = symbols * rows * columns;
  const view = new DataView(data);
  const values = Float32Array.from({ length: size }, (_, k) => view.getFloat32(4 * k, true));
  const units = Int32Array.from({ length: size }, (_, k) => view.getInt32(4 * (size + k), true));
  return { symbol, rows, columns, values, units };
}

class Gates {
  told = $state.raw<Told | null>(null);
  ribbons = $state.raw<Ribbons | null>(null);
  /** One symbol with more rows. */
  large = $state.raw<Ribbons | null>(null);
  unit = $state.raw<Unit | null>(null);
  span = $state.raw<Span | null>(null);
  /** A unit that is pointed at in a list. */
  pointed = $state<number | null>(null);
  /** What holding each unit at zero gives, as far as it is known. */
  effects = $state.raw<number[]>([]);
  /** Which run, layer and word they are about. */
  about = $state("");
  private here = "";
  private drawn: Record<string, string> = {};
  private one = "";

  async follow(run: string, layer: number): Promise<void> {
    const wanted = `${run} ${layer}`;
    if (this.here === wanted) return;
    this.here = wanted;
    const told = await get<Told>(`/api/runs/${run}/gates?layer=${layer}`);
    if (this.here !== wanted) return;
    this.told = told;
    if (this.span) await this.brush(run, layer, this.span.symbol, this.span.first, this.span.last);
  }

  /** All symbols, or one of them larger. */
  async draw(run: string, layer: number, order: Order, rows: number, symbol = ""): Promise<void> {
    const which = symbol ? "large" : "ribbons";
    const query = `layer=${layer}&order=${order}&rows=${rows}${symbol ? `&symbol=${symbol}` : ""}`;
    const wanted = `${run} ${query}`;
    if (this.drawn[which] === wanted) return;
    this.drawn[which] = wanted;
    const found = await ribbonsOf(run, query, symbol);
    if (this.drawn[which] === wanted) this[which] = found;
  }

  /** All symbols of all units of the layer, in the order of their numbers. */
  all(run: string): Promise<Ribbons> {
    const { layer, units } = this.told!;
    return ribbonsOf(run, `layer=${layer}&order=index&rows=${units}`, "");
  }

  async look(run: string, layer: number, unit: number, position: number): Promise<void> {
    const wanted = `${run} ${layer} ${unit} ${position}`;
    if (this.one === wanted) return;
    this.one = wanted;
    const found = await get<Unit>(`/api/runs/${run}/gates/unit?layer=${layer}&unit=${unit}&position=${position}`);
    if (this.one === wanted) this.unit = found;
  }

  /** The units that are on from one token to another. */
  async brush(run: string, layer: number, symbol: string, first: number, last: number): Promise<void> {
    const query = `layer=${layer}&symbol=${symbol}&first=${first}&last=${last}`;
    const units = await get<Span["units"]>(`/api/runs/${run}/gates/on?${query}`);
    this.span = { symbol, first, last, units };
  }

  /** Hold every unit of the layer at zero, one after the other. */
  async test(run: string, query: string): Promise<void> {
    const { layer, units } = this.told!;
    const about = `${run} ${layer} ${query}`;
    [this.about, this.effects] = [about, []];
    while (this.about === about && this.effects.length < units) {
      const path = `/api/runs/${run}/gates/effects?layer=${layer}&first=${this.effects.length}&${query}`;
      const more = await get<number[]>(path);
      if (this.about === about) this.effects = [...this.effects, ...more];
    }
  }
}

export const gates = new Gates();
