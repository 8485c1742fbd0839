/* One run, one cursor: the place, what was computed for it and the number at the cursor, each of which
   knows only what stands before it; and what one can do to them. */

import { NOTHING, READS, type Address } from "./address";
import { Failure, get, sent } from "./api";
import { atlas } from "./atlas.svelte";
import { comparing } from "./comparing.svelte";
import { Cursor } from "./cursor.svelte";
import { about, holds, isKept } from "./kept";
import { maskable } from "./reading";
import { pass } from "./resource.svelte";
import { roomy } from "./shape.svelte";
import type { Equation, ModelName } from "./types";

export class Explorer extends Cursor {
  async start(): Promise<void> {
    this.listen();
    try {
      const all = [get<ModelName[]>("/api/models"), get<Record<string, Equation>>("/api/equations")] as const;
      [this.models, this.equations] = await Promise.all(all);
    } catch (error) {
      return this.fail(error);
    }
    await this.follow();
  }

  protected async follow(): Promise<void> {
    pass();
    for (const filled of [this.cuts, comparing.taken]) filled.leave(); // what is wanted now comes before them
    try {
      await this.followed();
    } catch (error) {
      this.fail(error);
    }
  }

  private async followed(): Promise<void> {
    // Without waiting where nothing is missing: a run is asked for before the page is drawn anew.
    if ([this.place, this.place.vs].some((one) => one?.packed && one.text === null)) await this.unfolded();
    const reads = READS.includes(this.place.room);
    const b = this.place.vs && reads ? await comparing.prepare(this) : null;
    if (!this.place.vs) comparing.clear();
    await this.followModel();
    void this.shorten();
    if (!reads) {
      [this.failure, this.busy] = [null, ""];
      return;
    }
    const request = this.request(b);
    if (!request) return this.empty(null); // the page asks for a picture or a series
    await this.followRun(request);
    const told = b && (await comparing.follow(this, b));
    if (b && !told && this.place.show === "b") return this.go({ show: "change" }, true); // A stands alone
    const heads = this.place.room === "heads" ? atlas.follow(this.run!) : null;
    const apart = told && heads ? comparing.followHeads(atlas.by) : null;
    await Promise.all([this.followCursor(), heads, apart, this.drawing]); // which need not wait for each other
    if (told) await comparing.followCursor(this);
    this.failure = null;
    this.busy = "";
    const words = this.place.spine === "words";
    if (words || (roomy.now && this.states)) await this.followLens();
    if (told && words) await comparing.followLens(this);
    if (told) await comparing.followPatches(this);
    await this.followEffects(this.step?.place.layer);
  }

  /** Cut what the cursor stands in, or take that cut back. */
  toggle(name = this.cut): void {
    if (!name) {
      this.note = "x cuts a head or a feedforward network; the cursor stands in neither";
      return;
    }
    const { vs, on, cuts, from } = this.place;
    const there =
      vs && on === "b" ? vs.cuts.includes(name) : (vs && on === "a" ? this.place : this.side).cuts.includes(name);
    const cut = (some: string[]): string[] => [...some.filter((one) => one !== name), ...(there ? [] : [name])];
    if (isKept && !holds(cut(cuts))) {
      this.note = `this file holds one cut at a time; 'vesalius explore ${about()?.model}' makes more`;
      return;
    }
    if (!vs) return this.go({ cuts: cut(cuts) });
    const rest = { from: from.filter((one) => one !== name) };
    const other = on === "a" ? {} : { vs: { ...vs, cuts: cut(vs.cuts) } };
    this.go({ ...(on === "b" ? {} : { cuts: cut(cuts), ...rest }), ...other });
  }

  /** Hide a token from the model, or show it again. */
  hide(place = this.place.after ?? this.run?.position ?? -1): void {
    if (!this.run || !this.model || !maskable(this.run, this.model, place)) {
      this.note = this.model?.masks
        ? "this token is no word that can be masked"
        : "m hides a token of a model that restores some; this one restores none";
      return;
    }
    const { masks } = this.place;
    const shown = masks.includes(place);
    const rest = shown ? masks.filter((one) => one !== place) : [...masks, place].sort((a, b) => a - b);
    this.go({ masks: rest, after: shown && rest.length ? rest[0]! : place, word: null, at: null });
  }

  /** Read another picture or series; the cursor stays where it is, if it can. */
  look(at: Partial<Address>): void {
    this.go({ ...NOTHING, masks: [], word: null, after: null, at: null, ...at });
  }

  /** Bring a file to the server, and read it. */
  async bring(file: File): Promise<void> {
    this.busy = `reading ${file.name}`;
    try {
      const query = new URLSearchParams({ model: this.place.model, name: file.name });
      const { upload } = await sent<{ upload: string }>(`/api/uploads?${query}`, file);
      this.look({ upload });
    } catch (error) {
      pass(); // what is still on its way would clear the failure
      this.failure = error instanceof Failure ? error : new Failure(String(error), "Error", 0);
      this.busy = ""; // what was read before is still here
    }
  }

  undo(): void {
    const { cuts, vs, from } = this.place;
    if (from.length) return this.go({ from: from.slice(0, -1) });
    const last = this.side.cuts.at(-1) ?? cuts.at(-1) ?? vs?.cuts.at(-1);
    if (last === undefined) return;
    const rest = (some: string[]): string[] => some.filter((one) => one !== last);
    this.go({ cuts: rest(cuts), ...(vs ? { vs: { ...vs, cuts: rest(vs.cuts) } } : {}) });
  }
}

export const explorer = new Explorer();
