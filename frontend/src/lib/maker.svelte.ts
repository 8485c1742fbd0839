/* The run that the server is asked to make: one at a time, watched layer by layer. */

import { events, Failure, remove } from "./api";
import type { Making, Summary } from "./types";

export interface Posted {
  id: string;
  clean: string;
  /** What is to be shown of it; of a page in a file, to be asked for. */
  summary?: Summary;
}

type Say = (busy: string) => void;

class Maker {
  /** How far the run has come that is under way. */
  making = $state.raw<Making | null>(null);
  private posted: { body: string; result: Promise<Posted>; abort: AbortController } | null = null;

  /** Have a run made: the one that is under way, if it is this one, which otherwise is given up. */
  made(wanted: object, say: Say): Promise<Posted> {
    const body = JSON.stringify(wanted);
    if (this.posted?.body !== body) {
      this.posted?.abort.abort();
      const abort = new AbortController();
      const posted = { body, abort, result: this.watched(wanted, abort.signal, say) };
      this.posted = posted;
      void posted.result
        .catch(() => undefined)
        .finally(() => {
          if (this.posted === posted) [this.posted, this.making] = [null, null];
        });
    }
    return this.posted!.result;
  }

  private async watched(wanted: object, signal: AbortSignal, say: Say): Promise<Posted> {
    let here: Making | null = null;
    for await (const { name, about } of events("/api/runs", wanted, signal)) {
      if (name === "run") return about as Posted;
      if (name === "begun") here = { ...(about as Making), words: [] };
      if (name === "layer" && here) {
        this.making = here = { ...here, words: [...here.words, about as Making["words"][number]] };
        say(`layer ${here.words.at(-1)!.layer} of ${here.layers}`);
      }
    }
    const at = here?.words.at(-1);
    throw new Failure(`The run was stopped${at ? ` after layer ${at.layer} of ${here!.layers}` : ""}.`, "Stopped", 0);
  }

  /** Give up the run that is under way. */
  cancel(): void {
    if (this.making) void remove(`/api/runs/${this.making.id}`);
  }
}

export const maker = new Maker();
