/* What tokens and outcomes are called: blanks are marked in texts, not in names. */

import { explorer } from "./explorer.svelte";
import { shown } from "./format";
import { singular } from "./reading";
import type { Summary } from "./types";

/** Whether a model's outcomes are tokens, whose blanks are to be seen; classes and answers are not. */
export const areTokens = (): boolean => singular(explorer.run, explorer.model) === "word";

export function named(token: string, place?: number): string {
  const seen = explorer.run?.input;
  if (seen?.kind === "pixels" && place !== undefined)
    return place < seen.first ? "start" : `pixel ${place - seen.first + 1}`;
  if (place === undefined && !areTokens()) return token;
  return explorer.model?.reads === "text" ? shown(token) : token;
}

/** Whether tokens have no blanks of their own, so that one stands between words. */
export const inPieces = (run: Summary): boolean => run.tokens.length > 1 && !run.blanks;

/** Whether a blank stands before a token: word pieces within a word have none. */
export const isApart = (token: string, place: number): boolean => place > 0 && !token.startsWith("##");

/** What was read, as it was given, or as its tokens are read. */
export function textOf(run: Summary | null): string {
  if (!run || run.input) return run?.source ?? "";
  const pieces = inPieces(run);
  return (
    (!run.second && run.command) ||
    run.tokens.map((token, i) => (pieces && isApart(token, i) ? ` ${token}` : token)).join("")
  );
}

const size = (token: string): number => new TextEncoder().encode(token.replace(/\\x[0-9a-f]{2}/g, ".")).length;

/** The first tokens as they are read: a letter that several are bytes of stands at the last of them. */
export function spelled(run: Summary, upto: number): string[] {
  const said = run.tokens.slice(0, upto);
  let [first, bytes] = [0, 0];
  run.tokens.slice(0, upto).forEach((token, i) => {
    const letters = run.within[i];
    if (letters === undefined) return;
    if (bytes === 0) first = i;
    bytes += size(token);
    if (bytes < size(letters)) return;
    said.fill("", first, i)[i] = letters;
    bytes = 0;
  });
  return said;
}
