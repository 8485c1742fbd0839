/* What two models or two runs share, so that it need not be drawn anew. */

import type { ModelInfo, Summary } from "./types";

export function sameSteps(a: Summary, b: Summary): boolean {
  return a.steps.length === b.steps.length && a.steps.every((step, i) => step.name === b.steps[i]!.name);
}

/** Two checkpoints of one training run: what is seen of the one stays until the other is here. */
export function sameRun(a: ModelInfo | null, b: ModelInfo): boolean {
  const run = (model: ModelInfo): string => model.id.slice(0, model.id.lastIndexOf("@"));
  return !!a && b.id.includes("@") && run(a) === run(b);
}
