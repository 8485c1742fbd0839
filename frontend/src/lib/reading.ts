/* What a run is of, as the address has it and as the server is asked. */

import type { Address } from "./address";
import { Failure } from "./api";
import { grouped } from "./format";
import type { Effect, ModelInfo, RunRequest, SeenPicture, SeenSeries, Summary } from "./types";

/** What a page begins with, where the address says nothing. */
export function beginning(place: Address, model: ModelInfo): Partial<Address> {
  if (model.reads === "text") return place.text === null ? { text: model.text, second: model.second } : {};
  if (place.upload || place.example !== null) return { text: null };
  return { text: null, example: model.begins };
}

/** The key of all that is known of a run. */
export const keyOf = (request: RunRequest): string => JSON.stringify(request);

/** The run of an address, or null where there is nothing to read yet; `source` is where patches come from. */
export function requestOf(address: Address, model: ModelInfo, source: string | null = null): RunRequest | null {
  const place = { ...address, ...beginning(address, model) };
  const { cuts, from, text, masks, upload, example, index, invert, given } = place;
  const request: RunRequest = { model: place.model, cuts };
  if (model.reads === "text") {
    if (model.tokenizer === null) return { ...request, ids: numbers(text ?? "") };
    request.text = text ?? "";
    if (place.second) request.second = place.second;
  } else if (upload) [request.upload, request.index] = [upload, index];
  else if (example === null) return null;
  else request.example = example;
  if (masks.length) request.masks = masks;
  if (invert && model.reads !== "text") request.invert = invert;
  if (given !== null && model.reads !== "text") request.given = given;
  if (source && from.length) [request.patches, request.source] = [from, source];
  return request;
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

/** What each part's target would be, by its name. */
export const byName = (effects: Effect[]): Record<string, number> =>
  Object.fromEntries(effects.map((one) => [one.name, one.probability ?? one.value]));

/** How tokens lie in the picture that is read, or in the series. */
export const pictureOf = (run: Summary | null): SeenPicture | null =>
  run?.input && run.input.kind !== "series" ? run.input : null;
export const seriesOf = (run: Summary | null): SeenSeries | null => (run?.input?.kind === "series" ? run.input : null);
