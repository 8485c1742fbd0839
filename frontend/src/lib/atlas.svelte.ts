/* All heads of a run: their measures, and their scores in one small picture. */

import { bytes, get } from "./api";
import type { Effect, Summary } from "./types";

export interface Measure {
  name: string;
  title: string;
  meaning: string;
  /** Whether it is a share of the attention, from 0 to 1. */
  share: boolean;
  queries: number | null;
}

export interface Measured {
  name: string;
  layer: number;
  head: number;
  [measure: string]: unknown;
}

export interface Told {
  layers: number;
  heads: number;
  measures: Measure[];
  table: Measured[];
}

export interface Sprite {
  run: string;
  by: "maximum" | "mean";
  side: number;
  /** Queries, and keys, that a pixel stands for. */
  bin: number;
  heads: number;
  data: Uint8Array;
  /** Whether it is a difference: 128 is none, 0 has no counterpart. */
  signed?: boolean;
}

class Atlas {
  told = $state.raw<Told | null>(null);
  sprite = $state.raw<Sprite | null>(null);
  by = $state<"maximum" | "mean">("maximum");
  /** What cutting each head gives in the run without cuts. */
  before = $state.raw<Record<string, number>>({});
  /** The run without cuts, and the word, that these are about. */
  about = "";
  private run = "";

  async follow(run: Summary): Promise<void> {
    if (!run.steps.some((step) => step.symbol === "mu")) return;
    const here = this.sprite?.run === run.id && this.sprite.by === this.by ? this.sprite : null;
    const told = this.run === run.id ? this.told : get<Told>(`/api/runs/${run.id}/heads`);
    [this.told, this.sprite] = await Promise.all([told, here ?? drawn(run.id, this.by)]);
    this.run = run.id;
  }

  async show(run: Summary, by: "maximum" | "mean"): Promise<void> {
    this.by = by;
    await this.follow(run);
  }

  /** The effects of cuts without the cuts that are made, layer by layer from the top. */
  async compare(clean: Summary, query: string): Promise<void> {
    const about = `${clean.id}?${query}`;
    if (this.about === about) return;
    [this.about, this.before] = [about, {}];
    for (let layer = clean.layers; layer >= 1 && this.about === about; layer--) {
      const found = await get<Effect[]>(`/api/runs/${clean.id}/cuts?layer=${layer}&${query}`);
      if (this.about === about) {
        this.before = {
          ...this.before,
          ...Object.fromEntries(found.map((one) => [one.name, one.probability ?? one.value])),
        };
      }
    }
  }
}

async function drawn(run: string, by: "maximum" | "mean"): Promise<Sprite> {
  const { data, headers } = await bytes(`/api/runs/${run}/heads.sprite?by=${by}`);
  const [, heads = 1, side = 1] = (headers.get("x-shape") ?? "").split(",").map(Number);
  return { run, by, side, heads, bin: Number(headers.get("x-bin")), data: new Uint8Array(data) };
}

export const atlas = new Atlas();
