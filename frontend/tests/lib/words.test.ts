import { describe, expect, it } from "vitest";
import { idOf, matching } from "../../src/lib/words";

const SPACED = [" head", "head", " heads", " ahead", " Head", "e"];
const PIECES = ["head", "##head", "heads", "##s"];

describe("a word that one types", () => {
  it("is found itself first, then what begins with it, then what holds it", () => {
    expect(matching(SPACED, "head").map((id) => SPACED[id])).toEqual([" head", " Head", "head", " heads", " ahead"]);
  });

  it("is a whole word before it is a piece", () => {
    expect(matching(PIECES, "head").map((id) => PIECES[id])).toEqual(["head", "##head", "heads"]);
  });

  it("finds nothing where nothing is typed", () => {
    expect(matching(SPACED, "")).toEqual([]);
    expect(idOf(SPACED, "  ")).toBeUndefined();
  });

  it("is the token with a blank before it, if there is one", () => {
    expect(idOf(SPACED, "head")).toBe(0);
    expect(idOf(SPACED, "e")).toBe(5);
    expect(idOf(SPACED, "␣ahead")).toBe(3);
    expect(idOf(SPACED, "tail")).toBeUndefined();
  });
});
