/* The run that the server is asked to make: one at a time, watched layer by layer. */

import { events, Failure, remove } from "./api";
import { keyOf } from "./reading";
import { Stage } from "./resource.svelte";
import type { Making, RunRequest, Summary } from "./types";

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
  private posted = new Stage<Posted>();

  made(request: RunRequest, say: Say): Promise<Posted> {
    return this.posted.ask(keyOf(request), async (signal) => {
      try {
        return await this.watched(request, signal, say);
      } finally {
        if (!signal.aborted) this.making = null;
      }
    });
  }

  /** What was made may be gone, or was not made at all. */
  leave(): void {
    this.posted.leave();
    this.making = null;
  }

  private async watched(request: RunRequest, signal: AbortSignal, say: Say): Promise<Posted> {
    let here: Making | null = null;
    for await (const { name, about } of events("/api/runs", request, signal)) {
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
