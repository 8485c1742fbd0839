import { beforeEach, describe, expect, it, vi } from "vitest";

/** A pen whose letters are all one wide: happy-dom draws nothing. */
beforeEach(() => {
  const pen = { font: "", measureText: (text: string) => ({ width: text.length }) };
  vi.spyOn(HTMLCanvasElement.prototype, "getContext").mockReturnValue(pen as never);
  vi.resetModules();
});

describe("digits in a cell", () => {
  it.each([
    [8, "0.6063"],
    [5, "0.606"],
    [4, "0.61"],
    [3, "0.6"],
    [2, ""],
  ])("are as many as have room: %s wide", async (room, text) => {
    const { fitting } = await import("../../src/lib/heat");
    expect(fitting(0.60634, room, "12px serif")).toBe(text);
  });

  it("are the power of ten where no digits of it fit", async () => {
    const { fitting } = await import("../../src/lib/heat");
    expect(fitting(-0.000123, 5, "12px serif")).toBe("−1e−4");
  });
});
