/* A series as lines: one path a channel, all on one scale. */

import { decimals, number } from "./format";
import type { Seen, Span, Values } from "./types";

/** Drawn on the scale of another series, if one is said. */
export function lines(series: Values, wide: number, high: number, margin: number, scale = series): string[] {
  const { rows, columns, data } = series;
  let [least, most] = [Infinity, -Infinity];
  for (const value of scale.data) [least, most] = [Math.min(least, value), Math.max(most, value)];
  const span = most - least || 1;
  const y = (value: number): number => margin + ((high - 2 * margin) * (most - value)) / span;
  return Array.from({ length: rows }, (_, c) =>
    Array.from(
      { length: columns },
      (_, i) => `${i ? "L" : "M"}${middle(i, columns, wide).toFixed(2)} ${y(data[c * columns + i]!).toFixed(2)}`,
    ).join(""),
  );
}

/** Where a time step stands: in the middle of its share of the width. */
export const middle = (i: number, count: number, wide: number): number => ((i + 0.5) * wide) / count;

/** What a column of the states covers of a series: a patch of a channel, or a time of all (-1). */
export const span = (seen: Seen | null | undefined, i: number): Span =>
  (seen?.kind === "series" && seen.spans[i]) || [-1, i, 1, i + 1, `time ${i + 1}`];

/** Round numbers along an axis that holds all from one value to another, and where it begins and ends. */
export function ticks(
  least: number,
  most: number,
  many = 4,
): { low: number; high: number; at: { value: number; name: string }[] } {
  const rough = (most - least || Math.abs(most) || 1) / many;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((k) => k * power).find((k) => k >= rough)!;
  const [first, last] = [Math.floor(least / step), Math.max(Math.floor(least / step) + 1, Math.ceil(most / step))];
  const digits = Math.max(0, -Math.floor(Math.log10(step)) + Number(/^[^1-9]*2\.?5/.test(String(step)) && step < 10));
  const name = (value: number): string =>
    Math.abs(value) >= 1e7 ? number(value) : decimals(value, digits).replace(/\B(?=(\d{3})+$)/g, digits ? "" : ",");
  const at = Array.from({ length: last - first + 1 }, (_, k) => ({
    value: (first + k) * step,
    name: name((first + k) * step),
  }));
  return { low: first * step, high: last * step, at };
}
