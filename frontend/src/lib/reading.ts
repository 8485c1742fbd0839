/* What a run is of, as the address has it and as the server is asked. */

import type { Address } from "./address";
import { Failure } from "./api";
import { grouped } from "./format";
import type { ModelInfo, Summary } from "./types";

/** What a page begins with, where the address says nothing. */
export function beginning(place: Address, model: ModelInfo): Partial<Address> {
  if (model.reads === "text") return place.text === null ? { text: model.text, second: model.second } : {};
  if (place.upload || place.example !== null) return { text: null };
  return { text: null, example: model.begins };
}

/** The body of a run, or null where there is nothing to read yet. */
export function wanted(place: Address, model: ModelInfo): Record<string, unknown> | null {
  const { text, second, masks, upload, example, index, invert, given } = place;
  const hidden = masks.length ? { masks } : {};
  if (model.reads === "text") {
    if (model.tokenizer === null) return { ids: numbers(text ?? "") };
    return { text: text ?? "", ...(second ? { second } : {}), ...hidden };
  }
  const more = { ...hidden, ...(invert ? { invert } : {}), ...(given === null ? {} : { given }) };
  if (upload) return { upload, index, ...more };
  return example === null ? null : { example, ...more };
}

/** Token ids, as one types them for a model without a tokenizer. */
function numbers(text: string): number[] {
  const words = text.split(/[\s,]+/).filter(Boolean);
  const odd = words.find((word) => !/^\d{1,15}$/.test(word));
  if (odd !== undefined)
    throw new Failure(`expected token ids, whole numbers as in 4 8 15; got '${odd}'`, "TokenOutOfRange", 422);
  return words.map(Number);
}

const SPECIAL = /^\[(CLS|SEP|PAD|UNK|class)\]$/;

/** Whether a token can be hidden, or is. */
export function maskable(run: Summary, model: ModelInfo, place: number): boolean {
  if (!model.masks || place < 0 || place >= run.tokens.length) return false;
  return run.masks.includes(place) || !(SPECIAL.test(run.tokens[place]!) || run.tokens[place] === "[MASK]");
}

/** How many tokens are real, where padding fills a series up to the length that the model reads. */
export const realOf = (run: Summary | null): number =>
  run?.input?.kind === "series" && run.input.real < run.tokens.length ? run.input.real : Infinity;

/** Whether the answer is of two texts: if the second follows the first. */
export const answersPair = (run: Summary | null): boolean => run?.target.step === "z_C";

/** Whether a text is read by a model that restores what is hidden, and nothing is. */
export const hidesNothing = (run: Summary, model: ModelInfo | null): boolean =>
  !!model?.masks && model.reads === "text" && !run.masks.length && !run.tokens.includes("[MASK]");

/** What an outcome of a model is called. */
export function singular(run: Summary | null, model: ModelInfo | null): string {
  if (answersPair(run)) return "answer";
  if (run?.target.probability === null) return "value";
  if (model?.reads === "pixels") return "grey";
  return model?.reads === "text" && !(run?.masked && run.target.step === "z") ? "word" : "class";
}

/** Whether what is asked about is what the model would choose itself. */
export const isLikeliest = ({ target }: Summary): boolean => target.rank === null || target.rank === 1;

/** What a model says of its target: it comes, or it would come, if it is not the likeliest. */
export function verb(run: Summary): string {
  const [plain, would] = run.masked ? ["stands", "would stand"] : ["comes", "would come"];
  return isLikeliest(run) ? plain! : would!;
}

/** Where what is asked about stands among all; nothing of the likeliest. */
export const ranked = (run: Summary): string =>
  isLikeliest(run) ? "" : `number ${grouped(run.target.rank!)} of ${grouped(run.outcomes)}`;

/** What each state is read out as, token by token: a word, where the answer is of both texts. */
export const readOut = (run: Summary | null, model: ModelInfo | null): string =>
  answersPair(run) ? "word" : singular(run, model);

/** What the outcomes of a model are called. */
export function noun(run: Summary | null, model: ModelInfo | null): string {
  return plural(singular(run, model));
}

export function plural(one: string): string {
  return `${one}${one.endsWith("s") ? "es" : "s"}`;
}
