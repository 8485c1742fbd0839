/* What the server tells, and its numbers as the page holds them. */

export type * from "./api-types";

/** A part of a step's values, row by row. */
export interface Values {
  name: string;
  shape: number[];
  top: number;
  left: number;
  rows: number;
  columns: number;
  data: Float32Array;
}
