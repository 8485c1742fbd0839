/* Where the page stands: the address, and the history of the browser. */

import { otherOf, read, written, type Address } from "./address";
import { comparing } from "./comparing.svelte";
import { pack, unpack } from "./packing";
import { Stage } from "./resource.svelte";
import type { Cell } from "./types";

/** What leads to another number than the one that was unfolded. */
const ELSEWHERE = "step model text second word after example upload index given masks".split(" ");
/** Numbers that the way here holds; the first of a longer one are forgotten. */
const DEEPEST = 16;

export abstract class Place {
  place = $state.raw<Address>(read(new URL(location.href)));
  /** A sentence that goes away again. */
  note = $state("");
  private text = new Stage<string>();

  /** Ask for whatever the address needs that is not here yet. */
  protected abstract follow(): Promise<void>;

  /** What the address says of the run that is shown: A, or B as if it stood alone. */
  get side(): Address {
    return this.place.vs && this.place.show === "b" && !comparing.problem ? otherOf(this.place) : this.place;
  }

  get at(): Cell {
    return this.place.at ?? [];
  }

  get depth(): number {
    return (history.state?.depth as number | undefined) ?? 0;
  }

  /** Go where the browser's arrows lead. */
  protected listen(): void {
    window.addEventListener("popstate", () => {
      this.place = read(new URL(location.href));
      void this.follow();
    });
  }

  /** Go to another place: a click pushes, moving about replaces. */
  go(change: Partial<Address>, replace = false): void {
    const way = ELSEWHERE.some((name) => name in change) ? [] : this.place.way;
    this.place = { ...this.place, way, ...change };
    const state = replace ? history.state : { depth: this.depth + 1 };
    history[replace ? "replaceState" : "pushState"](state, "", written(this.place));
    void this.follow();
  }

  /** The same place, of which more is known now. */
  protected settle(change: Partial<Address> = {}): void {
    const place = { ...this.place, ...change };
    if (written(place) !== written(this.place)) this.place = place;
    history.replaceState(history.state, "", written(this.place));
  }

  /** Go down to a number that the one at the cursor was made of, and note the way. */
  into(step: string, at: Cell): void {
    const { step: from, at: cell, way } = this.place;
    const here = { step: from, at: cell ?? [] };
    this.go({ step, at, way: [...way, ...(from && cell ? [here] : [])].slice(-DEEPEST) });
  }

  /** Change what the room says in its own query; an empty text takes it out. */
  say(own: Record<string, string>, replace = false): void {
    this.go({ own: { ...this.place.own, ...own } }, replace);
  }

  /** Settings of the sampler, which change no number but those of the word list. */
  tune(change: Pick<Partial<Address>, "T" | "k" | "p" | "seed">): void {
    this.settle(change);
  }

  fold(): void {
    if (this.depth > 0) history.back();
  }

  /** Read another text, in the run that is shown. */
  retype(text: string, more: Partial<Address> = {}): void {
    const { vs } = this.place;
    if (vs && this.side !== this.place) this.go({ vs: { ...vs, text }, ...more });
    else this.go({ text, ...more });
  }

  /** The texts, where the address holds them deflated. */
  protected async unfolded(): Promise<void> {
    const { text, packed } = this.place;
    if (text === null && packed) {
      const found = await this.text.ask(packed, () => unpack(packed));
      this.place = { ...this.place, text: found, packed: null };
    }
    const { vs } = this.place;
    if (vs?.packed && vs.text === null) {
      const found = await this.text.ask(vs.packed, () => unpack(vs.packed!));
      this.place = { ...this.place, vs: { ...vs, text: found, packed: null } };
    }
  }

  /** A long text is deflated, which takes a moment; the address follows. */
  protected async shorten(): Promise<void> {
    for (const text of [this.place.text, this.place.vs?.text ?? null]) {
      if (text !== null && (await pack(text))) this.settle();
    }
  }
}
