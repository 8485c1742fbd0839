/* Whatever is asked for, by one rule: a newer request for the same thing cancels the older one, the same
   request joins it, and leaving cancels. How it failed is said in one sentence, everywhere. */

import { get } from "./api";

/** Nobody waits for this answer any more. */
class Left extends Error {}

export const isLeft = (error: unknown): boolean =>
  error instanceof Left || (error instanceof DOMException && error.name === "AbortError");

export const said = (error: unknown): string => (error instanceof Error ? error.message : String(error));

type Load<T> = (signal: AbortSignal) => Promise<T>;

export class Resource<T> {
  /** The last answer, also while another is on its way, or has failed. */
  value = $state.raw<T | null>(null);
  /** Why what was asked for last is not here. */
  problem = $state("");
  private key = "";
  private coming: Promise<T> | null = null;
  private leaving: AbortController | null = null;

  /** The answer by its key: the one that is here or on its way, or a new one. */
  ask(key: string, load: Load<T> = (signal) => get<T>(key, signal)): Promise<T> {
    const coming = this.key === key && this.coming ? this.coming : this.load(key, load);
    return coming.finally(() => {
      if (this.key !== key) throw new Left();
    });
  }

  private load(key: string, load: Load<T>): Promise<T> {
    this.leave();
    const leaving = (this.leaving = new AbortController());
    const coming = load(leaving.signal);
    [this.key, this.coming] = [key, coming];
    const done = (problem: string, value: T | null): void => {
      if (this.leaving !== leaving) return;
      this.leaving = null;
      this.problem = problem;
      if (problem)
        this.coming = null; // to be asked for again
      else this.value = value;
    };
    coming.then((value) => done("", value)).catch((error) => done(said(error), null));
    return coming;
  }

  /** For an effect: ask, after some milliseconds if there are any, until the effect is over. */
  want(key: string, load?: Load<T>, wait = 0): () => void {
    const ask = (): void => void this.ask(key, load).catch(() => undefined);
    const timer = wait ? setTimeout(ask, wait) : undefined;
    if (!wait) ask();
    return () => {
      clearTimeout(timer);
      this.leave();
    };
  }

  /** Nothing of it is wanted any more; what is on its way is given up. */
  leave(): void {
    this.leaving?.abort();
    [this.key, this.coming, this.leaving] = ["", null, null];
  }
}

let passes = 0;

/** A new pass over all that the page needs: whoever waits for a stage of an older one goes no further. */
export const pass = (): void => void passes++;

export class Stage<T> extends Resource<T> {
  override ask(key: string, load?: Load<T>): Promise<T> {
    const turn = passes;
    return super.ask(key, load).finally(() => {
      if (turn !== passes) throw new Left();
    });
  }
}
