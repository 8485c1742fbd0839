/* All heads of a run: their measures, and their scores in one small picture. */

import { bytes } from "./api";
import { byName } from "./reading";
import { isLeft, Resource } from "./resource.svelte";
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
  private measured = new Resource<Told>();
  private pictured = new Resource<Sprite>();
  private cuts = new Resource<Effect[]>();

  async follow(run: Summary): Promise<void> {
    if (!run.steps.some((step) => step.symbol === "mu")) return;
    const path = `/api/runs/${run.id}`;
    [this.told, this.sprite] = await Promise.all([
      this.measured.ask(`${path}/heads`),
      spriteOf(this.pictured, `${path}/heads.sprite?by=${this.by}`, run.id, this.by),
    ]);
  }

  async show(run: Summary, by: "maximum" | "mean"): Promise<void> {
    this.by = by;
    await this.follow(run).catch((error) => {
      if (!isLeft(error)) throw error;
    });
  }

  /** The effects of cuts without the cuts that are made, layer by layer from the top. */
  async compare(clean: Summary, query: string): Promise<void> {
    const about = `${clean.id}?${query}`;
    if (this.about === about) return;
    [this.about, this.before] = [about, {}];
    for (let layer = clean.layers; layer >= 1 && this.about === about; layer--) {
      const found = await this.cuts.ask(`/api/runs/${clean.id}/cuts?layer=${layer}&${query}`);
      if (this.about === about) this.before = { ...this.before, ...byName(found) };
    }
  }
}

/** All scores of a run, or of B minus A, as one picture of bytes. */
export function spriteOf(of: Resource<Sprite>, path: string, run: string, by: Sprite["by"]): Promise<Sprite> {
  return of.ask(path, async (signal) => {
    const { data, headers } = await bytes(path, signal);
    const [, heads = 1, side = 1] = (headers.get("x-shape") ?? "").split(",").map(Number);
    return { run, by, side, heads, bin: Number(headers.get("x-bin")), data: new Uint8Array(data) };
  });
}

export const atlas = new Atlas();
