/* Finding a word of the vocabulary by what one types. */

const blank = (token: string): boolean => /^ \S/.test(token);

/** Whether a token begins a word, where tokens say so by a blank, or by the lack of ##. */
function begins(token: string, spaced: boolean): boolean {
  return spaced ? blank(token) : !token.startsWith("##");
}

const bare = (token: string): string => token.replace(/^##/, "").trim();

/** The words that hold a text: itself first, then what begins with it; whole words before pieces.

    Capitals make no difference but between words that are equal otherwise. */
export function matching(tokens: string[], typed: string): number[] {
  const wanted = typed.replaceAll("␣", " ").toLowerCase();
  if (!wanted) return [];
  const sought = bare(wanted);
  const spaced = tokens.some(blank);
  const rank = (token: string): number => {
    const whole = bare(token.toLowerCase());
    return (whole === sought ? 0 : whole.startsWith(sought) ? 2 : 4) + (begins(token, spaced) ? 0 : 1);
  };
  const other = (token: string): number => Number(!token.includes(typed.replaceAll("␣", " ")));
  return tokens
    .map((token, id) => ({ token, id }))
    .filter(({ token }) => token.toLowerCase().includes(wanted))
    .map(({ token, id }) => ({ id, rank: rank(token), long: token.length, other: other(token) }))
    .sort((a, b) => a.rank - b.rank || a.long - b.long || a.other - b.other)
    .map(({ id }) => id);
}

/** The word that one types: with the blank before it, or the token itself; nothing of blanks alone. */
export function idOf(tokens: string[], typed: string): number | undefined {
  const meant = typed.replaceAll("␣", " ");
  if (!meant.trim()) return undefined;
  const found = [` ${meant.trim()}`, meant, meant.trim()].map((token) => tokens.indexOf(token));
  return found.find((id) => id >= 0);
}
