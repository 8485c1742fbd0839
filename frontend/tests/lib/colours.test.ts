import { describe, expect, it } from "vitest";
import {
  byteColours,
  diverging,
  hidingColour,
  inkOn,
  limit,
  palette,
  sequential,
  signedColours,
} from "../../src/lib/colours";

describe.each([true, false])("where the page is dark: %s", (dark) => {
  it("zero has the colour of the paper", () => {
    expect(diverging(0, dark)).toEqual(palette(dark).paper);
    expect(sequential(0, dark, "score")).toEqual(palette(dark).paper);
  });

  it("what is past the limit has the deepest colour", () => {
    expect(diverging(-7, dark)).toEqual(palette(dark).below);
    expect(diverging(7, dark)).toEqual(palette(dark).above);
  });

  it("a byte of a score is 255 times its root", () => {
    const [r, g, b] = new Uint8Array(byteColours(dark).buffer, 4 * 255, 3);
    expect([r, g, b]).toEqual(sequential(1, dark, "score"));
  });

  it("a byte of a difference is nothing at 128 and hides at 0", () => {
    const bytes = new Uint8Array(signedColours(dark).buffer);
    expect([...bytes.subarray(4 * 128, 4 * 128 + 3)]).toEqual(palette(dark).paper);
    expect([...bytes.subarray(0, 3)]).toEqual(hidingColour(dark));
  });
});

describe("what is written on a colour", () => {
  it("is white or black, whichever has more contrast", () => {
    expect(inkOn([20, 20, 20])).toBe("#ffffff");
    expect(inkOn([253, 252, 249])).toBe("#000000");
  });
});

describe("the limit of a heat map", () => {
  it("leaves one of two hundred sizes above it", () => {
    expect(limit(Float32Array.from({ length: 200 }, (_, i) => (i === 7 ? -1000 : 1)))).toBe(1000);
    expect(limit(Float32Array.from({ length: 1000 }, (_, i) => (i === 7 ? -1000 : 1)))).toBe(1);
  });

  it("is one where there is nothing but zero, or nothing at all", () => {
    expect(limit(new Float32Array(3))).toBe(1);
    expect(limit(Float32Array.of(-Infinity, NaN))).toBe(1);
  });
});
