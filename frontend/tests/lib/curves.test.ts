import { describe, expect, it } from "vitest";
import { decimated, joined, line, ticks, valueAt, type Metrics, type Point } from "../../src/lib/curves";

const metrics = (more: Partial<Metrics>): Metrics => ({
  ...{ from: 0, next: 0, tag: "", more: false, train: {}, valid: {}, samples: [] },
  ...more,
});

describe("metrics of a training run", () => {
  it("that came later stand behind those that were there", () => {
    const before = metrics({ train: { step: [1, 2], loss: [5, 4] } });
    const after = metrics({ from: 2, train: { step: [3], loss: [3], norm: [1] } });
    expect(joined(before, after).train).toEqual({ step: [1, 2, 3], loss: [5, 4, 3], norm: [null, null, 1] });
  });

  it("that begin anew replace them", () => {
    const after = metrics({ train: { step: [1] } });
    expect(joined(metrics({ train: { step: [1, 2] } }), after)).toBe(after);
  });

  it("are a line of those steps that have a value", () => {
    const { points } = line({ step: [1, 2, 3], loss: [5, null, 3] }, "loss", "loss", "state");
    expect(points).toEqual([
      [1, 5],
      [3, 3],
    ]);
  });
});

describe("a line", () => {
  const points = Array.from({ length: 1000 }, (_, i): Point => [i, i === 500 ? 99 : 0]);

  it("of many points keeps the least and the greatest of each column", () => {
    const kept = decimated(points, 0, 999, 10);
    expect(kept.length).toBeLessThanOrEqual(22);
    expect(kept).toContainEqual([500, 99]);
  });

  it("has at a step the value of the last point until then", () => {
    const few: Point[] = [
      [10, 1],
      [20, 2],
    ];
    expect([5, 10, 19, 30].map((step) => valueAt(few, step)?.[1])).toEqual([1, 1, 1, 2]);
    expect(valueAt([], 3)).toBeNull();
  });

  it("has round numbers across its range", () => {
    expect(ticks(0, 1000, 5)).toEqual([0, 200, 400, 600, 800, 1000]);
    expect(ticks(3, 3, 5)).toEqual([3]);
  });
});
