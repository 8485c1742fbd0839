/* Fields for a text, which may have several lines: a field of one line would drop its line ends. */

const MOST = 8;

/** Lines of a field that shows its whole text, up to some. */
export const linesOf = (text: string): number => Math.min(MOST, text.split("\n").length);

/** What the keys of such a field do: Enter reads, with Shift it ends a line, Escape leaves. */
export function typing(event: KeyboardEvent, leave: () => void): void {
  if (event.key === "Escape") leave();
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  (event.currentTarget as HTMLTextAreaElement).form?.requestSubmit();
}
