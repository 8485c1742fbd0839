/* A series as lines: one path a channel, all on one scale. */

import type { Seen, Span, Values } from "./types";

/** Drawn on the scale of another series, if one is said. */
export function lines(series: Values, wide: number, high: number, margin: number, scale = series): string[] {
  const { rows, columns, data } = series;
  let [least, most] = [Infinity, -Infinity];
  for (const value of scale.data) [least, most] = [Math.min(least, value), Math.max(most, value)];
  const span = most - least || 1;
  const y = (value: number): number => margin + ((high - 2 * margin) * (most - value)) / span;
  return Array.from({ length: rows }, (_, c) =>
    Array.from({ length: columns }, (_, i) => `${i ? "L" : "M"}${middle(i, columns, wide).toFixed(2)} ${y(data[c * columns + i]!).toFixed(2)}`).join(""),
  );
}

/** Where a time step stands: in the middle of its share of the width. */
export const middle = (i: number, count: number, wide: number): number => ((i + 0.5) * wide) / count;

/** What a column of the states covers of a series: a patch of a channel, or a time of all (-1). */
export const span = (seen: Seen | null | undefined, i: number): Span => seen?.spans?.[i] ?? [-1, i, 1, i + 1, `time ${i + 1}`];
