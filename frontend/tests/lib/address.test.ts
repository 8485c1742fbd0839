import { describe, expect, it } from "vitest";
import { otherOf, read, written, type Address } from "../../src/lib/address";

const at = (path: string): Address => read(new URL(path, "http://127.0.0.1"));

describe("an address", () => {
  it("says the model, the room, the step and the cell", () => {
    const place = at("/gpt/dissect/mu[3,4]?at=2,1#t=He%20shook%20his");
    expect(place).toMatchObject({ model: "gpt", room: "dissect", step: "mu[3,4]", at: [2, 1], text: "He shook his" });
  });

  it.each([
    "/gpt/dissect/mu[3,4]?at=2,1&cut=P[3,4]&word=769&after=2#t=He%20shook%20his",
    "/vit/dissect/mu[3,4]?at=0,24&example=4",
    "/gpt/dissect/H[4]?at=20,2&way=Y_hat:769,2/Z:769,2",
    "/gpt/dissect/mu[3,4]?at=2,1&vs=gpt&show=b#t=He%20shook%20his&v=He%20opened%20his",
    "/bert/dissect?mask=1,4#t=a&b=another",
    "/gpt/words?near=12&view=3d",
    "/gpt/dissect?T=0.8&k=40&p=0.9&seed=3",
    "/gpt/dissect?vs=gpt&vscut=P[3,4]&on=b&from=D[2]#t=%2B%20%26",
  ])("is the same after it was read and written: %s", (path) => {
    expect(written(at(path))).toBe(path);
  });

  it("opens Dissect where it names no room", () => {
    expect(at("/gpt").room).toBe("dissect");
    expect(at("/gpt/kitchen").room).toBe("dissect");
  });

  it.each(["at=x", "at=1,-2", "word=1e3", "T=-1", "T=101", "k=0", "p=1.5", "upload=../x", "way=Z", "vs="])(
    "passes over what it cannot mean: %s",
    (query) => {
      expect(at(`/gpt/dissect?${query}`)).toEqual(at("/gpt/dissect"));
    },
  );

  it("takes a letter that was cut short as it stands", () => {
    expect(at("/gpt/dissect/%E4%B8").step).toBe("%E4%B8");
  });

  it("writes only what its own room says", () => {
    const place = { ...at("/gpt/words?near=12"), room: "ledger" as const };
    expect(written(place)).toBe("/gpt/ledger");
  });
});

describe("the other run", () => {
  it("stands alone with its own model and cuts", () => {
    const other = otherOf(at("/gpt/dissect?cut=P[3,4]&vs=lstm&vscut=D[1]#t=one"));
    expect(other).toMatchObject({ model: "lstm", cuts: ["D[1]"], text: "one", vs: null });
  });

  it("has no masks where it reads a text of its own", () => {
    expect(otherOf(at("/bert/dissect?mask=1&vs=bert#t=a&v=b")).masks).toEqual([]);
    expect(otherOf(at("/bert/dissect?mask=1&vs=bert#t=a")).masks).toEqual([1]);
  });

  it("is the run itself where nothing is compared", () => {
    const place = at("/gpt/dissect");
    expect(otherOf(place)).toBe(place);
  });
});
