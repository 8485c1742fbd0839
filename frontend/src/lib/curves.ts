/* Training runs as src/vesalius/explorer/training.py tells them, and their lines for a chart. */

export interface Training {
  id: string;
  title: string;
  family: string;
  /** How many there will be; null where no checkpoint says so yet. */
  steps: number | null;
  step: number;
  loss: number | null;
  valid: number | null;
  live: boolean;
  checkpoints: number[];
  finished: boolean;
}

export type Columns = Record<string, (number | null)[]>;

export interface Metrics {
  from: number;
  next: number;
  tag: string;
  more: boolean;
  train: Columns;
  valid: Columns;
  samples: { step: number; text: string }[];
}

/** What came later behind what was there; columns that one lacks are filled with nothing. */
export function joined(before: Metrics, after: Metrics): Metrics {
  if (after.from === 0) return after;
  const both = (a: Columns, b: Columns): Columns => {
    const [n, m] = [a.step?.length ?? 0, b.step?.length ?? 0];
    const names = new Set([...Object.keys(a), ...Object.keys(b)]);
    const of = (some: Columns, name: string, size: number): (number | null)[] =>
      some[name] ?? Array<null>(size).fill(null);
    return Object.fromEntries([...names].map((name) => [name, [...of(a, name, n), ...of(b, name, m)]]));
  };
  return {
    ...after,
    train: both(before.train, after.train),
    valid: both(before.valid, after.valid),
    samples: [...before.samples, ...after.samples],
  };
}

export type Point = [step: number, value: number];

export interface Line {
  name: string;
  /** A class of the page's, whose colour it has. */
  hue: string;
  strong: boolean;
  points: Point[];
}

export function line(columns: Columns, column: string, name: string, hue: string, strong = false): Line {
  const [steps, values] = [columns.step ?? [], columns[column] ?? []];
  const points = steps
    .map((step, i) => [step, values[i]] as const)
    .filter(([step, value]) => step != null && typeof value === "number");
  return { name, hue, strong, points: points as unknown as Point[] };
}

/** For each of some columns of pixels its least and its greatest value, in the order they came. */
export function decimated(points: Point[], from: number, to: number, columns: number): Point[] {
  if (points.length <= 2 * columns) return points;
  const kept: Point[] = [];
  const wide = Math.max(1e-9, to - from) / columns;
  let [at, least, most] = [-1, points[0]!, points[0]!];
  const flush = (): void => {
    if (at < 0) return;
    kept.push(...(least === most ? [least] : least[0] < most[0] ? [least, most] : [most, least]));
  };
  for (const point of points) {
    const column = Math.floor((point[0] - from) / wide);
    if (column !== at) {
      flush();
      [at, least, most] = [column, point, point];
    }
    if (point[1] < least[1]) least = point;
    if (point[1] > most[1]) most = point;
  }
  flush();
  return kept;
}

/** The value at a step: that of the last point until then. */
export function valueAt(points: Point[], step: number): Point | null {
  let [low, high] = [0, points.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (points[middle]![0] <= step) low = middle + 1;
    else high = middle;
  }
  return points[low - 1] ?? points[0] ?? null;
}

/** Round numbers across a range. */
export function ticks(from: number, to: number, about: number): number[] {
  const rough = (to - from) / about;
  if (!(rough > 0)) return [from];
  const power = 10 ** Math.floor(Math.log10(rough));
  const by = power * ([1, 2, 5].find((m) => m * power >= rough) ?? 10);
  const found: number[] = [];
  for (let k = Math.ceil(from / by); k * by <= to + 1e-9 * by; k++) found.push(Number((k * by).toPrecision(12)));
  return found;
}
