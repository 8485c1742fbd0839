/* The rooms of the page: what each is called for a model, and what it shows. */

import type { Component } from "svelte";
import { ROOMS, type Room } from "../lib/address";
import { isKept } from "../lib/kept";
import type { ModelInfo } from "../lib/types";
import Dissect from "./Dissect.svelte";
import Heads from "./Heads.svelte";
import Ledger from "./Ledger.svelte";
import Runs from "./Runs.svelte";
import Words from "./Words.svelte";

interface Opened {
  /** What the room is called, or nothing where it has no use for this model. */
  title: (model: ModelInfo) => string;
  component: Component;
}

export const OPENED: Partial<Record<Room, Opened>> = {
  heads: { title: (model) => (model.heads ? "Heads" : model.gates ? "Gates" : ""), component: Heads },
  dissect: { title: () => "Dissect", component: Dissect },
  words: { title: (model) => (model.tokenizer === null ? "" : "Words"), component: Words },
  ledger: { title: () => "Ledger", component: Ledger },
  runs: { title: () => "Runs", component: Runs },
};

/** The rooms that there are for a model, with their keys and titles. */
export function roomsOf(model: ModelInfo): { room: Room; key: string; title: string }[] {
  const rooms = ROOMS.map((room, i) => ({ room, key: String(i + 1), title: OPENED[room]?.title(model) ?? "" }));
  return rooms.filter((one) => one.title && (!isKept || one.room === "dissect")); // a file holds one run
}
