/* Figures as the server draws them, asked for once each, and what of them is lit. */

import { get } from "./api";
import type { Step } from "./types";

export interface Drawn {
  title: string;
  svg: string;
}

const kept = new Map<string, Promise<Drawn>>();

export function drawn(path: string): Promise<Drawn> {
  const known = kept.get(path);
  if (known) return known;
  const asked = get<Drawn>(path);
  kept.set(path, asked);
  asked.catch(() => kept.delete(path)); // to be asked for again
  if (kept.size > 60) kept.delete(kept.keys().next().value!);
  return asked;
}

/** The ids of the parts that the cursor stands in: its own, its head's and its sublayer's. */
export function around(step: Step | null, boxes: Record<string, string> = {}): Set<string> {
  if (!step) return new Set();
  const { layer, head } = step.place;
  const found = new Set([step.name]);
  const box = boxes[step.symbol];
  if (layer !== undefined && box && step.place.time === undefined) found.add(`${box}[${layer}]`);
  if (head !== undefined) found.add(`P[${layer},${head}]`);
  return found;
}
