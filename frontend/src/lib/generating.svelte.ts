/* Drawing the next token and continuing the text, by the server's sampler and engine. */

import { events, Failure, post } from "./api";
import { explorer } from "./explorer.svelte";
import { percent, shown } from "./format";

interface Token {
  id: number;
  token: string;
  probability: number;
}

class Generating {
  /** Tokens that have come so far. */
  coming = $state.raw<Token[]>([]);
  busy = $state(false);
  tokens = $state(20);
  /** The last continuation: the text before it, what the model wrote, and both as they are read together. */
  written = $state.raw<{ before: string; text: string; whole: string } | null>(null);
  private abort: AbortController | null = null;

  /** The sampler's settings, as the server names them. */
  get settings(): { temperature?: number; top_k?: number; top_p?: number } {
    const { T, k, p } = explorer.place;
    return { ...(T !== null && { temperature: T }), ...(k !== null && { top_k: k }), ...(p !== null && { top_p: p }) };
  }

  private get wanted(): object {
    const { seed, after } = explorer.place;
    return { ...this.settings, seed, ...(after !== null && { position: after }) };
  }

  /** What the model wrote, for as long as the text that it wrote to is read. */
  get shown(): { before: string; text: string } | null {
    return this.written && explorer.side.text === this.written.whole ? this.written : null;
  }

  async draw(): Promise<void> {
    const run = explorer.run;
    if (!run || this.busy) return;
    try {
      const drawn = await post<Token & { before: string | null }>(`/api/runs/${run.id}/draw`, this.wanted);
      if (explorer.run?.id !== run.id) return;
      this.append(drawn.before, drawn.token);
      explorer.note = `drew ${shown(drawn.token)}, which had ${percent(drawn.probability)}`;
    } catch (error) {
      explorer.note = (error as Error).message;
    }
  }

  async go(): Promise<void> {
    const run = explorer.run;
    if (!run || this.busy) return;
    const abort = (this.abort = new AbortController());
    let [before, text] = [null as string | null, ""];
    [this.busy, this.coming] = [true, []];
    try {
      const wanted = { ...this.wanted, tokens: this.tokens };
      for await (const { name, about } of events(`/api/runs/${run.id}/continue`, wanted, abort.signal)) {
        if (explorer.run?.id !== run.id) return abort.abort();
        if (name === "begun") before = (about as { before: string | null }).before;
        if (name === "token") this.coming = [...this.coming, about as Token];
        if (name === "text") text += about as string;
      }
    } catch (error) {
      if (error instanceof Failure) explorer.note = error.message;
    } finally {
      [this.busy, this.abort] = [false, null];
      const ids = this.coming.map((one) => one.token).join(" ");
      this.coming = [];
      if (explorer.run?.id === run.id && ids) this.append(before, explorer.model?.tokenizer === null ? ids : text);
    }
  }

  /** Stop; what has come so far is kept. */
  stop(): void {
    this.abort?.abort();
  }

  private append(before: string | null, text: string): void {
    const blank = explorer.model?.tokenizer === null ? " " : ""; // where tokens are numbers
    const start = before ?? explorer.side.text ?? "";
    const whole = `${start}${blank}${text}`;
    const earlier =
      this.shown && start === `${this.shown.before}${this.shown.text}` ? this.shown : { before: start, text: "" };
    this.written = { before: earlier.before, text: `${earlier.text}${blank}${text}`, whole };
    explorer.retype(whole, { seed: explorer.place.seed + 1, word: null, after: null, at: null });
  }
}

export const generating = new Generating();
