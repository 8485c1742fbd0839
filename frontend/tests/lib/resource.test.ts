import { describe, expect, it } from "vitest";
import { isLeft, pass, Resource, Stage } from "../../src/lib/resource.svelte";

/** Something to ask for whose answer comes when it is given. */
function pending(): {
  load: (signal: AbortSignal) => Promise<string>;
  answer: (x: string) => void;
  asked: AbortSignal[];
} {
  const asked: AbortSignal[] = [];
  let answer = (_: string): void => undefined;
  const promise = new Promise<string>((resolve) => (answer = resolve));
  const load = (signal: AbortSignal): Promise<string> => {
    asked.push(signal);
    return promise;
  };
  return { load, answer, asked };
}

const reasonOf = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => "an answer",
    (error) => error,
  );

describe("a resource", () => {
  it("asks once for what is asked twice", async () => {
    const [one, { load, answer, asked }] = [new Resource<string>(), pending()];
    const both = [one.ask("a", load), one.ask("a", load)];
    answer("found");
    expect(await Promise.all(both)).toEqual(["found", "found"]);
    expect(asked.length).toBe(1);
    expect(one.value).toBe("found");
  });

  it("gives up the older request for a newer one, whose answer alone counts", async () => {
    const [one, older, newer] = [new Resource<string>(), pending(), pending()];
    const first = reasonOf(one.ask("a", older.load));
    const second = one.ask("b", newer.load);
    expect(older.asked[0]!.aborted).toBe(true);
    newer.answer("newer");
    older.answer("older");
    expect(await second).toBe("newer");
    expect(isLeft(await first)).toBe(true);
    expect(one.value).toBe("newer");
  });

  it("gives up what an effect leaves", async () => {
    const [one, { load, answer, asked }] = [new Resource<string>(), pending()];
    const leave = one.want("a", load);
    leave();
    answer("too late");
    expect(asked[0]!.aborted).toBe(true);
    await Promise.resolve();
    expect(one.value).toBeNull();
  });

  it("says why it failed, keeps the answer before, and asks again", async () => {
    const one = new Resource<string>();
    await one.ask("a", () => Promise.resolve("before"));
    const failed = await reasonOf(one.ask("b", () => Promise.reject(new Error("there is no b"))));
    expect(failed).toEqual(new Error("there is no b"));
    expect([one.value, one.problem]).toEqual(["before", "there is no b"]);
    expect(await one.ask("b", () => Promise.resolve("now"))).toBe("now");
    expect([one.value, one.problem]).toEqual(["now", ""]);
  });

  it("is asked for by its path, if nothing else is said", async () => {
    const one = new Resource<unknown>();
    expect(await reasonOf(one.ask("/nowhere"))).toMatchObject({ kind: "Gone" });
  });
});

describe("a stage", () => {
  it("holds back those that wait in an older pass, and answers those of the newer", async () => {
    const [one, { load, answer, asked }] = [new Stage<string>(), pending()];
    const older = reasonOf(one.ask("a", load));
    pass();
    const newer = one.ask("a", load);
    answer("found");
    expect(isLeft(await older)).toBe(true);
    expect(await newer).toBe("found");
    expect(asked.length).toBe(1);
  });
});
