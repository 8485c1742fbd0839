/* What a model has, by which rooms are named. */

import type { ModelInfo } from "./types";

export const hasHeads = (model: ModelInfo): boolean => "M" in model.symbols;
export const hasGates = (model: ModelInfo): boolean => ["rnn", "lstm"].includes(model.family);
