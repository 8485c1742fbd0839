import { describe, expect, it } from "vitest";
import { pack, packed, unpack } from "../../src/lib/packing";

const LONG = "He shook his head, as he had shaken it before. ".repeat(20);

describe("a text in the address", () => {
  it("stands as it is while it is short", async () => {
    expect(await pack("He shook his")).toBe(false);
    expect(packed("He shook his")).toBeNull();
  });

  it("is deflated from some length on, and comes back as it was", async () => {
    expect(await pack(LONG)).toBe(true);
    const z = packed(LONG)!;
    expect(z).toMatch(/^[\w-]+$/);
    expect(z.length).toBeLessThan(LONG.length / 4);
    expect(await unpack(z)).toBe(LONG);
  });

  it("is refused where it was cut short, or is none", async () => {
    await pack(LONG);
    await expect(unpack(packed(LONG)!.slice(0, 12))).rejects.toThrow("cut short");
    await expect(unpack("!")).rejects.toThrow("cut short");
  });

  it("is refused where it would unfold to more than a megabyte", async () => {
    const bomb = "a".repeat((1 << 20) + 1);
    await pack(bomb);
    await expect(unpack(packed(bomb)!)).rejects.toThrow("cut short");
  });
});
